/* Decoders: steps over the list of tokens' texts, which are joined at the end.
 *
 * Tokens come one by one or all at once. Each step remembers what it must not give on yet: a
 * character that is not whole, a run of bytes that is not over, blanks that may be the last. */
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

/* Texts one after the other; text i ends at ends[i]. What stands after the last end is the
 * beginning of a text that goes on. */
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

/* What a step remembers from one call to the next. */
typedef struct memory {
    oc_tk_bytes held; /* the text under way */
    oc_tk_bytes run;  /* BYTE_LEVEL, BYTE_FALLBACK: bytes that may be part of a longer character */
    size_t valid;     /* BYTE_FALLBACK: of them, known to be characters */
    bool broken;      /* BYTE_FALLBACK: the run under way is no UTF-8 */
    size_t texts;     /* METASPACE: that are over */
    int64_t begun;    /* STRIP: taken off the beginning; -1: something else has come */
    int64_t tail;     /* STRIP: that are taken off if nothing follows */
    size_t made;      /* bytes given on */
} memory;

/* One call of a step. last: nothing follows. */
typedef struct call {
    const oc_tk_decoder *d;
    const step *p;
    memory *y;
    const texts *in;
    texts *out;
    bool last;
    oc_tk_matcher **m;
    oc_error *err;
} call;

static oc_status close_text(texts *x) {
    void *at = x->ends;
    OC_TRY(oc_tk_grow(&at, &x->room, x->n + 1, sizeof *x->ends));
    x->ends = at;
    x->ends[x->n++] = x->b.n;
    return OC_OK;
}

/* Text i; i == n: the one that goes on. */
static const char *text_of(const texts *x, size_t i, size_t *n) {
    size_t begin = i == 0 ? 0 : x->ends[i - 1];
    *n = (i < x->n ? x->ends[i] : x->b.n) - begin;
    return x->b.s == NULL ? "" : x->b.s + begin;
}

/* The same, with what earlier calls had of it. */
static oc_status whole_text(const call *c, size_t i, const char **s, size_t *n) {
    *s = text_of(c->in, i, n);
    if (i > 0 || c->y->held.n == 0) return OC_OK;
    OC_TRY(oc_tk_append(&c->y->held, *s, *n));
    *s = c->y->held.s;
    *n = c->y->held.n;
    return OC_OK;
}

/* After the last text that is over: remember the one that goes on. */
static oc_status hold_rest(const call *c) {
    size_t n;
    const char *s = text_of(c->in, c->in->n, &n);
    if (c->in->n > 0) c->y->held.n = 0;
    return oc_tk_append(&c->y->held, s, n);
}

/* Bytes that the start of a character announces; 0: none starts so. */
static size_t announced(char first) {
    unsigned char c = (unsigned char)first;
    return c >= 0xc2 && c < 0xe0 ? 2 : c >= 0xe0 && c < 0xf0 ? 3 : c >= 0xf0 && c < 0xf5 ? 4 : 0;
}

/* Whether n bytes, which are no character, may become one: they are a maximal part of it. */
static bool unfinished(const char *s, size_t n) { return n < announced(*s); }

/* Give on what a run of bytes says; the beginning of a character waits, unless nothing follows. */
static oc_status give_repaired(oc_tk_bytes *run, bool last, oc_tk_bytes *out) {
    size_t i = 0;
    while (i < run->n) {
        size_t bad, good = oc_tk_valid(run->s + i, run->n - i, &bad);
        OC_TRY(oc_tk_append(out, run->s + i, good));
        i += good;
        if (!last && i + bad == run->n && bad > 0 && unfinished(run->s + i, bad)) break;
        if (bad > 0) OC_TRY(oc_tk_append(out, "\xef\xbf\xbd", 3));
        i += bad;
    }
    if (i > 0 && i < run->n) memmove(run->s, run->s + i, run->n - i);
    run->n -= i;
    return OC_OK;
}

/* A token that is not all symbols of bytes counts as its own bytes. */
static oc_status add_bytes(const oc_tk_decoder *d, const char *t, size_t n, oc_tk_bytes *run) {
    size_t first = run->n;
    bool all = true;
    for (size_t k = 0; k < n && all;) {
        uint32_t c = oc_tk_next(t, &k);
        all = c < 0x144 && d->byte_of[c] >= 0;
        char byte = all ? (char)d->byte_of[c] : 0;
        if (all) OC_TRY(oc_tk_append(run, &byte, 1));
    }
    if (all) return OC_OK;
    run->n = first;
    return oc_tk_append(run, t, n);
}

