/* What a run leaves on disk: checkpoints and the final model, each whole or not there - when all
 * goes well, when it is stopped, killed, or the disk is full. */
#include "cli_case.h"

#include <sys/mount.h>

static int fresh(void **state) {
    (void)state;
    cli_seconds = 0;
    cli_file_limit = RLIM_INFINITY;
    (void)umount2("small", MNT_DETACH); /* of a test that failed */
    cli_remove("o");
    cli_remove("b");
    return 0;
}

/* The bytes of two files. */
static bool same_file(const char *a, const char *b) {
    static char x[CLI_TEXT_BYTES], y[CLI_TEXT_BYTES];
    if (cli_bytes(a) != cli_bytes(b) || cli_bytes(a) < 0) return false;
    FILE *f = fopen(a, "rb"), *g = fopen(b, "rb");
    size_t n = fread(x, 1, sizeof x, f), m = fread(y, 1, sizeof y, g);
    fclose(f);
    fclose(g);
    return n == m && memcmp(x, y, n) == 0;
}

/* Others can load it: it evaluates. */
static void assert_whole(const char *dir) {
    char line[256];
    snprintf(line, sizeof line, "eval --model %s --data e.txt --seq-length 32 --quiet", dir);
    cli_expect(line, 0, "");
}

static void a_run_leaves_checkpoints_and_the_final_model_only(void **state) {
    (void)state;
    cli_result *r = cli_run(CLI_TRAIN "--max-steps 7 --save-every 2 --keep 2 --output o");
    assert_int_equal(r->code, 0);
    assert_string_equal(r->out, "o\n");
    assert_string_equal(cli_list("o"),
                        "checkpoint-4 checkpoint-6 config.json model.safetensors run.json "
                        "tokenizer.json tokenizer_config.json");
    assert_string_equal(cli_list("o/checkpoint-4"), CLI_MODEL_FILES);
    assert_string_equal(cli_list("o/checkpoint-6"), CLI_MODEL_FILES);
    assert_whole("o");
    assert_whole("o/checkpoint-4");
    assert_false(same_file("o/checkpoint-4/model.safetensors", "o/checkpoint-6/model.safetensors"));
    assert_false(same_file("o/model.safetensors", "o/checkpoint-6/model.safetensors"));
}

static void a_checkpoint_is_the_model_after_its_step(void **state) {
    (void)state;
    cli_expect(CLI_TRAIN "--max-steps 5 --save-every 3 --keep 9 --lr-schedule constant --output o",
               0, "checkpoint-3");
    cli_expect(CLI_TRAIN "--max-steps 3 --lr-schedule constant --output b", 0, "");
    assert_string_equal(cli_list("b"), "config.json model.safetensors run.json tokenizer.json "
                                       "tokenizer_config.json");
    assert_true(same_file("b/model.safetensors", "o/checkpoint-3/model.safetensors"));
    assert_true(same_file("b/config.json", "o/checkpoint-3/config.json"));
}

static void config_is_unchanged_but_for_the_dtype(void **state) {
    (void)state;
    static const char *const dtypes[][2] = {{"bf16", "bfloat16"}, {"fp16", "float16"}};
    char line[256];
    for (int i = 0; i < 2; i++) {
        cli_remove("o");
        snprintf(line, sizeof line, CLI_TRAIN "--max-steps 1 --dtype %s --output o", dtypes[i][0]);
        cli_expect(line, 0, "");
        json_t *before = json_load_file("m/config.json", 0, NULL);
        json_t *after = json_load_file("o/config.json", 0, NULL);
        json_object_set_new(before, "torch_dtype", json_string(dtypes[i][1]));
        assert_true(json_equal(before, after));
        json_decref(before);
        json_decref(after);
        cli_expect("inspect o", 0, "");
        char out[CLI_TEXT_BYTES];
        cli_read("stdout", out);
        assert_non_null(strstr(out, i ? "F16" : "BF16"));
        assert_null(strstr(out, "F32"));
    }
}

