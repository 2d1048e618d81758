/* family_llama.c - llama and its descendants: mistral, qwen2, qwen3, phi3. */
#include "model/family_table.h"

/* ---- tensors ---------------------------------------------------------------------------- */

#define L "model.layers.#."

static const oc_family_tensor llama_tensors[] = {
    MATRIX(TABLE, TABLE, "model.embed_tokens.weight", VOCAB, HIDDEN, ALWAYS),
    VECTOR(LAYER, NORM1, L "input_layernorm.weight", HIDDEN, ALWAYS),
    MATRIX(LAYER, QKV, L "self_attn.q_proj.weight", Q, HIDDEN, ALWAYS),
    MATRIX(LAYER, QKV, L "self_attn.k_proj.weight", KV, HIDDEN, ALWAYS),
    MATRIX(LAYER, QKV, L "self_attn.v_proj.weight", KV, HIDDEN, ALWAYS),
    VECTOR(LAYER, QKV_BIAS, L "self_attn.q_proj.bias", Q, QKV_BIAS),
    VECTOR(LAYER, QKV_BIAS, L "self_attn.k_proj.bias", KV, QKV_BIAS),
    VECTOR(LAYER, QKV_BIAS, L "self_attn.v_proj.bias", KV, QKV_BIAS),
    VECTOR(LAYER, QNORM, L "self_attn.q_norm.weight", HEAD, QK_NORM),
    VECTOR(LAYER, KNORM, L "self_attn.k_norm.weight", HEAD, QK_NORM),
    MATRIX(LAYER, OUT, L "self_attn.o_proj.weight", HIDDEN, Q, ALWAYS),
    VECTOR(LAYER, OUT_BIAS, L "self_attn.o_proj.bias", HIDDEN, OUT_BIAS),
    VECTOR(LAYER, NORM2, L "post_attention_layernorm.weight", HIDDEN, ALWAYS),
    MATRIX(LAYER, UP, L "mlp.gate_proj.weight", INTER, HIDDEN, ALWAYS),
    MATRIX(LAYER, UP, L "mlp.up_proj.weight", INTER, HIDDEN, ALWAYS),
    VECTOR(LAYER, UP_BIAS, L "mlp.gate_proj.bias", INTER, MLP_BIAS),
    VECTOR(LAYER, UP_BIAS, L "mlp.up_proj.bias", INTER, MLP_BIAS),
    MATRIX(LAYER, DOWN, L "mlp.down_proj.weight", HIDDEN, INTER, ALWAYS),
    VECTOR(LAYER, DOWN_BIAS, L "mlp.down_proj.bias", HIDDEN, MLP_BIAS),
    VECTOR(FINAL_NORM, FINAL_NORM, "model.norm.weight", HIDDEN, ALWAYS),
    MATRIX(HEAD, TABLE, "lm_head.weight", VOCAB, HIDDEN, UNTIED),
};

static const oc_family_tensor phi3_tensors[] = {
    MATRIX(TABLE, TABLE, "model.embed_tokens.weight", VOCAB, HIDDEN, ALWAYS),
    VECTOR(LAYER, NORM1, L "input_layernorm.weight", HIDDEN, ALWAYS),
    MATRIX(LAYER, QKV, L "self_attn.qkv_proj.weight", QKV, HIDDEN, ALWAYS),
    MATRIX(LAYER, OUT, L "self_attn.o_proj.weight", HIDDEN, Q, ALWAYS),
    VECTOR(LAYER, NORM2, L "post_attention_layernorm.weight", HIDDEN, ALWAYS),
    MATRIX(LAYER, UP, L "mlp.gate_up_proj.weight", INTER2, HIDDEN, ALWAYS),
    MATRIX(LAYER, DOWN, L "mlp.down_proj.weight", HIDDEN, INTER, ALWAYS),
    VECTOR(FINAL_NORM, FINAL_NORM, "model.norm.weight", HIDDEN, ALWAYS),
    MATRIX(HEAD, TABLE, "lm_head.weight", VOCAB, HIDDEN, UNTIED),
};

/* ---- fields ----------------------------------------------------------------------------- */

