/* family.c - the table of model families, and nothing else. */
#include "model/family.h"

#include <stdio.h>
#include <string.h>

/* Bounds that keep every product of two sizes far inside 64 bits; the layout checks the rest. */
#define MAX_HIDDEN 1048576.0
#define MAX_INTER 16777216.0
#define MAX_LAYERS 4096.0
#define MAX_HEADS 65536.0
#define MAX_VOCAB 67108864.0
#define MAX_POSITIONS 1073741824.0

#define AT(field) offsetof(oc_family_config, field)
#define SIZE(key, alias, field, most, fallback)                                                    \
    { (key), (alias), OC_FIELD_INT, AT(field), 1, (most), (fallback), NULL }
#define SIZE_OR_NULL(key, alias, field, most)                                                      \
    { (key), (alias), OC_FIELD_INT, AT(field), 0, (most), 0, NULL }
#define REAL(key, alias, field, least, most, fallback)                                             \
    { (key), (alias), OC_FIELD_REAL, AT(field), (least), (most), (fallback), NULL }
#define FLAG(key, field, fallback)                                                                 \
    { (key), NULL, OC_FIELD_BOOL, AT(field), 0, 1, (fallback), NULL }
#define ACT(key, alias, fallback)                                                                  \
    { (key), (alias), OC_FIELD_ACT, AT(act), 0, 0, (fallback), NULL }
#define ONLY(key, value)                                                                           \
    { (key), NULL, OC_FIELD_ONLY, 0, 0, 0, 0, (value) }
#define NOTE(key, why)                                                                             \
    { (key), NULL, OC_FIELD_NOTE, 0, 0, 0, 0, (why) }
#define IGNORE(key)                                                                                \
    { (key), NULL, OC_FIELD_IGNORE, 0, 0, 0, 0, NULL }
#define CODE(key)                                                                                  \
    { (key), NULL, OC_FIELD_CODE, 0, 0, 0, 0, NULL }
#define COUNT(a) ((int32_t)(sizeof(a) / sizeof((a)[0])))

#define NO_DROPOUT "training here has no dropout"

static const oc_family_field common_fields[] = {
    CODE("model_type"),
    CODE("architectures"),
    CODE("torch_dtype"),
    CODE("dtype"),
    CODE("bos_token_id"),
    CODE("eos_token_id"),
    CODE("pad_token_id"),

    ONLY("quantization_config", "null"),
    ONLY("compression_config", "null"),
    ONLY("sliding_window", "null"),
    ONLY("use_sliding_window", "false"),
    ONLY("layer_types", "null"),
    ONLY("pruned_heads", "empty"),
    ONLY("is_encoder_decoder", "false"),
    ONLY("add_cross_attention", "false"),
    ONLY("cross_attention_hidden_size", "null"),
    ONLY("tie_encoder_decoder", "false"),
    ONLY("position_embedding_type", "null"),
    ONLY("logits_soft_cap", "null"),
    ONLY("final_logit_softcapping", "null"),
    ONLY("attn_logit_softcapping", "null"),
    ONLY("layerdrop", "0"),

    NOTE("auto_map", "custom model code is never run, the built-in family is used"),

    IGNORE("transformers_version"),
    IGNORE("transformers.js_config"),
    IGNORE("attn_implementation"),
    IGNORE("use_cache"),
    IGNORE("cache_implementation"),
    IGNORE("gradient_checkpointing"),
    IGNORE("task_specific_params"),
    IGNORE("name_or_path"),
    IGNORE("id2label"),
    IGNORE("label2id"),
    IGNORE("num_labels"),
    IGNORE("problem_type"),
    IGNORE("finetuning_task"),
    IGNORE("output_attentions"),
    IGNORE("output_hidden_states"),
    IGNORE("output_scores"),
    IGNORE("output_past"),
    IGNORE("return_dict"),
    IGNORE("return_dict_in_generate"),
    IGNORE("torchscript"),
    IGNORE("use_bfloat16"),
    IGNORE("tf_legacy_loss"),
    IGNORE("chunk_size_feed_forward"),
    IGNORE("is_decoder"),
    IGNORE("tokenizer_class"),
    IGNORE("sep_token_id"),
    IGNORE("cls_token_id"),
    IGNORE("mask_token_id"),
    IGNORE("unk_token_id"),
    IGNORE("decoder_start_token_id"),
    IGNORE("forced_bos_token_id"),
    IGNORE("forced_eos_token_id"),
    IGNORE("prefix"),
    IGNORE("license"),
    IGNORE("unsloth_version"),
    IGNORE("unsloth_fixed"),
    IGNORE("unsloth_training"),
    IGNORE("model_name"),
    /* defaults of generation that old files carry */
    IGNORE("max_length"),
    IGNORE("min_length"),
    IGNORE("max_new_tokens"),
    IGNORE("do_sample"),
    IGNORE("early_stopping"),
    IGNORE("num_beams"),
    IGNORE("num_beam_groups"),
    IGNORE("diversity_penalty"),
    IGNORE("temperature"),
    IGNORE("top_k"),
    IGNORE("top_p"),
    IGNORE("typical_p"),
    IGNORE("repetition_penalty"),
    IGNORE("length_penalty"),
    IGNORE("no_repeat_ngram_size"),
    IGNORE("encoder_no_repeat_ngram_size"),
    IGNORE("bad_words_ids"),
    IGNORE("num_return_sequences"),
    IGNORE("exponential_decay_length_penalty"),
    IGNORE("suppress_tokens"),
    IGNORE("begin_suppress_tokens"),
    IGNORE("remove_invalid_values"),
};

