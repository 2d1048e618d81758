"""Compares the program's loss and every gradient with PyTorch's, for make_expected.py --fresh.

The program gives no gradient away, but one step of plain SGD does: weights before minus weights after is
the learning rate times the gradient of the mean loss. The rate is so large that the difference has all the
digits that matter. This way loading, packing, accumulation and saving are part of the comparison.
"""
import json
import os
import random
import subprocess

import torch
from safetensors import safe_open

from expected_models import (PREFIXES, load_model, make_batch, run_gradients, write_expected,
                             write_model)

MOST_ERROR = 1e-4
# Of a model's largest gradient: four fp32 rounding units. The softmax's backward subtracts two large sums;
# where little or nothing of the gradient of queries and keys is left (a document of two tokens, a window of
# one, a bias of the keys), the sums' rounding is.
ROUNDING = 4 * 2.0 ** -24
MOST_LOSS_ERROR = 1e-5


def documents(batch):
    """Rows of the packed batch as the program takes them: one per document, labels not shifted."""
    out = []
    for tokens, labels, starts in zip(batch["tokens"], batch["labels"], batch["doc_start"]):
        for first in sorted(set(starts)):
            at = [t for t, s in enumerate(starts) if s == first]
            out.append({"input_ids": [tokens[t] for t in at],
                        "labels": [-100] + [labels[t] for t in at[:-1]]})
    return out


def run(command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"  {' '.join(str(c) for c in command)}\n  exit {done.returncode}: {done.stderr.strip()}")
        return None
    return done.stdout


def read_tensors(directory):
    out = {}
    for file in sorted(os.listdir(directory)):
        if file.startswith("model") and file.endswith(".safetensors"):
            with safe_open(os.path.join(directory, file), "pt") as f:
                out.update({name: f.get_tensor(name) for name in f.keys()})
    return out


def line(name, error, most):
    word = "ok" if error <= most else "DIFFERS"
    return f"  {word:8}{error:9.2e}  {name}"


def compare_loss(outcore, directory, data, seq, loss, count):
    text = run([outcore, "eval", "--model", directory, "--data", data, "--json", "--quiet",
                "--seq-length", seq, "--dtype", "fp32"])
    if text is None:
        return False
    ours = json.loads(text)
    error = abs(ours["loss"] - loss / count) / abs(loss / count)
    if ours["tokens"] != count:
        print(f"  DIFFERS {ours['tokens']} target tokens, not {count}")
    if error > MOST_LOSS_ERROR:
        print(line(f"loss: {ours['loss']}, not {loss / count}", error, MOST_LOSS_ERROR))
    return ours["tokens"] == count and error <= MOST_LOSS_ERROR


def take_step(outcore, directory, data, seq, rows, rate):
    """The tensors after one step of SGD over all rows; two micro-batches where there are two rows."""
    out = os.path.join(directory, "out")
    accum = 2 if rows > 1 else 1
    if run([outcore, "train", "--model", directory, "--data", data, "--output", out, "--dtype", "fp32",
            "--optimizer", "sgd", "--lr", repr(rate), "--lr-schedule", "constant",
            "--clip-grad-norm", 0, "--weight-decay", 0, "--max-steps", 1, "--no-shuffle",
            "--micro-batch", (rows + accum - 1) // accum, "--grad-accum", accum, "--seq-length", seq,
            "--save-model-only", "--quiet"]) is None:
        return None
    return read_tensors(out)


def compare_gradients(family, before, after, grads, rate, count):
    """grads: in fp64, of the summed loss. One line a tensor when any differs."""
    prefix = PREFIXES.get(family, "")
    lines, good = [], True
    largest = max(g.abs().max().item() for g in grads.values())
    for name, theirs in sorted(grads.items()):
        short = name.removeprefix(prefix)
        saved = after.get(name, after.get(short))
        if saved is None:
            lines.append(f"  MISSING  {name}")
            good = False
            continue
        old = before.get(name, before.get(short)).double()
        ours = (old - saved.double()) / rate
        scale = max(theirs.abs().max().item(), ROUNDING / MOST_ERROR * largest) / count
        theirs = theirs / count
        error = (ours - theirs).abs().max().item() / scale
        error = error if error == error else float("inf")
        lines.append(line(f"{name} {list(theirs.shape)} largest {scale:.2e}", error, MOST_ERROR))
        good = good and error <= MOST_ERROR
    if not good:
        print("\n".join(lines))
    return good


def compare_fresh(directory, fixture, seed, outcore, binary):
    family, settings, batch, seq, options = fixture
    write_model(directory, family, settings, options, seed)
    rng, vocab, whole = random.Random(seed), settings["vocab_size"], options.get("whole", False)
    rows = make_batch(rng, vocab, batch, seq, whole, settings.get("pad_token_id"), 0.15)
    good = True
    if binary:
        zeros = write_expected(family, directory, rows)
        if any(not name.endswith("k_proj.bias") for name in zeros):
            print("  not for the test program, which measures by a tensor's own size: "
                  f"{', '.join(zeros)} have no gradient")
        else:
            good = subprocess.run([binary, directory], check=False).returncode == 0
    if not outcore:
        return good
    data = os.path.join(directory, "rows.jsonl")
    docs = documents(rows)
    with open(data, "w", encoding="utf-8") as f:
        for doc in docs:
            f.write(json.dumps(doc) + "\n")
    _, loss, count, grads = run_gradients(family, load_model(directory, torch.float64), rows)
    good = compare_loss(outcore, directory, data, seq, loss.item(), count) and good
    rate = 1e4 * count / max(g.abs().max().item() for g in grads.values())
    after = take_step(outcore, directory, data, seq, len(docs), rate)
    if after is None:
        return False
    good = compare_gradients(family, read_tensors(directory), after, grads, rate, count) and good
    print(f"  loss and {len(grads)} gradients " + ("agree" if good else "DIFFER"), flush=True)
    return good
