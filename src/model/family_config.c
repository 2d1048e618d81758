/* family_config.c - config.json read through a family's tables.
 *
 * The rule for keys is the reference's: what changes its result is read or refused by name; what
 * does not is in a table of known, ignored keys; what only training by others would do (dropout)
 * leaves a note. Keys that the reference ignores are counted in one note. A key that is one
 * letter off one that is read, and absent, is refused as its misspelling.
 * tests/data/config_keys.tsv has what the reference does with each. */
#include "model/family.h"

#include "base/json.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct reader {
    const json_t *root;
    const char *origin;
    const oc_family *family;
    oc_model *model;
    oc_error *err;
} reader;

const char *oc_family_shown(const json_t *v, char out[OC_SHOWN_BYTES]) {
    char *text =
        v ? oc_json_dump(v, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    int n = snprintf(out, OC_SHOWN_BYTES, "%s", text ? text : "?");
    if (n >= OC_SHOWN_BYTES) memcpy(out + OC_SHOWN_BYTES - 4, "...", 4);
    free(text);
    return out;
}

void oc_model_note(oc_model *m, const char *fmt, ...) {
    size_t at = strlen(m->notes);
    if (at + 2 >= sizeof m->notes) return;
    if (at) m->notes[at++] = '\n';
    va_list args;
    va_start(args, fmt);
    vsnprintf(m->notes + at, sizeof m->notes - at, fmt, args);
    va_end(args);
}

/* ---- scalars -------------------------------------------------------------------------- */

static oc_status refuse(const reader *r, const char *key, const json_t *v, const char *wanted) {
    char text[OC_SHOWN_BYTES];
    return oc_fail(r->err, OC_E_INVALID, "%s: key '%s' is %s; expected %s", r->origin, key,
                   oc_family_shown(v, text), wanted);
}

static oc_status read_int(const reader *r, const char *key, const json_t *v, double min, double max,
                          int64_t *out) {
    char wanted[96];
    snprintf(wanted, sizeof wanted, "an integer from %.0f to %.0f%s", min > 0 ? min : 1, max,
             min > 0 ? "" : ", or null");
    if (json_is_null(v) && min <= 0) {
        *out = 0;
        return OC_OK;
    }
    if (!json_is_integer(v)) return refuse(r, key, v, wanted);
    json_int_t n = json_integer_value(v);
    if (n < 1 || (double)n > max) return refuse(r, key, v, wanted);
    *out = (int64_t)n;
    return OC_OK;
}

static oc_status read_real(const reader *r, const char *key, const json_t *v, double min,
                           double max, bool or_null, double *out) {
    double x = json_is_number(v) ? json_number_value(v) : NAN;
    if (or_null && json_is_null(v)) {
        *out = 0;
        return OC_OK;
    }
    if (!(x >= min && x <= max)) {
        char wanted[96];
        snprintf(wanted, sizeof wanted, "a number from %g to %g%s", min, max,
                 or_null ? ", or null" : "");
        return refuse(r, key, v, wanted);
    }
    *out = x;
    return OC_OK;
}

static oc_status read_act(const reader *r, const char *key, const json_t *v, oc_act *out) {
    static const struct {
        const char *name;
        oc_act act;
    } names[] = {
        {"silu", OC_ACT_SILU},           {"swish", OC_ACT_SILU},
        {"gelu_new", OC_ACT_GELU_TANH},  {"gelu_pytorch_tanh", OC_ACT_GELU_TANH},
        {"gelu_fast", OC_ACT_GELU_TANH}, {"gelu_python_tanh", OC_ACT_GELU_TANH},
        {"gelu", OC_ACT_GELU},           {"gelu_python", OC_ACT_GELU},
        {"relu", OC_ACT_RELU},
    };
    if (json_is_string(v))
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
            if (strcmp(json_string_value(v), names[i].name) == 0) {
                *out = names[i].act;
                return OC_OK;
            }
    return refuse(r, key, v, "silu, gelu, gelu_new, gelu_pytorch_tanh or relu");
}

/* ---- one table entry ------------------------------------------------------------------ */

static bool says_nothing(const json_t *v) {
    return json_is_null(v) || json_is_false(v) ||
           (json_is_string(v) && json_string_length(v) == 0) ||
           (json_is_array(v) && json_array_size(v) == 0) ||
           (json_is_object(v) && json_object_size(v) == 0);
}

static bool is_only(const json_t *v, const char *text) {
    if (json_is_null(v)) return true;
    if (json_is_boolean(v)) return strcmp(text, json_is_true(v) ? "true" : "false") == 0;
    if (json_is_number(v)) {
        char *end;
        double x = strtod(text, &end);
        return end != text && *end == '\0' && json_number_value(v) == x;
    }
    if (json_is_string(v)) return strcmp(text, json_string_value(v)) == 0;
    return strcmp(text, "empty") == 0 && says_nothing(v);
}

void oc_family_ignore(oc_family_config *c, const char *object, const char *key) {
    size_t at = strlen(c->ignored);
    const char *dot = object ? "." : "";
    c->n_ignored++;
    if (at + strlen(key) + (object ? strlen(object) : 0) + 4 > sizeof c->ignored) return;
    (void)snprintf(c->ignored + at, sizeof c->ignored - at, "%s%s%s%s", at ? ", " : "",
                   object ? object : "", dot, key);
}

static bool is_slip(const char *a, const char *b) {
    size_t n = strlen(a), m = strlen(b), head = 0, tail = 0;
    while (head < n && head < m && a[head] == b[head])
        head++;
    while (tail < n - head && tail < m - head && a[n - 1 - tail] == b[m - 1 - tail])
        tail++;
    size_t x = n - head - tail, y = m - head - tail; /* what is left between */
    bool swapped = x == 2 && y == 2 && a[head] == b[head + 1] && a[head + 1] == b[head];
    return (x <= 1 && y <= 1) || swapped;
}

const char *oc_family_slip(const char *key, const char *const *known, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (is_slip(key, known[i])) return known[i];
    return NULL;
}

static bool is_elsewhere(const reader *r, const oc_family_field *f) {
    for (int32_t i = 0; i < r->family->n_fields; i++) {
        const oc_family_field *own = &r->family->fields[i];
        if (own != f && own->key && strcmp(own->key, f->key) == 0) return true;
    }
    return false;
}

static oc_status read_special(const reader *r, const oc_family_field *f, const json_t *v,
                              oc_family_config *c) {
    char text[OC_SHOWN_BYTES];
    if (f->rule == OC_FIELD_ONLY && v && !is_only(v, f->text))
        return oc_fail(r->err, OC_E_UNSUPPORTED,
                       "%s: key '%s' is %s, which changes the result and is not supported for %s "
                       "(only %s is)",
                       r->origin, f->key, oc_family_shown(v, text), r->family->model_type, f->text);
    if (f->rule == OC_FIELD_UNUSED && v && !is_only(v, f->text) && !is_elsewhere(r, f))
        oc_family_ignore(c, NULL, f->key);
    if (f->rule == OC_FIELD_NOTE && v && !says_nothing(v) &&
        !(json_is_number(v) && json_number_value(v) == 0))
        oc_model_note(r->model, "%s: key '%s' (%s) is ignored: %s", r->origin, f->key,
                      oc_family_shown(v, text), f->text);
    return OC_OK;
}

/* The field's value, NULL when there is none, and the key it stands under. */
static oc_status find_value(const reader *r, const oc_family_field *f, const json_t **v,
                            const char **key) {
    *v = f->key ? json_object_get(r->root, f->key) : NULL;
    *key = f->key;
    const json_t *other = f->alias ? json_object_get(r->root, f->alias) : NULL;
    if (*v && other && !json_equal(*v, other))
        return oc_fail(r->err, OC_E_INVALID,
                       "%s: keys '%s' and '%s' mean the same and disagree; remove one", r->origin,
                       f->key, f->alias);
    if (!*v && other) {
        *v = other;
        *key = f->alias;
    }
    return OC_OK;
}

static oc_status read_field(const reader *r, const oc_family_field *f, oc_family_config *c) {
    const json_t *v;
    const char *key;
    void *at = (char *)c + f->offset;
    OC_TRY(find_value(r, f, &v, &key));
    switch (f->rule) {
    case OC_FIELD_INT:
        *(int64_t *)at = (int64_t)f->fallback;
        return v ? read_int(r, key, v, f->min, f->max, at) : OC_OK;
    case OC_FIELD_REAL:
        *(double *)at = f->fallback;
        return v ? read_real(r, key, v, f->min, f->max, f->text != NULL, at) : OC_OK;
    case OC_FIELD_BOOL:
        *(bool *)at = f->fallback != 0;
        if (!v) return OC_OK;
        if (!json_is_boolean(v)) return refuse(r, key, v, "true or false");
        *(bool *)at = json_is_true(v);
        return OC_OK;
    case OC_FIELD_FIXED:
        *(bool *)at = f->fallback != 0;
        break;
    case OC_FIELD_FIXED_REAL:
        *(double *)at = f->fallback;
        break;
    case OC_FIELD_ACT:
        *(oc_act *)at = (oc_act)(int)f->fallback;
        return v ? read_act(r, key, v, at) : OC_OK;
    case OC_FIELD_ONLY:
    case OC_FIELD_UNUSED:
    case OC_FIELD_NOTE:
        return read_special(r, f, v, c);
    case OC_FIELD_IGNORE:
    case OC_FIELD_CODE:
        break;
    }
    return OC_OK;
}

/* ---- unknown keys --------------------------------------------------------------------- */

enum { KNOWN_MOST = 256 };

/* Adds the keys of a table to list; their number afterwards. */
static size_t list_keys(const oc_family_field *fields, int32_t n, const char **list, size_t at) {
    for (int32_t i = 0; i < n; i++) {
        if (fields[i].key && at < KNOWN_MOST) list[at++] = fields[i].key;
        if (fields[i].alias && at < KNOWN_MOST) list[at++] = fields[i].alias;
    }
    return at;
}

static bool is_listed(const char *key, const char *const *list, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (strcmp(key, list[i]) == 0) return true;
    return false;
}

/* The key is nearly that of a field that the model is made from, and the file lacks: a misspelling
 * of it. NULL: it is not. */
static const char *misspelled(const reader *r, const char *key) {
    const oc_family *f = r->family;
    const char *absent[KNOWN_MOST];
    size_t n = 0;
    for (int32_t i = 0; i < f->n_fields; i++) {
        const oc_family_field *x = &f->fields[i];
        bool read = x->rule == OC_FIELD_INT || x->rule == OC_FIELD_REAL ||
                    x->rule == OC_FIELD_BOOL || x->rule == OC_FIELD_ACT;
        bool there = x->key && json_object_get(r->root, x->key);
        there |= x->alias && json_object_get(r->root, x->alias);
        if (read && !there && n < KNOWN_MOST) absent[n++] = x->key;
    }
    return oc_family_slip(key, absent, n);
}

static oc_status refuse_misspelling(const reader *r, const char *key, const json_t *v,
                                    const char *near) {
    char text[OC_SHOWN_BYTES];
    return oc_fail(r->err, OC_E_UNSUPPORTED,
                   "%s: key '%.64s' (%s) is not known for model_type %s; did you mean '%s'? "
                   "Correct it, or remove it",
                   r->origin, key, oc_family_shown(v, text), r->family->model_type, near);
}

static oc_status check_unknown(const reader *r, oc_family_config *c) {
    int32_t n_common;
    const oc_family_field *common = oc_family_common(&n_common);
    const char *list[KNOWN_MOST], *key;
    size_t n = list_keys(r->family->fields, r->family->n_fields, list, 0);
    n = list_keys(common, n_common, list, n);
    json_t *v;
    /* jansson iterates a non-const object; nothing is changed */
    json_object_foreach((json_t *)(uintptr_t)r->root, key, v) {
        if (key[0] == '_' || is_listed(key, list, n)) continue;
        const char *near = says_nothing(v) ? NULL : misspelled(r, key);
        if (near) return refuse_misspelling(r, key, v, near);
        oc_family_ignore(c, NULL, key);
    }
    return OC_OK;
}

static void note_ignored(const reader *r, const oc_family_config *c) {
    if (c->n_ignored > 0)
        oc_model_note(r->model, "%s: %d key(s) without effect for %s, in the reference too: %s%s",
                      r->origin, (int)c->n_ignored, r->family->model_type, c->ignored,
                      strlen(c->ignored) + 80 > sizeof c->ignored ? ", ..." : "");
}

/* ---- names, dtype, ids ---------------------------------------------------------------- */

static oc_status read_family(reader *r) {
    const json_t *v = json_object_get(r->root, "model_type");
    char known_names[256], text[OC_SHOWN_BYTES];
    oc_family_names(known_names, sizeof known_names);
    if (!json_is_string(v))
        return oc_fail(r->err, OC_E_INVALID,
                       "%s: key 'model_type' is %s; it selects the family: %s", r->origin,
                       v ? oc_family_shown(v, text) : "missing", known_names);
    r->family = oc_family_find(json_string_value(v));
    const char *hint = strcmp(json_string_value(v), "gemma3") == 0
                           ? ". Its checkpoints hold a vision model too; take one whose text model "
                             "stands alone (gemma3_text)"
                           : "";
    if (!r->family)
        return oc_fail(
            r->err, OC_E_UNSUPPORTED,
            "%s: key 'model_type' is %s, a family that is not supported; supported: %s%s",
            r->origin, oc_family_shown(v, text), known_names, hint);
    snprintf(r->model->family, sizeof r->model->family, "%s", r->family->model_type);
    snprintf(r->model->architecture, sizeof r->model->architecture, "%s",
             r->family->architectures[0]);
    return OC_OK;
}

static oc_status read_architectures(const reader *r) {
    const json_t *v = json_object_get(r->root, "architectures");
    if (!v || json_is_null(v)) return OC_OK;
    if (!json_is_array(v)) return refuse(r, "architectures", v, "a list of one name");
    if (json_array_size(v) == 0) return OC_OK;
    if (json_array_size(v) == 1 && json_is_string(json_array_get(v, 0))) {
        const char *name = json_string_value(json_array_get(v, 0));
        for (int i = 0; r->family->architectures[i]; i++)
            if (strcmp(r->family->architectures[i], name) == 0) {
                snprintf(r->model->architecture, sizeof r->model->architecture, "%s", name);
                return OC_OK;
            }
    }
    char text[OC_SHOWN_BYTES];
    return oc_fail(r->err, OC_E_UNSUPPORTED,
                   "%s: key 'architectures' is %s, which disagrees with model_type '%s' (%s)",
                   r->origin, oc_family_shown(v, text), r->family->model_type,
                   r->family->architectures[0]);
}

static oc_status read_dtype(const reader *r) {
    static const char *const keys[2] = {"torch_dtype", "dtype"};
    oc_model *m = r->model;
    m->file_dtype = OC_F32;
    for (int i = 0; i < 2; i++) {
        const json_t *v = json_object_get(r->root, keys[i]);
        if (!v || json_is_null(v)) continue;
        const char *name = json_is_string(v) ? json_string_value(v) : "";
        if (strncmp(name, "torch.", 6) == 0) name += 6;
        oc_dtype t;
        if (!oc_dtype_parse(name, &t)) return refuse(r, keys[i], v, "float32, bfloat16 or float16");
        if (m->has_file_dtype && t != m->file_dtype)
            return oc_fail(r->err, OC_E_INVALID,
                           "%s: keys 'torch_dtype' and 'dtype' mean the same and disagree; remove "
                           "one",
                           r->origin);
        m->file_dtype = t;
        m->has_file_dtype = true;
    }
    return OC_OK;
}

/* An id outside the vocabulary can never occur; files say so often (-1, or the default of a family
 * beside a smaller vocabulary), and it then means none. */
static oc_status read_id(const reader *r, const char *key, const json_t *v, int64_t vocab,
                         int32_t *out) {
    *out = -1;
    if (json_is_null(v)) return OC_OK;
    if (!json_is_integer(v)) return refuse(r, key, v, "a token id or null");
    json_int_t id = json_integer_value(v);
    if (id >= 0 && id < vocab)
        *out = (int32_t)id;
    else if (id != -1)
        oc_model_note(r->model,
                      "%s: key '%s' has %lld, outside the vocabulary of %lld tokens: ignored",
                      r->origin, key, (long long)id, (long long)vocab);
    return OC_OK;
}

static oc_status read_ids(const reader *r, int64_t vocab) {
    oc_model *m = r->model;
    const json_t *bos = json_object_get(r->root, "bos_token_id");
    const json_t *eos = json_object_get(r->root, "eos_token_id");
    const json_t *pad = json_object_get(r->root, "pad_token_id");
    m->bos_id = r->family->bos_id < vocab ? r->family->bos_id : -1;
    m->pad_id = r->family->pad_id < vocab ? r->family->pad_id : -1;
    if (bos) OC_TRY(read_id(r, "bos_token_id", bos, vocab, &m->bos_id));
    if (pad) OC_TRY(read_id(r, "pad_token_id", pad, vocab, &m->pad_id));
    m->padding_idx = r->family->trains_padding ? -1 : m->pad_id;
    m->n_eos = 0;
    if (!eos) {
        if (r->family->eos_id >= 0 && r->family->eos_id < vocab)
            m->eos_ids[m->n_eos++] = r->family->eos_id;
        return OC_OK;
    }
    size_t n = json_is_array(eos) ? json_array_size(eos) : 1;
    size_t most = sizeof m->eos_ids / sizeof m->eos_ids[0];
    if (n > most) return refuse(r, "eos_token_id", eos, "a token id or a list of at most 8");
    for (size_t i = 0; i < n; i++) {
        int32_t id;
        const json_t *v = json_is_array(eos) ? json_array_get(eos, i) : eos;
        OC_TRY(read_id(r, "eos_token_id", v, vocab, &id));
        if (id >= 0) m->eos_ids[m->n_eos++] = id;
    }
    return OC_OK;
}

/* ---- the whole file ------------------------------------------------------------------- */

static oc_status read_fields(const reader *r, oc_family_config *c) {
    int32_t n_common;
    const oc_family_field *common = oc_family_common(&n_common);
    for (int32_t i = 0; i < r->family->n_fields; i++)
        OC_TRY(read_field(r, &r->family->fields[i], c));
    for (int32_t i = 0; i < n_common; i++)
        OC_TRY(read_field(r, &common[i], c));
    return OC_OK;
}

static oc_status check_heads(const reader *r, oc_family_config *c) {
    if (c->kv_heads == 0) c->kv_heads = c->heads;
    if (c->heads % c->kv_heads != 0)
        return oc_fail(r->err, OC_E_INVALID,
                       "%s: %lld attention heads are not a multiple of key 'num_key_value_heads' "
                       "%lld",
                       r->origin, (long long)c->heads, (long long)c->kv_heads);
    if (c->head_dim == 0) {
        if (c->hidden % c->heads != 0)
            return oc_fail(r->err, OC_E_INVALID,
                           "%s: hidden size %lld is not a multiple of the %lld attention heads; "
                           "correct one of them",
                           r->origin, (long long)c->hidden, (long long)c->heads);
        c->head_dim = c->hidden / c->heads;
    }
    return OC_OK;
}

oc_status oc_family_read(const json_t *root, const char *origin, oc_model *m, oc_family_config *c,
                         const oc_family **family, oc_error *err) {
    reader r = {root, origin, NULL, m, err};
    OC_TRY(read_family(&r));
    *c = (oc_family_config){.attention_scaled = true,
                            .norm_before = true,
                            .norm_affine = true,
                            .windowed = true,
                            .act = r.family->act,
                            .ropes = m->ropes};
    OC_TRY(read_architectures(&r));
    OC_TRY(read_dtype(&r));
    OC_TRY(read_fields(&r, c));
    if (c->intermediate == 0) c->intermediate = c->hidden * r.family->inner_factor;
    if (c->embed_dim == 0) c->embed_dim = c->hidden;
    OC_TRY(check_heads(&r, c));
    OC_TRY(read_ids(&r, c->vocab));
    OC_TRY(oc_layers_read(root, origin, r.family, c, err));
    if (r.family->position == OC_POS_ROPE) OC_TRY(oc_rope_read(root, origin, r.family, c, err));
    OC_TRY(check_unknown(&r, c));
    note_ignored(&r, c);
    *family = r.family;
    return OC_OK;
}
