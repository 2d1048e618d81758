/* Normalizers: steps that rewrite a text before it is split, with the origin of every byte. */
#include "tokenizer/internal.h"

#include "base/heap.h"
#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum step_kind { FORM, LOWERCASE, PREPEND, REPLACE, STRIP, STRIP_ACCENTS } step_kind;

typedef struct step {
    step_kind kind;
    oc_tk_unicode *unicode; /* FORM */
    oc_tk_pattern pattern;  /* REPLACE */
    char *text;             /* PREPEND, REPLACE */
    size_t n;
    bool left, right; /* STRIP */
} step;

struct oc_tk_normalizer {
    step *steps;
    size_t n, room;
};

static oc_status out_of_memory(const char *where, oc_error *err) {
    return oc_fail(err, OC_E_MEMORY, "%s: no memory for it", where);
}

static oc_status keep(step *s, const char *text, size_t n, const char *where, oc_error *err) {
    s->text = malloc(n + 1);
    if (s->text == NULL) return out_of_memory(where, err);
    memcpy(s->text, text, n);
    s->text[n] = 0;
    s->n = n;
    return OC_OK;
}

static oc_status read_form(step *s, const oc_tk_component *c, const char *where, oc_error *err) {
    static const char *const names[] = {"NFC", "NFD", "NFKC", "NFKD"}, *const known[] = {"type"};
    OC_TRY(oc_tk_component_keys(c, where, known, 1, err));
    int form = 0;
    while (strcmp(c->type, names[form]) != 0)
        form++;
    s->kind = FORM;
    if (oc_tk_unicode_new(&s->unicode, (oc_tk_form)form) != OC_OK) return out_of_memory(where, err);
    return OC_OK;
}

static oc_status read_prepend(step *s, const oc_tk_component *c, const char *where, oc_error *err) {
    static const char *const known[] = {"type", "prepend"};
    const char *text;
    size_t n;
    s->kind = PREPEND;
    OC_TRY(oc_tk_component_keys(c, where, known, 2, err));
    OC_TRY(oc_tk_component_text(c, where, "prepend", &text, &n, err));
    return keep(s, text, n, where, err);
}

static oc_status read_replace(step *s, const oc_tk_component *c, const char *where, oc_error *err) {
    static const char *const known[] = {"type", "pattern", "content"};
    const char *text;
    size_t n;
    s->kind = REPLACE;
    OC_TRY(oc_tk_component_keys(c, where, known, 3, err));
    OC_TRY(oc_tk_component_text(c, where, "content", &text, &n, err));
    OC_TRY(keep(s, text, n, where, err));
    return oc_tk_pattern_read(&s->pattern, json_object_get(c->o, "pattern"), where, err);
}

static oc_status read_strip(step *s, const oc_tk_component *c, const char *where, oc_error *err) {
    static const char *const known[] = {"type", "strip_left", "strip_right"};
    s->kind = STRIP;
    OC_TRY(oc_tk_component_keys(c, where, known, 3, err));
    OC_TRY(oc_json_get_bool(c->o, where, "strip_left", OC_JSON_REQUIRED, &s->left, err));
    return oc_json_get_bool(c->o, where, "strip_right", OC_JSON_REQUIRED, &s->right, err);
}

static oc_status read_plain(step *s, step_kind kind, const oc_tk_component *c, const char *where,
                            oc_error *err) {
    static const char *const known[] = {"type"};
    s->kind = kind;
    return oc_tk_component_keys(c, where, known, 1, err);
}

static oc_status read_step(void *arg, const oc_tk_component *c, const char *where, oc_error *err) {
    oc_tk_normalizer *z = arg;
    void *at = z->steps;
    if (oc_tk_grow(&at, &z->room, z->n + 1, sizeof *z->steps) != OC_OK)
        return out_of_memory(where, err);
    z->steps = at;
    step *s = &z->steps[z->n++];
    *s = (step){0};
    const char *t = c->type;
    if (strcmp(t, "NFC") == 0 || strcmp(t, "NFD") == 0 || strcmp(t, "NFKC") == 0 ||
        strcmp(t, "NFKD") == 0)
        return read_form(s, c, where, err);
    if (strcmp(t, "Lowercase") == 0) return read_plain(s, LOWERCASE, c, where, err);
    if (strcmp(t, "StripAccents") == 0) return read_plain(s, STRIP_ACCENTS, c, where, err);
    if (strcmp(t, "Prepend") == 0) return read_prepend(s, c, where, err);
    if (strcmp(t, "Replace") == 0) return read_replace(s, c, where, err);
    if (strcmp(t, "Strip") == 0) return read_strip(s, c, where, err);
    return oc_tk_unsupported(
        c, where,
        "NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Prepend, Replace, Strip, Sequence", err);
}

oc_status oc_tk_normalizer_new(oc_tk_normalizer **out, const json_t *o, const char *origin,
                               oc_error *err) {
    *out = NULL;
    char where[OC_ERROR_BYTES];
    snprintf(where, sizeof where, "%s: normalizer", origin);
    oc_tk_normalizer *z = calloc(1, sizeof *z);
    if (z == NULL) return out_of_memory(where, err);
    oc_status s = oc_tk_components(o, "normalizers", where, read_step, z, err);
    if (s != OC_OK || z->n == 0) {
        oc_tk_normalizer_free(z);
        return s;
    }
    *out = z;
    return OC_OK;
}

