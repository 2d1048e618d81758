/* What `plan` says is what `train` and `eval` say, byte for byte, in every tier and use: with the
 * tokenizer and the data that they are given, which budgets cover. */
#include "big_tokenizer.h"
#include "cli_case.h"

static const char *const uses[] = {"weights",   "gradients", "master",  "moments", "activations",
                                   "workspace", "kv_cache",  "staging", "text",    "plan"};
static const char *const tiers[] = {"device", "host"};
enum { USES = sizeof uses / sizeof *uses, TIERS = sizeof tiers / sizeof *tiers };

typedef struct table {
    uint64_t bytes[TIERS], by_use[TIERS][USES], foreign, process;
} table;

/* The number after "\n<blanks>name<blanks>" in [text, end); 0: none. */
static uint64_t entry(const char *text, const char *end, int indent, const char *name) {
    char key[64];
    snprintf(key, sizeof key, "\n%*s%s ", indent, "", name);
    const char *at = strstr(text, key);
    return at && at < end ? strtoull(at + strlen(key), NULL, 10) : 0;
}

/* Of the table for people. */
static table read_table(const char *text) {
    table t = {0};
    const char *end = text + strlen(text), *host = strstr(text, "\n  host ");
    if (!host || !strstr(text, "\n  process ")) fail_msg("no table:\n%s", cli_tail(text));
    for (int i = 0; i < TIERS; i++) {
        const char *from = i ? host : text, *to = i ? end : host + 1;
        t.bytes[i] = entry(from, to, 2, tiers[i]);
        for (int u = 0; u < USES; u++)
            t.by_use[i][u] = entry(from, to, 4, uses[u]);
    }
    t.foreign = entry(text, end, 2, "foreign");
    t.process = entry(text, end, 2, "process");
    return t;
}

static uint64_t whole(const json_t *j, const char *key) {
    return (uint64_t)json_integer_value(json_object_get(j, key));
}

/* Of plan --json. */
static table read_json(const char *text) {
    table t = {0};
    json_t *root = json_loads(text, 0, NULL);
    if (!root) fail_msg("no JSON:\n%s", text);
    for (int i = 0; i < TIERS; i++) {
        const json_t *tier = json_object_get(json_object_get(root, "tiers"), tiers[i]);
        t.bytes[i] = whole(tier, "bytes");
        for (int u = 0; u < USES; u++)
            t.by_use[i][u] = whole(json_object_get(tier, "by_use"), uses[u]);
    }
    t.foreign = whole(root, "foreign");
    t.process = t.bytes[0] + t.bytes[1] + t.foreign;
    json_decref(root);
    return t;
}

static void assert_same(const table *a, const table *b, const char *what) {
    for (int i = 0; i < TIERS; i++) {
        if (a->bytes[i] != b->bytes[i])
            fail_msg("%s: %s has %llu bytes, not %llu", what, tiers[i],
                     (unsigned long long)b->bytes[i], (unsigned long long)a->bytes[i]);
        for (int u = 0; u < USES; u++)
            if (a->by_use[i][u] != b->by_use[i][u])
                fail_msg("%s: %s of %s are %llu bytes, not %llu", what, uses[u], tiers[i],
                         (unsigned long long)b->by_use[i][u], (unsigned long long)a->by_use[i][u]);
    }
}

static table run(const char *command, const char *options, const char *more) {
    char line[1024];
    snprintf(line, sizeof line, "%s %s %s", command, options, more);
    cli_result *r = cli_run(line);
    if (r->code != 0) fail_msg("outcore %s\n%s", line, cli_tail(r->err));
    if (strstr(more, "--json")) return read_json(r->out);
    return read_table(strncmp(command, "plan", 4) == 0 ? r->out : r->err);
}

enum { TEXT = 8 };

