"""Greedy text by transformers' generate(), for bench/generate.py: one JSON line of seconds.

usage: transformers_generate.py MODEL BATCH PROMPT NEW THREADS [DEVICE_BYTES]

Prefill is a call for one token, decode what a call for NEW tokens takes beyond it. DEVICE_BYTES: with
accelerate, as much of the model as that holds stays in memory and the rest is offloaded to disk, which is what
its "cpu" is to an accelerator where there is none.
"""
import json
import sys
import tempfile
import time

import torch
from transformers import AutoModelForCausalLM


def load(path, budget):
    if budget is None:
        return AutoModelForCausalLM.from_pretrained(path, dtype=torch.bfloat16)
    folder = tempfile.mkdtemp()
    return AutoModelForCausalLM.from_pretrained(path, dtype=torch.bfloat16, device_map="auto",
                                                max_memory={"cpu": budget}, offload_folder=folder)


def seconds(model, ids, new):
    start = time.perf_counter()
    model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=new, min_new_tokens=new,
                   do_sample=False, pad_token_id=0)
    return time.perf_counter() - start


def main():
    path, batch, prompt, new, threads = sys.argv[1], *map(int, sys.argv[2:6])
    torch.set_num_threads(threads)
    model = load(path, int(sys.argv[6]) if len(sys.argv) > 6 else None).eval()
    ids = torch.randint(3, 1000, (batch, prompt), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        seconds(model, ids, 1)
        first = seconds(model, ids, 1)
        all = seconds(model, ids, new)
    print(json.dumps({"prefill_seconds": first, "decode_seconds": all - first, "decode_tokens": batch * (new - 1)}))


if __name__ == "__main__":
    main()
