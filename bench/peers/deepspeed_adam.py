"""DeepSpeedCPUAdam over one flat fp32 tensor: seconds of a step. It reads g and updates p, m, v (28
bytes a parameter). With --copy the weights are copied to bf16 after it, as ZeRO-Offload does."""
import os

os.environ["DS_ACCELERATOR"] = "cpu"
from common import arguments, emit, timed

args = arguments(("--millions", {"type": int, "default": 64}), ("--copy", {"action": "store_true"}))
import torch  # noqa: E402  after OMP_NUM_THREADS

torch.set_num_threads(args.threads)
from deepspeed.ops.adam import DeepSpeedCPUAdam  # noqa: E402

n = args.millions * 1000000 // 32768 * 32768
parameter = torch.nn.Parameter(torch.full((n,), 0.5))
parameter.grad = torch.full((n,), 0.25)
optimizer = DeepSpeedCPUAdam([parameter], lr=1e-4, weight_decay=0.01, adamw_mode=True)
import deepspeed  # noqa: E402

weights = parameter.data.to(torch.bfloat16)


def step():
    optimizer.step()
    if args.copy:
        weights.copy_(parameter.data)


emit(**timed(step, args.steps), parameters=n, deepspeed=deepspeed.__version__)
