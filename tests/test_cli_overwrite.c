/* One model in place of another: whatever happens on the way, one of the two is whole, and nothing
 * is lost by a run that is refused. */
#include "cli_case.h"

static int fresh(void **state) {
    (void)state;
    cli_seconds = 0;
    cli_file_limit = RLIM_INFINITY;
    cli_remove("o");
    cli_remove("b");
    return 0;
}

static bool same_file(const char *a, const char *b) {
    static char x[CLI_TEXT_BYTES], y[CLI_TEXT_BYTES];
    if (cli_bytes(a) != cli_bytes(b) || cli_bytes(a) < 0) return false;
    FILE *f = fopen(a, "rb"), *g = fopen(b, "rb");
    size_t n = fread(x, 1, sizeof x, f), m = fread(y, 1, sizeof y, g);
    fclose(f);
    fclose(g);
    return n == m && memcmp(x, y, n) == 0;
}

static void copy(const char *from, const char *to) {
    static char x[CLI_TEXT_BYTES];
    FILE *f = fopen(from, "rb");
    assert_non_null(f);
    size_t n = fread(x, 1, sizeof x, f);
    fclose(f);
    cli_write(to, x, n);
}

static bool whole(const char *dir) {
    char line[256];
    snprintf(line, sizeof line, "eval --model %s --data e.txt --seq-length 32 --quiet", dir);
    return cli_exists(dir) && cli_run(line)->code == 0;
}

static void a_refused_run_loses_nothing(void **state) {
    (void)state;
    cli_expect(CLI_TRAIN "--max-steps 3 --save-every 1 --log log.jsonl --output o", 0, "");
    remove("o/model.safetensors");
    remove("o/run.json");
    long long log = cli_bytes("log.jsonl");
    assert_true(log > 0);
#define AGAIN CLI_TRAIN "--max-steps 1 --overwrite --log log.jsonl --output o "
    cli_expect(AGAIN "--trace d.txt/t", 2, "d.txt/t");
    assert_int_equal(cli_bytes("log.jsonl"), log);
    assert_int_equal(mkdir("o/run.json", 0700), 0);
    cli_expect(AGAIN, 2, "run.json");
    assert_int_equal(cli_bytes("log.jsonl"), log);
    assert_string_equal(cli_list("o"), "checkpoint-2 checkpoint-3 config.json run.json "
                                       "tokenizer.json tokenizer_config.json");
}

/* run.json tells how the model beside it came to be. */
static void a_failed_run_leaves_run_json_with_its_model(void **state) {
    (void)state;
    cli_expect(CLI_TRAIN "--max-steps 1 --seed 5 --output o", 0, "");
    copy("o/run.json", "before.json");
    cli_file_limit = (rlim_t)cli_bytes("o/model.safetensors") - 1000;
    cli_expect(CLI_TRAIN "--max-steps 1 --seed 6 --overwrite --output o", 1, "File too large");
    assert_true(same_file("o/run.json", "before.json"));
    assert_string_equal(cli_list("o"), "config.json model.safetensors run.json tokenizer.json "
                                       "tokenizer_config.json");
    cli_file_limit = RLIM_INFINITY;
    cli_expect(CLI_TRAIN "--max-steps 1 --seed 6 --overwrite --output o", 0, "");
    assert_false(same_file("o/run.json", "before.json"));
}

static const char *const files[] = {"config.json", "model.safetensors", "run.json",
                                    "tokenizer.json", "tokenizer_config.json"};