static void both_keys_of_the_dtype_follow_it(void **state) {
    (void)state;
    json_t *config = json_loads(cli_config, 0, NULL);
    json_object_set_new(config, "dtype", json_string("float32"));
    assert_int_equal(json_dump_file(config, "c.json", 0), 0);
    cli_expect("train --init c.json --data d.txt --seq-length 32 --max-steps 1 --dtype bf16 "
               "--output o",
               0, "");
    json_t *after = json_load_file("o/config.json", 0, NULL);
    json_object_set_new(config, "dtype", json_string("bfloat16"));
    json_object_set_new(config, "torch_dtype", json_string("bfloat16"));
    assert_true(json_equal(config, after));
    json_decref(config);
    json_decref(after);
}

static void a_directory_in_use_is_not_touched(void **state) {
    (void)state;
    cli_expect(CLI_TRAIN "--max-steps 2 --save-every 1 --output o", 0, "");
    cli_expect(CLI_TRAIN "--max-steps 3 --output o", 2,
               "o already holds a model|--overwrite|--resume");
    cli_expect(CLI_TRAIN "--max-steps 3 --output o --resume", 2, "--resume|o|not available");
    remove("o/model.safetensors");
    cli_expect(CLI_TRAIN "--max-steps 3 --output o", 2, "o already holds checkpoints");
    assert_string_equal(cli_list("o"),
                        "checkpoint-1 checkpoint-2 config.json run.json tokenizer.json "
                        "tokenizer_config.json");
    cli_expect("train --model o/checkpoint-2 --data d.txt --output o --overwrite", 2,
               "o/checkpoint-2|--output");
    cli_expect(CLI_TRAIN "--max-steps 3 --output b --resume", 0, "warning|b holds no checkpoint");
    assert_whole("b");
}

static void overwrite_replaces_an_earlier_run(void **state) {
    (void)state;
    cli_expect(CLI_TRAIN "--max-steps 9 --save-every 3 --keep 3 --output o", 0, "");
    cli_text("o/notes.md", "mine");
    cli_text("o/model-00001-of-00002.safetensors", "an old shard");
    cli_text("o/model.safetensors.index.json", "{}");
    cli_text("o/merges.txt", "of an earlier tokenizer");
    cli_text("o/added_tokens.json", "{}");
    cli_expect(CLI_TRAIN "--data none.txt --output o --overwrite", 2, "none.txt");
    assert_true(cli_exists("o/checkpoint-9"));
    cli_expect(CLI_TRAIN "--max-steps 4 --save-every 2 --output o --overwrite", 0, "");
    assert_string_equal(cli_list("o"),
                        "checkpoint-2 checkpoint-4 config.json model.safetensors notes.md run.json "
                        "tokenizer.json tokenizer_config.json");
    assert_true(same_file("o/model.safetensors", "o/checkpoint-4/model.safetensors"));
}

static void run_json_starts_the_same_run_again(void **state) {
    (void)state;
    cli_expect(CLI_TRAIN "--max-steps 3 --lr 3e-3 --seed 5 --dtype bf16 --output o", 0, "");
    cli_expect("train --config o/run.json --output b", 0, "");
    assert_true(same_file("o/model.safetensors", "b/model.safetensors"));
    cli_expect("train --config o/run.json", 2, "o already holds a model");
    cli_expect("train --config o/run.json --output b --overwrite --seed 6", 0,
               "--seed overrides o/run.json");
    assert_false(same_file("o/model.safetensors", "b/model.safetensors"));
    cli_expect("plan --config o/run.json --micro-batch 4", 0, "");
    cli_expect("train --config o/run.json --model o --output b --overwrite", 0,
               "--model overrides the file's init");
}

