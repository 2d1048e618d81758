#!/usr/bin/env python3
"""Write tests/data/trainer_arguments.tsv: every field of transformers' TrainingArguments.

Run: tools/make_trainer_arguments.py tests/data/trainer_arguments.tsv (transformers importable).
Columns: name, type, default ("-": none, or made at run time).
"""
import dataclasses
import enum
import sys
from pathlib import Path

import transformers


def text(field):
    if field.default_factory is not dataclasses.MISSING or field.default is dataclasses.MISSING:
        return "-"
    value = field.default
    if isinstance(value, enum.Enum):
        value = value.value
    if isinstance(value, bool):
        return str(value).lower()
    return "none" if value is None else str(value) or '""'


def main():
    lines = [f"# transformers {transformers.__version__}: name, type, default; "
             "written by tools/make_trainer_arguments.py"]
    for field in sorted(dataclasses.fields(transformers.TrainingArguments), key=lambda f: f.name):
        kind = getattr(field.type, "__name__", str(field.type))
        lines.append("\t".join((field.name, kind.replace(" ", ""), text(field))))
    Path(sys.argv[1]).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
