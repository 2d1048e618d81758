#include "data/stream.h"

#include "tensor/foreign.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

enum { INPUT_BYTES = 128 * 1024, GZIP_WINDOW = 15 + 16 /* gzip members only */ };

typedef enum stream_kind { PLAIN, GZIP, ZSTD } stream_kind;

struct oc_stream {
    int fd;
    bool owned;       /* fd is closed with the stream */
    const char *name; /* borrowed */
    stream_kind kind;
    bool at_end;       /* the file gives no more */
    bool whole;        /* no member or frame is open */
    bool padded;       /* gzip: only zeros may follow */
    size_t begin, end; /* of input: read and not yet consumed */
    z_stream gzip;
    ZSTD_DStream *zstd;
    unsigned char input[INPUT_BYTES];
};

/* Some bytes behind [begin, end); at_end when there are none. */
static oc_status fill(oc_stream *s, oc_error *err) {
    if (s->begin > 0) {
        memmove(s->input, s->input + s->begin, s->end - s->begin);
        s->end -= s->begin;
        s->begin = 0;
    }
    for (;;) {
        ssize_t got = read(s->fd, s->input + s->end, INPUT_BYTES - s->end);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return oc_fail_errno(err, OC_E_IO, errno, "cannot read %s", s->name);
        s->at_end = got == 0;
        s->end += (size_t)got;
        return OC_OK;
    }
}

static stream_kind kind_of(const unsigned char *p, size_t n) {
    static const unsigned char gzip[] = {0x1f, 0x8b}, zstd[] = {0x28, 0xb5, 0x2f, 0xfd};
    static const unsigned char skippable[] = {0x2a, 0x4d, 0x18};
    if (n >= 2 && memcmp(p, gzip, 2) == 0) return GZIP;
    if (n >= 4 && memcmp(p, zstd, 4) == 0) return ZSTD;
    if (n >= 4 && (p[0] & 0xf0) == 0x50 && memcmp(p + 1, skippable, 3) == 0) return ZSTD;
    return PLAIN;
}

static bool ends_with(const char *s, const char *tail) {
    size_t n = strlen(s), m = strlen(tail);
    return n > m && strcmp(s + n - m, tail) == 0;
}

/* Else a model would learn the pointer. */
static oc_status check_pointer(const oc_stream *s, oc_error *err) {
    char told[700];
    if (!oc_foreign_pointer(s->name, s->input, s->end, told, sizeof told)) return OC_OK;
    return oc_fail(err, OC_E_FORMAT, "%s %s", s->name, told);
}

/* A damaged .txt.gz must not become a document of noise. */
static oc_status check_name(const oc_stream *s, oc_error *err) {
    if (s->kind == PLAIN && ends_with(s->name, ".gz"))
        return oc_fail(err, OC_E_FORMAT, "%s is not gzip, as its name says: it does not begin so",
                       s->name);
    if (s->kind == PLAIN && (ends_with(s->name, ".zst") || ends_with(s->name, ".zstd")))
        return oc_fail(err, OC_E_FORMAT, "%s is not zstd, as its name says: it does not begin so",
                       s->name);
    return OC_OK;
}

static oc_status start(oc_stream *s, oc_error *err) {
    while (s->end < 4 && !s->at_end)
        OC_TRY(fill(s, err));
    s->kind = kind_of(s->input, s->end);
    s->whole = true;
    OC_TRY(check_pointer(s, err));
    if (s->owned) OC_TRY(check_name(s, err));
    if (s->kind == GZIP && inflateInit2(&s->gzip, GZIP_WINDOW) != Z_OK)
        return oc_fail(err, OC_E_MEMORY, "%s: no memory to decompress it", s->name);
    if (s->kind == ZSTD && (s->zstd = ZSTD_createDStream()) == NULL)
        return oc_fail(err, OC_E_MEMORY, "%s: no memory to decompress it", s->name);
    return OC_OK;
}

static oc_status open_stream(oc_stream **out, int fd, bool owned, const char *name, oc_error *err) {
    oc_stream *s = calloc(1, sizeof *s);
    if (s == NULL) {
        if (owned) close(fd);
        return oc_fail(err, OC_E_MEMORY, "%s: no memory to read it", name);
    }
    s->fd = fd;
    s->owned = owned;
    s->name = name;
    oc_status st = start(s, err);
    if (st != OC_OK) {
        oc_stream_close(s);
        return st;
    }
    *out = s;
    return OC_OK;
}

oc_status oc_stream_open_fd(oc_stream **out, int fd, const char *name, oc_error *err) {
    *out = NULL;
    return open_stream(out, fd, false, name, err);
}

