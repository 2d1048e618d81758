/* Every key of config.json that a family's configuration class knows, that its model reads or that
 * files of the hub carry, against what the reference does with it: tests/data/config_keys.tsv,
 * which tools/make_config_keys.py has tried out. What changes its result is followed or refused,
 * what does not passes. */
#include "cmocka_all.h"
#include "model/model.h"

#include <stdio.h>
#include <string.h>

typedef struct row {
    char family[32], key[64], how[16], does[16];
} row;

static bool next_row(FILE *f, row *r) {
    char line[256];
    while (fgets(line, sizeof line, f)) {
        if (line[0] == '#') continue;
        assert_int_equal(sscanf(line, "%31[^\t]\t%63[^\t]\t%15[^\t]\t%15[^\n]", r->family, r->key,
                                r->how, r->does),
                         4);
        return true;
    }
    return false;
}

static FILE *open_rows(void) {
    FILE *f = fopen(OC_TEST_DATA "/config_keys.tsv", "r");
    assert_non_null(f);
    return f;
}

typedef struct outcome {
    bool passes, said; /* said: a note names the key */
    char message[512];
} outcome;

static outcome try_value(const row *r, const char *value) {
    char json[256];
    outcome o = {false, false, ""};
    oc_model *m = NULL;
    oc_error err = {.status = OC_OK};
    snprintf(json, sizeof json, "{\"model_type\": \"%s\", \"%s\": %s}", r->family, r->key, value);
    o.passes = oc_model_parse(&m, json, "config.json", &err) == OC_OK;
    o.said = o.passes && strstr(m->notes, r->key);
    snprintf(o.message, sizeof o.message, "%.500s", o.passes ? m->notes : err.message);
    oc_model_close(m);
    return o;
}

/* "family.key", "*.key" */
static bool is_among(const row *r, const char *const *list, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const char *dot = strchr(list[i], '.');
        size_t lead = (size_t)(dot - list[i]);
        bool any = lead == 1 && list[i][0] == '*';
        bool family = any || (strlen(r->family) == lead && !strncmp(r->family, list[i], lead));
        if (family && strcmp(dot + 1, r->key) == 0) return true;
    }
    return false;
}
#define AMONG(r, list) is_among(r, list, sizeof(list) / sizeof *(list))

static void what_changes_the_reference_is_followed_or_refused(void **state) {
    (void)state;
    /* of the class's own checks, and of models with a camera */
    static const char *const idle[] = {"*.vision_feature_select_strategy"};
    row r;
    int rows = 0;
    FILE *f = open_rows();
    while (next_row(f, &r)) {
        if (strcmp(r.does, "changes") != 0 && strcmp(r.does, "training") != 0) continue;
        outcome o = try_value(&r, "{\"odd\": 1}");
        if (o.passes && !o.said && !AMONG(&r, idle))
            fail_msg("%s: %s %s, and is not looked at", r.family, r.key, r.does);
        rows++;
    }
    fclose(f);
    assert_true(rows > 170);
}

/* Refused though a model with nothing else said is the same: they have an effect beside others. */
static const char *const beside_others[] = {
    "*.partial_rotary_factor", /* with some types of rope */
    /* objects whose members have rules of their own */
    "phi3.rope_parameters",
    "phi3.rope_scaling",
    "gemma3_text.rope_parameters",
    "gemma3_text.rope_scaling",
    "gpt_neox.rope_parameters",
    /* in other implementations of attention */
    "gemma2.use_bidirectional_attention",
    /* rounded elsewhere in 16 bits */
    "gpt2.reorder_and_upcast_attn",
};

