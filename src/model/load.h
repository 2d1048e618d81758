/* load.h - the values of a model's blocks: from a checkpoint, from a seed, and back to a file.
 *
 * One block at a time, through scratch the caller lends: nothing here allocates in proportion to
 * the model. A flat block is `elements` values in the layout of oc_block, padding 0. Transposed
 * file tensors (gpt2) are turned on the way. Different blocks of one model may be handled by
 * different threads at the same time, each with its own reader or writer. */
#ifndef OC_LOAD_H
#define OC_LOAD_H

#include "model/model.h"
#include "tensor/safetensors.h"

/* --- Reading */

/* Before the first read: every tensor the model needs is there, under its name or (where the family
 * allows it) without its prefix, in the right shape and a dtype that can be read. A tied model's
 * checkpoint may hold the head once more if it equals the embedding. Tensors that are not used are
 * listed in m->notes. */
OC_NODISCARD oc_status oc_model_check_tensors(oc_model *m, oc_tensors *t, oc_error *err);

/* Does the checkpoint of a tied model hold a head that is not the embedding? false too where that
 * cannot be told. */
bool oc_model_holds_other_head(const oc_model *m, const char *dir);

/* Scratch that oc_model_read_block() and oc_model_write() need at least for this model; more makes
 * transposes faster, up to some MiB. */
uint64_t oc_model_scratch_bytes(const oc_model *m);

/* What those who have no need to save are given. */
enum { OC_MODEL_ROOMY_SCRATCH = 1 << 20 };
/* Host memory that reading a model takes, or writing one, scratch included: not at the same time.
 */
uint64_t oc_model_staging_bytes(const oc_model *m);

/* dst: block elements values of dtype, all written (the padding as 0). scratch: 64-byte aligned. */
OC_NODISCARD oc_status oc_model_read_block(const oc_model *m, oc_tensors *t, int32_t block,
                                           oc_dtype dtype, void *dst, void *scratch,
                                           uint64_t scratch_bytes, oc_error *err);

/* --- From a seed */

/* A value depends on (seed, tensor name, place in the whole tensor) only: not on chunks, blocks,
 * order or threads. Normal values come from Philox4x32-10 (Salmon et al. 2011) by Box-Muller. dst:
 * block elements fp32 values, all written. */
void oc_model_init_block(const oc_model *m, int32_t block, uint64_t seed, float *dst);

/* --- Writing */

/* The file tensors of the model (a tied head is absent), all of one dtype. Free *out; its names are
 * the model's. */
OC_NODISCARD oc_status oc_model_decls(const oc_model *m, oc_dtype dtype, oc_tensor_decl **out,
                                      int32_t *n, oc_error *err);

/* The values of a flat block, valid until the next call. Blocks are asked for in the order of the
 * file, a block as often as the file needs it. */
typedef oc_status oc_model_values_fn(void *arg, int32_t block, const void **values, oc_dtype *dtype,
                                     oc_error *err);

/* Append every tensor to a writer that was opened with the declarations of oc_model_decls(); the
 * caller commits. */
OC_NODISCARD oc_status oc_model_write(const oc_model *m, oc_writer *w, oc_model_values_fn *fn,
                                      void *arg, void *scratch, uint64_t scratch_bytes,
                                      oc_error *err);

#endif
