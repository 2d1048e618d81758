/* hub.h - models that Hugging Face's tools have downloaded to this machine. Reads directories only.
 */
#ifndef OC_HUB_H
#define OC_HUB_H

#include "base/status.h"

#include <stdbool.h>

/* Is it a name of the hub, "org/name", rather than a path? */
bool oc_hub_is_name(const char *text);
/* *out: the directory of the snapshot that "main" stands for; free it. cache: the cache's
 * directory, NULL for the one that Hugging Face's libraries use. OC_E_NOTFOUND says how to download
 * it. */
OC_NODISCARD oc_status oc_hub_find(char **out, const char *name, const char *cache, oc_error *err);

#endif