static oc_status byte_level(const call *c) {
    for (size_t i = 0; i < c->in->n; i++) {
        const char *t;
        size_t n;
        OC_TRY(whole_text(c, i, &t, &n));
        OC_TRY(add_bytes(c->d, t, n, &c->y->run));
    }
    OC_TRY(hold_rest(c));
    OC_TRY(give_repaired(&c->y->run, c->last, &c->out->b));
    return c->last ? close_text(c->out) : OC_OK;
}

/* *done: bytes of t up to the end of the last match. */
static oc_status replace_in(const call *c, const char *t, size_t n, size_t *done) {
    size_t begin, end;
    oc_tk_search f = oc_tk_pattern_search(&c->p->pattern, t, n);
    oc_status s;
    *done = 0;
    while (n > 0 && (s = oc_tk_search_next(&f, c->m, &begin, &end, c->err)) != OC_E_NOTFOUND) {
        OC_TRY(s);
        OC_TRY(oc_tk_append(&c->out->b, t + *done, begin - *done));
        OC_TRY(oc_tk_append(&c->out->b, c->p->text, c->p->n));
        *done = end;
    }
    return OC_OK;
}

/* The longest end of a text that a literal may begin with. */
static size_t overlap(const step *p, const char *t, size_t n) {
    size_t k = n < p->pattern.n - 1 ? n : p->pattern.n - 1;
    while (k > 0 && memcmp(t + n - k, p->pattern.literal, k) != 0)
        k--;
    return k;
}

/* The text that goes on: a literal's matches are known as soon as they are there, a regular
 * expression's may reach as far as the text does. */
static oc_status replace_rest(const call *c) {
    oc_tk_bytes *held = &c->y->held;
    size_t done, keep;
    OC_TRY(hold_rest(c));
    if (held->n == 0 || c->p->pattern.regex != NULL) return OC_OK;
    OC_TRY(replace_in(c, held->s, held->n, &done));
    keep = overlap(c->p, held->s + done, held->n - done);
    OC_TRY(oc_tk_append(&c->out->b, held->s + done, held->n - done - keep));
    memmove(held->s, held->s + held->n - keep, keep);
    held->n = keep;
    return OC_OK;
}

