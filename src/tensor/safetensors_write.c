#include "tensor/safetensors_write.h"
#include "base/checked.h"
#include "base/fs.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { BOUNCE_BYTES = 256 * 1024 };
#define DEFAULT_SHARD_BYTES 5000000000ull

/* ---- what goes where ---- */

static oc_status decl_bytes(const oc_tensor_decl *d, uint64_t *out, oc_error *err) {
    char name[OC_ST_PRINTABLE];
    if (d->name == NULL) return oc_fail(err, OC_E_INVALID, "a tensor to write has no name");
    oc_st_printable(name, d->name);
    if (strcmp(d->name, "__metadata__") == 0)
        return oc_fail(err, OC_E_INVALID, "'__metadata__' cannot be a tensor's name");
    if ((unsigned)d->dtype >= OC_FD_COUNT || d->ndim < 0 || d->ndim > OC_TENSOR_MAX_DIMS)
        return oc_fail(err, OC_E_INVALID, "tensor '%s': bad dtype or number of dimensions", name);
    uint64_t bits = oc_file_dtype_bits(d->dtype);
    for (int32_t i = 0; i < d->ndim; i++)
        if (!oc_mul_u64(bits, d->dims[i], &bits) || d->dims[i] > INT64_MAX)
            return oc_fail(err, OC_E_OVERFLOW, "tensor '%s': its size overflows", name);
    if (bits % 8 != 0)
        return oc_fail(err, OC_E_INVALID, "tensor '%s': %s elements do not fill whole bytes", name,
                       oc_file_dtype_name(d->dtype));
    *out = bits / 8;
    return OC_OK;
}

static int by_place(const void *a, const void *b) {
    const oc_writer_slot *x = a, *y = b;
    if (x->shard != y->shard) return x->shard < y->shard ? -1 : 1;
    if (x->alignment != y->alignment) return x->alignment > y->alignment ? -1 : 1;
    return strcmp(x->name, y->name);
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const oc_writer_slot *)a)->name, ((const oc_writer_slot *)b)->name);
}

static oc_status copy_slots(oc_writer *w, const oc_tensor_decl *decls, oc_error *err) {
    for (int32_t i = 0; i < w->count; i++) {
        oc_writer_slot *s = &w->slots[i];
        OC_TRY(decl_bytes(&decls[i], &s->bytes, err));
        *s = (oc_writer_slot){.decl = i,
                              .bytes = s->bytes,
                              .dtype = decls[i].dtype,
                              .alignment = oc_st_alignment(decls[i].dtype),
                              .ndim = decls[i].ndim};
        memcpy(s->dims, decls[i].dims, sizeof s->dims);
        s->name = strdup(decls[i].name);
        if (s->name == NULL) return oc_fail(err, OC_E_MEMORY, "no memory for a writer");
        if (!oc_add_u64(w->total_bytes, s->bytes, &w->total_bytes))
            return oc_fail(err, OC_E_OVERFLOW, "the tensors to write overflow 64 bits of bytes");
    }
    return OC_OK;
}

static oc_status refuse_duplicates(oc_writer *w, oc_error *err) {
    qsort(w->slots, (size_t)w->count, sizeof *w->slots, by_name);
    for (int32_t i = 1; i < w->count; i++) {
        char name[OC_ST_PRINTABLE];
        if (strcmp(w->slots[i].name, w->slots[i - 1].name) == 0)
            return oc_fail(err, OC_E_INVALID, "tensor '%s' is to be written twice",
                           oc_st_printable(name, w->slots[i].name));
    }
    return OC_OK;
}

/* Fills shards in declaration order; a tensor above the limit has a shard of its own. */
static oc_status assign_shards(oc_writer *w, uint64_t max_bytes, oc_error *err) {
    int32_t *shard_of = calloc((size_t)w->count + 1, sizeof *shard_of);
    uint64_t *bytes_of = calloc((size_t)w->count + 1, sizeof *bytes_of);
    if (shard_of == NULL || bytes_of == NULL) {
        free(shard_of);
        free(bytes_of);
        return oc_fail(err, OC_E_MEMORY, "no memory for a writer of %d tensors", w->count);
    }
    for (int32_t i = 0; i < w->count; i++)
        bytes_of[w->slots[i].decl] = w->slots[i].bytes;
    int32_t shard = 0;
    uint64_t filled = 0;
    for (int32_t d = 0; d < w->count; d++) {
        if (filled > 0 && (filled > max_bytes || bytes_of[d] > max_bytes - filled)) {
            shard++;
            filled = 0;
        }
        filled += bytes_of[d];
        shard_of[d] = shard;
    }
    for (int32_t i = 0; i < w->count; i++)
        w->slots[i].shard = shard_of[w->slots[i].decl];
    w->shard_count = shard + 1;
    free(shard_of);
    free(bytes_of);
    qsort(w->slots, (size_t)w->count, sizeof *w->slots, by_place);
    return OC_OK;
}

