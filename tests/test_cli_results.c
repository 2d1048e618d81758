/* What the program prints: results on stdout in the documented form, everything else on stderr, and
 * the log of a run. */
#include "cli_case.h"

#include <math.h>

static json_t *parse(const char *text) {
    json_error_t e;
    json_t *j = json_loads(text, JSON_REJECT_DUPLICATES, &e);
    if (!j) fail_msg("no JSON: %s\n%s", e.text, text);
    return j;
}

static double number(const json_t *j, const char *key) {
    const json_t *v = json_object_get(j, key);
    if (!json_is_number(v)) fail_msg("%s is no number", key);
    return json_number_value(v);
}

static json_t *json_of(const char *line) {
    cli_result *r = cli_run(line);
    if (r->code != 0) fail_msg("outcore %s\n%s", line, cli_tail(r->err));
    return parse(r->out);
}

/* Exactly these keys, which are separated by blanks. */
static void assert_keys(const json_t *j, const char *keys) {
    char copy[512], *save = NULL;
    size_t n = 0;
    snprintf(copy, sizeof copy, "%s", keys);
    for (char *k = strtok_r(copy, " ", &save); k; k = strtok_r(NULL, " ", &save), n++)
        if (!json_object_get(j, k)) fail_msg("the key %s is missing", k);
    assert_int_equal(json_object_size(j), n);
}

static bool near(double a, double b, double tolerance) {
    return fabs(a - b) <= tolerance * fabs(b);
}

/* Row i (from 0) of log.jsonl. */
static json_t *log_row(int i) {
    static char text[CLI_TEXT_BYTES];
    char *save = NULL, *line;
    cli_read("log.jsonl", text);
    line = strtok_r(text, "\n", &save);
    while (line && i-- > 0)
        line = strtok_r(NULL, "\n", &save);
    return line ? parse(line) : NULL;
}

#define LOG CLI_TRAIN "--log log.jsonl --overwrite --output o "

static void a_log_row_has_every_key_and_the_values_of_its_step(void **state) {
    (void)state;
    cli_text("log.jsonl", "an earlier log\n");
    cli_expect(LOG "--max-steps 5 --lr 1e-3 --grad-accum 2 --device-memory 12MiB", 0, "");
    json_t *plan = json_of("plan --init m --seq-length 32 --micro-batch 2 --threads 1 "
                           "--grad-accum 2 --device-memory 12MiB --json");
    const json_t *tiers = json_object_get(plan, "tiers");
    for (int i = 0; i < 5; i++) {
        json_t *row = log_row(i);
        assert_non_null(row);
        assert_keys(row, "step loss grad_norm lr tokens step_seconds tokens_per_second skipped "
                         "peak_bytes read_bytes written_bytes");
        assert_int_equal(json_integer_value(json_object_get(row, "step")), i + 1);
        assert_true(number(row, "loss") > 3 && number(row, "loss") < 7);
        assert_true(number(row, "grad_norm") > 0);
        /* linear to 0 over five steps: torch's LambdaLR */
        assert_true(near(number(row, "lr"), 1e-3 * (5 - i) / 5, 1e-15));
        double tokens = number(row, "tokens");
        assert_true(tokens > 60 && tokens <= 4 * 31);
        assert_true(number(row, "step_seconds") > 0);
        assert_true(
            near(number(row, "tokens_per_second"), tokens / number(row, "step_seconds"), 1e-12));
        assert_true(json_is_false(json_object_get(row, "skipped")));
        const json_t *peak = json_object_get(row, "peak_bytes");
        assert_keys(peak, "device host nvme");
        assert_true(number(peak, "device") <= 12 << 20);
        assert_true(number(peak, "device") <= number(json_object_get(tiers, "device"), "bytes"));
        /* the plan knows no data; the run adds tokenizer and data buffers */
        assert_true(number(peak, "host") >= number(json_object_get(tiers, "host"), "bytes"));
        assert_true(number(peak, "nvme") <= 0);
        assert_true(number(row, "read_bytes") >= 0 && number(row, "written_bytes") >= 0);
        json_decref(row);
    }
    assert_null(log_row(5));
    json_decref(plan);
}