static oc_status replace(const call *c) {
    for (size_t i = 0; i < c->in->n; i++) {
        const char *t;
        size_t n, done;
        OC_TRY(whole_text(c, i, &t, &n));
        OC_TRY(replace_in(c, t, n, &done));
        OC_TRY(oc_tk_append(&c->out->b, t + done, n - done));
        OC_TRY(close_text(c->out));
    }
    return replace_rest(c);
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
static oc_status give_broken(memory *y, texts *out) {
    for (size_t i = 0; i < y->run.n; i++) {
        OC_TRY(oc_tk_append(&out->b, "\xef\xbf\xbd", 3));
        OC_TRY(close_text(out));
    }
    y->broken = true;
    y->run.n = y->valid = 0;
    return OC_OK;
}

static oc_status add_byte(memory *y, int byte, texts *out) {
    char c = (char)byte;
    size_t bad;
    OC_TRY(oc_tk_append(&y->run, &c, 1));
    if (y->broken) return give_broken(y, out);
    y->valid += oc_tk_valid(y->run.s + y->valid, y->run.n - y->valid, &bad);
    if (bad == 0 || (y->valid + bad == y->run.n && unfinished(y->run.s + y->valid, bad)))
        return OC_OK;
    return give_broken(y, out);
}

static oc_status end_run(memory *y, texts *out) {
    if (y->run.n > 0 && y->valid == y->run.n) {
        OC_TRY(oc_tk_append(&out->b, y->run.s, y->run.n));
        OC_TRY(close_text(out));
    } else {
        OC_TRY(give_broken(y, out));
    }
    y->run.n = y->valid = 0;
    y->broken = false;
    return OC_OK;
}

static oc_status byte_fallback(const call *c) {
    for (size_t i = 0; i < c->in->n; i++) {
        const char *t;
        size_t n;
        OC_TRY(whole_text(c, i, &t, &n));
        int byte = byte_token(t, n);
        if (byte >= 0) {
            OC_TRY(add_byte(c->y, byte, c->out));
            continue;
        }
        OC_TRY(end_run(c->y, c->out));
        OC_TRY(oc_tk_append(&c->out->b, t, n));
        OC_TRY(close_text(c->out));
    }
    OC_TRY(hold_rest(c));
    return c->last ? end_run(c->y, c->out) : OC_OK;
}

static oc_status fuse(const call *c) {
    OC_TRY(oc_tk_append(&c->out->b, c->in->b.s, c->in->b.n));
    return c->last ? close_text(c->out) : OC_OK;
}

static oc_status strip_char(const call *c, const char *t, size_t n) {
    memory *y = c->y;
    const char *what = c->p->pattern.literal;
    bool is = n == c->p->pattern.n && memcmp(t, what, n) == 0;
    if (is && y->begun >= 0 && y->begun < c->p->start) return y->begun++, OC_OK;
    y->begun = -1;
    if (is && y->tail < c->p->stop) return y->tail++, OC_OK;
    for (; !is && y->tail > 0; y->tail--)
        OC_TRY(oc_tk_append(&c->out->b, what, c->p->pattern.n));
    return oc_tk_append(&c->out->b, t, n);
}

static oc_status strip(const call *c) {
    for (size_t i = 0; i <= c->in->n; i++) {
        size_t n, k = 0;
        const char *t = text_of(c->in, i, &n);
        while (k < n) {
            size_t from = k;
            (void)oc_tk_next(t, &k);
            OC_TRY(strip_char(c, t + from, k - from));
        }
        if (i == c->in->n) break;
        OC_TRY(close_text(c->out));
        c->y->begun = c->y->tail = 0;
    }
    return OC_OK;
}

static oc_status metaspace(const call *c) {
    for (size_t i = 0; i <= c->in->n; i++) {
        size_t n, done = 0, begin, end;
        const char *t = text_of(c->in, i, &n);
        oc_tk_search f = oc_tk_pattern_search(&c->p->pattern, t, n);
        bool kept = c->y->texts > 0 || !c->p->drops_first;
        while (n > 0 && oc_tk_search_next(&f, NULL, &begin, &end, NULL) == OC_OK) {
            OC_TRY(oc_tk_append(&c->out->b, t + done, begin - done));
            if (kept) OC_TRY(oc_tk_append(&c->out->b, " ", 1));
            done = end;
        }
        OC_TRY(oc_tk_append(&c->out->b, t + done, n - done));
        if (i == c->in->n) break;
        OC_TRY(close_text(c->out));
        c->y->texts++;
    }
    return OC_OK;
}

static oc_status apply(const call *c) {
    switch (c->p->kind) {
    case BYTE_LEVEL:
        return byte_level(c);
    case REPLACE:
        return replace(c);
    case BYTE_FALLBACK:
        return byte_fallback(c);
    case FUSE:
        return fuse(c);
    case STRIP:
        return strip(c);
    case METASPACE:
        return metaspace(c);
    }
    return OC_OK;
}

/* --- The whole */

struct oc_decode {
    const oc_tokenizer *t;
    bool skip;
    texts x[2];
    memory *steps;   /* of each step */
    oc_tk_bytes run; /* the byte tokenizer: bytes that may be part of a longer character */
    size_t in, ids;  /* bytes and ids so far */
    size_t texts;    /* given out: without a decoder a space stands between two */
    oc_tk_bytes out;
    oc_tk_matcher *m;
};

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

static oc_status join(oc_decode *z, const texts *x, const char *between) {
    for (size_t i = 0; i <= x->n; i++) {
        size_t n;
        const char *s = text_of(x, i, &n);
        if (i == x->n && n == 0) break;
        if (z->texts > 0) OC_TRY(oc_tk_append(&z->out, between, strlen(between)));
        OC_TRY(oc_tk_append(&z->out, s, n));
        z->texts += i < x->n;
    }
    return OC_OK;
}

/* Rules may make no more of a text than oc_tk_most(), up to here and in the whole. */
static oc_status apply_step(oc_decode *z, size_t i, texts *in, texts *out, bool last,
                            oc_error *err) {
    memory *y = &z->steps[i];
    size_t most = oc_tk_most(z->in);
    const call c = {z->t->decoder, &z->t->decoder->steps[i], y, in, out, last, &z->m, err};
    out->b.n = out->n = 0;
    out->b.most = most > y->made ? most - y->made : 1;
    OC_TRY(apply(&c));
    y->made += out->b.n;
    return OC_OK;
}

static oc_status through_steps(oc_decode *z, const int32_t *ids, size_t n, bool last,
                               oc_error *err) {
    const oc_tk_decoder *d = z->t->decoder;
    texts *in = &z->x[0], *out = &z->x[1];
    in->b.n = in->n = in->b.most = 0;
    OC_TRY(gather(in, z->t, ids, n, z->skip));
    z->in += in->b.n;
    for (size_t i = 0; d != NULL && i < d->n; i++) {
        OC_TRY(apply_step(z, i, in, out, last, err));
        texts *was = in;
        in = out;
        out = was;
    }
    return join(z, in, d == NULL ? " " : "");
}

static oc_status decode(oc_decode *z, const int32_t *ids, size_t n, bool last, oc_error *err) {
    z->out.n = 0;
    z->ids += n;
    if (!z->t->bytes) return through_steps(z, ids, n, last, err);
    OC_TRY(oc_tk_bytes_text(ids, n, z->skip, &z->run));
    return give_repaired(&z->run, last, &z->out);
}

static oc_status describe(const oc_decode *z, oc_status s, oc_error *err) {
    if (s == OC_E_MEMORY) oc_fail(err, s, "no memory to decode %zu ids", z->ids);
    if (s == OC_E_OVERFLOW)
        oc_fail(err, s, "%s: its decoder would make more than %zu bytes of %zu ids",
                z->t->origin != NULL ? z->t->origin : "the tokenizer", oc_tk_most(z->in), z->ids);
    return s;
}

static oc_status check_ids(const oc_tokenizer *t, const int32_t *ids, size_t n, oc_error *err) {
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= t->vocab)
            return oc_fail(err, OC_E_INVALID, "the id %d is not in [0, %d)", (int)ids[i],
                           (int)t->vocab);
    return OC_OK;
}

