"""transformers: model.generate(), greedy, end tokens ignored, eager or torch.compile()d.

The prompt's time ends with its first token; the rest is the answer's. --compile: a static cache and a
compiled forward of one token. --accelerate-max-memory SIZE gives accelerate's device_map="auto" so many bytes
of the only device there is here, the processor's memory: layers beyond them stay in the safetensors files
("disk"), and hooks put them into a layer before its forward and drop them after it. The files lie in the page
cache after the first run, so that the link is memory and not a disk: the least that offloading can cost here.
--accelerate-copy makes each of those tensors a copy of its own, as a device would need; without it they are
maps of the files. (accelerate's CPU offload moves from the processor to another device; with the processor as
that device too, nothing would be moved.)"""
import time

from common import emit_generation, generation_arguments, prompts

args = generation_arguments(
    ("--accelerate-max-memory", {"metavar": "SIZE", "help": "bytes, or as accelerate writes them: 300MiB"}),
    ("--accelerate-copy", {"action": "store_true"}),
    ("--attention", {"choices": ("sdpa", "eager"), "default": "sdpa"}),
    ("--compile", {"action": "store_true"}),
)
import torch  # noqa: E402  after OMP_NUM_THREADS
import transformers  # noqa: E402
from transformers import AutoModelForCausalLM, StoppingCriteria, StoppingCriteriaList  # noqa: E402

torch.set_num_threads(args.threads)
extra = {}
if args.accelerate_max_memory:
    budget = args.accelerate_max_memory
    extra = {"device_map": "auto",
             "max_memory": {"cpu": int(budget) if budget.isdigit() else budget}}
dtype = torch.bfloat16 if args.dtype == "bf16" else torch.float32
model = AutoModelForCausalLM.from_pretrained(
    args.model, dtype=dtype, attn_implementation=args.attention, **extra
).eval()
places = list(getattr(model, "hf_device_map", {}).values())
if args.accelerate_max_memory and "disk" not in places:
    raise SystemExit(f"everything fits in {args.accelerate_max_memory}: nothing is offloaded")
if args.accelerate_copy:
    from accelerate.utils.offload import OffloadedWeightsLoader

    load = OffloadedWeightsLoader.__getitem__
    OffloadedWeightsLoader.__getitem__ = lambda self, key: load(self, key).clone()
settings = model.generation_config
settings.eos_token_id, settings.pad_token_id = None, 0
settings.do_sample, settings.use_cache = False, True
if args.compile:
    settings.cache_implementation = "static"
    model.forward = torch.compile(model.forward)


class Clock(StoppingCriteria):
    """When each token was there."""

    def __init__(self):
        self.times = []

    def __call__(self, input_ids, scores, **kwargs):
        self.times.append(time.perf_counter())
        return torch.zeros(input_ids.shape[0], dtype=torch.bool)


ids = torch.tensor(prompts(model.config.vocab_size, args.batch, args.prompt))
runs = []
with torch.no_grad():
    for _ in range(args.steps + 1):
        clock, start = Clock(), time.perf_counter()
        out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=args.new,
                             stopping_criteria=StoppingCriteriaList([clock]))
        assert len(clock.times) == args.new and out.shape[1] == args.prompt + args.new
        runs.append((clock.times[0] - start, clock.times[-1] - clock.times[0],
                     out[:, args.prompt:].tolist()))
emit_generation(
    args, runs,
    parameters=sum(p.numel() for p in model.parameters()),
    offloaded=sum(p == "disk" for p in places),
    modules=len(places),
    transformers=transformers.__version__,
    torch=torch.__version__,
)
