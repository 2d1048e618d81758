/* family.c - the list of model families, and the keys that they share. */
#include "model/family_table.h"

#include <stdio.h>
#include <string.h>

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
    ONLY("is_causal", "true"),
    ONLY("per_layer_config", "empty"), /* other sizes for some layers */

    UNUSED("pruned_heads", "empty"),
    UNUSED("is_encoder_decoder", "false"),
    UNUSED("cross_attention_hidden_size", "null"),
    UNUSED("tie_encoder_decoder", "false"),
    UNUSED("position_embedding_type", "null"),
    UNUSED("logits_soft_cap", "null"),
    UNUSED("add_cross_attention", "false"), /* but in gpt2, and layerdrop in opt: see there */
    UNUSED("layerdrop", "0"),

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
    IGNORE("is_llama_config"),
    IGNORE("onnx_export"),
    IGNORE("use_flash_attention"),
    IGNORE("pad_token"),
    IGNORE("model_max_length"),
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

typedef struct list {
    const oc_family *families;
    const int32_t *n;
} list;

static const list lists[] = {
    {oc_llama_families, &oc_n_llama_families},
    {oc_gpt_families, &oc_n_gpt_families},
    {oc_gemma_families, &oc_n_gemma_families},
};

const oc_family *oc_family_find(const char *model_type) {
    for (int32_t l = 0; l < COUNT(lists); l++)
        for (int32_t i = 0; i < *lists[l].n; i++)
            if (strcmp(lists[l].families[i].model_type, model_type) == 0)
                return &lists[l].families[i];
    return NULL;
}

void oc_family_names(char *out, size_t bytes) {
    size_t at = 0;
    out[0] = '\0';
    for (int32_t l = 0; l < COUNT(lists); l++)
        for (int32_t i = 0; i < *lists[l].n && at < bytes; i++)
            at += (size_t)snprintf(out + at, bytes - at, "%s%s", at ? ", " : "",
                                   lists[l].families[i].model_type);
}

const oc_family_field *oc_family_common(int32_t *n) {
    *n = COUNT(common_fields);
    return common_fields;
}
