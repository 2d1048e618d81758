/* What a model expects of given completions: the probability of each of their tokens, taken from
 * the logits after all tokens before it, equals transformers'. */
#include "base/json.h"
#include "generate_case.h"

#include <math.h>

#define MODELS OC_TEST_DATA "/generate/"

static json_t *open_scores(const char *model) {
    char path[256];
    oc_error err;
    json_t *root;
    snprintf(path, sizeof path, MODELS "%s/expected.json", model);
    if (oc_json_load(&root, path, OC_JSON_ALLOW_NUL, &err) != OC_OK) fail_msg("%s", err.message);
    return root;
}

static int32_t id_at(const json_t *ids, size_t i) {
    return (int32_t)json_integer_value(json_array_get(ids, i));
}

static void check_ids(const oc_tokenizer *t, const json_t *row) {
    const json_t *ids = json_object_get(row, "ids");
    char text[512];
    oc_tokens x = {.n = 0};
    oc_error err;
    int n = snprintf(text, sizeof text, "%s%s", json_string_value(json_object_get(row, "prompt")),
                     json_string_value(json_object_get(row, "completion")));
    assert_int_equal(oc_tokenizer_encode(t, text, (size_t)n, OC_SPECIAL_ADD, &x, &err), OC_OK);
    assert_int_equal(x.n, json_array_size(ids));
    for (size_t i = 0; i < x.n; i++)
        assert_int_equal(x.ids[i], id_at(ids, i));
    oc_tokens_free(&x);
}

static double log_probability(const float *logits, int32_t vocab, int32_t id) {
    double most = -INFINITY, sum = 0;
    for (int32_t i = 0; i < vocab; i++)
        most = fmax(most, (double)logits[i]);
    for (int32_t i = 0; i < vocab; i++)
        sum += exp((double)logits[i] - most);
    return (double)logits[id] - most - log(sum);
}

static void check_row(const char *model, int32_t vocab, const json_t *row) {
    const json_t *ids = json_object_get(row, "ids"), *each = json_object_get(row, "logprobs");
    int32_t first = (int32_t)json_integer_value(json_object_get(row, "n_prompt"));
    int32_t n = (int32_t)json_array_size(ids) - first;
    generate_row *x = calloc((size_t)n, sizeof *x);
    char line[512];
    double sum = 0;
    bool greedy = true;
    assert_int_equal(json_array_size(each), n);
    for (int32_t k = 0; k < n; k++) {
        x[k].n_prompt = first + k;
        x[k].answer = 1;
        for (int32_t i = 0; i < first + k; i++)
            x[k].ids[i] = id_at(ids, (size_t)i);
    }
    snprintf(line, sizeof line, "--model " MODELS "%s --dtype fp32 --seq-length 64 --batch 3",
             model);
    generate_run(line, x, n);
    for (int32_t k = 0; k < n; k++) {
        int32_t id = id_at(ids, (size_t)(first + k));
        double got = log_probability(x[k].logits, vocab, id);
        assert_float_equal(got, json_number_value(json_array_get(each, (size_t)k)), 1e-4);
        sum += got;
        greedy = greedy && x[k].ids[first + k] == id;
    }
    assert_float_equal(sum, json_number_value(json_object_get(row, "sum")), 2e-4);
    assert_int_equal(greedy, json_is_true(json_object_get(row, "greedy")));
    generate_release(x, n);
}

static void check_model(const char *model) {
    json_t *root = open_scores(model), *rows = json_object_get(root, "scores"), *row;
    oc_tokenizer *t;
    oc_error err;
    char dir[256];
    size_t i;
    snprintf(dir, sizeof dir, MODELS "%s", model);
    if (oc_tokenizer_open(&t, dir, &err) != OC_OK) fail_msg("%s", err.message);
    assert_int_equal(json_array_size(rows), 8);
    json_array_foreach(rows, i, row) {
        check_ids(t, row);
        check_row(model, oc_tokenizer_vocab(t), row);
    }
    oc_tokenizer_close(t);
    json_decref(root);
}

static void completions_are_as_probable_as_transformers_finds_them(void **state) {
    (void)state;
    check_model("llama");
    check_model("mistral");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(completions_are_as_probable_as_transformers_finds_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
