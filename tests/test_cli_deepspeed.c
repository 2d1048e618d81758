/* DeepSpeed JSON files as users bring them: what each one makes of a run, or why it is refused. */
#include "cli_case.h"

#include <math.h>

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

/* "a=1,b=x": options of o/run.json; absent: it is not there. */
static void expect_options(const char *file, const char *pairs) {
    char copy[512], *save = NULL;
    json_t *run = json_load_file("o/run.json", 0, NULL);
    const json_t *options = json_object_get(json_object_get(run, "outcore"), "options");
    if (!options) fail_msg("%s: o/run.json holds no options", file);
    snprintf(copy, sizeof copy, "%s", pairs);
    for (char *p = strtok_r(copy, ",", &save); p; p = strtok_r(NULL, ",", &save)) {
        char *value = strchr(p, '='), *end;
        assert_non_null(value);
        *value++ = 0;
        const json_t *v = json_object_get(options, p);
        double number = strtod(value, &end);
        bool same = !*end
                        ? json_is_number(v) && fabs(json_number_value(v) - number) <= 1e-12 * number
                    : strcmp(value, "absent") == 0 ? v == NULL
                    : strcmp(value, "true") == 0   ? json_is_true(v)
                    : strcmp(value, "false") == 0
                        ? json_is_false(v)
                        : json_is_string(v) && strcmp(json_string_value(v), value) == 0;
        if (!same) {
            char *text = v ? json_dumps(v, JSON_ENCODE_ANY) : NULL;
            fail_msg("%s: run.json's %s is %s, not %s", file, p, text ? text : "absent", value);
        }
    }
    json_decref(run);
}

/* Each file of the folder has its row in expected.tsv, and does what the row says: it trains two
 * steps, or it is refused and nothing is there afterwards. */
static void files_as_people_write_them_run_or_are_refused(void **state) {
    (void)state;
    char line[2048], file[128], flags[256], said[512], options[512];
    int code, rows = 0, ran = 0;
    FILE *f = fopen(FILES "expected.tsv", "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        if (line[0] == '#') continue;
        assert_int_equal(sscanf(line, "%127[^\t]\t%255[^\t]\t%d\t%511[^\t]\t%511[^\n]", file, flags,
                                &code, said, options),
                         5);
        char command[2048];
        cli_remove("o");
        snprintf(command, sizeof command,
                 "train --init m --data d.txt --seq-length 32 --max-steps 2 --threads 1 --output o "
                 "--config " FILES "%s %s",
                 file, strcmp(flags, "-") == 0 ? "" : flags);
        cli_expect(command, code, strcmp(said, "-") == 0 ? "" : said);
        if (code != 0) assert_string_equal(cli_list("o"), "absent");
        if (strcmp(options, "-") != 0) expect_options(file, options);
        ran += code == 0;
        rows++;
    }
    fclose(f);
    assert_true(ran >= 30 && rows >= 100);
    DIR *d = opendir(FILES);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));)
        rows -= strstr(e->d_name, ".json") != NULL;
    closedir(d);
    assert_int_equal(rows, 0);
}

static void what_is_no_file_is_refused_without_waiting(void **state) {
    (void)state;
    cli_seconds = 20;
    assert_int_equal(mkfifo("pipe.json", 0600), 0);
    assert_int_equal(mkdir("folder.json", 0700), 0);
    cli_expect("plan --init m --config pipe.json", 2, "pipe.json|FIFO");
    cli_expect("plan --init m --config folder.json", 2, "folder.json|directory");
    cli_expect("plan --init m --config /dev/zero", 2, "/dev/zero|device");
    cli_expect("plan --init m --config absent.json", 2, "absent.json");
    cli_expect("train --init m --data d.txt --output r --deepspeed pipe.json", 2, "pipe.json|FIFO");
    assert_string_equal(cli_list("r"), "absent");
    cli_seconds = 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_that_are_accepted_do_what_they_say),
        cmocka_unit_test(keys_without_effect_are_in_one_line),
        cmocka_unit_test(a_flag_overrides_the_file_and_says_so),
        cmocka_unit_test(files_as_people_write_them_run_or_are_refused),
        cmocka_unit_test(what_is_no_file_is_refused_without_waiting),
    };
    return cmocka_run_group_tests(tests, cli_setup, cli_teardown);
}
