#!/usr/bin/env python3
"""check_saved.py PROGRAM: what the program writes, transformers loads and agrees on.

Trains each case for a step or more, loads the output directory with AutoModelForCausalLM, and compares
the loss over given rows of token ids with `outcore eval --json`. Needs torch and transformers.
"""

import json
import pathlib
import random
import subprocess
import sys
import tempfile

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

LLAMA = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 300,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-5,
}
GPT2 = {
    "model_type": "gpt2",
    "architectures": ["GPT2LMHeadModel"],
    "n_embd": 64,
    "n_layer": 3,
    "n_head": 4,
    "n_positions": 128,
    "n_ctx": 128,
    "vocab_size": 300,
    "attn_pdrop": 0.0,
    "embd_pdrop": 0.0,
    "resid_pdrop": 0.0,
}
CASES = [
    ("llama untied fp32", {**LLAMA, "tie_word_embeddings": False}, "fp32"),
    ("llama tied fp32", {**LLAMA, "tie_word_embeddings": True}, "fp32"),
    ("llama untied bf16", {**LLAMA, "tie_word_embeddings": False}, "bf16"),
    ("llama tied fp16", {**LLAMA, "tie_word_embeddings": True}, "fp16"),
    ("gpt2 tied fp32", {**GPT2, "tie_word_embeddings": True}, "fp32"),
    ("gpt2 untied fp32", {**GPT2, "tie_word_embeddings": False}, "fp32"),
    ("gpt2 tied bf16", {**GPT2, "tie_word_embeddings": True}, "bf16"),
]
# Relative difference of the loss. fp32: sums in another order. Half types: activations are rounded,
# and not in the same places everywhere.
TOLERANCE = {"fp32": 1e-7, "bf16": 2e-4, "fp16": 2e-5}


def rows(seed, n):
    r = random.Random(seed)
    return [[r.randrange(3, 300) for _ in range(r.randrange(20, 100))] for _ in range(n)]


def write_rows(path, data):
    path.write_text("".join(json.dumps({"input_ids": row}) + "\n" for row in data))


def reference_loss(model, data):
    nll, tokens = 0.0, 0
    with torch.no_grad():
        for row in data:
            ids = torch.tensor([row])
            logits = model(input_ids=ids).logits[0, :-1].double()
            nll += torch.nn.functional.cross_entropy(logits, ids[0, 1:], reduction="sum").item()
            tokens += len(row) - 1
    return nll / tokens, tokens


def check(program, name, config, dtype, home):
    home.mkdir()
    (home / "config.json").write_text(json.dumps(config))
    data, held_out = rows(1, 40), rows(2, 8)
    write_rows(home / "train.jsonl", data)
    write_rows(home / "eval.jsonl", held_out)
    out = home / "out"
    subprocess.run(
        [program, "train", "--init", home, "--data", home / "train.jsonl", "--output", out, "--dtype", dtype,
         "--max-steps", "3", "--save-every", "2", "--lr", "1e-2", "--micro-batch", "4", "--quiet"],
        check=True, stdout=subprocess.DEVNULL)
    worst = 0.0
    for path in (out, out / "checkpoint-2"):
        model, info = AutoModelForCausalLM.from_pretrained(path, dtype="auto", output_loading_info=True)
        problems = {k: v for k, v in info.items() if v}
        if problems:
            raise SystemExit(f"{name}: {path}: {problems}")
        want = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[dtype]
        if model.dtype != want:
            raise SystemExit(f"{name}: {path} loads as {model.dtype}")
        expected, tokens = reference_loss(model.eval(), held_out)
        ours = json.loads(subprocess.run(
            [program, "eval", "--model", path, "--data", home / "eval.jsonl", "--json", "--quiet"],
            check=True, stdout=subprocess.PIPE).stdout)
        if ours["tokens"] != tokens:
            raise SystemExit(f"{name}: {ours['tokens']} tokens, not {tokens}")
        worst = max(worst, abs(ours["loss"] - expected) / expected)
    tokenizer = AutoTokenizer.from_pretrained(out)
    text = "In the beginning: \u00e9\u4e16 \n"
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    if ids != [3 + b for b in text.encode()]:
        raise SystemExit(f"{name}: the tokenizer gives {ids}")
    ok = worst <= TOLERANCE[dtype]
    print(f"{name:20} loss {ours['loss']:.6f}, off by {worst:.2e} (limit {TOLERANCE[dtype]:.0e})",
          "" if ok else "FAILED")
    return ok


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    program = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as tmp:
        good = [check(program, name, config, dtype, pathlib.Path(tmp) / str(i))
                for i, (name, config, dtype) in enumerate(CASES)]
    raise SystemExit(0 if all(good) else 1)


main()
