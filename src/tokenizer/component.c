/* The components of a tokenizer.json: {"type": ..., ...}, a Sequence of them, or null. */
#include "base/json.h"
#include "tokenizer/internal.h"

#include <stdlib.h>
#include <string.h>

enum { DEPTH_MOST = 20 };

const char *oc_tk_plain(const json_t *v) {
    const char *s = json_string_value(v);
    return s != NULL && strlen(s) == json_string_length(v) ? s : NULL;
}

static oc_status visit(const json_t *o, const char *list, const char *where, int depth,
                       oc_tk_component_fn *fn, void *arg, oc_error *err) {
    if (o == NULL || json_is_null(o)) return OC_OK;
    const char *type = oc_tk_plain(json_object_get(o, "type"));
    if (type == NULL)
        return oc_fail(err, OC_E_FORMAT, "%s: must be null or an object with a \"type\"", where);
    if (strcmp(type, "Sequence") != 0) return fn(arg, &(oc_tk_component){o, type}, where, err);
    if (depth == DEPTH_MOST)
        return oc_fail(err, OC_E_UNSUPPORTED, "%s: a Sequence more than %d deep", where,
                       DEPTH_MOST);
    const char *const known[] = {"type", list};
    OC_TRY(oc_tk_component_keys(&(oc_tk_component){o, type}, where, known, 2, err));
    const json_t *all = json_object_get(o, list);
    if (!json_is_array(all))
        return oc_fail(err, OC_E_FORMAT, "%s: a Sequence must have a list \"%s\"", where, list);
    size_t i;
    json_t *one;
    json_array_foreach(all, i, one) {
        if (json_is_null(one)) return oc_fail(err, OC_E_FORMAT, "%s: null in \"%s\"", where, list);
        OC_TRY(visit(one, list, where, depth + 1, fn, arg, err));
    }
    return OC_OK;
}

oc_status oc_tk_components(const json_t *o, const char *list, const char *where,
                           oc_tk_component_fn *fn, void *arg, oc_error *err) {
    return visit(o, list, where, 0, fn, arg, err);
}

oc_status oc_tk_component_keys(const oc_tk_component *c, const char *where,
                               const char *const *known, size_t n, oc_error *err) {
    return oc_json_check_keys(c->o, where, c->type, known, n, err);
}

oc_status oc_tk_component_text(const oc_tk_component *c, const char *where, const char *key,
                               const char **text, size_t *n, oc_error *err) {
    const json_t *v = json_object_get(c->o, key);
    if (!json_is_string(v))
        return oc_fail(err, OC_E_FORMAT, "%s: %s needs a string \"%s\"", where, c->type, key);
    *text = json_string_value(v);
    *n = json_string_length(v);
    return OC_OK;
}

oc_status oc_tk_component_char(const oc_tk_component *c, const char *where, const char *key,
                               const char **text, size_t *n, oc_error *err) {
    OC_TRY(oc_tk_component_text(c, where, key, text, n, err));
    size_t end = 0;
    if (*n > 0) (void)oc_tk_next(*text, &end);
    if (*n == 0 || end != *n)
        return oc_fail(err, OC_E_FORMAT, "%s: \"%s\" of %s must be one character", where, key,
                       c->type);
    return OC_OK;
}

oc_status oc_tk_unsupported(const oc_tk_component *c, const char *where, const char *known,
                            oc_error *err) {
    return oc_fail(err, OC_E_UNSUPPORTED, "%s: the type \"%s\" is not supported; known are %s",
                   where, c->type, known);
}
