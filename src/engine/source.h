/* source.h - the small files that a run starts from: config.json, the tokenizer's, and what may
 * stand beside them. They are read once, at the start; what is saved later is what was read,
 * whatever has become of them. Their bytes are kept, and planned. */
#ifndef OC_SOURCE_H
#define OC_SOURCE_H

#include "config/config.h"

#include <stddef.h>

typedef struct oc_source oc_source;

/* A file as it was; data NULL: it was not there. */
typedef struct oc_source_file {
    char *data;
    size_t bytes;
} oc_source_file;

/* Reads the files of --model or --init and of --tokenizer. Call it before they are opened. */
OC_NODISCARD oc_status oc_source_open(oc_source **out, const oc_config *c, oc_error *err);
void oc_source_close(oc_source *s);
/* Once they are opened as well: they still are what was kept, so that what was opened is. */
OC_NODISCARD oc_status oc_source_check(const oc_source *s, oc_error *err);

const oc_source_file *oc_source_config(const oc_source *s); /* config.json */
const char *oc_source_config_path(const oc_source *s);
bool oc_source_has_tokenizer(const oc_source *s); /* a tokenizer.json that the run shall use */
/* Those that may stand beside config.json, by index until it returns NULL. *name may have a
 * directory: additional_chat_templates/NAME.jinja. */
const oc_source_file *oc_source_beside(const oc_source *s, size_t i, const char **name);
/* Memory that it holds, as the heap's blocks. NULL: 0. */
uint64_t oc_source_bytes(const oc_source *s);

/* Is it a name that such a file, or the directory of some, has? */
bool oc_source_is_beside(const char *name);

#endif
