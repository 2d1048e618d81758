#include "base/checked.h"
#include "tensor/foreign.h"
#include "tensor/safetensors_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { BOUNCE_BYTES = 256 * 1024 };

typedef struct shard {
    char *path;
    int fd;
    uint64_t bytes;
    oc_st_header header; /* owns names and metadata; tensors is emptied into oc_tensors */
} shard;

struct oc_tensors {
    const oc_st_io *io;
    shard *shards;
    int32_t shard_count;
    oc_tensor_info *tensors;
    int32_t *by_name; /* indices into tensors */
    int32_t count;
    void *bounce;
};

static oc_status open_regular(const oc_st_io *io, const char *path, int *fd, uint64_t *bytes,
                              oc_error *err) {
    /* O_NONBLOCK: a fifo must be refused, not waited for. */
    int f = io->open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
    if (f < 0)
        return oc_fail_errno(err, errno == ENOENT ? OC_E_NOTFOUND : OC_E_IO, errno,
                             "cannot open %s", path);
    struct stat st;
    if (fstat(f, &st) != 0) {
        oc_status s = oc_fail_errno(err, OC_E_IO, errno, "cannot stat %s", path);
        io->close(f);
        return s;
    }
    if (!S_ISREG(st.st_mode)) {
        io->close(f);
        return oc_fail(err, OC_E_INVALID, "%s is not a regular file", path);
    }
    *fd = f;
    *bytes = (uint64_t)st.st_size;
    return OC_OK;
}

/* A file of another kind begins with letters, which are a length beyond any header's. */
static oc_status refuse_length(const oc_st_io *io, const shard *s, uint64_t n, oc_error *err) {
    char start[32], told[700];
    size_t bytes = s->bytes < sizeof start ? (size_t)s->bytes : sizeof start;
    OC_TRY(oc_st_pread_all(io, s->fd, s->path, "its start", start, bytes, 0, err));
    if (oc_foreign_bytes(s->path, start, bytes, told, sizeof told))
        return oc_fail(err, OC_E_FORMAT, "%s %s", s->path, told);
    return oc_fail(err, OC_E_FORMAT,
                   "%s: a header of %" PRIu64
                   " bytes is above the limit of %d: not a safetensors file?",
                   s->path, n, OC_ST_MAX_HEADER);
}

static oc_status read_header(const oc_st_io *io, shard *s, oc_error *err) {
    uint8_t prefix[8];
    if (s->bytes < sizeof prefix)
        return oc_fail(err, OC_E_FORMAT,
                       "%s: %" PRIu64 " bytes are too few for a safetensors file (at least 8)",
                       s->path, s->bytes);
    OC_TRY(
        oc_st_pread_all(io, s->fd, s->path, "the header's length", prefix, sizeof prefix, 0, err));
    uint64_t n;
    memcpy(&n, prefix, sizeof n);
    if (n > OC_ST_MAX_HEADER) return refuse_length(io, s, n, err);
    if (n > s->bytes - sizeof prefix)
        return oc_fail(err, OC_E_FORMAT,
                       "%s: truncated: a header of %" PRIu64 " bytes in a file of %" PRIu64
                       "; get it again",
                       s->path, n, s->bytes);
    char *json = malloc(n + 1);
    if (json == NULL)
        return oc_fail(err, OC_E_MEMORY, "%s: no memory for a header of %" PRIu64 " bytes", s->path,
                       n);
    oc_status st = oc_st_pread_all(io, s->fd, s->path, "the header", json, n, sizeof prefix, err);
    if (st == OC_OK)
        st = oc_st_header_parse(&s->header, json, n, sizeof prefix + n, s->bytes, s->path, err);
    free(json);
    return st;
}

/* Opens the next of t->shards; on failure oc_tensors_close cleans up. */
static oc_status open_shard(oc_tensors *t, const char *path, oc_error *err) {
    shard *s = &t->shards[t->shard_count];
    *s = (shard){.fd = -1, .path = strdup(path)};
    t->shard_count++;
    if (s->path == NULL) return oc_fail(err, OC_E_MEMORY, "%s: no memory", path);
    OC_TRY(open_regular(t->io, path, &s->fd, &s->bytes, err));
    return read_header(t->io, s, err);
}

