/* output.c - see output.h. */
#include "train/output.h"

#include "base/fs.h"
#include "base/log.h"
#include "train/save.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the directory ---- */

/* The topmost part of path that is not there yet; NULL when all is, or there is no memory. */
static char *first_missing(const char *path) {
    char *part = strdup(path);
    if (!part) return NULL;
    for (char *p = part + 1; part[0] && *p; p++) {
        if (*p != '/') continue;
        *p = 0;
        if (!oc_fs_exists(part)) return part;
        *p = '/';
    }
    if (!oc_fs_exists(part)) return part;
    free(part);
    return NULL;
}

/* From dir upwards to top; stops at the first that is not empty. */
static void remove_made(const char *dir, const char *top) {
    char *part = strdup(dir);
    size_t least = strlen(top);
    while (part && strlen(part) >= least) {
        if (rmdir(part) != 0 && errno != ENOENT) break;
        char *slash = strrchr(part, '/');
        if (!slash) break;
        *slash = 0;
    }
    free(part);
}

/* The lock is on the directory itself, so nothing has to be left behind or removed. */
static oc_status lock(oc_output *o, oc_error *err) {
    o->fd = open(o->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (o->fd < 0)
        return oc_fail_errno(err, OC_E_IO, errno, "--output %s cannot be opened", o->dir);
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

oc_status oc_output_open(oc_output *out, const char *dir, oc_error *err) {
    oc_output o = {.dir = strdup(dir), .made = first_missing(dir), .fd = -1};
    if (!o.dir) {
        free(o.made);
        return oc_fail(err, OC_E_MEMORY, "no memory for --output %s", dir);
    }
    oc_status st = oc_fs_make_directories(dir, err);
    if (st != OC_OK)
        st = oc_error_prefix(err, st, "--output %s", dir);
    else
        st = lock(&o, err);
    if (st != OC_OK) {
        oc_output_close(&o, false);
        return st;
    }
    *out = o;
    return OC_OK;
}

void oc_output_close(oc_output *o, bool keep) {
    if (!o) return;
    if (o->dir && o->made && !keep) remove_made(o->dir, o->made);
    if (o->fd >= 0) (void)close(o->fd);
    free(o->dir);
    free(o->made);
    *o = (oc_output){.fd = -1};
}

/* ---- other files ---- */

/* The path without links and dots; of a file that is not there, by its directory. Free it. */
static char *canonical(const char *path) {
    char *whole = realpath(path, NULL), *out = NULL;
    if (whole) return whole;
    const char *slash = strrchr(path, '/');
    char *parent = slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");
    char *real = parent ? realpath(parent, NULL) : NULL;
    if (real && asprintf(&out, "%s/%s", real[1] ? real : "", slash ? slash + 1 : path) < 0)
        out = NULL;
    free(real);
    free(parent);
    return out;
}

/* By name, or by another link to the same file. */
static bool same_place(const char *a, const char *b) {
    struct stat s, t;
    if (stat(a, &s) == 0 && stat(b, &t) == 0) return s.st_dev == t.st_dev && s.st_ino == t.st_ino;
    char *x = canonical(a), *y = canonical(b);
    bool same = x && y && strcmp(x, y) == 0;
    free(x);
    free(y);
    return same;
}

/* Is path a file in dir that a model or a run consists of? */
static bool belongs_to(const char *path, const char *dir) {
    char *file = canonical(path), *top = dir ? realpath(dir, NULL) : NULL;
    size_t n = top ? strlen(top) : 0;
    bool ours = file && top && strncmp(file, top, n) == 0 && file[n] == '/' &&
                oc_save_is_ours(file + n + 1);
    free(file);
    free(top);
    return ours;
}

static oc_status clash(const char *option, const char *path, const char *with, oc_error *err) {
    return oc_fail(err, OC_E_INVALID, "--%s %s would overwrite %s: give another file", option, path,
                   with);
}

static oc_status check_file(const oc_config *c, const char *option, const char *path,
                            oc_error *err) {
    struct stat st;
    bool there = stat(path, &st) == 0;
    if (there && S_ISCHR(st.st_mode)) return OC_OK;
    if (there && !S_ISREG(st.st_mode) && strncmp(path, "/dev/", 5) != 0)
        return oc_fail(err, OC_E_INVALID, "--%s %s is not a regular file", option, path);
    for (int32_t i = 0; i < c->n_data; i++)
        if (same_place(path, c->data[i])) return clash(option, path, "the --data", err);
    for (int32_t i = 0; i < c->n_eval_data; i++)
        if (same_place(path, c->eval_data[i])) return clash(option, path, "the --eval-data", err);
    if (c->config_file && same_place(path, c->config_file))
        return clash(option, path, "the --config", err);
    if (c->init_dir && same_place(path, c->init_dir)) return clash(option, path, "the --init", err);
    const char *const dirs[] = {c->model_dir, c->init_dir, c->tokenizer, c->output};
    static const char *const names[] = {"a file of --model", "a file of --init",
                                        "a file of --tokenizer", "a file of --output"};
    for (int i = 0; i < 4; i++)
        if (belongs_to(path, dirs[i])) return clash(option, path, names[i], err);
    return OC_OK;
}

oc_status oc_output_check_files(const oc_config *c, oc_error *err) {
    struct stat st;
    if (c->log_path) OC_TRY(check_file(c, "log", c->log_path, err));
    if (c->trace_path) OC_TRY(check_file(c, "trace", c->trace_path, err));
    if (!c->log_path || !c->trace_path || !same_place(c->log_path, c->trace_path)) return OC_OK;
    if (stat(c->log_path, &st) == 0 && !S_ISREG(st.st_mode)) return OC_OK; /* /dev/null */
    return oc_fail(err, OC_E_INVALID, "--log and --trace are the same file, %s", c->log_path);
}
