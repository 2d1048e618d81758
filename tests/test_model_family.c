/* test_model_family.c - config.json to blocks: published parameter counts, the rules of the layout,
 * rotary frequencies. */
#include "base/json.h"
#include "cmocka_all.h"
#include "model/model.h"

#include <math.h>
#include <stdio.h>
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
        {"Mistral-7B", "{\"model_type\": \"mistral\"}", 7241732096},
        {"Qwen2.5-0.5B",
         "{\"model_type\": \"qwen2\", \"hidden_size\": 896, \"intermediate_size\": 4864,"
         " \"num_hidden_layers\": 24, \"num_attention_heads\": 14, \"num_key_value_heads\": 2,"
         " \"tie_word_embeddings\": true}",
         494032768},
        {"Qwen3-0.6B",
         "{\"model_type\": \"qwen3\", \"hidden_size\": 1024, \"intermediate_size\": 3072,"
         " \"num_hidden_layers\": 28, \"num_attention_heads\": 16, \"num_key_value_heads\": 8,"
         " \"tie_word_embeddings\": true}",
         596049920},
        {"Phi-3-mini", "{\"model_type\": \"phi3\"}", 3821079552},
        {"opt-125m", "{\"model_type\": \"opt\"}", 125239296},
        {"opt-350m",
         "{\"model_type\": \"opt\", \"hidden_size\": 1024, \"num_hidden_layers\": 24,"
         " \"num_attention_heads\": 16, \"ffn_dim\": 4096, \"word_embed_proj_dim\": 512,"
         " \"do_layer_norm_before\": false}",
         331196416},
        {"pythia-160m",
         "{\"model_type\": \"gpt_neox\", \"vocab_size\": 50304, \"hidden_size\": 768,"
         " \"num_hidden_layers\": 12, \"num_attention_heads\": 12, \"intermediate_size\": 3072}",
         162322944},
        {"bloom-560m",
         "{\"model_type\": \"bloom\", \"n_embed\": 1024, \"n_layer\": 24,"
         " \"num_attention_heads\": 16}",
         559214592},
        {"gemma-2-2b", "{\"model_type\": \"gemma2\"}", 2614341888},
        {"gemma-3-1b",
         "{\"model_type\": \"gemma3_text\", \"vocab_size\": 262144, \"hidden_size\": 1152,"
         " \"intermediate_size\": 6912, \"num_attention_heads\": 4, \"num_key_value_heads\": 1}",
         999885952},
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
    return w == OC_W_QKV || w == OC_W_OUT || w == OC_W_UP || w == OC_W_DOWN || w == OC_W_TABLE ||
           w == OC_W_PROJECT_IN || w == OC_W_PROJECT_OUT;
}

/* Places of weights that norms do not have stand before a tensor, or at the end. */
static uint64_t bare_end(const oc_model *m, const oc_block *k, uint64_t end) {
    static const oc_weight norms[] = {OC_W_NORM1, OC_W_NORM2, OC_W_FINAL_NORM};
    for (size_t i = 0; m->decoder.norm_bare && i < sizeof norms / sizeof norms[0]; i++)
        if (k->offset[norms[i]] >= 0 && (uint64_t)k->offset[norms[i]] >= end &&
            (uint64_t)k->offset[norms[i]] < end + 64)
            return (uint64_t)(k->offset[norms[i]] + m->hidden);
    return end;
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
            end = bare_end(m, k, end);
            assert_int_equal(t->offset % 64, 0);
            assert_true(t->offset >= end && t->offset < end + 64);
            assert_int_equal(k->offset[t->weight], t->offset);
        }
        last = (int)t->weight;
        assert_int_equal(t->elements, t->rows * t->cols);
        assert_int_equal(t->decay, is_decayed(t->weight));
        end = t->offset + t->elements;
    }
    end = bare_end(m, k, end);
    /* one that holds nothing is there all the same */
    if (end == 0) assert_int_equal(k->elements, 64);
    if (end > 0) assert_true(end <= k->elements && k->elements < end + 64);
}

