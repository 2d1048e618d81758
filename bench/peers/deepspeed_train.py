"""DeepSpeed ZeRO-3, parameters and optimizer offloaded to the CPU, on its CPU accelerator, one rank."""
import os

os.environ.setdefault("DS_ACCELERATOR", "cpu")
for name, value in (
    ("RANK", "0"),
    ("LOCAL_RANK", "0"),
    ("WORLD_SIZE", "1"),
    ("LOCAL_SIZE", "1"),
    ("MASTER_ADDR", "127.0.0.1"),
    ("MASTER_PORT", "29517"),
):
    os.environ.setdefault(name, value)
from common import arguments, batches, emit, model_of, timed

args = arguments()
import torch  # noqa: E402  after OMP_NUM_THREADS

torch.set_num_threads(args.threads)
import deepspeed  # noqa: E402

deepspeed.init_distributed(dist_backend="gloo")
model = model_of(args.config, torch.float32)
if args.recompute:
    model.gradient_checkpointing_enable()
config = {
    "train_micro_batch_size_per_gpu": args.batch,
    "gradient_accumulation_steps": args.accum,
    "gradient_clipping": 1.0,
    "bf16": {"enabled": args.dtype == "bf16"},
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "weight_decay": 0.01}},
    "zero_optimization": {
        "stage": 3,
        "offload_param": {"device": "cpu", "pin_memory": False},
        "offload_optimizer": {"device": "cpu", "pin_memory": False},
    },
}
vocab = model.config.vocab_size
engine = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)[0]
data = batches(vocab, args.batch, args.seq)


def step():
    for _ in range(args.accum):
        ids = next(data)
        engine.backward(engine(input_ids=ids, labels=ids).loss)
        engine.step()


emit(**timed(step, args.steps), threads=torch.get_num_threads(),
     deepspeed=deepspeed.__version__)
