/* Decoders: steps over the list of tokens' texts, which are joined at the end. */
#include "base/heap.h"
#include "base/json.h"
#include "tokenizer/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum step_kind { BYTE_LEVEL, REPLACE, BYTE_FALLBACK, FUSE, STRIP, METASPACE } step_kind;

typedef struct step {
    step_kind kind;
    oc_tk_pattern pattern; /* REPLACE; the character of METASPACE and STRIP */
    char *text;            /* REPLACE */
    size_t n;
    int64_t start, stop; /* STRIP */
    bool drops_first;    /* METASPACE */
} step;

struct oc_tk_decoder {
    step *steps;
    size_t n, room;
    int16_t byte_of[0x144]; /* of a byte's symbol, or -1 */
};

/* Texts one after the other; text i ends at ends[i]. */
typedef struct texts {
    oc_tk_bytes b;
    size_t *ends;
    size_t n, room;
} texts;

static oc_status out_of_memory(const char *where, oc_error *err) {
    return oc_fail(err, OC_E_MEMORY, "%s: no memory for it", where);
}

/* --- Reading */

static oc_status read_replace(step *s, const oc_tk_component *c, const char *where, oc_error *err) {
    static const char *const known[] = {"type", "pattern", "content"};
    const char *text;
    s->kind = REPLACE;
    OC_TRY(oc_tk_component_keys(c, where, known, 3, err));
    OC_TRY(oc_tk_component_text(c, where, "content", &text, &s->n, err));
    s->text = malloc(s->n + 1);
    if (s->text == NULL) return out_of_memory(where, err);
    memcpy(s->text, text, s->n);
    return oc_tk_pattern_read(&s->pattern, json_object_get(c->o, "pattern"), where, err);
}

static oc_status keep_char(step *s, const char *text, size_t n, const char *where, oc_error *err) {
    s->pattern.literal = malloc(n);
    if (s->pattern.literal == NULL) return out_of_memory(where, err);
    memcpy(s->pattern.literal, text, n);
    s->pattern.n = n;
    return OC_OK;
}

static oc_status read_strip(step *s, const oc_tk_component *c, const char *where, oc_error *err) {
    static const char *const known[] = {"type", "content", "start", "stop"};
    const char *text;
    size_t n;
    s->kind = STRIP;
    OC_TRY(oc_tk_component_keys(c, where, known, 4, err));
    OC_TRY(oc_tk_component_char(c, where, "content", &text, &n, err));
    OC_TRY(oc_json_get_int(c->o, where, "start", OC_JSON_REQUIRED, 0, INT32_MAX, &s->start, err));
    OC_TRY(oc_json_get_int(c->o, where, "stop", OC_JSON_REQUIRED, 0, INT32_MAX, &s->stop, err));
    return keep_char(s, text, n, where, err);
}

static oc_status read_metaspace(step *s, const oc_tk_component *c, const char *where,
                                oc_error *err) {
    static const char *const known[] = {"type",           "replacement", "add_prefix_space",
                                        "prepend_scheme", "split",       "str_rep"};
    const char *text, *scheme = "always";
    bool prefix = true;
    size_t n;
    s->kind = METASPACE;
    OC_TRY(oc_tk_component_keys(c, where, known, 6, err));
    OC_TRY(oc_tk_component_char(c, where, "replacement", &text, &n, err));
    OC_TRY(oc_json_get_bool(c->o, where, "add_prefix_space", OC_JSON_OPTIONAL, &prefix, err));
    OC_TRY(oc_json_get_string(c->o, where, "prepend_scheme", OC_JSON_OPTIONAL, &scheme, err));
    s->drops_first = strcmp(scheme, "never") != 0;
    if (s->drops_first && strcmp(scheme, "always") != 0 && strcmp(scheme, "first") != 0)
        return oc_fail(err, OC_E_UNSUPPORTED, "%s: an unknown \"prepend_scheme\": \"%s\"", where,
                       scheme);
    if (!prefix && s->drops_first)
        return oc_fail(err, OC_E_FORMAT,
                       "%s: \"add_prefix_space\" false contradicts the \"prepend_scheme\" \"%s\"",
                       where, scheme);
    return keep_char(s, text, n, where, err);
}

