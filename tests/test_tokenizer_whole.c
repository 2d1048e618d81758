/* The byte tokenizer: 0 pad, 1 bos, 2 eos, 3 + byte; and its tokenizer.json, whose vocabulary must
 * be GPT-2's byte-to-unicode table (tools/check_tokenizer.py loads it with the reference library).
 */
#include "text_util.h"
#include "tokenizer/tokenizer.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void encodes_every_byte(void **state) {
    (void)state;
    oc_tokenizer *t;
    oc_tokens x = {0};
    unsigned char text[256];
    assert_int_equal(oc_tokenizer_bytes(&t, NULL), OC_OK);
    assert_int_equal(oc_tokenizer_vocab(t), 259);
    assert_int_equal(oc_tokenizer_pad(t), 0);
    assert_int_equal(oc_tokenizer_bos(t), 1);
    assert_int_equal(oc_tokenizer_eos(t), 2);
    assert_true(oc_tokenizer_pieces(t));
    assert_null(oc_tokenizer_chat_template(t, true));
    for (int i = 0; i < 256; i++)
        text[i] = (unsigned char)i;
    const char *bytes = (const char *)text;
    assert_int_equal(oc_tokenizer_encode(t, bytes, 256, OC_SPECIAL_ADD, &x, NULL), OC_OK);
    assert_int_equal(x.n, 258);
    assert_int_equal(x.ids[0], 1);
    assert_int_equal(x.starts[0], 0);
    assert_int_equal(x.ids[257], 2);
    assert_int_equal(x.starts[257], 256);
    for (size_t i = 0; i < 256; i++) {
        assert_int_equal(x.ids[1 + i], 3 + i);
        assert_int_equal(x.starts[1 + i], i);
    }
    assert_int_equal(oc_tokenizer_encode(t, bytes, 256, OC_SPECIAL_NONE, &x, NULL), OC_OK);
    assert_int_equal(x.n, 256);
    assert_int_equal(x.ids[0], 3);
    assert_int_equal(x.ids[255], 258);
    assert_int_equal(oc_tokenizer_encode(t, "", 0, OC_SPECIAL_ADD, &x, NULL), OC_OK);
    assert_int_equal(x.n, 2);
    assert_int_equal(oc_tokenizer_encode(t, "", 0, OC_SPECIAL_NONE, &x, NULL), OC_OK);
    assert_int_equal(x.n, 0);
    assert_true(oc_tokenizer_host_bytes(t) > 0);
    oc_tokens_free(&x);
    oc_tokens_free(NULL);
    oc_tokenizer_close(t);
    oc_tokenizer_close(NULL);
}

static void expect_text(const oc_tokenizer *t, const int32_t *ids, size_t n, bool skip,
                        const char *want) {
    char *text;
    size_t length;
    assert_int_equal(oc_tokenizer_decode(t, ids, n, skip, &text, &length, NULL), OC_OK);
    assert_int_equal(length, strlen(want));
    assert_string_equal(text, want);
    free(text);
}

static void decodes_what_is_no_utf8_as_python_does(void **state) {
    (void)state;
    oc_tokenizer *t;
    assert_int_equal(oc_tokenizer_bytes(&t, NULL), OC_OK);
    /* b"a\xe2\x82b\xff\xed\xa0\x80".decode(errors="replace") */
    const int32_t ids[] = {1,        3 + 'a',  3 + 0xe2, 3 + 0x82, 3 + 'b',
                           3 + 0xff, 3 + 0xed, 3 + 0xa0, 3 + 0x80, 2};
    const char *const text = "a\xef\xbf\xbd"
                             "b\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd";
    char marked[64], *out = NULL;
    size_t n;
    snprintf(marked, sizeof marked, "<|bos|>%s<|eos|>", text);
    expect_text(t, ids, 10, true, text);
    expect_text(t, ids, 10, false, marked);
    oc_error err = {0};
    const int32_t wrong[] = {259, -1};
    for (int i = 0; i < 2; i++)
        assert_int_equal(oc_tokenizer_decode(t, wrong + i, 1, true, &out, &n, &err), OC_E_INVALID);
    assert_non_null(strstr(err.message, "-1"));
    assert_null(out);
    assert_int_equal(oc_tokenizer_find(t, "<|eos|>", 7), 2);
    assert_int_equal(oc_tokenizer_find(t, "a", 1), 3 + 'a');
    assert_int_equal(oc_tokenizer_find(t, "\xc4\xa0", 2), 3 + ' ');
    assert_int_equal(oc_tokenizer_find(t, " ", 1), -1);
    oc_tokenizer_close(t);
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
    oc_tokenizer *again;
    assert_int_equal(oc_tokenizer_save(t, d.dir, NULL), OC_OK);
    assert_int_equal(oc_tokenizer_open(&again, d.dir, NULL), OC_OK);
    assert_true(oc_tokenizer_pieces(again));
    assert_int_equal(oc_tokenizer_vocab(again), 259);
    oc_tokenizer_close(again);
    char file[300];
    snprintf(file, sizeof file, "%s/tokenizer.json", d.dir);
    unlink(file);
    snprintf(file, sizeof file, "%s/tokenizer_config.json", d.dir);
    unlink(file);
    oc_error err = {0};
    assert_int_not_equal(oc_tokenizer_save(t, "/nowhere", &err), OC_OK);
    assert_non_null(strstr(err.message, "/nowhere"));
    oc_tokenizer_close(t);
    text_dir_release(&d);
}

/* Ours is known by all that it says: with another version it is a tokenizer like any other. */
static void takes_only_its_own_file_for_the_byte_tokenizer(void **state) {
    (void)state;
    text_dir d;
    oc_tokenizer *t;
    text_dir_init(&d);
    assert_int_equal(oc_tokenizer_bytes(&t, NULL), OC_OK);
    assert_int_equal(oc_tokenizer_save(t, d.dir, NULL), OC_OK);
    oc_tokenizer_close(t);
    json_t *root = load(d.dir, "tokenizer.json");
    json_decref(load(d.dir, "tokenizer_config.json"));
    for (int other = 0; other < 2; other++) {
        if (other) json_object_set_new(root, "version", json_string("2.0"));
        char *text = json_dumps(root, 0);
        assert_int_equal(oc_tokenizer_parse(&t, text, strlen(text), NULL, 0, "T.json", NULL),
                         OC_OK);
        assert_int_equal(oc_tokenizer_pieces(t), !other);
        assert_int_equal(oc_tokenizer_vocab(t), 259);
        oc_tokenizer_close(t);
        free(text);
    }
    json_decref(root);
    text_dir_release(&d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(encodes_every_byte),
        cmocka_unit_test(decodes_what_is_no_utf8_as_python_does),
        cmocka_unit_test(saves_the_gpt2_byte_alphabet),
        cmocka_unit_test(takes_only_its_own_file_for_the_byte_tokenizer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
