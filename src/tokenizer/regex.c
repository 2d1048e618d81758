/* Patterns of tokenizer.json: literals, and regular expressions run by PCRE2.
 *
 * The files are written in Oniguruma's dialect. dialect.c rewrites it; here a pattern is
 * compiled and searched for as the reference library does: an empty match right after a match is
 * not one. */
#include "tokenizer/regex.h"
#include "base/heap.h"
#include "tokenizer/internal.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

enum { JIT_STACK_FIRST = 32 << 10, JIT_STACK_MOST = 4 << 20 };

struct oc_tk_regex {
    pcre2_code *code;
    char *where;
};

struct oc_tk_matcher {
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
};

void oc_tk_regex_free(oc_tk_regex *r) {
    if (r == NULL) return;
    pcre2_code_free(r->code);
    free(r->where);
    free(r);
}

uint64_t oc_tk_regex_bytes(const oc_tk_regex *r) {
    size_t code = 0, jit = 0;
    if (r == NULL) return 0;
    (void)pcre2_pattern_info(r->code, PCRE2_INFO_SIZE, &code);
    (void)pcre2_pattern_info(r->code, PCRE2_INFO_JITSIZE, &jit);
    return oc_heap_bytes(sizeof *r) + oc_heap_bytes(strlen(r->where) + 1) + oc_heap_bytes(code) +
           jit;
}

void oc_tk_matcher_free(oc_tk_matcher *m) {
    if (m == NULL) return;
    pcre2_match_data_free(m->data);
    pcre2_match_context_free(m->context);
    pcre2_jit_stack_free(m->stack);
    free(m);
}

static oc_status matcher_new(oc_tk_matcher **out) {
    oc_tk_matcher *m = calloc(1, sizeof *m);
    if (m == NULL) return OC_E_MEMORY;
    m->data = pcre2_match_data_create(1, NULL);
    m->context = pcre2_match_context_create(NULL);
    m->stack = pcre2_jit_stack_create(JIT_STACK_FIRST, JIT_STACK_MOST, NULL);
    if (m->data == NULL || m->context == NULL) {
        oc_tk_matcher_free(m);
        return OC_E_MEMORY;
    }
    if (m->stack != NULL) pcre2_jit_stack_assign(m->context, NULL, m->stack);
    *out = m;
    return OC_OK;
}

static oc_status compile(oc_tk_regex *r, const oc_tk_bytes *pattern, const char *where,
                         oc_error *err) {
    int code;
    size_t at;
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (context == NULL) return oc_fail(err, OC_E_MEMORY, "%s: no memory for its regex", where);
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    r->code = pcre2_compile((PCRE2_SPTR)pattern->s, pattern->n,
                            PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C |
                                PCRE2_NO_AUTO_CAPTURE,
                            &code, &at, context);
    pcre2_compile_context_free(context);
    if (r->code != NULL) {
        /* Without it, where the system forbids code made at run time, matching is slower only. */
        (void)pcre2_jit_compile(r->code, PCRE2_JIT_COMPLETE);
        return OC_OK;
    }
    if (code == PCRE2_ERROR_HEAP_FAILED)
        return oc_fail(err, OC_E_MEMORY, "%s: no memory for its regex", where);
    char why[200];
    if (pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof why) < 0) why[0] = 0;
    return oc_fail(err, OC_E_UNSUPPORTED,
                   "%s: its regex is not supported: %s, near byte %zu of %.*s", where, why, at,
                   pattern->n > 200 ? 200 : (int)pattern->n, pattern->s);
}

oc_status oc_tk_regex_new(oc_tk_regex **out, const char *pattern, size_t n, const char *where,
                          oc_error *err) {
    *out = NULL;
    oc_tk_bytes ours = {0};
    oc_tk_regex *r = calloc(1, sizeof *r);
    oc_status s = r == NULL ? OC_E_MEMORY : OC_OK;
    if (s == OC_OK) s = oc_tk_append(&ours, "", 0);
    if (s == OC_OK && (r->where = strdup(where)) == NULL) s = OC_E_MEMORY;
    if (s == OC_E_MEMORY) oc_fail(err, s, "%s: no memory for its regex", where);
    if (s == OC_OK) s = oc_tk_dialect(&ours, pattern, n, where, err);
    if (s == OC_OK) s = compile(r, &ours, where, err);
    free(ours.s);
    if (s == OC_OK)
        *out = r;
    else
        oc_tk_regex_free(r);
    return s;
}

