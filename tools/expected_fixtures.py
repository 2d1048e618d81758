"""The models of make_expected.py: small, and of shapes that no kernel likes.

name: (family, config, batch, seq, options). Options:
    dtype        of the file: float32, bfloat16 or float16; the numbers are fp32 all the same
    shards       files that the weights are spread over, with an index
    dump         config.json with every key the library writes, in place of those that are given
    bare         names without the family's prefix
    repeat_head  the head's tensor stands in the file though it is tied
    buffers      old checkpoints' tensors that hold no parameter stand in the file
    whole        each row is one document: what RoPE depends on the length must see one length only
    train        with a training curve
"""
LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32}
YARN = {"factor": 4.0, "original_max_position_embeddings": 16, "beta_fast": 8.0}


def rope(kind, theta, **rest):
    return {"rope_type": kind, "rope_theta": theta, **rest}


def decoder(vocab, hidden, intermediate, layers, heads, kv=None, **rest):
    """The keys that most families share."""
    out = dict(vocab_size=vocab, hidden_size=hidden, intermediate_size=intermediate,
               num_hidden_layers=layers, num_attention_heads=heads, max_position_embeddings=64)
    if kv is not None:
        out["num_key_value_heads"] = kv
    return {**out, **rest}


def opt(vocab, hidden, ffn, layers, heads, **rest):
    return {**dict(vocab_size=vocab, hidden_size=hidden, ffn_dim=ffn, num_hidden_layers=layers,
                   num_attention_heads=heads, max_position_embeddings=40), **rest}


def bloom(vocab, hidden, layers, heads, **rest):
    return {**dict(vocab_size=vocab, hidden_size=hidden, n_layer=layers, n_head=heads), **rest}