static void data_repeats_when_the_steps_outlast_it(void **state) {
    (void)state;
    /* 5 rows are one sequence each without packing: 3 steps an epoch, the last one short */
    cli_text("r.jsonl", "{\"input_ids\": [9, 8, 7]}\n{\"input_ids\": [9, 8, 6]}\n"
                        "{\"input_ids\": [5, 8, 7]}\n{\"input_ids\": [4, 8, 7]}\n"
                        "{\"input_ids\": [3, 8, 7]}\n");
#define ROWS "train --init m --data r.jsonl --no-packing --micro-batch 2 --seq-length 8 --quiet "
    static const struct {
        const char *flags;
        int steps;
    } rows[] = {{"--max-steps 8", 8}, {"--epochs 1", 3}, {"--epochs 0.5", 2},
                {"--epochs 2.5", 8},  {"", 9},           {"--epochs 0.01", 1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char line[256], text[CLI_TEXT_BYTES];
        cli_remove("o");
        snprintf(line, sizeof line, ROWS "--log log.jsonl --output o %s", rows[i].flags);
        cli_expect(line, 0, "");
        cli_read("log.jsonl", text);
        int steps = 0;
        for (char *p = text; *p; p++)
            steps += *p == '\n';
        assert_int_equal(steps, rows[i].steps);
        if (rows[i].steps >= 6) {
            int short_steps = 0;
            for (char *p = text; (p = strstr(p, "\"tokens\": 2,")); p++)
                short_steps++;
            assert_int_equal(short_steps, rows[i].steps / 3);
        }
    }
}

/* ---- stops ---- */

static void a_signal_stops_after_the_step_and_saves(void **state) {
    (void)state;
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    static const char *const words[] = {"stopped by SIGINT after step ",
                                        "stopped by SIGTERM after step ",
                                        "stopped by SIGHUP after step "};
    for (int i = 0; i < 3; i++) {
        cli_result r;
        cli_remove("o");
        pid_t pid = cli_start(CLI_TRAIN "--max-steps 1000000 --save-every 5 --output o");
        cli_await("o", "checkpoint-", 2);
        assert_int_equal(kill(pid, numbers[i]), 0);
        cli_wait(&r, pid);
        assert_int_equal(r.code, 128 + numbers[i]);
        assert_string_equal(r.out, "");
        const char *name = words[i];
        char *at = strstr(r.err, name), path[64];
        assert_non_null(at);
        snprintf(path, sizeof path, "o/checkpoint-%llu", strtoull(at + strlen(name), NULL, 10));
        assert_string_equal(cli_list(path), CLI_MODEL_FILES);
        assert_whole(path);
        assert_false(cli_exists("o/model.safetensors"));
        assert_null(strstr(cli_list("o"), "tmp"));
    }
}

/* As nohup and a shell's background jobs leave them. */
static void a_signal_that_was_ignored_stays_ignored(void **state) {
    (void)state;
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    for (int i = 0; i < 3; i++) {
        cli_result r;
        int other = numbers[(i + 1) % 3];
        cli_remove("o");
        cli_ignored = numbers[i];
        pid_t pid = cli_start(CLI_TRAIN "--max-steps 1000000 --save-every 5 --output o");
        cli_ignored = 0;
        cli_await("o", "checkpoint-", 2);
        assert_int_equal(kill(pid, numbers[i]), 0);
        cli_sleep_ms(100);
        assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
        assert_int_equal(kill(pid, other), 0);
        assert_int_equal(kill(pid, numbers[i]), 0); /* nor does it count as the second */
        cli_wait(&r, pid);
        assert_int_equal(r.code, 128 + other);
    }
}

static void a_second_signal_of_either_kind_ends_at_once(void **state) {
    (void)state;
    cli_result r = {.code = 130};
    cli_seconds = 60;
    /* Steps of many seconds: the first signal alone would wait for one, unless it came before
     * step 1. */
    for (int ms = 100; ms < 5000 && r.code == 130; ms *= 2) {
        cli_remove("o");
        pid_t pid = cli_start(CLI_TRAIN "--max-steps 9 --pace optim=2KB/s --output o");
        cli_await("o", "run.json", 1);
        cli_sleep_ms(ms);
        assert_int_equal(kill(pid, SIGINT), 0);
        cli_sleep_ms(100);
        assert_int_equal(kill(pid, SIGTERM), 0);
        cli_wait(&r, pid);
        if (r.code == 130) assert_non_null(strstr(r.err, "after step 0 "));
    }
    assert_int_equal(r.signal, SIGTERM);
}

static void a_kill_at_any_time_leaves_no_broken_checkpoint(void **state) {
    (void)state;
    int checkpoints = 0;
    for (int round = 0; round < 8; round++) {
        cli_result r;
        char names[1024], *save = NULL;
        cli_remove("o");
        pid_t pid = cli_start(CLI_TRAIN "--max-steps 1000000 --save-every 1 --keep 3 --output o");
        cli_await("o", "run.json", 1);
        cli_sleep_ms(5 + 17 * round);
        assert_int_equal(kill(pid, SIGKILL), 0);
        cli_wait(&r, pid);
        assert_int_equal(r.signal, SIGKILL);
        snprintf(names, sizeof names, "%s", cli_list("o"));
        for (char *w = strtok_r(names, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
            char path[128];
            snprintf(path, sizeof path, "o/%s", w);
            if (strncmp(w, "checkpoint-", 11) != 0 || strstr(w, ".tmp")) continue;
            assert_string_equal(cli_list(path), CLI_MODEL_FILES);
            assert_whole(path);
            checkpoints++;
        }
    }
    assert_true(checkpoints > 0);
    /* what a kill may leave goes with the next run; what is not ours stays */
    assert_true(mkdir("o/checkpoint-3.tmp", 0700) == 0 || errno == EEXIST);
    cli_text("o/checkpoint-3.tmp/.tmp-model.safetensors", "half");
    assert_true(mkdir("o/model.tmp", 0700) == 0 || errno == EEXIST);
    cli_text("o/run.json.tmp", "half");
    cli_text("o/mine.tmp", "mine");
    cli_text("o/mine.json.tmp", "mine");
    cli_text("o/checkpoint-best.tmp", "mine");
    cli_text("o/.tmp-mine", "mine");
    cli_expect(CLI_TRAIN "--max-steps 1 --output o --overwrite", 0, "");
    assert_string_equal(cli_list("o"), ".tmp-mine checkpoint-best.tmp config.json mine.json.tmp "
                                       "mine.tmp model.safetensors run.json tokenizer.json "
                                       "tokenizer_config.json");
}

/* ---- no room ---- */

static void a_write_that_fails_leaves_earlier_checkpoints_whole(void **state) {
    (void)state;
    long long model = 0;
    cli_expect(CLI_TRAIN "--max-steps 1 --output o", 0, "");
    model = cli_bytes("o/model.safetensors");
    assert_true(model > 100000);
    cli_file_limit = (rlim_t)model - 1000;
    cli_remove("o");
    cli_expect(CLI_TRAIN "--max-steps 4 --save-every 2 --output o", 1,
               "checkpoint-2|File too large");
    assert_string_equal(cli_list("o"), "run.json");
    cli_remove("o");
    cli_expect(CLI_TRAIN "--max-steps 2 --output o", 1, "model.safetensors|File too large");
    assert_string_equal(cli_list("o"), "run.json");
    cli_expect(CLI_TRAIN "--max-steps 2 --output o --log o/log", 1, "o/");
}

static void an_earlier_model_outlives_a_failed_save(void **state) {
    (void)state;
    cli_expect(CLI_TRAIN "--max-steps 2 --save-every 1 --output o", 0, "");
    cli_expect(CLI_TRAIN "--max-steps 2 --output b", 0, "");
    cli_file_limit = (rlim_t)cli_bytes("o/model.safetensors") - 1000;
    cli_expect(CLI_TRAIN "--max-steps 3 --output o --overwrite", 1, "File too large");
    assert_string_equal(cli_list("o"), "config.json model.safetensors run.json tokenizer.json "
                                       "tokenizer_config.json");
    assert_true(same_file("o/model.safetensors", "b/model.safetensors"));
}

static void too_little_disk_is_refused_before_step_1(void **state) {
    (void)state;
    (void)mkdir("small", 0700);
    if (mount("tmpfs", "small", "tmpfs", 0, "size=1m")) skip(); /* not root */
    cli_expect(CLI_TRAIN "--max-steps 1 --output small/o", 2, "--output small/o|bytes free");
    assert_string_equal(cli_list("small"), "");
    assert_int_equal(umount("small"), 0);
    assert_int_equal(mount("tmpfs", "small", "tmpfs", 0, "size=4m"), 0);
    cli_expect(CLI_TRAIN "--max-steps 1 --output small/o --quiet", 0, "");
    cli_expect(CLI_TRAIN "--max-steps 9 --save-every 1 --output small/p", 2, "--keep");
    assert_string_equal(cli_list("small"), "o");
    /* no more copies than there are saves */
    cli_expect(CLI_TRAIN "--max-steps 1 --save-every 1 --output small/p --quiet", 0, "");
    cli_expect(CLI_TRAIN "--max-steps 2 --save-every 3 --output small/q --quiet", 0, "");
    assert_int_equal(umount("small"), 0);
}

static int count(const char *text, const char *what) {
    int n = 0;
    for (; (text = strstr(text, what)); text++)
        n++;
    return n;
}

/* A device that is full, a size limit, a reader that has gone. */
static void a_log_that_cannot_be_written_ends_no_run(void **state) {
    (void)state;
    cli_result *r = cli_run(CLI_TRAIN "--max-steps 9 --quiet --output o --log /dev/full");
    assert_int_equal(r->code, 0);
    assert_int_equal(count(r->err, "could not be written: No space left"), 1);
    assert_int_equal(count(r->err, "lacks 9 of the run's 9 rows"), 1);
    assert_whole("o");
    cli_remove("o");
    int ends[2];
    cli_result piped;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(fcntl(ends[0], F_SETFD, FD_CLOEXEC), 0);
    char line[256];
    snprintf(line, sizeof line, CLI_TRAIN "--max-steps 300 --quiet --output o --log /dev/fd/%d",
             ends[1]);
    pid_t pid = cli_start(line);
    cli_await("o", "run.json", 1);
    close(ends[0]);
    close(ends[1]);
    cli_wait(&piped, pid);
    assert_int_equal(piped.code, 0);
    assert_int_equal(count(piped.err, "could not be written: Broken pipe"), 1);
    assert_int_equal(count(piped.err, "of the run's 300 rows"), 1);
    assert_whole("o");
}

/* A row that does not fit is left out; a shorter one after it may fit. */
static void a_log_on_a_full_disk_holds_whole_rows(void **state) {
    (void)state;
    cli_result r;
    char text[CLI_TEXT_BYTES], *save = NULL;
    json_int_t rows = 0, step = 0;
    cli_file_limit = 60000;
    pid_t pid = cli_start(CLI_TRAIN "--max-steps 400 --quiet --output o --log log.jsonl");
    cli_wait(&r, pid);
    assert_int_equal(r.code, 1); /* for the model, once all steps are done */
    assert_int_equal(count(r.err, "--log log.jsonl could not be written: File too large"), 1);
    assert_int_equal(count(r.err, "of the run's 400 rows"), 1);
    cli_read("log.jsonl", text);
    size_t n = strlen(text);
    assert_true(n > 59000 && n <= 60000 && text[n - 1] == '\n');
    for (char *w = strtok_r(text, "\n", &save); w; w = strtok_r(NULL, "\n", &save)) {
        json_t *row = json_loads(w, 0, NULL);
        assert_non_null(row);
        json_int_t next = json_integer_value(json_object_get(row, "step"));
        assert_true(next > step && (next == step + 1 || w - text > 59000));
        step = next;
        rows++;
        json_decref(row);
    }
    assert_true(rows > 20 && rows < 400);
}

/* Another program takes the room while the run is under way. */
static void a_disk_that_fills_up_leaves_earlier_checkpoints_whole(void **state) {
    (void)state;
    static char junk[1 << 16];
    cli_result r;
    int steps = 0;
    (void)mkdir("small", 0700);
    if (mount("tmpfs", "small", "tmpfs", 0, "size=8m")) skip(); /* not root */
    pid_t pid = cli_start(CLI_TRAIN "--max-steps 1000000 --save-every 4 --keep 3 --output small/o");
    cli_await("small/o", "checkpoint-", 3);
    FILE *f = fopen("small/junk", "wb");
    assert_non_null(f);
    setvbuf(f, NULL, _IONBF, 0);
    while (fwrite(junk, sizeof junk, 1, f) == 1)
        ;
    fclose(f);
    cli_wait(&r, pid);
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "error: small/o"));
    assert_false(cli_exists("small/o/model.safetensors"));
    char names[512], *save = NULL;
    snprintf(names, sizeof names, "%s", cli_list("small/o"));
    for (char *w = strtok_r(names, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
        char path[128];
        snprintf(path, sizeof path, "small/o/%s", w);
        if (strcmp(w, "run.json") == 0) continue;
        assert_int_equal(strncmp(w, "checkpoint-", 11), 0);
        assert_string_equal(cli_list(path), CLI_MODEL_FILES);
        assert_whole(path);
        steps++;
    }
    assert_true(steps >= 2);
    assert_int_equal(umount("small"), 0);
}

static int finish(void **state) { return fresh(state) || cli_teardown(state); }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_run_leaves_checkpoints_and_the_final_model_only, fresh),
        cmocka_unit_test_setup(a_checkpoint_is_the_model_after_its_step, fresh),
        cmocka_unit_test_setup(config_is_unchanged_but_for_the_dtype, fresh),
        cmocka_unit_test_setup(both_keys_of_the_dtype_follow_it, fresh),
        cmocka_unit_test_setup(a_directory_in_use_is_not_touched, fresh),
        cmocka_unit_test_setup(overwrite_replaces_an_earlier_run, fresh),
        cmocka_unit_test_setup(run_json_starts_the_same_run_again, fresh),
        cmocka_unit_test_setup(data_repeats_when_the_steps_outlast_it, fresh),
        cmocka_unit_test_setup(a_signal_stops_after_the_step_and_saves, fresh),
        cmocka_unit_test_setup(a_signal_that_was_ignored_stays_ignored, fresh),
        cmocka_unit_test_setup(a_log_that_cannot_be_written_ends_no_run, fresh),
        cmocka_unit_test_setup(a_log_on_a_full_disk_holds_whole_rows, fresh),
        cmocka_unit_test_setup(a_second_signal_of_either_kind_ends_at_once, fresh),
        cmocka_unit_test_setup(a_kill_at_any_time_leaves_no_broken_checkpoint, fresh),
        cmocka_unit_test_setup(a_write_that_fails_leaves_earlier_checkpoints_whole, fresh),
        cmocka_unit_test_setup(an_earlier_model_outlives_a_failed_save, fresh),
        cmocka_unit_test_setup(too_little_disk_is_refused_before_step_1, fresh),
        cmocka_unit_test_setup(a_disk_that_fills_up_leaves_earlier_checkpoints_whole, fresh),
    };
    return cmocka_run_group_tests(tests, cli_setup, finish);
}
