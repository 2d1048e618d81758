/* Learning rates and loss scales against transformers and DeepSpeed themselves (the tables are
 * written by tools/make_schedule_expected.py). */
#include "optim/schedule.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const kinds[] = {"constant", "linear",        "cosine",
                                    "WarmupLR", "WarmupDecayLR", "WarmupCosineLR"};

static void rates_equal_the_references(void **state) {
    (void)state;
    FILE *f = fopen(OC_TEST_DATA "/schedule_lr.tsv", "r");
    assert_non_null(f);
    char kind[32];
    long warm, total, done;
    int log, rows = 0, seen[6] = {0};
    double low, high, low_ratio, end_ratio, base, want;
    while (fscanf(f, "%31s %ld %ld %lf %lf %d %lf %lf %lf %ld %lf", kind, &warm, &total, &low,
                  &high, &log, &low_ratio, &end_ratio, &base, &done, &want) == 11) {
        oc_schedule_spec s = {.warmup_steps = warm,
                              .total_steps = total,
                              .warmup_min_lr = low,
                              .warmup_max_lr = high,
                              .warmup_log = log != 0,
                              .warmup_min_ratio = low_ratio,
                              .cos_min_ratio = end_ratio};
        int k = 0;
        while (k < 6 && strcmp(kinds[k], kind) != 0)
            k++;
        assert_true(k < 6);
        s.kind = (oc_schedule_kind)k;
        seen[k]++;
        double got = oc_schedule_lr(&s, base, done);
        /* The same double arithmetic, in another order: a few units in the last place. */
        double tolerance = 8 * 2.3e-16 * (base > high ? base : high);
        if (!(fabs(got - want) <= tolerance))
            print_error("row %d: %s done %ld: %.17g, not %.17g\n", rows + 1, kind, done, got, want);
        assert_true(fabs(got - want) <= tolerance);
        rows++;
    }
    assert_true(feof(f));
    fclose(f);
    for (int k = 0; k < 6; k++)
        assert_true(seen[k] > 20);
}

static oc_schedule_spec cycle_spec(const char *kind, const double *p) {
    if (strcmp(kind, "OneCycle") == 0)
        return (oc_schedule_spec){.kind = OC_LR_DS_ONE_CYCLE,
                                  .cycle = {.min_lr = p[0],
                                            .max_lr = p[1],
                                            .decay_rate = p[2],
                                            .first = (int64_t)p[3],
                                            .second = (int64_t)p[4],
                                            .stairs_first = (int32_t)p[5],
                                            .stairs_second = (int32_t)p[6],
                                            .decay_steps = (int64_t)p[7]}};
    assert_string_equal(kind, "LRRangeTest");
    return (oc_schedule_spec){
        .kind = OC_LR_DS_RANGE_TEST,
        .range = {.min_lr = p[0], .rate = p[1], .size = (int64_t)p[2], .staircase = p[3] > 0}};
}

static void cycles_and_range_tests_equal_deepspeeds(void **state) {
    (void)state;
    FILE *f = fopen(OC_TEST_DATA "/schedule_cycle.tsv", "r");
    assert_non_null(f);
    char kind[32];
    double p[8], want;
    long done;
    int rows = 0;
    while (fscanf(f, "%31s %lf %lf %lf %lf %lf %lf %lf %lf %ld %lf", kind, &p[0], &p[1], &p[2],
                  &p[3], &p[4], &p[5], &p[6], &p[7], &done, &want) == 11) {
        oc_schedule_spec s = cycle_spec(kind, p);
        double got = oc_schedule_lr(&s, 1, done);
        if (!(fabs(got - want) <= 16 * 2.3e-16 * fabs(want)))
            fail_msg("row %d: %s done %ld: %.17g, not %.17g", rows + 1, kind, done, got, want);
        rows++;
    }
    assert_true(feof(f));
    fclose(f);
    assert_true(rows > 900);
}