void oc_tk_normalizer_free(oc_tk_normalizer *z) {
    if (z == NULL) return;
    for (size_t i = 0; i < z->n; i++) {
        oc_tk_unicode_free(z->steps[i].unicode);
        oc_tk_pattern_release(&z->steps[i].pattern);
        free(z->steps[i].text);
    }
    free(z->steps);
    free(z);
}

uint64_t oc_tk_normalizer_bytes(const oc_tk_normalizer *z) {
    if (z == NULL) return 0;
    uint64_t n = oc_heap_bytes(sizeof *z) + oc_heap_bytes(z->room * sizeof *z->steps);
    for (size_t i = 0; i < z->n; i++)
        n += oc_tk_unicode_bytes(z->steps[i].unicode) + oc_tk_pattern_bytes(&z->steps[i].pattern) +
             (z->steps[i].text != NULL ? oc_heap_bytes(z->steps[i].n + 1) : 0);
    return n;
}

static oc_status lowercase(oc_tk_view *in, oc_tk_text *out) {
    size_t copied = 0;
    for (size_t i = 0; i < in->n;) {
        size_t begin = i;
        uint32_t c = oc_tk_next(in->s, &i), low[2];
        int k = oc_tk_lower(c, low);
        if (k == 1 && low[0] == c) continue;
        OC_TRY(oc_tk_text_copy(out, in, copied, begin));
        size_t origin = oc_tk_view_origin(in, begin);
        for (int j = 0; j < k; j++) {
            char utf8[4];
            OC_TRY(oc_tk_text_put(out, utf8, oc_tk_put_utf8(low[j], utf8), origin));
        }
        copied = i;
    }
    return oc_tk_text_copy(out, in, copied, in->n);
}

static oc_status strip_accents(oc_tk_view *in, oc_tk_text *out) {
    size_t copied = 0;
    for (size_t i = 0; i < in->n;) {
        size_t begin = i;
        uint32_t c = oc_tk_next(in->s, &i);
        if (c < 0x300 || !oc_tk_is_mark(c)) continue;
        OC_TRY(oc_tk_text_copy(out, in, copied, begin));
        copied = i;
    }
    return oc_tk_text_copy(out, in, copied, in->n);
}

static oc_status replace(const step *s, oc_tk_view *in, oc_tk_text *out, oc_tk_matcher **m,
                         oc_error *err) {
    oc_tk_search f = oc_tk_pattern_search(&s->pattern, in->s, in->n);
    size_t copied = 0, begin, end;
    oc_status found;
    while ((found = oc_tk_search_next(&f, m, &begin, &end, err)) == OC_OK) {
        OC_TRY(oc_tk_text_copy(out, in, copied, begin));
        OC_TRY(oc_tk_text_put(out, s->text, s->n,
                              begin < in->n ? oc_tk_view_origin(in, begin)
                              : in->n > 0   ? oc_tk_view_origin(in, in->n - 1)
                                            : 0));
        copied = end;
    }
    if (found != OC_E_NOTFOUND) return found;
    return oc_tk_text_copy(out, in, copied, in->n);
}

static void strip(const step *s, oc_tk_view *v) {
    size_t begin = 0, end = v->n;
    while (s->left && begin < end) {
        size_t next = begin;
        if (!oc_tk_is_space(oc_tk_next(v->s, &next))) break;
        begin = next;
    }
    while (s->right && end > begin) {
        size_t last = oc_tk_back(v->s, end), next = last;
        if (!oc_tk_is_space(oc_tk_next(v->s, &next))) break;
        end = last;
    }
    *v = oc_tk_view_part(v, begin, end);
}

static oc_status apply(const step *s, oc_tk_view *in, oc_tk_text *out, oc_tk_matcher **m,
                       oc_error *err) {
    switch (s->kind) {
    case FORM:
        return oc_tk_unicode_apply(s->unicode, in, out);
    case LOWERCASE:
        return lowercase(in, out);
    case STRIP_ACCENTS:
        return strip_accents(in, out);
    case PREPEND:
        OC_TRY(oc_tk_text_put(out, s->text, s->n, oc_tk_view_origin(in, 0)));
        return oc_tk_text_copy(out, in, 0, in->n);
    case REPLACE:
        return replace(s, in, out, m, err);
    case STRIP:
        break;
    }
    return OC_OK;
}

oc_status oc_tk_normalize(const oc_tk_normalizer *z, oc_tk_view *v, oc_tk_text text[2],
                          oc_tk_matcher **m, oc_error *err) {
    int to = 0;
    for (size_t i = 0; z != NULL && i < z->n; i++) {
        const step *s = &z->steps[i];
        if (v->n == 0) return OC_OK;
        if (s->kind == STRIP) {
            strip(s, v);
            continue;
        }
        if (s->kind == FORM && oc_tk_unicode_plain(s->unicode, v->s, v->n) == v->n) continue;
        oc_tk_text_clear(&text[to]);
        oc_status status = apply(s, v, &text[to], m, err);
        if (status == OC_E_MEMORY) oc_fail(err, status, "no memory to normalize a text");
        if (status != OC_OK) return status;
        *v = oc_tk_text_view(&text[to]);
        to = 1 - to;
    }
    return OC_OK;
}
