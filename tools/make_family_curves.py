#!/usr/bin/env python3
"""Writes tests/data/models/curves.json: short training runs of every model fixture by transformers and
torch.optim.AdamW, from the fixture's weights, fp32, constant rate, clip 1.

    make_family_curves.py            needs torch and transformers

Rows are RAW[i] modulo the model's vocabulary, cut to its `seq`; every row also holds the model's padding
token once, whose embedding the reference does not train in most families."""
import json
import os
import random

os.environ["OMP_NUM_THREADS"] = "1"
import torch  # noqa: E402  after OMP_NUM_THREADS
from transformers import AutoModelForCausalLM  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MODELS = os.path.join(ROOT, "tests", "data", "models")
STEPS, BATCH, SEQ, LR = 6, 4, 24, 1e-3


def rows_of(raw, model):
    vocab, places = model.config.vocab_size, model.config.max_position_embeddings if hasattr(
        model.config, "max_position_embeddings") else SEQ
    seq = min(SEQ, places)
    rows = [[x % vocab for x in row[:seq]] for row in raw]
    pad = model.get_input_embeddings().padding_idx
    for i, row in enumerate(rows):
        if pad is not None:
            row[3 + i % 5] = pad
    return rows, seq, -1 if pad is None else pad


def curve(folder, raw):
    torch.manual_seed(1)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32,
                                                 attn_implementation="eager").eval()
    rows, seq, pad = rows_of(raw, model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR, betas=(0.9, 0.999), eps=1e-8,
                                  weight_decay=0.0)
    out = {"seq": seq, "pad": pad, "loss": [], "grad_norm": []}
    for step in range(STEPS):
        ids = torch.tensor(rows[BATCH * step:BATCH * (step + 1)])
        loss = model(input_ids=ids, labels=ids).loss
        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        out["loss"].append(loss.item())
        out["grad_norm"].append(norm.item())
    return out


def main():
    torch.set_num_threads(1)
    rng = random.Random(11)
    raw = [[rng.randrange(100000) for _ in range(SEQ)] for _ in range(STEPS * BATCH)]
    models = {}
    for name in sorted(os.listdir(MODELS)):
        folder = os.path.join(MODELS, name)
        if os.path.exists(os.path.join(folder, "config.json")) and name != "configs":
            models[name] = curve(folder, raw)
            print(name, models[name]["loss"][-1], flush=True)
    with open(os.path.join(MODELS, "curves.json"), "w", encoding="utf-8") as file:
        json.dump({"steps": STEPS, "batch": BATCH, "lr": LR, "raw": raw, "models": models}, file)
        file.write("\n")


if __name__ == "__main__":
    main()
