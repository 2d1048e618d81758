/* family_rope.c - rotary positions: what config.json says of them, and the frequencies.
 *
 * Types whose frequencies are the same for every length: default, linear (position interpolation),
 * llama3 (Llama 3.1) and yarn (Peng et al., arXiv 2309.00071). dynamic and longrope, which depend
 * on the length of the sequence at hand, are refused by name. */
#include "base/nearest.h"
#include "model/family.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const type_names[OC_ROPE_TYPE_COUNT] = {"default", "linear", "llama3", "yarn"};

#define ON(type) (1u << OC_ROPE_##type)

typedef struct rope_key {
    const char *key;
    size_t offset;
    unsigned needed, allowed; /* bits of oc_rope_type */
    double min, max, fallback;
} rope_key;

#define AT(field) offsetof(oc_rope_config, field)
static const rope_key rope_keys[] = {
    {"factor", AT(factor), ON(LINEAR) | ON(LLAMA3) | ON(YARN), ON(LINEAR) | ON(LLAMA3) | ON(YARN),
     1, 1e6, 1},
    {"original_max_position_embeddings", AT(original), 0, ON(LLAMA3) | ON(YARN), 1, 1e9, 0},
    {"low_freq_factor", AT(low_freq), ON(LLAMA3), ON(LLAMA3), 1e-3, 1e6, 1},
    {"high_freq_factor", AT(high_freq), ON(LLAMA3), ON(LLAMA3), 1e-3, 1e6, 4},
    {"beta_fast", AT(beta_fast), 0, ON(YARN), 1e-3, 1e6, 32},
    {"beta_slow", AT(beta_slow), 0, ON(YARN), 1e-3, 1e6, 1},
    {"attention_factor", AT(attention_factor), 0, ON(YARN), 1e-6, 1e6, 0},
    {"mscale", AT(mscale), 0, ON(YARN), 0, 1e6, 0},
    {"mscale_all_dim", AT(mscale_all), 0, ON(YARN), 0, 1e6, 0},
};
enum { N_KEYS = sizeof rope_keys / sizeof rope_keys[0] };

/* ---- reading ----------------------------------------------------------------------------- */

typedef struct reader {
    const json_t *object; /* NULL: none */
    const char *origin, *name;
    oc_error *err;
} reader;

static oc_status read_number(const reader *r, const char *key, const json_t *v, double min,
                             double max, double *out) {
    double x = json_is_number(v) ? json_number_value(v) : NAN;
    char text[OC_SHOWN_BYTES];
    if (!(x >= min && x <= max))
        return oc_fail(r->err, OC_E_INVALID,
                       "%s: key '%s.%s' is %s; expected a number from %g to %g", r->origin, r->name,
                       key, oc_family_shown(v, text), min, max);
    *out = x;
    return OC_OK;
}

/* The object under its old or new name. */
static oc_status find_object(reader *r, const json_t *root) {
    static const char *const names[2] = {"rope_parameters", "rope_scaling"};
    char text[OC_SHOWN_BYTES];
    r->name = names[0];
    for (int i = 0; i < 2; i++) {
        const json_t *v = json_object_get(root, names[i]);
        if (!v || json_is_null(v)) continue;
        if (!json_is_object(v))
            return oc_fail(r->err, OC_E_INVALID, "%s: key '%s' is %s; expected an object or null",
                           r->origin, names[i], oc_family_shown(v, text));
        if (r->object && !json_equal(r->object, v))
            return oc_fail(r->err, OC_E_INVALID,
                           "%s: keys 'rope_parameters' and 'rope_scaling' mean the same and "
                           "disagree; remove one",
                           r->origin);
        if (!r->object) r->name = names[i];
        r->object = v;
    }
    return OC_OK;
}

static oc_status read_theta(const reader *r, const json_t *root, double *theta) {
    const json_t *outer = json_object_get(root, "rope_theta");
    const json_t *inner = r->object ? json_object_get(r->object, "rope_theta") : NULL;
    char text[OC_SHOWN_BYTES];
    *theta = 10000;
    if (inner) OC_TRY(read_number(r, "rope_theta", inner, 1, 1e30, theta));
    if (!outer) return OC_OK;
    double x = json_is_number(outer) ? json_number_value(outer) : NAN;
    if (!(x >= 1 && x <= 1e30))
        return oc_fail(r->err, OC_E_INVALID,
                       "%s: key 'rope_theta' is %s; expected a number from 1 to 1e+30", r->origin,
                       oc_family_shown(outer, text));
    if (inner && x != *theta)
        return oc_fail(
            r->err, OC_E_INVALID,
            "%s: keys 'rope_theta' and '%s.rope_theta' mean the same and disagree; remove "
            "one",
            r->origin, r->name);
    *theta = x;
    return OC_OK;
}

static oc_status read_type(const reader *r, oc_rope_type *out) {
    static const char *const keys[2] = {"rope_type", "type"};
    const char *found = NULL;
    char text[OC_SHOWN_BYTES];
    *out = OC_ROPE_DEFAULT;
    for (int i = 0; i < 2; i++) {
        const json_t *v = json_object_get(r->object, keys[i]);
        if (!v) continue;
        const char *name = json_is_string(v) ? json_string_value(v) : "";
        int type = 0;
        while (type < OC_ROPE_TYPE_COUNT && strcmp(name, type_names[type]) != 0)
            type++;
        if (type == OC_ROPE_TYPE_COUNT)
            return oc_fail(r->err, OC_E_UNSUPPORTED,
                           "%s: key '%s.%s' is %s, which is not supported; supported: default, "
                           "linear, llama3, yarn",
                           r->origin, r->name, keys[i], oc_family_shown(v, text));
        if (found && strcmp(found, name) != 0)
            return oc_fail(r->err, OC_E_INVALID,
                           "%s: keys '%s.rope_type' and '%s.type' mean the same and disagree",
                           r->origin, r->name, r->name);
        found = name;
        *out = (oc_rope_type)type;
    }
    return OC_OK;
}

