/* Updates during the backward: the same bits as updates after it, without a home for gradients; and
 * accumulation of any length. */
#include "train_case.h"

static const char untied[] =
    "{\"model_type\":\"llama\",\"architectures\":[\"LlamaForCausalLM\"],\"hidden_size\":40,"
    "\"intermediate_size\":72,\"num_hidden_layers\":3,\"num_attention_heads\":4,"
    "\"num_key_value_heads\":2,\"vocab_size\":1100,\"max_position_embeddings\":64,"
    "\"rms_norm_eps\":1e-5,\"tie_word_embeddings\":false}";
static const char tied[] =
    "{\"model_type\":\"gpt2\",\"architectures\":[\"GPT2LMHeadModel\"],\"n_embd\":36,\"n_head\":3,"
    "\"n_layer\":3,\"n_positions\":32,\"vocab_size\":1067,\"activation_function\":\"gelu_new\","
    "\"tie_word_embeddings\":true}";

static void make(char dir[SCRATCH_BYTES], const char *config, const train_rows *rows) {
    scratch_make(dir);
    train_write_config(dir, config);
    train_write_rows(dir, "a.jsonl", rows);
}

static const train_rows some_rows = {
    .rows = 23, .least = 5, .most = 40, .vocab = 1060, .ignored = 20};

static void command(char *line, const char *dir, const char *rest, const char *more) {
    int n = snprintf(line, TRAIN_LINE_BYTES,
                     "--init %s --data %s/a.jsonl --output %s/out --seq-length 32 --max-steps 5 "
                     "--lr 3e-3 --weight-decay 0.1 --clip-grad-norm 0 %s %s",
                     dir, dir, dir, rest, more);
    assert_true(n > 0 && n < TRAIN_LINE_BYTES);
}

/* ---- early and late ---- */

static void early_is_late(const char *config, const char *rest) {
    static const char *const placements[] = {
        "",
        "--slots 1 --slabs 1 --act-home host --recompute full --debug-memory",
        "--slots 3 --slabs 2 --piece 32KiB --delay-seed 3",
        "--debug-async --delay-seed 2",
        "--debug-async --slots 2 --debug-memory",
    };
    char dir[SCRATCH_BYTES], line[TRAIN_LINE_BYTES], more[256];
    train_result want, got;
    make(dir, config, &some_rows);
    command(line, dir, rest, "--micro-batch 3 --early-updates off");
    train_run(line, &want);
    for (size_t i = 0; i < sizeof placements / sizeof *placements; i++) {
        snprintf(more, sizeof more, "--micro-batch 3 --early-updates on %s", placements[i]);
        command(line, dir, rest, more);
        train_run(line, &got);
        train_assert_same(&want, &got, line);
        train_result_release(&got);
    }
    train_result_release(&want);
    train_remove(dir);
}

static void early_updates_change_no_bit(void **state) {
    (void)state;
    early_is_late(untied, "--dtype bf16");
    early_is_late(untied, "--dtype fp32 --optimizer sgd --momentum 0.9");
    early_is_late(tied, "--dtype bf16 --optimizer adam");
    early_is_late(tied, "--dtype fp32");
    early_is_late(tied, "--dtype bf16 --optimizer sgd --momentum 0.9");
    early_is_late(untied, "--dtype fp32 --optimizer adam --no-packing");
    early_is_late(untied, "--dtype bf16 --optimizer sgd");
}

static oc_setup *set_up(oc_config **c, const char *dir, const char *rest, const char *more) {
    char line[TRAIN_LINE_BYTES];
    oc_error err = {OC_OK, ""};
    oc_setup *s = NULL;
    command(line, dir, rest, more);
    *c = train_config(OC_CMD_TRAIN, line, &err);
    if (!*c || oc_setup_open(&s, *c, NULL, &err) != OC_OK) fail_msg("%s\n%s", line, err.message);
    return s;
}

/* Homes of gradients: what is not a slab. */
static uint64_t state_bytes(const oc_setup *s) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < s->set->n_buffers; i++) {
        const oc_buffer *b = &s->set->buffers[i];
        bool grad = strncmp(b->name, "grad.", 5) == 0;
        bool state =
            b->life == OC_LIFE_CARRIED && b->tier == OC_TIER_HOST &&
            (b->use == OC_USE_WEIGHTS || b->use == OC_USE_MASTER || b->use == OC_USE_MOMENTS) &&
            strcmp(b->name, "table") != 0;
        if (grad || state) bytes += b->bytes;
    }
    return bytes;
}

static uint64_t elements(const oc_setup *s) {
    uint64_t n = 0;
    for (int32_t i = 0; i < s->model->n_blocks; i++)
        n += s->model->blocks[i].elements;
    return n;
}

