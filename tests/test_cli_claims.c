/* What a run writes is its own: no file that it reads, by whatever name, and no file of another
 * run; and a run that is refused leaves nothing. */
#include "cli_case.h"

#include <sys/mount.h>
#include <sys/stat.h>

static const char *const leftovers[] = {"o", "other", "l", "t", "p", "bound"};

static int fresh(void **state) {
    (void)state;
    cli_seconds = 0;
    (void)umount2("bound", MNT_DETACH); /* of a test that failed */
    for (size_t i = 0; i < sizeof leftovers / sizeof *leftovers; i++)
        cli_remove(leftovers[i]);
    return 0;
}

static int set_up(void **state) {
    if (cli_setup(state)) return -1;
    cli_make_model("k");
    cli_text("ds.json", "{\"gradient_clipping\": 0.5}");
    return 0;
}

#define FROM_K                                                                                     \
    "train --model k --data d.txt --eval-data e.txt --config ds.json --seq-length 32 --threads 1 " \
    "--max-steps 1 --quiet --output o "

static const char *const inputs[] = {
    "k/config.json", "k/model.safetensors", "k/tokenizer.json", "d.txt", "e.txt", "ds.json"};
static const char *const options[] = {"--log", "--trace"};

enum { NAME_BYTES = 128 };

OC_PRINTF(2, 3) static bool name_is(char *out, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(out, NAME_BYTES, fmt, ap);
    va_end(ap);
    return n > 0 && n < NAME_BYTES;
}

/* Each makes another name of a file: *out. false: not possible here. */
static bool as_it_is(char *out, const char *path) { return name_is(out, "%s", path) > 0; }
static bool by_dots(char *out, const char *path) { return name_is(out, "./k/../%s", path) > 0; }
static bool by_hard_link(char *out, const char *path) {
    remove("l");
    return name_is(out, "l") && link(path, "l") == 0;
}
static bool by_soft_link(char *out, const char *path) {
    remove("l");
    return name_is(out, "l") && symlink(path, "l") == 0;
}
static bool by_links_on_the_way(char *out, const char *path) {
    remove("l");
    return name_is(out, "l/%s", path) && symlink(".", "l") == 0;
}
static bool by_a_mount_of_the_file(char *out, const char *path) {
    cli_text("bound", "");
    return name_is(out, "bound") && mount(path, "bound", NULL, MS_BIND, NULL) == 0;
}
static bool by_a_mount_of_its_directory(char *out, const char *path) {
    const char *slash = strrchr(path, '/');
    (void)mkdir("bound", 0700);
    (void)name_is(out, "bound/%s", slash ? slash + 1 : path);
    return mount(slash ? "k" : ".", "bound", NULL, MS_BIND, NULL) == 0;
}
static bool (*const names[])(char *out, const char *path) = {as_it_is,
                                                             by_dots,
                                                             by_hard_link,
                                                             by_soft_link,
                                                             by_links_on_the_way,
                                                             by_a_mount_of_the_file,
                                                             by_a_mount_of_its_directory};

static void log_and_trace_are_no_inputs_by_any_name(void **state) {
    (void)state;
    char line[512], name[NAME_BYTES];
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        for (size_t i = 0; i < 2 * sizeof inputs / sizeof *inputs; i++) {
            const char *path = inputs[i / 2];
            long long bytes = cli_bytes(path);
            fresh(NULL);
            if (!names[n](name, path)) continue; /* mounts need root */
            snprintf(line, sizeof line, FROM_K "%s %s", options[i % 2], name);
            cli_expect(line, 2, "would overwrite");
            assert_int_equal(cli_bytes(path), bytes);
            assert_string_equal(cli_list("o"), "absent");
        }
    }
}