/* A vocabulary that the tokenizer's ids fit into, and a text of its words. */
static void make_files(void) {
    char config[1024];
    const char *at = strstr(cli_config, "259");
    snprintf(config, sizeof config, "%.*s70000%s", (int)(at - cli_config), cli_config, at + 3);
    assert_true(mkdir("big", 0700) == 0 || errno == EEXIST);
    cli_text("big/config.json", config);
    big_tokenizer_write("big", 60000);
    cli_text("words.txt", "some words that are of letters alone and make a few sequences of "
                          "sixteen tokens when nothing is left out of them all at all in the end");
}

static void plan_train_and_eval_agree_to_the_byte(void **state) {
    static const char *const rows[] = {
        "--init m --seq-length 32 --micro-batch 2 --data d.txt",
        "--init m --seq-length 32 --micro-batch 2 --grad-accum 3 --data d.txt --eval-data e.txt",
        "--init m --seq-length 16 --micro-batch 3 --data d.txt --device-memory 12MiB --dtype bf16 "
        "--eval-data e.txt",
        "--init big --seq-length 16 --micro-batch 1 --data words.txt",
        "--init big --seq-length 16 --micro-batch 2 --data words.txt --eval-data words.txt "
        "--device-memory 24MiB --dtype bf16",
        "--init m --seq-length 16 --micro-batch auto --train-batch 6 --data d.txt"};
    (void)state;
    make_files();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        table json = run("plan", rows[i], "--json"), shown = run("plan", rows[i], "");
        table train = run("train", rows[i], "--max-steps 1 --overwrite --output o");
        assert_same(&json, &shown, rows[i]);
        assert_same(&json, &train, rows[i]);
        assert_true(json.by_use[1][TEXT] > 0);
        if (strstr(rows[i], "big")) assert_true(json.by_use[1][TEXT] > 4 << 20);
        assert_int_equal(train.process, train.bytes[0] + train.bytes[1] + train.foreign);
    }
    table one = run("eval", "--model o --seq-length 16 --data d.txt", "");
    assert_true(one.by_use[1][TEXT] > 0 && one.by_use[1][TEXT] < 1 << 20);
}

static long long count_in(const json_t *object, const char *key) {
    return json_integer_value(json_object_get(object, key));
}

/* 2 layers, hidden 32, 4 heads of 8, 2 of keys and values: q, k, v and o of a layer are 32 x 32
 * twice and 32 x 16 twice. */
static void what_is_trained_is_counted_alike_everywhere(void **state) {
    static const char options[] =
        "--init m --seq-length 16 --data d.txt --train-only *.self_attn.*";
    enum { TRAINED = 2 * (2 * 32 * 32 + 2 * 32 * 16) };
    char line[512];
    (void)state;
    snprintf(line, sizeof line, "plan %s --json", options);
    cli_expect(line, 0, "6144 of 32096 parameters are trained");
    json_t *plan = json_loads(cli_run(line)->out, 0, NULL);
    assert_int_equal(count_in(plan, "parameters"), 32096);
    assert_int_equal(count_in(plan, "trained_parameters"), TRAINED);
    json_decref(plan);
    snprintf(line, sizeof line, "train %s --max-steps 1 --overwrite --output o", options);
    cli_expect(line, 0, "6144 of 32096 parameters are trained");
    json_t *run = json_load_file("o/run.json", 0, NULL), *of = json_object_get(run, "outcore");
    assert_int_equal(count_in(of, "parameters"), 32096);
    assert_int_equal(count_in(of, "trained_parameters"), TRAINED);
    assert_int_equal(json_array_size(json_object_get(json_object_get(of, "options"), "train-only")),
                     1);
    json_decref(run);
    cli_expect("train --config o/run.json --overwrite --output o", 0, "6144 of 32096");
}

