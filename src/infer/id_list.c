/* Ids as model files name them. */
#include "infer/id_list.h"

#include "base/json.h"

#include <stdlib.h>
#include <string.h>

static oc_status grow(oc_id_list *l, oc_error *err) {
    int32_t room = l->room < 8 ? 8 : 2 * l->room;
    if (l->n < l->room) return OC_OK;
    if (l->room > INT32_MAX / 2) return oc_fail(err, OC_E_OVERFLOW, "too many ids");
    int32_t *p = realloc(l->ids, (size_t)room * sizeof *p);
    if (p == NULL) return oc_fail(err, OC_E_MEMORY, "no memory for %d ids", (int)room);
    l->ids = p;
    l->room = room;
    return OC_OK;
}

oc_status oc_id_list_add(oc_id_list *l, int32_t id, oc_error *err) {
    int32_t i = l->n;
    while (i > 0 && l->ids[i - 1] > id)
        i--;
    if (i > 0 && l->ids[i - 1] == id) return OC_OK;
    OC_TRY(grow(l, err));
    memmove(l->ids + i + 1, l->ids + i, (size_t)(l->n - i) * sizeof *l->ids);
    l->ids[i] = id;
    l->n++;
    return OC_OK;
}

static oc_status add_value(oc_id_list *l, const json_t *v, const char *key, const char *file,
                           oc_error *err) {
    if (!json_is_integer(v) || json_integer_value(v) > INT32_MAX)
        return oc_fail(err, OC_E_FORMAT, "%s: \"%s\" must be an id or a list of ids", file, key);
    json_int_t id = json_integer_value(v);
    return id < 0 ? OC_OK : oc_id_list_add(l, (int32_t)id, err);
}

oc_status oc_id_list_read(oc_id_list *l, const json_t *object, const char *key, const char *file,
                          oc_error *err) {
    const json_t *v = json_object_get(object, key);
    if (v == NULL || json_is_null(v)) return OC_OK;
    if (!json_is_array(v)) return add_value(l, v, key, file, err);
    for (size_t i = 0; i < json_array_size(v); i++)
        OC_TRY(add_value(l, json_array_get(v, i), key, file, err));
    return OC_OK;
}

void oc_id_list_release(oc_id_list *l) {
    free(l->ids);
    *l = (oc_id_list){0};
}
