#!/usr/bin/env python3
"""Write tests/data/deepspeed_keys.tsv: every key that DeepSpeed's configuration reads.

Run: tools/make_deepspeed_keys.py tests/data/deepspeed_keys.tsv (deepspeed and torch importable)

Three sources, so that no key is listed by hand: the pydantic models of its blocks; the look-ups it
makes while it builds a DeepSpeedConfig from a dictionary that records them; the signatures of its
optimizers and schedulers. Columns: path, type, default ("-": none, or not known).
"""
import inspect
import sys
from pathlib import Path

import torch
from deepspeed import __version__ as version
from deepspeed.inference.config import WeightQuantConfig
from deepspeed.ops.adam.cpu_adam import DeepSpeedCPUAdam
from deepspeed.ops.adam.fused_adam import FusedAdam
from deepspeed.runtime import config as ds, lr_schedules
from deepspeed.runtime.config_utils import DeepSpeedConfigModel

keys = {}


def add(path, kind="-", default="-"):
    old = keys.get(path)
    if old is None or old == ("-", "-"):
        keys[path] = (kind, default)


def text(value):
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return repr(float(value)) if isinstance(value, float) else str(int(value))
    if isinstance(value, str):
        return value or '""'
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(text(v) for v in value) + "]"
    return "-"


def kind_of(annotation):
    name = getattr(annotation, "__name__", str(annotation))
    return name if annotation in (bool, int, float, str) else str(annotation).replace("typing.", "").replace(" ", "")


def model_in(annotation):
    for a in (annotation, *getattr(annotation, "__args__", ())):
        if inspect.isclass(a) and issubclass(a, DeepSpeedConfigModel):
            return a
    return None


def add_model(prefix, model):
    for name, field in model.model_fields.items():
        inner = model_in(field.annotation)
        default = "-" if field.is_required() or field.default_factory else text(field.get_default())
        for spelling in {name, field.alias or name}:
            path = f"{prefix}.{spelling}"
            if inner:
                add(path, "block", "-")
                add_model(path, inner)
            else:
                add(path, kind_of(field.annotation), default)


class Spy(dict):
    """A dictionary that holds nothing but the blocks DeepSpeed asks for, and records what it asks."""

    def __init__(self, path, blocks):
        super().__init__()
        self.path = path
        for name, below in blocks.items():
            super().__setitem__(name, Spy(f"{path}{name}.", below))

    def __copy__(self):
        return self

    def __contains__(self, key):
        add(self.path + str(key), *(("block", "-") if isinstance(self.peek(key), Spy) else ()))
        return super().__contains__(key)

    def keys(self):  # "k in d.keys()" is a look-up too
        return self

    def peek(self, key):
        return super().get(key)

    def get(self, key, default=None):
        held = self.peek(key)
        if isinstance(held, Spy):
            add(self.path + key, "block", "-")
        else:
            add(self.path + key, type(default).__name__ if default is not None else "-", text(default))
        return default if held is None else held

    def __iter__(self):
        return iter(())


BLOCKS = {name: {} for name in (
    "zero_optimization", "activation_checkpointing", "tensorboard", "wandb", "csv_monitor", "comet", "fp16", "bf16",
    "torch_autocast", "optimizer", "scheduler", "flops_profiler", "autotuning", "hybrid_engine", "pipeline",
    "data_types", "aio", "compile", "tensor_parallel", "expert_parallel", "comms_logger")}
BLOCKS["checkpoint"] = {"writer": {}, "parallel_write": {}}
BLOCKS["autotuning"] = {"model_info": {}}
BLOCKS["data_efficiency"] = {"data_sampling": {"curriculum_learning": {}, "dynamic_batching": {}},
                             "data_routing": {"random_ltd": {}}}
BLOCKS["timers"] = {"throughput": {}}


def look_ups():
    spy = Spy("", BLOCKS)
    dict.__setitem__(spy, "train_batch_size", 1)  # without any the configuration does not hold
    ds.DeepSpeedConfig(spy)


def models(config):
    for block, held in (("zero_optimization", config.zero_config), ("fp16", config.float16_config),
                        ("bf16", config.bfloat16_config), ("hybrid_engine", config.hybrid_engine),
                        ("compile", config.compile_config), ("tensor_parallel", config.tensor_parallel_config),
                        ("timers.throughput", config.timers_config)):
        add(block, "block", "-")
        add_model(block, type(held))
    add("bfloat16", "block", "-")
    add_model("bfloat16", type(config.bfloat16_config))
    for name, field in type(config.monitor_config).model_fields.items():
        add(name, "block", "-")
        add_model(name, field.annotation)
    from deepspeed.comm.config import CommsLoggerConfig
    add_model("comms_logger", CommsLoggerConfig)
    add("weight_quantization", "block", "-")
    add_model("weight_quantization", WeightQuantConfig)


def signatures():
    add("optimizer.params", "block", "-")
    add("scheduler.params", "block", "-")
    for cls in (FusedAdam, DeepSpeedCPUAdam, torch.optim.AdamW, torch.optim.SGD):
        for name, p in list(inspect.signature(cls.__init__).parameters.items())[2:]:
            add(f"optimizer.params.{name}", "-", "-" if p.default is p.empty else text(p.default))
    for name in ("torch_adam", "adam_w_mode", "fp32_optimizer_states", "max_grad_norm"):
        add(f"optimizer.params.{name}")
    for cls in [getattr(lr_schedules, n) for n in lr_schedules.VALID_LR_SCHEDULES]:
        for name, p in list(inspect.signature(cls.__init__).parameters.items())[2:]:
            add(f"scheduler.params.{name}", "-", "-" if p.default is p.empty else text(p.default))


def removed():
    for name in ds._REMOVED_TOP_LEVEL_CONFIG_KEYS:
        keys[name] = ("removed", "-")
    for name in ds._REMOVED_ZERO_CONFIG_KEYS:
        keys[f"zero_optimization.{name}"] = ("removed", "-")


def pipeline():
    for name, value in ds.get_pipeline_config({}).items():
        add(f"pipeline.{name}", type(value).__name__, text(value))


def main():
    models(ds.DeepSpeedConfig({"train_batch_size": 1}))
    signatures()
    pipeline()
    look_ups()
    add("sequence_parallel_size")
    removed()
    lines = [f"# DeepSpeed {version}: path, type, default; written by tools/make_deepspeed_keys.py"]
    lines += ["\t".join((path, *keys[path])) for path in sorted(keys)]
    Path(sys.argv[1]).write_text("\n".join(lines) + "\n")
    print(len(keys), "keys")


if __name__ == "__main__":
    main()
