/* test_model_freeze.c - patterns over tensors' names choose what is trained, as requires_grad of
 * PyTorch's named parameters would be set by them. */
#include "cmocka_all.h"
#include "model/model.h"

#include <string.h>

static oc_error error;

static oc_model *llama(const char *tied) {
    char json[512];
    oc_model *m = NULL;
    snprintf(json, sizeof json,
             "{\"model_type\": \"llama\", \"vocab_size\": 2100, \"hidden_size\": 16, "
             "\"intermediate_size\": 24, \"num_hidden_layers\": 3, \"num_attention_heads\": 2, "
             "\"tie_word_embeddings\": %s}",
             tied);
    if (oc_model_parse(&m, json, "config.json", &error) != OC_OK) fail_msg("%s", error.message);
    return m;
}

static oc_status freeze(oc_model *m, bool only, const char *a, const char *b) {
    const char *patterns[] = {a, b};
    error.message[0] = 0;
    return oc_model_freeze(m, patterns, b ? 2 : 1, only, &error);
}

static uint64_t frozen(const oc_model *m) { return m->parameters - oc_model_trained_parameters(m); }

enum { TABLE = 2100 * 16, LAYER = 4 * 16 * 16 + 3 * 16 * 24 + 2 * 16, ATTENTION = 4 * 16 * 16 };

static void a_model_is_trained_as_a_whole_until_something_is_frozen(void **state) {
    (void)state;
    oc_model *m = llama("false");
    assert_int_equal(frozen(m), 0);
    assert_int_equal(oc_model_freeze(m, NULL, 0, true, &error), OC_OK);
    assert_int_equal(frozen(m), 0);
    for (int32_t i = 0; i < m->n_blocks; i++)
        assert_true(m->blocks[i].trained);
    assert_int_equal(oc_model_lowest_trained(m), 0);
    assert_true(oc_model_trains_below(m));
    oc_model_close(m);
}

static void patterns_are_globs_over_whole_names(void **state) {
    (void)state;
    static const struct {
        const char *pattern;
        uint64_t frozen;
    } rows[] = {
        {"model.layers.0.*", LAYER},
        {"layers.0.*", LAYER}, /* as a checkpoint without the prefix has it */
        {"*.self_attn.?_proj.weight", 3 * ATTENTION},
        {"model.layers.[02].*", 2 * LAYER},
        {"model.layers.[!02].*", LAYER},
        {"*embed_tokens*", TABLE},
        {"lm_head.weight", TABLE},
        {"*norm*", 7 * 16},
        {"model.norm.weight", 16},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        oc_model *m = llama("false");
        if (freeze(m, false, rows[i].pattern, NULL) != OC_OK) fail_msg("%s", error.message);
        assert_int_equal(frozen(m), rows[i].frozen);
        oc_model_close(m);
        m = llama("false");
        assert_int_equal(freeze(m, true, rows[i].pattern, NULL), OC_OK);
        assert_int_equal(oc_model_trained_parameters(m), rows[i].frozen);
        oc_model_close(m);
    }
}

static void a_block_is_trained_when_one_of_its_tensors_is(void **state) {
    (void)state;
    oc_model *m = llama("false");
    assert_int_equal(freeze(m, false, "model.layers.[01].*", "*embed_tokens*"), OC_OK);
    assert_int_equal(oc_model_lowest_trained(m), 2);
    assert_false(oc_model_trains_below(m));
    for (int32_t i = 0; i < m->n_blocks; i++)
        assert_int_equal(m->blocks[i].trained, i >= m->first_layer + 2);
    oc_model_close(m);
    m = llama("false");
    assert_int_equal(freeze(m, true, "*.1.mlp.up_proj.weight", "*.2.input_layernorm.weight"),
                     OC_OK);
    assert_int_equal(oc_model_lowest_trained(m), 1);
    for (int32_t i = 0; i < m->n_blocks; i++)
        assert_int_equal(m->blocks[i].trained, i == m->first_layer + 1 || i == m->first_layer + 2);
    oc_model_close(m);
    m = llama("false");
    assert_int_equal(freeze(m, true, "lm_head.*", NULL), OC_OK);
    assert_int_equal(oc_model_lowest_trained(m), m->n_layers);
    oc_model_close(m);
}