static void check_chunks(const oc_model *m, int32_t first, int32_t n, oc_block_kind kind) {
    uint64_t layer = m->blocks[m->first_layer].elements;
    uint64_t tiles = layer / ((uint64_t)m->embed_dim * OC_HEAD_TILE);
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
        assert_int_equal(m->blocks[at++].rows, m->max_positions + m->position_offset);
    } else {
        assert_int_equal(m->position_block, -1);
    }
    if (m->front_block >= 0) {
        assert_int_equal(m->front_block, at);
        assert_int_equal(m->blocks[at++].kind, OC_BLOCK_FRONT);
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
        "{\"model_type\": \"qwen2\", \"hidden_size\": 60, \"num_attention_heads\": 6,"
        " \"num_key_value_heads\": 2}",
        "{\"model_type\": \"qwen3\", \"num_hidden_layers\": 3, \"attention_bias\": true}",
        "{\"model_type\": \"phi3\"}",
        "{\"model_type\": \"gpt_neox\", \"attention_bias\": false}",
        "{\"model_type\": \"bloom\"}",
        "{\"model_type\": \"gemma2\"}",
        "{\"model_type\": \"gemma3_text\"}",
        "{\"model_type\": \"opt\"}",
        "{\"model_type\": \"opt\", \"word_embed_proj_dim\": 100, \"enable_bias\": false}",
        "{\"model_type\": \"opt\", \"do_layer_norm_before\": false}",
        "{\"model_type\": \"opt\", \"layer_norm_elementwise_affine\": false, \"hidden_size\": 36}",
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

/* "qom": the layers have biases of q, k and v, of the attention's output, of the mlp; '.': not. */
static void check_biases(const oc_model *m, const char *have) {
    static const oc_weight biases[] = {OC_W_QKV_BIAS, OC_W_OUT_BIAS, OC_W_UP_BIAS};
    for (int i = 0; i < 3; i++)
        assert_int_equal(m->blocks[m->first_layer].offset[biases[i]] >= 0, have[i] != '.');
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
    check_biases(m, "qo.");
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

/* Rows of the file that the n-th part of a fused tensor has, as its spec says. */
static void check_part(const oc_model *m, const char *name, int n, int64_t group, int64_t stride,
                       int64_t row0) {
    for (int32_t i = 0; i < m->n_tensors; i++) {
        const oc_tensor_spec *t = &m->tensors[i];
        if (strcmp(t->name, name) != 0 || n-- > 0) continue;
        assert_int_equal(t->file_group, group);
        assert_int_equal(t->file_stride, stride);
        assert_int_equal(t->file_row0, row0);
        assert_int_equal(t->file_dims[0], 3 * t->rows);
        return;
    }
    fail_msg("no such part of '%s'", name);
}

static void test_fused_tensors_fall_into_parts(void **state) {
    (void)state;
    oc_model *m = parse("{\"model_type\": \"gpt_neox\"}");
    const char *name = "gpt_neox.layers.43.attention.query_key_value.weight";
    for (int part = 0; part < 3; part++) {
        check_part(m, name, part, 96, 288, 96 * part);
        check_part(m, "gpt_neox.layers.0.attention.query_key_value.bias", part, 96, 288, 96 * part);
    }
    assert_string_equal(m->head_name, "embed_out.weight");
    assert_int_equal(m->decoder.rot_dim, 24);
    oc_model_close(m);
    m = parse("{\"model_type\": \"phi3\", \"num_key_value_heads\": 8}");
    const oc_tensor_spec *t = find(m, "model.layers.5.self_attn.qkv_proj.weight");
    assert_int_equal(t->file_dims[0], (32 + 16) * 96);
    assert_int_equal(t->file_group, 0);
    assert_int_equal(find(m, "model.layers.5.mlp.gate_up_proj.weight")->rows, 2 * 8192);
    oc_model_close(m);
    m = parse("{\"model_type\": \"opt\", \"word_embed_proj_dim\": 512}");
    assert_int_equal(find(m, "model.decoder.project_in.weight")->rows, 768);
    assert_int_equal(find(m, "model.decoder.project_out.weight")->rows, 512);
    assert_int_equal(find(m, "model.decoder.embed_positions.weight")->rows, 2050);
    assert_int_equal(find(m, "model.decoder.embed_tokens.weight")->cols, 512);
    oc_model_close(m);
    m = parse("{\"model_type\": \"gemma2\"}");
    assert_int_equal(find(m, "model.layers.0.post_feedforward_layernorm.weight")->init,
                     OC_INIT_ZERO);
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

/* 'w' for layers with a window, '.' for others. */
static void check_windows(const char *json, const char *layers, int64_t window) {
    oc_model *m = parse(json);
    assert_int_equal(m->n_layers, strlen(layers));
    int32_t counts[OC_VARIANTS] = {0};
    for (int32_t i = 0; i < m->n_layers; i++) {
        int32_t variant = m->blocks[m->first_layer + i].variant;
        assert_true(variant < m->decoder.n_variants);
        int64_t have = m->decoder.variants[variant].window;
        counts[variant]++;
        if (have != (layers[i] == 'w' ? window : 0))
            fail_msg("%s: layer %d has a window of %lld", json, i, (long long)have);
    }
    for (int32_t i = 0; i < m->decoder.n_variants; i++)
        assert_int_equal(counts[i], m->decoder.variants[i].layers);
    oc_model_close(m);
}

static void test_windows_stand_where_the_reference_has_them(void **state) {
    (void)state;
    check_windows("{\"model_type\": \"mistral\", \"num_hidden_layers\": 2}", "ww", 4096);
    check_windows("{\"model_type\": \"mistral\", \"num_hidden_layers\": 2,"
                  " \"sliding_window\": null}",
                  "..", 0);
    check_windows("{\"model_type\": \"phi3\", \"num_hidden_layers\": 2}", "..", 0);
    check_windows("{\"model_type\": \"phi3\", \"num_hidden_layers\": 2, \"sliding_window\": 7}",
                  "ww", 7);
    check_windows("{\"model_type\": \"qwen2\", \"num_hidden_layers\": 3}", "...", 0);
    check_windows("{\"model_type\": \"qwen3\", \"num_hidden_layers\": 30,"
                  " \"use_sliding_window\": true, \"sliding_window\": 9}",
                  "............................ww", 9);
    check_windows("{\"model_type\": \"qwen2\", \"num_hidden_layers\": 3,"
                  " \"use_sliding_window\": true, \"max_window_layers\": 0}",
                  "www", 4096);
    check_windows("{\"model_type\": \"qwen2\", \"num_hidden_layers\": 3,"
                  " \"use_sliding_window\": true, \"max_window_layers\": 0, \"layer_types\":"
                  " [\"full_attention\", \"sliding_attention\", \"full_attention\"]}",
                  ".w.", 4096);
    check_windows("{\"model_type\": \"gemma2\", \"num_hidden_layers\": 5}", "w.w.w", 4096);
    check_windows("{\"model_type\": \"gemma3_text\", \"num_hidden_layers\": 8}", "wwwww.ww", 4096);
    check_windows("{\"model_type\": \"gemma3_text\", \"num_hidden_layers\": 5,"
                  " \"sliding_window_pattern\": 3, \"sliding_window\": 512}",
                  "ww.ww", 512);
}

static void test_fields_of_the_families_reach_the_spec(void **state) {
    (void)state;
    oc_model *m = parse("{\"model_type\": \"gemma2\", \"query_pre_attn_scalar\": 144}");
    const oc_decoder_spec *d = &m->decoder;
    assert_true(d->placement == OC_PLACE_SANDWICH && d->norm_plus_one && !d->qk_norm && d->gated);
    assert_float_equal(d->attention_scale, 1.0 / 12, 1e-9);
    assert_float_equal(d->attention_cap, 50, 0);
    assert_float_equal(d->logit_cap, 30, 0);
    assert_float_equal(m->embedding_scale, 48, 0);
    assert_true(m->tied && m->bos_id == 2 && m->eos_ids[0] == 1 && m->pad_id == 0);
    oc_model_close(m);
    m = parse("{\"model_type\": \"gemma3_text\"}");
    d = &m->decoder;
    assert_true(d->qk_norm && d->attention_cap == 0 && d->logit_cap == 0);
    assert_true(m->n_ropes == 2 && m->n_inv_freq == 256);
    assert_true(d->variants[0].rope == 0 && d->variants[1].rope == 1);
    oc_model_close(m);
    m = parse("{\"model_type\": \"gpt_neox\"}");
    assert_true(m->decoder.placement == OC_PLACE_PARALLEL && !m->tied);
    check_biases(m, "qom");
    oc_model_close(m);
    m = parse("{\"model_type\": \"gpt_neox\", \"use_parallel_residual\": false}");
    assert_int_equal(m->decoder.placement, OC_PLACE_PRE);
    oc_model_close(m);
    m = parse("{\"model_type\": \"qwen2\"}");
    check_biases(m, "q..");
    assert_true(m->bos_id == -1 && m->n_eos == 0);
    oc_model_close(m);
    m = parse("{\"model_type\": \"opt\", \"do_layer_norm_before\": false, \"init_std\": 0.01}");
    assert_true(m->decoder.placement == OC_PLACE_POST && m->tied && m->position_offset == 2);
    assert_float_equal(m->decoder.norm_eps, 1e-5, 1e-12);
    assert_int_equal(m->decoder.act, OC_ACT_RELU);
    assert_float_equal(m->initializer_range, 0.01, 1e-9);
    assert_int_equal(m->front_block, -1);
    oc_model_close(m);
}

/* As they stand beside the models, shortened by nothing that changes them. */
static const char *const published[] = {
    /* opt-350m */
    "{\"_name_or_path\": \"opt-350m\", \"activation_dropout\": 0.0, \"activation_function\": "
    "\"relu\", \"architectures\": [\"OPTForCausalLM\"], \"attention_dropout\": 0.0, "
    "\"bos_token_id\": 2, \"do_layer_norm_before\": false, \"dropout\": 0.0, "
    "\"eos_token_id\": 2, \"ffn_dim\": 4096, \"hidden_size\": 1024, \"init_std\": 0.02, "
    "\"layerdrop\": 0.0, \"max_position_embeddings\": 2048, \"model_type\": \"opt\", "
    "\"num_attention_heads\": 16, \"num_hidden_layers\": 24, \"pad_token_id\": 1, \"prefix\": "
    "\"</s>\", \"torch_dtype\": \"float16\", \"transformers_version\": \"4.20.0.dev0\", "
    "\"use_cache\": true, \"vocab_size\": 50272, \"word_embed_proj_dim\": 512}",
    /* pythia */
    "{\"architectures\": [\"GPTNeoXForCausalLM\"], \"bos_token_id\": 0, \"eos_token_id\": 0, "
    "\"hidden_act\": \"gelu\", \"hidden_size\": 512, \"initializer_range\": 0.02, "
    "\"intermediate_size\": 2048, \"layer_norm_eps\": 1e-05, \"max_position_embeddings\": "
    "2048, \"model_type\": \"gpt_neox\", \"num_attention_heads\": 8, \"num_hidden_layers\": "
    "6, \"rotary_emb_base\": 10000, \"rotary_pct\": 0.25, \"tie_word_embeddings\": false, "
    "\"torch_dtype\": \"float16\", \"transformers_version\": \"4.24.0\", \"use_cache\": true, "
    "\"use_parallel_residual\": true, \"vocab_size\": 50304}",
    /* bloom-560m */
    "{\"apply_residual_connection_post_layernorm\": false, \"attention_dropout\": 0.0, "
    "\"attention_softmax_in_fp32\": true, \"bias_dropout_fusion\": true, \"bos_token_id\": "
    "1, \"eos_token_id\": 2, \"pad_token_id\": 3, \"unk_token_id\": 0, \"hidden_dropout\": "
    "0.0, \"initializer_range\": 0.02, \"layer_norm_epsilon\": 1e-05, "
    "\"masked_softmax_fusion\": true, \"model_type\": \"bloom\", \"n_embed\": 1024, "
    "\"n_inner\": null, \"n_layer\": 24, \"num_attention_heads\": 16, \"offset_alibi\": 100, "
    "\"pretraining_tp\": 1, \"skip_bias_add\": true, \"skip_bias_add_qkv\": false, "
    "\"transformers_version\": \"4.20.0\", \"use_cache\": true, \"vocab_size\": 250880, "
    "\"seq_length\": 2048, \"slow_but_exact\": false}",
    /* gemma-2-2b */
    "{\"architectures\": [\"Gemma2ForCausalLM\"], \"attention_bias\": false, "
    "\"attention_dropout\": 0.0, \"attn_logit_softcapping\": 50.0, \"bos_token_id\": 2, "
    "\"cache_implementation\": \"hybrid\", \"eos_token_id\": 1, \"final_logit_softcapping\": "
    "30.0, \"head_dim\": 256, \"hidden_act\": \"gelu_pytorch_tanh\", \"hidden_activation\": "
    "\"gelu_pytorch_tanh\", \"hidden_size\": 2304, \"initializer_range\": 0.02, "
    "\"intermediate_size\": 9216, \"max_position_embeddings\": 8192, \"model_type\": "
    "\"gemma2\", \"num_attention_heads\": 8, \"num_hidden_layers\": 26, "
    "\"num_key_value_heads\": 4, \"pad_token_id\": 0, \"query_pre_attn_scalar\": 256, "
    "\"rms_norm_eps\": 1e-06, \"rope_theta\": 10000.0, \"sliding_window\": 4096, "
    "\"torch_dtype\": \"float32\", \"transformers_version\": \"4.42.4\", \"use_cache\": true, "
    "\"vocab_size\": 256000}",
    /* gemma-3-1b */
    "{\"architectures\": [\"Gemma3ForCausalLM\"], \"attention_bias\": false, "
    "\"attention_dropout\": 0.0, \"attn_logit_softcapping\": null, \"bos_token_id\": 2, "
    "\"cache_implementation\": \"hybrid\", \"eos_token_id\": [1, 106], "
    "\"final_logit_softcapping\": null, \"head_dim\": 256, \"hidden_activation\": "
    "\"gelu_pytorch_tanh\", \"hidden_size\": 1152, \"initializer_range\": 0.02, "
    "\"intermediate_size\": 6912, \"max_position_embeddings\": 32768, \"model_type\": "
    "\"gemma3_text\", \"num_attention_heads\": 4, \"num_hidden_layers\": 26, "
    "\"num_key_value_heads\": 1, \"pad_token_id\": 0, \"query_pre_attn_scalar\": 256, "
    "\"rms_norm_eps\": 1e-06, \"rope_local_base_freq\": 10000, \"rope_scaling\": null, "
    "\"rope_theta\": 1000000, \"sliding_window\": 512, \"sliding_window_pattern\": 6, "
    "\"torch_dtype\": \"bfloat16\", \"transformers_version\": \"4.50.0.dev0\", \"use_cache\": "
    "true, \"vocab_size\": 262144}",
    /* Qwen3-0.6B */
    "{\"architectures\": [\"Qwen3ForCausalLM\"], \"attention_bias\": false, "
    "\"attention_dropout\": 0.0, \"bos_token_id\": 151643, \"eos_token_id\": 151645, "
    "\"head_dim\": 128, \"hidden_act\": \"silu\", \"hidden_size\": 1024, "
    "\"initializer_range\": "
    "0.02, \"intermediate_size\": 3072, \"max_position_embeddings\": 40960, "
    "\"max_window_layers\": 28, \"model_type\": \"qwen3\", \"num_attention_heads\": 16, "
    "\"num_hidden_layers\": 28, \"num_key_value_heads\": 8, \"rms_norm_eps\": 1e-06, "
    "\"rope_scaling\": null, \"rope_theta\": 1000000, \"sliding_window\": null, "
    "\"tie_word_embeddings\": true, \"torch_dtype\": \"bfloat16\", \"transformers_version\": "
    "\"4.51.0\", \"use_cache\": true, \"use_sliding_window\": false, \"vocab_size\": 151936}",
    /* Qwen2.5-7B */
    "{\"architectures\": [\"Qwen2ForCausalLM\"], \"attention_dropout\": 0.0, "
    "\"bos_token_id\": 151643, \"eos_token_id\": 151643, \"hidden_act\": \"silu\", "
    "\"hidden_size\": 3584, \"initializer_range\": 0.02, \"intermediate_size\": 18944, "
    "\"max_position_embeddings\": 131072, \"max_window_layers\": 28, \"model_type\": "
    "\"qwen2\", \"num_attention_heads\": 28, \"num_hidden_layers\": 28, "
    "\"num_key_value_heads\": 4, \"rms_norm_eps\": 1e-06, \"rope_theta\": 1000000.0, "
    "\"sliding_window\": 131072, \"tie_word_embeddings\": false, \"torch_dtype\": "
    "\"bfloat16\", \"transformers_version\": \"4.40.1\", \"use_cache\": true, \"use_mrope\": "
    "false, \"use_sliding_window\": false, \"vocab_size\": 152064}",
    /* Phi-4-mini */
    "{\"architectures\": [\"Phi3ForCausalLM\"], \"attention_bias\": false, "
    "\"attention_dropout\": 0.0, \"bos_token_id\": 199999, \"embd_pdrop\": 0.0, "
    "\"eos_token_id\": 199999, \"full_attn_mod\": 1, \"hidden_act\": \"silu\", "
    "\"hidden_size\": "
    "3072, \"initializer_range\": 0.02, \"intermediate_size\": 8192, "
    "\"interpolate_factor\": 1, \"lm_head_bias\": false, \"max_position_embeddings\": "
    "131072, \"mlp_bias\": false, \"model_type\": \"phi3\", \"num_attention_heads\": 24, "
    "\"num_hidden_layers\": 32, \"num_key_value_heads\": 8, "
    "\"original_max_position_embeddings\": 4096, \"pad_token_id\": 199999, "
    "\"partial_rotary_factor\": 0.75, \"resid_pdrop\": 0.0, \"rms_norm_eps\": 1e-05, "
    "\"rope_scaling\": null, \"rope_theta\": 10000.0, \"sliding_window\": 262144, "
    "\"tie_word_embeddings\": true, \"torch_dtype\": \"bfloat16\", \"transformers_version\": "
    "\"4.45.0\", \"use_cache\": true, \"vocab_size\": 200064}",
};

static void test_published_configs_are_read_without_a_note(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof published / sizeof published[0]; i++) {
        oc_model *m = parse(published[i]);
        assert_string_equal(m->notes, "");
        oc_model_close(m);
    }
}

/* Notes of trainers and exporters, and an old spelling of the class: nothing of them is computed,
 * and nothing is said about them. */
static void test_what_changes_nothing_is_read_without_a_note(void **state) {
    (void)state;
    static const char *const members[] = {
        "\"is_llama_config\": true",     "\"onnx_export\": true",
        "\"use_flash_attention\": true", "\"pad_token\": \"<pad>\"",
        "\"model_max_length\": 4096",    "\"architectures\": [\"LLaMAForCausalLM\"]",
    };
    char json[256];
    oc_model *plain = parse("{\"model_type\": \"llama\"}");
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        snprintf(json, sizeof json, "{\"model_type\": \"llama\", %s}", members[i]);
        oc_model *m = parse(json);
        assert_string_equal(m->notes, "");
        assert_int_equal(m->parameters, plain->parameters);
        assert_true(m->max_positions == plain->max_positions && m->pad_id == plain->pad_id);
        oc_model_close(m);
    }
    oc_model_close(plain);
}

/* get_input_embeddings().padding_idx of the reference's models, made with pad_token_id 5. */
static void test_the_padding_token_is_still_where_the_reference_has_it(void **state) {
    (void)state;
    static const struct {
        const char *model_type;
        int32_t padding_idx;
    } cases[] = {
        {"llama", 5},  {"mistral", 5},   {"qwen2", 5},       {"qwen3", 5},
        {"phi3", 5},   {"opt", 5},       {"gpt2", -1},       {"bloom", -1},
        {"gemma2", 5}, {"gpt_neox", -1}, {"gemma3_text", 5},
    };
    char json[128];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        snprintf(json, sizeof json, "{\"model_type\": \"%s\", \"pad_token_id\": 5}",
                 cases[i].model_type);
        oc_model *m = parse(json);
        assert_int_equal(m->pad_id, 5);
        if (m->padding_idx != cases[i].padding_idx)
            fail_msg("%s: padding_idx is %d", cases[i].model_type, m->padding_idx);
        oc_model_close(m);
    }
}

