/* How a commit keeps a reader from ever seeing half a model.
 *
 * A reader looks for model.safetensors, then for the index. One file: its rename is the switch.
 * Shards: they appear first, unseen; the index is renamed last, and an older model.safetensors,
 * which would win over it, goes after that. Only when an older sharded model has the same file
 * names would the old index point at a mix of old and new shards: then the old index goes first, so
 * that a crash in between leaves no model rather than a wrong one. */
#include "tensor/safetensors_write.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static oc_status no_memory(const oc_writer *w, oc_error *err) {
    return oc_fail(err, OC_E_MEMORY, "%s: no memory to commit", w->dir);
}

static oc_status sync_dir(const oc_writer *w, oc_error *err) {
    int fd = w->io->open(w->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd < 0) return oc_fail_errno(err, OC_E_IO, errno, "cannot open directory %s", w->dir);
    /* Some file systems cannot sync a directory and say EINVAL. */
    int rc = w->io->fsync(fd), e = errno;
    w->io->close(fd);
    if (rc != 0 && e != EINVAL)
        return oc_fail_errno(err, OC_E_IO, e, "%s: cannot sync the directory", w->dir);
    return OC_OK;
}

static oc_status write_file(oc_writer *w, const char *path, const char *text, uint64_t n,
                            oc_error *err) {
    int fd = w->io->open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0) return oc_fail_errno(err, OC_E_IO, errno, "cannot create %s", path);
    oc_status s = oc_writer_put(w, fd, path, text, n, err);
    if (s == OC_OK && w->io->fsync(fd) != 0)
        s = oc_fail_errno(err, OC_E_IO, errno, "%s: cannot sync to disk", path);
    if (w->io->close(fd) != 0 && s == OC_OK)
        s = oc_fail_errno(err, OC_E_IO, errno, "%s: cannot close", path);
    return s;
}

static oc_status write_index(oc_writer *w, oc_error *err) {
    char *text, *path = oc_writer_path(w, w->shard_count, true);
    uint64_t n;
    if (path == NULL) return no_memory(w, err);
    oc_status s = oc_writer_index(w, &text, &n, err);
    if (s == OC_OK) {
        s = write_file(w, path, text, n, err);
        free(text);
    }
    free(path);
    return s;
}

static oc_status rename_one(oc_writer *w, int32_t shard, oc_error *err) {
    char *from = oc_writer_path(w, shard, true), *to = oc_writer_path(w, shard, false);
    oc_status s = OC_OK;
    if (from == NULL || to == NULL) {
        s = no_memory(w, err);
    } else if (w->io->rename(from, to) != 0) {
        s = oc_fail_errno(err, OC_E_IO, errno, "cannot rename %s to %s", from, to);
    }
    free(from);
    free(to);
    return s;
}

static void unlink_one(const oc_writer *w, int32_t shard, bool temporary) {
    char *path = oc_writer_path(w, shard, temporary);
    if (path != NULL) (void)w->io->unlink(path);
    free(path);
}

static bool exists(const char *path) {
    struct stat st;
    return path != NULL && lstat(path, &st) == 0;
}

/* An older sharded model with the same number of shards: its index must not see ours. */
static oc_status hide_old_index(oc_writer *w, oc_error *err) {
    bool clash = false;
    for (int32_t i = 0; i < w->shard_count && !clash; i++) {
        char *path = oc_writer_path(w, i, false);
        clash = exists(path);
        free(path);
    }
    char *index = oc_writer_path(w, w->shard_count, false);
    oc_status s = index == NULL ? no_memory(w, err) : OC_OK;
    if (s == OC_OK && clash && exists(index)) {
        if (w->io->unlink(index) != 0)
            s = oc_fail_errno(err, OC_E_IO, errno, "cannot remove the old %s", index);
        if (s == OC_OK) s = sync_dir(w, err);
    }
    free(index);
    return s;
}

static oc_status rename_all(oc_writer *w, oc_error *err) {
    if (w->shard_count == 1) return rename_one(w, 0, err);
    OC_TRY(hide_old_index(w, err));
    int32_t done = 0;
    oc_status s = OC_OK;
    while (s == OC_OK && done <= w->shard_count) {
        /* Shards must be on disk under their names before the index that names them. */
        if (done == w->shard_count) s = sync_dir(w, err);
        if (s == OC_OK) s = rename_one(w, done, err);
        if (s == OC_OK) done++;
    }
    if (s != OC_OK)
        while (done-- > 0)
            unlink_one(w, done, false);
    return s;
}

/* "model-" 5 digits "-of-" 5 digits ".safetensors" */
static bool is_shard_name(const char *s) {
    static const char pattern[] = "model-ddddd-of-ddddd.safetensors";
    for (size_t i = 0; i < sizeof pattern; i++) {
        bool digit = pattern[i] == 'd' && i > 4 && i < 21;
        if (digit ? s[i] < '0' || s[i] > '9' : s[i] != pattern[i]) return false;
    }
    return true;
}

static bool is_stale(const oc_writer *w, const char *name) {
    if (strcmp(name, "model.safetensors") == 0) return w->shard_count > 1;
    if (strcmp(name, "model.safetensors.index.json") == 0) return w->shard_count == 1;
    if (!is_shard_name(name)) return false;
    return w->shard_count == 1 || strtol(name + 15, NULL, 10) != w->shard_count;
}

/* What an older model of another shape left behind: it would confuse who reads the directory. */
static oc_status remove_stale(oc_writer *w, oc_error *err) {
    DIR *d = opendir(w->dir);
    if (d == NULL) return oc_fail_errno(err, OC_E_IO, errno, "cannot list %s", w->dir);
    oc_status s = OC_OK;
    for (struct dirent *e; s == OC_OK && (e = readdir(d)) != NULL;) {
        char *path;
        if (!is_stale(w, e->d_name)) continue;
        if (asprintf(&path, "%s/%s", w->dir, e->d_name) < 0) {
            s = no_memory(w, err);
            break;
        }
        if (w->io->unlink(path) != 0 && errno != ENOENT)
            s = oc_fail_errno(err, OC_E_IO, errno, "cannot remove the older model's %s", path);
        free(path);
    }
    closedir(d);
    return s;
}

oc_status oc_writer_commit(oc_writer *w, oc_error *err) {
    char name[OC_ST_PRINTABLE];
    if (w->committed || w->failed)
        return oc_fail(err, OC_E_INVALID, "%s: this writer %s", w->dir,
                       w->failed ? "failed before" : "has committed");
    if (w->at < w->count)
        return oc_fail(err, OC_E_INVALID, "%s: tensor '%s' is incomplete", w->dir,
                       oc_st_printable(name, w->slots[w->at].name));
    w->failed = true;
    if (w->shard_count > 1) OC_TRY(write_index(w, err));
    OC_TRY(rename_all(w, err));
    w->committed = true;
    w->failed = false;
    OC_TRY(remove_stale(w, err));
    return sync_dir(w, err);
}

void oc_writer_close(oc_writer *w) {
    if (w == NULL) return;
    if (w->fd >= 0) w->io->close(w->fd);
    if (!w->committed && w->dir != NULL && w->path != NULL)
        for (int32_t i = 0; i <= w->shard_count; i++)
            if (i < w->shard_count || w->shard_count > 1) unlink_one(w, i, true);
    for (int32_t i = 0; w->slots != NULL && i < w->count; i++)
        free(w->slots[i].name);
    free(w->slots);
    free(w->dir);
    free(w->path);
    free(w->bounce);
    free(w);
}
