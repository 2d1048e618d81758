#!/usr/bin/env python3
"""Write tests/data/tool_arguments.tsv: what the command lines of other tools take, beyond TrainingArguments.

Run: tools/make_tool_arguments.py tests/data/tool_arguments.tsv FOLDER...

The folders hold sources, which are read and not imported: site-packages with torch, trl and accelerate; the unpacked wheels or
archives of llamafactory, axolotl, torchtune, fschat and deepspeed, and of the repositories huggingface/transformers and
tatsu-lab/stanford_alpaca. What a folder holds is told by its NAME-VERSION.dist-info, else by its own name, NAME-VERSION. The table
begins with a comment for each version. Columns: tool, name, type, default ("-": none, or made at run time). A name that several
tools have stands under the first.
"""
import ast
import re
import sys
from pathlib import Path

# tool, package, file, classes ("": every argument of an argparse parser; "@train": those of
# click's command train; "yaml": keys of recipes)
SOURCES = [
    ("run_clm", "transformers", "examples/pytorch/language-modeling/run_clm.py", "ModelArguments DataTrainingArguments"),
    ("trl", "trl", "trl/trainer/base_config.py", "_BaseConfig"),
    ("trl", "trl", "trl/trainer/sft_config.py", "SFTConfig"),
    ("trl", "trl", "trl/trainer/model_config.py", "ModelConfig"),
    ("trl", "trl", "trl/scripts/utils.py", "ScriptArguments DatasetMixtureConfig"),
    ("alpaca", "stanford_alpaca", "train.py", "ModelArguments DataArguments TrainingArguments"),
    ("fastchat", "fschat", "fastchat/train/train.py", "ModelArguments DataArguments TrainingArguments"),
    ("llamafactory", "llamafactory", "llamafactory/hparams/model_args.py", "BaseModelArguments QuantizationArguments ProcessorArguments "
     "ExportArguments VllmArguments SGLangArguments KTransformersArguments ModelArguments"),
    ("llamafactory", "llamafactory", "llamafactory/hparams/data_args.py", "DataArguments"),
    ("llamafactory", "llamafactory", "llamafactory/hparams/finetuning_args.py", "FreezeArguments LoraArguments OFTArguments RLHFArguments "
     "GaloreArguments ApolloArguments BAdamArgument SwanLabArguments FinetuningArguments"),
    ("llamafactory", "llamafactory", "llamafactory/hparams/training_args.py", "RayArguments ProfilerArguments Fp8Arguments TrainingArguments"),
    ("llamafactory", "llamafactory", "llamafactory/hparams/generating_args.py", "GeneratingArguments"),
    ("axolotl", "axolotl", "axolotl/utils/schemas/config.py", "AxolotlInputConfig"),
    ("axolotl", "axolotl", "axolotl/utils/schemas/model.py", "ModelInputConfig ModelOutputConfig"),
    ("axolotl", "axolotl", "axolotl/utils/schemas/peft.py", "LoraConfig ReLoRAConfig"),
    ("axolotl", "axolotl", "axolotl/utils/schemas/training.py", "HyperparametersConfig JaggedLRConfig"),
    ("axolotl", "axolotl", "axolotl/utils/schemas/integrations.py", "MLFlowConfig LISAConfig WandbConfig CometConfig GradioConfig RayConfig "
     "OpenTelemetryConfig TrackioConfig"),
    ("axolotl", "axolotl", "axolotl/utils/schemas/multimodal.py", "MultiModalConfig"),
    ("axolotl", "axolotl", "axolotl/utils/schemas/deprecated.py", "DeprecatedParameters RemappedParameters"),
    ("axolotl", "axolotl", "axolotl/cli/args.py", "TrainerCliArgs"),
    ("axolotl", "axolotl", "axolotl/cli/main.py", "@train"),
    ("torchtune", "torchtune", "recipes/configs/llama3/8B_full.yaml", "yaml"),
    ("torchtune", "torchtune", "recipes/configs/llama3_2/1B_full_single_device.yaml", "yaml"),
    ("torchtune", "torchtune", "recipes/configs/llama2/7B_full_low_memory.yaml", "yaml"),
    ("torchtune", "torchtune", "recipes/configs/mistral/7B_full.yaml", "yaml"),
    ("torchtune", "torchtune", "recipes/configs/gemma2/2B_full.yaml", "yaml"),
    ("torchtune", "torchtune", "recipes/configs/phi4/14B_full.yaml", "yaml"),
    ("torchtune", "torchtune", "recipes/configs/qwen2_5/0.5B_full_single_device.yaml", "yaml"),
    ("torchrun", "torch", "torch/distributed/run.py", ""),
    ("accelerate", "accelerate", "accelerate/commands/launch.py", ""),
    ("deepspeed", "deepspeed", "deepspeed/launcher/runner.py", ""),
    ("deepspeed", "deepspeed", "deepspeed/__init__.py", ""),
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


def of_calls(nodes, method):
    """Options of calls as add_argument("--name", default=...)."""
    for node in nodes:
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == method:
            given = {k.arg: k.value for k in node.keywords}
            action = ast.unparse(given.get("action", ast.Constant(""))).strip("'")
            kind = "flag" if action.startswith("store_") or "is_flag" in given else "value"
            for name in node.args:
                if isinstance(name, ast.Constant) and str(name.value).startswith("--"):
                    yield name.value[2:].replace("-", "_"), kind, constant(given["default"]) if "default" in given else "-"


def of_command(text, command):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef) and node.name == command:
            yield from of_calls(node.decorator_list, "option")


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


def rows_of(text, kinds):
    if kinds == "yaml":
        return of_yaml(text)
    if kinds.startswith("@"):
        return of_command(text, kinds[1:])
    return of_classes(text, kinds.split()) if kinds else of_calls(ast.walk(ast.parse(text)), "add_argument")


def version_of(folder, package):
    """The version of a package that a folder holds; None: it holds none."""
    for name in [f.name for f in folder.glob("*.dist-info")] + [folder.resolve().name]:
        if name.lower().startswith(package + "-"):
            return name[len(package) + 1:].removesuffix(".dist-info")
    return None


def find(folders, package, name):
    for folder in folders:
        version = version_of(folder, package)
        if version and (folder / name).is_file():
            return (folder / name).read_text(), version
    sys.exit(f"{name} of {package} is in none of the folders")


def main():
    folders = [Path(f) for f in sys.argv[2:]]
    own = {line.split("\t")[0] for line in (Path(sys.argv[1]).parent / "trainer_arguments.tsv").read_text().splitlines()}
    versions, lines = {}, []
    for tool, package, name, kinds in SOURCES:
        text, version = find(folders, package, name)
        versions[f"# {tool}: {package} {version}"] = None
        for argument, kind, fallback in rows_of(text, kinds):
            if argument not in own:
                lines.append("\t".join((tool, argument, kind, fallback)))
                own.add(argument)
    head = ["# what other tools take on their command lines: tool, name, type, default; written by tools/make_tool_arguments.py"]
    Path(sys.argv[1]).write_text("\n".join(head + list(versions) + lines) + "\n")


if __name__ == "__main__":
    main()
