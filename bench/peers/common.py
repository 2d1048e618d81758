"""What the peers' scripts share: arguments, a model from a config.json, one JSON line out."""
import argparse
import json
import os
import resource
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


def generation_arguments(*extra):
    """What generate_*.py share: --batch prompts of --prompt random ids each, --new tokens for each, greedy."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True, help="a folder with config.json and safetensors")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--prompt", type=int, default=128, help="tokens of each prompt")
    parser.add_argument("--new", type=int, default=64, help="tokens of each answer")
    parser.add_argument("--steps", type=int, default=3, help="after one that warms up")
    parser.add_argument("--dtype", choices=("fp32", "bf16"), default="bf16")
    for names, options in extra:
        parser.add_argument(names, **options)
    args = parser.parse_args()
    if args.new < 2:
        parser.error("--new: at least 2, the first comes from the prompt")
    os.environ["OMP_NUM_THREADS"] = str(args.threads)
    return args


def prompts(vocab, batch, length):
    """Lists of ids, the same for every program: a linear congruential generator's."""
    state, rows = 1, []
    for _ in range(batch):
        row = []
        for _ in range(length):
            state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
            row.append(3 + (state >> 33) % (vocab - 3))
        rows.append(row)
    return rows


def emit_generation(args, runs, **values):
    """runs: of each, seconds of prompts, seconds of answers, ids of the answers. The first warms up.

    The libraries' threads wait for each other by spinning: with one of them off its core everything waits, and
    a token takes ten times as long. Many involuntary switches (a few a second are none) tell such a run.
    """
    fed, made = args.batch * args.prompt, args.batch * (args.new - 1)
    took = sorted(run[1] for run in runs[1:])
    fill = sorted(run[0] for run in runs[1:])
    emit(
        seconds=[run[0] + run[1] for run in runs[1:]],
        prefill_seconds=[run[0] for run in runs[1:]],
        decode_seconds=[run[1] for run in runs[1:]],
        prefill_tokens_per_second=fed / fill[len(fill) // 2],
        decode_tokens_per_second=made / took[len(took) // 2],
        batch=args.batch,
        prompt=args.prompt,
        new=args.new,
        dtype=args.dtype,
        threads=args.threads,
        involuntary_switches=resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw,
        begins=[ids[:8] for ids in runs[-1][2][:2]],
        **values,
    )
