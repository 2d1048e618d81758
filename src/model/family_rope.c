/* family_rope.c - rotary positions: what config.json says of them.
 *
 * Old files have rope_theta and rope_scaling, newer ones rope_parameters, which may hold one object
 * per type of layer. Some families spell rope_theta in their own way, or let a part of a head turn.
 */
#include "model/family.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const type_names[OC_ROPE_TYPE_COUNT] = {"default", "linear", "dynamic",
                                                           "llama3",  "yarn",   "longrope"};

#define ON(type) (1u << OC_ROPE_##type)
#define FACTORS (ON(LINEAR) | ON(DYNAMIC) | ON(LLAMA3) | ON(YARN))

typedef struct rope_key {
    const char *key;
    size_t offset;
    unsigned needed, allowed; /* bits of oc_rope_type */
    double min, max, fallback;
} rope_key;

#define AT(field) offsetof(oc_rope_config, field)
static const rope_key rope_keys[] = {
    {"factor", AT(factor), FACTORS, FACTORS | ON(LONGROPE), 1, 1e6, 0},
    {"original_max_position_embeddings", AT(original), 0, ON(LLAMA3) | ON(YARN) | ON(LONGROPE), 1,
     1e9, 0},
    {"low_freq_factor", AT(low_freq), ON(LLAMA3), ON(LLAMA3), 1e-3, 1e6, 1},
    {"high_freq_factor", AT(high_freq), ON(LLAMA3), ON(LLAMA3), 1e-3, 1e6, 4},
    {"beta_fast", AT(beta_fast), 0, ON(YARN), 1e-3, 1e6, 32},
    {"beta_slow", AT(beta_slow), 0, ON(YARN), 1e-3, 1e6, 1},
    {"attention_factor", AT(attention_factor), 0, ON(YARN) | ON(LONGROPE), 1e-6, 1e6, 0},
    {"mscale", AT(mscale), 0, ON(YARN), 0, 1e6, 0},
    {"mscale_all_dim", AT(mscale_all), 0, ON(YARN), 0, 1e6, 0},
};
enum { N_KEYS = sizeof rope_keys / sizeof rope_keys[0] };

typedef struct reader {
    const json_t *root, *object; /* object NULL: none */
    const char *origin, *name;   /* the object's */
    const oc_family *family;
    oc_error *err;
} reader;

/* key: of the object, or of the file when outer. */
static oc_status read_number(const reader *r, const char *key, bool outer, const json_t *v,
                             double min, double max, double *out) {
    double x = json_is_number(v) ? json_number_value(v) : NAN;
    char text[OC_SHOWN_BYTES];
    if (!(x >= min && x <= max))
        return oc_fail(r->err, OC_E_INVALID,
                       "%s: key '%s%s%s' is %s; expected a number from %g to %g", r->origin,
                       outer ? "" : r->name, outer ? "" : ".", key, oc_family_shown(v, text), min,
                       max);
    *out = x;
    return OC_OK;
}

/* ---- the object --------------------------------------------------------------------------- */

/* One more place where the object may stand. */
static oc_status add_object(reader *r, const json_t *v, const char *name) {
    char text[OC_SHOWN_BYTES];
    if (!v || json_is_null(v)) return OC_OK;
    if (!json_is_object(v))
        return oc_fail(r->err, OC_E_INVALID, "%s: key '%s' is %s; expected an object or null",
                       r->origin, name, oc_family_shown(v, text));
    if (r->object && !json_equal(r->object, v))
        return oc_fail(r->err, OC_E_INVALID,
                       "%s: keys '%s' and '%s' mean the same and disagree; remove one", r->origin,
                       r->name, name);
    if (!r->object) r->name = name;
    r->object = v;
    return OC_OK;
}

/* rope_parameters of a family with one rope a type of layer: nothing but those objects. */
static oc_status check_types(const reader *r, const json_t *parameters) {
    const char *key;
    json_t *v;
    char text[OC_SHOWN_BYTES];
    if (!parameters || json_is_null(parameters)) return OC_OK;
    if (!json_is_object(parameters))
        return oc_fail(r->err, OC_E_INVALID,
                       "%s: key 'rope_parameters' is %s; expected an object or null", r->origin,
                       oc_family_shown(parameters, text));
    /* jansson iterates a non-const object; nothing is changed */
    json_object_foreach((json_t *)(uintptr_t)parameters, key, v) {
        if (strcmp(key, "full_attention") == 0 || strcmp(key, "sliding_attention") == 0) continue;
        return oc_fail(r->err, OC_E_UNSUPPORTED,
                       "%s: key 'rope_parameters.%.48s' (%s) is not known for model_type %s, which "
                       "has full_attention and sliding_attention there",
                       r->origin, key, oc_family_shown(v, text), r->family->model_type);
    }
    return OC_OK;
}