#define SIZES(vocab_size, inter, kv)                                                               \
    SIZE("vocab_size", NULL, vocab, MAX_VOCAB, vocab_size),                                        \
        SIZE("hidden_size", NULL, hidden, MAX_HIDDEN, 4096),                                       \
        SIZE("intermediate_size", NULL, intermediate, MAX_INTER, inter),                           \
        SIZE("num_hidden_layers", NULL, layers, MAX_LAYERS, 32),                                   \
        SIZE("num_attention_heads", NULL, heads, MAX_HEADS, 32),                                   \
        SIZE_OR_NULL_ELSE("num_key_value_heads", kv_heads, MAX_HEADS, kv)
#define SHARED                                                                                     \
    ACT("hidden_act", NULL, OC_ACT_SILU),                                                          \
        REAL("initializer_range", NULL, initializer_range, 0, 1e6, 0.02),                          \
        FLAG("tie_word_embeddings", tied, false), CODE("rope_theta"), CODE("rope_scaling"),        \
        CODE("rope_parameters"), NOTE("attention_dropout", NO_DROPOUT)
#define EPS(fallback) REAL("rms_norm_eps", NULL, norm_eps, 0, 1, fallback)
#define POSITIONS(fallback)                                                                        \
    SIZE("max_position_embeddings", NULL, positions, MAX_POSITIONS, fallback)
#define QWEN_WINDOWS                                                                               \
    FLAG("use_sliding_window", windowed, false),                                                   \
        SIZE_OR_NULL_ELSE("sliding_window", window, MAX_POSITIONS, 4096),                          \
        CODE("max_window_layers"), CODE("layer_types")

static const oc_family_field llama_fields[] = {
    SIZES(32000, 11008, 0),
    SHARED,
    EPS(1e-6),
    POSITIONS(2048),
    NO_WINDOWS,
    SIZE_OR_NULL("head_dim", NULL, head_dim, MAX_HEADS),
    FLAG("attention_bias", qkv_bias, false),
    FLAG("attention_bias", out_bias, false),
    FLAG("mlp_bias", mlp_bias, false),
    ONLY("partial_rotary_factor", "1"),
    UNUSED("pretraining_tp", "1"),
    UNUSED("rope_interleaved", "false"),
};

static const oc_family_field mistral_fields[] = {
    SIZES(32000, 14336, 8),
    SHARED,
    EPS(1e-6),
    POSITIONS(131072),
    SIZE_OR_NULL_ELSE("sliding_window", window, MAX_POSITIONS, 4096),
    UNUSED("use_sliding_window", "false"),
    UNUSED("layer_types", "null"),
    SIZE_OR_NULL("head_dim", NULL, head_dim, MAX_HEADS),
    ONLY("partial_rotary_factor", "1"),
};

static const oc_family_field qwen2_fields[] = {
    SIZES(151936, 22016, 32),
    SHARED,
    EPS(1e-6),
    POSITIONS(32768),
    QWEN_WINDOWS,
    SIZE_OR_NULL("head_dim", NULL, head_dim, MAX_HEADS),
    FIXED(qkv_bias, true),
    ONLY("partial_rotary_factor", "1"),
    UNUSED("use_mrope", "false"),
};

static const oc_family_field qwen3_fields[] = {
    SIZES(151936, 22016, 32),
    SHARED,
    EPS(1e-6),
    POSITIONS(32768),
    QWEN_WINDOWS,
    SIZE("head_dim", NULL, head_dim, MAX_HEADS, 128),
    FLAG("attention_bias", qkv_bias, false),
    FLAG("attention_bias", out_bias, false),
    FIXED(qk_norm, true),
    ONLY("partial_rotary_factor", "1"),
};

