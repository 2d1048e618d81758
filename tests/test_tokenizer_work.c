/* What encoding costs and where it says tokens start, on texts made to be hard: the work is counted
 * in bytes and symbols looked at, and must grow with the text, not with its square. */
#include "tokenizer/internal.h"
#include "tokenizer_case.h"

#define DATA OC_TEST_DATA "/tokenizers/"

enum { SMALL = 1 << 14, LARGE = 1 << 18 };

/* --- Linear work */

static void repeat(char *text, size_t n, const char *unit) {
    size_t k = strlen(unit);
    for (size_t i = 0; i < n; i++)
        text[i] = unit[i % k];
}

static uint64_t work_of(const oc_tokenizer *t, const char *text, size_t n) {
    oc_tokens x = {0};
    oc_error err;
    if (oc_tokenizer_encode(t, text, n, OC_SPECIAL_ADD, &x, &err) != OC_OK)
        fail_msg("%s", err.message);
    uint64_t work = oc_tk_work(&x);
    oc_tokens_free(&x);
    return work;
}

/* Letters in no order, so that no word is remembered and few pairs merge. */
static void scramble(char *text, size_t n) {
    uint32_t state = 1;
    for (size_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        text[i] = (char)('a' + (state >> 24) % 26);
    }
}

static void works_in_proportion_to_the_text(void **state) {
    (void)state;
    static const char *const names[] = {"llama3", "gpt2",      "qwen",       "llama2",
                                        "gemma",  "all_flags", "meta_first", "words"};
    static const char *const units[] = {"a",
                                        " ",
                                        "\n",
                                        "<",
                                        "0",
                                        "<|begin|",
                                        "<|end|>",
                                        "\xe4\xb8\xad",
                                        "\xff",
                                        "\xcc\x81\xcc\xa3",
                                        " a",
                                        "<|endoftext|> \n",
                                        "\xe2\x96\x81",
                                        "word left right  both ",
                                        NULL};
    char *text = malloc(LARGE);
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        char path[300];
        snprintf(path, sizeof path, DATA "%s.json", names[k]);
        oc_tokenizer *t = case_open(path);
        for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
            if (units[i] != NULL)
                repeat(text, LARGE, units[i]);
            else
                scramble(text, LARGE);
            uint64_t small = work_of(t, text, SMALL), large = work_of(t, text, LARGE);
            /* 16 times the text; a heap's logarithm grows from 14 to 18. */
            if (large > 16 * small * 18 / 14 + 1000 || large > 64 * (uint64_t)LARGE)
                fail_msg("%s, \"%s\": %llu for %d bytes, %llu for %d", names[k],
                         units[i] != NULL ? units[i] : "letters", (unsigned long long)small, SMALL,
                         (unsigned long long)large, LARGE);
        }
        oc_tokenizer_close(t);
    }
    free(text);
}

/* --- Where tokens start */

static oc_tokenizer *inline_tokenizer(const char *json) {
    oc_tokenizer *t;
    oc_error err;
    if (oc_tokenizer_parse(&t, json, strlen(json), NULL, 0, "T", &err) != OC_OK)
        fail_msg("%s", err.message);
    return t;
}

typedef struct placed {
    int32_t id;
    size_t start;
} placed;

static void expect(const oc_tokenizer *t, const char *text, size_t n, const placed *want,
                   size_t count) {
    oc_tokens x = {0};
    oc_error err;
    if (oc_tokenizer_encode(t, text, n, OC_SPECIAL_ADD, &x, &err) != OC_OK)
        fail_msg("%s", err.message);
    assert_int_equal(x.n, count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(x.ids[i], want[i].id);
        assert_int_equal(x.starts[i], want[i].start);
    }
    oc_tokens_free(&x);
}

#define VOCAB                                                                                      \
    "\"model\":{\"type\":\"BPE\",\"unk_token\":\"?\",\"vocab\":{\"?\":0,\"a\":1,\"b\":2,"          \
    "\"\xc3\xa9\":3,\"_\":4,\"ab\":5,\"i\":6,\"f\":7,\"\xef\xbf\xbd\":8,\"_a\":9,\"<s>\":10},"     \
    "\"merges\":[\"a b\",[\"_\",\"a\"]]}"
