/* Tokens to text as they come: what was given out stands, and joined it is what the reference
 * library decodes all tokens to, up to the stop. */
#include "alloc_watch.h"
#include "infer/text_stream.h"
#include "scratch.h"
#include "tokenizer_case.h"
#include "unpack.h"

#include <string.h>

enum { TEXT_MOST = 1 << 16, IDS_MOST = 64 };

static json_t *expected;

static int load(void **state) {
    (void)state;
    expected = case_json(OC_TEST_DATA "/random_ids.json");
    return 0;
}

static int unload(void **state) {
    (void)state;
    json_decref(expected);
    return 0;
}

/* --- What a stream gives */

typedef struct given {
    char text[TEXT_MOST];
    size_t n;
    int puts; /* until it stopped, or all */
    bool stopped;
} given;

static bool is_utf8(const char *s, size_t n) {
    for (size_t i = 0; i < n;) {
        unsigned char c = (unsigned char)s[i];
        size_t k = c < 0x80 ? 1 : c < 0xc2 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 0;
        if (k == 0 || k > n - i) return false;
        while (--k > 0)
            if (((unsigned char)s[++i] & 0xc0) != 0x80) return false;
        i++;
    }
    return true;
}

static void add(given *g, const char *text, size_t n) {
    assert_true(g->n + n < TEXT_MOST);
    assert_true(is_utf8(text, n));
    memcpy(g->text + g->n, text, n);
    g->n += n;
    g->text[g->n] = 0;
}

static void run(const oc_text_stream_spec *spec, const int32_t *ids, size_t n_ids, given *g) {
    oc_text_stream *s;
    oc_error err;
    const char *text;
    size_t n;
    *g = (given){0};
    if (oc_text_stream_open(&s, spec, &err) != OC_OK) fail_msg("%s", err.message);
    for (size_t i = 0; i < n_ids && !g->stopped; i++, g->puts++) {
        if (oc_text_stream_put(s, ids[i], &text, &n, &g->stopped, &err) != OC_OK)
            fail_msg("%s", err.message);
        add(g, text, n);
    }
    if (oc_text_stream_end(s, &text, &n, &g->stopped, &err) != OC_OK) fail_msg("%s", err.message);
    add(g, text, n);
    oc_text_stream_close(s);
}

static size_t read_ids(const json_t *list, int32_t ids[IDS_MOST]) {
    size_t n = json_array_size(list);
    assert_in_range(n, 1, IDS_MOST);
    for (size_t i = 0; i < n; i++)
        ids[i] = (int32_t)json_integer_value(json_array_get(list, i));
    return n;
}

static bool says(const given *g, const json_t *want, const char *what) {
    bool same =
        g->n == json_string_length(want) && memcmp(g->text, json_string_value(want), g->n) == 0;
    if (same) return true;
    print_message("%s: given out ", what);
    case_print_text(g->text, g->n);
    print_message("instead of ");
    case_print_text(json_string_value(want), json_string_length(want));
    return false;
}

/* Rows of random ids, through a stream and all at once. */
static int check_rows(const oc_tokenizer *t, const json_t *rows, const char *what) {
    static given g;
    int bad = 0;
    assert_true(json_array_size(rows) >= 10);
    for (size_t i = 0; i < json_array_size(rows); i++)
        for (int specials = 0; specials < 2; specials++) {
            const json_t *o = json_array_get(rows, i), *want = json_object_get(o, "kept");
            oc_text_stream_spec spec = {.tokenizer = t, .specials = specials};
            int32_t ids[IDS_MOST];
            oc_tokens x = {.ids = ids, .n = read_ids(json_object_get(o, "ids"), ids)};
            if (specials == 0 || json_is_null(want)) want = json_object_get(o, "skipped");
            run(&spec, ids, x.n, &g);
            bad += !says(&g, want, what) || !case_decodes(t, &x, !specials, want);
        }
    return bad;
}

