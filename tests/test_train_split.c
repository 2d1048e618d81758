/* What a step computes does not depend on how its batch is split into micro-batches: the loss is
 * the sum over all targets of the batch divided by their number, wherever they stand. Compared are
 * runs that differ in the split alone; a mean of the micro-batches' means would fail, as the rows'
 * target counts are uneven. A batch without targets is skipped. */
#include "train/train.h"
#include "train_case.h"

#include <math.h>

static const char llama[] =
    "{\"model_type\":\"llama\",\"architectures\":[\"LlamaForCausalLM\"],\"hidden_size\":24,"
    "\"intermediate_size\":40,\"num_hidden_layers\":2,\"num_attention_heads\":3,"
    "\"num_key_value_heads\":1,\"vocab_size\":270,\"max_position_embeddings\":64,"
    "\"tie_word_embeddings\":true}";
static const char gpt2[] =
    "{\"model_type\":\"gpt2\",\"architectures\":[\"GPT2LMHeadModel\"],\"n_embd\":24,\"n_head\":2,"
    "\"n_layer\":2,\"n_positions\":32,\"vocab_size\":270,\"activation_function\":\"gelu_new\","
    "\"tie_word_embeddings\":true}";

enum { BATCH = 12, STEPS = 7 };

typedef struct split {
    int micro, accum;
    const char *rest;
} split;

static const split splits[] = {
    {12, 1, ""},
    {6, 2, ""},
    {4, 3, "--slots 1 --slabs 1 --act-home host"},
    {3, 4, "--micro-order breadth"},
    {2, 6, "--slots 2 --slabs 2 --micro-order breadth"},
    {1, 12, ""},
};

static void command(char *line, const char *dir, const split *s, const char *rest) {
    int n =
        snprintf(line, TRAIN_LINE_BYTES,
                 "--init %s --data %s/a.jsonl --output %s/out --seq-length 24 --micro-batch %d "
                 "--grad-accum %d --max-steps %d --lr 2e-3 --weight-decay 0.01 --dtype fp32 %s %s",
                 dir, dir, dir, s->micro, s->accum, STEPS, s->rest, rest);
    assert_true(n > 0 && n < TRAIN_LINE_BYTES);
}

static double weight_distance(const train_result *a, const train_result *b) {
    const float *x = (const float *)(const void *)a->weights;
    const float *y = (const float *)(const void *)b->weights;
    double most = 0, worst = 0;
    assert_int_equal(a->bytes, b->bytes);
    for (size_t i = 0; i < a->bytes / sizeof *x; i++) {
        most = fmax(most, fabs((double)x[i]));
        worst = fmax(worst, fabs((double)x[i] - (double)y[i]));
    }
    return worst / most;
}

static void compare(const train_result *want, const train_result *got, const split *s) {
    for (int i = 0; i < STEPS; i++) {
        double loss = train_relative(got->step[i].loss, want->step[i].loss);
        double norm = train_relative(got->step[i].grad_norm, want->step[i].grad_norm);
        assert_int_equal(want->targets[i], got->targets[i]);
        if (!(loss <= 1e-5 && norm <= 1e-5))
            fail_msg("%d x %d, step %d: the loss is off by %.3g, the gradient norm by %.3g",
                     s->micro, s->accum, i + 1, loss, norm);
    }
    double weights = weight_distance(want, got);
    if (!(weights <= 1e-5))
        fail_msg("%d x %d: the final weights are off by %.3g", s->micro, s->accum, weights);
}

/* Targets differ from row to row, an epoch is 2 batches and 5 rows. */
static void every_split(const char *config, const char *rest) {
    static const train_rows rows = {
        .rows = 2 * BATCH + 5, .least = 3, .most = 24, .vocab = 270, .ignored = 45};
    char dir[SCRATCH_BYTES], line[TRAIN_LINE_BYTES];
    train_result want, got;
    scratch_make(dir);
    train_write_config(dir, config);
    train_write_rows(dir, "a.jsonl", &rows);
    command(line, dir, &splits[0], rest);
    train_run(line, &want);
    for (size_t i = 1; i < sizeof splits / sizeof *splits; i++) {
        command(line, dir, &splits[i], rest);
        train_run(line, &got);
        compare(&want, &got, &splits[i]);
        train_result_release(&got);
    }
    train_result_release(&want);
    train_remove(dir);
}

