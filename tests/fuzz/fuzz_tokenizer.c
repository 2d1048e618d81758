/* Any bytes as a tokenizer.json, and after a NUL a text: no crash, no bad access, the ids of what
 * is accepted keep their promises, and decode one by one to what they decode to at once. Build with
 * -fsanitize=fuzzer,address,undefined, or run by test_tokenizer_corpus. */
#include "tokenizer/tokenizer.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void demand(int holds) {
    if (!holds) abort();
}

/* Token by token the same text comes, or, where rules make too much of a text's beginning, none. */
static void check_pieces(const oc_tokenizer *t, const int32_t *ids, size_t n_ids, bool skip,
                         const char *whole, size_t whole_n) {
    size_t done = 0, n;
    const char *text;
    oc_decode *d;
    demand(oc_decode_open(&d, t, skip, NULL) == OC_OK);
    for (size_t i = 0; i <= n_ids; i++) {
        oc_status s = i < n_ids ? oc_decode_put(d, ids + i, 1, &text, &n, NULL)
                                : oc_decode_end(d, &text, &n, NULL);
        demand(s == OC_OK || s == OC_E_OVERFLOW);
        if (s != OC_OK) break;
        demand(n <= whole_n - done && memcmp(text, whole + done, n) == 0);
        done += n;
        demand(i < n_ids || done == whole_n);
    }
    oc_decode_close(d);
}

static void check_decode(const oc_tokenizer *t, const int32_t *ids, size_t n, bool skip) {
    char *text = NULL;
    size_t length;
    oc_error err = {.status = OC_OK};
    oc_status s = oc_tokenizer_decode(t, ids, n, skip, &text, &length, &err);
    demand(s == OC_OK ? text != NULL && text[length] == 0 : text == NULL && err.status == s);
    if (s == OC_OK) check_pieces(t, ids, n, skip, text, length);
    free(text);
}

/* Any ids: those that the bytes of a text name. */
static void decode_any(const oc_tokenizer *t, const char *text, size_t n) {
    int32_t ids[64];
    size_t k = 0;
    for (; k < n && k < 64; k++)
        ids[k] = (int32_t)((unsigned char)text[k] * 2654435761u % (uint32_t)oc_tokenizer_vocab(t));
    for (int skip = 0; skip < 2; skip++)
        check_decode(t, ids, k, skip == 1);
}

static void check_tokens(const oc_tokenizer *t, const oc_tokens *x, size_t n) {
    for (size_t i = 0; i < x->n; i++) {
        demand(x->ids[i] >= 0 && x->ids[i] < oc_tokenizer_vocab(t) && x->starts[i] <= n);
        demand(i == 0 || x->starts[i] >= x->starts[i - 1]);
    }
    for (int skip = 0; skip < 2; skip++)
        check_decode(t, x->ids, x->n, skip == 1);
}

/* Remembered words give the same ids as fresh ones. */
static void encode_twice(const oc_tokenizer *t, const char *text, size_t n, oc_special special) {
    oc_tokens x = {0}, y = {0};
    oc_error err = {.status = OC_OK};
    oc_status s = oc_tokenizer_encode(t, text, n, special, &x, &err);
    if (s == OC_OK) {
        check_tokens(t, &x, n);
        demand(oc_tokenizer_encode(t, text, n, special, &y, &err) == OC_OK);
        demand(oc_tokenizer_encode(t, text, n, special, &y, &err) == OC_OK);
        demand(x.n == y.n && (x.n == 0 || memcmp(x.ids, y.ids, x.n * sizeof *x.ids) == 0));
    } else {
        demand(err.status == s && x.n == 0);
    }
    oc_tokens_free(&x);
    oc_tokens_free(&y);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static const char plain[] = "Ab  1<s>\xc3\xa9 e\xcc\x81\n\xff_word";
    const uint8_t *nul = n == 0 ? NULL : memchr(data, 0, n);
    size_t json_n = nul == NULL ? n : (size_t)(nul - data);
    const char *text = nul == NULL ? plain : (const char *)nul + 1;
    size_t text_n = nul == NULL ? sizeof plain - 1 : n - json_n - 1;
    char *json = malloc(json_n + 1);
    if (json == NULL) return 0;
    if (json_n > 0) memcpy(json, data, json_n);
    oc_tokenizer *t;
    oc_error err = {.status = OC_OK};
    oc_status s = oc_tokenizer_parse(&t, json, json_n, NULL, 0, "fuzz", &err);
    free(json);
    if (s == OC_OK) {
        encode_twice(t, text, text_n, OC_SPECIAL_NONE);
        encode_twice(t, text, text_n, OC_SPECIAL_ADD);
        if (oc_tokenizer_vocab(t) > 0) decode_any(t, text, text_n);
        demand(oc_tokenizer_host_bytes(t) > 0);
    } else {
        demand(t == NULL && err.status == s && strncmp(err.message, "fuzz", 4) == 0);
    }
    oc_tokenizer_close(t);
    return 0;
}