static void numbers_of_the_log_round_trip(void **state) {
    (void)state;
    cli_expect(LOG "--max-steps 4 --lr 3.3e-4", 0, "");
    char text[4096], printed[40];
    FILE *f = fopen("log.jsonl", "r");
    assert_non_null(f);
    while (fgets(text, sizeof text, f)) {
        static const char *const keys[] = {"\"loss\": ", "\"grad_norm\": ", "\"lr\": "};
        for (int k = 0; k < 3; k++) {
            const char *v = strstr(text, keys[k]);
            assert_non_null(v);
            v += strlen(keys[k]);
            snprintf(printed, sizeof printed, "%.17g", strtod(v, NULL));
            assert_int_equal(strncmp(v, printed, strlen(printed)), 0);
        }
    }
    fclose(f);
    json_t *row = log_row(3);
    assert_true(number(row, "lr") > 0.8e-4 && number(row, "lr") < 0.83e-4);
    json_decref(row);
}

/* A NaN in the weights reaches the loss: it is null in the log, the step is skipped, and a run
 * whose steps were all skipped has failed. */
static void what_is_no_number_is_null(void **state) {
    (void)state;
    static const unsigned char nan_bytes[4] = {0, 0, 0xc0, 0x7f};
    cli_expect(LOG "--max-steps 1", 0, "");
    FILE *f = fopen("o/model.safetensors", "r+b");
    assert_int_equal(fseek(f, -4, SEEK_END), 0);
    assert_int_equal(fwrite(nan_bytes, 1, 4, f), 4);
    fclose(f);
    cli_remove("n");
    cli_expect("train --model o --data d.txt --seq-length 32 --max-steps 1 --log log.jsonl "
               "--output n",
               1, "SKIPPED|no step was applied");
    assert_string_equal(cli_list("n"), "run.json");
    json_t *row = log_row(0);
    assert_true(json_is_null(json_object_get(row, "loss")));
    assert_true(json_is_true(json_object_get(row, "skipped")));
    json_decref(row);
    json_t *eval = json_of("eval --model o --data d.txt --seq-length 32 --json");
    assert_true(json_is_null(json_object_get(eval, "loss")));
    json_decref(eval);
    cli_remove("n");
}

static void skipped_steps_are_counted(void **state) {
    (void)state;
    cli_text("scale.json", "{\"fp16\": {\"enabled\": true, \"initial_scale_power\": 40, "
                           "\"hysteresis\": 1}}");
    cli_expect(LOG "--max-steps 60 --quiet --config scale.json", 0, " of 60 steps were skipped");
    char text[CLI_TEXT_BYTES], words[64];
    int skipped = 0;
    cli_read("log.jsonl", text);
    for (char *p = text; (p = strstr(p, "\"skipped\": true")); p++)
        skipped++;
    assert_true(skipped > 5 && skipped < 50);
    cli_read("stderr", text);
    snprintf(words, sizeof words, "%d of 60 steps were skipped", skipped);
    assert_non_null(strstr(text, words));
}

static void train_in_json_sums_its_log_up(void **state) {
    (void)state;
    json_t *j = json_of(LOG "--max-steps 3 --json");
    assert_keys(j, "output steps skipped tokens loss");
    assert_string_equal(json_string_value(json_object_get(j, "output")), "o");
    assert_int_equal((int)number(j, "steps"), 3);
    assert_int_equal((int)number(j, "skipped"), 0);
    double tokens = 0, loss = 0;
    for (int i = 0; i < 3; i++) {
        json_t *row = log_row(i);
        tokens += number(row, "tokens");
        loss = number(row, "loss");
        json_decref(row);
    }
    assert_int_equal((int)number(j, "tokens"), (int)tokens);
    assert_true(number(j, "loss") <= loss && number(j, "loss") >= loss);
    json_decref(j);
}

/* ---- streams ---- */

static void a_result_that_cannot_be_written_is_a_failure(void **state) {
    (void)state;
    static const char *const lines[] = {
        "--version",     "train --help",      "plan --init m --json",
        "plan --init m", LOG "--max-steps 1", LOG "--max-steps 1 --json",
        "inspect o"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        cli_stdout = "/dev/full";
        cli_result *r = cli_run(lines[i]);
        cli_stdout = "stdout";
        if (r->code != 1) fail_msg("outcore %s > /dev/full ended with %d", lines[i], r->code);
        assert_non_null(strstr(r->err, "standard output"));
    }
}