static void llama_does_not_depend_on_the_split(void **state) {
    (void)state;
    every_split(llama, "--no-packing --no-shuffle");
}
static void llama_does_not_depend_on_the_split_of_packed_documents(void **state) {
    (void)state;
    every_split(llama, "");
}
static void gpt2_does_not_depend_on_the_split(void **state) {
    (void)state;
    every_split(gpt2, "--no-packing");
}
static void gpt2_does_not_depend_on_the_split_of_packed_documents(void **state) {
    (void)state;
    every_split(gpt2, "--no-shuffle");
}

/* ---- the last batch of an epoch ---- */

/* 29 rows of one document each in batches of 12: 12, 12 and 5 rows, again and again; none is left
 * out. Counted in targets, which the row lengths give: a row of n tokens has n - 1. */
static void the_last_batch_of_an_epoch_is_short(void **state) {
    static const train_rows rows = {
        .rows = 2 * BATCH + 5, .least = 11, .most = 11, .vocab = 270, .ignored = -1};
    char dir[SCRATCH_BYTES], line[TRAIN_LINE_BYTES];
    train_result r;
    (void)state;
    for (size_t i = 0; i < sizeof splits / sizeof *splits; i++) {
        scratch_make(dir);
        train_write_config(dir, llama);
        train_write_rows(dir, "a.jsonl", &rows);
        command(line, dir, &splits[i], "--no-packing");
        train_run(line, &r);
        for (int s = 0; s < STEPS; s++)
            assert_int_equal(r.targets[s], s % 3 == 2 ? 5 * 10 : BATCH * 10);
        train_result_release(&r);
        train_remove(dir);
    }
}

/* ---- packed documents ---- */

/* Documents packed into one sequence neither see each other nor count across their border: the
 * same batch with each document in a sequence of its own gives the same numbers. The rows are
 * twelve tokens long, two fill a sequence; 8 documents are a step. */
static void packed_documents_count_as_if_each_stood_alone(void **state) {
    static const train_rows rows = {
        .rows = 16, .least = 12, .most = 12, .vocab = 270, .ignored = 30};
    static const split packed = {4, 1, "--no-shuffle"};
    static const split alone = {8, 1, "--no-shuffle --no-packing"};
    static const char *const families[] = {llama, gpt2};
    char dir[SCRATCH_BYTES], line[TRAIN_LINE_BYTES];
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        train_result a, b;
        scratch_make(dir);
        train_write_config(dir, families[i]);
        train_write_rows(dir, "a.jsonl", &rows);
        command(line, dir, &packed, "");
        train_run(line, &a);
        command(line, dir, &alone, "");
        train_run(line, &b);
        compare(&b, &a, &packed);
        train_result_release(&a);
        train_result_release(&b);
        train_remove(dir);
    }
}

/* ---- no targets ---- */

/* One document of six sequences, the middle two without a label: so the second batch has none. */
static void write_gap(const char *dir) {
    char path[SCRATCH_BYTES];
    FILE *f = fopen(scratch_path(path, dir, "a.jsonl"), "w");
    assert_non_null(f);
    for (int part = 0; part < 2; part++) {
        fprintf(f, part ? "], \"labels\": [" : "{\"input_ids\": [");
        for (int t = 0; t < 48; t++)
            fprintf(f, "%s%d", t ? ", " : "", part && t >= 16 && t < 32 ? -100 : 3 + t * 7 % 50);
    }
    fprintf(f, "]}\n");
    assert_int_equal(fclose(f), 0);
}

/* It is skipped, whatever the dtype: the weights, Adam's t, the loss scale and the schedule stay as
 * they were. */
