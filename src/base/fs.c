/* fs.c - see fs.h. */
#include "base/fs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { TREE_DEPTH = 32, COPY_BYTES = 32 << 10 };

bool oc_fs_exists(const char *path) {
    struct stat st;
    return lstat(path, &st) == 0;
}

bool oc_fs_is_directory(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

oc_status oc_fs_free_bytes(const char *path, uint64_t *out, oc_error *err) {
    struct statvfs st;
    if (statvfs(path, &st))
        return oc_fail_errno(err, errno == ENOENT ? OC_E_NOTFOUND : OC_E_IO, errno,
                             "%s: cannot tell the free space of its file system", path);
    uint64_t free_bytes;
    if (__builtin_mul_overflow((uint64_t)st.f_bavail, (uint64_t)st.f_frsize, &free_bytes))
        free_bytes = UINT64_MAX;
    *out = free_bytes;
    return OC_OK;
}

/* Reads to the end of the file rather than trusting its size, which is 0 for /proc and pipes. */
static oc_status read_all(int fd, const char *path, size_t most, char **out, size_t *bytes,
                          oc_error *err) {
    char *data = NULL;
    size_t used = 0, capacity = 0;
    oc_status s = OC_OK;
    for (;;) {
        if (used == capacity) {
            capacity = capacity ? capacity * 2 : 16384;
            char *larger = realloc(data, capacity + 1);
            if (!larger) {
                s = oc_fail(err, OC_E_MEMORY, "%s: no memory to read it", path);
                break;
            }
            data = larger;
        }
        ssize_t n = read(fd, data + used, capacity - used);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            s = oc_fail_errno(err, OC_E_IO, errno, "%s: cannot be read", path);
            break;
        }
        if (n == 0) break;
        used += (size_t)n;
        if (used > most) {
            s = oc_fail(err, OC_E_FORMAT, "%s: is longer than the %zu bytes such a file may have",
                        path, most);
            break;
        }
    }
    if (s != OC_OK) {
        free(data);
        return s;
    }
    char *exact = realloc(data, used + 1); /* a file that is kept takes what it needs */
    if (exact) data = exact;
    data[used] = '\0';
    *out = data;
    *bytes = used;
    return OC_OK;
}

oc_status oc_fs_read(char **out, size_t *bytes, const char *path, size_t most, oc_error *err) {
    *out = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return oc_fail_errno(err, errno == ENOENT ? OC_E_NOTFOUND : OC_E_IO, errno,
                             "%s: cannot be opened", path);
    oc_status s = read_all(fd, path, most, out, bytes, err);
    close(fd);
    return s;
}

static oc_status copy_path(char *dst, const char *path, const char *suffix, oc_error *err) {
    int n = snprintf(dst, PATH_MAX, "%s%s", path, suffix);
    if (n < 0 || n >= PATH_MAX)
        return oc_fail(err, OC_E_INVALID, "%s%s: the path is too long", path, suffix);
    return OC_OK;
}

static oc_status make_directory(const char *path, oc_error *err) {
    if (mkdir(path, 0777) == 0) return OC_OK;
    int e = errno;
    if (oc_fs_is_directory(path)) return OC_OK;
    return oc_fail_errno(err, e == EEXIST ? OC_E_EXISTS : OC_E_IO, e,
                         "%s: the directory cannot be made", path);
}

oc_status oc_fs_make_directories(const char *path, oc_error *err) {
    char part[PATH_MAX];
    OC_TRY(copy_path(part, path, "", err));
    for (char *p = part + 1; part[0] && *p; p++) {
        if (*p != '/' || p[-1] == '/') continue;
        *p = '\0';
        OC_TRY(make_directory(part, err));
        *p = '/';
    }
    return make_directory(part, err);
}

oc_status oc_fs_sync_directory(const char *path, oc_error *err) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return oc_fail_errno(err, OC_E_IO, errno, "%s: cannot be opened", path);
    int e = fsync(fd) ? errno : 0;
    close(fd);
    /* Some network file systems cannot sync a directory, and need not. */
    if (e && e != EINVAL && e != ENOTSUP)
        return oc_fail_errno(err, OC_E_IO, e, "%s: the directory cannot be synced", path);
    return OC_OK;
}

static oc_status sync_parent(const char *path, oc_error *err) {
    char parent[PATH_MAX];
    OC_TRY(copy_path(parent, path, "", err));
    size_t n = strlen(parent);
    while (n > 1 && parent[n - 1] == '/')
        parent[--n] = '\0';
    char *slash = strrchr(parent, '/');
    if (!slash) return oc_fs_sync_directory(".", err);
    slash[slash == parent] = '\0';
    return oc_fs_sync_directory(parent, err);
}