/* Files that are opened while a standard stream is closed must not take its place. */
static void closed_streams_do_no_harm(void **state) {
    (void)state;
    char log[CLI_TEXT_BYTES];
    cli_remove("o");
    cli_stdout = NULL;
    cli_no_stderr = true;
    cli_result *r = cli_run(LOG "--max-steps 2 --json --trace trace.json");
    cli_stdout = "stdout";
    cli_no_stderr = false;
    assert_int_equal(r->code, 0);
    cli_expect("inspect o", 0, "");
    cli_read("log.jsonl", log);
    assert_int_equal(strncmp(log, "{\"step\": 1,", 11), 0);
    json_t *trace = json_load_file("trace.json", 0, NULL);
    assert_non_null(trace);
    json_decref(trace);
}

static void the_log_can_be_a_device_or_a_stream(void **state) {
    (void)state;
    cli_expect(CLI_TRAIN "--overwrite --output o --max-steps 2 --log /dev/null", 0, "step 2/2");
    cli_expect(CLI_TRAIN "--overwrite --output o --max-steps 2 --log /dev/stderr", 0,
               "parameters|step 1/2|{\"step\": 1|{\"step\": 2");
    assert_int_equal(mkfifo("fifo", 0600), 0);
    cli_seconds = 60;
    cli_expect(CLI_TRAIN "--overwrite --output o --max-steps 2 --log fifo", 2, "--log fifo");
    cli_expect(CLI_TRAIN "--overwrite --output o --max-steps 2 --trace fifo", 2, "--trace fifo");
    cli_seconds = 0;
    remove("fifo");
}

static void options_without_effect_say_so(void **state) {
    (void)state;
    cli_expect(LOG "--max-steps 1 --save-model-only", 0, "--save-model-only has no effect");
    cli_expect(LOG "--max-steps 1 --keep 3", 0, "--keep has an effect with --save-every only");
    cli_expect(LOG "--max-steps 1 --optimizer sgd --beta2 0.9", 0, "sgd optimizer has no betas");
    cli_expect(LOG "--max-steps 1 --optimizer sgd --betas 0.9,0.9", 0,
               "sgd optimizer has no betas");
    cli_expect(LOG "--max-steps 1 --pace read=1GB/s", 0, "--pace read has no effect");
    cli_expect("eval --model o --data e.txt --log l", 2, "--log|outcore eval");
    cli_expect("eval --model o --data d.txt --seq-length 32 --seed 7", 0,
               "--seed has no effect on an evaluation");
}

static void evaluation_agrees_with_the_training_loss(void **state) {
    (void)state;
    /* lr 0: every step sees the first weights; one step sees all of the data */
    cli_expect("train --init m --data e.txt --seq-length 32 --micro-batch 64 --max-steps 1 --lr 0 "
               "--no-shuffle --log log.jsonl --overwrite --output o --eval-data e.txt",
               0, "eval loss");
    json_t *row = log_row(0);
    json_t *eval = json_of("eval --model o --data e.txt --seq-length 32 --micro-batch 1 --json");
    assert_keys(eval, "loss perplexity tokens");
    assert_true(near(number(eval, "loss"), number(row, "loss"), 1e-6));
    assert_true(near(number(eval, "perplexity"), exp(number(eval, "loss")), 1e-12));
    assert_int_equal((int)number(eval, "tokens"), (int)number(row, "tokens"));
    json_t *capped = json_of("eval --model o --data e.txt --seq-length 32 --micro-batch 3 --json "
                             "--device-memory 12MiB");
    assert_true(near(number(capped, "loss"), number(eval, "loss"), 1e-6));
    json_decref(row);
    json_decref(eval);
    json_decref(capped);
    /* a row gives its tokens less one; -100 does not count */
    cli_text("rows.jsonl", "{\"input_ids\": [5, 6, 7, 8, 9]}\n"
                           "{\"input_ids\": [5, 6, 7], \"labels\": [-100, -100, 7]}\n");
    eval = json_of("eval --model o --data rows.jsonl --json");
    assert_int_equal((int)number(eval, "tokens"), 5);
    json_decref(eval);
}

