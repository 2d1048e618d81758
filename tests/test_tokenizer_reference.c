/* Small tokenizers of every kind give, on texts of all kinds, the ids and the decoded text of the
 * reference library. tools/make_tokenizer_expected.py wrote what is expected. */
#include "tokenizer_case.h"

#define DATA OC_TEST_DATA "/tokenizers/"

static const char *const names[] = {
    "all_flags",  "behaviors", "bytes_first", "cl100k",     "deepseek",
    "flags",      "gemma",     "gpt2",        "half_bytes", "half_bytes_unfused",
    "llama2",     "llama3",    "meta_always", "meta_first", "meta_first_whole",
    "meta_never", "o200k",     "qwen",        "roberta",    "spaces",
    "words"};

static json_t *texts;

static json_t *expected_of(const char *name) {
    char path[300];
    snprintf(path, sizeof path, DATA "%s.expected.json", name);
    return case_json(path);
}

static oc_tokenizer *tokenizer_of(const char *name) {
    char path[300];
    snprintf(path, sizeof path, DATA "%s.json", name);
    return case_open(path);
}

static int failures_of(const char *name) {
    oc_tokenizer *t = tokenizer_of(name);
    json_t *e = expected_of(name), *ids = json_object_get(e, "ids");
    const json_t *before = json_object_get(e, "before"), *after = json_object_get(e, "after");
    oc_tokens x = {0};
    int bad = 0;
    assert_int_equal(json_array_size(ids), json_array_size(texts));
    for (size_t i = 0; i < json_array_size(texts); i++) {
        const json_t *text = json_array_get(texts, i), *want = json_array_get(ids, i);
        const json_t *skipped = json_array_get(json_object_get(e, "skipped"), i);
        const json_t *kept = json_array_get(json_object_get(e, "kept"), i);
        if (json_is_null(skipped)) skipped = text;
        if (json_is_null(kept)) kept = skipped;
        bool good = case_encodes(t, &x, text, OC_SPECIAL_NONE, NULL, want, NULL);
        good = case_encodes(t, &x, text, OC_SPECIAL_ADD, before, want, after) && good;
        good = case_decodes(t, &x, true, skipped) && good;
        bad += !(case_decodes(t, &x, false, kept) && good);
    }
    oc_tokens_free(&x);
    json_decref(e);
    oc_tokenizer_close(t);
    return bad;
}

static void gives_the_ids_and_texts_of_the_reference(void **state) {
    (void)state;
    int bad = 0;
    assert_true(json_array_size(texts) >= 500);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        int n = failures_of(names[i]);
        if (n > 0) print_message("%s: %d texts differ\n", names[i], n);
        bad += n;
    }
    assert_int_equal(bad, 0);
}

/* The reference library counts whole characters; we the byte. It does not put the starts of marks
 * that normalization moved in order. */
static bool starts_agree(const json_t *text, const oc_tokens *x, const json_t *want) {
    const char *s = json_string_value(text);
    json_int_t least = 0;
    if (x->n != json_array_size(want)) return false;
    for (size_t i = 0; i < x->n; i++) {
        json_int_t from = json_integer_value(json_array_get(json_array_get(want, i), 0));
        size_t at = x->starts[i];
        while (at > 0 && at < json_string_length(text) && ((unsigned char)s[at] & 0xc0) == 0x80)
            at--;
        if (from < least) return true;
        least = from;
        if ((json_int_t)at != from) return false;
    }
    return true;
}

