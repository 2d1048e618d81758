/* A JSON file of a model directory that may not be there. */
#include "infer/model_json.h"

#include "base/fs.h"
#include "base/json.h"

#include <stdio.h>

oc_status oc_model_json(json_t **out, const char *dir, const char *name, char *path, size_t bytes,
                        oc_error *err) {
    *out = NULL;
    int n = snprintf(path, bytes, "%s/%s", dir, name);
    if (n < 0 || (size_t)n >= bytes)
        return oc_fail(err, OC_E_INVALID, "%s/%s: the name is too long", dir, name);
    if (!oc_fs_exists(path)) return OC_OK;
    OC_TRY(oc_json_load(out, path, OC_JSON_NO_NUL, err));
    if (json_is_object(*out)) return OC_OK;
    json_decref(*out);
    *out = NULL;
    return oc_fail(err, OC_E_FORMAT, "%s: must be an object", path);
}
