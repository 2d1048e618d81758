/* Post-processors: the special tokens around a text. */
#include "base/heap.h"
#include "base/json.h"
#include "tokenizer/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static oc_status out_of_memory(const char *where, oc_error *err) {
    return oc_fail(err, OC_E_MEMORY, "%s: no memory for it", where);
}

enum { AROUND_MOST = 1024 }; /* special tokens before a text, and after it */

static oc_status too_many(const char *where, oc_error *err) {
    return oc_fail(err, OC_E_OVERFLOW, "%s: more than %d special tokens around a text", where,
                   AROUND_MOST);
}

typedef struct ids {
    int32_t *id;
    size_t n, room;
} ids;

/* What one processor puts around the text; the next one puts its own around that. */
typedef struct around {
    ids before, after;
} around;

static oc_status add_id(ids *x, const json_t *id, const char *where, oc_error *err) {
    if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= INT32_MAX)
        return oc_fail(err, OC_E_FORMAT, "%s: the id of a special token is not a small integer",
                       where);
    if (x->n == AROUND_MOST) return too_many(where, err);
    void *p = x->id;
    if (oc_tk_grow(&p, &x->room, x->n + 1, sizeof *x->id) != OC_OK)
        return out_of_memory(where, err);
    x->id = p;
    x->id[x->n++] = (int32_t)json_integer_value(id);
    return OC_OK;
}

static oc_status add_special(ids *x, const json_t *o, const json_t *table, const char *where,
                             oc_error *err) {
    const char *name = oc_tk_plain(json_object_get(o, "id"));
    if (name == NULL) return oc_fail(err, OC_E_FORMAT, "%s: a SpecialToken without an id", where);
    const json_t *list = json_object_get(json_object_get(table, name), "ids");
    if (!json_is_array(list))
        return oc_fail(err, OC_E_FORMAT,
                       "%s: the special token \"%s\" has no \"ids\" in \"special_tokens\"", where,
                       name);
    for (size_t i = 0; i < json_array_size(list); i++)
        OC_TRY(add_id(x, json_array_get(list, i), where, err));
    return OC_OK;
}

static oc_status read_template(around *a, const oc_tk_component *c, const char *where,
                               oc_error *err) {
    static const char *const known[] = {"type", "single", "pair", "special_tokens"};
    OC_TRY(oc_tk_component_keys(c, where, known, 4, err));
    json_t *single, *table = json_object_get(c->o, "special_tokens");
    OC_TRY(oc_json_get_array(c->o, where, "single", OC_JSON_REQUIRED, &single, err));
    int texts = 0;
    for (size_t i = 0; i < json_array_size(single); i++) {
        const json_t *piece = json_array_get(single, i);
        const json_t *special = json_object_get(piece, "SpecialToken");
        const json_t *text = json_object_get(piece, "Sequence");
        const char *which = oc_tk_plain(json_object_get(text, "id"));
        if (special != NULL) {
            OC_TRY(add_special(texts == 0 ? &a->before : &a->after, special, table, where, err));
        } else if (which != NULL && strcmp(which, "A") == 0) {
            texts++;
        } else {
            return oc_fail(err, OC_E_FORMAT,
                           "%s: \"single\" of a TemplateProcessing may hold only SpecialToken and "
                           "the Sequence A",
                           where);
        }
    }
    if (texts == 1) return OC_OK;
    return oc_fail(err, OC_E_UNSUPPORTED,
                   "%s: \"single\" of a TemplateProcessing must hold the Sequence A once, not %d "
                   "times",
                   where, texts);
}

/* ["</s>", 2] */
static oc_status read_pair(ids *x, const oc_tk_component *c, const char *key, const char *where,
                           oc_error *err) {
    const json_t *pair = json_object_get(c->o, key);
    if (!json_is_array(pair) || json_array_size(pair) != 2)
        return oc_fail(err, OC_E_FORMAT, "%s: \"%s\" of %s must be [text, id]", where, key,
                       c->type);
    return add_id(x, json_array_get(pair, 1), where, err);
}

