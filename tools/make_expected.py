#!/usr/bin/env python3
"""Numbers from PyTorch and transformers for the tests of the model room.

    make_expected.py                    rewrite the fixtures under tests/data/models
    make_expected.py --fresh SEED --binary BUILD/test_model_pytorch
                                        random shapes, compared by the test program right away

rope.json holds rotary frequencies of published shapes.

Needs Python with torch, transformers >= 5 and safetensors. Everything runs on the CPU in fp32 with
eager attention unless a key says bf16. Each fixture is a directory:

    config.json, model.safetensors      a model with every tensor random (norms and biases too)
    batch.json                          tokens, labels (shifted: the target of this row; -100 none),
                                        positions and doc_start of packed documents
    expected.safetensors                logits; loss_sum and its tokens; grad.NAME of loss_sum
    curve.json, train.jsonl             a training run: settings, rows, and loss, grad_norm and lr of
                                        every step; losses of the same run in bf16 with fp32 masters
    trained.safetensors                 the weights after the fp32 run
"""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import save_file
from transformers import (GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM,
                          get_linear_schedule_with_warmup)
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

CLASSES = {"llama": (LlamaConfig, LlamaForCausalLM), "gpt2": (GPT2Config, GPT2LMHeadModel)}
NO_DROPOUT = dict(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)

# name: (family, config, batch, seq, options)
ROPES = {
    "default": {},
    "linear": {"factor": 2.5},
    "llama3": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 32},
    "yarn": {"factor": 4.0, "original_max_position_embeddings": 16, "beta_fast": 8.0},
}

FIXTURES = {
    "llama-untied": ("llama", dict(
        vocab_size=157, hidden_size=60, intermediate_size=92, num_hidden_layers=2,
        num_attention_heads=3, num_key_value_heads=1, max_position_embeddings=64,
        rope_parameters=dict(ROPES["yarn"], rope_type="yarn", rope_theta=10000.0)), 2, 21, {}),
    "llama-tied": ("llama", dict(
        vocab_size=1100, hidden_size=24, intermediate_size=40, num_hidden_layers=3,
        num_attention_heads=2, rms_norm_eps=1e-5, max_position_embeddings=64,
        tie_word_embeddings=True, rope_parameters=dict(
            ROPES["llama3"], rope_type="llama3", rope_theta=500000.0)),
        2, 11, {}),
    "llama-bias": ("llama", dict(
        vocab_size=97, hidden_size=28, intermediate_size=36, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, head_dim=10, hidden_act="gelu",
        attention_bias=True, mlp_bias=True, max_position_embeddings=64), 3, 17, {"train": True}),
    "gpt2": ("gpt2", dict(
        vocab_size=211, n_embd=36, n_layer=2, n_head=3, n_positions=32), 2, 19, {"train": True}),
    "gpt2-chunks": ("gpt2", dict(
        vocab_size=2100, n_embd=12, n_layer=1, n_head=2, n_positions=24, n_inner=20,
        activation_function="relu", scale_attn_weights=False), 2, 8, {"bare": True}),
}


def make_rope(kind, theta):
    return {"rope_type": kind, "rope_theta": theta, **ROPES[kind]}


def fresh_fixture(family, rng):
    """A random configuration with shapes no kernel likes."""
    heads = rng.choice([1, 2, 3, 5])
    head_dim = 2 * rng.randint(2, 13)
    positions = rng.randint(24, 40)
    vocab = rng.choice([rng.randint(40, 400), rng.randint(1025, 2300)])
    layers = rng.randint(1, 3)
    seq = rng.randint(5, 23)
    options = {"bare": rng.random() < 0.5}
    if family == "gpt2":
        config = dict(vocab_size=vocab, n_embd=heads * head_dim, n_layer=layers, n_head=heads,
                      n_positions=positions, n_inner=rng.choice([None, rng.randint(9, 90)]),
                      activation_function=rng.choice(["gelu_new", "gelu", "relu"]),
                      scale_attn_weights=rng.random() < 0.7,
                      tie_word_embeddings=rng.random() < 0.7)
    else:
        kv = rng.choice([k for k in range(1, heads + 1) if heads % k == 0])
        config = dict(vocab_size=vocab, hidden_size=heads * rng.randint(5, 14),
                      intermediate_size=rng.randint(9, 90), num_hidden_layers=layers,
                      num_attention_heads=heads, num_key_value_heads=kv, head_dim=head_dim,
                      hidden_act=rng.choice(["silu", "gelu", "gelu_pytorch_tanh"]),
                      attention_bias=rng.random() < 0.5, mlp_bias=rng.random() < 0.5,
                      rms_norm_eps=rng.choice([1e-6, 1e-5]), max_position_embeddings=positions,
                      tie_word_embeddings=rng.random() < 0.5,
                      rope_parameters=make_rope(rng.choice(sorted(ROPES)),
                                                rng.choice([100.0, 10000.0, 500000.0])))
    return family, config, rng.randint(1, 3), seq, options