static oc_status reserve(oc_tensors *t, size_t shards, size_t tensors, oc_error *err) {
    t->shards = calloc(shards + 1, sizeof *t->shards);
    t->tensors = calloc(tensors + 1, sizeof *t->tensors);
    if (t->shards == NULL || t->tensors == NULL)
        return oc_fail(err, OC_E_MEMORY, "no memory for %zu shards and %zu tensors", shards,
                       tensors);
    return OC_OK;
}

static oc_status load_single(oc_tensors *t, const char *path, oc_error *err) {
    OC_TRY(reserve(t, 1, 0, err));
    OC_TRY(open_shard(t, path, err));
    free(t->tensors);
    t->tensors = t->shards[0].header.tensors;
    t->count = t->shards[0].header.count;
    t->shards[0].header.tensors = NULL;
    return OC_OK;
}

static int name_cmp(const void *key, const void *entry) {
    return strcmp(key, ((const struct oc_st_index_entry *)entry)->name);
}

/* Takes from the newest shard what entries [lo, hi) of the index name, in file order. */
static oc_status take(oc_tensors *t, const oc_st_index *x, int32_t lo, int32_t hi,
                      const char *index_path, oc_error *err) {
    int32_t file = t->shard_count - 1;
    oc_st_header *h = &t->shards[file].header;
    size_t n = (size_t)(hi - lo);
    bool *seen = calloc(n, sizeof *seen);
    if (seen == NULL) return oc_fail(err, OC_E_MEMORY, "%s: no memory", index_path);
    for (int32_t i = 0; i < h->count; i++) {
        const struct oc_st_index_entry *e =
            bsearch(h->tensors[i].name, x->entries + lo, n, sizeof *x->entries, name_cmp);
        if (e == NULL) continue;
        seen[e - (x->entries + lo)] = true;
        h->tensors[i].file = file;
        t->tensors[t->count++] = h->tensors[i];
    }
    oc_status s = OC_OK;
    for (size_t i = 0; i < n && s == OC_OK; i++) {
        char name[OC_ST_PRINTABLE];
        if (!seen[i])
            s = oc_fail(err, OC_E_NOTFOUND,
                        "%s: tensor '%s' is missing, though %s says it is there",
                        t->shards[file].path,
                        oc_st_printable(name, x->entries[(size_t)lo + i].name), index_path);
    }
    free(seen);
    free(h->tensors);
    h->tensors = NULL;
    return s;
}

static oc_status load_shards(oc_tensors *t, const oc_st_index *x, const char *index_path,
                             oc_error *err) {
    size_t files = 0;
    for (int32_t i = 0; i < x->count; i++)
        files += i == 0 || strcmp(x->entries[i].file, x->entries[i - 1].file) != 0;
    OC_TRY(reserve(t, files, (size_t)x->count, err));
    const char *slash = strrchr(index_path, '/');
    int dir = slash != NULL ? (int)(slash - index_path) + 1 : 0;
    for (int32_t lo = 0, hi; lo < x->count; lo = hi) {
        for (hi = lo + 1; hi < x->count; hi++)
            if (strcmp(x->entries[hi].file, x->entries[lo].file) != 0) break;
        char *path;
        if (asprintf(&path, "%.*s%s", dir, index_path, x->entries[lo].file) < 0)
            return oc_fail(err, OC_E_MEMORY, "%s: no memory", index_path);
        oc_status s = open_shard(t, path, err);
        free(path);
        if (s == OC_E_NOTFOUND) {
            char file[OC_ST_PRINTABLE], name[OC_ST_PRINTABLE];
            return oc_fail(err, s, "%s: shard '%s' is missing (it holds tensor '%s'%s)", index_path,
                           oc_st_printable(file, x->entries[lo].file),
                           oc_st_printable(name, x->entries[lo].name),
                           hi - lo > 1 ? " and others" : "");
        }
        OC_TRY(s);
        OC_TRY(take(t, x, lo, hi, index_path, err));
    }
    return OC_OK;
}

