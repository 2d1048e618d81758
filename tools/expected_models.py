"""Models with random tensors, their files, and what PyTorch and transformers compute from these files.

Used by make_expected.py. Every number comes from a model that AutoModelForCausalLM has loaded from the
directory itself, in fp32 with eager attention on the CPU; packed documents are run one by one, each alone.
"""
import json
import os
import random

import torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM, get_linear_schedule_with_warmup

IDS = dict(bos_token_id=1, eos_token_id=2, pad_token_id=None)
ARCHITECTURES = {"llama": "LlamaForCausalLM", "gpt2": "GPT2LMHeadModel", "mistral": "MistralForCausalLM",
                 "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM", "phi3": "Phi3ForCausalLM",
                 "gpt_neox": "GPTNeoXForCausalLM", "opt": "OPTForCausalLM", "bloom": "BloomForCausalLM",
                 "gemma2": "Gemma2ForCausalLM", "gemma3_text": "Gemma3ForCausalLM"}
NO_DROPOUT = {"gpt2": dict(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0),
              "opt": dict(dropout=0.0, attention_dropout=0.0, layerdrop=0.0)}
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
PREFIXES = {"gpt2": "transformer.", "bloom": "transformer."}
# Tensors of old checkpoints that hold no parameter: name in a layer, shape.
BUFFERS = {
    "llama": ("model.layers.%d.", {"self_attn.rotary_emb.inv_freq": (4,)}),
    "gpt2": ("h.%d.", {"attn.bias": (1, 1, 4, 4)}),
    "gpt_neox": ("gpt_neox.layers.%d.", {"attention.bias": (1, 1, 4, 4), "attention.masked_bias": (),
                                         "attention.rotary_emb.inv_freq": (2,)}),
}


def write_json(path, value, **how):
    with open(path, "w", encoding="utf-8") as f:
        json.dump(value, f, **how)
        f.write("\n")


def write_tensors(path, tensors, **how):
    save_file({k: v.detach().clone().contiguous() for k, v in tensors.items()}, path, **how)
    os.chmod(path, 0o644)


# ---- names --------------------------------------------------------------------------------------


def file_name(family, name):
    """A parameter's name in checkpoints; the library's own differs for gpt_neox's head."""
    if family == "gpt_neox" and name.startswith("lm_head."):
        return "embed_out." + name.removeprefix("lm_head.")
    return name


def named_tensors(family, model):
    """name in the file -> parameter; a tied head stands once, as the embedding."""
    return {file_name(family, name): p for name, p in model.named_parameters()}


# ---- building and writing -----------------------------------------------------------------------


def fill_randomly(family, model, seed, dtype):
    """Every tensor random, norms and biases too, rounded to what the file can hold."""
    centre = 0.0 if family.startswith("gemma") else 1.0  # gemma's norms multiply by 1 + w
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in sorted(model.named_parameters()):
            noise = torch.randn(p.shape, generator=generator)
            if p.ndim > 1:
                noise = noise * 1.2 / min(p.shape) ** 0.5
            else:
                noise = 0.3 * noise + (0.0 if name.endswith("bias") else centre)
            p.copy_(noise.to(dtype))


def plain_config(family, settings, dtype):
    """config.json as a user would write it: what the family's class needs and nothing more."""
    key = "torch_dtype" if "rope_scaling" in settings or "rope_theta" in settings else "dtype"
    return {"architectures": [ARCHITECTURES[family]], "model_type": family, **IDS,
            **NO_DROPOUT.get(family, {}), **settings, key: dtype}


def dumped_config(directory, family, dtype):
    """config.json as the library itself writes it, with every default spelled out."""
    config = AutoConfig.from_pretrained(directory).to_dict()
    config["architectures"] = [ARCHITECTURES[family]]
    config["dtype"] = dtype
    return {k: v for k, v in config.items() if not k.startswith("_")}


def file_tensors(family, model, options):
    tensors = named_tensors(family, model)
    if options.get("repeat_head"):
        tensors[file_name(family, "lm_head.weight")] = model.get_input_embeddings().weight
    dtype = DTYPES[options.get("dtype", "float32")]
    tensors = {k: v.to(dtype) for k, v in tensors.items()}
    bare = options.get("bare")
    if bare:
        tensors = {k.removeprefix(PREFIXES[family]): v for k, v in tensors.items()}
    if options.get("buffers") or (bare and family in BUFFERS):
        where, shapes = BUFFERS[family]
        for layer in range(model.config.num_hidden_layers):
            for name, shape in shapes.items():
                tensors[where % layer + name] = torch.ones(shape)
    return tensors


