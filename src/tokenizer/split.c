/* Pre-tokenizers: steps that cut a text into words, some of which rewrite it first. */
#include "tokenizer/internal.h"

#include "base/heap.h"
#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum step_kind {
    SPLIT,
    BYTE_LEVEL,
    METASPACE,
    DIGITS,
    PUNCTUATION,
    WHITESPACE,
    WHITESPACE_SPLIT
} step_kind;

typedef enum behavior { REMOVED, ISOLATED, CONTIGUOUS, WITH_PREVIOUS, WITH_NEXT } behavior;
typedef enum prepend { NEVER, ALWAYS, FIRST } prepend;

typedef struct step {
    step_kind kind;
    oc_tk_pattern pattern; /* SPLIT, and of METASPACE its character */
    behavior behavior;
    bool invert;
    bool prefix_space, regex; /* BYTE_LEVEL */
    bool individual;          /* DIGITS */
    bool split;               /* METASPACE */
    prepend prepend;          /* METASPACE */
} step;

struct oc_tk_splitter {
    step *steps;
    size_t n, room;
    bool raw;
    uint32_t symbols[256];
};

static const char gpt2[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

void oc_tk_byte_symbols(uint32_t out[256]) {
    uint32_t moved = 0;
    for (uint32_t b = 0; b < 256; b++) {
        bool printable =
            (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || (b >= 0xae && b <= 0xff);
        out[b] = printable ? b : 0x100 + moved;
        moved += !printable;
    }
}

/* --- Reading */

static oc_status read_behavior(behavior *out, const oc_tk_component *c, const char *where,
                               oc_json_need need, oc_error *err) {
    static const char *const names[] = {"Removed", "Isolated", "Contiguous", "MergedWithPrevious",
                                        "MergedWithNext"};
    const char *name = NULL;
    OC_TRY(oc_json_get_string(c->o, where, "behavior", need, &name, err));
    if (name == NULL) return OC_OK;
    for (int i = 0; i < 5; i++) {
        if (strcmp(name, names[i]) != 0) continue;
        *out = (behavior)i;
        return OC_OK;
    }
    return oc_fail(err, OC_E_UNSUPPORTED, "%s: %s has an unknown \"behavior\": \"%s\"", where,
                   c->type, name);
}

static oc_status read_split(step *s, const oc_tk_component *c, const char *where, oc_error *err) {
    static const char *const known[] = {"type", "pattern", "behavior", "invert"};
    s->kind = SPLIT;
    OC_TRY(oc_tk_component_keys(c, where, known, 4, err));
    OC_TRY(read_behavior(&s->behavior, c, where, OC_JSON_REQUIRED, err));
    OC_TRY(oc_json_get_bool(c->o, where, "invert", OC_JSON_REQUIRED, &s->invert, err));
    return oc_tk_pattern_read(&s->pattern, json_object_get(c->o, "pattern"), where, err);
}

static oc_status read_byte_level(step *s, const oc_tk_component *c, const char *where,
                                 oc_error *err) {
    static const char *const known[] = {"type", "add_prefix_space", "trim_offsets", "use_regex"};
    bool trim;
    s->kind = BYTE_LEVEL;
    s->regex = true;
    s->behavior = ISOLATED;
    OC_TRY(oc_tk_component_keys(c, where, known, 4, err));
    OC_TRY(
        oc_json_get_bool(c->o, where, "add_prefix_space", OC_JSON_REQUIRED, &s->prefix_space, err));
    OC_TRY(oc_json_get_bool(c->o, where, "trim_offsets", OC_JSON_REQUIRED, &trim, err));
    OC_TRY(oc_json_get_bool(c->o, where, "use_regex", OC_JSON_OPTIONAL, &s->regex, err));
    if (!s->regex) return OC_OK;
    return oc_tk_regex_new(&s->pattern.regex, gpt2, sizeof gpt2 - 1, where, err);
}

static oc_status read_metaspace(step *s, const oc_tk_component *c, const char *where,
                                oc_error *err) {
    static const char *const known[] = {"type",           "replacement", "add_prefix_space",
                                        "prepend_scheme", "split",       "str_rep"};
    const char *text, *scheme = "always";
    size_t n;
    bool prefix = true;
    s->kind = METASPACE;
    s->split = true;
    s->behavior = WITH_NEXT;
    OC_TRY(oc_tk_component_keys(c, where, known, 6, err));
    OC_TRY(oc_tk_component_char(c, where, "replacement", &text, &n, err));
    OC_TRY(oc_json_get_bool(c->o, where, "split", OC_JSON_OPTIONAL, &s->split, err));
    OC_TRY(oc_json_get_bool(c->o, where, "add_prefix_space", OC_JSON_OPTIONAL, &prefix, err));
    OC_TRY(oc_json_get_string(c->o, where, "prepend_scheme", OC_JSON_OPTIONAL, &scheme, err));
    if (strcmp(scheme, "always") == 0)
        s->prepend = ALWAYS;
    else if (strcmp(scheme, "first") == 0)
        s->prepend = FIRST;
    else if (strcmp(scheme, "never") == 0)
        s->prepend = NEVER;
    else
        return oc_fail(err, OC_E_UNSUPPORTED, "%s: an unknown \"prepend_scheme\": \"%s\"", where,
                       scheme);
    if (!prefix && s->prepend != NEVER)
        return oc_fail(err, OC_E_FORMAT,
                       "%s: \"add_prefix_space\" false contradicts the \"prepend_scheme\" \"%s\"",
                       where, scheme);
    s->pattern.literal = malloc(n);
    if (s->pattern.literal == NULL) return oc_fail(err, OC_E_MEMORY, "%s: no memory", where);
    memcpy(s->pattern.literal, text, n);
    s->pattern.n = n;
    return OC_OK;
}

static oc_status read_digits(step *s, const oc_tk_component *c, const char *where, oc_error *err) {
    static const char *const known[] = {"type", "individual_digits"};
    s->kind = DIGITS;
    OC_TRY(oc_tk_component_keys(c, where, known, 2, err));
    OC_TRY(
        oc_json_get_bool(c->o, where, "individual_digits", OC_JSON_REQUIRED, &s->individual, err));
    s->behavior = s->individual ? ISOLATED : CONTIGUOUS;
    return OC_OK;
}

static oc_status read_punctuation(step *s, const oc_tk_component *c, const char *where,
                                  oc_error *err) {
    static const char *const known[] = {"type", "behavior"};
    s->kind = PUNCTUATION;
    s->behavior = ISOLATED;
    OC_TRY(oc_tk_component_keys(c, where, known, 2, err));
    return read_behavior(&s->behavior, c, where, OC_JSON_OPTIONAL, err);
}

/* Words, and runs of what is neither a word nor white space; white space is removed. */
static oc_status read_whitespace(step *s, const oc_tk_component *c, const char *where,
                                 oc_error *err) {
    static const char *const known[] = {"type"};
    static const char words[] = "[\\w\\x{200c}\\x{200d}]+|[^\\w\\x{200c}\\x{200d}\\s]+";
    s->kind = WHITESPACE;
    s->behavior = REMOVED;
    s->invert = true;
    OC_TRY(oc_tk_component_keys(c, where, known, 1, err));
    return oc_tk_regex_new(&s->pattern.regex, words, sizeof words - 1, where, err);
}

static oc_status read_step(void *arg, const oc_tk_component *c, const char *where, oc_error *err) {
    static const char *const only_type[] = {"type"};
    oc_tk_splitter *z = arg;
    void *at = z->steps;
    if (oc_tk_grow(&at, &z->room, z->n + 1, sizeof *z->steps) != OC_OK)
        return oc_fail(err, OC_E_MEMORY, "%s: no memory", where);
    z->steps = at;
    step *s = &z->steps[z->n++];
    *s = (step){0};
    const char *t = c->type;
    if (strcmp(t, "Split") == 0) return read_split(s, c, where, err);
    if (strcmp(t, "ByteLevel") == 0) return read_byte_level(s, c, where, err);
    if (strcmp(t, "Metaspace") == 0) return read_metaspace(s, c, where, err);
    if (strcmp(t, "Digits") == 0) return read_digits(s, c, where, err);
    if (strcmp(t, "Punctuation") == 0) return read_punctuation(s, c, where, err);
    if (strcmp(t, "Whitespace") == 0) return read_whitespace(s, c, where, err);
    if (strcmp(t, "WhitespaceSplit") == 0) {
        s->kind = WHITESPACE_SPLIT;
        s->behavior = REMOVED;
        return oc_tk_component_keys(c, where, only_type, 1, err);
    }
    return oc_tk_unsupported(c, where,
                             "Split, ByteLevel, Metaspace, Digits, Punctuation, Whitespace, "
                             "WhitespaceSplit, Sequence",
                             err);
}

oc_status oc_tk_splitter_new(oc_tk_splitter **out, const json_t *o, const char *origin,
                             oc_error *err) {
    *out = NULL;
    char where[OC_ERROR_BYTES];
    snprintf(where, sizeof where, "%s: pre_tokenizer", origin);
    oc_tk_splitter *z = calloc(1, sizeof *z);
    if (z == NULL) return oc_fail(err, OC_E_MEMORY, "%s: no memory", where);
    oc_tk_byte_symbols(z->symbols);
    oc_status s = oc_tk_components(o, "pretokenizers", where, read_step, z, err);
    if (s != OC_OK || z->n == 0) {
        oc_tk_splitter_free(z);
        return s;
    }
    *out = z;
    return OC_OK;
}

void oc_tk_splitter_free(oc_tk_splitter *z) {
    if (z == NULL) return;
    for (size_t i = 0; i < z->n; i++)
        oc_tk_pattern_release(&z->steps[i].pattern);
    free(z->steps);
    free(z);
}

uint64_t oc_tk_splitter_bytes(const oc_tk_splitter *z) {
    if (z == NULL) return 0;
    uint64_t n = oc_heap_bytes(sizeof *z) + oc_heap_bytes(z->room * sizeof *z->steps);
    for (size_t i = 0; i < z->n; i++)
        n += oc_tk_pattern_bytes(&z->steps[i].pattern);
    return n;
}

bool oc_tk_splitter_ends_in_bytes(const oc_tk_splitter *z) {
    return z != NULL && z->steps[z->n - 1].kind == BYTE_LEVEL;
}

void oc_tk_splitter_set_raw(oc_tk_splitter *z, bool raw) { z->raw = raw; }

/* --- Cutting. Stretches of one piece arrive in order, each a match or what lies between matches.
 */

typedef struct cutter {
    behavior behavior;
    bool invert, previous;
    oc_tk_pieces *out;
    size_t first; /* of `out`, of this piece of text */
} cutter;

static oc_status cut(cutter *k, size_t begin, size_t end, bool is_match) {
    if (k->invert) is_match = !is_match;
    bool extend = false, previous = k->previous;
    k->previous = is_match;
    switch (k->behavior) {
    case REMOVED:
        if (is_match) return OC_OK;
        break;
    case ISOLATED:
        break;
    case CONTIGUOUS:
        extend = is_match == previous;
        break;
    case WITH_PREVIOUS:
        extend = is_match && !previous;
        break;
    case WITH_NEXT:
        extend = !is_match && previous;
        break;
    }
    if (!extend || k->out->n == k->first) return oc_tk_piece_push(k->out, begin, end);
    k->out->p[k->out->n - 1].end = end;
    return OC_OK;
}

static void drop_empty(cutter *k) {
    size_t kept = k->first;
    for (size_t i = k->first; i < k->out->n; i++)
        if (k->out->p[i].end > k->out->p[i].begin) k->out->p[kept++] = k->out->p[i];
    k->out->n = kept;
}

static oc_status cut_by_pattern(const step *s, const char *text, oc_tk_piece piece, cutter *k,
                                oc_tk_matcher **m, oc_error *err) {
    size_t n = piece.end - piece.begin, done = 0, begin, end;
    oc_tk_search f = oc_tk_pattern_search(&s->pattern, text + piece.begin, n);
    oc_status found;
    while ((found = oc_tk_search_next(&f, m, &begin, &end, err)) == OC_OK) {
        if (begin > done) OC_TRY(cut(k, piece.begin + done, piece.begin + begin, false));
        OC_TRY(cut(k, piece.begin + begin, piece.begin + end, true));
        done = end;
    }
    if (found != OC_E_NOTFOUND) return found;
    return done < n ? cut(k, piece.begin + done, piece.end, false) : OC_OK;
}

static bool is_of_kind(step_kind kind, uint32_t c) {
    return kind == DIGITS        ? oc_tk_is_numeric(c)
           : kind == PUNCTUATION ? oc_tk_is_punctuation(c)
                                 : oc_tk_is_space(c);
}

static oc_status cut_by_character(const step *s, const char *text, oc_tk_piece piece, cutter *k) {
    size_t done = piece.begin;
    for (size_t i = piece.begin; i < piece.end;) {
        size_t begin = i;
        if (!is_of_kind(s->kind, oc_tk_next(text, &i))) continue;
        if (begin > done) OC_TRY(cut(k, done, begin, false));
        OC_TRY(cut(k, begin, i, true));
        done = i;
    }
    return piece.end > done ? cut(k, done, piece.end, false) : OC_OK;
}

static oc_status cut_all(const step *s, const char *text, const oc_tk_pieces *in, oc_tk_pieces *out,
                         oc_tk_matcher **m, oc_error *err) {
    out->n = 0;
    for (size_t i = 0; i < in->n; i++) {
        cutter k = {.behavior = s->behavior, .invert = s->invert, .out = out, .first = out->n};
        if (s->kind == METASPACE) k.invert = false;
        if (s->pattern.regex != NULL || s->pattern.literal != NULL)
            OC_TRY(cut_by_pattern(s, text, in->p[i], &k, m, err));
        else
            OC_TRY(cut_by_character(s, text, in->p[i], &k));
        drop_empty(&k);
    }
    return OC_OK;
}

/* --- Rewriting: pieces of `in` become pieces of `out`, in place. */

static bool begins_with(oc_tk_view *v, oc_tk_piece p, const char *s, size_t n) {
    return p.end - p.begin >= n && memcmp(v->s + p.begin, s, n) == 0;
}

static oc_status add_prefix_space(oc_tk_view *in, oc_tk_pieces *pieces, oc_tk_text *out) {
    for (size_t i = 0; i < pieces->n; i++) {
        oc_tk_piece p = pieces->p[i];
        pieces->p[i].begin = out->b.n;
        if (!begins_with(in, p, " ", 1))
            OC_TRY(oc_tk_text_put(out, " ", 1, oc_tk_view_origin(in, p.begin)));
        OC_TRY(oc_tk_text_copy(out, in, p.begin, p.end));
        pieces->p[i].end = out->b.n;
    }
    return OC_OK;
}

static oc_status spaces_to_meta(const step *s, oc_tk_view *in, oc_tk_piece p, oc_tk_text *out) {
    for (size_t i = p.begin; i < p.end;) {
        const char *space = memchr(in->s + i, ' ', p.end - i);
        size_t at = space == NULL ? p.end : (size_t)(space - in->s);
        OC_TRY(oc_tk_text_copy(out, in, i, at));
        if (space == NULL) break;
        OC_TRY(oc_tk_text_put(out, s->pattern.literal, s->pattern.n, oc_tk_view_origin(in, at)));
        i = at + 1;
    }
    return OC_OK;
}

static oc_status metaspace(const step *s, oc_tk_view *in, oc_tk_pieces *pieces, oc_tk_text *out) {
    for (size_t i = 0; i < pieces->n; i++) {
        oc_tk_piece p = pieces->p[i];
        pieces->p[i].begin = out->b.n;
        size_t origin = oc_tk_view_origin(in, p.begin);
        bool wanted = s->prepend == ALWAYS || (s->prepend == FIRST && origin == 0);
        if (wanted && !begins_with(in, p, " ", 1) &&
            !begins_with(in, p, s->pattern.literal, s->pattern.n))
            OC_TRY(oc_tk_text_put(out, s->pattern.literal, s->pattern.n, origin));
        OC_TRY(spaces_to_meta(s, in, p, out));
        pieces->p[i].end = out->b.n;
    }
    return OC_OK;
}

static oc_status bytes_to_symbols(const oc_tk_splitter *z, oc_tk_view *in, oc_tk_pieces *pieces,
                                  oc_tk_text *out) {
    for (size_t i = 0; i < pieces->n; i++) {
        oc_tk_piece p = pieces->p[i];
        pieces->p[i].begin = out->b.n;
        for (size_t k = p.begin; k < p.end; k++) {
            char utf8[4];
            size_t n = oc_tk_put_utf8(z->symbols[(unsigned char)in->s[k]], utf8);
            OC_TRY(oc_tk_text_put(out, utf8, n, oc_tk_view_origin(in, k)));
        }
        pieces->p[i].end = out->b.n;
    }
    return OC_OK;
}

typedef struct work {
    const oc_tk_splitter *z;
    oc_tk_view *v;
    oc_tk_text *text;
    oc_tk_pieces *pieces; /* two */
    int to, now;          /* the text to write next; the pieces that hold */
} work;

static void turn(work *w) {
    *w->v = oc_tk_text_view(&w->text[w->to]);
    w->to = 1 - w->to;
}

static oc_status apply(work *w, const step *s, bool last, oc_tk_matcher **m, oc_error *err) {
    oc_tk_text_clear(&w->text[w->to]);
    if (s->kind == METASPACE) {
        OC_TRY(metaspace(s, w->v, &w->pieces[w->now], &w->text[w->to]));
        turn(w);
        if (!s->split) return OC_OK;
    }
    if (s->kind == BYTE_LEVEL && s->prefix_space) {
        OC_TRY(add_prefix_space(w->v, &w->pieces[w->now], &w->text[w->to]));
        turn(w);
    }
    if (s->kind != BYTE_LEVEL || s->regex) {
        OC_TRY(cut_all(s, w->v->s, &w->pieces[w->now], &w->pieces[1 - w->now], m, err));
        w->now = 1 - w->now;
    }
    if (s->kind == BYTE_LEVEL && !(last && w->z->raw)) {
        oc_tk_text_clear(&w->text[w->to]);
        OC_TRY(bytes_to_symbols(w->z, w->v, &w->pieces[w->now], &w->text[w->to]));
        turn(w);
    }
    return OC_OK;
}

oc_status oc_tk_split(const oc_tk_splitter *z, oc_tk_view *v, oc_tk_text text[2],
                      oc_tk_pieces pieces[2], const oc_tk_pieces **words, oc_tk_matcher **m,
                      oc_error *err) {
    work w = {.z = z, .v = v, .text = text, .pieces = pieces};
    pieces[0].n = pieces[1].n = 0;
    oc_status s = v->n > 0 ? oc_tk_piece_push(&pieces[0], 0, v->n) : OC_OK;
    for (size_t i = 0; z != NULL && i < z->n && s == OC_OK; i++)
        s = apply(&w, &z->steps[i], i + 1 == z->n, m, err);
    if (s == OC_E_MEMORY) return oc_fail(err, s, "no memory to split a text");
    *words = &pieces[w.now];
    return s;
}
