/* test_model_family.c - config.json to blocks: published parameter counts, the rules of the layout,
 * rotary frequencies, and every refusal by name. */
#include "base/fs.h"
#include "base/json.h"
#include "cmocka_all.h"
#include "model/model.h"
#include "scratch.h"

#include <math.h>
#include <string.h>

static oc_model *parse(const char *json) {
    oc_model *m = NULL;
    oc_error err = {.status = OC_OK};
    if (oc_model_parse(&m, json, "config.json", &err) != OC_OK)
        fail_msg("%s: %s", json, err.message);
    return m;
}

/* ---- parameter counts --------------------------------------------------------------------- */

/* As the models' own pages and papers give them. */
static void test_parameters_are_the_published_counts(void **state) {
    (void)state;
    static const struct {
        const char *what, *json;
        uint64_t parameters;
    } cases[] = {
        {"gpt2", "{\"model_type\": \"gpt2\"}", 124439808},
        {"gpt2-medium",
         "{\"model_type\": \"gpt2\", \"n_embd\": 1024, \"n_layer\": 24, \"n_head\": 16}",
         354823168},
        {"gpt2-xl", "{\"model_type\": \"gpt2\", \"n_embd\": 1600, \"n_layer\": 48, \"n_head\": 25}",
         1557611200},
        {"Llama-2-7b", "{\"model_type\": \"llama\"}", 6738415616},
        {"TinyLlama-1.1B",
         "{\"model_type\": \"llama\", \"hidden_size\": 2048, \"intermediate_size\": 5632,"
         " \"num_hidden_layers\": 22, \"num_key_value_heads\": 4}",
         1100048384},
        {"Llama-3-8B",
         "{\"model_type\": \"llama\", \"vocab_size\": 128256, \"intermediate_size\": 14336,"
         " \"num_key_value_heads\": 8, \"rope_theta\": 500000}",
         8030261248},
        {"Llama-3.2-1B",
         "{\"model_type\": \"llama\", \"vocab_size\": 128256, \"hidden_size\": 2048,"
         " \"intermediate_size\": 8192, \"num_hidden_layers\": 16, \"num_key_value_heads\": 8,"
         " \"head_dim\": 64, \"tie_word_embeddings\": true}",
         1235814400},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        oc_model *m = parse(cases[i].json);
        if (m->parameters != cases[i].parameters)
            fail_msg("%s: %llu parameters, published %llu", cases[i].what,
                     (unsigned long long)m->parameters, (unsigned long long)cases[i].parameters);
        oc_model_close(m);
    }
}

/* ---- layout ------------------------------------------------------------------------------- */

static bool is_decayed(oc_weight w) {
    return w == OC_W_QKV || w == OC_W_OUT || w == OC_W_UP || w == OC_W_DOWN || w == OC_W_TABLE;
}

static void check_block(const oc_model *m, const oc_block *k) {
    uint64_t end = 0;
    int last = -1;
    assert_int_equal(k->elements % 64, 0);
    assert_true(k->elements <= m->max_block_elements);
    for (int32_t i = 0; i < k->n_tensors; i++) {
        const oc_tensor_spec *t = &m->tensors[k->first_tensor + i];
        if ((int)t->weight == last) {
            assert_int_equal(t->offset, end); /* one group: no gap */
        } else {
            assert_int_equal(t->offset % 64, 0);
            assert_true(t->offset >= end && t->offset < end + 64);
            assert_int_equal(k->offset[t->weight], t->offset);
        }
        last = (int)t->weight;
        assert_int_equal(t->elements, t->rows * t->cols);
        assert_int_equal(t->decay, is_decayed(t->weight));
        end = t->offset + t->elements;
    }
    assert_true(end <= k->elements && k->elements < end + 64);
}

