/* output.c - see output.h. */
#include "train/output.h"

#include "base/fs.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TRIES = 16 };

/* From dir upwards, as long as a path is of `least` bytes; stops at the first that is not empty. */
static void remove_made(const char *dir, size_t least) {
    char *part = strdup(dir);
    while (part && strlen(part) >= least) {
        if (rmdir(part) != 0 && errno != ENOENT) break;
        char *slash = strrchr(part, '/');
        if (!slash) break;
        *slash = 0;
    }
    free(part);
}

/* The lock is on the directory itself, so nothing has to be left behind or removed. */
static oc_status lock(const oc_output *o, oc_error *err) {
    if (flock(o->fd, LOCK_EX | LOCK_NB) == 0) return OC_OK;
    if (errno == EWOULDBLOCK)
        return oc_fail(err, OC_E_EXISTS,
                       "--output %s: another run uses this directory now; wait for its end, or "
                       "give another --output",
                       o->dir);
    oc_log(OC_LOG_WARN,
           "%s is on a file system without locks: see to it that no other run uses it meanwhile",
           o->dir);
    return OC_OK;
}

/* Whether dir still is what is locked: a lock on a directory that is gone is none. */
static bool is_there(const oc_output *o) {
    struct stat a, b;
    return fstat(o->fd, &a) == 0 && stat(o->dir, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

static void remember_made(oc_output *o, size_t topmost) {
    if (topmost > 0 && (o->made == 0 || topmost < o->made)) o->made = topmost;
}

/* What was made is removed by the run that has the lock, or that made it in vain; another's, never.
 */
static oc_status take(oc_output *o, oc_error *err) {
    size_t topmost = 0;
    oc_status st = oc_fs_make_path(o->dir, &topmost, err);
    remember_made(o, topmost);
    if (st != OC_OK) return oc_error_prefix(err, st, "--output %s", o->dir);
    o->fd = open(o->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (o->fd < 0)
        return oc_fail_errno(err, OC_E_IO, errno, "--output %s cannot be opened", o->dir);
    st = lock(o, err);
    if (st != OC_OK) o->made = 0;
    return st;
}

oc_status oc_output_open(oc_output *out, const char *dir, oc_error *err) {
    oc_output o = {.dir = strdup(dir), .fd = -1};
    if (!o.dir) return oc_fail(err, OC_E_MEMORY, "no memory for --output %s", dir);
    oc_status st = OC_E_AGAIN;
    for (int i = 0; i < TRIES && st == OC_E_AGAIN; i++) {
        if (o.fd >= 0) (void)close(o.fd);
        o.fd = -1;
        st = take(&o, err);
        if (st == OC_OK && !is_there(&o))
            st = oc_fail(err, OC_E_AGAIN, "--output %s is removed again and again", dir);
    }
    if (st != OC_OK)
        oc_output_close(&o, false);
    else
        *out = o;
    return st;
}

void oc_output_close(oc_output *o, bool keep) {
    if (!o) return;
    if (o->made > 0 && !keep && (o->fd < 0 || is_there(o))) remove_made(o->dir, o->made);
    if (o->fd >= 0) (void)close(o->fd);
    free(o->dir);
    *o = (oc_output){.fd = -1};
}