def build_model(family, settings, seed):
    """A model in eager attention whose tensors are all random."""
    config_class, model_class = CLASSES[family]
    ids = dict(bos_token_id=1, eos_token_id=2, pad_token_id=None)
    config = config_class(**settings, **ids, **(NO_DROPOUT if family == "gpt2" else {}))
    config._attn_implementation = "eager"
    torch.manual_seed(seed)
    model = model_class(config).float().eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in sorted(model.named_parameters()):
            noise = torch.randn(p.shape, generator=generator)
            if p.ndim == 1:
                p.copy_(0.3 * noise if name.endswith("bias") else 1.0 + 0.3 * noise)
            else:
                p.copy_(noise * 1.2 / min(p.shape) ** 0.5)
    return model


def make_batch(rng, vocab, batch, seq):
    """Packed documents: positions restart, labels stop at the end of a document."""
    rows = {"tokens": [], "labels": [], "positions": [], "doc_start": []}
    for _ in range(batch):
        cuts = sorted(rng.sample(range(1, seq), min(2, seq - 1)))
        starts = [max([0] + [c for c in cuts if c <= t]) for t in range(seq)]
        tokens = [rng.randrange(vocab) for _ in range(seq)]
        tokens[-1] = tokens[0]  # a token twice: its embedding's gradient is a sum
        labels = []
        for t in range(seq):
            inside = t + 1 < seq and starts[t + 1] == starts[t]
            labels.append(tokens[t + 1] if inside and rng.random() < 0.8 else -100)
        if all(label < 0 for label in labels):
            labels[0] = tokens[1]
        rows["tokens"].append(tokens)
        rows["labels"].append(labels)
        rows["positions"].append([t - s for t, s in enumerate(starts)])
        rows["doc_start"].append(starts)
    return rows


def run_logits(model, batch):
    """Logits of packed rows, through a block-diagonal causal mask."""
    tokens = torch.tensor(batch["tokens"])
    starts = torch.tensor(batch["doc_start"])
    seq = tokens.shape[1]
    key = torch.arange(seq)
    allowed = (key[None, None, :] <= key[None, :, None]) & (key[None, None, :] >= starts[:, :, None])
    dtype = next(model.parameters()).dtype
    mask = torch.zeros(allowed.shape, dtype=dtype).masked_fill(~allowed, torch.finfo(dtype).min)
    return model(input_ids=tokens, attention_mask=mask[:, None],
                 position_ids=torch.tensor(batch["positions"]), use_cache=False).logits


def check_packing(model, batch, logits):
    """The packed logits must be those of every document alone."""
    with torch.no_grad():
        for row, starts in enumerate(batch["doc_start"]):
            for first in sorted(set(starts)):
                at = [t for t, s in enumerate(starts) if s == first]
                alone = model(input_ids=torch.tensor([[batch["tokens"][row][t] for t in at]]),
                              use_cache=False).logits[0]
                error = (alone - logits[row, at]).abs().max().item()
                assert error < 1e-4 * logits.abs().max().item(), (row, first, error)


def loss_sum(logits, labels):
    flat = torch.tensor(labels).flatten()
    return torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), flat, ignore_index=-100,
                                             reduction="sum")


def write_model(model, directory, bare):
    """The checkpoint; bare: as older gpt2 files, without the prefix and with the causal masks."""
    config = model.config.to_dict()
    config["architectures"] = [type(model).__name__]
    for key in [k for k in config if k.startswith("_")]:
        del config[key]
    config["dtype"] = "float32"
    with open(os.path.join(directory, "config.json"), "w") as f:
        json.dump(config, f, indent=2, sort_keys=True)
        f.write("\n")
    tensors = weights_of(model)
    if bare:
        tensors = {k.removeprefix("transformer."): v for k, v in tensors.items()}
        for layer in range(model.config.n_layer):
            tensors[f"h.{layer}.attn.bias"] = torch.ones(1, 1, 4, 4)
    save_file(tensors, os.path.join(directory, "model.safetensors"), metadata={"format": "pt"})


def weights_of(model):
    return {name: p.detach().clone().contiguous() for name, p in model.named_parameters()}


def write_expected(model, batch, directory):
    model.zero_grad()
    logits = run_logits(model, batch)
    check_packing(model, batch, logits.detach())
    loss = loss_sum(logits, batch["labels"])
    loss.backward()
    count = sum(label >= 0 for row in batch["labels"] for label in row)
    tensors = {"logits": logits.detach().contiguous(), "loss_sum": loss.detach().reshape(1),
               "tokens": torch.tensor([float(count)])}
    for name, p in model.named_parameters():
        tensors["grad." + name] = p.grad.contiguous()
    save_file(tensors, os.path.join(directory, "expected.safetensors"))
    with open(os.path.join(directory, "batch.json"), "w") as f:
        json.dump(batch, f)
        f.write("\n")
    model.zero_grad()


