#!/usr/bin/env python3
"""Writes tests/data/models/frozen.json: short training runs of model fixtures of which only some parameters are
trained, by transformers and torch.optim.AdamW from the fixture's weights, in fp32.

    make_frozen_curves.py            needs torch and transformers

A run: model, option (freeze or train-only) and its patterns, which are applied to every name of a parameter, so that
a tied head's name speaks of the embedding; trained: how many parameters are; loss and grad_norm (before clipping) of
each step; and of each trained tensor, by its name in the file, the size of its change and every `stride`-th of its
final values. What is frozen is as in the fixture, which is checked here."""
import fnmatch
import json
import os
import random

os.environ["OMP_NUM_THREADS"] = "1"
import torch  # noqa: E402  after OMP_NUM_THREADS
import transformers  # noqa: E402
from transformers import get_linear_schedule_with_warmup  # noqa: E402

from expected_models import load_model, loss_sum, named_tensors  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MODELS = os.path.join(ROOT, "tests", "data", "models")
SETTINGS = dict(max_steps=20, batch=2, seq_length=12, lr=3e-3, warmup_steps=3, betas=[0.9, 0.999], eps=1e-8,
                weight_decay=0.1, clip_grad_norm=0.5)
SAMPLES = 24

LLAMA = [("freeze", ["*embed_tokens*"]),
         ("freeze", ["*embed_tokens*", "model.layers.0.*"]),
         ("train-only", ["*.self_attn.[qkvo]_proj.weight"]),
         ("train-only", ["lm_head.weight", "model.norm.weight"])]
GPT2 = [("freeze", ["transformer.w[tp]e.weight"]),
        ("freeze", ["transformer.wte.weight", "transformer.wpe.weight", "transformer.h.0.*"]),
        ("train-only", ["*.attn.c_*"]),
        ("train-only", ["lm_head.weight", "transformer.ln_f.*"])]
# name of the fixture: its runs. With a tied head, the last trains the embedding through both of its uses.
RUNS = {"llama-untied": LLAMA, "llama-tied": LLAMA, "gpt2": GPT2}


def choose(model, option, patterns):
    trained = {}
    for name, p in model.named_parameters(remove_duplicate=False):
        matches = any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
        trained.setdefault(p, []).append(matches)
    for p, matches in trained.items():
        p.requires_grad_(any(matches) == (option == "train-only"))


def train(model, rows):
    """Mean loss over all targets of a batch; norms and biases are not decayed."""
    chosen = [p for p in model.parameters() if p.requires_grad]
    groups = [{"params": [p for p in chosen if p.ndim > 1], "weight_decay": SETTINGS["weight_decay"]},
              {"params": [p for p in chosen if p.ndim == 1], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=SETTINGS["lr"], betas=tuple(SETTINGS["betas"]),
                                  eps=SETTINGS["eps"])
    schedule = get_linear_schedule_with_warmup(optimizer, SETTINGS["warmup_steps"], SETTINGS["max_steps"])
    losses, norms = [], []
    for step in range(SETTINGS["max_steps"]):
        at = step * SETTINGS["batch"] % len(rows)
        tokens = rows[at:at + SETTINGS["batch"]]
        labels = [r[1:] + [-100] for r in tokens]
        logits = model(input_ids=torch.tensor(tokens), use_cache=False).logits
        loss = loss_sum(logits, labels) / sum(len(r) - 1 for r in tokens)
        optimizer.zero_grad()
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), SETTINGS["clip_grad_norm"]).item())
        losses.append(loss.item())
        optimizer.step()
        schedule.step()
    return losses, norms


def run(name, option, patterns, rows):
    folder = os.path.join(MODELS, name)
    family = name.split("-")[0]
    model = load_model(folder)
    before = {k: p.detach().clone() for k, p in named_tensors(family, model).items()}
    choose(model, option, patterns)
    losses, norms = train(model, rows)
    tensors, count = {}, 0
    for k, p in named_tensors(family, model).items():
        now = p.detach()
        if not p.requires_grad:
            assert torch.equal(now, before[k]), k
            continue
        flat = now.flatten()
        count += flat.numel()
        stride = -(-flat.numel() // SAMPLES)
        tensors[k] = {"change": (now - before[k]).double().norm().item(), "stride": stride,
                      "values": flat[::stride].tolist()}
    clipped = sum(n > SETTINGS["clip_grad_norm"] for n in norms)
    print(f"{name} {option} {patterns}: {count} trained, loss {losses[0]:.4f} to {losses[-1]:.4f}, "
          f"{clipped} steps clipped", flush=True)
    return {"model": name, "option": option, "patterns": patterns, "trained": count, "loss": losses,
            "grad_norm": norms, "tensors": tensors}


def main():
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    rng = random.Random(5)
    smallest = 157  # of the vocabularies
    rows = [[rng.randrange(smallest) for _ in range(SETTINGS["seq_length"])] for _ in range(10)]
    runs = [run(name, option, patterns, rows) for name, runs in RUNS.items() for option, patterns in runs]
    with open(os.path.join(MODELS, "frozen.json"), "w", encoding="utf-8") as file:
        file.write(json.dumps({**SETTINGS, "rows": rows})[:-1] + ', "runs": [\n')
        file.write(",\n".join(json.dumps(r) for r in runs) + "\n]}\n")


if __name__ == "__main__":
    main()
