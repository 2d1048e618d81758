/* save.h - a model directory that others load: config.json, tokenizer files, safetensors. */
#ifndef OC_SAVE_H
#define OC_SAVE_H

#include "text/tokenizer.h"
#include "train/session.h"

/* What goes beside the weights. */
typedef struct oc_save_source {
    const char *model_dir;         /* directory or config.json the run started from */
    const oc_tokenizer *tokenizer; /* the built-in one, written out; NULL: copy the files */
} oc_save_source;

/* Into an existing directory: small files first, then the weights, which appear whole. No step may
 * be under way. */
OC_NODISCARD oc_status oc_save_model(oc_session *s, const oc_setup *setup,
                                     const oc_save_source *source, const char *dir, oc_error *err);
/* The same into the output directory, by way of DIR/model.tmp: on failure DIR is as it was. Shards
 * of an earlier model that the new one does not replace are removed. */
OC_NODISCARD oc_status oc_save_final(oc_session *s, const oc_setup *setup,
                                     const oc_save_source *source, const char *dir, oc_error *err);
/* DIR/checkpoint-STEP, which appears whole (model only); then removes the oldest beyond `keep`. */
OC_NODISCARD oc_status oc_save_checkpoint(oc_session *s, const oc_setup *setup,
                                          const oc_save_source *source, const char *dir,
                                          uint64_t step, int32_t keep, oc_error *err);
/* Bytes one saved model takes on disk. */
uint64_t oc_save_bytes(const oc_setup *setup);
/* Remove all checkpoint-N of an earlier run: --overwrite. */
OC_NODISCARD oc_status oc_save_forget(const char *dir, oc_error *err);
/* Remove what an interrupted run left in DIR. */
OC_NODISCARD oc_status oc_save_clean(const char *dir, oc_error *err);

#endif
