/* test_model_refusals.c - every config.json that is refused: the message names file and key. */
#include "base/fs.h"
#include "cmocka_all.h"
#include "model/model.h"
#include "scratch.h"

#include <string.h>

#define LLAMA "{\"model_type\": \"llama\", "
#define GPT2 "{\"model_type\": \"gpt2\", "
#define MISTRAL "{\"model_type\": \"mistral\", "
#define QWEN2 "{\"model_type\": \"qwen2\", "
#define PHI3 "{\"model_type\": \"phi3\", "
#define NEOX "{\"model_type\": \"gpt_neox\", "
#define BLOOM "{\"model_type\": \"bloom\", "
#define OPT "{\"model_type\": \"opt\", "
#define GEMMA2 "{\"model_type\": \"gemma2\", "
#define GEMMA3 "{\"model_type\": \"gemma3_text\", "

/* What is refused, and what the message must name besides the file. */
static const struct {
    const char *json, *names;
    oc_status status;
} refusals[] = {
    {"", "config.json", OC_E_FORMAT},
    {"[]", "config.json", OC_E_FORMAT},
    {"{\"a\": 1, \"a\": 1}", "config.json", OC_E_FORMAT},
    {"{}", "'model_type'", OC_E_INVALID},
    {"{\"model_type\": \"t5\"}", "'model_type' is \"t5\"", OC_E_UNSUPPORTED},
    {LLAMA "\"architectures\": [\"MistralForCausalLM\"]}", "'architectures'", OC_E_UNSUPPORTED},
    {LLAMA "\"architectures\": [\"LlamaForSequenceClassification\"]}", "'architectures'",
     OC_E_UNSUPPORTED},
    {LLAMA "\"hidden_size\": 0}", "'hidden_size' is 0", OC_E_INVALID},
    {LLAMA "\"hidden_size\": -4096}", "'hidden_size' is -4096", OC_E_INVALID},
    {LLAMA "\"hidden_size\": 4096.5}", "'hidden_size' is 4096.5", OC_E_INVALID},
    {LLAMA "\"hidden_size\": \"4096\"}", "'hidden_size' is \"4096\"", OC_E_INVALID},
    {LLAMA "\"hidden_size\": null}", "'hidden_size' is null", OC_E_INVALID},
    {LLAMA "\"hidden_size\": 9223372036854775807}", "'hidden_size'", OC_E_INVALID},
    {LLAMA "\"num_hidden_layers\": 0}", "'num_hidden_layers'", OC_E_INVALID},
    {LLAMA "\"vocab_size\": 4000000000}", "'vocab_size'", OC_E_INVALID},
    {LLAMA "\"num_attention_heads\": 31}", "31 attention heads", OC_E_INVALID},
    {LLAMA "\"num_key_value_heads\": 5}", "'num_key_value_heads' 5", OC_E_INVALID},
    {LLAMA "\"num_key_value_heads\": 64}", "'num_key_value_heads' 64", OC_E_INVALID},
    {LLAMA "\"head_dim\": 65}", "'head_dim' is 65", OC_E_INVALID},
    {LLAMA "\"hidden_act\": \"xielu\"}", "'hidden_act' is \"xielu\"", OC_E_INVALID},
    {LLAMA "\"rms_norm_eps\": -1}", "'rms_norm_eps' is -1", OC_E_INVALID},
    {LLAMA "\"tie_word_embeddings\": 1}", "'tie_word_embeddings' is 1", OC_E_INVALID},
    {LLAMA "\"torch_dtype\": \"float64\"}", "'torch_dtype' is \"float64\"", OC_E_INVALID},
    {LLAMA "\"torch_dtype\": \"float16\", \"dtype\": \"bfloat16\"}", "'dtype'", OC_E_INVALID},
    {LLAMA "\"eos_token_id\": \"</s>\"}", "'eos_token_id'", OC_E_INVALID},
    {LLAMA "\"eos_token_id\": [1,2,3,4,5,6,7,8,9]}", "'eos_token_id'", OC_E_INVALID},
    {LLAMA "\"partial_rotary_factor\": 0.5}", "'partial_rotary_factor' is 0.5", OC_E_UNSUPPORTED},
    {LLAMA "\"quantization_config\": {\"quant_method\": \"gptq\"}}", "'quantization_config'",
     OC_E_UNSUPPORTED},
    {LLAMA "\"hidden_sise\": 64}", "did you mean 'hidden_size'", OC_E_UNSUPPORTED},
    {LLAMA "\"rope_scaling\": {\"type\": \"dynamic\"}}", "'rope_scaling.factor' is missing",
     OC_E_INVALID},
    {LLAMA "\"head_dim\": 2, \"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 2}}",
     "dynamic needs", OC_E_INVALID},
    {LLAMA "\"rope_scaling\": {\"rope_type\": \"longrope\"}}",
     "'rope_scaling.short_factor' is missing", OC_E_INVALID},
    {LLAMA "\"head_dim\": 4, \"rope_scaling\": {\"rope_type\": \"longrope\", \"short_factor\": [1, "
           "1], \"long_factor\": [1]}}",
     "'rope_scaling.long_factor' is [1]", OC_E_INVALID},
    {LLAMA "\"head_dim\": 4, \"rope_scaling\": {\"rope_type\": \"longrope\", \"short_factor\": [1, "
           "\"a\"], \"long_factor\": [1, 1]}}",
     "'rope_scaling.short_factor'", OC_E_INVALID},
    {LLAMA "\"rope_scaling\": {\"rope_type\": \"proportional\"}}",
     "'rope_scaling.rope_type' is \"proportional\"", OC_E_UNSUPPORTED},
    {LLAMA "\"rope_parameters\": {\"full_attention\": {\"rope_type\": \"default\"}}}",
     "'rope_parameters.full_attention'", OC_E_UNSUPPORTED},
    {MISTRAL "\"sliding_window\": 0}", "'sliding_window' is 0", OC_E_INVALID},
    {QWEN2 "\"max_window_layers\": -1}", "'max_window_layers' is -1", OC_E_INVALID},
    {QWEN2 "\"num_hidden_layers\": 2, \"layer_types\": [\"full_attention\"]}", "'layer_types'",
     OC_E_INVALID},
    {QWEN2 "\"num_hidden_layers\": 1, \"layer_types\": [\"chunked_attention\"]}",
     "'layer_types' has \"chunked_attention\"", OC_E_UNSUPPORTED},
    {QWEN2 "\"num_hidden_layers\": 1, \"layer_types\": [\"sliding_attention\"]}",
     "'sliding_window'", OC_E_INVALID},
    {PHI3 "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}}",
     "'rope_scaling.type' is \"linear\"", OC_E_UNSUPPORTED},
    {PHI3 "\"rope_scaling\": {\"type\": \"su\", \"original_max_position_embeddings\": 77}}",
     "'rope_scaling.original_max_position_embeddings' is 77", OC_E_INVALID},
    {PHI3 "\"partial_rotary_factor\": 1.5}", "'partial_rotary_factor' is 1.5", OC_E_INVALID},
    {PHI3 "\"partial_rotary_factor\": 0.001}", "'partial_rotary_factor' is 0.001", OC_E_INVALID},
    {NEOX "\"rotary_pct\": 0.5, \"rope_parameters\": {\"partial_rotary_factor\": 0.25}}",
     "'rotary_pct' and 'rope_parameters.partial_rotary_factor'", OC_E_INVALID},
    {NEOX "\"rotary_emb_base\": 1000, \"rope_theta\": 10000}", "'rotary_emb_base' and 'rope_theta'",
     OC_E_INVALID},
    {NEOX "\"head_dim\": 64}", "'head_dim' is 64", OC_E_UNSUPPORTED},
    {NEOX "\"num_attention_heads\": 63}", "63 attention heads", OC_E_INVALID},
    {BLOOM "\"apply_residual_connection_post_layernorm\": true}",
     "'apply_residual_connection_post_layernorm'", OC_E_UNSUPPORTED},
    {BLOOM "\"hidden_size\": 64, \"n_embed\": 32}", "'hidden_size' and 'n_embed'", OC_E_INVALID},
    {OPT "\"layerdrop\": 0.1}", "'layerdrop' is 0.1", OC_E_UNSUPPORTED},
    {OPT "\"_remove_final_layer_norm\": 1}", "'_remove_final_layer_norm' is 1", OC_E_INVALID},
    {OPT "\"word_embed_proj_dim\": 0}", "'word_embed_proj_dim' is 0", OC_E_INVALID},
    {GEMMA2 "\"attn_logit_softcapping\": 0}", "'attn_logit_softcapping' is 0", OC_E_INVALID},
    {GEMMA2 "\"use_bidirectional_attention\": true}", "'use_bidirectional_attention'",
     OC_E_UNSUPPORTED},
    {GEMMA2 "\"sliding_window\": null}", "'sliding_window'", OC_E_INVALID},
    {GEMMA2 "\"query_pre_attn_scalar\": 0}", "'query_pre_attn_scalar' is 0", OC_E_INVALID},
    {GEMMA3 "\"rope_parameters\": {\"rope_type\": \"linear\", \"factor\": 8.0}}",
     "'rope_parameters.rope_type'", OC_E_UNSUPPORTED},
    {GEMMA3 "\"rope_parameters\": {\"full_attention\": 3}}",
     "'rope_parameters.full_attention' is 3", OC_E_INVALID},
    {GEMMA3 "\"rope_local_base_freq\": 0}", "'rope_local_base_freq' is 0", OC_E_INVALID},
    {GEMMA3 "\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 8}, \"rope_parameters\": "
            "{\"full_attention\": {\"rope_type\": \"default\"}}}",
     "'rope_parameters.full_attention' and 'rope_scaling'", OC_E_INVALID},
    {"{\"model_type\": \"gemma3\", \"text_config\": {}}", "gemma3_text", OC_E_UNSUPPORTED},
    {LLAMA "\"rope_scaling\": {\"type\": \"linear\"}}", "'rope_scaling.factor' is missing",
     OC_E_INVALID},
    {LLAMA "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 0}}", "'rope_scaling.factor' is 0",
     OC_E_INVALID},
    {LLAMA "\"rope_scaling\": {\"type\": \"linear\", \"rope_type\": \"default\", \"factor\": 2}}",
     "'rope_scaling.rope_type'", OC_E_INVALID},
    {LLAMA "\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 2, \"beta_fst\": 3}}",
     "did you mean 'beta_fast'", OC_E_UNSUPPORTED},
    {LLAMA "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2, \"partial_rotary_factor\": "
           "0.5}}",
     "'rope_scaling.partial_rotary_factor' (0.5)", OC_E_UNSUPPORTED},
    {LLAMA "\"is_causal\": false}", "'is_causal' is false", OC_E_UNSUPPORTED},
    {LLAMA "\"per_layer_config\": {\"0\": {\"sliding_window\": 8}}}", "'per_layer_config'",
     OC_E_UNSUPPORTED},
    {GPT2 "\"n_heads\": 12}", "did you mean 'n_head'", OC_E_UNSUPPORTED},
    {LLAMA "\"rope_scaling\": 3}", "'rope_scaling' is 3", OC_E_INVALID},
    {LLAMA "\"rope_theta\": 0}", "'rope_theta' is 0", OC_E_INVALID},
    {LLAMA "\"rope_theta\": 5000, \"rope_parameters\": {\"rope_theta\": 10000}}",
     "'rope_parameters.rope_theta'", OC_E_INVALID},
    {LLAMA "\"rope_parameters\": {\"rope_theta\": 10000}, \"rope_scaling\": {\"type\": \"linear\","
           " \"factor\": 2}}",
     "'rope_parameters' and 'rope_scaling'", OC_E_INVALID},
    {GPT2 "\"n_embd\": 64, \"hidden_size\": 32}", "'n_embd' and 'hidden_size'", OC_E_INVALID},
    {GPT2 "\"n_embd\": 65}", "hidden size 65", OC_E_INVALID},
    {GPT2 "\"scale_attn_by_inverse_layer_idx\": true}", "'scale_attn_by_inverse_layer_idx'",
     OC_E_UNSUPPORTED},
    {GPT2 "\"reorder_and_upcast_attn\": true}", "'reorder_and_upcast_attn'", OC_E_UNSUPPORTED},
    {GPT2 "\"add_cross_attention\": true}", "'add_cross_attention'", OC_E_UNSUPPORTED},
    {GPT2 "\"architectures\": [\"GPT2DoubleHeadsModel\"]}", "'architectures'", OC_E_UNSUPPORTED},
};

