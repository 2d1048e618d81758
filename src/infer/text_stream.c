/* text_stream.c - see text_stream.h.
 *
 * A decoder may look at the tokens before: whether a space is dropped, which bytes make up a
 * character. So what a token adds is the difference between the texts of a short run of tokens with
 * it and without it. The run starts anew behind each character that is whole. */
#include "infer/text_stream.h"

#include <stdlib.h>
#include <string.h>

enum { CONTEXT = 8, RUN_MOST = 64 };

struct oc_text_stream {
    oc_text_stream_spec spec;
    int32_t
        *ids; /* context, then tokens since: bounded by RUN_MOST, beyond the last whole character */
    int32_t n_context, n, room;
    char *held; /* text that may become a stop, or was given out by the last call */
    size_t n_held, held_room, given;
    bool stopped;
};

static oc_status no_memory(oc_error *err) {
    return oc_fail(err, OC_E_MEMORY, "no memory for an answer's text");
}

static oc_status push(oc_text_stream *s, int32_t id, oc_error *err) {
    if (s->n == s->room) {
        int32_t room = s->room ? 2 * s->room : 2 * CONTEXT;
        int32_t *more = realloc(s->ids, (size_t)room * sizeof *more);
        if (!more) return no_memory(err);
        s->ids = more;
        s->room = room;
    }
    s->ids[s->n++] = id;
    return OC_OK;
}

oc_status oc_text_stream_open(oc_text_stream **out, const oc_text_stream_spec *spec,
                              oc_error *err) {
    oc_text_stream *s = calloc(1, sizeof *s);
    if (!s) return no_memory(err);
    s->spec = *spec;
    int32_t first = spec->n_prompt > CONTEXT ? spec->n_prompt - CONTEXT : 0;
    oc_status st = OC_OK;
    for (int32_t i = first; st == OC_OK && i < spec->n_prompt; i++)
        st = push(s, spec->prompt[i], err);
    if (st != OC_OK) {
        oc_text_stream_close(s);
        return st;
    }
    s->n_context = s->n;
    *out = s;
    return OC_OK;
}

void oc_text_stream_close(oc_text_stream *s) {
    if (!s) return;
    free(s->ids);
    free(s->held);
    free(s);
}

static oc_status hold(oc_text_stream *s, const char *text, size_t n, oc_error *err) {
    if (s->n_held + n + 1 > s->held_room) {
        size_t room = 2 * (s->n_held + n) + 64;
        char *more = realloc(s->held, room);
        if (!more) return no_memory(err);
        s->held = more;
        s->held_room = room;
    }
    memcpy(s->held + s->n_held, text, n);
    s->n_held += n;
    s->held[s->n_held] = 0;
    return OC_OK;
}

/* ---- characters ---- */

/* U+FFFD at the end may still become another character. */
static bool is_open(const char *text, size_t n) {
    return n >= 3 && memcmp(text + n - 3, "\xef\xbf\xbd", 3) == 0;
}

/* What the tokens since the context add to its text is held; they are the context from now on. */
static oc_status take_text(oc_text_stream *s, bool end, oc_error *err) {
    const oc_tokenizer *t = s->spec.tokenizer;
    char *with = NULL, *without = NULL;
    size_t n_with, n_without;
    OC_TRY(oc_tokenizer_decode(t, s->ids, (size_t)s->n, true, &with, &n_with, err));
    bool waits = !end && is_open(with, n_with) && s->n - s->n_context < RUN_MOST;
    if (waits) {
        free(with);
        return OC_OK;
    }
    oc_status st =
        oc_tokenizer_decode(t, s->ids, (size_t)s->n_context, true, &without, &n_without, err);
    if (st == OC_OK && n_with > n_without) st = hold(s, with + n_without, n_with - n_without, err);
    int32_t keep = s->n < CONTEXT ? s->n : CONTEXT;
    memmove(s->ids, s->ids + s->n - keep, (size_t)keep * sizeof *s->ids);
    s->n = s->n_context = keep;
    free(with);
    free(without);
    return st;
}

/* ---- stops ---- */

/* The first place at which a stop text is whole in what is held; n_held: none. */
static size_t find_stop(const oc_text_stream *s) {
    size_t best = s->n_held;
    for (int32_t k = 0; k < s->spec.n_stops; k++) {
        size_t n = strlen(s->spec.stops[k]);
        for (size_t i = 0; n > 0 && i + n <= s->n_held && i < best; i++)
            if (memcmp(s->held + i, s->spec.stops[k], n) == 0) best = i;
    }
    return best;
}

/* How much of the end of what is held may be the beginning of a stop text. */
static size_t open_end(const oc_text_stream *s) {
    size_t most = 0;
    for (int32_t k = 0; k < s->spec.n_stops; k++) {
        size_t n = strlen(s->spec.stops[k]);
        for (size_t i = n > 0 ? n - 1 : 0; i > most; i--)
            if (i <= s->n_held && memcmp(s->held + s->n_held - i, s->spec.stops[k], i) == 0)
                most = i;
    }
    return most;
}

static void give(oc_text_stream *s, size_t n, const char **text, size_t *out) {
    *text = s->held;
    *out = s->given = n;
}

static void drop_given(oc_text_stream *s) {
    memmove(s->held, s->held + s->given, s->n_held - s->given);
    s->n_held -= s->given;
    s->given = 0;
}

oc_status oc_text_stream_put(oc_text_stream *s, int32_t id, const char **text, size_t *n,
                             bool *stopped, oc_error *err) {
    *text = "";
    *n = 0;
    *stopped = s->stopped;
    if (s->stopped) return OC_OK;
    if (s->given) drop_given(s);
    OC_TRY(push(s, id, err));
    OC_TRY(take_text(s, false, err));
    size_t stop = find_stop(s);
    *stopped = s->stopped = stop < s->n_held;
    if (s->stopped) s->n_held = stop;
    give(s, s->stopped ? stop : s->n_held - open_end(s), text, n);
    if (!s->held) *text = "";
    return OC_OK;
}

oc_status oc_text_stream_end(oc_text_stream *s, const char **text, size_t *n, oc_error *err) {
    *text = "";
    *n = 0;
    if (s->given) drop_given(s);
    if (s->stopped) return OC_OK;
    if (s->n > s->n_context) OC_TRY(take_text(s, true, err));
    if (!s->held) return OC_OK;
    give(s, s->n_held, text, n);
    s->stopped = true;
    return OC_OK;
}
