/* fp16 loss scaling in a real run. The scale follows DeepSpeed's DynamicLossScaler: an overflow
 * costs one of `hysteresis` lives or, with one left, halves the scale; after `window` good steps
 * and one it doubles; an overflow at the least scale is an error. A step that overflows leaves the
 * weights, Adam's t and the schedule as they were. */
#include "train/train.h"
#include "train_case.h"

#include <math.h>

static const char llama[] =
    "{\"model_type\":\"llama\",\"architectures\":[\"LlamaForCausalLM\"],\"hidden_size\":32,"
    "\"intermediate_size\":48,\"num_hidden_layers\":2,\"num_attention_heads\":4,"
    "\"num_key_value_heads\":2,\"vocab_size\":300,\"max_position_embeddings\":64,"
    "\"tie_word_embeddings\":false}";

static const char *const places[] = {"", "--slots 1 --slabs 1 --act-home host",
                                     "--slots 2 --slabs 2 --debug-memory --delay-seed 4"};

static void make(char dir[SCRATCH_BYTES], const char *fp16) {
    static const train_rows rows = {
        .rows = 16, .least = 16, .most = 16, .vocab = 300, .ignored = -1};
    scratch_make(dir);
    train_write_config(dir, llama);
    train_write_rows(dir, "a.jsonl", &rows);
    scratch_write(dir, "ds.json", fp16);
}

static void command(char *line, const char *dir, int steps, const char *rest) {
    int n =
        snprintf(line, TRAIN_LINE_BYTES,
                 "--init %s --data %s/a.jsonl --output %s/out --config %s/ds.json --seq-length 16 "
                 "--micro-batch 2 --grad-accum 2 --max-steps %d --lr 1e-3 --warmup-steps 4 %s",
                 dir, dir, dir, dir, steps, rest);
    assert_true(n > 0 && n < TRAIN_LINE_BYTES);
}

/* From 2^40, far beyond what fp16 gradients hold, with hysteresis 2 and window 3. */
static void overflow_skips_the_step_and_halves_the_scale(void **state) {
    enum { STEPS = 44 };
    char dir[SCRATCH_BYTES], line[TRAIN_LINE_BYTES];
    (void)state;
    make(dir, "{\"fp16\": {\"enabled\": true, \"initial_scale_power\": 40, \"hysteresis\": 2, "
              "\"loss_scale_window\": 3, \"min_loss_scale\": 1}}");
    for (size_t p = 0; p < sizeof places / sizeof *places; p++) {
        train_case t;
        train_result before = {0}, r = {0};
        double scale = ldexp(1, 40);
        int lives = 2, good = 0, overflows = 0, doubled = 0;
        command(line, dir, STEPS, places[p]);
        train_open(&t, line);
        train_snapshot(&t, &before);
        for (int i = 0; i < STEPS; i++) {
            uint64_t updates = before.updates;
            r.n = 0;
            train_steps(&t, 1, &r);
            train_snapshot(&t, &r);
            assert_true(r.step[0].loss_scale == scale);
            assert_int_equal(r.step[0].finite, !r.step[0].overflow);
            /* warm-up over 4 steps: the clock is the number of updates */
            if (updates <= 4)
                assert_true(fabs(r.step[0].lr_used - 1e-3 * (double)updates / 4) < 1e-15);
            if (r.step[0].overflow) {
                overflows++;
                good = 0;
                if (lives == 1)
                    scale /= 2;
                else
                    lives--;
                assert_int_equal(r.updates, updates);
                assert_memory_equal(r.weights, before.weights, before.bytes);
            } else {
                if (good > 0 && good % 3 == 0) { /* window + 1 good steps, then each window */
                    scale *= 2;
                    lives = 2;
                    doubled++;
                }
                good++;
                assert_int_equal(r.updates, updates + 1);
                assert_true(isfinite(r.step[0].grad_norm));
            }
            if (r.scale != scale)
                fail_msg("step %d: %g, not %g (%d lives, %d good)", i + 1, r.scale, scale, lives,
                         good);
            train_result_release(&before);
            before = r;
            r.weights = NULL;
        }
        assert_true(overflows >= 8 && overflows <= 30);
        assert_true(doubled >= 2);
        train_result_release(&before);
        train_close(&t);
    }
    train_remove(dir);
}

/* Where nothing overflows and no value underflows, a scale is a power of two that cancels out: two
 * static scales give the same losses to rounding, and fp32's nearly. */
static void the_scale_itself_does_not_change_what_is_learned(void **state) {
    char dir[SCRATCH_BYTES], line[TRAIN_LINE_BYTES];
    train_result fp32, a, b;
    (void)state;
    make(dir, "{\"fp16\": {\"enabled\": true, \"loss_scale\": 1024}}");
    command(line, dir, 12, "");
    train_run(line, &a);
    scratch_write(dir, "ds.json", "{\"fp16\": {\"enabled\": true, \"loss_scale\": 8192}}");
    train_run(line, &b);
    scratch_write(dir, "ds.json", "{}");
    command(line, dir, 12, "--dtype fp32");
    train_run(line, &fp32);
    for (int i = 0; i < 12; i++) {
        assert_int_equal(a.step[i].finite && b.step[i].finite, 1);
        assert_true(a.step[i].loss_scale == 1024 && b.step[i].loss_scale == 8192);
        assert_true(train_relative(a.step[i].loss, b.step[i].loss) < 2e-3);
        assert_true(train_relative(a.step[i].loss, fp32.step[i].loss) < 5e-3);
        assert_true(train_relative(a.step[i].grad_norm, fp32.step[i].grad_norm) < 2e-2);
    }
    assert_true(fp32.step[11].loss < fp32.step[0].loss - 0.05);
    train_result_release(&a);
    train_result_release(&b);
    train_result_release(&fp32);
    train_remove(dir);
}

/* 2^41, 2^40 = the least: the second step may only halve, the third has nothing left. */
static void an_overflow_at_the_least_scale_ends_the_run_by_the_step(void **state) {
    char dir[SCRATCH_BYTES], out[SCRATCH_BYTES], path[SCRATCH_BYTES], line[TRAIN_LINE_BYTES];
    oc_error err = {OC_OK, ""};
    (void)state;
    make(dir, "{\"fp16\": {\"enabled\": true, \"initial_scale_power\": 41, \"hysteresis\": 2, "
              "\"min_loss_scale\": 1099511627776}}");
    for (size_t p = 0; p < 2; p++) {
        char rest[128];
        snprintf(rest, sizeof rest, "--quiet --overwrite %s", places[p]);
        command(line, dir, 9, rest);
        oc_config *c = train_config(OC_CMD_TRAIN, line, &err);
        if (!c) fail_msg("%s", err.message);
        oc_outcome got = oc_train(c, &err);
        oc_config_free(c);
        assert_true(got.status != OC_OK);
        assert_true(got.started);
        if (!strstr(err.message, "step 3:")) fail_msg("%s", err.message);
        scratch_path(out, dir, "out");
        assert_int_equal(access(scratch_path(path, out, "model.safetensors"), F_OK), -1);
        train_remove(out);
    }
    train_remove(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(overflow_skips_the_step_and_halves_the_scale),
        cmocka_unit_test(the_scale_itself_does_not_change_what_is_learned),
        cmocka_unit_test(an_overflow_at_the_least_scale_ends_the_run_by_the_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
