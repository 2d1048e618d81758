"""What the peers' scripts share: arguments, a model from a config.json, one JSON line out."""
import argparse
import json
import os
import time


def arguments(*extra):
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", help="a folder with config.json")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch", type=int, default=1, help="sequences of a micro-batch")
    parser.add_argument("--seq", type=int, default=256)
    parser.add_argument("--accum", type=int, default=1)
    parser.add_argument("--steps", type=int, default=3, help="after one that warms up")
    parser.add_argument("--dtype", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--recompute", action="store_true")
    for names, options in extra:
        parser.add_argument(names, **options)
    args = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(args.threads)
    return args


def model_of(folder, dtype):
    import torch
    from transformers import AutoConfig, LlamaForCausalLM

    config = AutoConfig.from_pretrained(folder)
    config.use_cache = False
    config._attn_implementation = "sdpa"
    torch.manual_seed(42)
    return LlamaForCausalLM(config).to(dtype).train()


def batches(vocab, batch, seq):
    import torch

    generator = torch.Generator().manual_seed(1)
    while True:
        yield torch.randint(0, vocab, (batch, seq), generator=generator)


def timed(step, steps):
    """Seconds of each step after the first, and processor seconds of the process."""
    step()
    took = {"seconds": [], "cpu_seconds": []}
    for _ in range(steps):
        start, cpu = time.perf_counter(), time.process_time()
        step()
        took["seconds"].append(time.perf_counter() - start)
        took["cpu_seconds"].append(time.process_time() - cpu)
    return took


def emit(**values):
    print("RESULT " + json.dumps(values), flush=True)
