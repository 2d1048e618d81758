#!/usr/bin/env python3
"""Fails on an #include that looks upward.

A room is a folder of src/. A file may include its own room and rooms of lower levels; rooms of the
same level are peers and do not know each other. Includes are written "room/file.h".
"""
import pathlib
import re
import sys

LEVELS = [
    ["base"],
    ["mem"],
    ["io", "comm", "device", "plan"],
    ["tensor"],
    ["model", "tokenizer"],
    ["template"],
    ["data"],
    ["run", "sim", "build"],
    ["optim"],
    ["config"],
    ["engine"],
    ["train", "infer"],
    ["cli"],
]
LEVEL = {room: level for level, rooms in enumerate(LEVELS) for room in rooms}
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')


def fault(room, target):
    """Why a file of room may not include target, or None."""
    other, _, rest = target.partition("/")
    if other == "outcore":
        return None
    if not rest or other not in LEVEL:
        return f'"{target}" is not written "room/file.h"'
    if other == room or LEVEL[other] < LEVEL[room]:
        return None
    if LEVEL[other] == LEVEL[room]:
        return f"{room} and {other} are peers"
    return f"{room} is below {other}"


def check(root):
    """All faults below root/src, as lines."""
    faults = []
    for path in sorted((root / "src").rglob("*.[ch]*")):
        room = path.relative_to(root / "src").parts[0]
        if room not in LEVEL:
            faults.append(f"{path}: the room {room} has no level; add it to check_layers.py")
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            match = INCLUDE.match(line)
            why = match and fault(room, match.group(1))
            if why:
                faults.append(f"{path.relative_to(root)}:{number}: {why}")
    return faults


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    faults = check(root)
    for line in faults:
        print(line, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