/* As in the cache of Hugging Face: the model is links into another directory. */
static void a_model_of_links_is_not_written_over(void **state) {
    (void)state;
    static const char *const files[] = {"config.json", "model.safetensors", "tokenizer.json"};
    char line[256], name[64], blob[64];
    assert_int_equal(mkdir("p", 0700), 0);
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "p/%s", files[i]);
        snprintf(blob, sizeof blob, "../k/%s", files[i]);
        assert_int_equal(symlink(blob, name), 0);
    }
    for (int i = 0; i < 6; i++) {
        snprintf(line, sizeof line, "train --model p --data d.txt --max-steps 1 --output o %s k/%s",
                 options[i % 2], files[i / 2]);
        cli_expect(line, 2, "a file of --model");
    }
    cli_expect("eval --model p --data d.txt --trace k/model.safetensors", 2, "a file of --model");
    cli_expect("eval --model k --data d.txt --seq-length 32 --quiet", 0, "");
}

static void the_output_holds_no_input(void **state) {
    (void)state;
    cli_expect(CLI_TRAIN "--max-steps 2 --save-every 1 --output o", 0, "");
    cli_text("o/checkpoint-1/d.txt", "a text to train on, and to evaluate as well\n");
#define OVER " --max-steps 1 --seq-length 32 --overwrite --output o"
    cli_expect("train --init m --data o/checkpoint-1/d.txt" OVER, 2, "--output o|d.txt");
    cli_expect("train --init m --data o/checkpoint-1" OVER, 2, "--output o|o/checkpoint-1");
    cli_expect("train --init m --data d.txt --eval-data o/checkpoint-1/d.txt" OVER, 2, "d.txt");
    cli_expect("train --init m --data d.txt --tokenizer o/checkpoint-1" OVER, 2, "--tokenizer");
    cli_text("o/checkpoint-1/ds.json", "{}");
    cli_expect("train --init m --data d.txt --config o/checkpoint-1/ds.json" OVER, 2, "--config");
    assert_int_equal(symlink("o", "l"), 0);
    cli_expect("train --model l --data d.txt" OVER, 2, "--output o");
    cli_expect("train --model l/checkpoint-1 --data d.txt" OVER, 2, "--output");
    cli_expect("train --init m --data l/checkpoint-1/d.txt" OVER, 2, "--output o");
    (void)mkdir("bound", 0700);
    if (mount("o", "bound", NULL, MS_BIND, NULL) == 0) {
        cli_expect("train --model bound --data d.txt" OVER, 2, "--output o");
        cli_expect("train --init bound/config.json --data d.txt" OVER, 2, "--output o");
        cli_expect("train --init m --data bound/checkpoint-1/d.txt" OVER, 2, "--output o");
        assert_int_equal(umount("bound"), 0);
        assert_int_equal(mount("o/checkpoint-1", "bound", NULL, MS_BIND, NULL), 0);
        cli_expect("train --model bound --data d.txt" OVER, 2, "--output o");
        cli_expect("train --init m --data bound/d.txt" OVER, 2, "--output o");
        assert_int_equal(umount("bound"), 0);
    }
    assert_true(cli_exists("o/checkpoint-1/d.txt") && cli_exists("o/checkpoint-2"));
    cli_text("o/mine.txt", "a text of the user's\n");
    cli_expect("train --init m --data o/mine.txt" OVER, 0, "");
    cli_expect("train --config o/run.json --overwrite", 0, "");
}

static void a_file_is_of_one_run_at_a_time(void **state) {
    (void)state;
    cli_result r;
    char before[CLI_TEXT_BYTES], line[256];
    static const char *const clashes[] = {"--log l",   "--log ./l", "--trace l", "--log t",
                                          "--trace t", "--log h",   "--log s"};
    cli_seconds = 120;
    pid_t pid = cli_start(CLI_TRAIN "--max-steps 1000000 --quiet --output o --log l --trace t");
    for (int i = 0; i < 6000 && cli_bytes("l") <= 0; i++)
        cli_sleep_ms(10);
    assert_int_equal(link("l", "h"), 0);
    assert_int_equal(symlink("t", "s"), 0);
    for (size_t i = 0; i < sizeof clashes / sizeof *clashes; i++) {
        snprintf(line, sizeof line, CLI_TRAIN "--max-steps 1 --output other %s", clashes[i]);
        cli_expect(line, 2, "another run|--");
        assert_string_equal(cli_list("other"), "absent");
    }
    cli_child = pid;
    assert_int_equal(kill(pid, SIGTERM), 0);
    cli_wait(&r, pid);
    assert_int_equal(r.code, 143);
    cli_read("l", before);
    int rows = 0;
    for (char *save = NULL, *w = strtok_r(before, "\n", &save); w;
         w = strtok_r(NULL, "\n", &save)) {
        json_t *row = json_loads(w, 0, NULL);
        assert_int_equal(json_integer_value(json_object_get(row, "step")), ++rows);
        json_decref(row);
    }
    cli_expect(CLI_TRAIN "--max-steps 1 --output other --log l --trace t", 0, "");
    remove("h");
    remove("s");
}

