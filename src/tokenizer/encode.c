/* From a text to ids: the stages in their order, over the working memory of one oc_tokens. */
#include "tokenizer/internal.h"

#include <stdlib.h>
#include <string.h>

/* What one oc_tokens keeps between calls. */
typedef struct scratch {
    uint64_t content; /* whose words are remembered */
    oc_tk_text repaired, normal[2], split[2];
    oc_tk_pieces pieces[2];
    oc_tk_matcher *matcher;
    oc_tk_bpe *bpe;
    uint64_t work;
    size_t most; /* bytes that the rules may make of the text at hand; tokens too */
} scratch;

void oc_tokens_free(oc_tokens *t) {
    if (t == NULL) return;
    scratch *k = t->scratch;
    if (k != NULL) {
        oc_tk_text_release(&k->repaired);
        for (int i = 0; i < 2; i++) {
            oc_tk_text_release(&k->normal[i]);
            oc_tk_text_release(&k->split[i]);
            free(k->pieces[i].p);
        }
        oc_tk_matcher_free(k->matcher);
        oc_tk_bpe_free(k->bpe);
        free(k);
    }
    free(t->ids);
    free(t->starts);
    *t = (oc_tokens){0};
}

oc_status oc_tokens_reserve(oc_tokens *t, size_t n) {
    if (n <= t->room) return OC_OK;
    size_t ids_room = t->room, starts_room = t->room;
    void *ids = t->ids, *starts = t->starts;
    OC_TRY(oc_tk_grow(&ids, &ids_room, n, sizeof *t->ids));
    t->ids = ids;
    OC_TRY(oc_tk_grow(&starts, &starts_room, n, sizeof *t->starts));
    t->starts = starts;
    t->room = ids_room;
    return OC_OK;
}

uint64_t oc_tk_work(const oc_tokens *t) {
    const scratch *k = t->scratch;
    return k == NULL ? 0 : k->work + oc_tk_bpe_work(k->bpe);
}

static void limit(scratch *k, size_t n) {
    k->most = oc_tk_most(n);
    for (int i = 0; i < 2; i++)
        k->normal[i].b.most = k->split[i].b.most = k->most;
}

static oc_status take_scratch(const oc_tokenizer *t, oc_tokens *out, scratch **k) {
    if (out->scratch == NULL) out->scratch = calloc(1, sizeof(scratch));
    if (out->scratch == NULL) return OC_E_MEMORY;
    *k = out->scratch;
    if ((*k)->content != t->content) oc_tk_bpe_forget((*k)->bpe);
    (*k)->content = t->content;
    return OC_OK;
}

static oc_status emit(oc_tokens *out, int32_t id, size_t start) {
    if (out->n == out->room) OC_TRY(oc_tokens_reserve(out, out->n + 1));
    if (out->n > 0 && out->starts[out->n - 1] > start) start = out->starts[out->n - 1];
    out->ids[out->n] = id;
    out->starts[out->n++] = start;
    return OC_OK;
}

/* One run of the pipeline. */
typedef struct job {
    const oc_tokenizer *t;
    scratch *k;
    oc_tokens *out;
    oc_error *err;
} job;

static oc_status encode_word(job *j, oc_tk_view *v, oc_tk_piece word) {
    while (word.begin < word.end) {
        const oc_tk_token *tokens;
        size_t count;
        const char *s = v->s + word.begin;
        size_t n = oc_tk_bpe_cut(&j->t->model, s, word.end - word.begin);
        OC_TRY(oc_tk_bpe_word(&j->t->model, &j->k->bpe, s, n, &tokens, &count, j->err));
        if (count > j->k->most - j->out->n) return OC_E_OVERFLOW;
        for (size_t i = 0; i < count; i++)
            OC_TRY(emit(j->out, tokens[i].id, oc_tk_view_origin(v, word.begin + tokens[i].at)));
        word.begin += n;
    }
    return OC_OK;
}

static oc_status encode_plain(job *j, oc_tk_view v) {
    const oc_tk_pieces *words;
    OC_TRY(
        oc_tk_split(j->t->splitter, &v, j->k->split, j->k->pieces, &words, &j->k->matcher, j->err));
    for (size_t i = 0; i < words->n; i++)
        OC_TRY(encode_word(j, &v, words->p[i]));
    return OC_OK;
}

typedef oc_status stage(job *j, oc_tk_view v);

/* Added tokens of one trie become ids; what lies between them goes to the next stage. */
static oc_status between_added(job *j, oc_tk_view *v, const oc_tk_trie *x, stage *next) {
    oc_tk_scan scan = {.s = v->s, .n = v->n};
    oc_tk_piece where;
    int32_t id;
    oc_status s = OC_OK;
    while (s == OC_OK && oc_tk_added_next(&j->t->added, x, &scan, &where, &id)) {
        if (where.begin > scan.covered) s = next(j, oc_tk_view_part(v, scan.covered, where.begin));
        if (s == OC_OK) s = emit(j->out, id, oc_tk_view_origin(v, where.begin));
        scan.covered = where.end;
    }
    j->k->work += scan.work;
    if (s == OC_OK && scan.covered < v->n) s = next(j, oc_tk_view_part(v, scan.covered, v->n));
    return s;
}

static oc_status encode_normalized(job *j, oc_tk_view v) {
    OC_TRY(oc_tk_normalize(j->t->normalizer, &v, j->k->normal, &j->k->matcher, j->err));
    return between_added(j, &v, &j->t->added.normalized, encode_plain);
}

static oc_status encode_text(job *j, const char *text, size_t n) {
    oc_tk_view v = {.s = text, .n = n};
    size_t bad;
    if (oc_tk_valid(text, n, &bad) < n) {
        oc_tk_text_clear(&j->k->repaired);
        OC_TRY(oc_tk_repair(&j->k->repaired, &v));
        v = oc_tk_text_view(&j->k->repaired);
    }
    return between_added(j, &v, &j->t->added.raw, encode_normalized);
}

static oc_status encode(job *j, const char *text, size_t n, oc_special special) {
    const oc_tk_post *p = &j->t->post;
    j->out->n = 0;
    if (j->t->bytes) return oc_tk_bytes_encode(text, n, special, j->out);
    OC_TRY(take_scratch(j->t, j->out, &j->k));
    limit(j->k, n);
    for (size_t i = 0; special == OC_SPECIAL_ADD && i < p->n_before; i++)
        OC_TRY(emit(j->out, p->before[i], 0));
    OC_TRY(encode_text(j, text, n));
    for (size_t i = 0; special == OC_SPECIAL_ADD && i < p->n_after; i++)
        OC_TRY(emit(j->out, p->after[i], n));
    return OC_OK;
}

oc_status oc_tokenizer_encode(const oc_tokenizer *t, const char *text, size_t n, oc_special special,
                              oc_tokens *out, oc_error *err) {
    job j = {.t = t, .out = out, .err = err};
    oc_status s = encode(&j, text, n, special);
    if (s == OC_E_MEMORY) oc_fail(err, s, "no memory to tokenize a text of %zu bytes", n);
    if (s == OC_E_OVERFLOW)
        oc_fail(err, s, "%s: its rules would make more than %zu bytes of a text of %zu",
                t->origin != NULL ? t->origin : "the tokenizer", oc_tk_most(n), n);
    if (s != OC_OK) out->n = 0;
    return s;
}
