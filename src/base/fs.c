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

enum { TREE_DEPTH = 32 };

bool oc_fs_exists(const char *path) {
    struct stat st;
    return lstat(path, &st) == 0;
}

bool oc_fs_is_directory(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool oc_fs_identify(const char *path, oc_fs_id *out) {
    struct stat st;
    if (stat(path, &st) != 0) return false;
    *out = (oc_fs_id){(uint64_t)st.st_dev, (uint64_t)st.st_ino};
    return true;
}

bool oc_fs_same(oc_fs_id a, oc_fs_id b) { return a.device == b.device && a.inode == b.inode; }

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

oc_status oc_fs_list(const char *dir, oc_fs_visit *visit, void *arg, oc_error *err) {
    DIR *d = opendir(dir);
    if (!d) return oc_fail_errno(err, OC_E_IO, errno, "%s cannot be listed", dir);
    oc_status s = OC_OK;
    while (s == OC_OK) {
        errno = 0;
        const struct dirent *e = readdir(d);
        if (!e && errno) s = oc_fail_errno(err, OC_E_IO, errno, "%s cannot be listed", dir);
        if (!e) break;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        s = visit(arg, e->d_name, err);
    }
    closedir(d);
    return s;
}

/* Reads to the end of the file rather than trusting its size, which is 0 in /proc. */
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

static const char *kind_name(mode_t mode) {
    return S_ISDIR(mode)    ? "a directory"
           : S_ISFIFO(mode) ? "a FIFO"
           : S_ISSOCK(mode) ? "a socket"
                            : "a device";
}

static oc_status check_regular(const char *path, const struct stat *st, oc_error *err) {
    if (S_ISREG(st->st_mode)) return OC_OK;
    return oc_fail(err, OC_E_IO, "%s: a regular file is needed, and this is %s", path,
                   kind_name(st->st_mode));
}

static oc_status cannot_open(const char *path, oc_error *err) {
    return oc_fail_errno(err, errno == ENOENT ? OC_E_NOTFOUND : OC_E_IO, errno,
                         "%s: cannot be opened", path);
}

/* Looked at before it is opened, which may wait or do something, and again after: it may have been
 * replaced. */
oc_status oc_fs_open_read(int *out, const char *path, oc_error *err) {
    struct stat st;
    if (stat(path, &st) != 0) return cannot_open(path, err);
    OC_TRY(check_regular(path, &st, err));
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return cannot_open(path, err);
    oc_status s = fstat(fd, &st) == 0 ? check_regular(path, &st, err) : cannot_open(path, err);
    if (s != OC_OK)
        close(fd);
    else
        *out = fd;
    return s;
}

oc_status oc_fs_read(char **out, size_t *bytes, const char *path, size_t most, oc_error *err) {
    int fd = -1;
    *out = NULL;
    OC_TRY(oc_fs_open_read(&fd, path, err));
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

/* The directory that holds path's own name. */
static oc_status parent_of(char *parent, const char *path, oc_error *err) {
    OC_TRY(copy_path(parent, path, "", err));
    size_t n = strlen(parent);
    while (n > 1 && parent[n - 1] == '/')
        parent[--n] = '\0';
    char *slash = strrchr(parent, '/');
    if (!slash) return copy_path(parent, ".", "", err);
    slash[slash == parent] = '\0';
    return OC_OK;
}

static oc_status sync_parent(const char *path, oc_error *err) {
    char parent[PATH_MAX];
    OC_TRY(parent_of(parent, path, err));
    return oc_fs_sync_directory(parent, err);
}

static bool access_parent(const char *path) {
    char parent[PATH_MAX];
    return parent_of(parent, path, NULL) == OC_OK && access(parent, R_OK) == 0;
}

/* *made: it was not there. A new name is only safe once the directory that holds it is synced; one
 * that may not be read cannot be. */
static oc_status make_directory(const char *path, bool *made, oc_error *err) {
    *made = mkdir(path, 0777) == 0;
    int e = errno;
    if (*made) return access_parent(path) ? sync_parent(path, err) : OC_OK;
    if (oc_fs_is_directory(path)) return OC_OK;
    return oc_fail_errno(err, e == EEXIST ? OC_E_EXISTS : OC_E_IO, e,
                         "%s: the directory cannot be made", path);
}

oc_status oc_fs_make_path(const char *path, size_t *topmost, oc_error *err) {
    char part[PATH_MAX];
    bool made;
    *topmost = 0;
    OC_TRY(copy_path(part, path, "", err));
    for (char *p = part + 1; part[0] && *p; p++) {
        if (*p != '/' || p[-1] == '/') continue;
        *p = '\0';
        oc_status s = make_directory(part, &made, err);
        if (made && *topmost == 0) *topmost = (size_t)(p - part);
        OC_TRY(s);
        *p = '/';
    }
    oc_status s = make_directory(part, &made, err);
    if (made && *topmost == 0) *topmost = strlen(part);
    return s;
}

oc_status oc_fs_make_directories(const char *path, oc_error *err) {
    size_t topmost;
    return oc_fs_make_path(path, &topmost, err);
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

static oc_status write_synced(const char *path, const void *data, size_t bytes, oc_error *err) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) return oc_fail_errno(err, OC_E_IO, errno, "%s: cannot be created", path);
    int e = write_all(fd, data, bytes);
    if (!e && fsync(fd)) e = errno;
    if (close(fd) && !e) e = errno;
    if (!e) return OC_OK;
    unlink(path);
    return oc_fail_errno(err, OC_E_IO, e, "%s: cannot be written", path);
}

void oc_fs_hand_over(int fd, uint64_t n) {
    enum {
        ARRIVED = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER
    };
    off_t begin = lseek(fd, 0, SEEK_CUR) - (off_t)n;
    off_t before = begin > OC_FS_WINDOW ? begin - OC_FS_WINDOW : 0;
    if (begin < 0) return;
    (void)sync_file_range(fd, begin, (off_t)n, SYNC_FILE_RANGE_WRITE);
    if (begin > before) (void)sync_file_range(fd, before, begin - before, ARRIVED);
}

oc_status oc_fs_rename(const char *from, const char *to, oc_error *err) {
    if (rename(from, to)) {
        int e = errno;
        return oc_fail_errno(err, e == ENOTEMPTY || e == EEXIST ? OC_E_EXISTS : OC_E_IO, e,
                             "%s: cannot be renamed to %s", from, to);
    }
    return sync_parent(to, err);
}

oc_status oc_fs_write_atomic(const char *path, const void *data, size_t bytes, oc_error *err) {
    char temporary[PATH_MAX];
    OC_TRY(copy_path(temporary, path, OC_FS_TEMPORARY, err));
    OC_TRY(write_synced(temporary, data, bytes, err));
    oc_status s = oc_fs_rename(temporary, path, err);
    if (s != OC_OK) unlink(temporary);
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
