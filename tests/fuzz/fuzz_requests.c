/* Any bytes as a batch file: no crash, no bad access; every row is a request within the promised
 * limits or an error, its result is a row that says its index, and skipping rows finds the same
 * ones. Build with -fsanitize=fuzzer,address,undefined, or run by test_infer_corpus. */
#include "infer/requests.h"
#include "infer/result.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { VOCAB = 120, POSITIONS = 40, ROW_BYTES = 2000 };

static oc_tokenizer *tokenizer; /* of all runs */

static void demand(bool holds) {
    if (!holds) abort();
}

/* The bytes as tokens, with a chat template. */
static void make_tokenizer(void) {
    static const char config[] =
        "{\"chat_template\": \"{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
        "{% if add_generation_prompt %}[assistant]{% endif %}\"}";
    char json[16384], *p = json, *end = json + sizeof json;
    p += snprintf(p, (size_t)(end - p),
                  "{\"version\":\"1.0\",\"added_tokens\":[],\"model\":{"
                  "\"type\":\"BPE\",\"merges\":[],\"byte_fallback\":true,"
                  "\"unk_token\":\"<0x00>\",\"vocab\":{");
    for (int i = 0; i < 256; i++)
        p += snprintf(p, (size_t)(end - p), "%s\"<0x%02X>\":%d", i ? "," : "", (unsigned)i, i);
    p += snprintf(p, (size_t)(end - p), "}}}");
    oc_error err;
    oc_status s = oc_tokenizer_parse(&tokenizer, json, (size_t)(p - json), config,
                                     sizeof config - 1, "fuzz", &err);
    if (s != OC_OK) fprintf(stderr, "%s\n", err.message);
    demand(s == OC_OK);
}

static void check(const oc_request *q) {
    static const oc_answer answer = {.text = "a",
                                     .n_text = 1,
                                     .finish_reason = "stop",
                                     .prompt_tokens = 1,
                                     .completion_tokens = 1};
    const oc_result_style style = {"m", NULL, 1};
    char *row;
    size_t n;
    uint64_t index;
    bool pair = q->n_context > 0;
    demand(q->error != NULL || pair || (q->n_ids > 0 && q->max_tokens > 0));
    demand(q->n_ids + (q->error || pair ? 0 : q->max_tokens) <= POSITIONS);
    demand(q->n_context >= 0 && (q->error != NULL || q->n_context <= q->n_ids));
    demand(q->logprobs >= -1 && q->logprobs <= 20);
    for (int32_t i = 0; i < q->n_ids; i++)
        demand(q->ids[i] >= 0 && q->ids[i] < VOCAB);
    demand(oc_result_row(&row, &n, &style, q, q->error ? NULL : &answer, NULL) == OC_OK);
    demand(n > 0 && memchr(row, '\n', n) == row + n - 1);
    demand(oc_result_index(row, n - 1, &index) && index == q->index);
    free(row);
}

/* *whole: the file was read to its end. */
static uint64_t read_all(const oc_requests_spec *spec, bool *whole) {
    oc_requests *r;
    oc_request q;
    bool more = true;
    uint64_t rows = 0;
    *whole = false;
    if (oc_requests_open(&r, spec, NULL) != OC_OK) return 0;
    while (more && oc_requests_next(r, &q, &more, NULL) == OC_OK) {
        *whole = !more;
        if (!more) break;
        demand(q.index == rows++);
        check(&q);
        oc_request_release(&q);
    }
    oc_requests_close(r);
    return rows;
}

static void check_skip(const oc_requests_spec *spec, uint64_t rows) {
    oc_requests *r;
    oc_request q;
    bool more = true;
    demand(oc_requests_open(&r, spec, NULL) == OC_OK);
    demand(oc_requests_skip(r, rows, NULL) == OC_OK);
    demand(oc_requests_next(r, &q, &more, NULL) == OC_OK && !more);
    demand(oc_requests_skip(r, 1, NULL) != OC_OK);
    oc_requests_close(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    char path[64];
    bool whole;
    if (tokenizer == NULL) make_tokenizer();
    snprintf(path, sizeof path, "/tmp/oc-fuzz-requests-%ld", (long)getpid());
    oc_requests_spec spec = {.path = path,
                             .tokenizer = tokenizer,
                             .sampling = {.top_p = 1, .repetition_penalty = 1},
                             .max_tokens = 9,
                             .logprobs = -1,
                             .vocab = VOCAB,
                             .max_positions = POSITIONS,
                             .max_row_bytes = ROW_BYTES};
    FILE *f = fopen(path, "wb");
    demand(f != NULL && fwrite(data, 1, n, f) == n && fclose(f) == 0);
    uint64_t rows = read_all(&spec, &whole);
    if (whole) check_skip(&spec, rows);
    spec.pairs = true;
    demand(read_all(&spec, &whole) == rows || !whole);
    unlink(path);
    return 0;
}
