/* packed.h - gzip and zstd made in the test. */
#ifndef OC_TESTS_PACKED_H
#define OC_TESTS_PACKED_H

#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

typedef struct packed {
    unsigned char *data;
    size_t n, room;
} packed;

static inline void packed_add(packed *p, const void *data, size_t n) {
    if (p->n + n > p->room) {
        p->room = 2 * (p->n + n) + 64;
        p->data = realloc(p->data, p->room);
        if (p->data == NULL) abort();
    }
    if (n > 0) memcpy(p->data + p->n, data, n);
    p->n += n;
}

/* One member more. */
static inline void packed_gzip(packed *p, const void *data, size_t n) {
    z_stream z = {0};
    if (deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) abort();
    size_t room = deflateBound(&z, n) + 32;
    unsigned char *out = malloc(room);
    void *in = malloc(n + 1);
    if (out == NULL || in == NULL) abort();
    if (n > 0) memcpy(in, data, n);
    z.next_in = in;
    z.avail_in = (uInt)n;
    z.next_out = out;
    z.avail_out = (uInt)room;
    if (deflate(&z, Z_FINISH) != Z_STREAM_END) abort();
    packed_add(p, out, room - z.avail_out);
    deflateEnd(&z);
    free(in);
    free(out);
}

/* One frame more, with a checksum. */
static inline void packed_zstd(packed *p, const void *data, size_t n) {
    ZSTD_CCtx *c = ZSTD_createCCtx();
    size_t room = ZSTD_compressBound(n);
    unsigned char *out = malloc(room);
    if (c == NULL || out == NULL) abort();
    ZSTD_CCtx_setParameter(c, ZSTD_c_checksumFlag, 1);
    size_t made = ZSTD_compress2(c, out, room, data, n);
    if (ZSTD_isError(made)) abort();
    packed_add(p, out, made);
    ZSTD_freeCCtx(c);
    free(out);
}

static inline void packed_release(packed *p) {
    free(p->data);
    *p = (packed){0};
}

#endif
