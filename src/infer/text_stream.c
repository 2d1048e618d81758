/* Tokens to text, up to a stop: stop texts are found by Knuth, Morris and Pratt's automaton, byte
 * by byte, all side by side. What any of them has begun to match waits. */
#include "infer/text_stream.h"

#include <stdlib.h>
#include <string.h>

typedef struct stop {
    char *text;
    size_t n, matched; /* matched: bytes of it that the text ends with now, the most */
    size_t *borders;   /* [n]: of its first i + 1 bytes, the longest border */
} stop;

struct oc_text_stream {
    oc_decode *decode;
    int32_t vocab;
    stop *stops;
    int32_t n_stops;
    char *echo; /* of decoding the prompt, what had not come when the answer began */
    size_t echo_n, echoed;
    char *text; /* [0, given) was given out last; then what waits */
    size_t given, n, room;
    bool stopped;
};

/* --- Stops */

static void fill_borders(stop *x) {
    for (size_t i = 1, k = 0; i < x->n; i++) {
        while (k > 0 && x->text[i] != x->text[k])
            k = x->borders[k - 1];
        k += x->text[i] == x->text[k];
        x->borders[i] = k;
    }
}

static oc_status add_stop(oc_text_stream *s, const char *text, oc_error *err) {
    stop *x = &s->stops[s->n_stops++];
    x->n = strlen(text);
    if (x->n == 0) return oc_fail(err, OC_E_INVALID, "a stop text is empty: nothing would be left");
    x->text = strdup(text);
    x->borders = calloc(x->n, sizeof *x->borders);
    if (x->text == NULL || x->borders == NULL)
        return oc_fail(err, OC_E_MEMORY, "no memory for a stop text");
    fill_borders(x);
    return OC_OK;
}

/* Whether the text ends with the stop now. One that was whole has ended the text: matched < n. */
static bool step(stop *x, char c) {
    while (x->matched > 0 && x->text[x->matched] != c)
        x->matched = x->borders[x->matched - 1];
    x->matched += x->text[x->matched] == c;
    return x->matched == x->n;
}

/* Bytes of the stop that the text ends with after c; 0: of none. */
static size_t find_stop(oc_text_stream *s, char c) {
    size_t longest = 0;
    for (int32_t i = 0; i < s->n_stops; i++)
        if (step(&s->stops[i], c) && s->stops[i].n > longest) longest = s->stops[i].n;
    return longest;
}

static size_t waiting(const oc_text_stream *s) {
    size_t most = 0;
    for (int32_t i = 0; i < s->n_stops; i++)
        if (s->stops[i].matched > most) most = s->stops[i].matched;
    return most;
}

/* --- Text */

static oc_status reserve(oc_text_stream *s, size_t more, oc_error *err) {
    size_t want = s->n + more, room = s->room;
    if (want <= room) return OC_OK;
    while (room < want)
        room = room < 64 ? 64 : 2 * room;
    char *p = realloc(s->text, room);
    if (p == NULL) return oc_fail(err, OC_E_MEMORY, "no memory for %zu bytes of text", want);
    s->text = p;
    s->room = room;
    return OC_OK;
}

static void forget_given(oc_text_stream *s) {
    if (s->given > 0) memmove(s->text, s->text + s->given, s->n - s->given);
    s->n -= s->given;
    s->given = 0;
}

/* What decoding the prompt alone would have given too is none of the answer's. */
static void skip_echo(oc_text_stream *s, const char **text, size_t *n) {
    while (*n > 0 && s->echoed < s->echo_n && **text == s->echo[s->echoed]) {
        s->echoed++;
        (*text)++;
        (*n)--;
    }
    if (*n == 0) return;
    while (s->echoed > 0 && s->echoed < s->echo_n && ((unsigned char)**text & 0xc0) == 0x80) {
        s->echoed--; /* a character that only begins alike */
        (*text)--;
        (*n)++;
    }
    s->echo_n = 0;
}

static oc_status take(oc_text_stream *s, const char *text, size_t n, oc_error *err) {
    skip_echo(s, &text, &n);
    OC_TRY(reserve(s, n, err));
    for (size_t i = 0; i < n; i++) {
        s->text[s->n++] = text[i];
        size_t whole = find_stop(s, text[i]);
        if (whole == 0) continue;
        s->n -= whole;
        s->stopped = true;
        break;
    }
    return OC_OK;
}

