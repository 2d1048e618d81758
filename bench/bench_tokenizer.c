/* bench_tokenizer - how fast a tokenizer.json opens, and a text becomes ids, on one thread.
 *
 * usage: bench_tokenizer DIR TEXT-FILE [rounds]
 *
 * The text is encoded in documents of about 4 KB, as training data are, and once whole. The first
 * round fills the cache of words and is not counted; medians are printed. */
#include "base/fs.h"
#include "bench_util.h"
#include "tokenizer/tokenizer.h"

#include <stdio.h>
#include <string.h>

enum { ROUNDS_MAX = 99, DOCUMENT_BYTES = 4096 };

static int fail(const oc_error *err) {
    fprintf(stderr, "%s\n", err->message);
    return 1;
}

/* Bytes up to the end of the line that holds byte DOCUMENT_BYTES. */
static size_t document(const char *text, size_t n) {
    if (n <= DOCUMENT_BYTES) return n;
    const char *end = memchr(text + DOCUMENT_BYTES, '\n', n - DOCUMENT_BYTES);
    return end ? (size_t)(end - text) + 1 : n;
}

static oc_status encode(const oc_tokenizer *t, const char *text, size_t n, bool whole,
                        oc_tokens *out, size_t *ids, oc_error *err) {
    *ids = 0;
    for (size_t at = 0, part; at < n; at += part) {
        part = whole ? n : document(text + at, n - at);
        OC_TRY(oc_tokenizer_encode(t, text + at, part, OC_SPECIAL_NONE, out, err));
        *ids += out->n;
    }
    return OC_OK;
}

static oc_status rate(const oc_tokenizer *t, const char *text, size_t n, bool whole, int rounds,
                      oc_error *err) {
    double seconds[ROUNDS_MAX];
    oc_tokens out = {0};
    size_t ids = 0;
    for (int r = -1; r < rounds; r++) {
        double start = bench_now();
        oc_status s = encode(t, text, n, whole, &out, &ids, err);
        if (s != OC_OK) {
            oc_tokens_free(&out);
            return s;
        }
        if (r >= 0) seconds[r] = bench_now() - start;
    }
    oc_tokens_free(&out);
    printf("%s %.2f MB/s %zu ids\n", whole ? "whole" : "documents",
           (double)n * 1e-6 / bench_median(seconds, rounds), ids);
    return OC_OK;
}

int main(int argc, char **argv) {
    int rounds = argc > 3 ? atoi(argv[3]) : 5;
    if (argc < 3 || rounds < 1 || rounds > ROUNDS_MAX) {
        fprintf(stderr, "usage: bench_tokenizer DIR TEXT-FILE [rounds]\n");
        return 2;
    }
    oc_error err;
    double seconds[ROUNDS_MAX];
    oc_tokenizer *t = NULL;
    for (int r = -1; r < rounds; r++) {
        oc_tokenizer_close(t);
        t = NULL;
        double start = bench_now();
        if (oc_tokenizer_open(&t, argv[1], &err) != OC_OK) return fail(&err);
        if (r >= 0) seconds[r] = bench_now() - start;
    }
    printf("open %.4f s\n", bench_median(seconds, rounds));
    char *text = NULL;
    size_t n = 0;
    oc_status s = oc_fs_read(&text, &n, argv[2], SIZE_MAX, &err);
    for (int whole = 0; whole < 2 && s == OC_OK; whole++)
        s = rate(t, text, n, whole, rounds, &err);
    free(text);
    oc_tokenizer_close(t);
    return s == OC_OK ? 0 : fail(&err);
}
