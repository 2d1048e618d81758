/* What is saved is what the run started from, whatever becomes of it meanwhile; and only regular
 * files are read. */
#include "cli_case.h"

#include <sys/stat.h>

static int fresh(void **state) {
    (void)state;
    cli_seconds = 0;
    cli_remove("o");
    cli_remove("s");
    return 0;
}

static bool same_file(const char *a, const char *b) {
    static char x[CLI_TEXT_BYTES], y[CLI_TEXT_BYTES];
    if (cli_bytes(a) != cli_bytes(b) || cli_bytes(a) < 0) return false;
    cli_read(a, x);
    cli_read(b, y);
    return memcmp(x, y, (size_t)cli_bytes(a)) == 0;
}

static void copy(const char *from, const char *to) {
    static char x[CLI_TEXT_BYTES];
    cli_read(from, x);
    cli_text(to, x);
}

#define TEMPLATES "additional_chat_templates"
static const char *const beside[] = {"tokenizer.json",
                                     "tokenizer_config.json",
                                     "generation_config.json",
                                     "chat_template.jinja",
                                     "chat_template.json",
                                     "vocab.json",
                                     TEMPLATES "/tool_use.jinja",
                                     TEMPLATES "/rag.jinja"};
enum { BESIDE = sizeof beside / sizeof *beside };

/* s: a model directory with all that may stand beside; k: a copy of it. */
static void make_source(void) {
    char from[64], to[64];
    if (!cli_exists("k")) {
        cli_make_model("k");
        cli_text("k/generation_config.json", "{\"max_length\": 7}\n");
        cli_text("k/chat_template.jinja", "{{ messages[0].content }}");
        cli_text("k/chat_template.json", "{\"chat_template\": \"x\"}\n");
        cli_text("k/vocab.json", "{\"a\": 0}\n");
        assert_int_equal(mkdir("k/" TEMPLATES, 0700), 0);
        cli_text("k/" TEMPLATES "/tool_use.jinja", "{{ tools }}{{ messages[0].content }}");
        cli_text("k/" TEMPLATES "/rag.jinja", "{{ documents }}");
    }
    cli_remove("s");
    assert_int_equal(mkdir("s", 0700), 0);
    assert_int_equal(mkdir("s/" TEMPLATES, 0700), 0);
    copy("k/config.json", "s/config.json");
    for (int i = 0; i < BESIDE; i++) {
        snprintf(from, sizeof from, "k/%s", beside[i]);
        snprintf(to, sizeof to, "s/%s", beside[i]);
        copy(from, to);
    }
    assert_int_equal(link("k/model.safetensors", "s/model.safetensors"), 0);
}

