/* tokenizer_case.h - tokenizers from files of tests/data/tokenizers, and what they must give. */
#ifndef OC_TESTS_TOKENIZER_CASE_H
#define OC_TESTS_TOKENIZER_CASE_H

#include "cmocka_all.h"
#include "tokenizer/tokenizer.h"

#include <jansson.h>
#include <string.h>

static inline char *case_read(const char *path, size_t *n) {
    FILE *f = fopen(path, "rb");
    if (f == NULL) fail_msg("%s: cannot be opened", path);
    size_t room = 1 << 16;
    char *text = malloc(room);
    *n = 0;
    for (size_t got; (got = fread(text + *n, 1, room - *n, f)) > 0;) {
        *n += got;
        if (*n == room) text = realloc(text, room *= 2);
    }
    fclose(f);
    return text;
}

static inline json_t *case_json(const char *path) {
    json_error_t e;
    json_t *root = json_load_file(path, JSON_ALLOW_NUL, &e);
    if (root == NULL) fail_msg("%s:%d: %s", path, e.line, e.text);
    return root;
}

static inline oc_tokenizer *case_open(const char *path) {
    size_t n;
    char *json = case_read(path, &n);
    oc_tokenizer *t;
    oc_error err;
    if (oc_tokenizer_parse(&t, json, n, NULL, 0, path, &err) != OC_OK) fail_msg("%s", err.message);
    free(json);
    return t;
}

static inline void case_print_text(const char *s, size_t n) {
    for (size_t i = 0; i < n; i++)
        print_message(s[i] > ' ' && s[i] < 0x7f ? "%c" : "\\x%02x", (unsigned char)s[i]);
    print_message("\n");
}

/* ids are those of the lists, one after the other; NULL: an empty list. */
static inline bool case_same_ids(const oc_tokens *x, const json_t *const lists[3]) {
    size_t k = 0;
    for (int l = 0; l < 3; l++)
        for (size_t i = 0; i < json_array_size(lists[l]); i++, k++)
            if (k >= x->n || x->ids[k] != json_integer_value(json_array_get(lists[l], i)))
                return false;
    return k == x->n;
}

static inline bool case_encodes(const oc_tokenizer *t, oc_tokens *x, const json_t *text,
                                oc_special special, const json_t *before, const json_t *ids,
                                const json_t *after) {
    const json_t *const lists[3] = {before, ids, after};
    oc_error err;
    const char *s = json_string_value(text);
    size_t n = json_string_length(text);
    if (oc_tokenizer_encode(t, s, n, special, x, &err) != OC_OK) fail_msg("%s", err.message);
    for (size_t i = 0; i < x->n; i++)
        if (x->starts[i] > n || (i > 0 && x->starts[i] < x->starts[i - 1])) return false;
    if (case_same_ids(x, lists)) return true;
    print_message("other ids for ");
    case_print_text(s, n);
    return false;
}

static inline bool case_decodes(const oc_tokenizer *t, const oc_tokens *x, bool skip,
                                const json_t *want) {
    char *text;
    size_t n;
    oc_error err;
    if (oc_tokenizer_decode(t, x->ids, x->n, skip, &text, &n, &err) != OC_OK)
        fail_msg("%s", err.message);
    bool same = n == json_string_length(want) && memcmp(text, json_string_value(want), n) == 0;
    if (!same) {
        print_message("decoded, skip %d, to ", skip);
        case_print_text(text, n);
        print_message("instead of ");
        case_print_text(json_string_value(want), json_string_length(want));
    }
    free(text);
    return same;
}

#endif
