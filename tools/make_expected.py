#!/usr/bin/env python3
"""Numbers from PyTorch and transformers for the tests of the model room.

    make_expected.py [NAME...]          rewrite fixtures under tests/data/models (all; NAME may end in *)
    make_expected.py --fresh [--seed N] [--family F] --outcore PROGRAM [--binary BUILD/test_model_pytorch]
                                        a random model of each family, compared at once: loss and every
                                        gradient by the program itself, logits too by the test program

rope.json holds rotary frequencies of published shapes; rope_length.json those that depend on the length
of the rows, on part of a head being rotated, or on the kind of layer.

Needs Python with torch, transformers >= 5 and safetensors. Everything runs on the CPU in fp32 with
eager attention unless a key says bf16. Each fixture is a directory:

    config.json                         as users write it, or as the library dumps it
    model.safetensors                   a model with every tensor random (norms and biases too), in fp32,
                                        fp16 or bf16; or shards and model.safetensors.index.json. May hold
                                        the tied head again, tensors without a parameter, or bare names
    batch.json                          tokens, labels (shifted: the target of this row; -100 none),
                                        positions and doc_start of packed documents; and maybe
                                        zero_gradients {name: scale}: tensors whose true gradient is zero
                                        (see expected_models.py). What is stored of it is rounding: compare
                                        the difference with the scale given here, not with its own size
    expected.safetensors                logits; loss_sum and its tokens; grad.NAME of loss_sum, NAME as
                                        in the file with the family's prefix, a tied head counted once
    curve.json, train.jsonl             a training run: settings, rows, and loss, grad_norm and lr of
                                        every step; losses of the same run in bf16 with fp32 masters
    trained.safetensors                 the weights after the fp32 run

A row of rope_length.json: config; length: tokens of the longest document; layer_type or null; inv_freq and
the factor of cos and sin. In a fixture whose RoPE depends on the length every document is a whole row.
"""
import argparse
import fnmatch
import json
import os
import random
import sys
import tempfile

import torch
import transformers
from transformers import AutoConfig, LlamaConfig
from transformers.models.gemma3.modeling_gemma3 import Gemma3RotaryEmbedding
from transformers.models.gpt_neox.modeling_gpt_neox import GPTNeoXRotaryEmbedding
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
from transformers.models.phi3.modeling_phi3 import Phi3RotaryEmbedding

from expected_fixtures import DRAW, FIXTURES, draw_fixture
from expected_fresh import compare_fresh
from expected_models import write_fixture


def write_rows(path, rows):
    with open(path, "w", encoding="utf-8") as f:
        f.write("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")


def write_ropes(path):
    """Rotary frequencies of published shapes, under old and new spellings of the keys."""
    llama3 = dict(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                  original_max_position_embeddings=8192)
    cases = [
        {"rope_theta": 10000.0},
        {"rope_theta": 500000.0, "rope_scaling": None},
        {"rope_theta": 10000.0, "rope_scaling": {"type": "linear", "factor": 4.0}},
        {"rope_theta": 500000.0, "rope_scaling": {"rope_type": "llama3", **llama3}},
        {"rope_parameters": {"rope_type": "llama3", "rope_theta": 500000.0, **llama3}},
        {"rope_parameters": {"rope_type": "yarn", "rope_theta": 1000000.0, "factor": 4.0,
                             "original_max_position_embeddings": 32768}},
        {"rope_theta": 10000.0, "rope_scaling": {
            "type": "yarn", "factor": 16.0, "original_max_position_embeddings": 4096,
            "beta_fast": 24, "beta_slow": 2, "mscale": 0.7, "mscale_all_dim": 1.3}},
        {"rope_parameters": {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 8.0,
                             "original_max_position_embeddings": 2048, "attention_factor": 1.25,
                             "truncate": False}},
    ]
    out = []
    for case in cases:
        settings = dict(hidden_size=512, num_attention_heads=4, max_position_embeddings=131072, **case)
        rope = LlamaRotaryEmbedding(LlamaConfig(**json.loads(json.dumps(settings))))
        out.append({"config": {"model_type": "llama", **settings},
                    "inv_freq": rope.inv_freq.tolist(), "scaling": float(rope.attention_scaling)})
    write_rows(path, out)


