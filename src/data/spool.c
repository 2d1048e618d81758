#include "base/checked.h"
#include "base/fs.h"
#include "data/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BUFFER_BYTES = 256 * 1024 };

static uint64_t record_bytes(const oc_spool *s) { return 12 * (uint64_t)s->seq; }

static int open_unlinked(const char *dir) {
    int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return fd;
    /* A file system without O_TMPFILE. */
    char *path;
    if (asprintf(&path, "%s/outcore-spool-XXXXXX", dir) < 0) {
        errno = ENOMEM;
        return -1;
    }
    fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0) unlink(path);
    free(path);
    return fd;
}

const char *oc_spool_dir(const char *dir) {
    if (dir == NULL) dir = getenv("TMPDIR");
    return dir == NULL || dir[0] == 0 ? "/tmp" : dir;
}

oc_status oc_spool_open(oc_spool *s, const char *dir, int64_t seq, oc_error *err) {
    dir = oc_spool_dir(dir);
    *s = (oc_spool){.fd = -1, .seq = seq};
    s->capacity = oc_max_u64(1, BUFFER_BYTES / record_bytes(s));
    s->buffer = malloc(s->capacity * record_bytes(s));
    s->dir = strdup(dir);
    if (s->buffer == NULL || s->dir == NULL)
        return oc_fail(err, OC_E_MEMORY, "no memory for data set sequences of %" PRId64 " tokens",
                       seq);
    s->fd = open_unlinked(dir);
    if (s->fd < 0)
        return oc_fail_errno(err, OC_E_IO, errno,
                             "cannot create the data set's spool file in %s; set TMPDIR", dir);
    return OC_OK;
}

int32_t *oc_spool_next(oc_spool *s) { return s->buffer + s->used * 3 * (uint64_t)s->seq; }

static oc_status flush(oc_spool *s, oc_error *err) {
    const char *p = (const char *)s->buffer;
    uint64_t n = s->used * record_bytes(s);
    while (n > 0) {
        ssize_t put = write(s->fd, p, (size_t)oc_min_u64(n, OC_FS_WINDOW));
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0)
            return oc_fail_errno(err, OC_E_IO, put == 0 ? EIO : errno,
                                 "cannot write the data set's spool file in %s (%" PRIu64
                                 " sequences of %" PRIu64 " bytes so far); set TMPDIR to a roomier "
                                 "directory",
                                 s->dir, s->written, record_bytes(s));
        oc_fs_hand_over(s->fd, (uint64_t)put);
        p += put;
        n -= (uint64_t)put;
    }
    s->written += s->used;
    s->used = 0;
    return OC_OK;
}

oc_status oc_spool_push(oc_spool *s, oc_error *err) {
    s->used++;
    return s->used < s->capacity ? OC_OK : flush(s, err);
}

oc_status oc_spool_seal(oc_spool *s, oc_error *err) {
    OC_TRY(flush(s, err));
    free(s->buffer);
    s->buffer = NULL;
    return OC_OK;
}

oc_status oc_spool_read(const oc_spool *s, uint64_t record, int part, int32_t *out, oc_error *err) {
    char *p = (char *)out;
    uint64_t n = 4 * (uint64_t)s->seq;
    uint64_t at = record * record_bytes(s) + (uint64_t)part * n;
    while (n > 0) {
        ssize_t got = pread(s->fd, p, (size_t)oc_min_u64(n, 1u << 30), (off_t)at);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0)
            return oc_fail_errno(err, OC_E_IO, got == 0 ? EIO : errno,
                                 "cannot read sequence %" PRIu64
                                 " from the data set's spool file in %s",
                                 record, s->dir);
        p += got;
        n -= (uint64_t)got;
        at += (uint64_t)got;
    }
    return OC_OK;
}

void oc_spool_close(oc_spool *s) {
    if (s->fd >= 0) close(s->fd);
    free(s->buffer);
    free(s->dir);
    *s = (oc_spool){.fd = -1};
}