static oc_status read_cls_sep(around *a, const oc_tk_component *c, const char *where,
                              oc_error *err) {
    static const char *const known[] = {"type", "sep", "cls", "trim_offsets", "add_prefix_space"};
    bool roberta = strcmp(c->type, "RobertaProcessing") == 0;
    OC_TRY(oc_tk_component_keys(c, where, known, roberta ? 5 : 3, err));
    OC_TRY(read_pair(&a->before, c, "cls", where, err));
    return read_pair(&a->after, c, "sep", where, err);
}

static oc_status join(int32_t **out, size_t *n, const int32_t *first, size_t n_first,
                      const int32_t *second, size_t n_second) {
    int32_t *all = malloc((n_first + n_second + 1) * sizeof *all);
    if (all == NULL) return OC_E_MEMORY;
    if (n_first > 0) memcpy(all, first, n_first * sizeof *all);
    if (n_second > 0) memcpy(all + n_first, second, n_second * sizeof *all);
    *out = all;
    *n = n_first + n_second;
    return OC_OK;
}

static bool fits(const oc_tk_post *p, const around *a) {
    return p->n_before + a->before.n <= AROUND_MOST && p->n_after + a->after.n <= AROUND_MOST;
}

static oc_status surround(oc_tk_post *p, const around *a) {
    int32_t *before, *after;
    size_t n_before, n_after;
    OC_TRY(join(&before, &n_before, a->before.id, a->before.n, p->before, p->n_before));
    if (join(&after, &n_after, p->after, p->n_after, a->after.id, a->after.n) != OC_OK) {
        free(before);
        return OC_E_MEMORY;
    }
    oc_tk_post_release(p);
    *p = (oc_tk_post){before, after, n_before, n_after};
    return OC_OK;
}

static oc_status read_step(void *arg, const oc_tk_component *c, const char *where, oc_error *err) {
    static const char *const offsets_only[] = {"type", "add_prefix_space", "trim_offsets",
                                               "use_regex"};
    around a = {0};
    oc_status s;
    if (strcmp(c->type, "ByteLevel") == 0)
        s = oc_tk_component_keys(c, where, offsets_only, 4, err);
    else if (strcmp(c->type, "TemplateProcessing") == 0)
        s = read_template(&a, c, where, err);
    else if (strcmp(c->type, "BertProcessing") == 0 || strcmp(c->type, "RobertaProcessing") == 0)
        s = read_cls_sep(&a, c, where, err);
    else
        s = oc_tk_unsupported(c, where,
                              "TemplateProcessing, ByteLevel, BertProcessing, RobertaProcessing, "
                              "Sequence",
                              err);
    if (s == OC_OK && !fits(arg, &a)) s = too_many(where, err);
    if (s == OC_OK && surround(arg, &a) != OC_OK) s = out_of_memory(where, err);
    free(a.before.id);
    free(a.after.id);
    return s;
}

oc_status oc_tk_post_init(oc_tk_post *p, const json_t *o, const char *origin, oc_error *err) {
    char where[OC_ERROR_BYTES];
    snprintf(where, sizeof where, "%s: post_processor", origin);
    *p = (oc_tk_post){0};
    return oc_tk_components(o, "processors", where, read_step, p, err);
}

uint64_t oc_tk_post_bytes(const oc_tk_post *p) {
    uint64_t before = (p->n_before + 1) * sizeof *p->before;
    uint64_t after = (p->n_after + 1) * sizeof *p->after;
    return (p->before != NULL ? oc_heap_bytes(before) : 0) +
           (p->after != NULL ? oc_heap_bytes(after) : 0);
}

void oc_tk_post_release(oc_tk_post *p) {
    free(p->before);
    free(p->after);
    *p = (oc_tk_post){0};
}
