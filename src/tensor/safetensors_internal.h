/* safetensors_internal.h - what the files of the tensor room share, and tests and fuzz targets use.
 *
 * Not for other rooms. */
#ifndef OC_SAFETENSORS_INTERNAL_H
#define OC_SAFETENSORS_INTERNAL_H

#include "tensor/safetensors.h"

#include <stddef.h>
#include <sys/types.h>

/* The calls that touch files. Tests pass their own table to make the k-th of them fail. */
typedef struct oc_st_io {
    int (*open)(const char *path, int flags, mode_t mode);
    ssize_t (*pread)(int fd, void *dst, size_t n, off_t offset);
    ssize_t (*write)(int fd, const void *src, size_t n);
    int (*fsync)(int fd);
    int (*close)(int fd);
    int (*rename)(const char *from, const char *to);
    int (*unlink)(const char *path);
} oc_st_io;

extern const oc_st_io oc_st_io_posix;

OC_NODISCARD oc_status oc_tensors_open_io(oc_tensors **out, const char *path, const oc_st_io *io,
                                          oc_error *err);
OC_NODISCARD oc_status oc_writer_open_io(oc_writer **out, const char *dir,
                                         const oc_tensor_decl *decls, int32_t n,
                                         uint64_t max_shard_bytes, const oc_st_io *io,
                                         oc_error *err);

/* Exactly n bytes at offset; what names the thing being read in messages. */
OC_NODISCARD oc_status oc_st_pread_all(const oc_st_io *io, int fd, const char *path,
                                       const char *what, void *dst, uint64_t n, uint64_t offset,
                                       oc_error *err);

enum { OC_ST_MAX_HEADER = 100000000, OC_ST_PRINTABLE = 200 };

/* A name from a file made fit for a message: control characters become '?', a long one is cut. */
const char *oc_st_printable(char buf[OC_ST_PRINTABLE], const char *name);

typedef struct oc_st_header {
    oc_tensor_info *tensors; /* sorted by offset; names point into strings */
    int32_t count;
    char *strings;
    const char **metadata; /* key, value, key, value ... */
    int32_t metadata_count;
} oc_st_header;

/* Checks the JSON text of a header against the size of its file. data_start: where the data section
 * begins in the file. path is for messages. */
OC_NODISCARD oc_status oc_st_header_parse(oc_st_header *out, const char *json, size_t n,
                                          uint64_t data_start, uint64_t file_bytes,
                                          const char *path, oc_error *err);
void oc_st_header_release(oc_st_header *h);

/* The pairs of an index's weight_map, sorted by file, then tensor name. */
typedef struct oc_st_index {
    struct oc_st_index_entry {
        const char *name, *file;
    } * entries;
    int32_t count;
    void *json; /* owns the strings */
} oc_st_index;

OC_NODISCARD oc_status oc_st_index_parse(oc_st_index *out, const char *json, size_t n,
                                         const char *path, oc_error *err);
void oc_st_index_release(oc_st_index *x);

/* Forwards a jansson failure in words of the format; json_error is a json_error_t. */
oc_status oc_st_json_fail(const void *json_error, const char *what, const char *path,
                          oc_error *err);

/* Natural alignment of an element in bytes, 1 for those below a byte. */
uint32_t oc_st_alignment(oc_file_dtype t);

#endif
