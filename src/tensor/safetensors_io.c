#include "tensor/safetensors_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The file format is little-endian and so are the tensors in memory. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "a little-endian machine is needed");

static int open_posix(const char *path, int flags, mode_t mode) { return open(path, flags, mode); }

const oc_st_io oc_st_io_posix = {
    .open = open_posix,
    .pread = pread,
    .write = write,
    .fsync = fsync,
    .close = close,
    .rename = rename,
    .unlink = unlink,
};

const char *oc_st_printable(char buf[OC_ST_PRINTABLE], const char *name) {
    size_t n = 0;
    for (; name[n] != 0 && n < OC_ST_PRINTABLE - 4; n++) {
        unsigned char c = (unsigned char)name[n];
        buf[n] = c < 0x20 || c == 0x7f ? '?' : name[n];
    }
    const char *end = name[n] != 0 ? "..." : "";
    memcpy(buf + n, end, strlen(end) + 1);
    return buf;
}

oc_status oc_st_pread_all(const oc_st_io *io, int fd, const char *path, const char *what, void *dst,
                          uint64_t n, uint64_t offset, oc_error *err) {
    char *p = dst;
    /* One read(2) moves at most 0x7ffff000 bytes. */
    const uint64_t most = 1u << 30;
    while (n > 0) {
        ssize_t got = io->pread(fd, p, (size_t)(n < most ? n : most), (off_t)offset);
        if (got < 0) {
            if (errno == EINTR) continue;
            return oc_fail_errno(err, OC_E_IO, errno,
                                 "%s: cannot read %s (%" PRIu64 " bytes at byte %" PRIu64 ")", path,
                                 what, n, offset);
        }
        if (got == 0)
            return oc_fail(err, OC_E_IO,
                           "%s: ends at byte %" PRIu64 " while reading %s, %" PRIu64
                           " bytes short: it shrank since it was opened",
                           path, offset, what, n);
        p += got;
        n -= (uint64_t)got;
        offset += (uint64_t)got;
    }
    return OC_OK;
}
