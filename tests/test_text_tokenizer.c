/* The byte tokenizer: 0 pad, 1 bos, 2 eos, 3 + byte; and its tokenizer.json, whose vocabulary must
 * be GPT-2's byte-to-unicode table (tools/check_tokenizer.py loads it with the reference library).
 */
#include "text/tokenizer.h"
#include "text_util.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void encodes_every_byte(void **state) {
    (void)state;
    oc_tokenizer *t;
    unsigned char text[256];
    int32_t ids[258];
    size_t n;
    assert_int_equal(oc_tokenizer_bytes(&t, NULL), OC_OK);
    assert_int_equal(oc_tokenizer_vocab(t), 259);
    assert_int_equal(oc_tokenizer_pad(t), 0);
    assert_int_equal(oc_tokenizer_bos(t), 1);
    assert_int_equal(oc_tokenizer_eos(t), 2);
    assert_int_equal(oc_tokenizer_bound(t, 256), 258);
    assert_int_equal(oc_tokenizer_bound(t, SIZE_MAX), SIZE_MAX);
    for (int i = 0; i < 256; i++)
        text[i] = (unsigned char)i;
    assert_int_equal(oc_tokenizer_encode(t, (const char *)text, 256, true, ids, &n, NULL), OC_OK);
    assert_int_equal(n, 258);
    assert_int_equal(ids[0], 1);
    assert_int_equal(ids[257], 2);
    for (int i = 0; i < 256; i++)
        assert_int_equal(ids[1 + i], 3 + i);
    assert_int_equal(oc_tokenizer_encode(t, (const char *)text, 256, false, ids, &n, NULL), OC_OK);
    assert_int_equal(n, 256);
    assert_int_equal(ids[0], 3);
    assert_int_equal(ids[255], 258);
    assert_int_equal(oc_tokenizer_encode(t, "", 0, true, ids, &n, NULL), OC_OK);
    assert_int_equal(n, 2);
    assert_int_equal(oc_tokenizer_encode(t, "", 0, false, ids, &n, NULL), OC_OK);
    assert_int_equal(n, 0);
    assert_true(oc_tokenizer_host_bytes(t) > 0);
    oc_tokenizer_close(t);
    oc_tokenizer_close(NULL);
}

static json_t *load(const char *dir, const char *name) {
    char path[300];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(root);
    unlink(path);
    return root;
}

static void saves_the_gpt2_byte_alphabet(void **state) {
    (void)state;
    /* Pairs from GPT-2's published vocabulary: space, newline, tab, NUL, DEL, soft hyphen. */
    static const struct {
        const char *symbol;
        int byte;
    } known[] = {{"\xc4\xa0", ' '},  {"\xc4\x8a", '\n'}, {"\xc4\x89", '\t'}, {"\xc4\x80", 0},
                 {"\xc4\xa1", 0x7f}, {"\xc5\x83", 0xad}, {"!", '!'},         {"~", '~'},
                 {"\xc2\xa1", 0xa1}, {"\xc3\xbf", 0xff}, {"a", 'a'}};
    text_dir d;
    oc_tokenizer *t;
    text_dir_init(&d);
    assert_int_equal(oc_tokenizer_bytes(&t, NULL), OC_OK);
    assert_int_equal(oc_tokenizer_save(t, d.dir, NULL), OC_OK);
    json_t *root = load(d.dir, "tokenizer.json"), *config = load(d.dir, "tokenizer_config.json");
    json_t *vocab = json_object_get(json_object_get(root, "model"), "vocab");
    assert_int_equal(json_object_size(vocab), 259);
    bool seen[259] = {false};
    const char *key;
    json_t *v;
    json_object_foreach(vocab, key, v) {
        json_int_t id = json_integer_value(v);
        assert_in_range(id, 0, 258);
        assert_false(seen[id]);
        seen[id] = true;
    }
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        assert_int_equal(json_integer_value(json_object_get(vocab, known[i].symbol)),
                         3 + known[i].byte);
    json_t *added = json_object_get(root, "added_tokens");
    static const char *const keys[] = {"pad_token", "bos_token", "eos_token"};
    assert_int_equal(json_array_size(added), 3);
    for (size_t i = 0; i < 3; i++) {
        json_t *a = json_array_get(added, i);
        const char *content = json_string_value(json_object_get(a, "content"));
        assert_int_equal(json_integer_value(json_object_get(a, "id")), i);
        assert_string_equal(json_string_value(json_object_get(config, keys[i])), content);
        assert_int_equal(json_integer_value(json_object_get(vocab, content)), i);
    }
    json_decref(root);
    json_decref(config);
    oc_error err = {0};
    assert_int_not_equal(oc_tokenizer_save(t, "/nowhere", &err), OC_OK);
    assert_non_null(strstr(err.message, "/nowhere"));
    oc_tokenizer_close(t);
    text_dir_release(&d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(encodes_every_byte),
        cmocka_unit_test(saves_the_gpt2_byte_alphabet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