def write_weights(tensors, directory, shards):
    how = {"metadata": {"format": "pt"}}
    if shards <= 1:
        write_tensors(os.path.join(directory, "model.safetensors"), tensors, **how)
        return
    names = sorted(tensors)
    files, where = {}, {}
    for i, name in enumerate(names):  # neighbours part, so that a layer is spread over the files
        where[name] = f"model-{i % shards + 1:05d}-of-{shards:05d}.safetensors"
        files.setdefault(where[name], {})[name] = tensors[name]
    for file, some in files.items():
        write_tensors(os.path.join(directory, file), some, **how)
    total = sum(t.numel() * t.element_size() for t in tensors.values())
    write_json(os.path.join(directory, "model.safetensors.index.json"),
               {"metadata": {"total_size": total}, "weight_map": where}, indent=1)


def write_model(directory, family, settings, options, seed):
    """config.json and weights. See expected_fixtures.py for the options."""
    os.makedirs(directory, exist_ok=True)
    dtype = options.get("dtype", "float32")
    path = os.path.join(directory, "config.json")
    write_json(path, plain_config(family, settings, dtype), indent=2)
    if options.get("dump"):
        write_json(path, dumped_config(directory, family, dtype), indent=2, sort_keys=True)
    config = AutoConfig.from_pretrained(directory)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    fill_randomly(family, model, seed, DTYPES[dtype])
    write_weights(file_tensors(family, model, options), directory, options.get("shards", 1))


def load_model(directory, dtype=torch.float32):
    """The model in the directory; nothing may be missing from it, and nothing left over but buffers."""
    model, info = AutoModelForCausalLM.from_pretrained(
        directory, dtype=dtype, attn_implementation="eager", output_loading_info=True)
    buffers = [name for _, shapes in BUFFERS.values() for name in shapes]
    over = [k for k in info.get("unexpected_keys") or [] if not k.endswith(tuple(buffers))]
    bad = {k: v for k, v in info.items() if v and k != "unexpected_keys"}
    if over or bad:
        raise SystemExit(f"{directory}: {over} {bad}")
    return model.eval()


# ---- running ------------------------------------------------------------------------------------


def make_batch(rng, vocab, batch, seq, whole=False, pad=None, pads=0.0):
    """Packed documents: positions restart, labels stop at the end of a document.

    whole: a row is one document. pads: how often the pad token occurs. In most families the library leaves
    its row of the embedding without a gradient, whatever the token's use.
    """
    rows = {"tokens": [], "labels": [], "positions": [], "doc_start": []}
    for _ in range(batch):
        cuts = [] if whole else sorted(rng.sample(range(1, seq), min(2, seq - 1)))
        starts = [max([0] + [c for c in cuts if c <= t]) for t in range(seq)]
        tokens = [rng.randrange(vocab) for _ in range(seq)]
        tokens = [(t + 1) % vocab if t == pad else t for t in tokens]
        if pad is not None and pads > 0:
            tokens = [pad if rng.random() < pads else t for t in tokens]
        tokens[-1] = tokens[0]  # a token twice: its embedding's gradient is a sum
        labels = []
        for t in range(seq):
            inside = t + 1 < seq and starts[t + 1] == starts[t]
            labels.append(tokens[t + 1] if inside and rng.random() < 0.8 else -100)
        if all(label < 0 for label in labels):
            t = next(t for t in range(seq - 1) if starts[t + 1] == starts[t])
            labels[t] = tokens[t + 1]
        rows["tokens"].append(tokens)
        rows["labels"].append(labels)
        rows["positions"].append([t - s for t, s in enumerate(starts)])
        rows["doc_start"].append(starts)
    return rows


def run_logits(model, batch):
    """[batch, seq, vocab]: every document of every row run alone, so no mask here can be wrong."""
    rows = []
    for tokens, starts in zip(batch["tokens"], batch["doc_start"]):
        parts = []
        for first in sorted(set(starts)):
            at = [t for t, s in enumerate(starts) if s == first]
            ids = torch.tensor([[tokens[t] for t in at]])
            parts.append(model(input_ids=ids, use_cache=False).logits[0])
        rows.append(torch.cat(parts))
    return torch.stack(rows)


