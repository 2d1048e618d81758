/* Large published tokenizers, where a folder of them lies beside the repository: the ids and texts
 * of the reference library, with room for nothing but equality. */
#include "scratch.h"
#include "tokenizer_case.h"
#include "unpack.h"

#include <unistd.h>

static void check(const char *name) {
    char dir[SCRATCH_BYTES], path[SCRATCH_BYTES], json[SCRATCH_BYTES];
    snprintf(path, sizeof path, UNPACK_TOKENIZERS "%s/tokenizer.json.xz", name);
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
    snprintf(path, sizeof path, UNPACK_TOKENIZERS "%s/expected.json", name);
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