static oc_status read_step(void *arg, const oc_tk_component *c, const char *where, oc_error *err) {
    static const char *const byte_level[] = {"type", "add_prefix_space", "trim_offsets",
                                             "use_regex"};
    oc_tk_decoder *d = arg;
    void *at = d->steps;
    if (oc_tk_grow(&at, &d->room, d->n + 1, sizeof *d->steps) != OC_OK)
        return out_of_memory(where, err);
    d->steps = at;
    step *s = &d->steps[d->n++];
    *s = (step){0};
    if (strcmp(c->type, "Replace") == 0) return read_replace(s, c, where, err);
    if (strcmp(c->type, "Strip") == 0) return read_strip(s, c, where, err);
    if (strcmp(c->type, "Metaspace") == 0) return read_metaspace(s, c, where, err);
    if (strcmp(c->type, "ByteLevel") == 0) {
        s->kind = BYTE_LEVEL;
        return oc_tk_component_keys(c, where, byte_level, 4, err);
    }
    if (strcmp(c->type, "ByteFallback") == 0 || strcmp(c->type, "Fuse") == 0) {
        s->kind = strcmp(c->type, "Fuse") == 0 ? FUSE : BYTE_FALLBACK;
        return oc_tk_component_keys(c, where, byte_level, 1, err);
    }
    return oc_tk_unsupported(
        c, where, "ByteLevel, Replace, ByteFallback, Fuse, Strip, Metaspace, Sequence", err);
}

oc_status oc_tk_decoder_new(oc_tk_decoder **out, const json_t *o, const char *origin,
                            oc_error *err) {
    *out = NULL;
    if (o == NULL || json_is_null(o)) return OC_OK;
    char where[OC_ERROR_BYTES];
    snprintf(where, sizeof where, "%s: decoder", origin);
    oc_tk_decoder *d = calloc(1, sizeof *d);
    if (d == NULL) return out_of_memory(where, err);
    uint32_t symbols[256];
    oc_tk_byte_symbols(symbols);
    memset(d->byte_of, 0xff, sizeof d->byte_of);
    for (int b = 0; b < 256; b++)
        d->byte_of[symbols[b]] = (int16_t)b;
    oc_status s = oc_tk_components(o, "decoders", where, read_step, d, err);
    if (s == OC_OK)
        *out = d;
    else
        oc_tk_decoder_free(d);
    return s;
}

void oc_tk_decoder_free(oc_tk_decoder *d) {
    if (d == NULL) return;
    for (size_t i = 0; i < d->n; i++) {
        oc_tk_pattern_release(&d->steps[i].pattern);
        free(d->steps[i].text);
    }
    free(d->steps);
    free(d);
}

uint64_t oc_tk_decoder_bytes(const oc_tk_decoder *d) {
    if (d == NULL) return 0;
    uint64_t n = oc_heap_bytes(sizeof *d) + oc_heap_bytes(d->room * sizeof *d->steps);
    for (size_t i = 0; i < d->n; i++)
        n += oc_tk_pattern_bytes(&d->steps[i].pattern) +
             (d->steps[i].text != NULL ? oc_heap_bytes(d->steps[i].n + 1) : 0);
    return n;
}

/* --- Steps */

static oc_status close_text(texts *x) {
    void *at = x->ends;
    OC_TRY(oc_tk_grow(&at, &x->room, x->n + 1, sizeof *x->ends));
    x->ends = at;
    x->ends[x->n++] = x->b.n;
    return OC_OK;
}

static const char *text_of(const texts *x, size_t i, size_t *n) {
    size_t begin = i == 0 ? 0 : x->ends[i - 1];
    *n = x->ends[i] - begin;
    return x->b.s == NULL ? "" : x->b.s + begin;
}

static oc_status append_repaired(oc_tk_bytes *out, const char *s, size_t n) {
    for (size_t i = 0; i < n;) {
        size_t bad, good = oc_tk_valid(s + i, n - i, &bad);
        OC_TRY(oc_tk_append(out, s + i, good));
        if (bad > 0) OC_TRY(oc_tk_append(out, "\xef\xbf\xbd", 3));
        i += good + bad;
    }
    return OC_OK;
}

