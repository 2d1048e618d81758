#!/usr/bin/env python3
"""Write tests/data/schedule_lr.tsv, schedule_cycle.tsv and schedule_scaler.tsv from the reference
implementations.

Run: tools/make_schedule_expected.py DEEPSPEED_SOURCE tests/data
transformers is imported; of DeepSpeed only lr_schedules.py and loss_scaler.py are loaded, with what
they import from the rest of it replaced.

schedule_lr.tsv: kind warmup total warmup_min_lr warmup_max_lr log warmup_min_ratio cos_min_ratio
base_lr done lr. schedule_cycle.tsv: OneCycle min_lr max_lr decay_rate first_steps second_steps
first_stairs second_stairs decay_steps done lr, or LRRangeTest min_lr rate size staircase and four 0,
done lr; -1 where the class gets None. schedule_scaler.tsv: initial_power window hysteresis consecutive min_scale, the
steps (x overflow, . good), then the scale after each step; "raise" ends it.
"""
import importlib.util
import random
import sys
import types
from pathlib import Path

import torch
import transformers


def load_deepspeed(root):
    def module(name, **attributes):
        m = types.ModuleType(name)
        m.__dict__.update(attributes)
        sys.modules[name] = m

    class Quiet:
        def info(self, *a):
            pass

        warning = info

    module("deepspeed", comm=types.SimpleNamespace(get_rank=lambda: 1))
    module("deepspeed.utils", logger=Quiet(), log_dist=lambda *a, **k: None)
    module("deepspeed.runtime")
    module("deepspeed.runtime.utils", has_inf_or_nan=None)
    module("deepspeed.runtime.config_utils", DeepSpeedConfigObject=object)
    out = []
    for name in ("lr_schedules", "fp16/loss_scaler"):
        spec = importlib.util.spec_from_file_location(name, root / f"deepspeed/runtime/{name}.py")
        m = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(m)
        out.append(m)
    return out


def optimizer(lr):
    return torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=lr)


def lrs(opt, scheduler, steps):
    """The rate each optimizer step runs with; schedulers step after it, as both engines do."""
    out = []
    for _ in range(steps):
        out.append(opt.param_groups[0]["lr"])
        opt.step()
        scheduler.step()
    return out


def rows_hugging_face():
    for warm, total in ((0, 10), (3, 10), (10, 10), (0, 1), (7, 20)):
        for kind, make in (
                ("constant", lambda o: transformers.get_constant_schedule_with_warmup(o, warm)),
                ("linear", lambda o: transformers.get_linear_schedule_with_warmup(o, warm, total)),
                ("cosine", lambda o: transformers.get_cosine_schedule_with_warmup(o, warm, total))):
            opt = optimizer(5e-5)
            for done, lr in enumerate(lrs(opt, make(opt), total + 2)):
                yield kind, warm, total, 0, -1, 0, 0, 0, 5e-5, done, lr


def rows_deepspeed(ds):
    for warm, total, log in ((1, 9, True), (4, 12, True), (4, 12, False), (5, 5, False)):
        how = "log" if log else "linear"
        for low, high in ((0, 3e-4), (1e-5, 3e-4)):
            opt = optimizer(1e-3)
            s = ds.WarmupLR(opt, low, high, warm, how)
            for done, lr in enumerate(lrs(opt, s, total)):
                yield "WarmupLR", warm, total, low, high, log, 0, 0, 1e-3, done, lr
            opt = optimizer(1e-3)
            s = ds.WarmupDecayLR(opt, total, low, high, warm, how)
            for done, lr in enumerate(lrs(opt, s, total + 3)):
                yield "WarmupDecayLR", warm, total, low, high, log, 0, 0, 1e-3, done, lr
        for low, end in ((0, 1e-4), (0.1, 0.2)):
            if total <= warm:
                continue
            opt = optimizer(1e-3)
            s = ds.WarmupCosineLR(opt, total, low, warm, end, how)
            for done, lr in enumerate(lrs(opt, s, total + 1)):
                yield "WarmupCosineLR", warm, total, 0, -1, log, low, end, 1e-3, done, lr
    opt = optimizer(1e-3)
    for done, lr in enumerate(lrs(opt, ds.WarmupLR(opt, 0, 1e-3, 3, "log"), 6)):
        yield "WarmupLR", 3, 6, 0, -1, True, 0, 0, 1e-3, done, lr


def rows_cycles(ds):
    def given(x):
        return None if x < 0 else x

    for first, second in ((4, -1), (3, 6), (7, 2), (5, 0), (1, 1)):
        for stairs, stairs_second in ((0, -1), (2, -1), (3, 1), (0, 2)):
            for rate, decay in ((0.0, 0), (0.5, 3), (1e-3, 1)):
                opt = optimizer(1e-3)
                s = ds.OneCycle(opt, 1e-5, 3e-4, rate, first, given(second), stairs, given(stairs_second), decay)
                for done, lr in enumerate(lrs(opt, s, first + max(first, second) + 8)):
                    yield ("OneCycle", 1e-5, 3e-4, rate, first, second, stairs, stairs_second, decay, done, lr)
    for low, size, rate in ((1e-3, 2000, 1.0), (1e-5, 3, 2.0), (1e-4, 7, 0.25)):
        for stairs in (False, True):
            opt = optimizer(1.0)
            s = ds.LRRangeTest(opt, low, size, rate, stairs)
            for done, lr in enumerate(lrs(opt, s, 16)):
                yield "LRRangeTest", low, rate, size, stairs, 0, 0, 0, 0, done, lr


def rows_scaler(ds):
    rng = random.Random(3)
    for power, window, hysteresis, consecutive, low in (
            (16, 3, 2, False, 1), (16, 3, 2, True, 1), (4, 2, 1, False, 1), (3, 4, 3, False, 4),
            (3, 4, 3, True, 4), (2, 1, 2, False, 3)):
        for density in (0.1, 0.4, 0.8):
            s = ds.DynamicLossScaler(2.0**power, window, low, hysteresis, consecutive)
            steps, scales = "", []
            for _ in range(40):
                overflow = rng.random() < density
                steps += "x" if overflow else "."
                try:
                    s.update_scale(overflow)
                except Exception:
                    scales.append("raise")
                    break
                scales.append(repr(s.loss_scale))
            yield power, window, hysteresis, int(consecutive), low, steps, *scales


def write(path, rows):
    path.write_text("".join("\t".join(repr(v) if isinstance(v, float) else str(int(v) if isinstance(
        v, bool) else v) for v in row) + "\n" for row in rows))


def main():
    lr_schedules, loss_scaler = load_deepspeed(Path(sys.argv[1]))
    out = Path(sys.argv[2])
    write(out / "schedule_lr.tsv", [*rows_hugging_face(), *rows_deepspeed(lr_schedules)])
    write(out / "schedule_cycle.tsv", rows_cycles(lr_schedules))
    write(out / "schedule_scaler.tsv", rows_scaler(loss_scaler))


if __name__ == "__main__":
    main()
