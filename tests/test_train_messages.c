/* The loss of conversations is PyTorch's: each alone through the model, the mean over the tokens of
 * the assistant's turns of all of them (tools/make_data_expected.py). Packed into one sequence, or
 * a sequence each, in one batch or many, it is the same: no conversation sees another. */
#include "base/json.h"
#include "train_case.h"

#include <math.h>

#define MESSAGES OC_TEST_DATA "/data/messages"

static double number(const json_t *object, const char *key) {
    const json_t *x = json_object_get(object, key);
    assert_true(json_is_number(x));
    return json_number_value(x);
}

static json_t *expected(void) {
    json_t *want = NULL;
    oc_error err = {OC_OK, ""};
    if (oc_json_load(&want, MESSAGES "/expected.json", OC_JSON_NO_NUL, &err) != OC_OK)
        fail_msg("%s", err.message);
    return want;
}

static void first_step(const char *rest, train_case *t, train_result *r) {
    char line[TRAIN_LINE_BYTES];
    snprintf(line, sizeof line,
             "--model " OC_TEST_DATA "/models/llama-tied --tokenizer " OC_TEST_DATA
             "/data/bytelevel --data " MESSAGES "/train.jsonl --output /nowhere --no-shuffle "
             "--dtype fp32 --max-steps 1 --clip-grad-norm 0 %s",
             rest);
    train_open(t, line);
    train_steps(t, 1, r);
}

static void check(const char *rest, uint64_t sequences) {
    train_case t;
    train_result r = {0};
    json_t *want = expected();
    first_step(rest, &t, &r);
    const oc_dataset_report *report = oc_dataset_get_report(t.corpus.data);
    assert_int_equal(report->rows, (uint64_t)number(want, "rows"));
    assert_int_equal(report->tokens, (uint64_t)number(want, "tokens"));
    assert_int_equal(report->targets, (uint64_t)number(want, "targets"));
    assert_int_equal(oc_dataset_count(t.corpus.data), sequences);
    assert_int_equal(r.targets[0], report->targets);
    double loss = train_relative(r.step[0].loss, number(want, "loss"));
    double norm = train_relative(r.step[0].grad_norm, number(want, "grad_norm"));
    if (!(loss <= 1e-5 && norm <= 1e-4))
        fail_msg("%s: loss %.9g, off by %.3g; gradient norm %.9g, off by %.3g", rest,
                 r.step[0].loss, loss, r.step[0].grad_norm, norm);
    json_decref(want);
    train_close(&t);
}

static void packed_conversations_have_pytorchs_loss(void **state) {
    (void)state;
    check("--seq-length 64 --micro-batch 3", 3);
    check("--seq-length 160 --micro-batch 1", 1);
    check("--seq-length 64 --micro-batch 1 --grad-accum 3 --slots 2 --slabs 1", 3);
}

static void padded_conversations_have_it_too(void **state) {
    (void)state;
    check("--seq-length 40 --micro-batch 6 --no-packing", 6);
    check("--seq-length 40 --micro-batch 2 --grad-accum 3 --no-packing", 6);
}

/* What the tokenizer holds is in the table of bytes. */
static void the_tokenizer_is_counted(void **state) {
    (void)state;
    train_case t;
    train_result r = {0};
    first_step("--seq-length 64 --micro-batch 3", &t, &r);
    uint64_t bytes = oc_tokenizer_host_bytes(t.corpus.tokenizer);
    assert_true(bytes > 10000);
    assert_true(oc_corpus_host_bytes(&t.corpus) > bytes);
    assert_false(t.corpus.built_in);
    train_close(&t);
}

/* Not twice in memory, nor opened twice. */
static void one_tokenizer_serves_both_data_sets(void **state) {
    (void)state;
    train_case t;
    train_result r = {0};
    oc_corpus other;
    oc_error err = {OC_OK, ""};
    first_step("--seq-length 64 --micro-batch 3", &t, &r);
    if (oc_corpus_open(&other, t.setup, &t.corpus, t.config->data, t.config->n_data, false, &err) !=
        OC_OK)
        fail_msg("%s", err.message);
    assert_ptr_equal(other.tokenizer, t.corpus.tokenizer);
    uint64_t bytes = oc_tokenizer_host_bytes(t.corpus.tokenizer);
    assert_int_equal(oc_corpus_host_bytes(&other) + bytes, oc_corpus_host_bytes(&t.corpus));
    oc_corpus_release(&other);
    assert_int_equal(oc_tokenizer_host_bytes(t.corpus.tokenizer), bytes);
    train_close(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed_conversations_have_pytorchs_loss),
        cmocka_unit_test(padded_conversations_have_it_too),
        cmocka_unit_test(the_tokenizer_is_counted),
        cmocka_unit_test(one_tokenizer_serves_both_data_sets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