static void small_tokenizers_random_ids_are_the_references(void **state) {
    const char *name;
    const json_t *rows;
    char path[SCRATCH_BYTES];
    int bad = 0, n = 0;
    (void)state;
    json_object_foreach((json_t *)(uintptr_t)json_object_get(expected, "tokenizers"), name, rows) {
        snprintf(path, sizeof path, OC_TEST_DATA "/tokenizers/%s.json", name);
        if (access(path, R_OK) != 0) continue;
        oc_tokenizer *t = case_open(path);
        bad += check_rows(t, rows, name);
        oc_tokenizer_close(t);
        n++;
    }
    assert_true(n >= 20);
    assert_int_equal(bad, 0);
}

static void large_tokenizers_random_ids_are_the_references(void **state) {
    const char *name;
    const json_t *rows;
    char dir[SCRATCH_BYTES], from[SCRATCH_BYTES], to[SCRATCH_BYTES];
    int bad = 0, n = 0;
    (void)state;
    scratch_make(dir);
    scratch_path(to, dir, "tokenizer.json");
    json_object_foreach((json_t *)(uintptr_t)json_object_get(expected, "tokenizers"), name, rows) {
        snprintf(from, sizeof from, UNPACK_TOKENIZERS "%s/tokenizer.json.xz", name);
        if (access(from, R_OK) != 0 || !unpack(from, to)) continue;
        oc_tokenizer *t = case_open(to);
        bad += check_rows(t, rows, name);
        oc_tokenizer_close(t);
        n++;
    }
    remove(to);
    rmdir(dir);
    assert_int_equal(bad, 0);
    if (n > 0) return;
    print_message("there are no large tokenizers, or no xz\n");
    skip();
}

static oc_tokenizer *with_decoder(const json_t *base, const json_t *decoder) {
    json_t *o = json_copy((json_t *)(uintptr_t)base);
    oc_tokenizer *t;
    oc_error err;
    json_object_set(o, "decoder", (json_t *)(uintptr_t)decoder);
    char *text = json_dumps(o, 0);
    if (oc_tokenizer_parse(&t, text, strlen(text), NULL, 0, "odd", &err) != OC_OK)
        fail_msg("%s", err.message);
    free(text);
    json_decref(o);
    return t;
}

static void decoders_in_any_order_are_the_references(void **state) {
    const json_t *odd = json_object_get(expected, "odd"), *list = json_object_get(odd, "decoders");
    int bad = 0;
    (void)state;
    assert_true(json_array_size(list) >= 15);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *o = json_array_get(list, i), *decoder = json_object_get(o, "decoder");
        char *what = json_dumps(decoder, JSON_COMPACT);
        oc_tokenizer *t = with_decoder(json_object_get(odd, "tokenizer"), decoder);
        bad += check_rows(t, json_object_get(o, "rows"), what);
        oc_tokenizer_close(t);
        free(what);
    }
    assert_int_equal(bad, 0);
}

/* --- The byte tokenizer: all about characters and stops */

static oc_tokenizer *bytes(void) {
    oc_tokenizer *t;
    assert_int_equal(oc_tokenizer_bytes(&t, NULL), OC_OK);
    return t;
}

static size_t ids_of(const char *text, int32_t *ids) {
    size_t n = strlen(text);
    for (size_t i = 0; i < n; i++)
        ids[i] = OC_BYTES_FIRST + (unsigned char)text[i];
    return n;
}