/* Slopes as the paper gives them: a series of halves for 8 heads, 2^-4, 2^-8.. for 2; for 3 heads
 * those of 2 and the first of 4. */
static void test_slopes_are_those_of_the_paper(void **state) {
    (void)state;
    oc_model *m = parse("{\"model_type\": \"bloom\"}");
    assert_int_equal(m->n_inv_freq, 8);
    for (int i = 0; i < 8; i++)
        assert_float_equal(m->inv_freq[i], exp2(-i - 1), 1e-9);
    oc_model_close(m);
    m = parse("{\"model_type\": \"bloom\", \"n_head\": 3, \"hidden_size\": 24}");
    assert_float_equal(m->inv_freq[0], exp2(-4), 1e-9);
    assert_float_equal(m->inv_freq[1], exp2(-8), 1e-9);
    assert_float_equal(m->inv_freq[2], exp2(-2), 1e-9);
    oc_model_close(m);
}

static void check_rope(const json_t *c) {
    const json_t *freqs = json_object_get(c, "inv_freq"), *length = json_object_get(c, "length");
    char *text = json_dumps(json_object_get(c, "config"), 0);
    oc_model *m = parse(text);
    const char *type = json_string_value(json_object_get(c, "layer_type"));
    const oc_layer_variant *v =
        &m->decoder.variants[type && strcmp(type, "sliding_attention") == 0];
    int32_t n = m->decoder.rot_dim / 2;
    const float *table = m->inv_freq + v->rope * n;
    if (length) oc_model_rope(m, json_integer_value(length), m->inv_freq);
    assert_int_equal(json_array_size(freqs), n);
    assert_float_equal(v->rope_scaling, json_number_value(json_object_get(c, "scaling")), 1e-6);
    for (int32_t k = 0; k < n; k++) {
        double want = json_number_value(json_array_get(freqs, (size_t)k));
        if (!(fabs((double)table[k] - want) <= 3e-7 * want))
            fail_msg("%s: frequency %d is %.9g, not %.9g", text, k, (double)table[k], want);
    }
    oc_model_close(m);
    free(text);
}

