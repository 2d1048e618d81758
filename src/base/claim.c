/* claim.c - see claim.h. */
#include "base/claim.h"

#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TRIES = 16 };

static bool is_standard_stream(const struct stat *st) {
    struct stat stream;
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++)
        if (fstat(fd, &stream) == 0 && stream.st_dev == st->st_dev && stream.st_ino == st->st_ino)
            return true;
    return false;
}

/* A link that leads nowhere yet counts as absent. O_NONBLOCK: what became a FIFO is not waited
 * for. */
static int open_or_make(const char *path, oc_claim_use use, bool *made) {
    int flags = O_CREAT | O_NONBLOCK | O_CLOEXEC | (use == OC_CLAIM_WRITE ? O_WRONLY : O_RDWR);
    int fd = open(path, flags | O_EXCL, 0666);
    *made = fd >= 0;
    if (fd >= 0 || errno != EEXIST) return fd;
    *made = access(path, F_OK) != 0;
    return open(path, flags, 0666);
}

/* Whether path still is the file: another run may have removed what it had made. */
static bool is_at(const char *path, int fd) {
    struct stat a, b;
    return fstat(fd, &a) == 0 && stat(path, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

static oc_status lock(int fd, const char *option, const char *path, oc_error *err) {
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) return OC_OK;
    if (errno == EWOULDBLOCK)
        return oc_fail(err, OC_E_EXISTS,
                       "--%s %s: another run writes this file now; wait for its end, or give "
                       "another file",
                       option, path);
    oc_log(OC_LOG_WARN,
           "%s is on a file system without locks: see to it that no other run writes it meanwhile",
           path);
    return OC_OK;
}

/* Once: *again when the file went meanwhile. */
static oc_status try_take(oc_claim *out, bool *again, const char *option, const char *path,
                          oc_claim_use use, oc_error *err) {
    struct stat st;
    bool made = false;
    int fd = open_or_make(path, use, &made);
    *again = false;
    if (fd < 0)
        return oc_fail_errno(err, OC_E_IO, errno, "--%s %s cannot be written", option, path);
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || is_standard_stream(&st)) {
        (void)close(fd); /* nobody's own */
        return OC_OK;
    }
    oc_status s = lock(fd, option, path, err);
    *again = s == OC_OK && !is_at(path, fd);
    if (s != OC_OK || *again) {
        (void)close(fd);
        return s;
    }
    out->fd = fd;
    out->made = made ? realpath(path, NULL) : NULL;
    if (!made || out->made) return OC_OK;
    (void)unlink(path);
    return oc_fail(err, OC_E_MEMORY, "no memory for --%s %s", option, path);
}

oc_status oc_claim_take(oc_claim *out, const char *option, const char *path, oc_claim_use use,
                        oc_error *err) {
    bool again = true;
    for (int i = 0; i < TRIES && again; i++)
        OC_TRY(try_take(out, &again, option, path, use, err));
    if (!again) return OC_OK;
    return oc_fail(err, OC_E_AGAIN, "--%s %s is removed again and again", option, path);
}

void oc_claim_release(oc_claim *c, bool keep) {
    if (c->made && !keep && is_at(c->made, c->fd)) (void)unlink(c->made);
    if (c->fd >= 0) (void)close(c->fd);
    free(c->made);
    *c = (oc_claim){-1, NULL};
}