/* Each way in which a file may change under a run. */
static void emptied(const char *path) { cli_text(path, ""); }
static void longer(const char *path) {
    FILE *f = fopen(path, "a");
    fputs("{}", f);
    fclose(f);
}
static void removed(const char *path) { assert_int_equal(remove(path), 0); }
static void replaced(const char *path) {
    cli_text("other", "{\"model_type\": \"gpt2\"}");
    assert_int_equal(rename("other", path), 0);
}
static void a_directory(const char *path) {
    assert_int_equal(remove(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
}
static void a_fifo(const char *path) {
    assert_int_equal(remove(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
}
static void (*const changes[])(const char *path) = {emptied,  longer,      removed,
                                                    replaced, a_directory, a_fifo};
enum { CHANGES = sizeof changes / sizeof *changes };

/* The one checkpoint of o. */
static const char *checkpoint(void) {
    static char path[128];
    const char *at = strstr(cli_list("o"), "checkpoint-");
    if (!at) fail_msg("o holds no checkpoint: %s", cli_list("o"));
    snprintf(path, sizeof path, "o/%.*s", (int)strcspn(at, " "), at);
    return path;
}

static void assert_saved_as_kept(void) {
    char line[256], got[192], want[64];
    const char *dir = checkpoint();
    for (int i = 0; i < BESIDE; i++) {
        snprintf(got, sizeof got, "%s/%s", dir, beside[i]);
        snprintf(want, sizeof want, "k/%s", beside[i]);
        if (!same_file(got, want)) fail_msg("%s is not what the run started from", got);
    }
    snprintf(got, sizeof got, "%s/config.json", dir);
    json_t *a = json_load_file(got, 0, NULL), *b = json_load_file("k/config.json", 0, NULL);
    assert_true(a && json_equal(a, b));
    json_decref(a);
    json_decref(b);
    snprintf(line, sizeof line, "eval --model %s --data e.txt --seq-length 32 --quiet", dir);
    cli_expect(line, 0, "");
}

static void run_while(void (*change)(const char *path), const char *path) {
    cli_result r;
    cli_remove("o");
    cli_remove("log.jsonl");
    pid_t pid = cli_start("train --model s --data d.txt --seq-length 32 --max-steps 1000000 "
                          "--threads 1 --quiet --output o --log log.jsonl");
    cli_await("o", "run.json", 1);
    change(path);
    for (int i = 0; i < 6000 && cli_bytes("log.jsonl") <= 0; i++)
        cli_sleep_ms(10); /* before the first step there is nothing to save */
    assert_int_equal(kill(pid, SIGTERM), 0);
    cli_wait(&r, pid);
    if (r.code != 143) fail_msg("%s: the run ended with %d: %s", path, r.code, cli_tail(r.err));
    assert_saved_as_kept();
}

static void a_change_of_any_file_changes_nothing(void **state) {
    (void)state;
    char path[64];
    cli_seconds = 60;
    for (int f = 0; f <= BESIDE; f++) {
        for (int c = 0; c < CHANGES; c++) {
            if (f >= 2 && f < BESIDE && c > 1) continue; /* all are kept alike */
            make_source();
            snprintf(path, sizeof path, "s/%s", f < BESIDE ? beside[f] : "config.json");
            run_while(changes[c], path);
        }
    }
}

static void moved(const char *path) { assert_int_equal(rename(path, "elsewhere"), 0); }

static void the_whole_directory_may_go(void **state) {
    (void)state;
    cli_seconds = 60;
    make_source();
    run_while(cli_remove, "s");
    make_source();
    run_while(moved, "s");
    cli_remove("elsewhere");
}

static void run_json_tells_how_the_run_was_started(void **state) {
    (void)state;
    cli_result r;
    cli_text("ds.json", "{\"gradient_clipping\": 0.5}");
    pid_t pid = cli_start(CLI_TRAIN "--max-steps 300 --quiet --output o --config ds.json");
    for (int i = 0; i < 6000 && !cli_exists("o/run.json"); i++)
        cli_sleep_ms(1); /* whole: it has its own name */
    copy("o/run.json", "first.json");
    cli_text("ds.json", "{\"gradient_clipping\": 0.9");
    cli_text("o/run.json", "gone");
    cli_wait(&r, pid);
    assert_int_equal(r.code, 0);
    assert_true(same_file("o/run.json", "first.json"));
}

/* FIFOs would be waited for, directories cannot be read: both are named. */
static void only_regular_files_are_read(void **state) {
    (void)state;
    char path[64], words[128];
    cli_seconds = 60;
    for (int f = -1; f < BESIDE; f++) {
        for (int c = 4; c < CHANGES; c++) {
            make_source();
            snprintf(path, sizeof path, "s/%s", f < 0 ? "config.json" : beside[f]);
            changes[c](path);
            snprintf(words, sizeof words, "%s|%s", path, c == 4 ? "a directory" : "a FIFO");
            cli_expect("train --model s --data d.txt --max-steps 1 --output o", 2, words);
            assert_false(cli_exists("o"));
            if (f < 1) cli_expect("plan --model s --data d.txt", 2, words);
            if (f < 1) cli_expect("eval --model s --data d.txt", 2, path);
        }
    }
}

static void a_plan_counts_what_is_kept(void **state) {
    (void)state;
    static char big[1 << 17];
    long long bytes[2];
    make_source();
    for (int i = 0; i < 2; i++) {
        cli_expect("plan --model s --json --quiet", 0, "");
        json_t *plan = json_load_file("stdout", 0, NULL), *uses;
        assert_int_equal(json_unpack(plan, "{s:{s:{s:o}}}", "tiers", "host", "by_use", &uses), 0);
        bytes[i] = (long long)json_integer_value(json_object_get(uses, "staging"));
        json_decref(plan);
        memset(big, ' ', sizeof big - 1);
        cli_text("s/vocab.json", big);
    }
    assert_true(bytes[1] - bytes[0] > (long long)sizeof big - 64);
    assert_true(bytes[1] - bytes[0] < (long long)sizeof big + 64);
}

static int finish(void **state) { return fresh(state) || cli_teardown(state); }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_change_of_any_file_changes_nothing, fresh),
        cmocka_unit_test_setup(the_whole_directory_may_go, fresh),
        cmocka_unit_test_setup(run_json_tells_how_the_run_was_started, fresh),
        cmocka_unit_test_setup(only_regular_files_are_read, fresh),
        cmocka_unit_test_setup(a_plan_counts_what_is_kept, fresh),
    };
    return cmocka_run_group_tests(tests, cli_setup, finish);
}