static const oc_family_field phi3_fields[] = {
    SIZE("vocab_size", NULL, vocab, MAX_VOCAB, 32064),
    SIZE("hidden_size", NULL, hidden, MAX_HIDDEN, 3072),
    SIZE("intermediate_size", NULL, intermediate, MAX_INTER, 8192),
    SIZE("num_hidden_layers", NULL, layers, MAX_LAYERS, 32),
    SIZE("num_attention_heads", NULL, heads, MAX_HEADS, 32),
    SIZE_OR_NULL("num_key_value_heads", NULL, kv_heads, MAX_HEADS),
    SIZE_OR_NULL("head_dim", NULL, head_dim, MAX_HEADS),
    SHARED,
    EPS(1e-5),
    POSITIONS(4096),
    SIZE("original_max_position_embeddings", NULL, rope_original, MAX_POSITIONS, 4096),
    SIZE_OR_NULL("sliding_window", NULL, window, MAX_POSITIONS),
    UNUSED("use_sliding_window", "false"),
    UNUSED("layer_types", "null"),
    CODE("partial_rotary_factor"),
    UNUSED("attention_bias", "false"),
    UNUSED("mlp_bias", "false"),
    UNUSED("lm_head_bias", "false"),
    UNUSED("full_attn_mod", "1"),
    UNUSED("interpolate_factor", "1"),
    NOTE("embd_pdrop", NO_DROPOUT),
    NOTE("resid_pdrop", NO_DROPOUT),
};

/* ---- the families ----------------------------------------------------------------------- */

#define LLAMA_LIKE                                                                                 \
    .prefix = "model.", .prefix_optional = true, .ignored = {".rotary_emb.inv_freq", NULL},        \
    .norm = OC_NORM_RMS, .position = OC_POS_ROPE, .gated = true, .rope_theta = 10000

const oc_family oc_llama_families[] = {
    {.model_type = "llama",
     .architectures = {"LlamaForCausalLM", "LLaMAForCausalLM", "LlamaModel", NULL},
     LLAMA_LIKE,
     .rope_types = ALL_ROPES,
     .bos_id = 1,
     .eos_id = 2,
     .pad_id = -1,
     .fields = llama_fields,
     .n_fields = COUNT(llama_fields),
     .tensors = llama_tensors,
     .n_tensors = COUNT(llama_tensors)},
    {.model_type = "mistral",
     .architectures = {"MistralForCausalLM", "MistralModel", NULL},
     LLAMA_LIKE,
     .rope_types = ALL_ROPES,
     .sliding = OC_SLIDING_ALL,
     .bos_id = 1,
     .eos_id = 2,
     .pad_id = -1,
     .fields = mistral_fields,
     .n_fields = COUNT(mistral_fields),
     .tensors = llama_tensors,
     .n_tensors = COUNT(llama_tensors)},
    {.model_type = "qwen2",
     .architectures = {"Qwen2ForCausalLM", "Qwen2Model", NULL},
     LLAMA_LIKE,
     .rope_types = ALL_ROPES,
     .sliding = OC_SLIDING_LAST,
     .bos_id = -1,
     .eos_id = -1,
     .pad_id = -1,
     .fields = qwen2_fields,
     .n_fields = COUNT(qwen2_fields),
     .tensors = llama_tensors,
     .n_tensors = COUNT(llama_tensors)},
    {.model_type = "qwen3",
     .architectures = {"Qwen3ForCausalLM", "Qwen3Model", NULL},
     LLAMA_LIKE,
     .rope_types = ALL_ROPES,
     .sliding = OC_SLIDING_LAST,
     .bos_id = -1,
     .eos_id = -1,
     .pad_id = -1,
     .fields = qwen3_fields,
     .n_fields = COUNT(qwen3_fields),
     .tensors = llama_tensors,
     .n_tensors = COUNT(llama_tensors)},
    {.model_type = "phi3",
     .architectures = {"Phi3ForCausalLM", "Phi3Model", NULL},
     LLAMA_LIKE,
     .rope_types = 1u << OC_ROPE_DEFAULT | 1u << OC_ROPE_LONGROPE,
     .long_names = true,
     .partial_key = "partial_rotary_factor",
     .partial = 1,
     .sliding = OC_SLIDING_ALL,
     .bos_id = 1,
     .eos_id = 32000,
     .pad_id = 32000,
     .fields = phi3_fields,
     .n_fields = COUNT(phi3_fields),
     .tensors = phi3_tensors,
     .n_tensors = COUNT(phi3_tensors)},
};
const int32_t oc_n_llama_families = COUNT(oc_llama_families);