/* What a kill while a final model takes its place leaves: each phase, by hand. */
static void an_interrupted_replacement_is_completed(void **state) {
    (void)state;
    char from[128], to[128];
    cli_expect(CLI_TRAIN "--max-steps 2 --lr 1e-2 --output b", 0, "");
    for (int phase = 0; phase < 3; phase++) {
        const char *aside = phase == 0 ? "o/model.ready.tmp" : "o/model.moving.tmp";
        cli_file_limit = RLIM_INFINITY;
        cli_remove("o");
        cli_expect(CLI_TRAIN "--max-steps 1 --output o", 0, "");
        if (phase == 0) {
            cli_text("o/merges.txt", "of the earlier model");
            cli_text("o/model-00001-of-00002.safetensors", "an earlier shard");
        }
        assert_int_equal(mkdir(aside, 0700), 0);
        for (int i = 0; i < 5; i++) {
            snprintf(from, sizeof from, "b/%s", files[i]);
            snprintf(to, sizeof to, "%s/%s", aside, files[i]);
            copy(from, to);
            snprintf(from, sizeof from, "o/%s", files[i]);
            if (phase == 1 && i < 2) { /* linked already */
                remove(from);
                assert_int_equal(link(to, from), 0);
            }
            if (phase == 2 && i < 3) assert_int_equal(rename(to, from), 0); /* moved already */
        }
        /* the next run completes it before it does anything else, even when it fails then */
        cli_file_limit = (rlim_t)cli_bytes("b/model.safetensors") - 1000;
        cli_expect(CLI_TRAIN "--max-steps 1 --overwrite --output o", 1, "completing");
        assert_string_equal(cli_list("o"), "config.json model.safetensors run.json "
                                           "tokenizer.json tokenizer_config.json");
        for (int i = 0; i < 5; i++) {
            snprintf(from, sizeof from, "b/%s", files[i]);
            snprintf(to, sizeof to, "o/%s", files[i]);
            if (!same_file(from, to)) fail_msg("phase %d: %s is not the new one", phase, to);
        }
    }
}

static void a_model_that_waits_counts_as_one(void **state) {
    (void)state;
    cli_expect(CLI_TRAIN "--max-steps 1 --output o", 0, "");
    assert_int_equal(mkdir("b", 0700), 0);
    assert_int_equal(rename("o", "b/model.ready.tmp"), 0);
    cli_expect(CLI_TRAIN "--max-steps 1 --output b", 2, "b already holds a model");
    assert_string_equal(cli_list("b"), "model.ready.tmp");
    cli_expect(CLI_TRAIN "--max-steps 1 --resume --output b", 0, "completing");
    assert_true(whole("b"));
}

static void a_kill_at_any_time_leaves_a_whole_model(void **state) {
    (void)state;
    cli_expect(CLI_TRAIN "--max-steps 1 --output o", 0, "");
    for (int round = 0; round < 12; round++) {
        cli_result r;
        pid_t pid = cli_start(CLI_TRAIN "--max-steps 1 --quiet --overwrite --output o");
        cli_sleep_ms(20 + 5 * round);
        (void)kill(pid, SIGKILL);
        cli_wait(&r, pid);
        assert_true(r.signal == SIGKILL || r.code == 0);
        if (!whole("o") && !whole("o/model.ready.tmp") && !whole("o/model.moving.tmp"))
            fail_msg("round %d left no whole model: %s", round, cli_list("o"));
    }
    cli_expect(CLI_TRAIN "--max-steps 1 --overwrite --output o", 0, "");
    assert_string_equal(cli_list("o"), "config.json model.safetensors run.json tokenizer.json "
                                       "tokenizer_config.json");
}

static void one_run_has_a_directory_at_a_time(void **state) {
    (void)state;
    cli_result r;
    cli_seconds = 120; /* also of one that a failed test leaves */
    pid_t pid = cli_start(CLI_TRAIN "--max-steps 1000000 --quiet --output o");
    cli_await("o", "run.json", 1);
    cli_expect(CLI_TRAIN "--max-steps 1 --output o", 2, "--output o|another run");
    cli_expect(CLI_TRAIN "--max-steps 1 --overwrite --output ./o", 2, "--output ./o|another run");
    cli_child = pid;
    assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
    assert_int_equal(kill(pid, SIGKILL), 0);
    cli_wait(&r, pid);
    cli_expect(CLI_TRAIN "--max-steps 1 --output o", 0, "");
    assert_string_equal(cli_list("o"), "config.json model.safetensors run.json tokenizer.json "
                                       "tokenizer_config.json");
}

static int finish(void **state) { return fresh(state) || cli_teardown(state); }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_refused_run_loses_nothing, fresh),
        cmocka_unit_test_setup(a_failed_run_leaves_run_json_with_its_model, fresh),
        cmocka_unit_test_setup(an_interrupted_replacement_is_completed, fresh),
        cmocka_unit_test_setup(a_model_that_waits_counts_as_one, fresh),
        cmocka_unit_test_setup(a_kill_at_any_time_leaves_a_whole_model, fresh),
        cmocka_unit_test_setup(one_run_has_a_directory_at_a_time, fresh),
    };
    return cmocka_run_group_tests(tests, cli_setup, finish);
}