static void a_refused_run_leaves_nothing(void **state) {
    (void)state;
    static const char *const reasons[] = {"--model broken", "--init m --host-memory 1MiB",
                                          "--init m --data none.txt", "--init m --eval-data no"};
    char line[256], all[2048];
    (void)mkdir("broken", 0700);
    cli_text("broken/config.json", cli_config);
    cli_text("broken/model.safetensors", "no tensors");
    cli_text("stdout", "");
    cli_text("stderr", "");
    snprintf(all, sizeof all, "%s", cli_list("."));
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
        snprintf(line, sizeof line,
                 "train --tokenizer bytes --data d.txt --max-steps 1 --output p/q/o --log p/q/o/l "
                 "--trace t %s",
                 reasons[i]);
        cli_expect(line, 2, "");
        assert_string_equal(cli_list("."), all);
    }
    cli_expect("eval --tokenizer bytes --model broken --data d.txt --trace t", 2, "");
    assert_string_equal(cli_list("."), all);
    /* what was there stays as it was */
    cli_text("t", "mine");
    cli_expect("train --tokenizer bytes --model broken --data d.txt --max-steps 1 --output o "
               "--log l --trace t",
               2, "");
    assert_int_equal(cli_bytes("t"), 4);
    assert_false(cli_exists("l") || cli_exists("o"));
    cli_remove("broken");
}

/* A run that is refused while another starts takes nothing from it. */
static void a_refused_run_takes_nothing_from_another(void **state) {
    (void)state;
    cli_result r;
    (void)mkdir("broken", 0700);
    cli_text("broken/config.json", cli_config);
    cli_text("broken/model.safetensors", "no tensors");
    cli_seconds = 60;
    for (int round = 0; round < 40; round++) {
        cli_remove("o");
        cli_remove("l");
        pid_t bad = cli_start("train --tokenizer bytes --model broken --data d.txt --max-steps 1 "
                              "--output o --log l --quiet");
        cli_sleep_ms(round % 10);
        cli_result *good = cli_run(CLI_TRAIN "--max-steps 1 --output o --log l --quiet");
        assert_true(good->code == 0 || good->code == 2);
        if (good->code == 0) assert_true(cli_exists("o/model.safetensors") && cli_bytes("l") > 0);
        cli_wait(&r, bad);
        assert_int_equal(r.code, 2);
        /* the one that makes it may not be the one that gets it: then an empty one may stay */
        if (good->code != 0) assert_true(!cli_exists("o") || !*cli_list("o"));
    }
    cli_remove("broken");
}

static int finish(void **state) { return fresh(state) || cli_teardown(state); }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(log_and_trace_are_no_inputs_by_any_name, fresh),
        cmocka_unit_test_setup(a_model_of_links_is_not_written_over, fresh),
        cmocka_unit_test_setup(the_output_holds_no_input, fresh),
        cmocka_unit_test_setup(a_file_is_of_one_run_at_a_time, fresh),
        cmocka_unit_test_setup(a_refused_run_leaves_nothing, fresh),
        cmocka_unit_test_setup(a_refused_run_takes_nothing_from_another, fresh),
    };
    return cmocka_run_group_tests(tests, set_up, finish);
}