/* ---- numbers that stand in several places ------------------------------------------------- */

/* The value of key in the object, or under other names in the file: all that are there agree. */
static oc_status read_shared(const reader *r, const char *key, const char *const outer[2],
                             double min, double max, double fallback, double *out) {
    const json_t *inner = r->object ? json_object_get(r->object, key) : NULL;
    bool found = inner && !json_is_null(inner);
    *out = fallback;
    if (found) OC_TRY(read_number(r, key, false, inner, min, max, out));
    const char *first = found ? key : NULL;
    for (int i = 0; i < 2; i++) {
        const json_t *v = outer[i] ? json_object_get(r->root, outer[i]) : NULL;
        double x;
        if (!v) continue;
        OC_TRY(read_number(r, outer[i], true, v, min, max, &x));
        if (first && x != *out)
            return oc_fail(r->err, OC_E_INVALID,
                           "%s: keys '%s' and '%s%s%s' mean the same and disagree; remove one",
                           r->origin, outer[i], found ? r->name : "", found ? "." : "", first);
        *out = x;
        if (!first) first = outer[i];
    }
    return OC_OK;
}

static const char *supported_types(const reader *r, char out[128]) {
    size_t at = 0;
    for (int i = 0; i < OC_ROPE_TYPE_COUNT; i++)
        if (r->family->rope_types & (1u << i))
            at += (size_t)snprintf(out + at, 128 - at, "%s%s", at ? ", " : "", type_names[i]);
    return out;
}

static oc_status read_type(const reader *r, oc_rope_type *out) {
    static const char *const keys[2] = {"rope_type", "type"};
    const char *found = NULL;
    char text[OC_SHOWN_BYTES], types[128];
    *out = OC_ROPE_DEFAULT;
    for (int i = 0; i < 2; i++) {
        const json_t *v = r->object ? json_object_get(r->object, keys[i]) : NULL;
        if (!v) continue;
        const char *name = json_is_string(v) ? json_string_value(v) : "";
        if (r->family->long_names && (strcmp(name, "su") == 0 || strcmp(name, "yarn") == 0))
            name = "longrope";
        int type = 0;
        while (type < OC_ROPE_TYPE_COUNT && strcmp(name, type_names[type]) != 0)
            type++;
        if (type == OC_ROPE_TYPE_COUNT || !(r->family->rope_types & (1u << type)))
            return oc_fail(r->err, OC_E_UNSUPPORTED,
                           "%s: key '%s.%s' is %s, which is not supported; supported: %s",
                           r->origin, r->name, keys[i], oc_family_shown(v, text),
                           supported_types(r, types));
        if (found && strcmp(found, name) != 0)
            return oc_fail(r->err, OC_E_INVALID,
                           "%s: keys '%s.rope_type' and '%s.type' mean the same and disagree",
                           r->origin, r->name, r->name);
        found = name;
        *out = (oc_rope_type)type;
    }
    return OC_OK;
}

/* ---- members ------------------------------------------------------------------------------ */

/* A number that the type has and the object lacks, nearly spelled as this; NULL: none. */
static const char *misspelled(const reader *r, oc_rope_type type, const char *key) {
    const char *absent[N_KEYS];
    size_t n = 0;
    for (size_t i = 0; i < N_KEYS; i++)
        if (rope_keys[i].allowed & (1u << type) && !json_object_get(r->object, rope_keys[i].key))
            absent[n++] = rope_keys[i].key;
    return oc_family_slip(key, absent, n);
}