static void check_chunks(const oc_model *m, int32_t first, int32_t n, oc_block_kind kind) {
    uint64_t layer = m->blocks[m->first_layer].elements;
    uint64_t tiles = layer / ((uint64_t)m->hidden * OC_HEAD_TILE);
    int64_t each = OC_HEAD_TILE * (int64_t)(tiles ? tiles : 1), row = 0;
    for (int32_t i = 0; i < n; i++) {
        const oc_block *k = &m->blocks[first + i];
        assert_int_equal(k->kind, kind);
        assert_int_equal(k->index, i);
        assert_int_equal(k->row0, row);
        assert_int_equal(k->rows, row + each < m->vocab ? each : m->vocab - row);
        assert_int_equal(m->tensors[k->first_tensor].file_row0, row);
        assert_int_equal(m->tensors[k->first_tensor].rows, k->rows);
        row += k->rows;
    }
    assert_int_equal(row, m->vocab);
}

static void check_model(const oc_model *m) {
    int32_t at = m->n_table;
    assert_int_equal(m->first_table, 0);
    check_chunks(m, 0, m->n_table, OC_BLOCK_TABLE);
    if (m->decoder.position == OC_POS_LEARNED) {
        assert_int_equal(m->position_block, at);
        assert_int_equal(m->blocks[at].kind, OC_BLOCK_POSITION);
        assert_int_equal(m->blocks[at++].rows, m->max_positions);
    } else {
        assert_int_equal(m->position_block, -1);
    }
    assert_int_equal(m->first_layer, at);
    for (int32_t i = 0; i < m->n_layers; i++) {
        assert_int_equal(m->blocks[at].kind, OC_BLOCK_LAYER);
        assert_int_equal(m->blocks[at++].index, i);
    }
    assert_int_equal(m->final_norm_block, at);
    assert_int_equal(m->blocks[at++].kind, OC_BLOCK_FINAL_NORM);
    assert_int_equal(m->first_head, m->tied ? 0 : at);
    assert_int_equal(m->n_head, m->n_table);
    if (!m->tied) check_chunks(m, at, m->n_head, OC_BLOCK_HEAD);
    assert_int_equal(m->n_blocks, m->tied ? at : at + m->n_head);
    for (int32_t b = 0; b < m->n_blocks; b++)
        check_block(m, &m->blocks[b]);
}

static void test_layout_follows_its_rules(void **state) {
    (void)state;
    static const char *const cases[] = {
        "{\"model_type\": \"gpt2\"}",
        "{\"model_type\": \"gpt2\", \"n_embd\": 36, \"n_head\": 3, \"vocab_size\": 2500,"
        " \"tie_word_embeddings\": false}",
        "{\"model_type\": \"llama\"}",
        "{\"model_type\": \"llama\", \"vocab_size\": 1025, \"hidden_size\": 60,"
        " \"intermediate_size\": 92, \"num_attention_heads\": 3, \"num_key_value_heads\": 1}",
        "{\"model_type\": \"llama\", \"vocab_size\": 2048, \"hidden_size\": 20,"
        " \"intermediate_size\": 7, \"num_attention_heads\": 2, \"attention_bias\": true,"
        " \"mlp_bias\": true, \"tie_word_embeddings\": true}",
        "{\"model_type\": \"llama\", \"vocab_size\": 1, \"hidden_size\": 2,"
        " \"intermediate_size\": 1, \"num_attention_heads\": 1, \"num_hidden_layers\": 1}",
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        oc_model *m = parse(cases[i]);
        check_model(m);
        oc_model_close(m);
    }
}

static const oc_tensor_spec *find(const oc_model *m, const char *name) {
    for (int32_t i = 0; i < m->n_tensors; i++)
        if (strcmp(m->tensors[i].name, name) == 0) return &m->tensors[i];
    fail_msg("no tensor '%s'", name);
    return NULL;
}

