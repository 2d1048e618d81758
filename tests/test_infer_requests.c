/* Rows of a batch file as requests: prompts against transformers (tools/make_requests_expected.py),
 * every key, every way a row can be wrong, and files of any shape in bounded memory. */
#include "base/json.h"
#include "cmocka_all.h"
#include "infer/requests.h"
#include "scratch.h"

#include <malloc.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

static char dir[SCRATCH_BYTES], path[SCRATCH_BYTES];
static oc_tokenizer *bytes;
static oc_error error;

static const oc_requests_spec plain = {
    .path = path,
    .sampling = {.top_p = 1, .repetition_penalty = 1, .seed = 42},
    .max_tokens = 16,
    .logprobs = -1,
    .vocab = 600,
    .max_positions = 64};

static void put(const char *text, size_t n) {
    FILE *f = fopen(scratch_path(path, dir, "rows.jsonl"), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static oc_requests *opened(const oc_requests_spec *spec) {
    oc_requests *r = NULL;
    if (oc_requests_open(&r, spec, &error) != OC_OK) fail_msg("%s", error.message);
    return r;
}

static oc_requests *of_text(const char *text) {
    oc_requests_spec spec = plain;
    spec.tokenizer = bytes;
    put(text, strlen(text));
    return opened(&spec);
}

/* The next one; fails when there is none. */
static oc_request take(oc_requests *r) {
    oc_request q;
    bool more;
    if (oc_requests_next(r, &q, &more, &error) != OC_OK) fail_msg("%s", error.message);
    assert_true(more);
    return q;
}

static void no_more(oc_requests *r) {
    oc_request q;
    bool more;
    assert_int_equal(oc_requests_next(r, &q, &more, &error), OC_OK);
    assert_false(more);
    oc_requests_close(r);
}

static oc_request only(const char *text) {
    oc_requests *r = of_text(text);
    oc_request q = take(r);
    no_more(r);
    return q;
}

/* ---- prompts ---- */

static char *file_text(const char *folder, const char *name) {
    char file[512], *text;
    size_t n;
    snprintf(file, sizeof file, OC_TEST_DATA "/%s/%s", folder, name);
    FILE *f = fopen(file, "rb");
    assert_non_null(f);
    text = calloc(1, 1 << 17);
    n = fread(text, 1, (1 << 17) - 1, f);
    assert_true(n > 0);
    (void)fclose(f);
    return text;
}

static oc_tokenizer *tokenizer_of(const json_t *x) {
    char name[64];
    oc_tokenizer *t = NULL;
    snprintf(name, sizeof name, "%s.json", json_string_value(json_object_get(x, "tokenizer")));
    char *json = file_text("tokenizers", name);
    char *template = file_text("templates", json_string_value(json_object_get(x, "template")));
    json_t *config = json_deep_copy(json_object_get(x, "special"));
    json_object_set_new(config, "chat_template", json_string(template));
    char *text = json_dumps(config, 0);
    if (oc_tokenizer_parse(&t, json, strlen(json), text, strlen(text), name, &error) != OC_OK)
        fail_msg("%s", error.message);
    free(text);
    json_decref(config);
    free(template);
    free(json);
    return t;
}

static void write_rows(const json_t *rows) {
    size_t i;
    json_t *x;
    FILE *f = fopen(scratch_path(path, dir, "rows.jsonl"), "wb");
    assert_non_null(f);
    json_array_foreach(rows, i, x) {
        assert_int_equal(json_dumpf(json_object_get(x, "row"), f, JSON_COMPACT), 0);
        fputc('\n', f);
    }
    assert_int_equal(fclose(f), 0);
}

static void check_prompt(const oc_request *q, const json_t *want) {
    if (json_array_size(want) == 0) {
        assert_non_null(q->error);
        assert_non_null(strstr(q->error, "the prompt is empty"));
        return;
    }
    if (q->error) fail_msg("%s", q->error);
    assert_int_equal(q->n_ids, json_array_size(want));
    for (int32_t i = 0; i < q->n_ids; i++)
        assert_int_equal(q->ids[i], json_integer_value(json_array_get(want, (size_t)i)));
}

/* An end of sequence that the tokenizer puts behind a text (llama2's does) is left out: after it
 * there is nothing to go on from. */
static void prompts_have_the_ids_of_the_reference_but_for_a_last_eos(void **state) {
    (void)state;
    json_t *all = NULL, *x, *row;
    size_t i, j;
    assert_int_equal(oc_json_load(&all, OC_TEST_DATA "/requests.json", OC_JSON_ALLOW_NUL, &error),
                     OC_OK);
    json_array_foreach(all, i, x) {
        oc_requests_spec spec = plain;
        oc_tokenizer *t = tokenizer_of(x);
        spec.tokenizer = t;
        spec.vocab = 10000;
        spec.max_positions = 0;
        write_rows(json_object_get(x, "rows"));
        oc_requests *r = opened(&spec);
        json_array_foreach(json_object_get(x, "rows"), j, row) {
            oc_request q = take(r);
            json_t *ids = json_copy(json_object_get(row, "ids"));
            size_t n = json_array_size(ids);
            bool text = json_object_get(json_object_get(row, "row"), "prompt") != NULL;
            if (text && n > 0 &&
                json_integer_value(json_array_get(ids, n - 1)) == oc_tokenizer_eos(t))
                json_array_remove(ids, n - 1);
            assert_int_equal(q.index, j);
            check_prompt(&q, ids);
            json_decref(ids);
            oc_request_release(&q);
        }
        no_more(r);
        oc_tokenizer_close(t);
    }
    json_decref(all);
}

static void ids_are_taken_verbatim_and_prompts_of_bytes_begin_with_bos(void **state) {
    (void)state;
    oc_requests *r =
        of_text("{\"input_ids\": [7, 0, 599]}\n{\"prompt\": \"\"}\n{\"prompt\": \"A\"}\n"
                "{\"prompt\":[{\"role\":\"user\",\"content\":\"x\"}]}");
    oc_request q = take(r);
    assert_true(q.n_ids == 3 && q.ids[0] == 7 && q.ids[1] == 0 && q.ids[2] == 599 && !q.error);
    assert_true(q.max_tokens == 16 && q.sampling.seed == 42 && q.logprobs == -1);
    oc_request_release(&q);
    q = take(r);
    assert_true(q.n_ids == 1 && q.ids[0] == OC_BYTES_BOS && !q.error);
    oc_request_release(&q);
    q = take(r);
    assert_true(q.n_ids == 2 && q.ids[1] == OC_BYTES_FIRST + 'A');
    oc_request_release(&q);
    q = take(r); /* a conversation, and there is no template */
    assert_non_null(strstr(q.error, "chat template"));
    oc_request_release(&q);
    no_more(r);
}

/* ---- keys ---- */

static void a_row_sets_what_it_says_and_the_rest_is_the_command_lines(void **state) {
    (void)state;
    oc_requests_spec spec = plain;
    const char *const stops[] = {"END"};
    spec.tokenizer = bytes;
    spec.stops = stops;
    spec.n_stops = 1;
    spec.logprobs = 2;
    static const char text[] =
        "{\"prompt\":\"a\",\"custom_id\":\"x\",\"max_tokens\":5,\"max_new_tokens\":5.0,\"min_"
        "tokens\":4,"
        "\"temperature\":0.5,\"top_p\":0.25,\"top_k\":-1,\"min_p\":0.125,"
        "\"repetition_penalty\":1.5,\"presence_penalty\":-2,\"frequency_penalty\":2,\"seed\":-1,"
        "\"stop\":[\"u\",\"v\"],\"logprobs\":true,\"top_logprobs\":4,\"ignore_eos\":true,\"n\":1,"
        "\"stream\":false,\"response_format\":{\"type\":\"text\"},\"logit_bias\":{},\"user\":\"u\"}"
        "\n{\"prompt\":\"b\",\"logprobs\":false,\"stop\":null}\n{\"prompt\":\"c\",\"stop\":\"w\"}";
    put(text, strlen(text));
    oc_requests *r = opened(&spec);
    oc_request q = take(r);
    if (q.error) fail_msg("%s", q.error);
    const oc_sampling *s = &q.sampling;
    assert_string_equal(q.custom_id, "x");
    assert_true(q.max_tokens == 5 && s->least == 4 && s->temperature == 0.5 && s->top_p == 0.25 &&
                s->top_k == 0);
    assert_true(s->min_p == 0.125 && s->repetition_penalty == 1.5 && s->presence_penalty == -2);
    assert_true(s->frequency_penalty == 2 && s->seed == UINT64_MAX && q.ignore_eos);
    assert_true(q.n_stops == 2 && strcmp(q.stops[1], "v") == 0 && q.logprobs == 4);
    oc_request_release(&q);
    q = take(r);
    assert_true(q.n_stops == 1 && strcmp(q.stops[0], "END") == 0 && q.logprobs == -1);
    assert_true(q.sampling.temperature == 0 && !q.ignore_eos && q.custom_id == NULL);
    oc_request_release(&q);
    q = take(r);
    assert_true(q.n_stops == 1 && strcmp(q.stops[0], "w") == 0 && q.logprobs == 2);
    oc_request_release(&q);
    no_more(r);
}

#define CHAT "\"custom_id\":\"c\",\"method\":\"POST\",\"url\":\"/v1/chat/completions\",\"body\":"
#define TEXT "\"custom_id\":\"c\",\"method\":\"POST\",\"url\":\"/v1/completions\",\"body\":"

static void the_url_of_a_batch_row_decides_its_form(void **state) {
    (void)state;
    oc_request q = only("{" TEXT "{\"model\":\"m\",\"prompt\":[9,8],\"max_tokens\":3,"
                        "\"logprobs\":5}}");
    if (q.error) fail_msg("%s", q.error);
    assert_true(q.form == OC_REQUEST_COMPLETION && q.n_ids == 2 && q.ids[1] == 8);
    assert_true(q.max_tokens == 3 && q.logprobs == 5);
    assert_string_equal(q.custom_id, "c");
    oc_request_release(&q);
    json_t *x =
        json_pack("{s:s, s:s, s:{}}", "tokenizer", "llama3", "template", "chatml.jinja", "special");
    oc_tokenizer *t = tokenizer_of(x);
    oc_requests_spec spec = plain;
    spec.tokenizer = t;
    spec.vocab = 10000;
    spec.max_positions = 0;
    static const char rows[] =
        "{" CHAT "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],"
        "\"max_completion_tokens\":4,\"logprobs\":true,\"top_logprobs\":3}}\n"
        "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}";
    put(rows, strlen(rows));
    oc_requests *r = opened(&spec);
    oc_request a = take(r), b = take(r);
    if (a.error) fail_msg("%s", a.error);
    assert_true(a.form == OC_REQUEST_CHAT_COMPLETION && a.max_tokens == 4 && a.logprobs == 3);
    assert_true(b.form == OC_REQUEST_PLAIN && a.n_ids == b.n_ids);
    assert_memory_equal(a.ids, b.ids, (size_t)a.n_ids * sizeof *a.ids);
    oc_request_release(&a);
    oc_request_release(&b);
    no_more(r);
    oc_tokenizer_close(t);
    json_decref(x);
}

static void what_is_wrong_with_a_row_is_told_by_name_and_ends_nothing(void **state) {
    (void)state;
    static const struct {
        const char *row, *message;
    } rows[] = {
        {"{\"prompt\":\"a\"", "not valid JSON"},
        {"x[1]", "not valid JSON"},
        {"7", "the row is a"},
        {"{\"prompt\":\"a\",\"prompt\":\"b\"}", "prompt"},
        {"{\"prompt\":\"\xff\"}", "not valid JSON"},
        {"{\"prompt\":\"a\",\"seed\":99999999999999999999}", "not valid JSON"},
        {"{\"prompt\":\"a\",\"temperature\":NaN}", "not valid JSON"},
        {"{}", "a row is {\"prompt\"}"},
        {"{\"text\":\"a\"}", "a row is {\"prompt\"}"},
        {"{\"prompt\":\"a\",\"input_ids\":[1]}", "\"prompt\" and \"input_ids\""},
        {"{\"prompt\":7}", "\"prompt\" is"},
        {"{\"prompt\":[\"a\",\"b\"]}", "list of prompts"},
        {"{\"input_ids\":[]}", "the prompt is empty"},
        {"{\"input_ids\":[600]}", "600 is not in the model's vocabulary [0, 600)"},
        {"{\"input_ids\":[-1]}", "-1 is not"},
        {"{\"input_ids\":[1.5]}", "\"input_ids\"[0] is no token id"},
        {"{\"input_ids\":[4294967297]}", "\"input_ids\"[0] is no token id"},
        {"{\"input_ids\":\"a\"}", "not a list of token ids"},
        {"{\"messages\":[]}", "messages"},
        {"{\"messages\":[{\"role\":\"user\"}]}", "messages[0]"},
        {"{\"prompt\":\"a\",\"tools\":[{}]}", "\"tools\" goes with \"messages\""},
        {"{\"prompt\":\"a\",\"custom_id\":3}", "\"custom_id\" is no text"},
        {"{\"prompt\":\"a\",\"custom_id\":\"a\\u0000b\"}", "\"custom_id\" is no text without"},
        {"{\"prompt\":\"a\",\"temperature\":-0.5}", "\"temperature\" is -0.5, not a number of 0"},
        {"{\"prompt\":\"a\",\"temperature\":\"hot\"}", "\"temperature\" is \"hot\""},
        {"{\"prompt\":\"a\",\"top_p\":1.5}", "\"top_p\" is 1.5"},
        {"{\"prompt\":\"a\",\"max_tokens\":0}", "\"max_tokens\" is 0"},
        {"{\"prompt\":\"a\",\"max_tokens\":2.5}", "\"max_tokens\" is 2.5"},
        {"{\"prompt\":\"a\",\"max_tokens\":2,\"max_new_tokens\":3}", "differ"},
        {"{\"prompt\":\"a\",\"n\":2}", "\"n\" is not available"},
        {"{\"prompt\":\"a\",\"best_of\":3}", "\"best_of\" is not available"},
        {"{\"prompt\":\"a\",\"stop\":[\"\"]}", "\"stop\""},
        {"{\"prompt\":\"a\",\"stop\":\"a\\u0000\"}", "\"stop\""},
        {"{\"prompt\":\"a\",\"logprobs\":21}", "\"logprobs\" is 21"},
        {"{\"prompt\":\"a\",\"top_logprobs\":2}", "\"top_logprobs\" needs \"logprobs\""},
        {"{\"prompt\":\"a\",\"logit_bias\":{\"5\":1}}", "\"logit_bias\" is not available"},
        {"{\"prompt\":\"a\",\"min_tokens\":17}",
         "at least 17 tokens are asked for, and at most 16"},
        {"{\"prompt\":\"a\",\"min_tokens\":-1}", "\"min_tokens\" is -1, not a whole number"},
        {"{\"prompt\":\"a\",\"min_tokens\":2,\"min_new_tokens\":3}", "differ"},
        {"{" TEXT "{\"prompt\":\"a\",\"stream\":true}}", "\"stream\" is not available"},
        {"{" TEXT "{\"prompt\":\"a\",\"logprobs\":true}}", "\"logprobs\" is true"},
        {"{" TEXT "{\"prompt\":\"a\",\"messages\":[]}}", "\"messages\" is no key of a completion"},
        {"{" TEXT "{\"messages\":[]}}", "the body has no \"prompt\""},
        {"{" TEXT "{\"prompt\":\"a\",\"response_format\":{\"type\":\"json_object\"}}}",
         "\"response_format\" is not available"},
        {"{" CHAT "{\"messages\":[],\"logprobs\":3}}", "\"logprobs\" is 3, not true or false"},
        {"{" CHAT "{\"messages\":[],\"tool_choice\":\"required\"}}", "\"tool_choice\" is not"},
        {"{" CHAT "7}", "\"body\" is"},
        {"{\"method\":\"POST\",\"url\":\"/v1/completions\",\"body\":{\"prompt\":\"a\"}}",
         "no \"custom_id\""},
        {"{\"custom_id\":\"a\",\"method\":\"GET\",\"url\":\"/v1/completions\",\"body\":{}}",
         "\"method\""},
        {"{\"custom_id\":\"a\",\"method\":\"POST\",\"url\":\"/v1/embeddings\",\"body\":{}}",
         "\"/v1/embeddings\""},
        {"{\"prompt\":\"0123456789012345678901234567890123456789012345678901234567890123\"}",
         "the prompt has 65 tokens, and a sequence at most 64"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[1024];
        snprintf(text, sizeof text, "\n%s\r\n \n{\"prompt\":\"z\"}\n", rows[i].row);
        oc_requests *r = of_text(text);
        oc_request q = take(r);
        if (!q.error) fail_msg("%s: no error", rows[i].row);
        if (!strstr(q.error, rows[i].message) || !strstr(q.error, "rows.jsonl:2"))
            fail_msg("%s: \"%s\"", rows[i].row, q.error);
        assert_true(q.index == 0 && q.n_ids == 0 && q.ids == NULL);
        oc_request_release(&q);
        q = take(r);
        assert_true(q.index == 1 && !q.error && q.n_ids == 2);
        oc_request_release(&q);
        no_more(r);
    }
}

static void an_answer_is_cut_to_what_positions_leave(void **state) {
    (void)state;
    oc_request q = only("{\"prompt\":\"0123456789\",\"max_tokens\":1000}");
    assert_int_equal(q.max_tokens, 64 - 11);
    oc_request_release(&q);
}

static void keys_without_a_meaning_are_counted_and_one_is_named(void **state) {
    (void)state;
    const char *first;
    oc_requests *r = of_text("{\"prompt\":\"a\"}\n{\"id\":3,\"prompt\":\"a\",\"b\":null}\n"
                             "{\"prompt\":\"a\",\"answer\":3}");
    for (int i = 0; i < 3; i++) {
        oc_request q = take(r);
        assert_null(q.error);
        oc_request_release(&q);
        assert_int_equal(oc_requests_unknown(r, &first), i);
        if (i > 0) assert_string_equal(first, "id");
    }
    no_more(r);
}

/* ---- files ---- */

static void a_file_is_lines_or_one_array_with_or_without_a_mark(void **state) {
    (void)state;
    static const char *const texts[] = {
        "{\"prompt\":\"a\"}\n{\"prompt\":\"b\"}",
        "\xef\xbb\xbf\n\n{\"prompt\":\"a\"}\r\n\r\n{\"prompt\":\"b\"}\n\n",
        "[{\"prompt\":\"a\"},{\"prompt\":\"b\"}]",
        "\xef\xbb\xbf [\n{\"prompt\":\"a\"}\n,\n{\"prompt\":\"b\"} ]\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        oc_requests *r = of_text(texts[i]);
        for (int k = 0; k < 2; k++) {
            oc_request q = take(r);
            if (q.error) fail_msg("%zu: %s", i, q.error);
            assert_true(q.n_ids == 2 && q.ids[1] == OC_BYTES_FIRST + 'a' + k);
            assert_int_equal(q.index, k);
            oc_request_release(&q);
        }
        no_more(r);
    }
    oc_request q;
    bool more;
    oc_requests *r = of_text("[{\"prompt\":\"a\"}");
    assert_int_equal(oc_requests_next(r, &q, &more, &error), OC_E_FORMAT);
    assert_false(more);
    oc_requests_close(r);
    no_more(of_text(""));
    no_more(of_text("\n \n"));
    no_more(of_text("[]"));
}

static void gz(const char *text, size_t n, size_t keep) {
    gzFile f = gzopen(scratch_path(path, dir, "rows.jsonl"), "wb");
    assert_non_null(f);
    assert_int_equal(gzwrite(f, text, (unsigned)n), n);
    assert_int_equal(gzclose(f), Z_OK);
    if (keep > 0) assert_int_equal(truncate(path, (off_t)keep), 0);
}

static void a_compressed_file_is_read_and_a_damaged_one_ends_the_run(void **state) {
    (void)state;
    static const char text[] = "{\"prompt\":\"a\"}\n{\"prompt\":\"b\"}\n";
    oc_requests_spec spec = plain;
    spec.tokenizer = bytes;
    gz(text, strlen(text), 0);
    oc_requests *r = opened(&spec);
    for (int i = 0; i < 2; i++) {
        oc_request q = take(r);
        assert_null(q.error);
        oc_request_release(&q);
    }
    no_more(r);
    gz(text, strlen(text), 20);
    oc_request q;
    bool more = true;
    oc_status s = oc_requests_open(&r, &spec, &error);
    while (s == OC_OK && more) {
        s = oc_requests_next(r, &q, &more, &error);
        if (more) oc_request_release(&q);
    }
    assert_int_equal(s, OC_E_FORMAT);
    assert_non_null(strstr(error.message, "rows.jsonl"));
    oc_requests_close(r);
}

/* 256 MiB of one line in a small file; the memory is that of the limit. */
static void write_long(bool array) {
    enum { MIB = 1 << 20, MANY = 256 };
    char *block = malloc(MIB);
    gzFile f = gzopen(scratch_path(path, dir, "rows.jsonl"), "wb1");
    assert_non_null(f);
    memset(block, 'x', MIB);
    gzputs(f,
           array ? "[{\"prompt\":\"a\"},\n{\"prompt\":\"" : "{\"prompt\":\"a\"}\n{\"prompt\":\"");
    for (int i = 0; i < MANY; i++)
        assert_int_equal(gzwrite(f, block, MIB), MIB);
    gzputs(f, array ? "\"},{\"prompt\":\"b\"}]" : "\"}\n{\"prompt\":\"b\"}");
    assert_int_equal(gzclose(f), Z_OK);
    free(block);
}

static void a_row_of_any_length_is_an_error_in_bounded_memory(void **state) {
    (void)state;
    for (int array = 0; array < 2; array++) {
        oc_requests_spec spec = plain;
        spec.tokenizer = bytes;
        spec.max_row_bytes = 1 << 20;
        write_long(array);
        oc_requests *r = opened(&spec);
        size_t before = mallinfo2().uordblks + mallinfo2().hblkhd, most = before;
        for (int i = 0; i < 3; i++) {
            oc_request q = take(r);
            size_t now = mallinfo2().uordblks + mallinfo2().hblkhd;
            if (now > most) most = now;
            assert_int_equal(q.index, i);
            assert_true((q.error != NULL) == (i == 1));
            if (i == 1) assert_non_null(strstr(q.error, array ? "rows.jsonl:2" : "rows.jsonl:2"));
            if (i == 2) assert_int_equal(q.ids[1], OC_BYTES_FIRST + 'b');
            oc_request_release(&q);
        }
        no_more(r);
#ifndef __SANITIZE_ADDRESS__
        if (most - before > 8 << 20) fail_msg("%zu bytes", most - before);
#endif
    }
}

static void rows_are_skipped_without_a_look_and_surveyed_without_being_taken(void **state) {
    (void)state;
    static const char text[] =
        "{\"prompt\":\"a\"}\n\nbroken\n{\"prompt\":\"abc\",\"max_tokens\":2}\n"
        "{\"prompt\":\"d\"}\n";
    oc_requests_survey x;
    oc_requests_spec spec = plain;
    spec.tokenizer = bytes;
    oc_requests *r = of_text(text);
    assert_int_equal(oc_requests_survey_file(&spec, 100, &x, &error), OC_OK);
    assert_true(x.rows == 4 && x.errors == 1 && x.whole && x.longest_prompt == 4);
    assert_true(x.longest_total == 18 && x.mean_prompt == 8.0 / 3);
    assert_int_equal(oc_requests_survey_file(&spec, 2, &x, &error), OC_OK);
    assert_true(x.rows == 2 && !x.whole && x.longest_prompt == 2);
    oc_request q = take(r);
    assert_true(q.index == 0 && q.n_ids == 2);
    oc_request_release(&q);
    assert_int_equal(oc_requests_skip(r, 2, &error), OC_OK);
    q = take(r);
    assert_true(q.index == 3 && q.ids[1] == OC_BYTES_FIRST + 'd');
    oc_request_release(&q);
    no_more(r);
    r = of_text(text);
    assert_int_equal(oc_requests_skip(r, 5, &error), OC_E_INVALID);
    assert_non_null(strstr(error.message, "has 4 rows, and 5 are answered"));
    oc_requests_close(r);
}

static int make(void **state) {
    (void)state;
    scratch_make(dir);
    return oc_tokenizer_bytes(&bytes, &error) == OC_OK ? 0 : -1;
}

static int clear(void **state) {
    (void)state;
    oc_tokenizer_close(bytes);
    (void)unlink(path);
    return rmdir(dir);
}

/* ---- rows to be scored ---- */

static oc_requests *pairs_of(const char *text, const oc_tokenizer *t) {
    oc_requests_spec spec = plain;
    spec.tokenizer = t;
    spec.vocab = 1000;
    spec.pairs = true;
    put(text, strlen(text));
    return opened(&spec);
}

static oc_tokenizer *data_tokenizer(const char *name) {
    char folder[128];
    oc_tokenizer *t = NULL;
    snprintf(folder, sizeof folder, "data/%s", name);
    char *json = file_text(folder, "tokenizer.json");
    char *config = file_text(folder, "tokenizer_config.json");
    if (oc_tokenizer_parse(&t, json, strlen(json), config, strlen(config), name, &error) != OC_OK)
        fail_msg("%s", error.message);
    free(json);
    free(config);
    return t;
}

/* As in training but for the end of the sequence, unless the text has it. */
static bool check_pair(const oc_tokenizer *t, const json_t *x) {
    const json_t *ids = json_object_get(x, "ids"), *labels = json_object_get(x, "labels");
    char *text = json_dumps(json_object_get(x, "row"), JSON_COMPACT);
    if (!strstr(text, "\"completion\"")) {
        free(text);
        return false;
    }
    oc_requests *r = pairs_of(text, t);
    oc_request q = take(r);
    bool ends = strstr(text, "<|im_end|>\"}") || strstr(text, "</s>\"}");
    size_t n = json_array_size(ids) - !ends, context = 0;
    while (json_integer_value(json_array_get(labels, context)) == -100)
        context++;
    if (q.error) fail_msg("%s", q.error);
    if ((size_t)q.n_ids != n || (size_t)q.n_context != context)
        fail_msg("%s: %d of %d tokens before the completion", text, q.n_context, q.n_ids);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(q.ids[i], json_integer_value(json_array_get(ids, i)));
    oc_request_release(&q);
    no_more(r);
    free(text);
    return true;
}

static void completions_begin_where_training_has_them_begin(void **state) {
    json_t *all = NULL, *kind, *row;
    size_t i, k;
    int pairs = 0;
    (void)state;
    assert_int_equal(oc_json_load(&all, OC_TEST_DATA "/data/rows.json", OC_JSON_ALLOW_NUL, &error),
                     OC_OK);
    json_array_foreach(all, i, kind) {
        oc_tokenizer *t = data_tokenizer(json_string_value(json_object_get(kind, "tokenizer")));
        json_array_foreach(json_object_get(kind, "rows"), k, row) pairs += check_pair(t, row);
        oc_tokenizer_close(t);
    }
    assert_int_equal(pairs, 18);
    json_decref(all);
}

static oc_request only_pair(const char *text) {
    oc_requests *r = pairs_of(text, bytes);
    oc_request q = take(r);
    no_more(r);
    return q;
}

static void a_first_token_stands_behind_the_beginning_of_a_sequence(void **state) {
    (void)state;
    static const char *const rows[] = {"{\"prompt\": \"\", \"completion\": \"ab\"}",
                                       "{\"prompt\": [], \"completion\": [100, 101]}"};
    for (int i = 0; i < 2; i++) {
        oc_request q = only_pair(rows[i]);
        assert_null(q.error);
        assert_true(q.n_ids == 3 && q.n_context == 1);
        assert_true(q.ids[0] == oc_tokenizer_bos(bytes) && q.ids[1] == 100);
        oc_request_release(&q);
    }
}

static void rows_that_are_no_pairs_say_so(void **state) {
    static const char *const rows[][2] = {
        {"{\"prompt\": \"a\"}", "a row to score is"},
        {"{\"completion\": \"a\"}", "a row to score is"},
        {"{\"prompt\": \"a\", \"messages\": [], \"completion\": \"b\"}", "a row to score is"},
        {"{\"prompt\": \"a\", \"completion\": 7}", "\"completion\" is an integer"},
        {"{\"prompt\": [7], \"completion\": \"b\"}", "\"completion\" is a string"},
        {"{\"prompt\": [7], \"completion\": [1.5]}", "\"completion\"[0] is no token id"},
        {"{\"prompt\": [7], \"completion\": [5000]}", "token id 5000 is not"},
        {"{\"method\": \"POST\", \"url\": \"/v1/completions\"}", "a row to score is"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        oc_request q = only_pair(rows[i][0]);
        if (!q.error || !strstr(q.error, rows[i][1]))
            fail_msg("%s: %s", rows[i][0], q.error ? q.error : "no error");
        oc_request_release(&q);
    }
    char longest[600];
    snprintf(longest, sizeof longest, "{\"prompt\": \"%0100d\", \"completion\": \"b\"}", 0);
    oc_request q = only_pair(longest);
    assert_non_null(strstr(q.error, "102 tokens, and a sequence at most 64"));
    oc_request_release(&q);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(completions_begin_where_training_has_them_begin),
        cmocka_unit_test(a_first_token_stands_behind_the_beginning_of_a_sequence),
        cmocka_unit_test(rows_that_are_no_pairs_say_so),
        cmocka_unit_test(prompts_have_the_ids_of_the_reference_but_for_a_last_eos),
        cmocka_unit_test(ids_are_taken_verbatim_and_prompts_of_bytes_begin_with_bos),
        cmocka_unit_test(a_row_sets_what_it_says_and_the_rest_is_the_command_lines),
        cmocka_unit_test(the_url_of_a_batch_row_decides_its_form),
        cmocka_unit_test(what_is_wrong_with_a_row_is_told_by_name_and_ends_nothing),
        cmocka_unit_test(an_answer_is_cut_to_what_positions_leave),
        cmocka_unit_test(keys_without_a_meaning_are_counted_and_one_is_named),
        cmocka_unit_test(a_file_is_lines_or_one_array_with_or_without_a_mark),
        cmocka_unit_test(a_compressed_file_is_read_and_a_damaged_one_ends_the_run),
        cmocka_unit_test(a_row_of_any_length_is_an_error_in_bounded_memory),
        cmocka_unit_test(rows_are_skipped_without_a_look_and_surveyed_without_being_taken),
    };
    return cmocka_run_group_tests(tests, make, clear);
}
