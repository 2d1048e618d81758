/* Large published tokenizers, where a folder of them lies beside the repository: the ids and texts
 * of the reference library, with room for nothing but equality. */
#include "scratch.h"
#include "tokenizer_case.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

#define SHARED OC_TEST_DATA "/../../../shared/data/tokenizers/"

/* from.xz becomes the file `to`. */
static bool unpack(const char *from, const char *to) {
    char xz[] = "xz", flags[] = "-dc", path[SCRATCH_BYTES];
    snprintf(path, sizeof path, "%s", from);
    char *const argv[] = {xz, flags, path, NULL};
    posix_spawn_file_actions_t a;
    pid_t pid;
    int status = -1;
    posix_spawn_file_actions_init(&a);
    posix_spawn_file_actions_addopen(&a, 1, to, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (posix_spawnp(&pid, "xz", &a, NULL, argv, environ) == 0) waitpid(pid, &status, 0);
    posix_spawn_file_actions_destroy(&a);
    return status == 0;
}

static void check(const char *name) {
    char dir[SCRATCH_BYTES], path[SCRATCH_BYTES], json[SCRATCH_BYTES];
    snprintf(path, sizeof path, SHARED "%s/tokenizer.json.xz", name);
    if (access(path, R_OK) != 0) {
        print_message("%s is not there\n", path);
        skip();
    }
    scratch_make(dir);
    scratch_path(json, dir, "tokenizer.json");
    if (!unpack(path, json)) {
        remove(json);
        rmdir(dir);
        print_message("xz is not there\n");
        skip();
    }
    oc_tokenizer *t = case_open(json);
    remove(json);
    rmdir(dir);
    snprintf(path, sizeof path, SHARED "%s/expected.json", name);
    json_t *rows = case_json(path), *row;
    oc_tokens x = {0};
    size_t i;
    int bad = 0;
    assert_true(json_array_size(rows) >= 20);
    json_array_foreach(rows, i, row) {
        const json_t *text = json_object_get(row, "text"), *full;
        full = json_object_get(row, "ids_with_special");
        bad += !case_encodes(t, &x, text, OC_SPECIAL_NONE, NULL, json_object_get(row, "ids"), NULL);
        bad += !case_encodes(t, &x, text, OC_SPECIAL_ADD, NULL, full, NULL);
        bad += !case_decodes(t, &x, true, json_object_get(row, "decoded"));
    }
    oc_tokens_free(&x);
    json_decref(rows);
    oc_tokenizer_close(t);
    assert_int_equal(bad, 0);
}

static void llama3_1(void **state) {
    (void)state;
    check("llama3_1");
}

static void qwen3(void **state) {
    (void)state;
    check("qwen3");
}

static void sentencepiece_32k(void **state) {
    (void)state;
    check("sentencepiece_32k");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama3_1),
        cmocka_unit_test(qwen3),
        cmocka_unit_test(sentencepiece_32k),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