/* Members that this type has no use for are ignored, as the reference does. */
static oc_status check_members(const reader *r, oc_rope_type type, oc_family_config *c) {
    static const char *const others[] = {"rope_type", "type", "rope_theta"};
    const char *known[N_KEYS + 8], *key;
    size_t n = 0;
    if (!r->object) return OC_OK;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        known[n++] = others[i];
    for (size_t i = 0; i < N_KEYS; i++)
        if (rope_keys[i].allowed & (1u << type)) known[n++] = rope_keys[i].key;
    if (r->family->partial_key) known[n++] = "partial_rotary_factor";
    /* the reference looks for it one level higher than where it would stand */
    if (type == OC_ROPE_YARN && !r->family->rope_by_type) known[n++] = "truncate";
    if (type == OC_ROPE_LONGROPE) known[n++] = "short_factor";
    if (type == OC_ROPE_LONGROPE) known[n++] = "long_factor";
    json_t *v;
    /* jansson iterates a non-const object; nothing is changed */
    json_object_foreach((json_t *)(uintptr_t)r->object, key, v) {
        size_t i = 0;
        while (i < n && strcmp(known[i], key) != 0)
            i++;
        bool whole = strcmp(key, "partial_rotary_factor") == 0 && json_is_number(v) &&
                     json_number_value(v) == 1;
        if (i < n || whole || json_is_null(v)) continue;
        char text[OC_SHOWN_BYTES];
        const char *near = misspelled(r, type, key);
        bool part = strcmp(key, "partial_rotary_factor") == 0; /* some types have a use for it */
        if (!near && !part && !json_is_object(v)) {
            oc_family_ignore(c, r->name, key);
            continue;
        }
        return oc_fail(r->err, OC_E_UNSUPPORTED,
                       "%s: key '%s.%.48s' (%s) is not known for rope_type %s%s%s%s", r->origin,
                       r->name, key, oc_family_shown(v, text), type_names[type],
                       near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    }
    return OC_OK;
}

static oc_status read_members(const reader *r, oc_rope_config *c) {
    for (size_t i = 0; i < N_KEYS; i++) {
        const rope_key *k = &rope_keys[i];
        double *at = (double *)(void *)((char *)c + k->offset);
        const json_t *v = r->object ? json_object_get(r->object, k->key) : NULL;
        *at = k->fallback;
        if (!(k->allowed & (1u << c->type))) continue;
        if (v && !json_is_null(v))
            OC_TRY(read_number(r, k->key, false, v, k->min, k->max, at));
        else if (k->needed & (1u << c->type))
            return oc_fail(r->err, OC_E_INVALID,
                           "%s: key '%s.%s' is missing; rope_type %s needs it", r->origin, r->name,
                           k->key, type_names[c->type]);
    }
    const json_t *truncate = r->object ? json_object_get(r->object, "truncate") : NULL;
    c->truncate = !json_is_false(truncate);
    if (truncate && !json_is_boolean(truncate) && !json_is_null(truncate))
        return oc_fail(r->err, OC_E_INVALID, "%s: key '%s.truncate' must be true or false",
                       r->origin, r->name);
    return OC_OK;
}

static oc_status read_factors(const reader *r, const char *key, int32_t n, float **out) {
    const json_t *list = json_object_get(r->object, key);
    char text[OC_SHOWN_BYTES];
    if (!json_is_array(list) || json_array_size(list) != (size_t)n)
        return oc_fail(r->err, OC_E_INVALID,
                       "%s: key '%s.%s' is %s; expected a list of %d numbers, half as many as a "
                       "head's dimensions that turn",
                       r->origin, r->name, key, list ? oc_family_shown(list, text) : "missing",
                       (int)n);
    *out = malloc((size_t)n * sizeof **out);
    if (!*out)
        return oc_fail(r->err, OC_E_MEMORY, "%s: no memory for key '%s.%s'", r->origin, r->name,
                       key);
    for (int32_t i = 0; i < n; i++) {
        double x;
        OC_TRY(read_number(r, key, false, json_array_get(list, (size_t)i), 1e-6, 1e6, &x));
        (*out)[i] = (float)x;
    }
    return OC_OK;
}

/* The original context may stand outside of the object, as phi3 has it. */
static oc_status settle_original(const reader *r, const oc_family_config *f, oc_rope_config *c) {
    double outer = (double)f->rope_original;
    if (outer != 0 && c->original != 0 && c->original != outer)
        return oc_fail(r->err, OC_E_INVALID,
                       "%s: key '%s.original_max_position_embeddings' is %g, but key "
                       "'original_max_position_embeddings' is %g (or absent, which means the "
                       "same); set both alike",
                       r->origin, r->name, c->original, outer);
    if (outer != 0) c->original = outer;
    if (c->original == 0) c->original = (double)f->positions;
    return OC_OK;
}

static oc_status check_range(const reader *r, oc_rope_config *c) {
    if (c->type == OC_ROPE_LLAMA3 && c->high_freq <= c->low_freq)
        return oc_fail(r->err, OC_E_INVALID,
                       "%s: key '%s.high_freq_factor' must be greater than low_freq_factor",
                       r->origin, r->name);
    if (c->type == OC_ROPE_YARN && (c->theta <= 1 || c->beta_fast < c->beta_slow || c->dim % 2))
        return oc_fail(r->err, OC_E_INVALID,
                       "%s: key '%s': yarn needs rope_theta > 1, beta_fast >= beta_slow and an "
                       "even number of dimensions that turn",
                       r->origin, r->name);
    if (c->type == OC_ROPE_DYNAMIC && c->dim <= 2)
        return oc_fail(r->err, OC_E_INVALID,
                       "%s: key '%s': dynamic needs heads of more than 2 dimensions that turn",
                       r->origin, r->name);
    if (c->type == OC_ROPE_LONGROPE && c->original < 2)
        return oc_fail(r->err, OC_E_INVALID,
                       "%s: key '%s.original_max_position_embeddings' must be at least 2",
                       r->origin, r->name);
    return OC_OK;
}

static oc_status read_dim(const reader *r, const oc_family_config *f, oc_rope_config *c) {
    const char *const outer[2] = {r->family->partial_key,
                                  r->family->partial_key ? "partial_rotary_factor" : NULL};
    double partial = r->family->partial_key ? r->family->partial : 1.0;
    if (r->family->partial_key)
        OC_TRY(read_shared(r, "partial_rotary_factor", outer, 0, 1, partial, &partial));
    c->dim = (int32_t)((double)f->head_dim * partial);
    if (c->dim == 0)
        return oc_fail(r->err, OC_E_INVALID,
                       "%s: key '%s' is %g, which leaves no dimension of a head that turns",
                       r->origin, r->family->partial_key ? r->family->partial_key : "head_dim",
                       partial);
    if (c->dim == f->head_dim && c->dim % 2 != 0)
        return oc_fail(r->err, OC_E_INVALID,
                       "%s: key 'head_dim' is %lld; rotary positions need an even one", r->origin,
                       (long long)f->head_dim);
    return OC_OK;
}

static oc_status read_rope(const reader *r, oc_family_config *f, const char *const theta_keys[2],
                           double theta, oc_rope_config *c) {
    OC_TRY(read_shared(r, "rope_theta", theta_keys, 1, 1e30, theta, &c->theta));
    OC_TRY(read_type(r, &c->type));
    OC_TRY(check_members(r, c->type, f));
    OC_TRY(read_members(r, c));
    OC_TRY(read_dim(r, f, c));
    OC_TRY(settle_original(r, f, c));
    c->positions = (double)f->positions;
    OC_TRY(check_range(r, c));
    if (c->type != OC_ROPE_LONGROPE) return OC_OK;
    if (c->factor == 0) c->factor = c->positions / c->original;
    OC_TRY(read_factors(r, "short_factor", (c->dim + 1) / 2, &c->short_factor));
    return read_factors(r, "long_factor", (c->dim + 1) / 2, &c->long_factor);
}

oc_status oc_rope_read(const json_t *root, const char *origin, const oc_family *family,
                       oc_family_config *c, oc_error *err) {
    static const double local_theta = 10000;
    const char *const keys[2] = {"rope_theta", family->rope_theta_key};
    static const char *const local_keys[2] = {"rope_local_base_freq", NULL};
    const json_t *parameters = json_object_get(root, "rope_parameters");
    const json_t *scaling = json_object_get(root, "rope_scaling");
    reader r = {root, NULL, origin, "rope_parameters", family, err};
    c->n_ropes = 1;
    if (!family->rope_by_type) {
        OC_TRY(add_object(&r, parameters, "rope_parameters"));
        OC_TRY(add_object(&r, scaling, "rope_scaling"));
        return read_rope(&r, c, keys, family->rope_theta, &c->ropes[0]);
    }
    OC_TRY(check_types(&r, parameters));
    reader local = r;
    OC_TRY(add_object(&r, json_object_get(parameters, "full_attention"),
                      "rope_parameters.full_attention"));
    OC_TRY(add_object(&r, scaling, "rope_scaling"));
    OC_TRY(read_rope(&r, c, keys, family->rope_theta, &c->ropes[0]));
    OC_TRY(add_object(&local, json_object_get(parameters, "sliding_attention"),
                      "rope_parameters.sliding_attention"));
    c->n_ropes = 2;
    return read_rope(&local, c, local_keys, local_theta, &c->ropes[1]);
}