static oc_status load_index(oc_tensors *t, const char *path, oc_error *err) {
    int fd;
    uint64_t bytes;
    OC_TRY(open_regular(t->io, path, &fd, &bytes, err));
    if (bytes > OC_ST_MAX_HEADER) {
        t->io->close(fd);
        return oc_fail(err, OC_E_FORMAT,
                       "%s: an index of %" PRIu64 " bytes is above the limit of %d", path, bytes,
                       OC_ST_MAX_HEADER);
    }
    char *json = malloc(bytes + 1);
    oc_status s = json == NULL ? oc_fail(err, OC_E_MEMORY, "%s: no memory", path)
                               : oc_st_pread_all(t->io, fd, path, "the index", json, bytes, 0, err);
    t->io->close(fd);
    oc_st_index x = {0};
    char told[700];
    if (s == OC_OK && oc_foreign_bytes(path, json, bytes, told, sizeof told))
        s = oc_fail(err, OC_E_FORMAT, "%s %s", path, told);
    if (s == OC_OK) s = oc_st_index_parse(&x, json, bytes, path, err);
    free(json);
    if (s == OC_OK) s = load_shards(t, &x, path, err);
    oc_st_index_release(&x);
    return s;
}

static bool ends_with(const char *s, const char *tail) {
    size_t n = strlen(s), m = strlen(tail);
    return n >= m && strcmp(s + n - m, tail) == 0;
}

static bool exists(const char *path) {
    struct stat st;
    return stat(path, &st) == 0;
}

static oc_status refuse_dir(const char *dir, oc_error *err) {
    char told[900];
    if (oc_foreign_directory(dir, told, sizeof told))
        return oc_fail(err, OC_E_NOTFOUND, "%s", told);
    return oc_fail(err, OC_E_NOTFOUND,
                   "%s holds neither model.safetensors nor model.safetensors.index.json", dir);
}

static oc_status load_dir(oc_tensors *t, const char *dir, oc_error *err) {
    char *single = NULL, *index = NULL;
    oc_status s;
    if (asprintf(&single, "%s/model.safetensors", dir) < 0) single = NULL;
    if (asprintf(&index, "%s/model.safetensors.index.json", dir) < 0) index = NULL;
    if (single == NULL || index == NULL) {
        s = oc_fail(err, OC_E_MEMORY, "%s: no memory", dir);
    } else if (exists(single)) {
        s = load_single(t, single, err);
    } else if (exists(index)) {
        s = load_index(t, index, err);
    } else {
        s = refuse_dir(dir, err);
    }
    free(single);
    free(index);
    return s;
}

static int by_name_cmp(const void *a, const void *b, void *arg) {
    const oc_tensor_info *t = arg;
    return strcmp(t[*(const int32_t *)a].name, t[*(const int32_t *)b].name);
}

static oc_status finish(oc_tensors *t, const char *path, oc_error *err) {
    size_t n = (size_t)t->count;
    t->by_name = calloc(n + 1, sizeof *t->by_name);
    t->bounce = malloc(BOUNCE_BYTES);
    if (t->by_name == NULL || t->bounce == NULL)
        return oc_fail(err, OC_E_MEMORY, "%s: no memory for a reader of %zu tensors", path, n);
    for (int32_t i = 0; i < t->count; i++)
        t->by_name[i] = i;
    qsort_r(t->by_name, n, sizeof *t->by_name, by_name_cmp, t->tensors);
    return OC_OK;
}

oc_status oc_tensors_open_io(oc_tensors **out, const char *path, const oc_st_io *io,
                             oc_error *err) {
    *out = NULL;
    struct stat st;
    if (stat(path, &st) != 0)
        return oc_fail_errno(err, errno == ENOENT ? OC_E_NOTFOUND : OC_E_IO, errno,
                             "cannot open %s", path);
    oc_tensors *t = calloc(1, sizeof *t);
    if (t == NULL) return oc_fail(err, OC_E_MEMORY, "%s: no memory for a reader", path);
    t->io = io;
    oc_status s = S_ISDIR(st.st_mode)        ? load_dir(t, path, err)
                  : ends_with(path, ".json") ? load_index(t, path, err)
                                             : load_single(t, path, err);
    if (s == OC_OK) s = finish(t, path, err);
    if (s != OC_OK) {
        oc_tensors_close(t);
        return s;
    }
    *out = t;
    return OC_OK;
}

oc_status oc_tensors_open(oc_tensors **out, const char *path, oc_error *err) {
    return oc_tensors_open_io(out, path, &oc_st_io_posix, err);
}