static oc_status give(oc_decode *z, const int32_t *ids, size_t n_ids, bool last, const char **text,
                      size_t *n, oc_error *err) {
    OC_TRY(check_ids(z->t, ids, n_ids, err));
    OC_TRY(describe(z, decode(z, ids, n_ids, last, err), err));
    *text = z->out.n > 0 ? z->out.s : "";
    *n = z->out.n;
    return OC_OK;
}

static oc_status decode_init(oc_decode *z, const oc_tokenizer *t, bool skip, oc_error *err) {
    size_t n = t->decoder != NULL ? t->decoder->n : 0;
    *z = (oc_decode){.t = t, .skip = skip};
    if (n == 0) return OC_OK;
    z->steps = calloc(n, sizeof *z->steps);
    return z->steps != NULL ? OC_OK : oc_fail(err, OC_E_MEMORY, "no memory to decode");
}

static void decode_release(oc_decode *z) {
    for (size_t i = 0; z->steps != NULL && i < z->t->decoder->n; i++) {
        free(z->steps[i].held.s);
        free(z->steps[i].run.s);
    }
    for (int i = 0; i < 2; i++) {
        free(z->x[i].b.s);
        free(z->x[i].ends);
    }
    free(z->steps);
    free(z->run.s);
    free(z->out.s);
    oc_tk_matcher_free(z->m);
}

oc_status oc_decode_open(oc_decode **out, const oc_tokenizer *t, bool skip, oc_error *err) {
    *out = NULL;
    oc_decode *z = malloc(sizeof *z);
    if (z == NULL) return oc_fail(err, OC_E_MEMORY, "no memory to decode");
    oc_status s = decode_init(z, t, skip, err);
    if (s == OC_OK)
        *out = z;
    else
        free(z);
    return s;
}

void oc_decode_close(oc_decode *d) {
    if (d == NULL) return;
    decode_release(d);
    free(d);
}

oc_status oc_decode_put(oc_decode *d, const int32_t *ids, size_t n_ids, const char **text,
                        size_t *n, oc_error *err) {
    return give(d, ids, n_ids, false, text, n, err);
}

oc_status oc_decode_end(oc_decode *d, const char **text, size_t *n, oc_error *err) {
    return give(d, NULL, 0, true, text, n, err);
}

oc_status oc_tokenizer_decode(const oc_tokenizer *t, const int32_t *ids, size_t n_ids, bool skip,
                              char **text, size_t *n, oc_error *err) {
    oc_decode z;
    const char *all;
    size_t all_n;
    OC_TRY(decode_init(&z, t, skip, err));
    oc_status s = give(&z, ids, n_ids, true, &all, &all_n, err);
    if (s == OC_OK) s = describe(&z, oc_tk_append(&z.out, "", 1), err);
    if (s == OC_OK) {
        *text = z.out.s;
        *n = all_n;
        z.out.s = NULL;
    }
    decode_release(&z);
    return s;
}