static void what_the_reference_ignores_passes(void **state) {
    (void)state;
    static const char *const values[] = {"3", "true", "[1]", "\"odd\"", "0.5", "null"};
    row r;
    int rows = 0;
    FILE *f = open_rows();
    while (next_row(f, &r)) {
        bool passes = false;
        if (strcmp(r.does, "same") != 0) continue;
        for (size_t i = 0; !passes && i < 5; i++)
            passes = try_value(&r, values[i]).passes;
        if (!passes && !AMONG(&r, beside_others))
            fail_msg("%s: %s: %s", r.family, r.key, try_value(&r, "3").message);
        rows++;
    }
    fclose(f);
    assert_true(rows > 900);
}

/* A key that the class does not know is told, but not refused, whatever its value. */
static void what_files_carry_beside_is_counted_in_one_note(void **state) {
    (void)state;
    static const struct {
        const char *json, *note;
    } cases[] = {
        {"\"model_type\": \"llama\", \"max_sequence_length\": 2048",
         "1 key(s) without effect for llama, in the reference too: max_sequence_length"},
        {"\"model_type\": \"llama\", \"pretraining_tp\": 2, \"sliding_window\": 4096, "
         "\"custom_pipelines\": {\"a\": {}}, \"n_embd\": 64",
         "4 key(s) without effect for llama, in the reference too: sliding_window, pretraining_tp, "
         "custom_pipelines, n_embd"},
        {"\"model_type\": \"mistral\", \"use_sliding_window\": true, \"quant_note\": \"x\"",
         "2 key(s) without effect for mistral, in the reference too: use_sliding_window, "
         "quant_note"},
        {"\"model_type\": \"llama\", \"head_dim\": 64, \"rope_scaling\": {\"type\": \"yarn\", "
         "\"factor\": 4, \"finetuned\": true, \"original_max_position_embeddings\": 64}",
         "1 key(s) without effect for llama, in the reference too: rope_scaling.finetuned"},
        {"\"model_type\": \"llama\", \"rope_scaling\": {\"type\": \"linear\", \"factor\": 2, "
         "\"beta_fast\": 3, \"original_max_position_embeddings\": 64}",
         "2 key(s) without effect for llama, in the reference too: rope_scaling.beta_fast, "
         "rope_scaling.original_max_position_embeddings"},
        {"\"model_type\": \"bloom\", \"slow_but_exact\": true, \"rope_theta\": 10000",
         "2 key(s) without effect for bloom, in the reference too: slow_but_exact, rope_theta"},
        {"\"model_type\": \"gemma3_text\", \"attn_logit_softcapping\": 50.0",
         "1 key(s) without effect for gemma3_text, in the reference too: attn_logit_softcapping"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char json[512], line[512];
        oc_model *m = NULL;
        oc_error err = {.status = OC_OK};
        snprintf(json, sizeof json, "{%s}", cases[i].json);
        snprintf(line, sizeof line, "config.json: %s", cases[i].note);
        if (oc_model_parse(&m, json, "config.json", &err) != OC_OK)
            fail_msg("%s: %s", json, err.message);
        assert_string_equal(m->notes, line);
        oc_model_close(m);
    }
}

/* The note ends where it has no room, and the count stays right. */
static void very_many_of_them_are_counted_too(void **state) {
    (void)state;
    char json[8192] = "{\"model_type\": \"gpt2\"";
    for (int i = 0; i < 100; i++) {
        size_t at = strlen(json);
        snprintf(json + at, sizeof json - at, ", \"zzz_left_by_a_program_%d\": 1", i);
    }
    snprintf(json + strlen(json), sizeof json - strlen(json), "}");
    oc_model *m = NULL;
    oc_error err = {.status = OC_OK};
    assert_int_equal(oc_model_parse(&m, json, "config.json", &err), OC_OK);
    assert_non_null(strstr(m->notes, "100 key(s) without effect for gpt2"));
    assert_non_null(strstr(m->notes, ", ..."));
    oc_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_changes_the_reference_is_followed_or_refused),
        cmocka_unit_test(what_the_reference_ignores_passes),
        cmocka_unit_test(what_files_carry_beside_is_counted_in_one_note),
        cmocka_unit_test(very_many_of_them_are_counted_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