void oc_tensors_close(oc_tensors *t) {
    if (t == NULL) return;
    for (int32_t i = 0; i < t->shard_count; i++) {
        shard *s = &t->shards[i];
        if (s->fd >= 0) t->io->close(s->fd);
        oc_st_header_release(&s->header);
        free(s->path);
    }
    free(t->shards);
    free(t->tensors);
    free(t->by_name);
    free(t->bounce);
    free(t);
}

int32_t oc_tensors_count(const oc_tensors *t) { return t->count; }

const oc_tensor_info *oc_tensors_at(const oc_tensors *t, int32_t i) {
    return i >= 0 && i < t->count ? &t->tensors[i] : NULL;
}

const oc_tensor_info *oc_tensors_find(const oc_tensors *t, const char *name) {
    int32_t lo = 0, hi = t->count;
    while (lo < hi) {
        int32_t mid = lo + (hi - lo) / 2;
        const oc_tensor_info *x = &t->tensors[t->by_name[mid]];
        int c = strcmp(name, x->name);
        if (c == 0) return x;
        if (c < 0) {
            hi = mid;
        } else {
            lo = mid + 1;
        }
    }
    return NULL;
}

int32_t oc_tensors_file_count(const oc_tensors *t) { return t->shard_count; }

const char *oc_tensors_file(const oc_tensors *t, int32_t i) {
    return i >= 0 && i < t->shard_count ? t->shards[i].path : NULL;
}

const char *oc_tensors_metadata(const oc_tensors *t, int32_t file, const char *key) {
    if (file < 0 || file >= t->shard_count) return NULL;
    const oc_st_header *h = &t->shards[file].header;
    for (int32_t i = 0; i < h->metadata_count; i++)
        if (strcmp(h->metadata[2 * i], key) == 0) return h->metadata[2 * i + 1];
    return NULL;
}

static oc_status read_range(oc_tensors *t, const oc_tensor_info *x, uint64_t first_byte, uint64_t n,
                            void *dst, oc_error *err) {
    const shard *s = &t->shards[x->file];
    char name[OC_ST_PRINTABLE], what[OC_ST_PRINTABLE + 16];
    snprintf(what, sizeof what, "tensor '%s'", oc_st_printable(name, x->name));
    return oc_st_pread_all(t->io, s->fd, s->path, what, dst, n, x->offset + first_byte, err);
}

static oc_status check_range(const oc_tensors *t, const oc_tensor_info *x, uint64_t first,
                             uint64_t n, uint64_t size, const char *unit, oc_error *err) {
    char name[OC_ST_PRINTABLE];
    if (first <= size && n <= size - first) return OC_OK;
    return oc_fail(err, OC_E_INVALID,
                   "%s: tensor '%s' has %" PRIu64 " %s; [%" PRIu64 ", +%" PRIu64 ") was asked for",
                   t->shards[x->file].path, oc_st_printable(name, x->name), size, unit, first, n);
}

oc_status oc_tensors_read_raw(oc_tensors *t, const oc_tensor_info *x, uint64_t first, uint64_t n,
                              void *dst, oc_error *err) {
    OC_TRY(check_range(t, x, first, n, x->bytes, "bytes", err));
    return read_range(t, x, first, n, dst, err);
}

oc_status oc_tensors_read(oc_tensors *t, const oc_tensor_info *x, uint64_t first, uint64_t n,
                          oc_dtype dtype, void *dst, oc_error *err) {
    oc_dtype from;
    char name[OC_ST_PRINTABLE];
    if (!oc_file_dtype_compute(x->dtype, &from))
        return oc_fail(err, OC_E_UNSUPPORTED,
                       "%s: tensor '%s' is %s; only F32, BF16 and F16 can be read as weights",
                       t->shards[x->file].path, oc_st_printable(name, x->name),
                       oc_file_dtype_name(x->dtype));
    OC_TRY(check_range(t, x, first, n, x->elements, "elements", err));
    uint64_t width = oc_dtype_bytes(from);
    if (from == dtype) return read_range(t, x, first * width, n * width, dst, err);
    char *to = dst;
    while (n > 0) {
        uint64_t k = oc_min_u64(n, BOUNCE_BYTES / width);
        OC_TRY(read_range(t, x, first * width, k * width, t->bounce, err));
        oc_convert(to, dtype, t->bounce, from, k);
        to += k * oc_dtype_bytes(dtype);
        first += k;
        n -= k;
    }
    return OC_OK;
}
