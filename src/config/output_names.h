/* output_names.h - names in an output directory of a final model that waits to be completed: whole
 * and durable, and on its way to its place (train/save.c). */
#ifndef OC_OUTPUT_NAMES_H
#define OC_OUTPUT_NAMES_H

#include "base/fs.h"

#include <stdbool.h>
#include <string.h>

#define OC_MODEL_READY "model.ready" OC_FS_TEMPORARY
#define OC_MODEL_MOVING "model.moving" OC_FS_TEMPORARY

static inline bool oc_output_is_unfinished(const char *name) {
    return strcmp(name, OC_MODEL_READY) == 0 || strcmp(name, OC_MODEL_MOVING) == 0;
}

#endif
