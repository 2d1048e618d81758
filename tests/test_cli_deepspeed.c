/* DeepSpeed JSON files as users bring them: what each one makes of a run, or why it is refused. */
#include "cli_case.h"

#define FILES OC_TEST_DATA "/ds_config/"

static json_t *plan(const char *line) {
    cli_result *r = cli_run(line);
    if (r->code != 0) fail_msg("outcore %s\n%s", line, cli_tail(r->err));
    json_t *j = json_loads(r->out, 0, NULL);
    assert_non_null(j);
    return j;
}

static const char *at(const json_t *j, const char *a, const char *b) {
    const json_t *v = json_object_get(j, a);
    if (b) v = json_object_get(v, b);
    assert_true(json_is_string(v));
    return json_string_value(v);
}

/* The values in run.json after one step with the file: what the run was. */
static void files_that_are_accepted_do_what_they_say(void **state) {
    (void)state;
    static const struct {
        const char *name, *dtype, *moments, *flags;
        int micro, accum;
        const char *option; /* one more of run.json's options */
        double value;
        double lr; /* of step 1 */
    } rows[] = {
        /* DeepSpeed's schedulers give 0 before their first step, whatever warmup_min_ratio is */
        {"zero0_fp32", "fp32", "device", "", 2, 4, "weight-decay", 3e-7, 0},
        {"zero1_fp16", "fp16", "device", "", 2, 2, "beta2", 0.95, 2e-5},
        {"zero2_offload_bf16", "bf16", "host", "--lr 3e-4 --lr-schedule constant", 2, 4,
         "clip-grad-norm", 0.5, 3e-4},
        /* "auto" is what the flags or our defaults say */
        {"zero3_offload_auto", "bf16", "host", "--bf16 --micro-batch 3 --warmup-steps 7", 3, 1,
         "warmup-steps", 7, 0},
        {"zero3_cosine", "bf16", "host", "", 4, 1, "cos-min-ratio", 0.1, 0},
        {"warmup_decay", "fp32", NULL, "", 4, 1, "momentum", 0.9, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char line[512];
        snprintf(line, sizeof line,
                 "plan --init m --seq-length 32 --device-memory 64MiB --json --config " FILES
                 "%s.json %s",
                 rows[i].name, rows[i].flags);
        json_t *j = plan(line);
        assert_string_equal(at(j, "dtype", NULL), rows[i].dtype);
        if (rows[i].moments) assert_string_equal(at(j, "homes", "moments"), rows[i].moments);
        json_decref(j);

        cli_remove("o");
        snprintf(line, sizeof line,
                 "train --init m --data d.txt --seq-length 32 --device-memory 64MiB --max-steps 1 "
                 "--output o --log log.jsonl --config " FILES "%s.json %s",
                 rows[i].name, rows[i].flags);
        cli_expect(line, 0, "");
        j = json_load_file("o/run.json", 0, NULL);
        const json_t *options = json_object_get(json_object_get(j, "outcore"), "options");
        assert_int_equal(json_integer_value(json_object_get(options, "micro-batch")),
                         rows[i].micro);
        assert_int_equal(json_integer_value(json_object_get(options, "grad-accum")), rows[i].accum);
        double got = json_number_value(json_object_get(options, rows[i].option));
        if (got < rows[i].value || got > rows[i].value)
            fail_msg("%s: %s is %g, not %g", rows[i].name, rows[i].option, got, rows[i].value);
        json_decref(j);
        j = json_load_file("log.jsonl", 0, NULL);
        double lr = json_number_value(json_object_get(j, "lr"));
        if (lr < rows[i].lr * (1 - 1e-12) || lr > rows[i].lr * (1 + 1e-12))
            fail_msg("%s: the first lr is %.17g, not %g", rows[i].name, lr, rows[i].lr);
        json_decref(j);
    }
}

static void keys_without_effect_are_in_one_line(void **state) {
    (void)state;
    cli_result *r = cli_run("plan --init m --config " FILES "zero3_cosine.json");
    assert_int_equal(r->code, 0);
    char *line = strstr(r->err, "no effect with 1 rank(s): ");
    assert_non_null(line);
    assert_null(strstr(line + 1, "no effect with"));
    char *end = strchr(line, '\n');
    assert_non_null(end);
    *end = 0;
    assert_non_null(strstr(line, "aio.queue_depth"));
    assert_non_null(strstr(line, "activation_checkpointing.partition_activations"));
    assert_null(strstr(line, "flops_profiler"));
    assert_null(strstr(line, "offload_param.device"));
}

static void a_flag_overrides_the_file_and_says_so(void **state) {
    (void)state;
    cli_expect("plan --init m --json --config " FILES "zero1_fp16.json --dtype fp32 --lr 1", 0,
               "--dtype overrides|fp16.enabled|--lr overrides|optimizer.params.lr");
    cli_expect("plan --init m --json --deepspeed " FILES "zero1_fp16.json --quiet", 0, "");
    assert_int_equal(cli_bytes("stderr"), 0);
}

static void files_that_are_refused_name_the_key(void **state) {
    (void)state;
    static const struct {
        const char *name, *words;
    } rows[] = {
        {"unknown_key", "zero_optimization.offload_optimiser|did you mean \"offload_optimizer\""},
        {"unknown_last", "gradient_acumulation_steps|did you mean \"gradient_accumulation_steps\""},
        {"nvme", "offload_param.device nvme|not available"},
        {"zenflow", "zero_optimization.zenflow|not available"},
        {"both_dtypes", "fp16|bf16|both"},
        {"batch_contradiction", "32|4"},
        {"stage2_param", "offload_param.device|stage 3"},
        {"lamb", "optimizer.type|Lamb|not available"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char line[512];
        snprintf(line, sizeof line,
                 "train --init m --data d.txt --output r --config " FILES "%s.json", rows[i].name);
        cli_expect(line, 2, rows[i].words);
        snprintf(line, sizeof line, "plan --init m --config " FILES "%s.json", rows[i].name);
        cli_expect(line, 2, rows[i].words);
    }
    assert_string_equal(cli_list("r"), "absent");
    cli_text("bad.json", "{\"bf16\": {\"enabled\": true},}");
    cli_expect("plan --init m --config bad.json", 2, "bad.json:1");
    cli_text("bad.json", "{\"bf16\": {\"enabled\": true}, \"bf16\": {}}");
    cli_expect("plan --init m --config bad.json", 2, "bad.json|bf16");
    cli_text("bad.json", "[]");
    cli_expect("plan --init m --config bad.json", 2, "bad.json|object");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_that_are_accepted_do_what_they_say),
        cmocka_unit_test(keys_without_effect_are_in_one_line),
        cmocka_unit_test(a_flag_overrides_the_file_and_says_so),
        cmocka_unit_test(files_that_are_refused_name_the_key),
    };
    return cmocka_run_group_tests(tests, cli_setup, cli_teardown);
}