static void a_character_waits_for_its_last_byte(void **state) {
    static const struct {
        const char *in, *out;
        size_t at[8]; /* bytes given after each put */
    } cases[] = {
        {"a\xc3\xa9z", "a\xc3\xa9z", {1, 1, 3, 4}},
        {"\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80", {0, 0, 0, 4}},
        {"\xe2\x82x", "\xef\xbf\xbdx", {0, 0, 4}},
        {"\xffx", "\xef\xbf\xbdx", {3, 4}},
        {"\xe0\x80x", "\xef\xbf\xbd\xef\xbf\xbdx", {0, 6, 7}},
        {"\xe2\x82", "\xef\xbf\xbd", {0, 0}},
    };
    oc_tokenizer *t = bytes();
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        int32_t ids[8];
        size_t n_ids = ids_of(cases[c].in, ids), n, sum = 0;
        const char *text;
        bool stopped;
        oc_text_stream *s;
        oc_text_stream_spec spec = {.tokenizer = t};
        static given g;
        assert_int_equal(oc_text_stream_open(&s, &spec, NULL), OC_OK);
        for (size_t i = 0; i < n_ids; i++) {
            assert_int_equal(oc_text_stream_put(s, ids[i], &text, &n, &stopped, NULL), OC_OK);
            sum += n;
            assert_int_equal(sum, cases[c].at[i]);
        }
        oc_text_stream_close(s);
        run(&spec, ids, n_ids, &g);
        assert_string_equal(g.text, cases[c].out);
    }
    oc_tokenizer_close(t);
}

/* The obvious way: the stop that is whole first, and of several at once the longest. */
static bool find_stop(const char *text, const char *const *stops, int n, size_t *begin,
                      size_t *end) {
    for (*end = 1; *end <= strlen(text); ++*end) {
        *begin = SIZE_MAX;
        for (int i = 0; i < n; i++) {
            size_t k = strlen(stops[i]);
            if (k <= *end && memcmp(text + *end - k, stops[i], k) == 0 && *end - k < *begin)
                *begin = *end - k;
        }
        if (*begin != SIZE_MAX) return true;
    }
    return false;
}

static uint32_t draw(uint32_t *seed, uint32_t n) {
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) % n;
}

static void random_text(uint32_t *seed, char *out, uint32_t least, uint32_t most) {
    static const char *const letters[] = {"a", "b", "\xc3\xa9", "\xc3\xa8"};
    uint32_t n = least + draw(seed, most - least + 1);
    *out = 0;
    for (uint32_t i = 0; i < n; i++) {
        const char *letter = letters[draw(seed, 4) % (1 + draw(seed, 4))];
        memcpy(out + strlen(out), letter, strlen(letter) + 1);
    }
}

static void the_first_stop_that_is_whole_ends_it(void **state) {
    oc_tokenizer *t = bytes();
    uint32_t seed = 5;
    int found = 0;
    (void)state;
    for (int i = 0; i < 4000; i++) {
        static given g;
        char text[200], stop[4][40];
        const char *stops[4];
        int32_t ids[200], n_stops = 1 + (int32_t)draw(&seed, 4);
        size_t begin, end;
        random_text(&seed, text, 1, 40);
        for (int k = 0; k < 4; k++) {
            random_text(&seed, stop[k], 1, 7);
            stops[k] = stop[k];
        }
        oc_text_stream_spec spec = {.tokenizer = t, .stops = stops, .n_stops = n_stops};
        run(&spec, ids, ids_of(text, ids), &g);
        bool want = find_stop(text, stops, n_stops, &begin, &end);
        assert_int_equal(g.stopped, want);
        assert_int_equal(g.puts, want ? end : strlen(text));
        if (want) text[begin] = 0;
        assert_string_equal(g.text, text);
        found += want;
    }
    assert_in_range(found, 1000, 3900);
    oc_tokenizer_close(t);
}

/* With words as tokens, a stop may begin and end inside of them. */
static void stops_do_not_depend_on_where_tokens_end(void **state) {
    static const char *const stops[] = {"the sea sh", "ells", "\n\n", "machine was"};
    oc_tokenizer *t = case_open(OC_TEST_DATA "/tokenizers/gpt2.json");
    const char *text = "She saw the sea shore; in the beginning the machine was small";
    oc_tokens x = {0};
    static given g;
    (void)state;
    assert_int_equal(oc_tokenizer_encode(t, text, strlen(text), OC_SPECIAL_NONE, &x, NULL), OC_OK);
    assert_true(x.n < strlen(text) - 10);
    oc_text_stream_spec spec = {.tokenizer = t, .stops = stops, .n_stops = 4};
    run(&spec, x.ids, x.n, &g);
    assert_true(g.stopped && g.puts < (int)x.n);
    assert_string_equal(g.text, "She saw ");
    spec.stops = stops + 1;
    spec.n_stops = 3;
    run(&spec, x.ids, x.n, &g);
    assert_true(g.stopped);
    assert_string_equal(g.text, "She saw the sea shore; in the beginning the ");
    spec.n_stops = 2;
    run(&spec, x.ids, x.n, &g);
    assert_false(g.stopped);
    assert_string_equal(g.text, text);
    oc_tokens_free(&x);
    oc_tokenizer_close(t);
}