/* The number and its digits: the device computes what the CPU does. */
static void evaluation_is_the_same_on_the_asynchronous_device(void **state) {
    static const char *const placements[] = {"", "--slots 2 --delay-seed 3", "--debug-memory",
                                             "--device-memory 12MiB --serial-lanes"};
    char line[512];
    (void)state;
    cli_expect("train --init m --data e.txt --seq-length 32 --max-steps 2 --overwrite --output o",
               0, "");
    json_t *want = json_of("eval --model o --data e.txt --seq-length 32 --micro-batch 3 --json");
    assert_true(number(want, "loss") > 0);
    for (size_t i = 0; i < sizeof placements / sizeof *placements; i++) {
        snprintf(line, sizeof line,
                 "eval --model o --data e.txt --seq-length 32 --micro-batch 3 --json --debug-async "
                 "%s",
                 placements[i]);
        json_t *got = json_of(line);
        assert_true(json_equal(want, got));
        json_decref(got);
    }
    json_decref(want);
}

static void a_plan_in_json_has_its_schema(void **state) {
    (void)state;
    static const char uses[] =
        "weights gradients master moments activations workspace kv_cache staging text plan";
    static const char *const names[] = {"device", "host", "nvme"};
    json_t *plan = json_of("plan --init m/config.json --device-memory 12MiB --seq-length 32 "
                           "--micro-batch 2 --dtype bf16 --json");
    const json_t *tiers = json_object_get(plan, "tiers"), *minimum, *homes, *use;
    const char *key;
    assert_keys(tiers, "device host nvme");
    for (int t = 0; t < 3; t++) {
        const json_t *tier = json_object_get(tiers, names[t]);
        json_t *by_use = json_object_get(tier, "by_use");
        assert_keys(tier, "bytes by_use");
        assert_keys(by_use, uses);
        json_object_foreach(by_use, key, use) {
            /* uses may share bytes over time, so a single one never exceeds the tier */
            assert_true(json_is_integer(use) && json_integer_value(use) >= 0);
            assert_true(json_number_value(use) <= number(tier, "bytes"));
        }
    }
    /* 32096 parameters: two moments of four bytes at least */
    assert_true(
        number(json_object_get(json_object_get(tiers, "host"), "by_use"), "moments") +
            number(json_object_get(json_object_get(tiers, "device"), "by_use"), "moments") >=
        2 * 4 * 32096);
    assert_int_equal((int)number(plan, "parameters"), 32096);
    minimum = json_object_get(plan, "minimum");
    assert_keys(minimum, "device host");
    assert_true(number(plan, "foreign") > 0);
    homes = json_object_get(plan, "homes");
    assert_true(json_object_size(homes) > 0);
    assert_non_null(json_object_get(plan, "predicted"));
    assert_string_equal(json_string_value(json_object_get(plan, "dtype")), "bf16");
    json_decref(plan);
}

/* That of data is test_cli_plan.c's. */
static void output_and_log_change_no_byte_of_a_plan(void **state) {
    (void)state;
#define PLAN "plan train --init m --seq-length 32 --device-memory 12MiB --micro-batch 2 --json "
    json_t *a = json_of(PLAN);
    json_t *b = json_of(PLAN "--output p --overwrite --log l");
    assert_true(json_equal(json_object_get(a, "tiers"), json_object_get(b, "tiers")));
    assert_string_equal(cli_list("p"), "absent");
    assert_string_equal(cli_list("l"), "absent");
    json_decref(a);
    json_decref(b);
    assert_string_equal(cli_list("m"), "config.json");
}

static void the_table_comes_before_the_first_step(void **state) {
    (void)state;
    cli_result *r = cli_run(LOG "--max-steps 2 --device-memory 12MiB");
    assert_int_equal(r->code, 0);
    assert_string_equal(r->out, "o\n");
    static const char *const order[] = {"data: ",  " parameters", "weights",
                                        "process", "step 1/2 ",   "step 2/2 "};
    const char *p = r->err;
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        p = strstr(p, order[i]);
        if (!p) fail_msg("\"%s\" is missing or out of order:\n%s", order[i], cli_tail(r->err));
    }
    r = cli_run("plan --init m --device-memory 12MiB --seq-length 32 --micro-batch 2");
    assert_int_equal(r->code, 0);
    assert_non_null(strstr(r->out, "of the budget left"));
}