static void test_names_and_shapes_are_those_of_the_files(void **state) {
    (void)state;
    oc_model *m = parse("{\"model_type\": \"llama\", \"num_key_value_heads\": 8, "
                        "\"attention_bias\": true, \"num_hidden_layers\": 12}");
    const oc_tensor_spec *t = find(m, "model.layers.11.self_attn.v_proj.weight");
    assert_int_equal(t->file_dims[0], 8 * 128);
    assert_int_equal(t->file_dims[1], 4096);
    assert_false(t->transposed);
    t = find(m, "model.layers.0.self_attn.k_proj.bias");
    assert_int_equal(t->file_ndim, 1);
    assert_int_equal(t->file_dims[0], 8 * 128);
    find(m, "lm_head.weight");
    assert_true(m->decoder.qkv_bias && m->decoder.out_bias && !m->decoder.mlp_bias);
    oc_model_close(m);

    m = parse("{\"model_type\": \"gpt2\"}");
    t = find(m, "transformer.h.3.attn.c_attn.weight");
    assert_true(t->transposed);
    assert_int_equal(t->rows, 3 * 768);
    assert_int_equal(t->file_dims[0], 768);
    assert_int_equal(t->file_dims[1], 3 * 768);
    /* residual projections start smaller by sqrt(2 layers) */
    assert_float_equal(find(m, "transformer.h.3.attn.c_proj.weight")->init_std, 0.02f / sqrtf(24),
                       1e-8);
    assert_float_equal(find(m, "transformer.h.3.mlp.c_fc.weight")->init_std, 0.02, 1e-8);
    assert_int_equal(find(m, "transformer.h.0.ln_1.weight")->init, OC_INIT_ONE);
    assert_int_equal(find(m, "transformer.h.0.ln_1.bias")->init, OC_INIT_ZERO);
    oc_model_close(m);
}

/* ---- fields ------------------------------------------------------------------------------- */

static void test_fields_reach_the_spec(void **state) {
    (void)state;
    oc_model *m =
        parse("{\"model_type\": \"llama\", \"architectures\": [\"LlamaForCausalLM\"],"
              " \"torch_dtype\": \"bfloat16\", \"eos_token_id\": [128001, 7, 9],"
              " \"bos_token_id\": 5, \"pad_token_id\": -1, \"hidden_act\": \"gelu\","
              " \"rms_norm_eps\": 1e-05, \"head_dim\": 96, \"num_key_value_heads\": null,"
              " \"max_position_embeddings\": 777, \"_name_or_path\": \"x\", \"use_cache\": true,"
              " \"an_unknown_key\": null, \"attention_dropout\": 0.1}");
    assert_string_equal(m->family, "llama");
    assert_string_equal(m->architecture, "LlamaForCausalLM");
    assert_int_equal(m->file_dtype, OC_BF16);
    assert_true(m->has_file_dtype);
    assert_int_equal(m->n_eos, 2); /* 128001 is outside the vocabulary */
    assert_int_equal(m->eos_ids[0], 7);
    assert_int_equal(m->eos_ids[1], 9);
    assert_int_equal(m->bos_id, 5);
    assert_int_equal(m->pad_id, -1);
    assert_int_equal(m->max_positions, 777);
    assert_int_equal(m->decoder.act, OC_ACT_GELU);
    assert_int_equal(m->decoder.head_dim, 96);
    assert_int_equal(m->decoder.kv_heads, 32);
    assert_float_equal(m->decoder.norm_eps, 1e-5, 1e-12);
    assert_float_equal(m->decoder.attention_scale, 1 / sqrtf(96), 1e-7);
    assert_non_null(strstr(m->notes, "128001"));
    assert_non_null(strstr(m->notes, "an_unknown_key"));
    assert_non_null(strstr(m->notes, "attention_dropout"));
    assert_null(strstr(m->notes, "use_cache"));
    oc_model_close(m);

    m = parse("{\"model_type\": \"gpt2\", \"hidden_size\": 64, \"n_head\": 4, \"dtype\": "
              "\"float16\", \"scale_attn_weights\": false, \"n_inner\": 100}");
    assert_int_equal(m->hidden, 64); /* the common name for n_embd */
    assert_int_equal(m->decoder.intermediate, 100);
    assert_int_equal(m->file_dtype, OC_F16);
    assert_int_equal(m->decoder.act, OC_ACT_GELU_TANH);
    assert_float_equal(m->decoder.attention_scale, 1, 0);
    assert_true(m->tied);
    assert_int_equal(m->eos_ids[0], 50256);
    oc_model_close(m);
}