static const oc_family_field llama_fields[] = {
    SIZE("vocab_size", NULL, vocab, MAX_VOCAB, 32000),
    SIZE("hidden_size", NULL, hidden, MAX_HIDDEN, 4096),
    SIZE("intermediate_size", NULL, intermediate, MAX_INTER, 11008),
    SIZE("num_hidden_layers", NULL, layers, MAX_LAYERS, 32),
    SIZE("num_attention_heads", NULL, heads, MAX_HEADS, 32),
    SIZE_OR_NULL("num_key_value_heads", NULL, kv_heads, MAX_HEADS),
    SIZE_OR_NULL("head_dim", NULL, head_dim, MAX_HEADS),
    SIZE("max_position_embeddings", NULL, positions, MAX_POSITIONS, 2048),
    ACT("hidden_act", NULL, OC_ACT_SILU),
    REAL("rms_norm_eps", NULL, norm_eps, 0, 1, 1e-6),
    REAL("initializer_range", NULL, initializer_range, 0, 1e6, 0.02),
    FLAG("tie_word_embeddings", tied, false),
    FLAG("attention_bias", attention_bias, false),
    FLAG("mlp_bias", mlp_bias, false),
    CODE("rope_theta"),
    CODE("rope_scaling"),
    CODE("rope_parameters"),
    ONLY("partial_rotary_factor", "1"),
    ONLY("pretraining_tp", "1"),
    NOTE("attention_dropout", NO_DROPOUT),
    ONLY("rope_interleaved", "false"),
};

static const oc_family_tensor llama_tensors[] = {
    {OC_BLOCK_TABLE, OC_W_TABLE, "model.embed_tokens.weight", OC_DIM_VOCAB, OC_DIM_HIDDEN,
     OC_WHEN_ALWAYS, false, false},
    {OC_BLOCK_LAYER, OC_W_NORM1, "model.layers.#.input_layernorm.weight", OC_DIM_HIDDEN, OC_DIM_ONE,
     OC_WHEN_ALWAYS, false, false},
    {OC_BLOCK_LAYER, OC_W_QKV, "model.layers.#.self_attn.q_proj.weight", OC_DIM_Q, OC_DIM_HIDDEN,
     OC_WHEN_ALWAYS, false, false},
    {OC_BLOCK_LAYER, OC_W_QKV, "model.layers.#.self_attn.k_proj.weight", OC_DIM_KV, OC_DIM_HIDDEN,
     OC_WHEN_ALWAYS, false, false},
    {OC_BLOCK_LAYER, OC_W_QKV, "model.layers.#.self_attn.v_proj.weight", OC_DIM_KV, OC_DIM_HIDDEN,
     OC_WHEN_ALWAYS, false, false},
    {OC_BLOCK_LAYER, OC_W_QKV_BIAS, "model.layers.#.self_attn.q_proj.bias", OC_DIM_Q, OC_DIM_ONE,
     OC_WHEN_ATTENTION_BIAS, false, false},
    {OC_BLOCK_LAYER, OC_W_QKV_BIAS, "model.layers.#.self_attn.k_proj.bias", OC_DIM_KV, OC_DIM_ONE,
     OC_WHEN_ATTENTION_BIAS, false, false},
    {OC_BLOCK_LAYER, OC_W_QKV_BIAS, "model.layers.#.self_attn.v_proj.bias", OC_DIM_KV, OC_DIM_ONE,
     OC_WHEN_ATTENTION_BIAS, false, false},
    {OC_BLOCK_LAYER, OC_W_OUT, "model.layers.#.self_attn.o_proj.weight", OC_DIM_HIDDEN, OC_DIM_Q,
     OC_WHEN_ALWAYS, false, false},
    {OC_BLOCK_LAYER, OC_W_OUT_BIAS, "model.layers.#.self_attn.o_proj.bias", OC_DIM_HIDDEN,
     OC_DIM_ONE, OC_WHEN_ATTENTION_BIAS, false, false},
    {OC_BLOCK_LAYER, OC_W_NORM2, "model.layers.#.post_attention_layernorm.weight", OC_DIM_HIDDEN,
     OC_DIM_ONE, OC_WHEN_ALWAYS, false, false},
    {OC_BLOCK_LAYER, OC_W_UP, "model.layers.#.mlp.gate_proj.weight", OC_DIM_INTER, OC_DIM_HIDDEN,
     OC_WHEN_ALWAYS, false, false},
    {OC_BLOCK_LAYER, OC_W_UP, "model.layers.#.mlp.up_proj.weight", OC_DIM_INTER, OC_DIM_HIDDEN,
     OC_WHEN_ALWAYS, false, false},
    {OC_BLOCK_LAYER, OC_W_UP_BIAS, "model.layers.#.mlp.gate_proj.bias", OC_DIM_INTER, OC_DIM_ONE,
     OC_WHEN_MLP_BIAS, false, false},
    {OC_BLOCK_LAYER, OC_W_UP_BIAS, "model.layers.#.mlp.up_proj.bias", OC_DIM_INTER, OC_DIM_ONE,
     OC_WHEN_MLP_BIAS, false, false},
    {OC_BLOCK_LAYER, OC_W_DOWN, "model.layers.#.mlp.down_proj.weight", OC_DIM_HIDDEN, OC_DIM_INTER,
     OC_WHEN_ALWAYS, false, false},
    {OC_BLOCK_LAYER, OC_W_DOWN_BIAS, "model.layers.#.mlp.down_proj.bias", OC_DIM_HIDDEN, OC_DIM_ONE,
     OC_WHEN_MLP_BIAS, false, false},
    {OC_BLOCK_FINAL_NORM, OC_W_FINAL_NORM, "model.norm.weight", OC_DIM_HIDDEN, OC_DIM_ONE,
     OC_WHEN_ALWAYS, false, false},
    {OC_BLOCK_HEAD, OC_W_TABLE, "lm_head.weight", OC_DIM_VOCAB, OC_DIM_HIDDEN, OC_WHEN_UNTIED,
     false, false},
};