static void quiet_leaves_results_only(void **state) {
    (void)state;
    static const char *const lines[] = {
        LOG "--max-steps 2 --save-every 1 --eval-data e.txt --quiet --learning-rate 1e-3",
        "eval --model o --data e.txt --quiet", "plan --init m --quiet --json", "inspect o --quiet"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        cli_result *r = cli_run(lines[i]);
        assert_int_equal(r->code, 0);
        if (*r->err) fail_msg("outcore %s\nsays: %s", lines[i], r->err);
        assert_true(*r->out);
    }
}

static void inspect_tells_what_a_path_holds(void **state) {
    (void)state;
    cli_expect(LOG "--max-steps 2 --save-every 1", 0, "");
    json_t *j = json_of("inspect o --json");
    const json_t *list = json_object_get(j, "checkpoints");
    assert_int_equal(json_array_size(list), 2);
    assert_int_equal((int)number(json_array_get(list, 1), "step"), 2);
    assert_int_equal((int)number(json_object_get(j, "model"), "parameters"), 32096);
    assert_int_equal((int)number(j, "elements"), 32096);
    assert_int_equal((int)number(j, "bytes"), 4 * 32096);
    json_decref(j);
    j = json_of("inspect o/model.safetensors --json");
    /* 9 tensors a layer of llama, the embedding, the norm and the head */
    assert_int_equal(json_array_size(json_object_get(j, "tensors")), 2 * 9 + 3);
    json_decref(j);
    cli_result *r = cli_run("inspect o");
    assert_int_equal(r->code, 0);
    assert_non_null(strstr(r->out, "model.layers.1.mlp.up_proj.weight"));
    assert_non_null(strstr(r->out, "48 x 32"));
    assert_non_null(strstr(r->out, "checkpoint-2"));
    cli_expect("inspect m", 0, "");
    cli_expect("inspect nowhere", 2, "nowhere");
    cli_expect("inspect .", 2, "config.json");
    cli_expect("inspect d.txt", 2, "d.txt");
}

static void help_and_version_are_results(void **state) {
    (void)state;
    static const char *const lines[] = {"--help",         "help",           "help train",
                                        "train --help",   "plan --help",    "eval -h",
                                        "inspect --help", "generate --help"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        cli_result *r = cli_run(lines[i]);
        assert_int_equal(r->code, 0);
        assert_string_equal(r->err, "");
        assert_non_null(strstr(r->out, "outcore"));
    }
    cli_result *r = cli_run("train --help");
    assert_non_null(strstr(r->out, "--device-memory SIZE"));
    assert_null(strstr(r->out, "--nvme-path"));
    r = cli_run("--version");
    assert_string_equal(r->out, "outcore " OC_VERSION "\n");
}

static void an_alias_says_its_canonical_name(void **state) {
    (void)state;
    cli_expect("plan --init m --json --per-device-train-batch-size 2 --max_seq_length 32 --bf16", 0,
               "--per-device-train-batch-size is --micro-batch|--max_seq_length is "
               "--seq-length|--bf16 is --dtype bf16");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_log_row_has_every_key_and_the_values_of_its_step),
        cmocka_unit_test(numbers_of_the_log_round_trip),
        cmocka_unit_test(what_is_no_number_is_null),
        cmocka_unit_test(skipped_steps_are_counted),
        cmocka_unit_test(train_in_json_sums_its_log_up),
        cmocka_unit_test(a_result_that_cannot_be_written_is_a_failure),
        cmocka_unit_test(closed_streams_do_no_harm),
        cmocka_unit_test(the_log_can_be_a_device_or_a_stream),
        cmocka_unit_test(options_without_effect_say_so),
        cmocka_unit_test(evaluation_agrees_with_the_training_loss),
        cmocka_unit_test(evaluation_is_the_same_on_the_asynchronous_device),
        cmocka_unit_test(a_plan_in_json_has_its_schema),
        cmocka_unit_test(output_and_log_change_no_byte_of_a_plan),
        cmocka_unit_test(the_table_comes_before_the_first_step),
        cmocka_unit_test(quiet_leaves_results_only),
        cmocka_unit_test(inspect_tells_what_a_path_holds),
        cmocka_unit_test(help_and_version_are_results),
        cmocka_unit_test(an_alias_says_its_canonical_name),
    };
    return cmocka_run_group_tests(tests, cli_setup, cli_teardown);
}