/* transformers: ceil(ratio x total), unless steps are given. */
static void a_warmup_ratio_is_a_part_of_all_steps_rounded_up(void **state) {
    (void)state;
    oc_schedule_spec s = {.kind = OC_LR_LINEAR, .total_steps = 101, .warmup_ratio = 0.03};
    assert_float_equal(oc_schedule_lr(&s, 1, 3), 0.75, 0); /* of ceil(3.03) = 4 */
    assert_float_equal(oc_schedule_lr(&s, 1, 4), 1, 0);
    s.warmup_steps = 10;
    assert_float_equal(oc_schedule_lr(&s, 1, 5), 0.5, 0);
}

/* DeepSpeed from 0.19 on keeps the floor past the end. */
static void cosine_of_deepspeed_stays_at_its_floor(void **state) {
    (void)state;
    const oc_schedule_spec s = {.kind = OC_LR_DS_WARMUP_COSINE,
                                .warmup_steps = 4,
                                .total_steps = 12,
                                .cos_min_ratio = 0.25};
    for (int64_t done = 12; done < 40; done++)
        assert_float_equal(oc_schedule_lr(&s, 1, done), 0.25, 1e-15);
    assert_true(oc_schedule_lr(&s, 1, 11) > 0.25);
}

static void warmup_factor_at_step_s_is_s_minus_one_over_w(void **state) {
    (void)state;
    for (int kind = OC_LR_CONSTANT; kind <= OC_LR_COSINE; kind++) {
        const oc_schedule_spec s = {
            .kind = (oc_schedule_kind)kind, .warmup_steps = 4, .total_steps = 100};
        for (int64_t step = 1; step <= 5; step++)
            assert_float_equal(oc_schedule_lr(&s, 8, step - 1), (double)(step - 1) * 2, 0);
    }
}

static void scales_equal_deepspeeds(void **state) {
    (void)state;
    FILE *f = fopen(OC_TEST_DATA "/schedule_scaler.tsv", "r");
    assert_non_null(f);
    oc_scaler_spec spec = {0};
    int consecutive, raised = 0, rows = 0;
    char steps[64];
    while (fscanf(f, "%d %d %d %d %lf %63s", &spec.initial_power, &spec.window, &spec.hysteresis,
                  &consecutive, &spec.min_scale, steps) == 6) {
        spec.consecutive_hysteresis = consecutive != 0;
        oc_scaler s;
        oc_scaler_init(&s, &spec);
        assert_float_equal(s.scale, ldexp(1, spec.initial_power), 0);
        for (size_t i = 0; i < strlen(steps); i++) {
            char want[32];
            assert_int_equal(fscanf(f, "%31s", want), 1);
            bool ok = oc_scaler_update(&s, &spec, steps[i] == 'x');
            assert_int_equal(ok, strcmp(want, "raise") != 0);
            if (ok)
                assert_float_equal(s.scale, strtod(want, NULL), 0);
            else
                raised++;
        }
        rows++;
    }
    assert_true(feof(f));
    fclose(f);
    assert_int_equal(rows, 18);
    assert_true(raised > 3);
}

static void a_static_scale_never_changes(void **state) {
    (void)state;
    const oc_scaler_spec spec = {.static_scale = 1000, .initial_power = 16, .window = 1};
    oc_scaler s;
    oc_scaler_init(&s, &spec);
    for (int i = 0; i < 20; i++) {
        assert_true(oc_scaler_update(&s, &spec, i % 3 == 0));
        assert_float_equal(s.scale, 1000, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_equal_the_references),
        cmocka_unit_test(cycles_and_range_tests_equal_deepspeeds),
        cmocka_unit_test(a_warmup_ratio_is_a_part_of_all_steps_rounded_up),
        cmocka_unit_test(cosine_of_deepspeed_stays_at_its_floor),
        cmocka_unit_test(warmup_factor_at_step_s_is_s_minus_one_over_w),
        cmocka_unit_test(scales_equal_deepspeeds),
        cmocka_unit_test(a_static_scale_never_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
