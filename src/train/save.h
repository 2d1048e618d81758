/* save.h - a model directory that others load: config.json, tokenizer files, safetensors. */
#ifndef OC_SAVE_H
#define OC_SAVE_H

#include "engine/session.h"
#include "tokenizer/tokenizer.h"

/* Into an existing directory: small files, as setup->source kept them, first, then the weights,
 * which appear whole. No step may be under way. */
OC_NODISCARD oc_status oc_save_model(oc_session *s, const oc_setup *setup, const char *dir,
                                     oc_error *err);
/* The same, and run.json, into the output directory: until the new model is whole, DIR is as it
 * was; then it replaces the earlier one, and what only that had (shards, tokenizer files) goes. A
 * crash on the way is made up for by the next oc_save_clean(). */
OC_NODISCARD oc_status oc_save_final(oc_session *s, const oc_setup *setup, const char *dir,
                                     oc_error *err);
/* run.json at the start of a run: into DIR, or, while that holds an earlier model, aside until
 * oc_save_final(). */
OC_NODISCARD oc_status oc_save_run(const oc_setup *setup, const char *dir, oc_error *err);
/* Forget what was put aside: there will be no final model. */
void oc_save_discard(const char *dir);
/* DIR/checkpoint-STEP, which appears whole (model only); then removes the oldest beyond `keep`. */
OC_NODISCARD oc_status oc_save_checkpoint(oc_session *s, const oc_setup *setup, const char *dir,
                                          uint64_t step, int32_t keep, oc_error *err);
/* Bytes one saved model takes on disk. */
uint64_t oc_save_bytes(const oc_setup *setup);
/* Without --overwrite, --output holds no checkpoint, and without --resume no model. */
OC_NODISCARD oc_status oc_save_check_free(const oc_config *c, oc_error *err);
/* Remove all checkpoint-N of an earlier run: --overwrite. */
OC_NODISCARD oc_status oc_save_forget(const char *dir, oc_error *err);
/* Complete a final model that an interrupted run had ready, remove what else it left in DIR. */
OC_NODISCARD oc_status oc_save_clean(const char *dir, oc_error *err);
/* Is it, relative to DIR, a name that a run or a model gives to its files? */
bool oc_save_is_ours(const char *name);

#endif
