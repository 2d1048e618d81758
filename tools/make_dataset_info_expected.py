#!/usr/bin/env python3
"""Write what LLaMA-Factory makes of the data sets of tests/data/data/info/dataset_info.json: NAME.expected.jsonl beside it.

Run: tools/make_dataset_info_expected.py tests/data/data/info FOLDER

FOLDER is an unpacked llamafactory wheel (0.9.5). Its parser.py reads the entries and its converter.py turns the rows into
conversations; both are run as they are, with stand-ins for what they import of the package. A row that it skips is left out. Its
converter for openai writes "detailed thinking off" into every system text: that is taken out again.
"""
import importlib.util
import json
import logging
import sys
import types
from pathlib import Path

ROLES = {"function": "function_call", "observation": "observation"}
SAID = {"user": "human", "assistant": "gpt"}


class Role(str):
    def __new__(cls, text):
        role = super().__new__(cls, text)
        role.value = text
        return role


def stand_ins():
    """Modules that parser.py and converter.py name in their imports."""
    logger = logging.getLogger("llamafactory")
    logger.warning_rank0 = logger.warning_rank0_once = lambda text: None
    roles = types.SimpleNamespace(**{n.upper(): Role(n) for n in ("user", "assistant", "system", "function", "observation")})
    contents = {
        "llamafactory": {}, "llamafactory.data": {}, "llamafactory.extras": {},
        "llamafactory.extras.logging": {"get_logger": lambda name: logger},
        "llamafactory.extras.constants": {"DATA_CONFIG": "dataset_info.json"},
        "llamafactory.extras.misc": {"use_modelscope": lambda: False, "use_openmind": lambda: False},
        "llamafactory.data.data_utils": {"Role": roles},
        "huggingface_hub": {"hf_hub_download": None},
    }
    for name, members in contents.items():
        module = types.ModuleType(name)
        module.__path__ = []
        module.__dict__.update(members)
        sys.modules[name] = module
    sys.modules["llamafactory.extras"].logging = sys.modules["llamafactory.extras.logging"]


def load(folder, name):
    spec = importlib.util.spec_from_file_location(f"llamafactory.data.{name}", folder / f"llamafactory/data/{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


class Cells(dict):
    """The datasets library fills columns that a row lacks."""

    def __missing__(self, key):
        return None


def rows_of(path):
    for file in sorted(path.iterdir()) if path.is_dir() else [path]:
        text = file.read_text()
        yield from (Cells(r) for r in (json.loads(text) if text.startswith("[") else map(json.loads, text.splitlines())))


def expected(made, openai):
    system = made["_system"] or ""
    if openai:
        system = system.removesuffix("detailed thinking off").removesuffix("\n")
    if not made["_response"]:
        return {"text": made["_prompt"][0]["content"]} if made["_prompt"] else None
    turns = [{"from": "system", "value": system}] if system else []
    for m in made["_prompt"] + made["_response"]:
        turns.append({"from": SAID.get(m["role"], ROLES.get(m["role"])), "value": m["content"]})
    return {"conversations": turns, **({"tools": made["_tools"]} if made["_tools"] else {})}


def main():
    where, folder = Path(sys.argv[1]), Path(sys.argv[2])
    stand_ins()
    parser, converter = load(folder, "parser"), load(folder, "converter")
    info = json.loads((where / "dataset_info.json").read_text())
    for name in (n for n in info if n.startswith("good_")):
        attr = parser.get_dataset_list([name], str(where))[0]
        convert = converter.DATASET_CONVERTERS[attr.formatting](attr, None)
        made = [expected(convert(row), attr.formatting == "openai") for row in rows_of(where / attr.dataset_name)]
        lines = [json.dumps(r, ensure_ascii=False) for r in made if r]
        (where / f"{name}.expected.jsonl").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