static void a_batch_without_targets_is_skipped(void **state) {
    static const char *const dtypes[] = {"fp32", "bf16", "fp16"};
    static const char *const places[] = {"", "--slots 2 --slabs 2", "--slots 1 --debug-memory"};
    char dir[SCRATCH_BYTES], line[TRAIN_LINE_BYTES];
    (void)state;
    scratch_make(dir);
    train_write_config(dir, llama);
    write_gap(dir);
    for (size_t d = 0; d < 3; d++) {
        for (size_t p = 0; p < 3; p++) {
            train_case t;
            train_result one = {0}, two = {0}, three = {0};
            snprintf(line, sizeof line,
                     "--init %s --data %s/a.jsonl --output %s/out --seq-length 8 --micro-batch 1 "
                     "--grad-accum 2 --max-steps 3 --lr 1e-2 --lr-schedule linear --no-shuffle "
                     "--dtype %s %s",
                     dir, dir, dir, dtypes[d], places[p]);
            train_open(&t, line);
            train_steps(&t, 1, &one);
            train_snapshot(&t, &one);
            train_steps(&t, 1, &two);
            train_snapshot(&t, &two);
            train_steps(&t, 1, &three);
            train_snapshot(&t, &three);
            train_close(&t);
            assert_int_equal(one.step[0].finite, 1);
            assert_int_equal(two.targets[0], 0);
            assert_int_equal(two.step[0].finite, 0);
            assert_int_equal(two.step[0].overflow, 0);
            assert_true(two.step[0].loss == 0 && two.step[0].grad_norm == 0);
            assert_memory_equal(one.weights, two.weights, one.bytes);
            assert_int_equal(two.updates, 1);
            assert_true(one.scale == two.scale);
            assert_int_equal(three.step[0].finite, 1);
            assert_int_equal(three.updates, 2);
            assert_true(memcmp(two.weights, three.weights, two.bytes) != 0);
            /* linear to 0 over 3 steps: after one update 2/3 is left, not 1/3 */
            assert_true(fabs(three.step[0].lr_used - 1e-2 * 2 / 3) < 1e-15);
            train_result_release(&one);
            train_result_release(&two);
            train_result_release(&three);
        }
    }
    train_remove(dir);
}

/* The log says so. */
static void a_skipped_step_is_logged_as_skipped(void **state) {
    char dir[SCRATCH_BYTES], line[TRAIN_LINE_BYTES], path[SCRATCH_BYTES];
    oc_error err = {OC_OK, ""};
    (void)state;
    scratch_make(dir);
    train_write_config(dir, llama);
    write_gap(dir);
    snprintf(line, sizeof line,
             "--init %s --data %s/a.jsonl --output %s/out --seq-length 8 --micro-batch 1 "
             "--grad-accum 2 --max-steps 3 --no-shuffle --log %s/log.jsonl --quiet",
             dir, dir, dir, dir);
    oc_config *c = train_config(OC_CMD_TRAIN, line, &err);
    assert_non_null(c);
    if (oc_train(c, &err).status != OC_OK) fail_msg("%s", err.message);
    oc_config_free(c);
    FILE *f = fopen(scratch_path(path, dir, "log.jsonl"), "r");
    assert_non_null(f);
    for (int i = 0; i < 3; i++) {
        char row[1024];
        assert_non_null(fgets(row, sizeof row, f));
        assert_non_null(strstr(row, i == 1 ? "\"skipped\": true" : "\"skipped\": false"));
    }
    fclose(f);
    train_remove(scratch_path(path, dir, "out"));
    train_remove(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama_does_not_depend_on_the_split),
        cmocka_unit_test(llama_does_not_depend_on_the_split_of_packed_documents),
        cmocka_unit_test(gpt2_does_not_depend_on_the_split),
        cmocka_unit_test(gpt2_does_not_depend_on_the_split_of_packed_documents),
        cmocka_unit_test(the_last_batch_of_an_epoch_is_short),
        cmocka_unit_test(packed_documents_count_as_if_each_stood_alone),
        cmocka_unit_test(a_batch_without_targets_is_skipped),
        cmocka_unit_test(a_skipped_step_is_logged_as_skipped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
