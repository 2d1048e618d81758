#!/usr/bin/env python3
"""What the program writes, transformers loads and agrees on.

    check_saved.py PROGRAM [NAME...] [--family F]

Three kinds of cases; NAME picks some by the start of the name that is printed:

    init ...     a small llama or gpt2 from --init, in three dtypes, with a checkpoint on the way and the
                 byte tokenizer
    model NAME   every model under tests/data/models: trained for three steps in fp32 from its weights
    config NAME  the same directories' config.json, through --init

Each output directory is loaded with AutoModelForCausalLM: no key may be missing or left over, and the loss
over given rows of token ids must be that of `outcore eval --json`. Needs torch and transformers.
"""

import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile

import torch
import transformers
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
    ("init llama untied fp32", {**LLAMA, "tie_word_embeddings": False}, "fp32"),
    ("init llama tied fp32", {**LLAMA, "tie_word_embeddings": True}, "fp32"),
    ("init llama untied bf16", {**LLAMA, "tie_word_embeddings": False}, "bf16"),
    ("init llama tied fp16", {**LLAMA, "tie_word_embeddings": True}, "fp16"),
    ("init gpt2 tied fp32", {**GPT2, "tie_word_embeddings": True}, "fp32"),
    ("init gpt2 untied fp32", {**GPT2, "tie_word_embeddings": False}, "fp32"),
    ("init gpt2 tied bf16", {**GPT2, "tie_word_embeddings": True}, "bf16"),
]
# Relative difference of the loss. fp32: sums in another order. Half types: activations are rounded,
# and not in the same places everywhere.
TOLERANCE = {"fp32": 1e-7, "bf16": 2e-4, "fp16": 2e-5}
MODEL_TOLERANCE = 1e-5  # their weights are large, and so are the activations
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
MODELS = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data" / "models"


class Wrong(Exception):
    """Why a case fails."""


def rows(seed, n, vocab, least, most, first=3):
    r = random.Random(seed)
    return [[r.randrange(first, vocab) for _ in range(r.randint(least, most))] for _ in range(n)]


def write_rows(path, data):
    path.write_text("".join(json.dumps({"input_ids": row}) + "\n" for row in data))


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Wrong(f"{' '.join(str(c) for c in command[:4])}: exit {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def reference_loss(model, data):
    nll, tokens = 0.0, 0
    with torch.no_grad():
        for row in data:
            ids = torch.tensor([row])
            logits = model(input_ids=ids, use_cache=False).logits[0, :-1].double()
            nll += torch.nn.functional.cross_entropy(logits, ids[0, 1:], reduction="sum").item()
            tokens += len(row) - 1
    return nll / tokens, tokens


def compare(program, path, held_out, data, dtype, *options):
    """The relative difference of the loss of the model at path."""
    model, info = AutoModelForCausalLM.from_pretrained(
        path, dtype="auto", attn_implementation="eager", output_loading_info=True)
    problems = {k: v for k, v in info.items() if v}
    if problems:
        raise Wrong(f"{path}: {problems}")
    if model.dtype != DTYPES[dtype]:
        raise Wrong(f"{path} loads as {model.dtype}")
    expected, tokens = reference_loss(model.eval(), held_out)
    ours = json.loads(run(program, "eval", "--model", path, "--data", data, "--json", "--quiet", *options))
    if ours["tokens"] != tokens:
        raise Wrong(f"{path}: {ours['tokens']} tokens, not {tokens}")
    return abs(ours["loss"] - expected) / expected


def check_tokenizer(out):
    tokenizer = AutoTokenizer.from_pretrained(out)
    text = "In the beginning: \u00e9\u4e16 \n"
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    if ids != [3 + b for b in text.encode()]:
        raise Wrong(f"the tokenizer gives {ids}")


def check_init(program, config, dtype, home):
    (home / "config.json").write_text(json.dumps(config))
    held_out = rows(2, 8, 300, 20, 99)
    write_rows(home / "train.jsonl", rows(1, 40, 300, 20, 99))
    write_rows(home / "eval.jsonl", held_out)
    out = home / "out"
    run(program, "train", "--init", home, "--data", home / "train.jsonl", "--output", out, "--dtype", dtype,
        "--tokenizer", "bytes", "--max-steps", "3", "--save-every", "2", "--lr", "1e-2", "--micro-batch", "4",
        "--quiet")
    worst = max(compare(program, path, held_out, home / "eval.jsonl", dtype)
                for path in (out, out / "checkpoint-2"))
    check_tokenizer(out)
    return worst, TOLERANCE[dtype]


def depends_on_length(config):
    rope = config.get("rope_scaling") or config.get("rope_parameters") or {}
    return rope.get("rope_type", rope.get("type")) in ("dynamic", "longrope", "su")


def check_model(program, directory, source, home):
    """Rows as long as those the fixture's numbers are for; all of one length where RoPE looks at it."""
    config = json.loads((directory / "config.json").read_text())
    length = len(json.loads((directory / "batch.json").read_text())["tokens"][0])
    least = length if depends_on_length(config) else 2
    held_out = rows(4, 9, config["vocab_size"], least, length)
    write_rows(home / "train.jsonl", rows(3, 12, config["vocab_size"], least, length))
    write_rows(home / "eval.jsonl", held_out)
    where = directory if source == "--model" else directory / "config.json"
    run(program, "train", source, where, "--data", home / "train.jsonl", "--output", home / "out", "--dtype",
        "fp32", "--max-steps", "3", "--lr", "1e-2", "--micro-batch", "2", "--seq-length", length, "--quiet")
    worst = compare(program, home / "out", held_out, home / "eval.jsonl", "fp32", "--seq-length", length)
    return worst, MODEL_TOLERANCE


def all_cases():
    """(name, family, function of (program, home))"""
    for name, config, dtype in CASES:
        yield name, config["model_type"], lambda p, home, c=config, d=dtype: check_init(p, c, d, home)
    for source, word in (("--model", "model"), ("--init", "config")):
        for batch in sorted(MODELS.glob("*/batch.json")):
            directory = batch.parent
            family = json.loads((directory / "config.json").read_text())["model_type"]
            yield (f"{word} {directory.name}", family,
                   lambda p, home, d=directory, s=source: check_model(p, d, s, home))


def main():
    parser = argparse.ArgumentParser(description="what the program writes, transformers loads and agrees on")
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("names", nargs="*", help="starts of the names of cases (default: all)")
    parser.add_argument("--family", action="append", help="only models of this model_type; may be repeated")
    args = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    failed, ran = [], 0
    for name, family, check in all_cases():
        if args.family and family not in args.family:
            continue
        if args.names and not name.startswith(tuple(args.names)):
            continue
        ran += 1
        try:
            with tempfile.TemporaryDirectory(prefix="oc-saved-") as home:
                off, limit = check(args.program.resolve(), pathlib.Path(home))
            word = "" if off <= limit else " FAILED"
            print(f"{name:28} loss off by {off:.2e} (limit {limit:.0e}){word}", flush=True)
        except Wrong as why:
            word = " FAILED"
            print(f"{name:28} FAILED {why}", flush=True)
        if word:
            failed.append(name)
    if failed or ran == 0:
        sys.exit(f"{len(failed)} of {ran} cases failed: {', '.join(failed)}")


main()