static const oc_family_field gpt2_fields[] = {
    SIZE("vocab_size", NULL, vocab, MAX_VOCAB, 50257),
    SIZE("n_embd", "hidden_size", hidden, MAX_HIDDEN, 768),
    SIZE("n_layer", "num_hidden_layers", layers, MAX_LAYERS, 12),
    SIZE("n_head", "num_attention_heads", heads, MAX_HEADS, 12),
    SIZE("n_positions", "max_position_embeddings", positions, MAX_POSITIONS, 1024),
    SIZE_OR_NULL("n_inner", NULL, intermediate, MAX_INTER),
    ACT("activation_function", NULL, OC_ACT_GELU_TANH),
    REAL("layer_norm_epsilon", NULL, norm_eps, 0, 1, 1e-5),
    REAL("initializer_range", NULL, initializer_range, 0, 1e6, 0.02),
    FLAG("tie_word_embeddings", tied, true),
    FLAG("scale_attn_weights", attention_scaled, true),
    ONLY("scale_attn_by_inverse_layer_idx", "false"),
    /* the same function, but rounded elsewhere under 16-bit dtypes */
    ONLY("reorder_and_upcast_attn", "false"),
    NOTE("attn_pdrop", NO_DROPOUT),
    NOTE("embd_pdrop", NO_DROPOUT),
    NOTE("resid_pdrop", NO_DROPOUT),
    IGNORE("n_ctx"),
    IGNORE("summary_type"),
    IGNORE("summary_use_proj"),
    IGNORE("summary_activation"),
    IGNORE("summary_proj_to_labels"),
    IGNORE("summary_first_dropout"),
};