static void give(oc_text_stream *s, bool all, const char **text, size_t *n, bool *stopped) {
    s->given = all || s->stopped ? s->n : s->n - waiting(s);
    *text = s->given > 0 ? s->text : "";
    *n = s->given;
    *stopped = s->stopped;
}

oc_status oc_text_stream_put(oc_text_stream *s, int32_t id, const char **text, size_t *n,
                             bool *stopped, oc_error *err) {
    const char *more = "";
    size_t more_n = 0;
    forget_given(s);
    if (id < 0) return oc_fail(err, OC_E_INVALID, "%d is no id", (int)id);
    if (!s->stopped && id < s->vocab) {
        OC_TRY(oc_decode_put(s->decode, &id, 1, &more, &more_n, err));
        OC_TRY(take(s, more, more_n, err));
    }
    give(s, false, text, n, stopped);
    return OC_OK;
}

oc_status oc_text_stream_end(oc_text_stream *s, const char **text, size_t *n, bool *stopped,
                             oc_error *err) {
    const char *more;
    size_t more_n;
    forget_given(s);
    if (!s->stopped) {
        OC_TRY(oc_decode_end(s->decode, &more, &more_n, err));
        OC_TRY(take(s, more, more_n, err));
    }
    give(s, true, text, n, stopped);
    return OC_OK;
}

/* --- Life */

static int32_t *known_ids(const oc_text_stream *s, const oc_text_stream_spec *spec, size_t *n) {
    int32_t *ids = malloc((size_t)spec->n_prompt * sizeof *ids);
    *n = 0;
    for (int32_t i = 0; ids != NULL && i < spec->n_prompt; i++)
        if (spec->prompt[i] < s->vocab) ids[(*n)++] = spec->prompt[i];
    return ids;
}

/* The prompt is decoded twice: as far as the stream has it, and to its end. */
static oc_status take_prompt(oc_text_stream *s, const oc_text_stream_spec *spec, oc_error *err) {
    const char *begun;
    size_t begun_n, n;
    if (spec->n_prompt == 0) return OC_OK;
    int32_t *ids = known_ids(s, spec, &n);
    if (ids == NULL) return oc_fail(err, OC_E_MEMORY, "no memory for an answer's text");
    oc_status status = oc_decode_put(s->decode, ids, n, &begun, &begun_n, err);
    if (status == OC_OK)
        status = oc_tokenizer_decode(spec->tokenizer, ids, n, !spec->specials, &s->echo, &s->echo_n,
                                     err);
    free(ids);
    OC_TRY(status);
    s->echo_n -= begun_n;
    memmove(s->echo, s->echo + begun_n, s->echo_n);
    return OC_OK;
}

static oc_status fill(oc_text_stream *s, const oc_text_stream_spec *spec, oc_error *err) {
    s->vocab = oc_tokenizer_vocab(spec->tokenizer);
    s->stops = calloc((size_t)spec->n_stops + 1, sizeof *s->stops);
    if (s->stops == NULL) return oc_fail(err, OC_E_MEMORY, "no memory for stop texts");
    for (int32_t i = 0; i < spec->n_stops; i++)
        OC_TRY(add_stop(s, spec->stops[i], err));
    OC_TRY(oc_decode_open(&s->decode, spec->tokenizer, !spec->specials, err));
    return take_prompt(s, spec, err);
}

oc_status oc_text_stream_open(oc_text_stream **out, const oc_text_stream_spec *spec,
                              oc_error *err) {
    *out = NULL;
    oc_text_stream *s = calloc(1, sizeof *s);
    if (s == NULL) return oc_fail(err, OC_E_MEMORY, "no memory for an answer's text");
    oc_status status = fill(s, spec, err);
    if (status == OC_OK)
        *out = s;
    else
        oc_text_stream_close(s);
    return status;
}

void oc_text_stream_close(oc_text_stream *s) {
    if (s == NULL) return;
    for (int32_t i = 0; i < s->n_stops; i++) {
        free(s->stops[i].text);
        free(s->stops[i].borders);
    }
    oc_decode_close(s->decode);
    free(s->stops);
    free(s->echo);
    free(s->text);
    free(s);
}