def length_cases():
    """(config, lengths, layer types), shaped as published models are."""
    short = [round(1 + 0.04 * i, 3) for i in range(48)]
    long = [round(1.05 ** (2 * i), 3) for i in range(48)]
    phi3 = dict(model_type="phi3", hidden_size=3072, num_attention_heads=32, pad_token_id=None)
    longrope = dict(short_factor=short, long_factor=long)
    llama = dict(model_type="llama", hidden_size=512, num_attention_heads=4)
    gemma3 = dict(model_type="gemma3_text", hidden_size=640, num_attention_heads=4, head_dim=256,
                  num_hidden_layers=6)
    both = ["full_attention", "sliding_attention"]
    return [
        ({**llama, "max_position_embeddings": 2048, "rope_theta": 10000.0,
          "rope_scaling": {"type": "dynamic", "factor": 2.0}}, [100, 2048, 2049, 5000], [None]),
        ({**llama, "max_position_embeddings": 4096, "rope_parameters": {
            "rope_type": "dynamic", "rope_theta": 1e6, "factor": 4.0}}, [4096, 16384], [None]),
        ({**phi3, "max_position_embeddings": 131072, "original_max_position_embeddings": 4096,
          "rope_theta": 10000.0, "rope_scaling": {"type": "longrope", **longrope}},
         [4096, 4097], [None]),
        ({**phi3, "max_position_embeddings": 131072, "original_max_position_embeddings": 4096,
          "rope_theta": 10000.0, "rope_scaling": {
              "type": "su", "original_max_position_embeddings": 4096, **longrope}}, [9000], [None]),
        ({**phi3, "max_position_embeddings": 131072, "original_max_position_embeddings": 4096,
          "partial_rotary_factor": 0.75, "rope_theta": 10000.0, "rope_scaling": {
              "type": "longrope", "short_factor": short[:36], "long_factor": long[:36]}},
         [4096, 4097], [None]),
        ({**llama, "max_position_embeddings": 131072, "rope_parameters": {
            "rope_type": "longrope", "rope_theta": 10000.0, "factor": 16.0,
            "original_max_position_embeddings": 8192, "short_factor": (short + short)[:64],
            "long_factor": (long + long)[:64]}}, [8192, 8193], [None]),
        ({**llama, "max_position_embeddings": 131072, "rope_parameters": {
            "rope_type": "longrope", "rope_theta": 10000.0, "attention_factor": 1.1902,
            "original_max_position_embeddings": 8192, "short_factor": (short + short)[:64],
            "long_factor": (long + long)[:64]}}, [8193], [None]),
        ({"model_type": "gpt_neox", "hidden_size": 512, "num_attention_heads": 8, "rotary_pct": 0.25,
          "rotary_emb_base": 10000}, [2048], [None]),
        ({"model_type": "gpt_neox", "hidden_size": 640, "num_attention_heads": 8, "rope_parameters": {
            "rope_type": "linear", "rope_theta": 1000.0, "factor": 4.0, "partial_rotary_factor": 0.4}},
         [2048], [None]),
        ({**gemma3, "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0, "rope_scaling": {
            "rope_type": "linear", "factor": 8.0}}, [4096], both),
        ({**gemma3, "rope_parameters": {
            "full_attention": {"rope_type": "yarn", "rope_theta": 1000000.0, "factor": 4.0,
                               "original_max_position_embeddings": 32768},
            "sliding_attention": {"rope_type": "default", "rope_theta": 20000.0}}}, [4096], both),
        (gemma3, [4096], ["full_attention"]),
    ]


def length_row(given, length, layer_type):
    classes = {"phi3": Phi3RotaryEmbedding, "gpt_neox": GPTNeoXRotaryEmbedding,
               "gemma3_text": Gemma3RotaryEmbedding, "llama": LlamaRotaryEmbedding}
    settings = json.loads(json.dumps(given))
    kind = settings.pop("model_type")
    rope = classes[kind](AutoConfig.for_model(kind, **settings))
    positions = torch.tensor([[0, length - 1]])
    x = torch.zeros(1)
    if layer_type is None:
        rope(x, positions)
        inv_freq, scaling = rope.inv_freq, rope.attention_scaling
    else:
        rope(x, positions, layer_type)
        inv_freq = getattr(rope, layer_type + "_inv_freq")
        scaling = getattr(rope, layer_type + "_attention_scaling")
    return {"config": given, "length": length, "layer_type": layer_type,
            "inv_freq": inv_freq.tolist(), "scaling": float(scaling)}


def write_lengths(path):
    write_rows(path, [length_row(given, length, layer_type) for given, lengths, types in length_cases()
                      for length in lengths for layer_type in types])


def run_fresh(seed, families, outcore, binary):
    failed = []
    for family in families:
        fixture = draw_fixture(family, random.Random(f"{family} {seed}"))
        with tempfile.TemporaryDirectory(prefix=f"oc-{family}-") as directory:
            print(f"{family} seed {seed}: {json.dumps(fixture[1:])}", flush=True)
            if not compare_fresh(directory, fixture, seed, outcore, binary):
                failed.append(family)
    return failed


def main():
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "data", "models")
    parser = argparse.ArgumentParser(description="PyTorch's numbers for the model tests")
    parser.add_argument("names", nargs="*", help="fixtures to write (default: all): "
                        f"{', '.join(FIXTURES)}; rope, rope_length")
    parser.add_argument("--output", default=root, help="where the fixtures go")
    parser.add_argument("--fresh", action="store_true",
                        help="do not write fixtures: compare random models at once")
    parser.add_argument("--seed", type=int, help="of --fresh (default: another one each time)")
    parser.add_argument("--family", choices=list(DRAW), help="of --fresh (default: all)")
    parser.add_argument("--outcore", help="the program, for --fresh")
    parser.add_argument("--binary", help="test_model_pytorch, for --fresh")
    args = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    if args.fresh:
        if not args.outcore and not args.binary:
            parser.error("--fresh needs --outcore or --binary")
        seed = args.seed if args.seed is not None else random.SystemRandom().randrange(10 ** 6)
        families = [args.family] if args.family else list(DRAW)
        failed = run_fresh(seed, families, args.outcore, args.binary)
        if failed:
            sys.exit(f"differs from PyTorch with seed {seed}: {', '.join(failed)}")
        return
    patterns = args.names or ["*"]
    known = list(FIXTURES) + ["rope", "rope_length"]
    for pattern in patterns:
        if not fnmatch.filter(known, pattern):
            parser.error(f"no fixture is called {pattern}")
    chosen = {name for pattern in patterns for name in fnmatch.filter(known, pattern)}
    if "rope" in chosen:
        write_ropes(os.path.join(args.output, "rope.json"))
    if "rope_length" in chosen:
        write_lengths(os.path.join(args.output, "rope_length.json"))
    for number, (name, fixture) in enumerate(FIXTURES.items()):
        if name in chosen:
            write_fixture(os.path.join(args.output, name), fixture, 1000 + number)
            print(name, flush=True)


if __name__ == "__main__":
    main()