static void early_states_take_14_bytes_in_bf16_and_12_in_fp32(void **state) {
    static const struct {
        const char *rest, *more;
        uint64_t each;
    } rows[] = {{"--dtype bf16", "--early-updates on", 14},
                {"--dtype fp32", "--early-updates on", 12},
                {"--dtype bf16", "--early-updates off", 16},
                {"--dtype fp32 --grad-accum 2", "", 16},
                {"--dtype bf16 --grad-accum 2", "", 18}};
    char dir[SCRATCH_BYTES];
    (void)state;
    make(dir, untied, &some_rows);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        oc_config *c;
        oc_setup *s = set_up(&c, dir, rows[i].rest, rows[i].more);
        /* rows of an embedding are summed in fp32 wherever a gradient has a home */
        uint64_t table = 0;
        for (int32_t b = 0; b < s->model->n_blocks; b++)
            if (s->model->blocks[b].kind == OC_BLOCK_TABLE && rows[i].each == 16 &&
                s->dtype == OC_BF16)
                table += 2 * s->model->blocks[b].elements;
        assert_int_equal(state_bytes(s), rows[i].each * elements(s) + table);
        oc_setup_close(s);
        oc_config_free(c);
    }
    train_remove(dir);
}

static void early_is_taken_when_it_is_legal(void **state) {
    static const struct {
        const char *options;
        bool early;
    } rows[] = {{"--dtype bf16", true},
                {"--dtype fp32", true},
                {"--dtype fp16", false},
                {"--dtype bf16 --grad-accum 2", false},
                {"--dtype bf16 --clip-grad-norm 1", false},
                {"--dtype bf16 --early-updates off", false}};
    char dir[SCRATCH_BYTES];
    (void)state;
    make(dir, untied, &some_rows);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        oc_config *c;
        oc_setup *s = set_up(&c, dir, "", rows[i].options);
        if (s->build.place.early != rows[i].early) fail_msg("%s", rows[i].options);
        oc_setup_close(s);
        oc_config_free(c);
    }
    train_remove(dir);
}

/* Asked for where it is not, it is refused by what would make it so. */
static void early_that_is_not_legal_is_refused(void **state) {
    static const char *const rows[][2] = {{"--dtype fp16", "--dtype bf16 or fp32"},
                                          {"--grad-accum 2", "--grad-accum 1"},
                                          {"--micro-batch 1 --train-batch 3", "--grad-accum 1"},
                                          {"--clip-grad-norm 1", "--clip-grad-norm 0"}};
    char dir[SCRATCH_BYTES], line[TRAIN_LINE_BYTES];
    (void)state;
    make(dir, untied, &some_rows);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        train_case t;
        oc_error err = {OC_OK, ""};
        command(line, dir, "--early-updates on", rows[i][0]);
        assert_int_equal(train_try_open(&t, line, &err), OC_E_UNSUPPORTED);
        if (!strstr(err.message, rows[i][1])) fail_msg("%s: %s", rows[i][0], err.message);
    }
    train_remove(dir);
}

/* A document of three sequences; no label of the second counts. */
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

static void a_step_without_targets_changes_nothing(void **state) {
    static const char *const modes[] = {"off", "on", "on --debug-async", "on --slots 1"};
    char dir[SCRATCH_BYTES], line[TRAIN_LINE_BYTES], more[128];
    train_result want, got;
    (void)state;
    scratch_make(dir);
    train_write_config(dir, untied);
    write_gap(dir);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        snprintf(more, sizeof more, "--micro-batch 1 --seq-length 16 --early-updates %s", modes[i]);
        command(line, dir, "--dtype bf16 --no-shuffle", more);
        train_run(line, i ? &got : &want);
        if (i == 0) continue;
        assert_true(got.step[0].finite && !got.step[1].finite && got.step[2].finite);
        assert_int_equal(got.updates, 3);
        train_assert_same(&want, &got, line);
        train_result_release(&got);
    }
    train_result_release(&want);
    train_remove(dir);
}

/* Weights that grow a billionfold a step. */
static void a_gradient_that_is_not_finite_ends_an_early_run(void **state) {
    char dir[SCRATCH_BYTES], line[TRAIN_LINE_BYTES];
    train_case t;
    oc_error err = {OC_OK, ""};
    oc_result_cell r;
    uint64_t targets;
    (void)state;
    make(dir, untied, &some_rows);
    command(line, dir, "--dtype fp32 --lr-schedule constant --optimizer sgd",
            "--micro-batch 3 --early-updates on --lr 1e6 --weight-decay 1e4 --max-steps 20");
    train_open(&t, line);
    oc_status st = OC_OK;
    for (uint64_t i = 0; i < 20 && st == OC_OK; i++) {
        st = oc_session_begin(t.session, t.corpus.feed, i, &err);
        if (st == OC_OK) st = oc_session_go_on(t.session, &err);
        if (st == OC_OK) st = oc_session_finish(t.session, &r, &targets, &err);
    }
    assert_int_equal(st, OC_E_INVALID);
    if (!strstr(err.message, "--early-updates off")) fail_msg("%s", err.message);
    train_close(&t);
    train_remove(dir);
}

/* ---- accumulation ---- */

static void compare_split(const train_result *want, const train_result *got, const char *split) {
    assert_int_equal(want->n, got->n);
    for (int k = 0; k < want->n; k++) {
        assert_int_equal(want->targets[k], got->targets[k]);
        if (!(train_relative(got->step[k].loss, want->step[k].loss) <= 1e-5))
            fail_msg("%s: loss of step %d", split, k + 1);
        if (!(train_relative(got->step[k].grad_norm, want->step[k].grad_norm) <= 1e-5))
            fail_msg("%s: gradient norm of step %d", split, k + 1);
    }
}

