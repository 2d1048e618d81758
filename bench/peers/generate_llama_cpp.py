"""llama.cpp through its Python package's low-level interface: greedy, a sequence a row of the batch, bf16 or fp32.

The model is written as a GGUF file first (--gguf FILE; made with the gguf package where there is none): llama
with plain rotary positions, no vocabulary (ids in, ids out). Weights are read into memory (no mmap), keys and
values are kept in --kv. The prompt's time ends with the first token of each row."""
import ctypes
import json
import os
import time

from common import emit_generation, generation_arguments, prompts

args = generation_arguments(
    ("--gguf", {"help": "default: MODEL/DTYPE.gguf"}),
    ("--kv", {"choices": ("bf16", "f16", "f32"), "help": "default: as --dtype"}),
    ("--flash-attention", {"choices": ("auto", "on", "off"), "default": "auto"}),
)
import numpy as np  # noqa: E402  after OMP_NUM_THREADS

NAMES = {
    "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}


def name_of(tensor):
    stem = tensor.removesuffix(".weight")
    if stem.startswith("model.layers."):
        layer, stem = stem.removeprefix("model.layers.").split(".", 1)
        return f"blk.{layer}.{NAMES[stem]}.weight"
    return NAMES[stem] + ".weight"


def pairs_side_by_side(x, heads):
    """The library's rotation pairs a head's halves, this format's its neighbours."""
    return x.reshape(heads, 2, x.shape[0] // heads // 2, *x.shape[1:]).swapaxes(1, 2).reshape(x.shape)


def tensors(folder):
    from safetensors import safe_open

    for name in sorted(os.listdir(folder)):
        if name.startswith("model") and name.endswith(".safetensors"):
            with safe_open(os.path.join(folder, name), "pt") as file:
                for key in file.keys():
                    yield key, file.get_tensor(key)


def write_header(writer, c, heads_kv, head_dim):
    writer.add_context_length(c["max_position_embeddings"])
    writer.add_embedding_length(c["hidden_size"])
    writer.add_block_count(c["num_hidden_layers"])
    writer.add_feed_forward_length(c["intermediate_size"])
    writer.add_head_count(c["num_attention_heads"])
    writer.add_head_count_kv(heads_kv)
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_rope_dimension_count(head_dim)
    rope = c.get("rope_parameters") or {"rope_theta": c.get("rope_theta", 10000.0)}
    if rope.get("rope_type", "default") != "default" or c.get("rope_scaling"):
        raise SystemExit("scaled rotary positions are not converted here")
    writer.add_rope_freq_base(rope["rope_theta"])
    writer.add_layer_norm_rms_eps(c["rms_norm_eps"])
    writer.add_vocab_size(c["vocab_size"])
    writer.add_tokenizer_model("none")


def convert(folder, path, dtype):
    import gguf
    import torch

    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        c = json.load(file)
    if c["model_type"] != "llama":
        raise SystemExit(f"{c['model_type']}: only llama is converted here")
    heads = c["num_attention_heads"]
    heads_kv = c.get("num_key_value_heads") or heads
    head_dim = c.get("head_dim") or c["hidden_size"] // heads
    writer = gguf.GGUFWriter(path + ".part", "llama")
    write_header(writer, c, heads_kv, head_dim)
    kind = gguf.GGMLQuantizationType.BF16
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_BF16 if dtype == "bf16" else gguf.LlamaFileType.ALL_F32)
    for key, x in tensors(folder):
        name = name_of(key)
        x = x.float().numpy()
        if "attn_q." in name or "attn_k." in name:
            x = pairs_side_by_side(x, heads if "attn_q." in name else heads_kv)
        x = np.ascontiguousarray(x)
        if dtype == "bf16" and x.ndim == 2:
            bits = torch.from_numpy(x).to(torch.bfloat16).view(torch.uint8).numpy()
            writer.add_tensor(name, bits, raw_dtype=kind)
        else:
            writer.add_tensor(name, x)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    os.replace(path + ".part", path)


path = args.gguf or os.path.join(args.model, args.dtype + ".gguf")
if not os.path.exists(path):
    convert(args.model, path, args.dtype)

import llama_cpp as L  # noqa: E402

say_nothing = L.llama_log_callback(lambda level, text, user: None)
L.llama_log_set(say_nothing, ctypes.c_void_p(0))
L.llama_backend_init()
p = L.llama_model_default_params()
p.use_mmap, p.n_gpu_layers = False, 0
model = L.llama_model_load_from_file(path.encode(), p)
if not model:
    raise SystemExit(f"{path}: llama.cpp does not load it")
KV = {"bf16": 30, "f16": L.GGML_TYPE_F16, "f32": L.GGML_TYPE_F32}  # GGML_TYPE_BF16 has no name there
kv = args.kv or {"bf16": "bf16", "fp32": "f32"}[args.dtype]
p = L.llama_context_default_params()
p.n_ctx = args.batch * (-(-(args.prompt + args.new) // 256) * 256)
p.n_seq_max = args.batch
p.n_batch = max(args.batch * args.prompt, 512)
p.n_ubatch = 512
p.n_threads = p.n_threads_batch = args.threads
p.type_k = p.type_v = KV[kv]
p.flash_attn_type = {"auto": -1, "off": 0, "on": 1}[args.flash_attention]
context = L.llama_init_from_model(model, p)
if not context:
    raise SystemExit("llama.cpp does not open a context of this size")
vocab = L.llama_vocab_n_tokens(L.llama_model_get_vocab(model))
rows = prompts(vocab, args.batch, args.prompt)
memory = L.llama_get_memory(context)
batch = L.llama_batch_init(p.n_batch, 0, 1)


def add(token, position, row, wanted):
    i = batch.n_tokens
    batch.token[i], batch.pos[i] = token, position
    batch.n_seq_id[i], batch.seq_id[i][0] = 1, row
    batch.logits[i] = wanted
    batch.n_tokens = i + 1
    return i


def decode(places):
    """The most probable token after each of the places of the batch."""
    if L.llama_decode(context, batch) != 0:
        raise SystemExit("llama_decode failed")
    best = []
    for i in places:
        logits = np.ctypeslib.as_array(L.llama_get_logits_ith(context, i), shape=(vocab,))
        best.append(int(logits.argmax()))
    return best


def run():
    L.llama_memory_clear(memory, True)
    start = time.perf_counter()
    batch.n_tokens, last = 0, []
    for r, row in enumerate(rows):
        for k, token in enumerate(row):
            at = add(token, k, r, k + 1 == len(row))
        last.append(at)
    ids = [[token] for token in decode(last)]
    filled = time.perf_counter()
    for k in range(args.new - 1):
        batch.n_tokens = 0
        places = [add(x[-1], args.prompt + k, r, True) for r, x in enumerate(ids)]
        for x, token in zip(ids, decode(places)):
            x.append(token)
    return filled - start, time.perf_counter() - filled, ids


emit_generation(args, [run() for _ in range(args.steps + 1)], kv=kv, gguf_bytes=os.path.getsize(path),
                llama_cpp=L.__version__)
