/* Plans of the largest models: what they take on the host, and what that depends on. */
#include "plan_case.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

typedef struct shape {
    int hidden, intermediate, layers, heads;
} shape;

static const shape llama_70b = {8192, 28672, 80, 64}, llama_405b = {16384, 53248, 126, 128};

static oc_model *shaped(shape x) {
    char json[512];
    (void)snprintf(json, sizeof json,
                   "{\"model_type\":\"llama\",\"hidden_size\":%d,\"intermediate_size\":%d,"
                   "\"num_hidden_layers\":%d,\"num_attention_heads\":%d,"
                   "\"num_key_value_heads\":8,\"vocab_size\":128256,"
                   "\"max_position_embeddings\":8192,\"rms_norm_eps\":1e-5,"
                   "\"tie_word_embeddings\":false}",
                   x.hidden, x.intermediate, x.layers, x.heads);
    return case_model(json);
}

static oc_build_spec large_spec(const oc_model *m, int32_t micros) {
    oc_build_spec s = case_spec(m);
    s.micros = micros;
    s.place.slots = 4;
    s.place.act_slots = 3;
    s.place.piece_elements = 16 << 20;
    return s;
}

static oc_plan_set *built(const oc_build_spec *s) {
    oc_plan_set *set = NULL;
    oc_build_ids ids;
    oc_error err = {0};
    if (oc_build(s, &set, &ids, &err) != OC_OK) fail_msg("%s", err.message);
    oc_build_ids_release(&ids);
    return set;
}

static double seconds(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static uint64_t ops_of(const oc_plan_set *set) {
    uint64_t n = 0;
    for (uint32_t p = 0; p < set->n_plans; p++)
        n += set->plans[p].n_ops;
    return n;
}

static uint64_t built_ops(const oc_build_spec *s) {
    oc_plan_set *set = built(s);
    uint64_t n = ops_of(set);
    oc_plan_set_free(set);
    return n;
}

/* Builds, verifies and measures; prints how long that takes. */
static uint64_t host_bytes(shape x, int32_t micros, bool interleave) {
    oc_model *m = shaped(x);
    oc_build_spec s = large_spec(m, micros);
    s.place.interleave = interleave;
    oc_error err = {0};
    double start = seconds();
    oc_plan_set *set = built(&s);
    double done = seconds();
    if (oc_plan_verify(set, &err) != OC_OK) fail_msg("%s", err.message);
    oc_build_bytes bytes;
    assert_int_equal(oc_build_measure(&s, &bytes, &err), OC_OK);
    uint64_t n = oc_plan_host_bytes(set);
    print_message("%d layers x %d: %.1f MB (measured %.1f), %llu ops, built in %.2f s, verified in "
                  "%.2f s\n",
                  x.layers, micros, (double)n / 1e6, (double)bytes.plan / 1e6,
                  (unsigned long long)ops_of(set), done - start, seconds() - done);
    assert_true(bytes.plan >= n);
    oc_plan_set_free(set);
    oc_model_close(m);
    return n;
}

static void a_70b_step_of_64_micro_batches_takes_less_than_100_mb(void **state) {
    (void)state;
    assert_true(host_bytes(llama_70b, 64, false) < 100000000);
    assert_true(host_bytes(llama_70b, 64, true) < 100000000);
}

static void a_405b_step_of_256_micro_batches_takes_less_than_300_mb(void **state) {
    (void)state;
    assert_true(host_bytes(llama_405b, 256, false) < 300000000);
    assert_true(host_bytes(llama_405b, 256, true) < 300000000);
}

/* Interleaved, steps of 3 have no use for a second kind of turn; from 5 on all kinds are there. */
static void ops_do_not_depend_on_accumulation(void **state) {
    (void)state;
    oc_model *m = shaped(llama_70b);
    for (int interleave = 0; interleave < 2; interleave++) {
        oc_build_spec few = large_spec(m, interleave ? 6 : 3), many = large_spec(m, 64);
        few.place.interleave = many.place.interleave = interleave;
        assert_int_equal(built_ops(&few), built_ops(&many));
    }
    oc_model_close(m);
}

static void ops_grow_with_layers_and_no_faster(void **state) {
    (void)state;
    shape twice = llama_70b;
    twice.layers *= 2;
    oc_model *a = shaped(llama_70b), *b = shaped(twice);
    for (int interleave = 0; interleave < 2; interleave++) {
        oc_build_spec one = large_spec(a, 64), two = large_spec(b, 64);
        one.place.interleave = two.place.interleave = interleave;
        assert_true((double)built_ops(&two) <= 2.05 * (double)built_ops(&one) + 100);
    }
    oc_model_close(a);
    oc_model_close(b);
}

static void check_measure(const oc_build_spec *s, double *tightest) {
    oc_plan_set *set = built(s);
    oc_build_bytes bytes;
    oc_error err = {0};
    assert_int_equal(oc_build_measure(s, &bytes, &err), OC_OK);
    double ratio = (double)bytes.plan / (double)oc_plan_host_bytes(set);
    if (ratio < 1) fail_msg("measured %.3f of what the set takes", ratio);
    if (ratio < *tightest) *tightest = ratio;
    oc_plan_set_free(set);
}

static void plans_take_no_more_than_measured(void **state) {
    (void)state;
    const char *const models[] = {llama_untied, llama_tied,    gpt2_small,
                                  bloom_small,  opt_projected, gemma2_small};
    double tightest = 1e9;
    for (int k = 0; k < 6; k++) {
        oc_model *m = case_model(models[k]);
        for (int32_t micros = 1; micros <= 5; micros++)
            for (int32_t group = 1; group <= micros; group++)
                for (int32_t slots = 0; slots <= 6; slots += 2)
                    for (int32_t acts = 0; acts <= 2; acts += 2)
                        for (int mode = 0; mode < 2; mode++) {
                            oc_build_spec s = case_spec(m);
                            s.micros = micros;
                            s.place.group = group;
                            s.place.slots = slots;
                            s.place.resident = slots == 0;
                            s.place.act_slots = acts;
                            s.place.interleave = mode && group == 1 && micros > 1;
                            s.place.early = mode && micros == 1;
                            for (int v = 0; v < OC_SAVED_COUNT; v++)
                                s.place.kept[v] = mode && v != OC_SAVED_MID;
                            s.place.kept_logits = mode;
                            check_measure(&s, &tightest);
                        }
        oc_model_close(m);
    }
    print_message("at the tightest %.3f times what it takes\n", tightest);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_70b_step_of_64_micro_batches_takes_less_than_100_mb),
        cmocka_unit_test(a_405b_step_of_256_micro_batches_takes_less_than_300_mb),
        cmocka_unit_test(ops_do_not_depend_on_accumulation),
        cmocka_unit_test(ops_grow_with_layers_and_no_faster),
        cmocka_unit_test(plans_take_no_more_than_measured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