static void test_every_refusal_names_file_and_key(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        oc_model *m = NULL;
        oc_error err = {.status = OC_OK};
        oc_status s = oc_model_parse(&m, refusals[i].json, "DIR/config.json", &err);
        if (s != refusals[i].status || err.status != s || m)
            fail_msg("%s: %s: %s", refusals[i].json, oc_status_name(s), err.message);
        if (strncmp(err.message, "DIR/config.json", 15) != 0 ||
            !strstr(err.message, refusals[i].names))
            fail_msg("%s: the message is '%s'", refusals[i].json, err.message);
    }
}

static void test_a_missing_config_says_what_to_do(void **state) {
    (void)state;
    char dir[SCRATCH_BYTES], path[SCRATCH_BYTES];
    oc_model *m = NULL;
    oc_error err = {.status = OC_OK};
    scratch_make(dir);
    assert_int_equal(oc_model_open(&m, dir, &err), OC_E_NOTFOUND);
    assert_non_null(strstr(err.message, "config.json"));
    scratch_path(path, dir, "nothing");
    assert_int_equal(oc_model_open(&m, path, &err), OC_E_NOTFOUND);
    assert_non_null(strstr(err.message, path));
    scratch_write(dir, "config.json", "{\"model_type\": \"gpt2\"}");
    assert_int_equal(oc_model_open(&m, dir, &err), OC_OK);
    oc_model_close(m);
    scratch_path(path, dir, "config.json");
    assert_int_equal(oc_model_open(&m, path, &err), OC_OK);
    oc_model_close(m);
    scratch_write(dir, "config.json", "{\"model_type\": \"gpt2\", \"n_head\": 7}");
    assert_int_equal(oc_model_open(&m, dir, &err), OC_E_INVALID);
    assert_non_null(strstr(err.message, path));
    assert_null(m);
    assert_int_equal(oc_fs_remove_temporary(dir, &err), OC_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_refusal_names_file_and_key),
        cmocka_unit_test(test_a_missing_config_says_what_to_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
