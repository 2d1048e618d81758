#!/usr/bin/env python3
"""Write tests/data/tool_arguments.tsv: what the command lines of other tools take, beyond TrainingArguments.

Run: tools/make_tool_arguments.py tests/data/tool_arguments.tsv FOLDER...

The folders hold sources, which are read and not imported: site-packages with torch, transformers, trl and accelerate; the
unpacked wheels or archives of llamafactory, axolotl, torchtune and deepspeed; and run_clm.py, alpaca.py, fastchat.py (train.py
of transformers' examples, of Stanford Alpaca and of FastChat). Columns: tool, name, type, default ("-": none, or made at run
time). A name that several tools have stands under the first.
"""
import ast
import re
import sys
from pathlib import Path

# tool, file, classes ("": every argument of an argparse parser; "yaml": keys of recipes)
SOURCES = [
    ("run_clm", "run_clm.py", "ModelArguments DataTrainingArguments"),
    ("trl", "trl/trainer/base_config.py", "_BaseConfig"),
    ("trl", "trl/trainer/sft_config.py", "SFTConfig"),
    ("trl", "trl/trainer/model_config.py", "ModelConfig"),
    ("trl", "trl/scripts/utils.py", "ScriptArguments DatasetMixtureConfig"),
    ("alpaca", "alpaca.py", "ModelArguments DataArguments TrainingArguments"),
    ("fastchat", "fastchat.py", "ModelArguments DataArguments TrainingArguments"),
    ("llamafactory", "llamafactory/hparams/model_args.py", "BaseModelArguments QuantizationArguments ProcessorArguments "
     "ExportArguments VllmArguments SGLangArguments KTransformersArguments ModelArguments"),
    ("llamafactory", "llamafactory/hparams/data_args.py", "DataArguments"),
    ("llamafactory", "llamafactory/hparams/finetuning_args.py", "FreezeArguments LoraArguments OFTArguments RLHFArguments "
     "GaloreArguments ApolloArguments BAdamArgument SwanLabArguments FinetuningArguments"),
    ("llamafactory", "llamafactory/hparams/training_args.py", "RayArguments ProfilerArguments Fp8Arguments TrainingArguments"),
    ("llamafactory", "llamafactory/hparams/generating_args.py", "GeneratingArguments"),
    ("axolotl", "axolotl/utils/schemas/config.py", "AxolotlInputConfig"),
    ("axolotl", "axolotl/utils/schemas/model.py", "ModelInputConfig ModelOutputConfig"),
    ("axolotl", "axolotl/utils/schemas/peft.py", "LoraConfig ReLoRAConfig"),
    ("axolotl", "axolotl/utils/schemas/training.py", "HyperparametersConfig JaggedLRConfig"),
    ("axolotl", "axolotl/utils/schemas/integrations.py", "MLFlowConfig LISAConfig WandbConfig CometConfig GradioConfig RayConfig "
     "OpenTelemetryConfig TrackioConfig"),
    ("axolotl", "axolotl/utils/schemas/multimodal.py", "MultiModalConfig"),
    ("axolotl", "axolotl/utils/schemas/deprecated.py", "DeprecatedParameters RemappedParameters"),
    ("torchtune", "recipes/configs/llama3/8B_full.yaml", "yaml"),
    ("torchtune", "recipes/configs/llama3_2/1B_full_single_device.yaml", "yaml"),
    ("torchrun", "torch/distributed/run.py", ""),
    ("accelerate", "accelerate/commands/launch.py", ""),
    ("deepspeed", "deepspeed/launcher/runner.py", ""),
    ("deepspeed", "deepspeed/__init__.py", ""),
]


def constant(node):
    """A default as it would be written on a command line; "-" when it is no plain value."""
    if isinstance(node, ast.Call):
        given = [k.value for k in node.keywords if k.arg == "default"]
        return constant(given[0]) if given else constant(node.args[0]) if node.args else "-"
    try:
        value = ast.literal_eval(node)
    except ValueError:
        return "-"
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) or '""' if isinstance(value, (int, float, str)) else "-"


def of_classes(text, names):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef) and node.name in names:
            for item in node.body:
                if isinstance(item, ast.AnnAssign) and item.target.id not in ("model_config",) and item.target.id[0] != "_":
                    yield (item.target.id, ast.unparse(item.annotation).replace(" ", "").replace("\n", "")[:60],
                           constant(item.value) if item.value else "-")


def of_parser(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "add_argument":
            given = {k.arg: k.value for k in node.keywords}
            kind = "flag" if ast.unparse(given.get("action", ast.Constant(""))).strip("'").startswith("store_") else "value"
            for name in node.args:
                if isinstance(name, ast.Constant) and str(name.value).startswith("--"):
                    yield name.value[2:].replace("-", "_"), kind, constant(given["default"]) if "default" in given else "-"


def of_yaml(text):
    """Two levels of plain keys, as "optimizer.lr"; what is made of other keys has no default."""
    block = ""
    for line in text.splitlines():
        m = re.match(r"^(  )?([a-z_]+): *([^#]*?) *(#.*)?$", line)
        if not m or m[2].startswith("_"):
            continue
        if not m[1]:
            block = m[2]
        value = m[3].strip("'\"")
        if not value and not m[1]:
            continue
        plain = re.fullmatch(r"[\w.-]+", value)
        text_value = "-" if not plain else {"null": "none", "True": "true", "False": "false"}.get(value, value)
        yield (f"{block}.{m[2]}" if m[1] else m[2]), "value", text_value


def main():
    folders = [Path(f) for f in sys.argv[2:]]
    own = {line.split("\t")[0] for line in (Path(sys.argv[1]).parent / "trainer_arguments.tsv").read_text().splitlines()}
    lines = ["# what other tools take on their command lines: tool, name, type, default; written by tools/make_tool_arguments.py"]
    for tool, name, kinds in SOURCES:
        file = next((f / name for f in folders if (f / name).is_file()), None)
        if not file:
            sys.exit(f"{name} is in none of the folders")
        text = file.read_text()
        rows = of_yaml(text) if kinds == "yaml" else of_classes(text, kinds.split()) if kinds else of_parser(text)
        for argument, kind, fallback in rows:
            if argument not in own:
                lines.append("\t".join((tool, argument, kind, fallback)))
                own.add(argument)
    Path(sys.argv[1]).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