/* A token that is not all symbols of bytes counts as its own bytes. */
static oc_status byte_level(const oc_tk_decoder *d, const texts *in, texts *out) {
    oc_tk_bytes raw = {0};
    oc_status s = OC_OK;
    for (size_t i = 0; i < in->n && s == OC_OK; i++) {
        size_t n, first = raw.n;
        const char *t = text_of(in, i, &n);
        bool all = true;
        for (size_t k = 0; k < n && all && s == OC_OK;) {
            uint32_t c = oc_tk_next(t, &k);
            all = c < 0x144 && d->byte_of[c] >= 0;
            char byte = all ? (char)d->byte_of[c] : 0;
            if (all) s = oc_tk_append(&raw, &byte, 1);
        }
        if (all || s != OC_OK) continue;
        raw.n = first;
        s = oc_tk_append(&raw, t, n);
    }
    if (s == OC_OK) s = append_repaired(&out->b, raw.s, raw.n);
    if (s == OC_OK) s = close_text(out);
    free(raw.s);
    return s;
}

static oc_status replace(const step *p, const texts *in, texts *out, oc_tk_matcher **m,
                         oc_error *err) {
    for (size_t i = 0; i < in->n; i++) {
        size_t n, done = 0, begin, end;
        const char *t = text_of(in, i, &n);
        oc_tk_search f = oc_tk_pattern_search(&p->pattern, t, n);
        oc_status s;
        while (n > 0 && (s = oc_tk_search_next(&f, m, &begin, &end, err)) != OC_E_NOTFOUND) {
            OC_TRY(s);
            OC_TRY(oc_tk_append(&out->b, t + done, begin - done));
            OC_TRY(oc_tk_append(&out->b, p->text, p->n));
            done = end;
        }
        OC_TRY(oc_tk_append(&out->b, t + done, n - done));
        OC_TRY(close_text(out));
    }
    return OC_OK;
}