static int write_all(int fd, const char *data, size_t bytes) {
    while (bytes > 0) {
        ssize_t n = write(fd, data, bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return n < 0 ? errno : ENOSPC;
        data += n;
        bytes -= (size_t)n;
    }
    return 0;
}

/* What a new file is to hold: the bytes, or those of another file. */
typedef struct content {
    const void *data;
    size_t bytes;
    const char *from; /* NULL: data */
    int fd;           /* of `from`, open */
} content;

static oc_status copy_all(int fd, const char *path, const content *c, oc_error *err) {
    char part[COPY_BYTES];
    for (;;) {
        ssize_t n = read(c->fd, part, sizeof part);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return oc_fail_errno(err, OC_E_IO, errno, "%s: cannot be read", c->from);
        if (n == 0) return OC_OK;
        int e = write_all(fd, part, (size_t)n);
        if (e) return oc_fail_errno(err, OC_E_IO, e, "%s: cannot be written", path);
    }
}

static oc_status fill(int fd, const char *path, const content *c, oc_error *err) {
    if (c->from) return copy_all(fd, path, c, err);
    int e = write_all(fd, c->data, c->bytes);
    return e ? oc_fail_errno(err, OC_E_IO, e, "%s: cannot be written", path) : OC_OK;
}

static oc_status write_synced(const char *path, const content *c, oc_error *err) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) return oc_fail_errno(err, OC_E_IO, errno, "%s: cannot be created", path);
    oc_status s = fill(fd, path, c, err);
    int e = s == OC_OK && fsync(fd) ? errno : 0;
    if (close(fd) && !e) e = errno;
    if (s == OC_OK && e) s = oc_fail_errno(err, OC_E_IO, e, "%s: cannot be written", path);
    if (s != OC_OK) unlink(path);
    return s;
}

oc_status oc_fs_rename(const char *from, const char *to, oc_error *err) {
    if (rename(from, to)) {
        int e = errno;
        return oc_fail_errno(err, e == ENOTEMPTY || e == EEXIST ? OC_E_EXISTS : OC_E_IO, e,
                             "%s: cannot be renamed to %s", from, to);
    }
    return sync_parent(to, err);
}

static oc_status put_atomic(const char *path, const content *c, oc_error *err) {
    char temporary[PATH_MAX];
    OC_TRY(copy_path(temporary, path, OC_FS_TEMPORARY, err));
    OC_TRY(write_synced(temporary, c, err));
    oc_status s = oc_fs_rename(temporary, path, err);
    if (s != OC_OK) unlink(temporary);
    return s;
}

oc_status oc_fs_write_atomic(const char *path, const void *data, size_t bytes, oc_error *err) {
    return put_atomic(path, &(content){.data = data, .bytes = bytes}, err);
}

oc_status oc_fs_copy_atomic(const char *path, const char *from, oc_error *err) {
    int fd = open(from, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return oc_fail_errno(err, errno == ENOENT ? OC_E_NOTFOUND : OC_E_IO, errno,
                             "%s: cannot be opened", from);
    oc_status s = put_atomic(path, &(content){.from = from, .fd = fd}, err);
    close(fd);
    return s;
}

static int remove_tree(int parent, const char *name, int depth);

static int remove_entries(int fd, int depth) {
    DIR *d = fdopendir(fd);
    if (!d) {
        int e = errno;
        close(fd);
        return e;
    }
    int e = 0;
    while (!e) {
        errno = 0;
        const struct dirent *entry = readdir(d);
        if (!entry) {
            e = errno;
            break;
        }
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        e = remove_tree(dirfd(d), entry->d_name, depth);
    }
    closedir(d);
    return e;
}

/* By descriptors, so that a link swapped in meanwhile is never followed. */
static int remove_tree(int parent, const char *name, int depth) {
    if (unlinkat(parent, name, 0) == 0 || errno == ENOENT) return 0;
    if (errno != EISDIR && errno != EPERM) return errno;
    if (depth >= TREE_DEPTH) return ELOOP;
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return errno;
    int e = remove_entries(fd, depth + 1);
    if (e) return e;
    return unlinkat(parent, name, AT_REMOVEDIR) ? errno : 0;
}

oc_status oc_fs_remove_temporary(const char *path, oc_error *err) {
    char name[PATH_MAX];
    OC_TRY(copy_path(name, path, "", err));
    size_t n = strlen(name), suffix = strlen(OC_FS_TEMPORARY);
    while (n > 1 && name[n - 1] == '/')
        name[--n] = '\0';
    if (n <= suffix || strcmp(name + n - suffix, OC_FS_TEMPORARY) != 0 ||
        name[n - suffix - 1] == '/')
        return oc_fail(err, OC_E_INVALID, "%s: is not removed, as its name does not end in %s",
                       path, OC_FS_TEMPORARY);
    int e = remove_tree(AT_FDCWD, name, 0);
    if (e) return oc_fail_errno(err, OC_E_IO, e, "%s: cannot be removed", path);
    return OC_OK;
}