static const oc_family_tensor gpt2_tensors[] = {
    {OC_BLOCK_TABLE, OC_W_TABLE, "transformer.wte.weight", OC_DIM_VOCAB, OC_DIM_HIDDEN,
     OC_WHEN_ALWAYS, false, false},
    {OC_BLOCK_POSITION, OC_W_TABLE, "transformer.wpe.weight", OC_DIM_POSITIONS, OC_DIM_HIDDEN,
     OC_WHEN_ALWAYS, false, false},
    {OC_BLOCK_LAYER, OC_W_NORM1, "transformer.h.#.ln_1.weight", OC_DIM_HIDDEN, OC_DIM_ONE,
     OC_WHEN_ALWAYS, false, false},
    {OC_BLOCK_LAYER, OC_W_NORM1_BIAS, "transformer.h.#.ln_1.bias", OC_DIM_HIDDEN, OC_DIM_ONE,
     OC_WHEN_ALWAYS, false, false},
    {OC_BLOCK_LAYER, OC_W_QKV, "transformer.h.#.attn.c_attn.weight", OC_DIM_QKV, OC_DIM_HIDDEN,
     OC_WHEN_ALWAYS, true, false},
    {OC_BLOCK_LAYER, OC_W_QKV_BIAS, "transformer.h.#.attn.c_attn.bias", OC_DIM_QKV, OC_DIM_ONE,
     OC_WHEN_ALWAYS, false, false},
    {OC_BLOCK_LAYER, OC_W_OUT, "transformer.h.#.attn.c_proj.weight", OC_DIM_HIDDEN, OC_DIM_Q,
     OC_WHEN_ALWAYS, true, true},
    {OC_BLOCK_LAYER, OC_W_OUT_BIAS, "transformer.h.#.attn.c_proj.bias", OC_DIM_HIDDEN, OC_DIM_ONE,
     OC_WHEN_ALWAYS, false, false},
    {OC_BLOCK_LAYER, OC_W_NORM2, "transformer.h.#.ln_2.weight", OC_DIM_HIDDEN, OC_DIM_ONE,
     OC_WHEN_ALWAYS, false, false},
    {OC_BLOCK_LAYER, OC_W_NORM2_BIAS, "transformer.h.#.ln_2.bias", OC_DIM_HIDDEN, OC_DIM_ONE,
     OC_WHEN_ALWAYS, false, false},
    {OC_BLOCK_LAYER, OC_W_UP, "transformer.h.#.mlp.c_fc.weight", OC_DIM_INTER, OC_DIM_HIDDEN,
     OC_WHEN_ALWAYS, true, false},
    {OC_BLOCK_LAYER, OC_W_UP_BIAS, "transformer.h.#.mlp.c_fc.bias", OC_DIM_INTER, OC_DIM_ONE,
     OC_WHEN_ALWAYS, false, false},
    {OC_BLOCK_LAYER, OC_W_DOWN, "transformer.h.#.mlp.c_proj.weight", OC_DIM_HIDDEN, OC_DIM_INTER,
     OC_WHEN_ALWAYS, true, true},
    {OC_BLOCK_LAYER, OC_W_DOWN_BIAS, "transformer.h.#.mlp.c_proj.bias", OC_DIM_HIDDEN, OC_DIM_ONE,
     OC_WHEN_ALWAYS, false, false},
    {OC_BLOCK_FINAL_NORM, OC_W_FINAL_NORM, "transformer.ln_f.weight", OC_DIM_HIDDEN, OC_DIM_ONE,
     OC_WHEN_ALWAYS, false, false},
    {OC_BLOCK_FINAL_NORM, OC_W_FINAL_NORM_BIAS, "transformer.ln_f.bias", OC_DIM_HIDDEN, OC_DIM_ONE,
     OC_WHEN_ALWAYS, false, false},
    {OC_BLOCK_HEAD, OC_W_TABLE, "lm_head.weight", OC_DIM_VOCAB, OC_DIM_HIDDEN, OC_WHEN_UNTIED,
     false, false},
};

static const oc_family families[] = {
    {.model_type = "llama",
     .architectures = {"LlamaForCausalLM", NULL},
     .prefix = "model.",
     .ignored = {".rotary_emb.inv_freq", NULL},
     .norm = OC_NORM_RMS,
     .position = OC_POS_ROPE,
     .gated = true,
     .bos_id = 1,
     .eos_id = 2,
     .fields = llama_fields,
     .n_fields = COUNT(llama_fields),
     .tensors = llama_tensors,
     .n_tensors = COUNT(llama_tensors)},
    {.model_type = "gpt2",
     .architectures = {"GPT2LMHeadModel", "GPT2Model", NULL},
     .prefix = "transformer.",
     .prefix_optional = true,
     .ignored = {".attn.bias", ".attn.masked_bias", NULL},
     .norm = OC_NORM_LAYER,
     .position = OC_POS_LEARNED,
     .inner_factor = 4,
     .bos_id = 50256,
     .eos_id = 50256,
     .fields = gpt2_fields,
     .n_fields = COUNT(gpt2_fields),
     .tensors = gpt2_tensors,
     .n_tensors = COUNT(gpt2_tensors)},
};

const oc_family *oc_family_find(const char *model_type) {
    for (int32_t i = 0; i < COUNT(families); i++)
        if (strcmp(families[i].model_type, model_type) == 0) return &families[i];
    return NULL;
}

void oc_family_names(char *out, size_t bytes) {
    size_t at = 0;
    out[0] = '\0';
    for (int32_t i = 0; i < COUNT(families) && at < bytes; i++)
        at += (size_t)snprintf(out + at, bytes - at, "%s%s", i ? ", " : "", families[i].model_type);
}

const oc_family_field *oc_family_common(int32_t *n) {
    *n = COUNT(common_fields);
    return common_fields;
}