/* What is held at the end comes out, unless it is a stop. */
static void the_beginning_of_a_stop_is_text_at_the_end(void **state) {
    static const char *const stops[] = {"\n\nUser:", "\n\nU\n\n"};
    oc_tokenizer *t = bytes();
    oc_text_stream_spec spec = {.tokenizer = t, .stops = stops, .n_stops = 2};
    oc_text_stream *s;
    int32_t ids[64];
    const char *text;
    size_t n, n_ids = ids_of("ok\n\nUse", ids);
    bool stopped;
    static given g;
    (void)state;
    assert_int_equal(oc_text_stream_open(&s, &spec, NULL), OC_OK);
    for (size_t i = 0; i < n_ids; i++) {
        assert_int_equal(oc_text_stream_put(s, ids[i], &text, &n, &stopped, NULL), OC_OK);
        assert_int_equal(n, i < 2);
    }
    assert_int_equal(oc_text_stream_end(s, &text, &n, &stopped, NULL), OC_OK);
    assert_false(stopped);
    assert_int_equal(n, 5);
    assert_memory_equal(text, "\n\nUse", 5);
    oc_text_stream_close(s);
    run(&spec, ids, ids_of("a\n\nU\n\nUser:", ids), &g);
    assert_true(g.stopped && g.puts == 6);
    assert_string_equal(g.text, "a");
    run(&spec, ids, ids_of("a\n\nUs\n\n\nUser:x", ids), &g);
    assert_true(g.stopped);
    assert_string_equal(g.text, "a\n\nUs\n");
    oc_tokenizer_close(t);
}

static oc_tokenizer *of_decoder(const char *decoder) {
    json_t *d = json_loads(decoder, 0, NULL);
    oc_tokenizer *t =
        with_decoder(json_object_get(json_object_get(expected, "odd"), "tokenizer"), d);
    json_decref(d);
    return t;
}

static int32_t id(const oc_tokenizer *t, const char *text) {
    int32_t i = oc_tokenizer_find(t, text, strlen(text));
    assert_true(i >= 0);
    return i;
}

#define LLAMA                                                                                      \
    "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":"          \
    "\"\u2581\"},"                                                                                 \
    "\"content\":\" \"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},{\"type\":\"Strip\","      \
    "\"content\":\" \",\"start\":1,\"stop\":0}]}"

/* A newline of its own byte token is sure only when its run of bytes is over. */
static void a_stop_may_be_whole_only_at_the_end(void **state) {
    static const char *const stops[] = {"\n"};
    oc_tokenizer *t = of_decoder(LLAMA);
    oc_text_stream_spec spec = {.tokenizer = t, .stops = stops, .n_stops = 1};
    int32_t ids[] = {id(t, "\u2581a"), id(t, "<0x0A>"), id(t, "x")};
    static given g;
    (void)state;
    run(&spec, ids, 2, &g);
    assert_true(g.stopped && g.puts == 2);
    assert_string_equal(g.text, "a");
    run(&spec, ids, 3, &g);
    assert_true(g.stopped && g.puts == 3);
    assert_string_equal(g.text, "a");
    oc_tokenizer_close(t);
}

/* --- Prompts */