/* The host arena is the same with data and without. */
static void without_data_text_is_left_out_and_that_is_said(void **state) {
    static const char base[] = "--init big --seq-length 16 --micro-batch 2";
    (void)state;
    make_files();
    table none = run("plan", base, "--json");
    cli_expect("plan --init big --json", 0, "without --data and --tokenizer what the tokenizer");
    table tokenizer = run("plan", base, "--json --tokenizer big");
    cli_expect("plan --init big --tokenizer big", 0, "without --data what the data's buffers");
    table data = run("plan", base, "--json --data words.txt");
    cli_result *r = cli_run("plan --init big --json --data words.txt");
    assert_null(strstr(r->err, "without --data"));
    r = cli_run("plan --init big --json --quiet");
    assert_string_equal(r->err, "");
    assert_int_equal(none.by_use[1][TEXT], 0);
    assert_true(tokenizer.by_use[1][TEXT] > 4 << 20);
    assert_true(data.by_use[1][TEXT] > tokenizer.by_use[1][TEXT]);
    assert_int_equal(none.bytes[1], data.bytes[1] - data.by_use[1][TEXT]);
    assert_int_equal(none.bytes[1], tokenizer.bytes[1] - tokenizer.by_use[1][TEXT]);
}

/* The least that is accepted, to the step of what is measured, is what was printed. */
static void both_refuse_below_the_same_budget(void **state) {
    static const char base[] = "--init big --seq-length 16 --micro-batch 1 --data words.txt "
                               "--eval-data words.txt --recompute full";
    char more[128];
    (void)state;
    make_files();
    table t = run("plan", base, "--json");
    uint64_t step = 512 << 10;
    snprintf(more, sizeof more, "--host-memory %llu", (unsigned long long)(t.process + step));
    (void)run("plan", base, more);
    snprintf(more, sizeof more, "--max-steps 1 --overwrite --output o --host-memory %llu",
             (unsigned long long)(t.process + step));
    (void)run("train", base, more);
    /* what text takes alone is more than what is missing */
    assert_true(t.by_use[1][TEXT] > 2 * step);
    char line[1024];
    unsigned long long less = t.process - step;
    snprintf(line, sizeof line, "plan %s --host-memory %llu", base, less);
    cli_expect(line, 2, "for the tokenizer and the data|--host-memory");
    snprintf(line, sizeof line, "train %s --host-memory %llu --output p", base, less);
    cli_expect(line, 2, "for the tokenizer and the data|--host-memory");
    assert_string_equal(cli_list("p"), "absent");
}

static void what_train_refuses_plan_refuses(void **state) {
    (void)state;
    make_files();
    cli_expect("plan --init m --data nowhere.txt", 2, "nowhere.txt");
    cli_expect("plan --init m --data d.txt --tokenizer nowhere", 2, "nowhere|tokenizer.json");
    cli_expect("train --init m --data d.txt --tokenizer nowhere --output p", 2,
               "nowhere|tokenizer.json");
    /* the dtype is the model's own */
    char config[1024];
    const char *at = strstr(cli_config, "float32");
    snprintf(config, sizeof config, "%.*sfloat16%s", (int)(at - cli_config), cli_config, at + 7);
    cli_text("m/config.json", config);
    cli_expect("plan --init m --clip-grad-norm 0 --early-updates on", 2,
               "--early-updates on needs --dtype bf16 or fp32");
    cli_expect("train --init m --data d.txt --clip-grad-norm 0 --early-updates on --output p", 2,
               "--early-updates on needs --dtype bf16 or fp32");
    assert_string_equal(cli_list("p"), "absent");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(plan_train_and_eval_agree_to_the_byte, cli_setup,
                                        cli_teardown),
        cmocka_unit_test_setup_teardown(what_is_trained_is_counted_alike_everywhere, cli_setup,
                                        cli_teardown),
        cmocka_unit_test_setup_teardown(without_data_text_is_left_out_and_that_is_said, cli_setup,
                                        cli_teardown),
        cmocka_unit_test_setup_teardown(both_refuse_below_the_same_budget, cli_setup, cli_teardown),
        cmocka_unit_test_setup_teardown(what_train_refuses_plan_refuses, cli_setup, cli_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