FIXTURES = {
    # ---- the first ones: their order is their seed
    "llama-untied": ("llama", decoder(
        157, 60, 92, 2, 3, 1, rope_parameters=rope("yarn", 10000.0, **YARN)), 2, 21, {"dump": True}),
    "llama-tied": ("llama", decoder(
        1100, 24, 40, 3, 2, rms_norm_eps=1e-5, tie_word_embeddings=True,
        rope_parameters=rope("llama3", 500000.0, **LLAMA3)), 2, 11, {"dump": True}),
    "llama-bias": ("llama", decoder(
        97, 28, 36, 2, 4, 2, head_dim=10, hidden_act="gelu", attention_bias=True, mlp_bias=True),
        3, 17, {"train": True, "dump": True}),
    "gpt2": ("gpt2", dict(
        vocab_size=211, n_embd=36, n_layer=2, n_head=3, n_positions=32), 2, 19,
        {"train": True, "dump": True}),
    "gpt2-chunks": ("gpt2", dict(
        vocab_size=2100, n_embd=12, n_layer=1, n_head=2, n_positions=24, n_inner=20,
        activation_function="relu", scale_attn_weights=False), 2, 8, {"bare": True, "dump": True}),
    # ---- llama: kinds of RoPE, under both spellings of its keys
    "llama-linear": ("llama", decoder(
        61, 24, 38, 2, 3, 1, rope_theta=10000.0, rope_scaling={"type": "linear", "factor": 2.5}),
        2, 19, {"shards": 2, "buffers": True}),
    "llama-dynamic": ("llama", decoder(
        67, 20, 30, 2, 2, 1, max_position_embeddings=16, rope_theta=1000.0,
        rope_scaling={"type": "dynamic", "factor": 3.0}), 2, 27, {"whole": True, "dtype": "bfloat16"}),
    "llama-llama3": ("llama", decoder(
        89, 30, 26, 2, 5, 1, tie_word_embeddings=True, rope_theta=30.0,
        rope_scaling={"rope_type": "llama3", **LLAMA3}), 2, 23,
        {"repeat_head": True, "dtype": "float16"}),
    "llama-yarn": ("llama", decoder(
        73, 21, 26, 2, 3, 3, head_dim=10, rope_theta=5000.0, rope_scaling={
            "type": "yarn", "factor": 3.0, "original_max_position_embeddings": 11, "beta_fast": 6,
            "beta_slow": 0.5, "attention_factor": 1.15}), 2, 23, {}),
    "llama-longrope-long": ("llama", decoder(
        71, 20, 30, 2, 2, 1, rope_parameters=rope(
            "longrope", 10000.0, factor=4.0, original_max_position_embeddings=16,
            short_factor=[1.0, 1.05, 1.3, 1.7, 2.0], long_factor=[1.0, 1.6, 2.9, 5.5, 9.0])),
        2, 22, {"whole": True}),
    "llama-longrope-short": ("llama", decoder(
        71, 20, 30, 2, 2, 2, tie_word_embeddings=True, rope_parameters=rope(
            "longrope", 10000.0, factor=4.0, original_max_position_embeddings=16,
            short_factor=[1.0, 1.05, 1.3, 1.7, 2.0], long_factor=[1.0, 1.6, 2.9, 5.5, 9.0])),
        3, 13, {"dtype": "bfloat16", "dump": True}),
    # ---- mistral
    "mistral-window": ("mistral", decoder(
        83, 24, 34, 2, 3, 1, sliding_window=5, rope_parameters=rope("default", 10000.0)), 2, 23,
        {"dtype": "bfloat16", "shards": 3}),
    "mistral-no-window": ("mistral", decoder(
        101, 20, 26, 2, 5, 1, head_dim=6, sliding_window=None, rope_theta=1000000.0), 2, 21,
        {"dump": True}),
    "mistral-tied": ("mistral", decoder(
        131, 21, 29, 2, 3, 3, head_dim=22, sliding_window=11, tie_word_embeddings=True,
        hidden_act="gelu_pytorch_tanh", rms_norm_eps=1e-5), 2, 25, {"whole": True, "dtype": "bfloat16"}),
    # ---- qwen2
    "qwen2-window": ("qwen2", decoder(
        79, 20, 31, 3, 5, 1, use_sliding_window=True, sliding_window=4, max_window_layers=1,
        rope_theta=1000000.0), 2, 21, {}),
    "qwen2-unused-window": ("qwen2", decoder(
        301, 18, 25, 2, 3, 3, use_sliding_window=False, sliding_window=4, max_window_layers=1,
        tie_word_embeddings=True, rope_theta=1000000.0, bos_token_id=1, eos_token_id=2), 2, 13,
        {"dtype": "bfloat16", "repeat_head": True}),
    "qwen2-layer-types": ("qwen2", decoder(
        97, 24, 22, 3, 3, 1, use_sliding_window=True, sliding_window=6,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        rope_parameters=rope("yarn", 10000.0, factor=4.0, original_max_position_embeddings=12)),
        2, 23, {"dtype": "float16", "dump": True}),
    # ---- qwen3
    "qwen3-tied": ("qwen3", decoder(
        71, 24, 34, 2, 3, 1, head_dim=10, tie_word_embeddings=True, rope_theta=1000000.0), 3, 17,
        {"train": True}),
    "qwen3-untied": ("qwen3", decoder(
        61, 20, 27, 2, 5, 5, head_dim=6, attention_bias=True, rms_norm_eps=1e-5,
        rope_parameters=rope("default", 10000.0)), 2, 19, {"dump": True}),
    "qwen3-window": ("qwen3", decoder(
        67, 22, 23, 3, 2, 1, head_dim=20, use_sliding_window=True, sliding_window=7,
        max_window_layers=2, rope_theta=10000.0, rope_scaling={
            "rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 16}), 2, 23,
        {"dtype": "bfloat16", "shards": 2}),
    # ---- phi3
    "phi3": ("phi3", decoder(
        73, 30, 28, 2, 5, 1, sliding_window=6, rope_theta=10000.0), 2, 21, {}),
    "phi3-long": ("phi3", decoder(
        67, 20, 30, 2, 2, 1, original_max_position_embeddings=16, rope_theta=10000.0, rope_scaling={
            "type": "longrope", "short_factor": [1.0, 1.05, 1.3, 1.7, 2.0],
            "long_factor": [1.0, 1.6, 2.9, 5.5, 9.0]}), 2, 22, {"whole": True, "dtype": "bfloat16"}),
    "phi3-short": ("phi3", decoder(
        97, 18, 26, 2, 3, 3, original_max_position_embeddings=16, sliding_window=64,
        rope_theta=10000.0, rope_scaling={
            "type": "su", "original_max_position_embeddings": 16, "short_factor": [1.1, 1.4, 2.2],
            "long_factor": [1.2, 3.5, 7.0]}), 3, 15, {"shards": 2}),
    "phi3-partial": ("phi3", decoder(
        61, 36, 19, 2, 3, 1, original_max_position_embeddings=12, partial_rotary_factor=0.5,
        tie_word_embeddings=True, rms_norm_eps=1e-5, rope_scaling={
            "type": "longrope", "short_factor": [1.0, 1.2, 1.5], "long_factor": [1.0, 2.0, 4.5]}),
        2, 19, {"whole": True, "dump": True, "dtype": "bfloat16"}),
    # ---- gpt_neox
    "gpt_neox": ("gpt_neox", decoder(
        89, 24, 50, 2, 3, rotary_pct=0.5, rotary_emb_base=10000, attention_bias=False), 3, 17,
        {"train": True}),
    "gpt_neox-sequential": ("gpt_neox", decoder(
        67, 24, 41, 2, 3, rotary_pct=0.25, use_parallel_residual=False, hidden_act="gelu_fast"),
        2, 21, {"buffers": True, "dtype": "float16"}),
    "gpt_neox-tied": ("gpt_neox", decoder(
        151, 20, 33, 2, 2, tie_word_embeddings=True, rope_parameters=rope(
            "linear", 1000.0, factor=2.0, partial_rotary_factor=0.6), layer_norm_eps=1e-6), 2, 18,
        {"repeat_head": True, "dump": True}),
    "gpt_neox-full": ("gpt_neox", decoder(
        61, 30, 37, 2, 5, rotary_pct=1.0, hidden_act="relu"), 2, 19,
        {"shards": 2, "dtype": "bfloat16"}),
    # ---- opt
    "opt": ("opt", opt(101, 24, 34, 2, 3), 2, 21, {}),
    "opt-post": ("opt", opt(
        127, 20, 37, 2, 5, do_layer_norm_before=False, word_embed_proj_dim=12, pad_token_id=1,
        bos_token_id=2, eos_token_id=2), 3, 17, {"repeat_head": True, "dtype": "float16"}),
    "opt-plain": ("opt", opt(
        83, 24, 29, 2, 3, activation_function="gelu", enable_bias=False,
        layer_norm_elementwise_affine=False), 2, 19, {"dump": True}),
    "opt-narrow": ("opt", opt(
        97, 20, 31, 2, 2, word_embed_proj_dim=9, activation_function="gelu",
        max_position_embeddings=19), 2, 19, {"dtype": "bfloat16", "shards": 2, "whole": True}),
    # ---- bloom
    "bloom": ("bloom", bloom(97, 21, 2, 3), 2, 23, {"dump": True}),
    "bloom-bare": ("bloom", bloom(113, 20, 2, 5, layer_norm_epsilon=1e-6), 2, 21,
                   {"bare": True, "dtype": "float16", "repeat_head": True}),
    "bloom-twelve": ("bloom", dict(
        vocab_size=67, n_embed=24, n_layer=2, n_head=12, tie_word_embeddings=False), 2, 19,
        {"dtype": "bfloat16"}),
    # ---- gemma2
    "gemma2": ("gemma2", decoder(
        89, 24, 34, 3, 3, 1, head_dim=10, query_pre_attn_scalar=7, sliding_window=5,
        attn_logit_softcapping=1.5, final_logit_softcapping=3.0,
        hidden_activation="gelu_pytorch_tanh"), 2, 21, {"dtype": "bfloat16"}),
    "gemma2-layer-types": ("gemma2", decoder(
        71, 20, 27, 3, 2, 2, head_dim=6, query_pre_attn_scalar=16, sliding_window=4,
        attn_logit_softcapping=None, final_logit_softcapping=5.0, attention_bias=True,
        layer_types=["full_attention", "sliding_attention", "sliding_attention"],
        rope_theta=1000.0), 2, 19, {"dump": True}),
    "gemma2-uncapped": ("gemma2", decoder(
        131, 20, 26, 2, 5, 1, head_dim=20, query_pre_attn_scalar=20, sliding_window=9,
        attn_logit_softcapping=0.8, final_logit_softcapping=None, rms_norm_eps=1e-5,
        pad_token_id=0, eos_token_id=1, bos_token_id=2), 2, 15,
        {"repeat_head": True, "shards": 2, "dtype": "float16"}),
    # ---- gemma3_text
    "gemma3": ("gemma3_text", decoder(
        83, 21, 26, 3, 3, 1, head_dim=10, query_pre_attn_scalar=13, sliding_window=5,
        sliding_window_pattern=3, rope_theta=1000000.0, rope_local_base_freq=100.0,
        rope_scaling={"rope_type": "linear", "factor": 8.0}), 2, 21, {}),
    "gemma3-layer-types": ("gemma3_text", decoder(
        61, 20, 27, 4, 5, 1, head_dim=6, query_pre_attn_scalar=6, sliding_window=4,
        layer_types=["sliding_attention", "full_attention", "full_attention", "sliding_attention"],
        rope_parameters={"full_attention": rope("default", 50000.0),
                         "sliding_attention": rope("default", 30.0)}), 2, 23,
        {"dtype": "bfloat16", "shards": 2, "dump": True}),
    "gemma3-capped": ("gemma3_text", decoder(
        127, 22, 25, 2, 2, 2, head_dim=20, query_pre_attn_scalar=256, sliding_window=512,
        sliding_window_pattern=2, final_logit_softcapping=4.0, rms_norm_eps=1e-5, pad_token_id=0,
        eos_token_id=1, bos_token_id=2), 2, 15, {"repeat_head": True, "dtype": "float16"}),
    # ---- later ones stand here: a fixture's seed is its place
    "gpt2-untied": ("gpt2", dict(
        vocab_size=59, n_embd=25, n_layer=2, n_head=5, n_positions=40, n_inner=31, pad_token_id=7,
        activation_function="gelu", tie_word_embeddings=False), 2, 21,
        {"dtype": "float16", "shards": 2}),
}


# ---- random models ------------------------------------------------------------------------------


def draw_common(rng):
    """heads 1, 2, 3, 5 or 7; head size even, 4..26; 1..3 layers; vocabulary 40..400 or 1025..2300 (more than
    one chunk of it); rows of 5..23 tokens."""
    heads = rng.choice([1, 2, 3, 5, 7])
    head_dim = 2 * rng.randint(2, 13)
    vocab = rng.choice([rng.randint(40, 400), rng.randint(1025, 2300)])
    return heads, head_dim, vocab, rng.randint(1, 3), rng.randint(5, 23)


def draw_decoder(rng, heads, head_dim, vocab, layers, own_head_dim=True):
    """hidden = heads * 5..14 where head_dim is a key, else heads * head size; any divisor of heads as
    key-value heads; intermediate 9..90."""
    kv = rng.choice([k for k in range(1, heads + 1) if heads % k == 0])
    out = decoder(vocab, heads * (rng.randint(5, 14) if own_head_dim else head_dim),
                  rng.randint(9, 90), layers, heads, kv,
                  max_position_embeddings=rng.randint(24, 40),
                  rms_norm_eps=rng.choice([1e-6, 1e-5]),
                  tie_word_embeddings=rng.random() < 0.5)
    if own_head_dim:
        out["head_dim"] = head_dim
    return out


def draw_rope(rng, head_dim, kinds):
    """A kind of RoPE, base 100, 1e4 or 5e5, original length 6..32 (so on both sides of the rows' length),
    under the old or the new spelling; and whether it depends on the length."""
    kind = rng.choice(kinds)
    theta = rng.choice([100.0, 10000.0, 500000.0])
    original = rng.randint(6, 32)
    rest = {"default": {}, "linear": {"factor": 2.5}, "dynamic": {"factor": 3.0},
            "llama3": {**LLAMA3, "original_max_position_embeddings": original},
            "yarn": {"factor": 4.0, "original_max_position_embeddings": original,
                     "beta_fast": rng.choice([8.0, 32.0])},
            "longrope": {"factor": 4.0, "original_max_position_embeddings": original,
                         "short_factor": [1 + 0.1 * rng.random() for _ in range(head_dim // 2)],
                         "long_factor": [1 + 5 * rng.random() for _ in range(head_dim // 2)]}}[kind]
    out = {"rope_parameters": rope(kind, theta, **rest)}
    if rng.random() < 0.5:
        out = {"rope_theta": theta}
        if kind != "default":
            out["rope_scaling"] = {rng.choice(["type", "rope_type"]): kind, **rest}
    if kind == "dynamic":
        out["max_position_embeddings"] = original
    return out, kind in ("dynamic", "longrope")


ROPES = ["default", "linear", "dynamic", "llama3", "yarn", "longrope"]
ACTS = ["silu", "gelu", "gelu_pytorch_tanh"]


def draw_window(rng):
    """Null, or 1..16 tokens."""
    return rng.choice([None, rng.randint(1, 16), rng.randint(1, 16)])


def draw_layer_windows(rng, layers):
    """use_sliding_window with max_window_layers 0..layers, or explicit layer_types, or unused."""
    out = {"use_sliding_window": rng.random() < 0.7, "sliding_window": rng.randint(1, 16),
           "max_window_layers": rng.randint(0, layers)}
    if out["use_sliding_window"] and rng.random() < 0.4:
        out["layer_types"] = draw_layer_types(rng, layers)
    return out


def draw_layer_types(rng, layers):
    return [rng.choice(["full_attention", "sliding_attention"]) for _ in range(layers)]


def draw_gpt2(rng, heads, head_dim, vocab, layers):
    config = dict(vocab_size=vocab, n_embd=heads * head_dim, n_layer=layers, n_head=heads,
                  n_positions=rng.randint(24, 40), n_inner=rng.choice([None, rng.randint(9, 90)]),
                  activation_function=rng.choice(["gelu_new", "gelu", "relu"]),
                  scale_attn_weights=rng.random() < 0.7, tie_word_embeddings=rng.random() < 0.7)
    return config, {"bare": rng.random() < 0.5}


def draw_llama(rng, heads, head_dim, vocab, layers):
    config = draw_decoder(rng, heads, head_dim, vocab, layers)
    ropes, whole = draw_rope(rng, head_dim, ROPES)
    config.update(hidden_act=rng.choice(ACTS), attention_bias=rng.random() < 0.5,
                  mlp_bias=rng.random() < 0.5, **ropes)
    return config, {"whole": whole}


def draw_mistral(rng, heads, head_dim, vocab, layers):
    config = draw_decoder(rng, heads, head_dim, vocab, layers)
    ropes, whole = draw_rope(rng, head_dim, ROPES)
    config.update(hidden_act=rng.choice(ACTS), sliding_window=draw_window(rng), **ropes)
    return config, {"whole": whole}


def draw_qwen2(rng, heads, head_dim, vocab, layers):
    config = draw_decoder(rng, heads, head_dim, vocab, layers, False)
    ropes, whole = draw_rope(rng, head_dim, ROPES)
    config.update(hidden_act=rng.choice(ACTS), **draw_layer_windows(rng, layers), **ropes)
    return config, {"whole": whole}


def draw_qwen3(rng, heads, head_dim, vocab, layers):
    config = draw_decoder(rng, heads, head_dim, vocab, layers)
    ropes, whole = draw_rope(rng, head_dim, ROPES)
    config.update(hidden_act=rng.choice(ACTS), attention_bias=rng.random() < 0.4,
                  **draw_layer_windows(rng, layers), **ropes)
    return config, {"whole": whole}


def draw_phi3(rng, heads, head_dim, vocab, layers):
    """The rotated part is the whole head or half of it (even)."""
    config = draw_decoder(rng, heads, head_dim, vocab, layers, False)
    part = 0.5 if head_dim % 4 == 0 and rng.random() < 0.5 else 1.0
    ropes, whole = draw_rope(rng, int(head_dim * part), ["default", "longrope"])
    inner = ropes.get("rope_scaling") or ropes.get("rope_parameters") or {}
    original = inner.pop("original_max_position_embeddings", 16)
    config.update(hidden_act=rng.choice(ACTS), sliding_window=draw_window(rng),
                  original_max_position_embeddings=original, partial_rotary_factor=part, **ropes)
    return config, {"whole": whole}


def draw_gpt_neox(rng, heads, head_dim, vocab, layers):
    """rotary_pct such that an even number of 2..head size is rotated."""
    rotated = 2 * rng.randint(1, head_dim // 2)
    config = dict(vocab_size=vocab, hidden_size=heads * head_dim, num_hidden_layers=layers,
                  num_attention_heads=heads, intermediate_size=rng.randint(9, 90),
                  max_position_embeddings=rng.randint(24, 40), rotary_pct=(rotated + 0.25) / head_dim,
                  rotary_emb_base=rng.choice([100, 10000]), attention_bias=rng.random() < 0.6,
                  hidden_act=rng.choice(["gelu", "gelu_new", "gelu_fast", "relu"]),
                  layer_norm_eps=rng.choice([1e-5, 1e-6]), use_parallel_residual=rng.random() < 0.6,
                  tie_word_embeddings=rng.random() < 0.4)
    config["rotary_pct"] = min(1.0, config["rotary_pct"])
    return config, {"buffers": rng.random() < 0.3}


def draw_opt(rng, heads, head_dim, vocab, layers):
    hidden = heads * head_dim
    config = opt(vocab, hidden, rng.randint(9, 90), layers, heads,
                 max_position_embeddings=rng.randint(24, 40),
                 do_layer_norm_before=rng.random() < 0.6,
                 word_embed_proj_dim=rng.choice([hidden, hidden, rng.randint(3, hidden + 5)]),
                 activation_function=rng.choice(["relu", "gelu"]), enable_bias=rng.random() < 0.7,
                 layer_norm_elementwise_affine=rng.random() < 0.7)
    return config, {}


def draw_bloom(rng, heads, head_dim, vocab, layers):
    heads = rng.choice([heads, 6, 11, 12])
    config = bloom(vocab, heads * rng.randint(2, 9), layers, heads,
                   layer_norm_epsilon=rng.choice([1e-5, 1e-6]), tie_word_embeddings=rng.random() < 0.8)
    return config, {"bare": rng.random() < 0.5}


def draw_gemma2(rng, heads, head_dim, vocab, layers):
    """Soft caps null or 0.5..5; query_pre_attn_scalar 3..40."""
    config = draw_decoder(rng, heads, head_dim, vocab, layers)
    config.update(hidden_activation="gelu_pytorch_tanh", query_pre_attn_scalar=rng.randint(3, 40),
                  sliding_window=rng.randint(1, 16), tie_word_embeddings=True,
                  attn_logit_softcapping=rng.choice([None, 0.5 + 4.5 * rng.random()]),
                  final_logit_softcapping=rng.choice([None, 0.5 + 4.5 * rng.random()]),
                  rope_theta=rng.choice([100.0, 10000.0]))
    if rng.random() < 0.4:
        config["layer_types"] = draw_layer_types(rng, layers)
    return config, {}


def draw_gemma3(rng, heads, head_dim, vocab, layers):
    """Global layers every 2nd or 3rd or as listed; linear RoPE on them or none."""
    config = draw_decoder(rng, heads, head_dim, vocab, layers)
    config.update(hidden_activation="gelu_pytorch_tanh", query_pre_attn_scalar=rng.randint(3, 40),
                  sliding_window=rng.randint(1, 16), tie_word_embeddings=True,
                  final_logit_softcapping=rng.choice([None, None, 0.5 + 4.5 * rng.random()]),
                  rope_theta=rng.choice([10000.0, 1000000.0]),
                  rope_local_base_freq=rng.choice([50.0, 10000.0]))
    if rng.random() < 0.5:
        config["rope_scaling"] = {"rope_type": "linear", "factor": 8.0}
    if rng.random() < 0.5:
        config["layer_types"] = draw_layer_types(rng, layers)
    else:
        config["sliding_window_pattern"] = rng.randint(2, 3)
    return config, {}


DRAW = {"llama": draw_llama, "gpt2": draw_gpt2, "mistral": draw_mistral, "qwen2": draw_qwen2,
        "qwen3": draw_qwen3, "phi3": draw_phi3, "gpt_neox": draw_gpt_neox, "opt": draw_opt,
        "bloom": draw_bloom, "gemma2": draw_gemma2, "gemma3_text": draw_gemma3}


def draw_fixture(family, rng):
    """A random configuration of the family, of shapes that no kernel likes."""
    heads, head_dim, vocab, layers, seq = draw_common(rng)
    config, options = DRAW[family](rng, heads, head_dim, vocab, layers)
    options.update(dtype=rng.choice(["float32", "float32", "bfloat16", "float16"]),
                   shards=rng.randint(1, 2), dump=rng.random() < 0.5)
    if config.get("tie_word_embeddings") and not options.get("bare"):
        options["repeat_head"] = rng.random() < 0.3
    if rng.random() < 0.4:  # a pad token, which then occurs among the others
        config["pad_token_id"] = rng.randrange(config["vocab_size"])
    return family, config, rng.randint(1, 3), seq, options