static oc_status lay_out(oc_writer *w, const oc_tensor_decl *decls, uint64_t max_shard_bytes,
                         oc_error *err) {
    OC_TRY(copy_slots(w, decls, err));
    OC_TRY(refuse_duplicates(w, err));
    return assign_shards(w, max_shard_bytes > 0 ? max_shard_bytes : DEFAULT_SHARD_BYTES, err);
}

/* ---- the stream ---- */

static oc_status fail_writer(oc_writer *w, oc_status s) {
    w->failed = true;
    return s;
}

oc_status oc_writer_put(oc_writer *w, int fd, const char *path, const void *src, uint64_t n,
                        oc_error *err) {
    const char *p = src;
    while (n > 0) {
        ssize_t put = w->io->write(fd, p, (size_t)oc_min_u64(n, OC_FS_WINDOW));
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0)
            return oc_fail_errno(err, OC_E_IO, put == 0 ? EIO : errno,
                                 "%s: cannot write (%" PRIu64 " bytes more of this piece to go)",
                                 path, n);
        oc_fs_hand_over(fd, (uint64_t)put);
        p += put;
        n -= (uint64_t)put;
    }
    return OC_OK;
}

static oc_status begin_shard(oc_writer *w, oc_error *err) {
    int32_t lo = w->at, hi = lo;
    while (hi < w->count && w->slots[hi].shard == w->shard)
        hi++;
    char *header;
    uint64_t n;
    OC_TRY(oc_writer_header(w, lo, hi, &header, &n, err));
    char *path = oc_writer_path(w, w->shard, true);
    if (path == NULL) {
        free(header);
        return oc_fail(err, OC_E_MEMORY, "no memory for a file name");
    }
    free(w->path);
    w->path = path;
    w->fd = w->io->open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
    oc_status s;
    if (w->fd < 0) {
        s = oc_fail_errno(err, OC_E_IO, errno, "cannot create %s", path);
    } else {
        s = oc_writer_put(w, w->fd, path, header, n, err);
    }
    free(header);
    return s;
}

static oc_status end_shard(oc_writer *w, oc_error *err) {
    int fd = w->fd;
    if (w->io->fsync(fd) != 0)
        return oc_fail_errno(err, OC_E_IO, errno, "%s: cannot sync to disk", w->path);
    w->fd = -1;
    if (w->io->close(fd) != 0)
        return oc_fail_errno(err, OC_E_IO, errno, "%s: cannot close", w->path);
    w->shard++;
    return OC_OK;
}

/* Leaves w at a tensor that wants bytes, or past the last one with every shard ended. */
static oc_status advance(oc_writer *w, oc_error *err) {
    for (;;) {
        if (w->fd < 0) {
            if (w->shard == w->shard_count) return OC_OK;
            OC_TRY(begin_shard(w, err));
        }
        bool here = w->at < w->count && w->slots[w->at].shard == w->shard;
        if (here && w->done < w->slots[w->at].bytes) return OC_OK;
        if (here) {
            w->at++;
            w->done = 0;
        } else {
            OC_TRY(end_shard(w, err));
        }
    }
}

