/* claims.c - see claims.h. */
#include "train/claims.h"

#include "base/fs.h"
#include "train/save.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PATH_BYTES = 4096, DEEPEST = 2 };

/* ---- which file a path is ---- */

/* The path without links and dots; of a file that is not there, by its directory. *out NULL: that
 * is not there either. Free it. */
static oc_status canonical(char **out, const char *path, oc_error *err) {
    const char *slash = strrchr(path, '/');
    *out = realpath(path, NULL);
    if (*out) return OC_OK;
    if (errno == ENOMEM) goto no_memory;
    char *parent = slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");
    if (!parent) goto no_memory;
    errno = 0;
    char *real = realpath(parent, NULL);
    bool failed = !real && errno == ENOMEM;
    free(parent);
    if (real && asprintf(out, "%s/%s", real[1] ? real : "", slash ? slash + 1 : path) < 0) {
        *out = NULL;
        failed = true;
    }
    free(real);
    if (!failed) return OC_OK;
no_memory:
    return oc_fail(err, OC_E_MEMORY, "no memory for the path %s", path);
}

/* By name where one of them is not there. */
static oc_status same_place(bool *same, const char *a, const char *b, oc_error *err) {
    oc_fs_id x, y;
    char *p = NULL, *q = NULL;
    *same = false;
    if (oc_fs_identify(a, &x) && oc_fs_identify(b, &y)) {
        *same = oc_fs_same(x, y);
        return OC_OK;
    }
    oc_status st = canonical(&p, a, err);
    if (st == OC_OK) st = canonical(&q, b, err);
    *same = st == OC_OK && p && q && strcmp(p, q) == 0;
    free(p);
    free(q);
    return st;
}

/* ---- what belongs to a directory ---- */

/* A path, and what leads to it. */
typedef struct place {
    char *path;                   /* canonical */
    oc_fs_id ids[PATH_BYTES / 2]; /* of itself, its directory, and so on up to the root */
    size_t cut[PATH_BYTES / 2];   /* how much of path each is */
    int n;
    bool there; /* ids[0] is itself; else its directory */
} place;

static void place_note(place *p, size_t bytes) {
    char part[PATH_BYTES];
    memcpy(part, p->path, bytes);
    part[bytes] = 0;
    if (!oc_fs_identify(bytes ? part : "/", &p->ids[p->n])) return;
    p->cut[p->n++] = bytes;
}

/* *out NULL: the path leads nowhere. */
static oc_status place_open(place **out, const char *path, oc_error *err) {
    oc_fs_id self;
    char *real = NULL;
    *out = NULL;
    OC_TRY(canonical(&real, path, err));
    size_t n = real ? strlen(real) : 0;
    place *p = real && n < PATH_BYTES ? calloc(1, sizeof *p) : NULL;
    if (!p) {
        free(real);
        return real ? oc_fail(err, OC_E_MEMORY, "no memory for the path %s", path) : OC_OK;
    }
    p->path = real;
    p->there = oc_fs_identify(real, &self);
    place_note(p, n);
    while (n-- > 0)
        if (real[n] == '/' && p->n < PATH_BYTES / 2) place_note(p, n);
    *out = p;
    return OC_OK;
}

static void place_close(place *p) {
    if (!p) return;
    free(p->path);
    free(p);
}

static bool leads_through(const place *p, oc_fs_id id) {
    for (int i = 0; i < p->n; i++)
        if (oc_fs_same(p->ids[i], id)) return true;
    return false;
}

/* Weights may have any name that their index gives them. */
static bool is_of_model(const char *name) {
    static const char weights[] = ".safetensors";
    size_t n = strlen(name), m = sizeof weights - 1;
    return oc_save_is_ours(name) || (n > m && strcmp(name + n - m, weights) == 0);
}

typedef struct walk {
    const place *place;
    const char *dir;
    int depth;
    bool found;
} walk;

/* Of what a model or a run consists of: is it what the place is, or what that lies in? */
static oc_status look(void *arg, const char *name, oc_error *err) {
    walk *w = arg;
    oc_fs_id id;
    char path[PATH_BYTES];
    if (w->found || (w->depth == 0 && !is_of_model(name))) return OC_OK;
    if (snprintf(path, sizeof path, "%s/%s", w->dir, name) >= (int)sizeof path) return OC_OK;
    if (!oc_fs_identify(path, &id)) return OC_OK; /* a dangling link, or gone */
    w->found = leads_through(w->place, id);
    if (w->found || w->depth + 1 >= DEEPEST || !oc_fs_is_directory(path)) return OC_OK;
    walk below = {w->place, path, w->depth + 1, false};
    OC_TRY(oc_fs_list(path, look, &below, err));
    w->found = below.found;
    return OC_OK;
}

/* Would it be one, by where it lies and its name? */
static bool named_so(const place *p, oc_fs_id dir) {
    for (int i = 0; i < p->n; i++) {
        const char *rest = p->path + p->cut[i];
        if (*rest == '/' && oc_fs_same(p->ids[i], dir)) return is_of_model(rest + 1);
    }
    return false;
}

/* Is path a file, or in a directory, of those that a model or a run in dir consists of? */
static oc_status belongs_to(bool *out, const char *path, const char *dir, oc_error *err) {
    oc_fs_id id;
    place *p = NULL;
    *out = false;
    if (!dir || !oc_fs_is_directory(dir) || !oc_fs_identify(dir, &id)) return OC_OK;
    OC_TRY(place_open(&p, path, err));
    if (!p) return OC_OK;
    walk w = {.place = p, .dir = dir, .found = named_so(p, id)};
    oc_status st = w.found ? OC_OK : oc_fs_list(dir, look, &w, err);
    place_close(p);
    *out = w.found;
    return st;
}