oc_status oc_stream_open(oc_stream **out, const char *path, oc_error *err) {
    *out = NULL;
    /* O_NONBLOCK: a fifo must be refused, not waited for. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    if (fd < 0)
        return oc_fail_errno(err, errno == ENOENT ? OC_E_NOTFOUND : OC_E_IO, errno,
                             "cannot open %s", path);
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        return oc_fail(err, OC_E_INVALID, "%s is not a regular file", path);
    }
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    return open_stream(out, fd, true, path, err);
}

void oc_stream_close(oc_stream *s) {
    if (s == NULL) return;
    if (s->kind == GZIP) (void)inflateEnd(&s->gzip);
    (void)ZSTD_freeDStream(s->zstd);
    if (s->owned) close(s->fd);
    free(s);
}

/* ---- reading: each makes *got bytes, or none while it needs more input ---- */

static void take_plain(oc_stream *s, void *dst, size_t n, size_t *got) {
    *got = s->end - s->begin < n ? s->end - s->begin : n;
    memcpy(dst, s->input + s->begin, *got);
    s->begin += *got;
}

static oc_status damaged(const oc_stream *s, const char *what, oc_error *err) {
    return oc_fail(err, OC_E_FORMAT, "%s: the %s data is damaged (%s)", s->name,
                   s->kind == GZIP ? "gzip" : "zstd", what);
}

/* Between members: another one, zeros to the end, or damage. Says by `whole` whether one begins. */
static oc_status next_member(oc_stream *s, oc_error *err) {
    const unsigned char *p = s->input + s->begin;
    size_t n = s->end - s->begin;
    if (!s->padded && p[0] != 0) {
        if (n < 2 && !s->at_end) return OC_OK;
        if (kind_of(p, n) != GZIP)
            return damaged(s, "something else follows the end of a member", err);
        if (inflateReset(&s->gzip) != Z_OK) return damaged(s, "it cannot go on", err);
        s->whole = false;
        return OC_OK;
    }
    s->padded = true;
    for (size_t i = 0; i < n; i++)
        if (p[i] != 0) return damaged(s, "something else follows the end of a member", err);
    s->begin = s->end;
    return OC_OK;
}

static oc_status take_gzip(oc_stream *s, void *dst, size_t n, size_t *got, oc_error *err) {
    *got = 0;
    if (s->whole && s->begin == s->end) return OC_OK; /* else output may wait inside zlib */
    if (s->whole) {
        OC_TRY(next_member(s, err));
        if (s->whole) return OC_OK;
    }
    uInt room = n < (1u << 30) ? (uInt)n : 1u << 30;
    s->gzip.next_in = s->input + s->begin;
    s->gzip.avail_in = (uInt)(s->end - s->begin);
    s->gzip.next_out = dst;
    s->gzip.avail_out = room;
    int r = inflate(&s->gzip, Z_NO_FLUSH);
    if (r == Z_MEM_ERROR)
        return oc_fail(err, OC_E_MEMORY, "%s: no memory to decompress it", s->name);
    if (r != Z_OK && r != Z_STREAM_END && r != Z_BUF_ERROR)
        return damaged(s, s->gzip.msg != NULL ? s->gzip.msg : "it cannot go on", err);
    s->whole = r == Z_STREAM_END;
    s->begin = s->end - s->gzip.avail_in;
    *got = room - s->gzip.avail_out;
    return OC_OK;
}

static oc_status take_zstd(oc_stream *s, void *dst, size_t n, size_t *got, oc_error *err) {
    ZSTD_inBuffer in = {s->input, s->end, s->begin};
    ZSTD_outBuffer out = {dst, n, 0};
    *got = 0;
    if (s->whole && s->begin == s->end) return OC_OK;
    size_t r = ZSTD_decompressStream(s->zstd, &out, &in);
    if (ZSTD_isError(r)) return damaged(s, ZSTD_getErrorName(r), err);
    s->whole = r == 0;
    s->begin = in.pos;
    *got = out.pos;
    return OC_OK;
}

static oc_status take(oc_stream *s, void *dst, size_t n, size_t *got, oc_error *err) {
    if (s->kind == GZIP) return take_gzip(s, dst, n, got, err);
    if (s->kind == ZSTD) return take_zstd(s, dst, n, got, err);
    take_plain(s, dst, n, got);
    return OC_OK;
}

oc_status oc_stream_read(oc_stream *s, void *dst, size_t n, size_t *got, oc_error *err) {
    for (;;) {
        size_t before = s->begin;
        OC_TRY(take(s, dst, n, got, err));
        if (*got > 0) return OC_OK;
        if (s->begin != before && s->begin < s->end) continue;
        if (s->at_end && s->begin == s->end && s->whole) return OC_OK;
        if (s->at_end && s->begin == before)
            return oc_fail(err, OC_E_FORMAT, "%s breaks off: the end of the %s data is missing",
                           s->name, s->kind == GZIP ? "gzip" : "zstd");
        OC_TRY(fill(s, err));
    }
}
