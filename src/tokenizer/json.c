/* From the text of a tokenizer.json to the parts of a tokenizer.
 *
 * "vocab" and "merges" are read where they lie; all the rest is small, and is copied to a document
 * of its own that base/json.h reads. */
#include "base/json.h"
#include "tokenizer/reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct document {
    oc_tk_reader r;
    oc_tk_bytes rest; /* everything but the two large parts */
    oc_tk_slices slices;
    oc_tk_bytes key;
} document;

static oc_status add(document *d, const char *s, size_t n) {
    if (oc_tk_append(&d->rest, s, n) == OC_OK) return OC_OK;
    return oc_fail(d->r.err, OC_E_MEMORY, "%s: no memory to read it", d->r.origin);
}

static bool key_is(const document *d, const char *name) {
    return d->key.n == strlen(name) && memcmp(d->key.s, name, d->key.n) == 0;
}

static oc_status take_members(document *d, bool in_model);

/* A value whose key was read; begin: where the key lies. */
static oc_status take_value(document *d, bool in_model, size_t begin) {
    oc_tk_piece *large = !in_model             ? NULL
                         : key_is(d, "vocab")  ? &d->slices.vocab
                         : key_is(d, "merges") ? &d->slices.merges
                                               : NULL;
    if (!in_model && key_is(d, "model") && oc_tk_reader_peek(&d->r) == '{') {
        OC_TRY(add(d, "\"model\":", 8));
        return take_members(d, true);
    }
    oc_tk_reader_space(&d->r);
    size_t value = d->r.at;
    OC_TRY(oc_tk_reader_skip(&d->r));
    if (large == NULL) return add(d, d->r.s + begin, d->r.at - begin);
    if (large->end != 0) return oc_tk_reader_fail(&d->r, "a key occurs twice");
    *large = (oc_tk_piece){value, d->r.at};
    return add(d, large == &d->slices.vocab ? "\"vocab\":{}" : "\"merges\":[]",
               large == &d->slices.vocab ? 10 : 11);
}

static oc_status take_members(document *d, bool in_model) {
    OC_TRY(oc_tk_reader_take(&d->r, '{'));
    OC_TRY(add(d, "{", 1));
    if (oc_tk_reader_accept(&d->r, '}')) return add(d, "}", 1);
    for (;;) {
        oc_tk_reader_space(&d->r);
        size_t begin = d->r.at;
        d->key.n = 0;
        OC_TRY(oc_tk_reader_string(&d->r, &d->key));
        OC_TRY(oc_tk_reader_take(&d->r, ':'));
        OC_TRY(take_value(d, in_model, begin));
        if (!oc_tk_reader_accept(&d->r, ',')) break;
        OC_TRY(add(d, ",", 1));
    }
    OC_TRY(oc_tk_reader_take(&d->r, '}'));
    return add(d, "}", 1);
}

static oc_status take_document(document *d) {
    OC_TRY(take_members(d, false));
    if (oc_tk_reader_peek(&d->r) != 0 || d->r.at != d->r.n)
        return oc_tk_reader_fail(&d->r, "not valid JSON: something follows its end");
    return OC_OK;
}

/* *out is everything but the content of "vocab" and "merges". */
static oc_status split(json_t **out, oc_tk_slices *slices, const char *json, size_t n,
                       const char *origin, oc_error *err) {
    *out = NULL;
    document d = {.r = {.s = json, .n = n, .origin = origin, .err = err},
                  .slices = {.text = json, .n = n}};
    oc_status s = take_document(&d);
    oc_error why = {.status = OC_OK};
    if (s == OC_OK) {
        s = oc_json_parse(out, d.rest.s, d.rest.n, origin, 1, OC_JSON_ALLOW_NUL, &why);
        if (s != OC_OK && err != NULL) *err = why;
    }
    /* The copy has other lines and columns than the file; only messages need those. */
    if (s != OC_OK && s != OC_E_MEMORY) {
        json_t *whole;
        if (oc_json_parse(&whole, json, n, origin, 1, OC_JSON_ALLOW_NUL, &why) == OC_OK)
            json_decref(whole);
        else if (err != NULL)
            *err = why;
        if (why.status != OC_OK) s = why.status;
    }
    free(d.rest.s);
    free(d.key.s);
    *slices = d.slices;
    return s;
}

/* "truncation" and "padding" say how a caller would shape a batch; here the caller says it. */
static oc_status build(oc_tokenizer *t, const json_t *root, const oc_tk_slices *slices,
                       const char *origin, oc_error *err) {
    static const char *const known[] = {"version",        "truncation", "padding",
                                        "added_tokens",   "normalizer", "pre_tokenizer",
                                        "post_processor", "decoder",    "model"};
    OC_TRY(oc_json_check_keys(root, origin, NULL, known, sizeof known / sizeof known[0], err));
    json_t *model;
    OC_TRY(oc_json_get_object(root, origin, "model", OC_JSON_REQUIRED, &model, err));
    OC_TRY(oc_tk_normalizer_new(&t->normalizer, json_object_get(root, "normalizer"), origin, err));
    OC_TRY(oc_tk_splitter_new(&t->splitter, json_object_get(root, "pre_tokenizer"), origin, err));
    bool bytes_last = oc_tk_splitter_ends_in_bytes(t->splitter);
    OC_TRY(oc_tk_model_init(&t->model, model, slices, bytes_last, origin, err));
    if (bytes_last) oc_tk_splitter_set_raw(t->splitter, t->model.byte_level);
    OC_TRY(oc_tk_added_init(&t->added, json_object_get(root, "added_tokens"), &t->model.vocab,
                            t->normalizer, origin, err));
    t->vocab = t->model.vocab.size > t->added.size ? t->model.vocab.size : t->added.size;
    OC_TRY(oc_tk_post_init(&t->post, json_object_get(root, "post_processor"), origin, err));
    for (size_t i = 0; i < t->post.n_before + t->post.n_after; i++) {
        int32_t id = i < t->post.n_before ? t->post.before[i] : t->post.after[i - t->post.n_before];
        if (id >= t->vocab)
            return oc_fail(err, OC_E_FORMAT, "%s: post_processor: the id %d is not a token's",
                           origin, (int)id);
    }
    return oc_tk_decoder_new(&t->decoder, json_object_get(root, "decoder"), origin, err);
}

oc_status oc_tk_json_read(oc_tokenizer *t, const char *json, size_t n, const char *origin,
                          oc_error *err) {
    json_t *root;
    oc_tk_slices slices;
    OC_TRY(split(&root, &slices, json, n, origin, err));
    oc_status s = build(t, root, &slices, origin, err);
    json_decref(root);
    t->content = oc_tk_hash(json, n);
    return s;
}