/* Steps whose last has half the rows; the first split is compared with. */
static void splits_are_one_batch(const char *config, int batch, const char *const *splits) {
    const train_rows rows = {
        .rows = 2 * batch + batch / 2, .least = 8, .most = 8, .vocab = 1000, .ignored = 10};
    char dir[SCRATCH_BYTES], line[TRAIN_LINE_BYTES];
    train_result want, got;
    make(dir, config, &rows);
    for (size_t i = 0; splits[i]; i++) {
        command(line, dir, "--dtype fp32 --seq-length 8 --max-steps 3", splits[i]);
        train_run(line, i ? &got : &want);
        if (i == 0) continue;
        compare_split(&want, &got, splits[i]);
        train_result_release(&got);
    }
    train_result_release(&want);
    train_remove(dir);
}

static void sixty_four_micro_batches_are_one_batch(void **state) {
    static const char *const splits[] = {
        "--micro-batch 64",
        "--micro-batch 1 --grad-accum 64",
        "--micro-batch 1 --grad-accum 64 --micro-order breadth --slots 2",
        "--micro-batch 1 --grad-accum 64 --micro-order interleave --debug-async",
        "--micro-batch 16 --grad-accum 4 --slots 1 --act-home host",
        NULL};
    (void)state;
    splits_are_one_batch(untied, 64, splits);
    splits_are_one_batch(tied, 64, splits);
}

static void three_hundred_micro_batches_are_one_batch(void **state) {
    static const char *const splits[] = {
        "--micro-batch 300",
        "--micro-batch 1 --grad-accum 300",
        "--micro-batch 5 --grad-accum 60 --slots 2",
        "--micro-batch 1 --grad-accum 300 --micro-order breadth",
        "--micro-batch 2 --grad-accum 150 --micro-order interleave",
        "--micro-batch 1 --grad-accum 300 --debug-async --slots 2",
        NULL};
    (void)state;
    splits_are_one_batch(untied, 300, splits);
    splits_are_one_batch(tied, 300, splits);
}

/* The last batch of an epoch has rows for one micro-batch of six, or for a few. */
static void a_short_batch_is_the_same_in_every_order(void **state) {
    static const char *const orders[] = {"",
                                         "--micro-order breadth",
                                         "--micro-order interleave",
                                         "--slots 2 --slabs 1 --debug-memory",
                                         "--slots 4 --micro-order interleave --act-home host",
                                         "--debug-async"};
    static const int counts[] = {13, 15, 17};
    for (size_t n = 0; n < 3; n++) {
        const train_rows rows = {
            .rows = counts[n], .least = 30, .most = 32, .vocab = 1000, .ignored = 10};
        char dir[SCRATCH_BYTES], line[TRAIN_LINE_BYTES];
        train_result want, got;
        (void)state;
        make(dir, n % 2 ? tied : untied, &rows);
        for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
            command(line, dir, "--dtype bf16 --no-packing --micro-batch 2 --grad-accum 6",
                    orders[i]);
            train_run(line, i ? &got : &want);
            if (i) train_assert_same(&want, &got, line);
            if (i) train_result_release(&got);
        }
        train_result_release(&want);
        train_remove(dir);
    }
}

/* By the number that was asked for, and by the most that there may be. */
static void more_micro_batches_than_there_may_be_are_refused(void **state) {
    static const char *const rows[][3] = {
        {"--grad-accum 1048577", "--grad-accum: 1048577", "1048576"},
        {"--micro-batch 1 --train-batch 1048577", "train-batch 1048577", "1048576"},
        {"--grad-accum 1025 --micro-order breadth", "1025", "1024"}};
    char dir[SCRATCH_BYTES], line[TRAIN_LINE_BYTES];
    (void)state;
    make(dir, untied, &some_rows);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        train_case t;
        oc_error err = {OC_OK, ""};
        command(line, dir, rows[i][0], "--host-memory 1TiB");
        if (train_try_open(&t, line, &err) == OC_OK) fail_msg("%s is not refused", rows[i][0]);
        if (!strstr(err.message, rows[i][1]) || !strstr(err.message, rows[i][2]))
            fail_msg("%s: %s", rows[i][0], err.message);
    }
    train_remove(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(early_updates_change_no_bit),
        cmocka_unit_test(early_states_take_14_bytes_in_bf16_and_12_in_fp32),
        cmocka_unit_test(early_is_taken_when_it_is_legal),
        cmocka_unit_test(early_that_is_not_legal_is_refused),
        cmocka_unit_test(a_step_without_targets_changes_nothing),
        cmocka_unit_test(a_gradient_that_is_not_finite_ends_an_early_run),
        cmocka_unit_test(sixty_four_micro_batches_are_one_batch),
        cmocka_unit_test(three_hundred_micro_batches_are_one_batch),
        cmocka_unit_test(a_short_batch_is_the_same_in_every_order),
        cmocka_unit_test(more_micro_batches_than_there_may_be_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
