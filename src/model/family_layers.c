/* family_layers.c - which layers see a sliding window alone: layer_types, or the family's rule. */
#include "model/family.h"

#include <string.h>

typedef struct reader {
    const json_t *root;
    const char *origin;
    oc_error *err;
} reader;

/* 0 is allowed, unlike for sizes: then all layers have the window. */
static oc_status read_full_layers(const reader *r, int64_t *out) {
    const json_t *v = json_object_get(r->root, "max_window_layers");
    char text[OC_SHOWN_BYTES];
    *out = 28;
    if (!v) return OC_OK;
    if (!json_is_integer(v) || json_integer_value(v) < 0)
        return oc_fail(r->err, OC_E_INVALID,
                       "%s: key 'max_window_layers' is %s; expected an integer from 0", r->origin,
                       oc_family_shown(v, text));
    *out = json_integer_value(v);
    return OC_OK;
}

static oc_status read_types(const reader *r, const json_t *types, oc_family_config *c) {
    char text[OC_SHOWN_BYTES];
    if (!json_is_array(types) || json_array_size(types) != (size_t)c->layers)
        return oc_fail(r->err, OC_E_INVALID,
                       "%s: key 'layer_types' is %s; expected a list of %lld names, one a layer",
                       r->origin, oc_family_shown(types, text), (long long)c->layers);
    for (int64_t i = 0; i < c->layers; i++) {
        const json_t *v = json_array_get(types, (size_t)i);
        const char *name = json_is_string(v) ? json_string_value(v) : "";
        c->sliding[i] = strcmp(name, "sliding_attention") == 0;
        if (!c->sliding[i] && strcmp(name, "full_attention") != 0)
            return oc_fail(r->err, OC_E_UNSUPPORTED,
                           "%s: key 'layer_types' has %s for layer %lld; supported: "
                           "full_attention, sliding_attention",
                           r->origin, oc_family_shown(v, text), (long long)i);
    }
    return OC_OK;
}

oc_status oc_layers_read(const json_t *root, const char *origin, const oc_family *family,
                         oc_family_config *c, oc_error *err) {
    reader r = {root, origin, err};
    const json_t *types = NULL;
    int64_t full = 0, pattern = c->window_pattern > 0 ? c->window_pattern : 2;
    if (!c->windowed) c->window = 0;
    if (family->sliding == OC_SLIDING_LAST) OC_TRY(read_full_layers(&r, &full));
    if (family->sliding == OC_SLIDING_LAST || family->sliding == OC_SLIDING_PERIOD)
        types = json_object_get(root, "layer_types");
    if (types && !json_is_null(types)) {
        OC_TRY(read_types(&r, types, c));
    } else {
        for (int64_t i = 0; i < c->layers; i++) {
            if (family->sliding == OC_SLIDING_ALL) c->sliding[i] = c->window > 0;
            if (family->sliding == OC_SLIDING_LAST) c->sliding[i] = c->window > 0 && i >= full;
            if (family->sliding == OC_SLIDING_PERIOD) c->sliding[i] = (i + 1) % pattern != 0;
        }
    }
    for (int64_t i = 0; i < c->layers; i++)
        if (c->sliding[i] && c->window == 0)
            return oc_fail(err, OC_E_INVALID,
                           "%s: layer %lld has sliding attention, but key 'sliding_window' gives "
                           "no window; add it, or make the layer full_attention in 'layer_types'",
                           origin, (long long)i);
    return OC_OK;
}