def train(model, rows, settings, bf16):
    """Full-batch-mean AdamW. bf16: the model computes in bf16, fp32 masters are updated."""
    masters = [p.detach().clone().requires_grad_() for p in model.parameters()]
    groups = [{"params": [p for p in masters if p.ndim > 1],
               "weight_decay": settings["weight_decay"]},
              {"params": [p for p in masters if p.ndim == 1], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=settings["lr"], betas=tuple(settings["betas"]),
                                  eps=settings["eps"])
    schedule = get_linear_schedule_with_warmup(optimizer, settings["warmup_steps"],
                                               settings["max_steps"])
    if bf16:
        model = model.bfloat16()
    steps = []
    per_epoch = len(rows) // settings["micro_batch"]
    for step in range(settings["max_steps"]):
        at = (step % per_epoch) * settings["micro_batch"]
        tokens = [r["input_ids"] for r in rows[at:at + settings["micro_batch"]]]
        batch = {"tokens": tokens, "doc_start": [[0] * len(r) for r in tokens],
                 "positions": [list(range(len(r))) for r in tokens]}
        labels = [r[1:] + [-100] for r in tokens]
        count = sum(len(r) - 1 for r in tokens)
        model.zero_grad()
        loss = loss_sum(run_logits(model, batch), labels) / count
        loss.backward()
        for master, p in zip(masters, model.parameters()):
            master.grad = p.grad.float()
        norm = torch.nn.utils.clip_grad_norm_(masters, settings["clip_grad_norm"])
        steps.append({"loss": loss.item(), "grad_norm": norm.item(),
                      "lr": schedule.get_last_lr()[0]})
        optimizer.step()
        schedule.step()
        with torch.no_grad():
            for master, p in zip(masters, model.parameters()):
                p.copy_(master)
    return steps


def write_curve(family, config, seed, rng, directory):
    model = build_model(family, config, seed)
    settings = dict(max_steps=50, micro_batch=2, seq_length=12, lr=3e-3, lr_schedule="linear",
                    warmup_steps=5, betas=[0.9, 0.999], eps=1e-8, weight_decay=0.1,
                    clip_grad_norm=1.0)
    vocab = config["vocab_size"]
    rows = [{"input_ids": [rng.randrange(vocab) for _ in range(settings["seq_length"])]}
            for _ in range(10)]
    steps = train(model, rows, settings, False)
    save_file(weights_of(model), os.path.join(directory, "trained.safetensors"))
    bf16 = train(build_model(family, config, seed), rows, settings, True)
    with open(os.path.join(directory, "curve.json"), "w") as f:
        json.dump({**settings, "steps": steps, "bf16_losses": [s["loss"] for s in bf16]}, f)
        f.write("\n")
    with open(os.path.join(directory, "train.jsonl"), "w") as f:
        for row in rows:
            f.write(json.dumps(row) + "\n")


def write_fixture(directory, fixture, seed):
    family, config, batch, seq, options = fixture
    rng = random.Random(seed)
    os.makedirs(directory, exist_ok=True)
    model = build_model(family, config, seed)
    write_model(model, directory, options.get("bare", False) and family == "gpt2")
    write_expected(model, make_batch(rng, config["vocab_size"], batch, seq), directory)
    if options.get("train"):
        write_curve(family, config, seed, rng, directory)


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
    with open(path, "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(case) for case in out) + "\n]\n")


def run_fresh(seed, binary):
    failed = []
    for family in sorted(CLASSES):
        fixture = fresh_fixture(family, random.Random(f"{family} {seed}"))
        with tempfile.TemporaryDirectory(prefix=f"oc-{family}-") as directory:
            write_fixture(directory, fixture, seed)
            print(f"{family} seed {seed}: {json.dumps(fixture[1])}", flush=True)
            if subprocess.run([binary, directory], check=False).returncode != 0:
                failed.append(family)
    return failed


def main():
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "data", "models")
    parser = argparse.ArgumentParser(description="PyTorch's numbers for the model tests")
    parser.add_argument("names", nargs="*", help=f"fixtures to write (default: all of "
                        f"{', '.join(FIXTURES)})")
    parser.add_argument("--output", default=root, help="where the fixtures go")
    parser.add_argument("--fresh", type=int, metavar="SEED",
                        help="do not write fixtures: compare random models at once")
    parser.add_argument("--binary", help="test_model_pytorch, for --fresh")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.fresh is not None:
        if not args.binary:
            parser.error("--fresh needs --binary")
        failed = run_fresh(args.fresh, args.binary)
        if failed:
            sys.exit(f"differs from PyTorch: {', '.join(failed)}")
        return
    if not args.names:
        write_ropes(os.path.join(args.output, "rope.json"))
    for number, (name, fixture) in enumerate(FIXTURES.items()):
        if not args.names or name in args.names:
            write_fixture(os.path.join(args.output, name), fixture, 1000 + number)
            print(name, flush=True)


if __name__ == "__main__":
    main()
