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

static uint64_t eval_bytes(const train_case *t) {
    oc_corpus eval;
    oc_error err = {OC_OK, ""};
    if (oc_corpus_open(&eval, t->setup, &t->setup->eval_files, false, &err) != OC_OK)
        fail_msg("%s", err.message);
    uint64_t bytes = oc_dataset_host_bytes(NULL) + oc_feed_host_bytes(eval.feed);
    oc_corpus_release(&eval);
    return bytes;
}

/* What the tokenizer and the data hold is in the table of bytes, before the data is open; a
 * tokenizer that serves two data sets is there once. */
static void text_is_counted_before_it_is_there(void **state) {
    (void)state;
    static const char eval_data[] = " --eval-data " MESSAGES "/train.jsonl";
    char line[256];
    uint64_t counted[2];
    for (int i = 0; i < 2; i++) {
        train_case t;
        train_result r = {0};
        snprintf(line, sizeof line, "--seq-length 64 --micro-batch 3%s", i ? eval_data : "");
        first_step(line, &t, &r);
        uint64_t tokenizer = oc_tokenizer_host_bytes(t.setup->tokenizer);
        uint64_t corpus = oc_dataset_host_bytes(NULL) + oc_feed_host_bytes(t.corpus.feed);
        assert_true(tokenizer > 10000);
        assert_false(t.setup->built_in);
        uint64_t eval = i ? eval_bytes(&t) : 0;
        assert_int_equal(t.setup->text_bytes, tokenizer + corpus + eval);
        assert_int_equal(oc_setup_use_bytes(t.setup, OC_TIER_HOST, OC_USE_TEXT),
                         t.setup->text_bytes);
        counted[i] = oc_setup_tier_bytes(t.setup, OC_TIER_HOST);
        if (i) assert_int_equal(counted[1], counted[0] + eval);
        train_close(&t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed_conversations_have_pytorchs_loss),
        cmocka_unit_test(padded_conversations_have_it_too),
        cmocka_unit_test(text_is_counted_before_it_is_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