#define BOS                                                                                        \
    "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":"           \
    "{\"id\":\"<s>\",\"type_id\":0}},{\"Sequence\":{\"id\":\"A\",\"type_id\":0}},"                 \
    "{\"SpecialToken\":{\"id\":\"<s>\",\"type_id\":0}}],\"pair\":[],\"special_tokens\":"           \
    "{\"<s>\":{\"id\":\"<s>\",\"ids\":[10],\"tokens\":[\"<s>\"]}}},"

static void points_at_bytes_of_the_text_given(void **state) {
    (void)state;
    oc_tokenizer *t = inline_tokenizer(
        "{" BOS "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Strip\","
        "\"strip_left\":true,\"strip_right\":true},{\"type\":\"NFKC\"},{\"type\":\"Prepend\","
        "\"prepend\":\"_\"},{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":"
        "\"_\"},{\"type\":\"Replace\",\"pattern\":{\"String\":\"z\"},\"content\":\"ba\"}]}," VOCAB
        "}");
    /* Around an empty text. */
    expect(t, "", 0, (placed[]){{10, 0}, {10, 0}}, 2);
    /* "  " stripped, "_a" begins with the "a" at 2; e with a combining acute is one; the ligature
     * is two letters from one place. */
    expect(t, "  ab e\xcc\x81\xef\xac\x81 a ", 14,
           (placed[]){{10, 0}, {4, 2}, {5, 2}, {4, 4}, {3, 5}, {7, 8}, {6, 8}, {9, 11}, {10, 14}},
           9);
    /* What replaces a letter came from that letter, all of it. */
    expect(t, "bzb", 3, (placed[]){{10, 0}, {4, 0}, {2, 0}, {2, 1}, {5, 1}, {10, 3}}, 6);
    /* Bytes that are no UTF-8: "\xe2\x82" is one sign, "\xff" another, as Python's
     * errors="replace". */
    expect(t,
           "a\xe2\x82"
           "b\xff\xff"
           "a",
           7, (placed[]){{10, 0}, {9, 0}, {8, 1}, {2, 3}, {8, 4}, {8, 5}, {1, 6}, {10, 7}}, 8);
    oc_tokenizer_close(t);
}

/* Every byte of a byte-level tokenizer's text belongs to the token that starts last before it. */
static void byte_level_tokens_tile_the_text(void **state) {
    (void)state;
    oc_tokenizer *t = case_open(DATA "gpt2.json");
    json_t *texts = case_json(DATA "texts.json");
    oc_tokens x = {0};
    size_t i, checked = 0;
    json_t *v;
    json_array_foreach(texts, i, v) {
        const char *s = json_string_value(v);
        size_t n = json_string_length(v);
        assert_int_equal(oc_tokenizer_encode(t, s, n, OC_SPECIAL_NONE, &x, NULL), OC_OK);
        for (size_t k = 0; k < x.n; k++) {
            size_t end = k + 1 < x.n ? x.starts[k + 1] : n, length;
            char *text;
            assert_int_equal(oc_tokenizer_decode(t, x.ids + k, 1, false, &text, &length, NULL),
                             OC_OK);
            if (strstr(text, "\xef\xbf\xbd") == NULL) {
                assert_int_equal(length, end - x.starts[k]);
                assert_memory_equal(text, s + x.starts[k], length);
                checked++;
            }
            free(text);
        }
        if (n > 0) assert_int_equal(x.starts[0], 0);
    }
    assert_true(checked > 5000);
    oc_tokens_free(&x);
    json_decref(texts);
    oc_tokenizer_close(t);
}

/* The same ids whether a word is met for the first time or remembered, and whatever cut or heap
 * does: a text of all texts, forwards twice. */
static void remembers_only_what_is_right(void **state) {
    (void)state;
    static const char *const names[] = {"llama3", "llama2", "half_bytes", "meta_never"};
    json_t *texts = case_json(DATA "texts.json");
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        char path[300];
        snprintf(path, sizeof path, DATA "%s.json", names[k]);
        oc_tokenizer *t = case_open(path);
        oc_tokens warm = {0};
        for (int round = 0; round < 2; round++)
            for (size_t i = 0; i < json_array_size(texts); i++) {
                const json_t *v = json_array_get(texts, i);
                const char *s = json_string_value(v);
                size_t n = json_string_length(v);
                oc_tokens cold = {0};
                assert_int_equal(oc_tokenizer_encode(t, s, n, OC_SPECIAL_NONE, &warm, NULL), OC_OK);
                if (i % 8 == 0) {
                    assert_int_equal(oc_tokenizer_encode(t, s, n, OC_SPECIAL_NONE, &cold, NULL),
                                     OC_OK);
                    assert_int_equal(warm.n, cold.n);
                    if (cold.n > 0)
                        assert_memory_equal(warm.ids, cold.ids, cold.n * sizeof *cold.ids);
                }
                oc_tokens_free(&cold);
            }
        oc_tokens_free(&warm);
        oc_tokenizer_close(t);
    }
    json_decref(texts);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(works_in_proportion_to_the_text),
        cmocka_unit_test(points_at_bytes_of_the_text_given),
        cmocka_unit_test(byte_level_tokens_tile_the_text),
        cmocka_unit_test(remembers_only_what_is_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