static void a_first_word_keeps_its_blank_after_a_prompt(void **state) {
    oc_tokenizer *t = of_decoder(LLAMA);
    int32_t prompt[] = {id(t, "\u2581a"), 1000, id(t, "<end>")},
            ids[] = {id(t, "\u2581a"), id(t, "b")};
    oc_text_stream_spec spec = {.tokenizer = t};
    static given g;
    (void)state;
    run(&spec, ids, 2, &g);
    assert_string_equal(g.text, "ab");
    spec.prompt = prompt;
    spec.n_prompt = 3;
    run(&spec, ids, 2, &g);
    assert_string_equal(g.text, " ab");
    oc_tokenizer_close(t);
}

/* What both together say, without the characters at its beginning that the prompt alone says. */
static size_t common(const char *a, size_t a_n, const char *b, size_t b_n) {
    size_t n = 0;
    while (n < a_n && n < b_n && a[n] == b[n])
        n++;
    while (n > 0 && n < b_n && ((unsigned char)b[n] & 0xc0) == 0x80)
        n--;
    return n;
}

static char *decoded(const oc_tokenizer *t, const int32_t *ids, size_t n_ids, size_t *n) {
    char *text;
    oc_error err;
    if (oc_tokenizer_decode(t, ids, n_ids, true, &text, n, &err) != OC_OK)
        fail_msg("%s", err.message);
    return text;
}

static void check_cuts(const oc_tokenizer *t, const int32_t *ids, size_t n_ids) {
    static given g;
    size_t whole_n, n;
    char *whole = decoded(t, ids, n_ids, &whole_n);
    for (size_t cut = 0; cut <= n_ids; cut++) {
        oc_text_stream_spec spec = {.tokenizer = t, .prompt = ids, .n_prompt = (int32_t)cut};
        char *before = decoded(t, ids, cut, &n);
        size_t from = common(before, n, whole, whole_n);
        run(&spec, ids + cut, n_ids - cut, &g);
        assert_int_equal(g.n, whole_n - from);
        assert_memory_equal(g.text, whole + from, g.n);
        free(before);
    }
    free(whole);
}

/* Of a cut U+FF01 the prompt alone says U+FFFD, which begins with the same byte. */
static void a_character_is_cut_between_prompt_and_answer(void **state) {
    oc_tokenizer *t = bytes();
    int32_t ids[64];
    (void)state;
    check_cuts(t, ids, ids_of("a\xef\xbc\x81z\xc3\xa9\xef\xbf\xbd\xf0\x9f\x98\x80\xe2\x82", ids));
    oc_tokenizer_close(t);
}

static void prompt_and_answer_are_cut_anywhere(void **state) {
    const json_t *odd = json_object_get(expected, "odd"), *list = json_object_get(odd, "decoders");
    (void)state;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *o = json_array_get(list, i), *rows = json_object_get(o, "rows");
        oc_tokenizer *t =
            with_decoder(json_object_get(odd, "tokenizer"), json_object_get(o, "decoder"));
        for (size_t r = 0; r < json_array_size(rows); r++) {
            int32_t ids[IDS_MOST];
            size_t n = read_ids(json_object_get(json_array_get(rows, r), "ids"), ids);
            check_cuts(t, ids, n);
        }
        oc_tokenizer_close(t);
    }
}

/* --- Edges */

static void ids_above_the_tokenizers_have_no_text(void **state) {
    oc_tokenizer *t = bytes();
    int32_t ids[] = {OC_BYTES_FIRST + 'a', OC_BYTES_VOCAB, INT32_MAX, OC_BYTES_FIRST + 'b', -1};
    oc_text_stream_spec spec = {.tokenizer = t};
    oc_text_stream *s;
    const char *text;
    size_t n;
    bool stopped;
    oc_error err;
    static given g;
    (void)state;
    run(&spec, ids, 4, &g);
    assert_string_equal(g.text, "ab");
    assert_int_equal(oc_text_stream_open(&s, &spec, &err), OC_OK);
    assert_int_equal(oc_text_stream_put(s, ids[4], &text, &n, &stopped, &err), OC_E_INVALID);
    oc_text_stream_close(s);
    oc_tokenizer_close(t);
}