oc_status oc_writer_open_io(oc_writer **out, const char *dir, const oc_tensor_decl *decls,
                            int32_t n, uint64_t max_shard_bytes, const oc_st_io *io,
                            oc_error *err) {
    *out = NULL;
    if (n < 0) return oc_fail(err, OC_E_INVALID, "a negative number of tensors");
    oc_writer *w = calloc(1, sizeof *w);
    if (w == NULL) return oc_fail(err, OC_E_MEMORY, "no memory for a writer");
    *w = (oc_writer){.io = io, .fd = -1, .count = n};
    w->dir = strdup(dir);
    w->slots = calloc((size_t)n + 1, sizeof *w->slots);
    w->bounce = malloc(BOUNCE_BYTES);
    oc_status s;
    if (w->dir == NULL || w->slots == NULL || w->bounce == NULL) {
        s = oc_fail(err, OC_E_MEMORY, "no memory for a writer of %d tensors", n);
    } else {
        s = lay_out(w, decls, max_shard_bytes, err);
    }
    if (s == OC_OK) s = advance(w, err);
    if (s != OC_OK) {
        oc_writer_close(w);
        return s;
    }
    *out = w;
    return OC_OK;
}

oc_status oc_writer_open(oc_writer **out, const char *dir, const oc_tensor_decl *decls, int32_t n,
                         uint64_t max_shard_bytes, oc_error *err) {
    return oc_writer_open_io(out, dir, decls, n, max_shard_bytes, &oc_st_io_posix, err);
}

int32_t oc_writer_at(const oc_writer *w, int32_t k) {
    return k >= 0 && k < w->count ? w->slots[k].decl : -1;
}

/* Refuses bytes that the current tensor has no room for. */
static oc_status check_append(const oc_writer *w, uint64_t bytes, oc_error *err) {
    char name[OC_ST_PRINTABLE];
    if (w->failed || w->committed)
        return oc_fail(err, OC_E_INVALID, "%s: this writer %s", w->dir,
                       w->failed ? "failed before" : "has committed");
    if (w->at == w->count)
        return oc_fail(err, OC_E_INVALID, "%s: every tensor is complete, yet more is written",
                       w->dir);
    const oc_writer_slot *s = &w->slots[w->at];
    if (bytes <= s->bytes - w->done) return OC_OK;
    return oc_fail(err, OC_E_INVALID,
                   "%s: tensor '%s': %" PRIu64 " bytes are written where %" PRIu64 " are missing",
                   w->path, oc_st_printable(name, s->name), bytes, s->bytes - w->done);
}

static oc_status put_raw(oc_writer *w, const void *src, uint64_t n, oc_error *err) {
    OC_TRY(oc_writer_put(w, w->fd, w->path, src, n, err));
    w->done += n;
    return OC_OK;
}

static oc_status put_converted(oc_writer *w, const void *src, oc_dtype from, oc_dtype to,
                               uint64_t n, oc_error *err) {
    const char *p = src;
    while (n > 0) {
        uint64_t k = oc_min_u64(n, BOUNCE_BYTES / oc_dtype_bytes(to));
        oc_convert(w->bounce, to, p, from, k);
        OC_TRY(put_raw(w, w->bounce, k * oc_dtype_bytes(to), err));
        p += k * oc_dtype_bytes(from);
        n -= k;
    }
    return OC_OK;
}

oc_status oc_writer_append_raw(oc_writer *w, const void *src, uint64_t n, oc_error *err) {
    if (n == 0) return OC_OK;
    OC_TRY(check_append(w, n, err));
    oc_status s = put_raw(w, src, n, err);
    if (s == OC_OK) s = advance(w, err);
    return s == OC_OK ? s : fail_writer(w, s);
}

oc_status oc_writer_append(oc_writer *w, const void *src, oc_dtype src_dtype, uint64_t n,
                           oc_error *err) {
    oc_dtype to;
    char name[OC_ST_PRINTABLE];
    uint64_t bytes;
    if (n == 0) return OC_OK;
    OC_TRY(check_append(w, 0, err));
    const oc_writer_slot *slot = &w->slots[w->at];
    if (!oc_file_dtype_compute(slot->dtype, &to))
        return oc_fail(err, OC_E_UNSUPPORTED, "%s: tensor '%s': %s cannot be converted from %s",
                       w->path, oc_st_printable(name, slot->name), oc_file_dtype_name(slot->dtype),
                       oc_dtype_name(src_dtype));
    if (!oc_mul_u64(n, oc_dtype_bytes(to), &bytes)) bytes = UINT64_MAX;
    OC_TRY(check_append(w, bytes, err));
    oc_status s = to == src_dtype ? put_raw(w, src, bytes, err)
                                  : put_converted(w, src, src_dtype, to, n, err);
    if (s == OC_OK) s = advance(w, err);
    return s == OC_OK ? s : fail_writer(w, s);
}