/* Every member must be one that this type knows. */
static oc_status check_members(const reader *r, oc_rope_type type) {
    static const char *const others[] = {"rope_type", "type", "rope_theta"};
    const char *known[N_KEYS + 5], *key;
    size_t n = 0;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        known[n++] = others[i];
    for (size_t i = 0; i < N_KEYS; i++)
        if (rope_keys[i].allowed & (1u << type)) known[n++] = rope_keys[i].key;
    if (type == OC_ROPE_YARN) known[n++] = "truncate";
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
        const char *near = oc_nearest(key, known, n);
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
        const json_t *v = json_object_get(r->object, k->key);
        *at = k->fallback;
        if (!(k->allowed & (1u << c->type))) continue;
        if (v && !json_is_null(v))
            OC_TRY(read_number(r, k->key, v, k->min, k->max, at));
        else if (k->needed & (1u << c->type))
            return oc_fail(r->err, OC_E_INVALID,
                           "%s: key '%s.%s' is missing; rope_type %s needs it", r->origin, r->name,
                           k->key, type_names[c->type]);
    }
    const json_t *truncate = json_object_get(r->object, "truncate");
    c->truncate = !json_is_false(truncate);
    if (truncate && !json_is_boolean(truncate) && !json_is_null(truncate))
        return oc_fail(r->err, OC_E_INVALID, "%s: key '%s.truncate' must be true or false",
                       r->origin, r->name);
    return OC_OK;
}

oc_status oc_rope_read(const json_t *root, const char *origin, int64_t positions, oc_rope_config *c,
                       oc_error *err) {
    reader r = {NULL, origin, NULL, err};
    OC_TRY(find_object(&r, root));
    OC_TRY(read_theta(&r, root, &c->theta));
    OC_TRY(read_type(&r, &c->type));
    OC_TRY(check_members(&r, c->type));
    OC_TRY(read_members(&r, c));
    if (c->original == 0) c->original = (double)positions;
    if (c->type == OC_ROPE_LLAMA3 && c->high_freq <= c->low_freq)
        return oc_fail(err, OC_E_INVALID,
                       "%s: key '%s.high_freq_factor' must be greater than low_freq_factor", origin,
                       r.name);
    if (c->type == OC_ROPE_YARN && (c->theta <= 1 || c->beta_fast < c->beta_slow))
        return oc_fail(err, OC_E_INVALID,
                       "%s: key '%s': yarn needs rope_theta > 1 and beta_fast >= beta_slow", origin,
                       r.name);
    return OC_OK;
}

/* ---- frequencies -------------------------------------------------------------------------
 *
 * In fp32 and in the reference's order of operations: angles of distant positions depend on every
 * bit. */

static float llama3_freq(const oc_rope_config *c, float freq) {
    float wavelength = 6.2831853071795862f / freq;
    float original = (float)c->original, factor = (float)c->factor;
    if (wavelength > (float)(c->original / c->low_freq)) return freq / factor;
    if (wavelength < (float)(c->original / c->high_freq)) return freq;
    float smooth =
        (original / wavelength - (float)c->low_freq) / (float)(c->high_freq - c->low_freq);
    return (1.0f - smooth) * freq / factor + smooth * freq;
}

/* The dimension whose wavelength fits the original context `rotations` times. */
static double yarn_dim(const oc_rope_config *c, double rotations, int32_t dim) {
    return dim * log(c->original / (rotations * 2 * 3.14159265358979323846)) / (2 * log(c->theta));
}

static void yarn_freqs(const oc_rope_config *c, int32_t dim, float *inv_freq) {
    double low = yarn_dim(c, c->beta_fast, dim), high = yarn_dim(c, c->beta_slow, dim);
    if (c->truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0);
    high = fmin(high, dim - 1);
    if (low == high) high += 0.001;
    for (int32_t i = 0; i < dim / 2; i++) {
        float ramp = ((float)i - (float)low) / (float)(high - low);
        float keep = 1.0f - fminf(fmaxf(ramp, 0.0f), 1.0f);
        float period = powf((float)c->theta, (float)(2 * i) / (float)dim);
        float stretched = 1.0f / ((float)c->factor * period);
        inv_freq[i] = stretched * (1.0f - keep) + inv_freq[i] * keep;
    }
}

static double yarn_mscale(double factor, double mscale) {
    return factor <= 1 ? 1.0 : 0.1 * mscale * log(factor) + 1.0;
}

static float yarn_scaling(const oc_rope_config *c) {
    if (c->attention_factor != 0) return (float)c->attention_factor;
    if (c->mscale != 0 && c->mscale_all != 0)
        return (float)(yarn_mscale(c->factor, c->mscale) / yarn_mscale(c->factor, c->mscale_all));
    return (float)yarn_mscale(c->factor, 1);
}

float oc_rope_fill(const oc_rope_config *c, int32_t rot_dim, float *inv_freq) {
    for (int32_t i = 0; i < rot_dim / 2; i++) {
        float freq = 1.0f / powf((float)c->theta, (float)(2 * i) / (float)rot_dim);
        if (c->type == OC_ROPE_LINEAR) freq /= (float)c->factor;
        if (c->type == OC_ROPE_LLAMA3) freq = llama3_freq(c, freq);
        inv_freq[i] = freq;
    }
    if (c->type != OC_ROPE_YARN) return 1.0f;
    yarn_freqs(c, rot_dim, inv_freq);
    return yarn_scaling(c);
}