static void says_where_tokens_start_as_the_reference(void **state) {
    (void)state;
    static const char *const some[] = {"qwen", "roberta", "llama2", "gemma", "meta_first", "words"};
    size_t compared = 0;
    int bad = 0;
    for (size_t k = 0; k < sizeof some / sizeof some[0]; k++) {
        oc_tokenizer *t = tokenizer_of(some[k]);
        json_t *e = expected_of(some[k]), *starts = json_object_get(e, "starts");
        oc_tokens x = {0};
        for (size_t i = 0; i < json_array_size(starts); i++) {
            const json_t *text = json_array_get(texts, i);
            /* Hundreds of marks on one letter: their order is all that the test would see. */
            if (strncmp(json_string_value(text), "e\xcc\x81\xcc\xa3", 5) == 0) continue;
            assert_int_equal(oc_tokenizer_encode(t, json_string_value(text),
                                                 json_string_length(text), OC_SPECIAL_NONE, &x,
                                                 NULL),
                             OC_OK);
            compared += x.n;
            if (starts_agree(text, &x, json_array_get(starts, i))) continue;
            print_message("%s: other starts for ", some[k]);
            case_print_text(json_string_value(text), json_string_length(text));
            bad++;
        }
        oc_tokens_free(&x);
        json_decref(e);
        oc_tokenizer_close(t);
    }
    assert_true(compared > 5000);
    assert_int_equal(bad, 0);
}

/* Words are remembered in the oc_tokens: going from one tokenizer to another must forget them. */
static void one_buffer_serves_many_tokenizers(void **state) {
    (void)state;
    static const char *const some[] = {"llama3", "gpt2", "llama2", "llama3", "gemma", "gpt2"};
    oc_tokens x = {0};
    int bad = 0;
    for (size_t k = 0; k < sizeof some / sizeof some[0]; k++) {
        oc_tokenizer *t = tokenizer_of(some[k]);
        json_t *e = expected_of(some[k]), *ids = json_object_get(e, "ids");
        for (size_t i = 0; i < json_array_size(texts); i++)
            bad += !case_encodes(t, &x, json_array_get(texts, i), OC_SPECIAL_NONE, NULL,
                                 json_array_get(ids, i), NULL);
        json_decref(e);
        oc_tokenizer_close(t);
    }
    oc_tokens_free(&x);
    assert_int_equal(bad, 0);
}

static void finds_every_token_by_its_text(void **state) {
    (void)state;
    size_t found = 0;
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        char path[300];
        snprintf(path, sizeof path, DATA "%s.json", names[k]);
        json_t *root = case_json(path), *v;
        oc_tokenizer *t = tokenizer_of(names[k]);
        json_t *vocab = json_object_get(json_object_get(root, "model"), "vocab");
        json_int_t most = 0;
        const char *key;
        json_object_foreach(vocab, key, v) {
            if (strlen(key) == 0) continue;
            assert_int_equal(oc_tokenizer_find(t, key, strlen(key)), json_integer_value(v));
            if (json_integer_value(v) > most) most = json_integer_value(v);
            found++;
        }
        size_t i;
        json_array_foreach(json_object_get(root, "added_tokens"), i, v) {
            const json_t *text = json_object_get(v, "content");
            json_int_t id = json_integer_value(json_object_get(v, "id"));
            assert_int_equal(
                oc_tokenizer_find(t, json_string_value(text), json_string_length(text)), id);
            if (id > most) most = id;
        }
        assert_int_equal(oc_tokenizer_vocab(t), most + 1);
        assert_int_equal(oc_tokenizer_find(t, "no such token", 13), -1);
        assert_true(oc_tokenizer_host_bytes(t) > 5000);
        json_decref(root);
        oc_tokenizer_close(t);
    }
    assert_true(found > 5000);
}

static int load_texts(void **state) {
    (void)state;
    texts = case_json(DATA "texts.json");
    return 0;
}

static int drop_texts(void **state) {
    (void)state;
    json_decref(texts);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_the_ids_and_texts_of_the_reference),
        cmocka_unit_test(says_where_tokens_start_as_the_reference),
        cmocka_unit_test(one_buffer_serves_many_tokenizers),
        cmocka_unit_test(finds_every_token_by_its_text),
    };
    return cmocka_run_group_tests(tests, load_texts, drop_texts);
}
