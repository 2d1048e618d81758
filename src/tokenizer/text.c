/* Bytes that grow, and where each of them came from. */
#include "tokenizer/internal.h"

#include <stdlib.h>
#include <string.h>

oc_status oc_tk_grow(void **at, size_t *room, size_t n, size_t size) {
    if (n <= *room) return OC_OK;
    size_t want = *room < 16 ? 16 : *room, bytes;
    while (want < n) {
        if (want > SIZE_MAX / 2) return OC_E_MEMORY;
        want *= 2;
    }
    if (__builtin_mul_overflow(want, size, &bytes)) return OC_E_MEMORY;
    void *p = realloc(*at, bytes);
    if (p == NULL) return OC_E_MEMORY;
    *at = p;
    *room = want;
    return OC_OK;
}

static oc_status bytes_reserve(oc_tk_bytes *b, size_t more) {
    if (more <= b->room - b->n) return OC_OK;
    if (more > SIZE_MAX - b->n) return OC_E_MEMORY;
    void *p = b->s;
    OC_TRY(oc_tk_grow(&p, &b->room, b->n + more, 1));
    b->s = p;
    return OC_OK;
}

oc_status oc_tk_append(oc_tk_bytes *b, const char *s, size_t n) {
    if (b->most > 0 && (n > b->most || b->n > b->most - n)) return OC_E_OVERFLOW;
    OC_TRY(bytes_reserve(b, n));
    if (n > 0) memcpy(b->s + b->n, s, n);
    b->n += n;
    return OC_OK;
}

oc_status oc_tk_piece_push(oc_tk_pieces *p, size_t begin, size_t end) {
    if (p->n == p->room) {
        void *at = p->p;
        OC_TRY(oc_tk_grow(&at, &p->room, p->n + 1, sizeof *p->p));
        p->p = at;
    }
    p->p[p->n++] = (oc_tk_piece){begin, end};
    return OC_OK;
}

void oc_tk_text_clear(oc_tk_text *t) { t->b.n = t->n_runs = 0; }

void oc_tk_text_release(oc_tk_text *t) {
    free(t->b.s);
    free(t->runs);
    *t = (oc_tk_text){0};
}

static oc_status add_run(oc_tk_text *t, size_t origin, bool fixed) {
    if (t->n_runs > 0 && !fixed) {
        const oc_tk_run *last = &t->runs[t->n_runs - 1];
        if (!last->fixed && last->origin + (t->b.n - last->out) == origin) return OC_OK;
    }
    if (t->n_runs == t->room) {
        void *at = t->runs;
        OC_TRY(oc_tk_grow(&at, &t->room, t->n_runs + 1, sizeof *t->runs));
        t->runs = at;
    }
    t->runs[t->n_runs++] = (oc_tk_run){t->b.n, origin, fixed};
    return OC_OK;
}

/* Moves the cursor to the run that holds byte i of the whole that the runs describe. */
static const oc_tk_run *seek(oc_tk_view *v, size_t i) {
    if (v->runs[v->cursor].out > i) v->cursor = 0;
    while (v->cursor + 1 < v->n_runs && v->runs[v->cursor + 1].out <= i)
        v->cursor++;
    return &v->runs[v->cursor];
}

size_t oc_tk_view_origin(oc_tk_view *v, size_t i) {
    if (v->n_runs == 0) return v->shift + i;
    const oc_tk_run *r = seek(v, v->at + i);
    return r->fixed ? r->origin : r->origin + (v->at + i - r->out);
}

oc_status oc_tk_text_copy(oc_tk_text *t, oc_tk_view *in, size_t begin, size_t end) {
    if (begin == end) return OC_OK;
    if (in->n_runs == 0) {
        OC_TRY(add_run(t, in->shift + begin, false));
        return oc_tk_append(&t->b, in->s + begin, end - begin);
    }
    while (begin < end) {
        const oc_tk_run *r = seek(in, in->at + begin);
        size_t stop = end;
        if (in->cursor + 1 < in->n_runs && r[1].out - in->at < end) stop = r[1].out - in->at;
        OC_TRY(add_run(t, oc_tk_view_origin(in, begin), r->fixed));
        OC_TRY(oc_tk_append(&t->b, in->s + begin, stop - begin));
        begin = stop;
    }
    return OC_OK;
}

oc_status oc_tk_text_put(oc_tk_text *t, const char *s, size_t n, size_t origin) {
    if (n == 0) return OC_OK;
    OC_TRY(add_run(t, origin, true));
    return oc_tk_append(&t->b, s, n);
}

oc_tk_view oc_tk_text_view(const oc_tk_text *t) {
    return (oc_tk_view){
        .s = t->b.n > 0 ? t->b.s : "", .n = t->b.n, .runs = t->runs, .n_runs = t->n_runs};
}

oc_tk_view oc_tk_view_part(const oc_tk_view *v, size_t begin, size_t end) {
    oc_tk_view part = *v;
    part.s += begin;
    part.n = end - begin;
    part.shift += begin;
    part.at += begin;
    return part;
}

size_t oc_tk_put_utf8(uint32_t c, char out[4]) {
    if (c < 0x80) return out[0] = (char)c, 1;
    if (c < 0x800) {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xe0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3f));
        out[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3f));
    out[2] = (char)(0x80 | (c >> 6 & 0x3f));
    out[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

/* The first continuation byte's range depends on the lead byte: Unicode, table 3-7. Returns the
 * length of a well-formed sequence, or minus the length of the maximal part of one. */
static int sequence(const unsigned char *u, size_t n) {
    static const unsigned char low[] = {0xa0, 0x90}, high[] = {0x9f, 0x8f};
    int need = u[0] < 0xc2 ? 0 : u[0] < 0xe0 ? 1 : u[0] < 0xf0 ? 2 : u[0] < 0xf5 ? 3 : 0;
    if (need == 0) return -1;
    unsigned least = u[0] == 0xe0 ? low[0] : u[0] == 0xf0 ? low[1] : 0x80;
    unsigned most = u[0] == 0xed ? high[0] : u[0] == 0xf4 ? high[1] : 0xbf;
    for (int k = 1; k <= need; k++) {
        if ((size_t)k >= n || u[k] < least || u[k] > most) return -k;
        least = 0x80;
        most = 0xbf;
    }
    return need + 1;
}

size_t oc_tk_valid(const char *s, size_t n, size_t *bad) {
    const unsigned char *u = (const unsigned char *)s;
    size_t i = 0;
    *bad = 0;
    while (i < n) {
        uint64_t w;
        while (n - i >= sizeof w) {
            memcpy(&w, u + i, sizeof w);
            if (w & 0x8080808080808080u) break;
            i += sizeof w;
        }
        if (i == n) break;
        if (u[i] < 0x80) {
            i++;
            continue;
        }
        int k = sequence(u + i, n - i);
        if (k < 0) {
            *bad = (size_t)-k;
            return i;
        }
        i += (size_t)k;
    }
    return i;
}

oc_status oc_tk_repair(oc_tk_text *out, oc_tk_view *in) {
    for (size_t i = 0; i < in->n;) {
        size_t bad, good = oc_tk_valid(in->s + i, in->n - i, &bad);
        OC_TRY(oc_tk_text_copy(out, in, i, i + good));
        i += good;
        if (bad == 0) break;
        OC_TRY(oc_tk_text_put(out, "\xef\xbf\xbd", 3, oc_tk_view_origin(in, i)));
        i += bad;
    }
    return OC_OK;
}