/* ---- what is refused ---- */

static oc_status clash(const char *option, const char *path, const char *with, oc_error *err) {
    return oc_fail(err, OC_E_INVALID, "--%s %s would overwrite %s: give another file", option, path,
                   with);
}

typedef struct input {
    const char *path, *name;
} input;

static oc_status check_against(const char *option, const char *path, const input *in,
                               oc_error *err) {
    bool same = false;
    if (!in->path) return OC_OK;
    OC_TRY(same_place(&same, path, in->path, err));
    return same ? clash(option, path, in->name, err) : OC_OK;
}

static oc_status check_inputs(const oc_config *c, const char *option, const char *path,
                              oc_error *err) {
    const input files[] = {{c->config_file, "the --config"},
                           {c->init_dir, "the --init"},
                           {c->model_dir, "the --model"}};
    const input dirs[] = {{c->model_dir, "a file of --model"},
                          {c->init_dir, "a file of --init"},
                          {c->tokenizer, "a file of --tokenizer"},
                          {c->output, "a file of --output"}};
    for (int32_t i = 0; i < c->n_data; i++)
        OC_TRY(check_against(option, path, &(input){c->data[i], "the --data"}, err));
    for (int32_t i = 0; i < c->n_eval_data; i++)
        OC_TRY(check_against(option, path, &(input){c->eval_data[i], "the --eval-data"}, err));
    for (int i = 0; i < 3; i++)
        OC_TRY(check_against(option, path, &files[i], err));
    for (int i = 0; i < 4; i++) {
        bool ours = false;
        OC_TRY(belongs_to(&ours, path, dirs[i].path, err));
        if (ours) return clash(option, path, dirs[i].name, err);
    }
    return OC_OK;
}

static oc_status check_file(const oc_config *c, const char *option, const char *path,
                            oc_error *err) {
    struct stat st;
    if (!path) return OC_OK;
    bool there = stat(path, &st) == 0;
    if (there && S_ISCHR(st.st_mode)) return OC_OK;
    if (there && !S_ISREG(st.st_mode) && strncmp(path, "/dev/", 5) != 0)
        return oc_fail(err, OC_E_INVALID, "--%s %s is not a regular file", option, path);
    return check_inputs(c, option, path, err);
}

static oc_status check_both(const oc_config *c, oc_error *err) {
    struct stat st;
    bool same = false;
    if (!c->log_path || !c->trace_path) return OC_OK;
    OC_TRY(same_place(&same, c->log_path, c->trace_path, err));
    if (!same || (stat(c->log_path, &st) == 0 && !S_ISREG(st.st_mode))) return OC_OK;
    return oc_fail(err, OC_E_INVALID, "--log and --trace are the same file, %s", c->log_path);
}

static oc_status within_output(const oc_config *c, const char *what, const char *path,
                               oc_error *err) {
    bool ours = false;
    if (!path) return OC_OK;
    OC_TRY(belongs_to(&ours, path, c->output, err));
    if (!ours) return OC_OK;
    return oc_fail(err, OC_E_INVALID,
                   "--output %s would overwrite or remove %s %s: give another --output", c->output,
                   what, path);
}

/* A model in --output, or its directory itself; a tokenizer may lie in that. --config
 * OUTPUT/run.json is read at the start and written again. */
static oc_status check_output(const oc_config *c, oc_error *err) {
    char run[PATH_BYTES];
    bool own = false, same = false;
    const char *model = c->model_dir ? c->model_dir : c->init_dir;
    if (!c->output || c->command != OC_CMD_TRAIN) return OC_OK;
    if (model) OC_TRY(same_place(&same, model, c->output, err));
    if (same)
        return oc_fail(err, OC_E_INVALID,
                       "--output %s is the directory of %s, which the run would overwrite: give "
                       "another --output",
                       c->output, model);
    OC_TRY(within_output(c, c->model_dir ? "--model" : "--init", model, err));
    OC_TRY(within_output(c, "--tokenizer", c->tokenizer, err));
    if (!c->config_file) return OC_OK;
    if (snprintf(run, sizeof run, "%s/run.json", c->output) < (int)sizeof run)
        OC_TRY(same_place(&own, c->config_file, run, err));
    return own ? OC_OK : within_output(c, "--config", c->config_file, err);
}

oc_status oc_claims_check(const oc_config *c, oc_error *err) {
    OC_TRY(check_output(c, err));
    OC_TRY(check_file(c, "log", c->log_path, err));
    OC_TRY(check_file(c, "trace", c->trace_path, err));
    return check_both(c, err);
}

oc_status oc_claims_check_data(const oc_config *c, const oc_data_files *files, oc_error *err) {
    for (int32_t i = 0; i < files->n; i++)
        OC_TRY(within_output(c, "the data", files->paths[i], err));
    return OC_OK;
}

/* ---- taking them ---- */

static oc_status take(oc_claim *out, const char *option, const char *path, oc_error *err) {
    return path ? oc_claim_take(out, option, path, OC_CLAIM_WRITE, err) : OC_OK;
}

oc_status oc_claims_take(oc_claims *out, const oc_config *c, oc_error *err) {
    OC_TRY(take(&out->log, "log", c->log_path, err));
    return take(&out->trace, "trace", c->trace_path, err);
}

void oc_claims_release(oc_claims *c, bool keep) {
    oc_claim_release(&c->log, keep);
    oc_claim_release(&c->trace, keep);
}
