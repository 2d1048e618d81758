/* Short trainings with random delays, for the thread sanitizer: lanes, pool workers and the session
 * thread share cells, slots and homes only as the plan orders them. The numbers agree too. */
#include "train_case.h"

static const char llama[] =
    "{\"model_type\":\"llama\",\"architectures\":[\"LlamaForCausalLM\"],\"hidden_size\":24,"
    "\"intermediate_size\":40,\"num_hidden_layers\":2,\"num_attention_heads\":2,"
    "\"num_key_value_heads\":1,\"vocab_size\":1060,\"max_position_embeddings\":64,"
    "\"tie_word_embeddings\":true}";

static const char *const placements[] = {
    "--threads 1",
    "--threads 3 --delay-seed 1",
    "--threads 3 --slots 1 --slabs 1 --act-home host --recompute full --delay-seed 2",
    "--threads 2 --slots 2 --slabs 2 --recompute none --piece 16KiB --delay-seed 3",
    "--threads 2 --slots 2 --slabs 1 --micro-order breadth --delay-seed 4 --pace h2d=200MB/s",
    "--threads 2 --slots 3 --slabs 2 --debug-memory --delay-seed 5",
    "--threads 2 --slots 2 --serial-lanes",
};

static void training_is_free_of_races(void **state) {
    static const char *const dtypes[] = {"fp32", "bf16", "fp16"};
    static const train_rows rows = {
        .rows = 14, .least = 4, .most = 20, .vocab = 1060, .ignored = 10};
    char dir[SCRATCH_BYTES], line[TRAIN_LINE_BYTES];
    (void)state;
    scratch_make(dir);
    train_write_config(dir, llama);
    train_write_rows(dir, "a.jsonl", &rows);
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        train_result want = {0}, got = {0};
        for (size_t p = 0; p < sizeof placements / sizeof *placements; p++) {
            snprintf(line, sizeof line,
                     "--init %s --data %s/a.jsonl --output %s/out --seq-length 16 --micro-batch 2 "
                     "--grad-accum 2 --max-steps 4 --lr 1e-3 --dtype %s %s",
                     dir, dir, dir, dtypes[d], placements[p]);
            train_run(line, p ? &got : &want);
            if (p) train_assert_same(&want, &got, placements[p]);
            if (p) train_result_release(&got);
        }
        train_result_release(&want);
    }
    train_remove(dir);
}

/* Evaluation between steps shares the arena with them. */
static void evaluation_between_steps_is_free_of_races(void **state) {
    static const train_rows rows = {
        .rows = 9, .least = 16, .most = 16, .vocab = 1060, .ignored = -1};
    char dir[SCRATCH_BYTES], line[TRAIN_LINE_BYTES];
    double first = 0;
    (void)state;
    scratch_make(dir);
    train_write_config(dir, llama);
    train_write_rows(dir, "a.jsonl", &rows);
    for (size_t p = 0; p < sizeof placements / sizeof *placements; p++) {
        train_case t;
        train_result r = {0};
        oc_error err = {OC_OK, ""};
        double before = 0, nll = 0;
        uint64_t targets = 0;
        bool whole = false;
        snprintf(line, sizeof line,
                 "--init %s --data %s/a.jsonl --output %s/out --seq-length 16 --micro-batch 2 "
                 "--grad-accum 2 --max-steps 9 --lr 1e-2 --lr-schedule constant --dtype fp32 %s",
                 dir, dir, dir, placements[p]);
        train_open(&t, line);
        oc_corpus eval;
        if (oc_corpus_open(&eval, t.setup, &t.setup->files, false, &err) != OC_OK)
            fail_msg("%s", err.message);
        for (int i = 0; i < 3; i++) {
            if (oc_session_evaluate(t.session, eval.feed, NULL, &nll, &targets, &whole, &err) !=
                OC_OK)
                fail_msg("%s", err.message);
            assert_true(whole);
            assert_int_equal(targets, 9 * 15);
            if (i > 0) assert_true(nll < before);
            before = nll;
            train_steps(&t, 3, &r);
        }
        if (p == 0) first = nll;
        assert_true(memcmp(&first, &nll, sizeof nll) == 0);
        const volatile sig_atomic_t stop = SIGINT;
        assert_int_equal(
            oc_session_evaluate(t.session, eval.feed, &stop, &nll, &targets, &whole, &err), OC_OK);
        assert_false(whole);
        assert_int_equal(targets, 0);
        oc_corpus_release(&eval);
        train_close(&t);
    }
    train_remove(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(training_is_free_of_races),
        cmocka_unit_test(evaluation_between_steps_is_free_of_races),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
