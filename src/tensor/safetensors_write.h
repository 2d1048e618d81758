/* safetensors_write.h - the writer's state, shared by its stream (safetensors_write.c), its texts
 * (safetensors_layout.c) and its commit (safetensors_commit.c). Not for others.
 *
 * Slots are in file order. fd < 0 exactly between two shards; bytes [0, done) of slots[at] are
 * written; shards [0, shard) are complete and synced under their temporary names. */
#ifndef OC_SAFETENSORS_WRITE_H
#define OC_SAFETENSORS_WRITE_H

#include "tensor/safetensors_internal.h"

typedef struct oc_writer_slot {
    char *name;
    int32_t decl, shard, ndim;
    oc_file_dtype dtype;
    uint32_t alignment;
    uint64_t dims[OC_TENSOR_MAX_DIMS];
    uint64_t bytes;
} oc_writer_slot;

struct oc_writer {
    const oc_st_io *io;
    char *dir;
    oc_writer_slot *slots;
    int32_t count, shard_count;
    uint64_t total_bytes;
    int fd, shard;
    char *path; /* of the open shard */
    int32_t at;
    uint64_t done;
    void *bounce;
    bool failed, committed;
};

/* Path of a shard, or of the index when shard is shard_count; the caller frees it, NULL is out of
 * memory. */
char *oc_writer_path(const oc_writer *w, int32_t shard, bool temporary);

/* Length prefix and padded JSON of a file with slots [lo, hi). The caller frees *out. */
OC_NODISCARD oc_status oc_writer_header(const oc_writer *w, int32_t lo, int32_t hi, char **out,
                                        uint64_t *n, oc_error *err);
/* Text of the index. The caller frees *out. */
OC_NODISCARD oc_status oc_writer_index(const oc_writer *w, char **out, uint64_t *n, oc_error *err);

OC_NODISCARD oc_status oc_writer_put(oc_writer *w, int fd, const char *path, const void *src,
                                     uint64_t n, oc_error *err);

#endif
