"""Seconds of one step's matrix products alone, with PyTorch's library: for each linear layer of the
config the forward product (twice with --recompute), dX and dW."""
import json
import os
import statistics
import time

from common import arguments, emit

args = arguments()
import torch  # noqa: E402  after OMP_NUM_THREADS

torch.set_num_threads(args.threads)
dtype = torch.bfloat16 if args.dtype == "bf16" else torch.float32
with open(os.path.join(args.config, "config.json"), encoding="utf-8") as file:
    c = json.load(file)
hidden, head = c["hidden_size"], c["head_dim"]
q, kv = c["num_attention_heads"] * head, c["num_key_value_heads"] * head
mlp, layers = c["intermediate_size"], c["num_hidden_layers"]
# (outputs, inputs, how many of them in the model, forward products again in the backward pass)
linears = [
    (q, hidden, layers, True),
    (kv, hidden, 2 * layers, True),
    (hidden, q, layers, True),
    (mlp, hidden, 2 * layers, True),
    (hidden, mlp, layers, True),
    (c["vocab_size"], hidden, 1, False),
]
tokens = args.batch * args.seq
total = cpu = flops = 0.0
for out, inner, count, again in linears:
    x = torch.randn(tokens, inner).to(dtype)
    w = torch.randn(out, inner).to(dtype)
    dy = torch.randn(tokens, out).to(dtype)
    forward = 2 if again and args.recompute else 1

    def products():
        for _ in range(forward):
            torch.matmul(x, w.t())
        torch.matmul(dy, w)
        torch.matmul(dy.t(), x)

    products()
    took = []
    start_cpu = time.process_time()
    for _ in range(args.steps):
        start = time.perf_counter()
        products()
        took.append(time.perf_counter() - start)
    cpu += count * (time.process_time() - start_cpu) / args.steps * args.accum
    total += count * statistics.median(took) * args.accum
    flops += 2.0 * tokens * out * inner * (forward + 2) * count * args.accum
emit(seconds=[total], cpu_seconds=[cpu], flops=flops, rate=flops / total)