/* named_parameters() of a tied model has one of them; setting requires_grad through the other sets
 * that of the same Parameter. */
static void a_tied_table_goes_by_both_of_its_names(void **state) {
    (void)state;
    static const char *const names[] = {"*embed_tokens*", "lm_head.weight"};
    for (int i = 0; i < 2; i++) {
        oc_model *m = llama("true");
        assert_int_equal(freeze(m, false, names[i], NULL), OC_OK);
        assert_int_equal(frozen(m), TABLE);
        assert_false(oc_model_trains_below(m));
        oc_model_close(m);
        m = llama("true");
        assert_int_equal(freeze(m, true, names[i], NULL), OC_OK);
        assert_int_equal(oc_model_trained_parameters(m), TABLE);
        assert_true(oc_model_trains_below(m));
        oc_model_close(m);
    }
}

static void what_cannot_be_meant_is_refused_with_the_nearest_name(void **state) {
    (void)state;
    static const struct {
        const char *pattern, *message;
    } rows[] = {
        {"model.layer.1.*", "did you mean \"model.layers.1.input_layernorm.weight\"?"},
        {"*embed_token", "did you mean \"model.embed_tokens.weight\"?"},
        {"model.layers.3.*", "did you mean \"model.layers."},
        {"lm_haed.weight", "did you mean \"lm_head.weight\"?"},
        {"*.atn.*", "\"*.atn.*\" is the name of no tensor"},
        {"self_attn", "\"self_attn\" is the name of no tensor: did you mean \"model.layers.0.self"},
        {"", "\"\" is the name of no tensor; the first is model.embed_tokens.weight"},
        {"***", NULL},
        {"model.*", NULL}, /* the tied head is part of it */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        oc_model *m = llama("true");
        assert_int_equal(freeze(m, false, "*norm*", rows[i].pattern), OC_E_INVALID);
        const char *message = rows[i].message ? rows[i].message : "nothing is left to train";
        if (!strstr(error.message, message)) fail_msg("%s: %s", rows[i].pattern, error.message);
        oc_model_close(m);
    }
}

static void zeroing_reaches_frozen_tensors_and_nothing_else(void **state) {
    (void)state;
    oc_pool *pool = NULL;
    oc_device *d = NULL;
    oc_model *m = llama("false");
    assert_int_equal(oc_pool_open(&pool, 1, &error), OC_OK);
    assert_int_equal(oc_device_open_cpu(&d, pool, OC_ISA_BEST, &error), OC_OK);
    assert_int_equal(freeze(m, false, "*k_proj*", "*post_attention_layernorm*"), OC_OK);
    const oc_block *b = &m->blocks[m->first_layer];
    uint16_t *g = malloc(b->elements * sizeof *g);
    assert_non_null(g);
    memset(g, 0x3f, b->elements * sizeof *g);
    oc_model_zero_frozen(m, b, d, OC_BF16, g);
    uint64_t zeros = 0;
    for (int32_t i = 0; i < b->n_tensors; i++) {
        const oc_tensor_spec *t = &m->tensors[b->first_tensor + i];
        for (uint64_t k = 0; k < t->elements; k++)
            assert_int_equal(g[t->offset + k], t->frozen ? 0 : 0x3f3f);
    }
    for (uint64_t k = 0; k < b->elements; k++)
        zeros += g[k] == 0;
    assert_int_equal(zeros, 16 * 16 + 16);
    free(g);
    oc_device_close(d);
    oc_pool_close(pool);
    oc_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_is_trained_as_a_whole_until_something_is_frozen),
        cmocka_unit_test(patterns_are_globs_over_whole_names),
        cmocka_unit_test(a_block_is_trained_when_one_of_its_tensors_is),
        cmocka_unit_test(a_tied_table_goes_by_both_of_its_names),
        cmocka_unit_test(what_cannot_be_meant_is_refused_with_the_nearest_name),
        cmocka_unit_test(zeroing_reaches_frozen_tensors_and_nothing_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
