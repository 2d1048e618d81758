/* id_list.h - ids as model files name them: a set that grows. For this room. */
#ifndef OC_INFER_ID_LIST_H
#define OC_INFER_ID_LIST_H

#include "base/status.h"

#include <jansson.h>
#include <stdint.h>

/* Zero it first. Ascending, each once. */
typedef struct oc_id_list {
    int32_t *ids;
    int32_t n, room;
} oc_id_list;

OC_NODISCARD oc_status oc_id_list_add(oc_id_list *l, int32_t id, oc_error *err);
/* What object[key] names: an id, a list of them, or nothing (null, not there). Negative ones, as
 * some files have them for "none", are left out. file: for messages. */
OC_NODISCARD oc_status oc_id_list_read(oc_id_list *l, const json_t *object, const char *key,
                                       const char *file, oc_error *err);
void oc_id_list_release(oc_id_list *l);

#endif
