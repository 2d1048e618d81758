/* safetensors.h - safetensors files in and out, single or sharded, never a whole model in memory.
 *
 * Format: https://huggingface.co/docs/safetensors. A reader holds headers only; tensor bytes are
 * read by range with pread. A writer needs every tensor's name, dtype and shape first, then takes
 * bytes tensor by tensor in file order. One thread owns a reader or a writer. */
#ifndef OC_SAFETENSORS_H
#define OC_SAFETENSORS_H

#include "base/dtype.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum oc_file_dtype {
    OC_FD_BOOL,
    OC_FD_F4,
    OC_FD_F6_E2M3,
    OC_FD_F6_E3M2,
    OC_FD_U8,
    OC_FD_I8,
    OC_FD_F8_E5M2,
    OC_FD_F8_E4M3,
    OC_FD_F8_E8M0,
    OC_FD_I16,
    OC_FD_U16,
    OC_FD_F16,
    OC_FD_BF16,
    OC_FD_I32,
    OC_FD_U32,
    OC_FD_F32,
    OC_FD_C64,
    OC_FD_F64,
    OC_FD_I64,
    OC_FD_U64,
    OC_FD_COUNT
} oc_file_dtype;

const char *oc_file_dtype_name(oc_file_dtype t); /* "BF16" */
uint32_t oc_file_dtype_bits(oc_file_dtype t);
bool oc_file_dtype_compute(oc_file_dtype t, oc_dtype *out); /* F32, BF16, F16; else false */

enum { OC_TENSOR_MAX_DIMS = 8 };

typedef struct oc_tensor_info {
    const char *name; /* owned by the reader */
    oc_file_dtype dtype;
    int32_t ndim;
    uint64_t dims[OC_TENSOR_MAX_DIMS];
    uint64_t elements, bytes;
    uint64_t offset; /* of its first byte in the file */
    int32_t file;    /* which of oc_tensors_file() */
} oc_tensor_info;

typedef struct oc_tensors oc_tensors;

/* path: a .safetensors file, a .safetensors.index.json, or a directory that holds model.safetensors
 * or model.safetensors.index.json. With an index only the tensors it names exist. */
OC_NODISCARD oc_status oc_tensors_open(oc_tensors **out, const char *path, oc_error *err);
void oc_tensors_close(oc_tensors *t);

int32_t oc_tensors_count(const oc_tensors *t);
const oc_tensor_info *oc_tensors_at(const oc_tensors *t, int32_t i); /* sorted by file, offset */
const oc_tensor_info *oc_tensors_find(const oc_tensors *t, const char *name); /* NULL: not there */
int32_t oc_tensors_file_count(const oc_tensors *t);
const char *oc_tensors_file(const oc_tensors *t, int32_t i); /* path */
/* "__metadata__" value or NULL. */
const char *oc_tensors_metadata(const oc_tensors *t, int32_t file, const char *key);

/* Elements [first, first + n) of a tensor in row-major order, converted to dtype. The file dtype
 * must be F32, BF16 or F16 (OC_E_UNSUPPORTED names the tensor and its dtype). Uses a bounded bounce
 * buffer. */
OC_NODISCARD oc_status oc_tensors_read(oc_tensors *t, const oc_tensor_info *x, uint64_t first,
                                       uint64_t n, oc_dtype dtype, void *dst, oc_error *err);

/* Bytes [first, first + n) of a tensor as they are in the file, for any file dtype. */
OC_NODISCARD oc_status oc_tensors_read_raw(oc_tensors *t, const oc_tensor_info *x, uint64_t first,
                                           uint64_t n, void *dst, oc_error *err);

typedef struct oc_tensor_decl {
    const char *name;
    oc_file_dtype dtype;
    int32_t ndim;
    uint64_t dims[OC_TENSOR_MAX_DIMS];
} oc_tensor_decl;

typedef struct oc_writer oc_writer;

/* Starts DIR/model.safetensors, or shards model-00001-of-0000N.safetensors plus the index when the
 * total exceeds max_shard_bytes (0: 5 GB, as Hugging Face). Everything goes to temporary names
 * (".tmp-" prefix) until oc_writer_commit() has synced and renamed it. Metadata: {"format": "pt"}.
 * The order of writing is that of oc_writer_at(): within a shard by descending dtype alignment,
 * then name. */
OC_NODISCARD oc_status oc_writer_open(oc_writer **out, const char *dir, const oc_tensor_decl *decls,
                                      int32_t n, uint64_t max_shard_bytes, oc_error *err);
int32_t oc_writer_at(const oc_writer *w,
                     int32_t k); /* decl index of the k-th tensor in file order */
/* Append n elements to the current tensor, in row-major order; src is of src_dtype and converted to
 * the declared dtype. Moves on to the next tensor when the current one is complete. */
OC_NODISCARD oc_status oc_writer_append(oc_writer *w, const void *src, oc_dtype src_dtype,
                                        uint64_t n, oc_error *err);
/* As oc_writer_append, with n bytes that are in the declared dtype already (any file dtype). */
OC_NODISCARD oc_status oc_writer_append_raw(oc_writer *w, const void *src, uint64_t n,
                                            oc_error *err);
/* fsync, rename, fsync the directory. Fails if a tensor is incomplete. Afterwards close is still
 * due. */
OC_NODISCARD oc_status oc_writer_commit(oc_writer *w, oc_error *err);
void oc_writer_close(oc_writer *w); /* removes temporaries if not committed */

#endif