static int hex(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* "<0xXX>"; the reference library's reader of numbers takes "+X" too. */
static int byte_token(const char *s, size_t n) {
    if (n != 6 || memcmp(s, "<0x", 3) != 0 || s[5] != '>') return -1;
    int high = s[3] == '+' ? 0 : hex(s[3]), low = hex(s[4]);
    return high < 0 || low < 0 ? -1 : high << 4 | low;
}

/* A run of bytes that is no UTF-8 becomes one U+FFFD a byte. */
static oc_status flush(oc_tk_bytes *run, texts *out) {
    size_t bad = 0;
    if (run->n == 0) return OC_OK;
    if (oc_tk_valid(run->s, run->n, &bad) == run->n) {
        OC_TRY(oc_tk_append(&out->b, run->s, run->n));
        OC_TRY(close_text(out));
    } else {
        for (size_t i = 0; i < run->n; i++) {
            OC_TRY(oc_tk_append(&out->b, "\xef\xbf\xbd", 3));
            OC_TRY(close_text(out));
        }
    }
    run->n = 0;
    return OC_OK;
}

static oc_status byte_fallback(const texts *in, texts *out) {
    oc_tk_bytes run = {0};
    oc_status s = OC_OK;
    for (size_t i = 0; i < in->n && s == OC_OK; i++) {
        size_t n;
        const char *t = text_of(in, i, &n);
        int byte = byte_token(t, n);
        char c = (char)byte;
        if (byte >= 0) {
            s = oc_tk_append(&run, &c, 1);
            continue;
        }
        s = flush(&run, out);
        if (s == OC_OK) s = oc_tk_append(&out->b, t, n);
        if (s == OC_OK) s = close_text(out);
    }
    if (s == OC_OK) s = flush(&run, out);
    free(run.s);
    return s;
}

static oc_status strip(const step *p, const texts *in, texts *out) {
    const char *c = p->pattern.literal;
    size_t w = p->pattern.n;
    for (size_t i = 0; i < in->n; i++) {
        size_t n;
        const char *t = text_of(in, i, &n);
        size_t begin = 0, end = n;
        for (int64_t k = 0; k < p->start && end - begin >= w; k++) {
            if (memcmp(t + begin, c, w) != 0) break;
            begin += w;
        }
        for (int64_t k = 0; k < p->stop && end - begin >= w; k++) {
            if (memcmp(t + end - w, c, w) != 0) break;
            end -= w;
        }
        OC_TRY(oc_tk_append(&out->b, t + begin, end - begin));
        OC_TRY(close_text(out));
    }
    return OC_OK;
}

static oc_status metaspace(const step *p, const texts *in, texts *out) {
    for (size_t i = 0; i < in->n; i++) {
        size_t n, done = 0, begin, end;
        const char *t = text_of(in, i, &n);
        oc_tk_search f = oc_tk_pattern_search(&p->pattern, t, n);
        while (oc_tk_search_next(&f, NULL, &begin, &end, NULL) == OC_OK) {
            OC_TRY(oc_tk_append(&out->b, t + done, begin - done));
            if (i > 0 || !p->drops_first) OC_TRY(oc_tk_append(&out->b, " ", 1));
            done = end;
        }
        OC_TRY(oc_tk_append(&out->b, t + done, n - done));
        OC_TRY(close_text(out));
    }
    return OC_OK;
}

static oc_status apply(const oc_tk_decoder *d, const step *p, const texts *in, texts *out,
                       oc_tk_matcher **m, oc_error *err) {
    switch (p->kind) {
    case BYTE_LEVEL:
        return byte_level(d, in, out);
    case REPLACE:
        return replace(p, in, out, m, err);
    case BYTE_FALLBACK:
        return byte_fallback(in, out);
    case FUSE:
        OC_TRY(oc_tk_append(&out->b, in->b.s, in->b.n));
        return close_text(out);
    case STRIP:
        return strip(p, in, out);
    case METASPACE:
        return metaspace(p, in, out);
    }
    return OC_OK;
}

/* --- The whole */

/* The text of an id; NULL: an id between tokens. */
static const char *text_of_id(const oc_tokenizer *t, int32_t id, size_t *n) {
    const oc_tk_added *a = oc_tk_added_by_id(&t->added, id);
    if (a == NULL) return oc_tk_vocab_text(&t->model.vocab, id, n);
    *n = a->shown != NULL ? a->shown_n : a->n;
    return a->shown != NULL ? a->shown : a->text;
}

/* As in the reference library, it is the text that makes a token special. */
static oc_status gather(texts *x, const oc_tokenizer *t, const int32_t *ids, size_t n_ids,
                        bool skip) {
    for (size_t i = 0; i < n_ids; i++) {
        size_t n;
        const char *s = text_of_id(t, ids[i], &n);
        if (s == NULL) continue;
        const oc_tk_added *a = skip ? oc_tk_added_by_text(&t->added, s, n) : NULL;
        if (a != NULL && a->special) continue;
        OC_TRY(oc_tk_append(&x->b, s, n));
        OC_TRY(close_text(x));
    }
    return OC_OK;
}

static oc_status join(const texts *x, const char *between, oc_tk_bytes *out) {
    for (size_t i = 0; i < x->n; i++) {
        size_t n;
        const char *s = text_of(x, i, &n);
        if (i > 0) OC_TRY(oc_tk_append(out, between, strlen(between)));
        OC_TRY(oc_tk_append(out, s, n));
    }
    return OC_OK;
}

oc_status oc_tk_decode(const oc_tk_decoder *d, const oc_tokenizer *t, const int32_t *ids,
                       size_t n_ids, bool skip, oc_tk_bytes *out, oc_error *err) {
    texts x[2] = {0};
    oc_tk_matcher *m = NULL;
    int now = 0;
    oc_status s = gather(&x[0], t, ids, n_ids, skip);
    x[0].b.most = x[1].b.most = oc_tk_most(x[0].b.n);
    for (size_t i = 0; d != NULL && i < d->n && s == OC_OK; i++) {
        x[1 - now].b.n = x[1 - now].n = 0;
        s = apply(d, &d->steps[i], &x[now], &x[1 - now], &m, err);
        now = 1 - now;
    }
    if (s == OC_OK) s = join(&x[now], d == NULL ? " " : "", out);
    if (s == OC_E_MEMORY) oc_fail(err, s, "no memory to decode %zu ids", n_ids);
    if (s == OC_E_OVERFLOW)
        oc_fail(err, s, "%s: its decoder would make more than %zu bytes of %zu ids",
                t->origin != NULL ? t->origin : "the tokenizer", x[0].b.most, n_ids);
    for (int i = 0; i < 2; i++) {
        free(x[i].b.s);
        free(x[i].ends);
    }
    oc_tk_matcher_free(m);
    return s;
}