static void test_rotary_frequencies_are_those_of_the_reference(void **state) {
    (void)state;
    oc_error err = {.status = OC_OK};
    json_t *cases;
    if (oc_json_load(&cases, OC_TEST_DATA "/models/rope.json", OC_JSON_NO_NUL, &err) != OC_OK)
        fail_msg("%s", err.message);
    assert_true(json_array_size(cases) >= 8);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *c = json_array_get(cases, i), *freqs = json_object_get(c, "inv_freq");
        char *text = json_dumps(json_object_get(c, "config"), 0);
        oc_model *m = parse(text);
        assert_int_equal(json_array_size(freqs), m->decoder.rot_dim / 2);
        assert_float_equal(m->decoder.rope_scaling,
                           json_number_value(json_object_get(c, "scaling")), 1e-6);
        for (int32_t k = 0; k < m->decoder.rot_dim / 2; k++) {
            double want = json_number_value(json_array_get(freqs, (size_t)k));
            if (!(fabs(m->inv_freq[k] - want) <= 3e-7 * want))
                fail_msg("%s: frequency %d is %.9g, not %.9g", text, k, (double)m->inv_freq[k],
                         want);
        }
        oc_model_close(m);
        free(text);
    }
    json_decref(cases);
}

/* ---- refusals ----------------------------------------------------------------------------- */

#define LLAMA "{\"model_type\": \"llama\", "
#define GPT2 "{\"model_type\": \"gpt2\", "

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
    {LLAMA "\"pretraining_tp\": 2}", "'pretraining_tp' is 2", OC_E_UNSUPPORTED},
    {LLAMA "\"sliding_window\": 4096}", "'sliding_window' is 4096", OC_E_UNSUPPORTED},
    {LLAMA "\"partial_rotary_factor\": 0.5}", "'partial_rotary_factor' is 0.5", OC_E_UNSUPPORTED},
    {LLAMA "\"quantization_config\": {\"quant_method\": \"gptq\"}}", "'quantization_config'",
     OC_E_UNSUPPORTED},
    {LLAMA "\"hidden_sise\": 64}", "did you mean 'hidden_size'", OC_E_UNSUPPORTED},
    {LLAMA "\"n_embd\": 64}", "'n_embd' (64)", OC_E_UNSUPPORTED},
    {LLAMA "\"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 2.0}}",
     "'rope_scaling.type' is \"dynamic\"", OC_E_UNSUPPORTED},
    {LLAMA "\"rope_scaling\": {\"rope_type\": \"longrope\"}}", "'rope_scaling.rope_type'",
     OC_E_UNSUPPORTED},
    {LLAMA "\"rope_scaling\": {\"type\": \"linear\"}}", "'rope_scaling.factor' is missing",
     OC_E_INVALID},
    {LLAMA "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 0}}", "'rope_scaling.factor' is 0",
     OC_E_INVALID},
    {LLAMA "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2, \"beta_fast\": 3}}",
     "'rope_scaling.beta_fast'", OC_E_UNSUPPORTED},
    {LLAMA "\"rope_scaling\": {\"type\": \"linear\", \"rope_type\": \"default\", \"factor\": 2}}",
     "'rope_scaling.rope_type'", OC_E_INVALID},
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
    {GPT2 "\"rope_theta\": 10000}", "'rope_theta' (10000)", OC_E_UNSUPPORTED},
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
        cmocka_unit_test(test_parameters_are_the_published_counts),
        cmocka_unit_test(test_layout_follows_its_rules),
        cmocka_unit_test(test_names_and_shapes_are_those_of_the_files),
        cmocka_unit_test(test_fields_reach_the_spec),
        cmocka_unit_test(test_rotary_frequencies_are_those_of_the_reference),
        cmocka_unit_test(test_every_refusal_names_file_and_key),
        cmocka_unit_test(test_a_missing_config_says_what_to_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