def loss_sum(logits, labels):
    flat = torch.tensor(labels).flatten()
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return torch.nn.functional.cross_entropy(wide.flatten(0, 1), flat, ignore_index=-100,
                                             reduction="sum")


def run_gradients(family, model, batch):
    """logits, the summed loss, its targets, and the gradient of every tensor by its name in the file."""
    model.zero_grad()
    logits = run_logits(model, batch)
    loss = loss_sum(logits, batch["labels"])
    loss.backward()
    count = sum(label >= 0 for row in batch["labels"] for label in row)
    grads = {}
    for name, p in named_tensors(family, model).items():
        grads[name] = torch.zeros_like(p) if p.grad is None else p.grad.clone()
    model.zero_grad()
    return logits.detach(), loss.detach(), count, grads


def zero_gradients(grads):
    """Tensors whose true gradient is zero, so that only rounding is left of it: name -> scale.

    The softmax does not see a number that is added to all scores of a row, and without RoPE that is all a
    bias of the keys does: the scale to compare with is the gradient of the queries' bias. A window of one
    token leaves queries and keys without any: the scale is a hundredth of the largest gradient.
    """
    out = {}
    largest = max(g.abs().max().item() for g in grads.values())
    for name, g in grads.items():
        scale = 1e-2 * largest
        if name.endswith("k_proj.bias"):
            scale = max(scale, grads[name.replace("k_proj", "q_proj")].abs().max().item())
        if g.abs().max().item() < 1e-5 * scale:
            out[name] = scale
    return out


def write_expected(family, directory, batch):
    logits, loss, count, grads = run_gradients(family, load_model(directory), batch)
    assert torch.isfinite(logits).all() and torch.isfinite(loss), directory
    tensors = {"logits": logits, "loss_sum": loss.reshape(1), "tokens": torch.tensor([float(count)])}
    zeros = zero_gradients(grads)
    for name, g in grads.items():
        tensors["grad." + name] = g
    write_tensors(os.path.join(directory, "expected.safetensors"), tensors)
    if zeros:
        batch = {**batch, "zero_gradients": zeros}
    write_json(os.path.join(directory, "batch.json"), batch)
    return zeros


# ---- training -----------------------------------------------------------------------------------


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
        labels = [r[1:] + [-100] for r in tokens]
        count = sum(len(r) - 1 for r in tokens)
        model.zero_grad()
        logits = model(input_ids=torch.tensor(tokens), use_cache=False).logits
        loss = loss_sum(logits, labels) / count
        loss.backward()
        for master, p in zip(masters, model.parameters()):
            master.grad = p.grad.to(master.dtype)
        norm = torch.nn.utils.clip_grad_norm_(masters, settings["clip_grad_norm"])
        steps.append({"loss": loss.item(), "grad_norm": norm.item(),
                      "lr": schedule.get_last_lr()[0]})
        optimizer.step()
        schedule.step()
        with torch.no_grad():
            for master, p in zip(masters, model.parameters()):
                p.copy_(master)
    return steps


def write_curve(family, directory, vocab, rng):
    settings = dict(max_steps=50, micro_batch=2, seq_length=12, lr=3e-3, lr_schedule="linear",
                    warmup_steps=5, betas=[0.9, 0.999], eps=1e-8, weight_decay=0.1,
                    clip_grad_norm=1.0)
    rows = [{"input_ids": [rng.randrange(vocab) for _ in range(settings["seq_length"])]}
            for _ in range(10)]
    model = load_model(directory)
    steps = train(model, rows, settings, False)
    write_tensors(os.path.join(directory, "trained.safetensors"), named_tensors(family, model))
    bf16 = train(load_model(directory), rows, settings, True)
    write_json(os.path.join(directory, "curve.json"),
               {**settings, "steps": steps, "bf16_losses": [s["loss"] for s in bf16]})
    with open(os.path.join(directory, "train.jsonl"), "w", encoding="utf-8") as f:
        for row in rows:
            f.write(json.dumps(row) + "\n")


def write_fixture(directory, fixture, seed):
    family, settings, batch, seq, options = fixture
    rng = random.Random(seed)
    write_model(directory, family, settings, options, seed)
    pad = settings.get("pad_token_id")
    rows = make_batch(rng, settings["vocab_size"], batch, seq, options.get("whole", False), pad)
    write_expected(family, directory, rows)
    if options.get("train"):
        write_curve(family, directory, settings["vocab_size"], rng)