static oc_status match(const oc_tk_regex *r, oc_tk_matcher *m, const char *s, size_t n, size_t from,
                       size_t *begin, size_t *end, oc_error *err) {
    int k = pcre2_match(r->code, (PCRE2_SPTR)s, n, from, PCRE2_NO_UTF_CHECK, m->data, m->context);
    if (k == PCRE2_ERROR_JIT_STACKLIMIT)
        k = pcre2_match(r->code, (PCRE2_SPTR)s, n, from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, m->data,
                        m->context);
    if (k == PCRE2_ERROR_NOMATCH) return OC_E_NOTFOUND;
    if (k < 0) {
        char why[200];
        if (pcre2_get_error_message(k, (PCRE2_UCHAR *)why, sizeof why) < 0) why[0] = 0;
        return oc_fail(err, k == PCRE2_ERROR_NOMEMORY ? OC_E_MEMORY : OC_E_UNSUPPORTED,
                       "%s: its regex gave up on this text: %s", r->where, why);
    }
    const size_t *v = pcre2_get_ovector_pointer(m->data);
    *begin = v[0];
    *end = v[1];
    return OC_OK;
}

static oc_status find_literal(oc_tk_search *f, size_t *begin, size_t *end) {
    const char *hit = f->literal_n > f->n - f->at
                          ? NULL
                          : memmem(f->s + f->at, f->n - f->at, f->literal, f->literal_n);
    if (hit == NULL) return OC_E_NOTFOUND;
    *begin = (size_t)(hit - f->s);
    f->at = *end = *begin + f->literal_n;
    return OC_OK;
}

oc_status oc_tk_search_next(oc_tk_search *f, oc_tk_matcher **m, size_t *begin, size_t *end,
                            oc_error *err) {
    if (f->regex == NULL) return find_literal(f, begin, end);
    if (*m == NULL && matcher_new(m) != OC_OK)
        return oc_fail(err, OC_E_MEMORY, "%s: no memory to match", f->regex->where);
    while (f->at <= f->n) {
        OC_TRY(match(f->regex, *m, f->s, f->n, f->at, begin, end, err));
        if (*end > *begin || *end != f->last_end) {
            f->at = f->last_end = *end;
            return OC_OK;
        }
        if (f->at < f->n)
            (void)oc_tk_next(f->s, &f->at);
        else
            f->at++;
    }
    return OC_E_NOTFOUND;
}

oc_status oc_tk_pattern_read(oc_tk_pattern *out, const json_t *value, const char *where,
                             oc_error *err) {
    *out = (oc_tk_pattern){0};
    const json_t *literal = json_object_get(value, "String"),
                 *regex = json_object_get(value, "Regex");
    const json_t *v = literal != NULL ? literal : regex;
    if (json_is_string(value)) v = literal = value;
    if (!json_is_string(v) || (json_is_object(value) && json_object_size(value) != 1))
        return oc_fail(err, OC_E_FORMAT,
                       "%s: \"pattern\" must be {\"String\": text} or {\"Regex\": text}", where);
    const char *text = json_string_value(v);
    size_t n = json_string_length(v);
    if (n == 0) return oc_fail(err, OC_E_UNSUPPORTED, "%s: an empty \"pattern\"", where);
    if (literal == NULL) return oc_tk_regex_new(&out->regex, text, n, where, err);
    out->literal = malloc(n);
    if (out->literal == NULL) return oc_fail(err, OC_E_MEMORY, "%s: no memory", where);
    memcpy(out->literal, text, n);
    out->n = n;
    return OC_OK;
}

void oc_tk_pattern_release(oc_tk_pattern *p) {
    oc_tk_regex_free(p->regex);
    free(p->literal);
    *p = (oc_tk_pattern){0};
}

uint64_t oc_tk_pattern_bytes(const oc_tk_pattern *p) {
    return oc_tk_regex_bytes(p->regex) + oc_heap_bytes(p->n);
}

oc_tk_search oc_tk_pattern_search(const oc_tk_pattern *p, const char *s, size_t n) {
    return (oc_tk_search){.regex = p->regex,
                          .literal = p->literal,
                          .literal_n = p->n,
                          .s = s,
                          .n = n,
                          .last_end = SIZE_MAX};
}
