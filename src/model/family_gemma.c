/* family_gemma.c - gemma2 and the text models of gemma3. */
#include "model/family_table.h"

#define L "model.layers.#."

static const oc_family_tensor gemma_tensors[] = {
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
    VECTOR(LAYER, POST1, L "post_attention_layernorm.weight", HIDDEN, ALWAYS),
    VECTOR(LAYER, NORM2, L "pre_feedforward_layernorm.weight", HIDDEN, ALWAYS),
    MATRIX(LAYER, UP, L "mlp.gate_proj.weight", INTER, HIDDEN, ALWAYS),
    MATRIX(LAYER, UP, L "mlp.up_proj.weight", INTER, HIDDEN, ALWAYS),
    MATRIX(LAYER, DOWN, L "mlp.down_proj.weight", HIDDEN, INTER, ALWAYS),
    VECTOR(LAYER, POST2, L "post_feedforward_layernorm.weight", HIDDEN, ALWAYS),
    VECTOR(FINAL_NORM, FINAL_NORM, "model.norm.weight", HIDDEN, ALWAYS),
    MATRIX(HEAD, TABLE, "lm_head.weight", VOCAB, HIDDEN, UNTIED),
};

#define SHARED(vocab_size, position_count)                                                         \
    SIZE("vocab_size", NULL, vocab, MAX_VOCAB, vocab_size),                                        \
        SIZE("hidden_size", NULL, hidden, MAX_HIDDEN, 2304),                                       \
        SIZE("intermediate_size", NULL, intermediate, MAX_INTER, 9216),                            \
        SIZE("num_hidden_layers", NULL, layers, MAX_LAYERS, 26),                                   \
        SIZE("num_attention_heads", NULL, heads, MAX_HEADS, 8),                                    \
        SIZE("num_key_value_heads", NULL, kv_heads, MAX_HEADS, 4),                                 \
        SIZE("head_dim", NULL, head_dim, MAX_HEADS, 256),                                          \
        SIZE("max_position_embeddings", NULL, positions, MAX_POSITIONS, position_count),           \
        ACT("hidden_activation", NULL,                                                             \
            OC_ACT_GELU_TANH), /* left over from gemma, whose files hold both */                   \
        IGNORE("hidden_act"), REAL("rms_norm_eps", NULL, norm_eps, 0, 1, 1e-6),                    \
        REAL("initializer_range", NULL, initializer_range, 0, 1e6, 0.02),                          \
        FLAG("tie_word_embeddings", tied, true), FLAG("attention_bias", qkv_bias, false),          \
        FLAG("attention_bias", out_bias, false),                                                   \
        REAL("query_pre_attn_scalar", NULL, query_scalar, 1e-6, 1e9, 256),                         \
        SIZE_OR_NULL_ELSE("sliding_window", window, MAX_POSITIONS, 4096), CODE("layer_types"),     \
        ONLY("use_bidirectional_attention", "false"), CODE("rope_theta"), CODE("rope_scaling"),    \
        CODE("rope_parameters"), NOTE("attention_dropout", NO_DROPOUT)

static const oc_family_field gemma2_fields[] = {
    SHARED(256000, 8192), REAL_OR_NULL("attn_logit_softcapping", attention_cap, 1e-6, 1e9, 50),
    REAL_OR_NULL("final_logit_softcapping", logit_cap, 1e-6, 1e9, 30),
    IGNORE("sliding_window_size"), /* an older name beside the one that is read */
};

static const oc_family_field gemma3_fields[] = {
    SHARED(262208, 131072),
    SIZE("sliding_window_pattern", NULL, window_pattern, MAX_LAYERS, 6),
    UNUSED("attn_logit_softcapping", "null"),
    REAL_OR_NULL("final_logit_softcapping", logit_cap, 1e-6, 1e9, 0),
    FIXED(qk_norm, true),
    CODE("rope_local_base_freq"),
};

#define GEMMA                                                                                      \
    .prefix = "model.", .prefix_optional = true, .ignored = {".rotary_emb.inv_freq", NULL},        \
    .norm = OC_NORM_RMS, .position = OC_POS_ROPE, .gated = true, .plus_one = true,                 \
    .sandwich = true, .scaled_embedding = true, .sliding = OC_SLIDING_PERIOD,                      \
    .rope_types = ALL_ROPES, .bos_id = 2, .eos_id = 1, .pad_id = 0, .tensors = gemma_tensors,      \
    .n_tensors = COUNT(gemma_tensors)

const oc_family oc_gemma_families[] = {
    {.model_type = "gemma2",
     .architectures = {"Gemma2ForCausalLM", "Gemma2Model", NULL},
     GEMMA,
     .rope_theta = 10000,
     .fields = gemma2_fields,
     .n_fields = COUNT(gemma2_fields)},
    {.model_type = "gemma3_text",
     .architectures = {"Gemma3ForCausalLM", "Gemma3TextModel", NULL},
     GEMMA,
     .rope_theta = 1000000,
     .rope_by_type = true,
     .fields = gemma3_fields,
     .n_fields = COUNT(gemma3_fields)},
};
const int32_t oc_n_gemma_families = COUNT(oc_gemma_families);