static void an_empty_stop_is_refused(void **state) {
    static const char *const stops[] = {"a", ""};
    oc_tokenizer *t = bytes();
    oc_text_stream_spec spec = {.tokenizer = t, .stops = stops, .n_stops = 2};
    oc_text_stream *s;
    oc_error err;
    (void)state;
    assert_int_equal(oc_text_stream_open(&s, &spec, &err), OC_E_INVALID);
    assert_null(s);
    oc_tokenizer_close(t);
}

static void after_a_stop_nothing_comes(void **state) {
    static const char *const stops[] = {"b"};
    oc_tokenizer *t = bytes();
    oc_text_stream_spec spec = {.tokenizer = t, .stops = stops, .n_stops = 1};
    oc_text_stream *s;
    const char *text;
    size_t n;
    bool stopped;
    (void)state;
    assert_int_equal(oc_text_stream_open(&s, &spec, NULL), OC_OK);
    for (int i = 0; i < 3; i++) {
        const int32_t put = OC_BYTES_FIRST + "abc"[i];
        assert_int_equal(oc_text_stream_put(s, put, &text, &n, &stopped, NULL), OC_OK);
        assert_int_equal(n, i == 0);
        assert_int_equal(stopped, i > 0);
    }
    assert_int_equal(oc_text_stream_end(s, &text, &n, &stopped, NULL), OC_OK);
    assert_true(n == 0 && stopped);
    oc_text_stream_close(s);
    oc_tokenizer_close(t);
}

/* What a call looks at is what it holds, and that stops growing: once it has its room, a stream
 * allocates no more. */
static void a_long_text_holds_no_more_than_a_short_one(void **state) {
    static const char *const stops[] = {"no such text", "aab"}, *const names[] = {"gpt2", "llama2"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        char path[SCRATCH_BYTES];
        snprintf(path, sizeof path, OC_TEST_DATA "/tokenizers/%s.json", names[i]);
        oc_tokenizer *t = case_open(path);
        oc_text_stream_spec spec = {.tokenizer = t, .stops = stops, .n_stops = 2};
        oc_text_stream *s;
        const char *text;
        size_t n, sum = 0;
        bool stopped = false;
        int32_t word = id(t, i == 0 ? "\u0120the" : "\u2581the"), letter = id(t, "a");
        assert_int_equal(oc_text_stream_open(&s, &spec, NULL), OC_OK);
        for (int k = 0; k < 100000; k++) {
            if (k == 1000) alloc_watch();
            assert_int_equal(
                oc_text_stream_put(s, k % 7 ? word : letter, &text, &n, &stopped, NULL), OC_OK);
            sum += n;
        }
        unsigned long long calls = alloc_unwatch();
        if (calls > 0) alloc_print_first();
        assert_int_equal(calls, 0);
        assert_false(stopped);
        assert_in_range(sum, 300000, 400000);
        oc_text_stream_close(s);
        oc_tokenizer_close(t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_tokenizers_random_ids_are_the_references),
        cmocka_unit_test(large_tokenizers_random_ids_are_the_references),
        cmocka_unit_test(decoders_in_any_order_are_the_references),
        cmocka_unit_test(a_character_waits_for_its_last_byte),
        cmocka_unit_test(the_first_stop_that_is_whole_ends_it),
        cmocka_unit_test(stops_do_not_depend_on_where_tokens_end),
        cmocka_unit_test(the_beginning_of_a_stop_is_text_at_the_end),
        cmocka_unit_test(a_stop_may_be_whole_only_at_the_end),
        cmocka_unit_test(a_first_word_keeps_its_blank_after_a_prompt),
        cmocka_unit_test(a_character_is_cut_between_prompt_and_answer),
        cmocka_unit_test(prompt_and_answer_are_cut_anywhere),
        cmocka_unit_test(ids_above_the_tokenizers_have_no_text),
        cmocka_unit_test(an_empty_stop_is_refused),
        cmocka_unit_test(after_a_stop_nothing_comes),
        cmocka_unit_test(a_long_text_holds_no_more_than_a_short_one),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
