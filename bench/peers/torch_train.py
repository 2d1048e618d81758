"""PyTorch eager: LlamaForCausalLM (transformers, sdpa), clip 1.0, torch.optim.AdamW.

--weights of --dtype bf16: `bf16` keeps weights and moments in bf16 (the cheapest step, no fp32
master); `autocast` keeps fp32 weights and moments and computes under torch.autocast."""
from common import arguments, batches, emit, model_of, timed

args = arguments(
    ("--weights", {"choices": ("bf16", "autocast"), "default": "bf16"}),
    ("--fused", {"action": "store_true", "help": "torch.optim.AdamW(fused=True)"}),
)
import torch  # noqa: E402  after OMP_NUM_THREADS

torch.set_num_threads(args.threads)
bf16 = args.dtype == "bf16"
autocast = bf16 and args.weights == "autocast"
model = model_of(args.config, torch.bfloat16 if bf16 and not autocast else torch.float32)
if args.recompute:
    model.gradient_checkpointing_enable()
options = {"fused": True} if args.fused else {}
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, **options)
data = batches(model.config.vocab_size, args.batch, args.seq)


def step():
    for _ in range(args.accum):
        ids = next(data)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
            loss = model(input_ids=ids, labels=ids).loss / args.accum
        loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.item()


emit(
    **timed(step, args.steps),
    threads=torch.get_num_threads(),
    parameters=sum(p.numel() for p in model.parameters()),
    torch=torch.__version__,
    bf16_instructions=torch.ops.mkldnn._is_mkldnn_bf16_supported(),
)