static void test_rotary_frequencies_are_those_of_the_reference(void **state) {
    (void)state;
    static const char *const files[] = {OC_TEST_DATA "/models/rope.json",
                                        OC_TEST_DATA "/models/rope_length.json"};
    for (size_t f = 0; f < 2; f++) {
        oc_error err = {.status = OC_OK};
        json_t *cases;
        if (oc_json_load(&cases, files[f], OC_JSON_NO_NUL, &err) != OC_OK)
            fail_msg("%s", err.message);
        assert_true(json_array_size(cases) >= 8);
        for (size_t i = 0; i < json_array_size(cases); i++)
            check_rope(json_array_get(cases, i));
        json_decref(cases);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parameters_are_the_published_counts),
        cmocka_unit_test(test_layout_follows_its_rules),
        cmocka_unit_test(test_names_and_shapes_are_those_of_the_files),
        cmocka_unit_test(test_fields_reach_the_spec),
        cmocka_unit_test(test_fused_tensors_fall_into_parts),
        cmocka_unit_test(test_windows_stand_where_the_reference_has_them),
        cmocka_unit_test(test_fields_of_the_families_reach_the_spec),
        cmocka_unit_test(test_published_configs_are_read_without_a_note),
        cmocka_unit_test(test_what_changes_nothing_is_read_without_a_note),
        cmocka_unit_test(test_the_padding_token_is_still_where_the_reference_has_it),
        cmocka_unit_test(test_slopes_are_those_of_the_paper),
        cmocka_unit_test(test_rotary_frequencies_are_those_of_the_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
