/* model_json.h - a JSON file of a model directory that may not be there. For this room. */
#ifndef OC_INFER_MODEL_JSON_H
#define OC_INFER_MODEL_JSON_H

#include "base/status.h"

#include <jansson.h>

/* *out: the object in DIR/NAME (json_decref() it), or NULL when there is no such file; path[bytes]:
 * its name for messages. */
OC_NODISCARD oc_status oc_model_json(json_t **out, const char *dir, const char *name, char *path,
                                     size_t bytes, oc_error *err);

#endif
