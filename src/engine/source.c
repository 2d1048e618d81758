/* source.c - see source.h. */
#include "engine/source.h"

#include "base/fs.h"
#include "base/heap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES = 4096, PART_BYTES = 16 << 10, FILE_MOST = 1 << 29 };

/* What may stand beside config.json and the weights. */
static const char *const names[] = {"tokenizer.json",
                                    "tokenizer_config.json",
                                    "special_tokens_map.json",
                                    "added_tokens.json",
                                    "vocab.json",
                                    "merges.txt",
                                    "tokenizer.model",
                                    "chat_template.jinja",
                                    "chat_template.json",
                                    "spiece.model",
                                    "generation_config.json"};
enum { BESIDE = sizeof names / sizeof *names, TOKENIZER = 0 };

/* Those beside come from the tokenizer's directory. */
enum { CONFIG = BESIDE, FILES };

/* And, under any name, chat templates in a directory of their own. */
static const char templates[] = "additional_chat_templates", template_end[] = ".jinja";

typedef struct named {
    char *name; /* additional_chat_templates/NAME.jinja */
    oc_source_file file;
} named;

struct oc_source {
    const char *model, *tokenizer; /* where they come from; NULL: no directory */
    bool config_alone;             /* model is the path of config.json */
    char config_path[PATH_BYTES];
    oc_source_file files[FILES];
    named *templates;
    size_t n_templates;
};

bool oc_source_is_beside(const char *name) {
    for (size_t i = 0; i < BESIDE; i++)
        if (strcmp(name, names[i]) == 0) return true;
    return strcmp(name, templates) == 0;
}

/* "": there is no such place. */
static oc_status path_of(char *out, const oc_source *s, int i, oc_error *err) {
    const char *dir = i < BESIDE ? s->tokenizer : s->model;
    bool alone = !dir || (i == CONFIG && s->config_alone);
    int n = snprintf(out, PATH_BYTES, "%s%s%s", dir ? dir : "", alone ? "" : "/",
                     alone         ? ""
                     : i == CONFIG ? "config.json"
                                   : names[i]);
    if (n < 0 || n >= PATH_BYTES) return oc_fail(err, OC_E_INVALID, "the path %s is too long", dir);
    return OC_OK;
}

/* of: a name below the tokenizer's directory. */
static oc_status path_below(char *out, const oc_source *s, const char *of, oc_error *err) {
    int n = snprintf(out, PATH_BYTES, "%s/%s", s->tokenizer, of);
    if (n < 0 || n >= PATH_BYTES)
        return oc_fail(err, OC_E_INVALID, "the path %s/%s is too long", s->tokenizer, of);
    return OC_OK;
}

static bool is_template(const char *name) {
    size_t n = strlen(name), m = sizeof template_end - 1;
    return name[0] != '.' && n > m && strcmp(name + n - m, template_end) == 0;
}

static oc_status read_template(void *arg, const char *name, oc_error *err) {
    oc_source *s = arg;
    char path[PATH_BYTES];
    if (!is_template(name)) return OC_OK;
    named *all = realloc(s->templates, (s->n_templates + 1) * sizeof *all);
    if (!all) return oc_fail(err, OC_E_MEMORY, "no memory for the model's chat templates");
    s->templates = all;
    named *t = &all[s->n_templates];
    *t = (named){0};
    if (asprintf(&t->name, "%s/%s", templates, name) < 0)
        return oc_fail(err, OC_E_MEMORY, "no memory for the model's chat templates");
    s->n_templates++;
    OC_TRY(path_below(path, s, t->name, err));
    return oc_fs_read(&t->file.data, &t->file.bytes, path, FILE_MOST, err);
}

/* visit every name in the directory of templates, if there is one. */
static oc_status each_template(const oc_source *s, oc_fs_visit *visit, void *arg, oc_error *err) {
    char path[PATH_BYTES];
    if (!s->tokenizer) return OC_OK;
    OC_TRY(path_below(path, s, templates, err));
    return oc_fs_is_directory(path) ? oc_fs_list(path, visit, arg, err) : OC_OK;
}

static oc_status read_all(oc_source *s, oc_error *err) {
    char path[PATH_BYTES];
    for (int i = 0; i < FILES; i++) {
        OC_TRY(path_of(path, s, i, err));
        if (path[0] && oc_fs_exists(path))
            OC_TRY(oc_fs_read(&s->files[i].data, &s->files[i].bytes, path, FILE_MOST, err));
    }
    return each_template(s, read_template, s, err);
}

static void choose_places(oc_source *s, const oc_config *c) {
    bool bytes = c->tokenizer && strcmp(c->tokenizer, "bytes") == 0;
    s->model = c->model_dir ? c->model_dir : c->init_dir;
    s->config_alone = !oc_fs_is_directory(s->model);
    s->tokenizer = c->tokenizer ? c->tokenizer : s->model;
    if (bytes || !oc_fs_is_directory(s->tokenizer)) s->tokenizer = NULL;
}

oc_status oc_source_open(oc_source **out, const oc_config *c, oc_error *err) {
    oc_source *s = calloc(1, sizeof *s);
    if (!s) return oc_fail(err, OC_E_MEMORY, "no memory for the files of the model");
    choose_places(s, c);
    oc_status st = path_of(s->config_path, s, CONFIG, err);
    if (st == OC_OK) st = read_all(s, err);
    if (st != OC_OK) {
        oc_source_close(s);
        return st;
    }
    *out = s;
    return OC_OK;
}

void oc_source_close(oc_source *s) {
    if (!s) return;
    for (int i = 0; i < FILES; i++)
        free(s->files[i].data);
    for (size_t i = 0; i < s->n_templates; i++) {
        free(s->templates[i].name);
        free(s->templates[i].file.data);
    }
    free(s->templates);
    free(s);
}

/* A part at a time: a second copy would be more than was planned. */
static oc_status compare(int fd, const char *path, const oc_source_file *f, bool *same,
                         oc_error *err) {
    char part[PART_BYTES];
    size_t at = 0;
    ssize_t n;
    *same = true;
    while (*same && (n = read(fd, part, sizeof part)) != 0) {
        if (n < 0) return oc_fail(err, OC_E_IO, "%s: cannot be read", path);
        *same = (size_t)n <= f->bytes - at && memcmp(f->data + at, part, (size_t)n) == 0;
        at += (size_t)n;
    }
    *same = *same && at == f->bytes;
    return OC_OK;
}

static oc_status check_file(const char *path, const oc_source_file *f, oc_error *err) {
    bool same = !f->data == !oc_fs_exists(path);
    if (same && f->data) {
        int fd = -1;
        OC_TRY(oc_fs_open_read(&fd, path, err));
        oc_status st = compare(fd, path, f, &same, err);
        (void)close(fd);
        OC_TRY(st);
    }
    if (same) return OC_OK;
    return oc_fail(err, OC_E_AGAIN, "%s changed while it was read: start again", path);
}

static oc_status count_template(void *arg, const char *name, oc_error *err) {
    size_t *n = arg;
    (void)err;
    *n += is_template(name);
    return OC_OK;
}

static oc_status check_templates(const oc_source *s, oc_error *err) {
    char path[PATH_BYTES];
    size_t n = 0;
    for (size_t i = 0; i < s->n_templates; i++) {
        OC_TRY(path_below(path, s, s->templates[i].name, err));
        OC_TRY(check_file(path, &s->templates[i].file, err));
    }
    OC_TRY(each_template(s, count_template, &n, err));
    if (n == s->n_templates) return OC_OK;
    return oc_fail(err, OC_E_AGAIN, "%s/%s changed while it was read: start again", s->tokenizer,
                   templates);
}

oc_status oc_source_check(const oc_source *s, oc_error *err) {
    char path[PATH_BYTES];
    for (int i = 0; i < FILES; i++) {
        OC_TRY(path_of(path, s, i, err));
        if (path[0]) OC_TRY(check_file(path, &s->files[i], err));
    }
    return check_templates(s, err);
}

const oc_source_file *oc_source_config(const oc_source *s) { return &s->files[CONFIG]; }

const char *oc_source_config_path(const oc_source *s) { return s->config_path; }

bool oc_source_has_tokenizer(const oc_source *s) { return s->files[TOKENIZER].data != NULL; }

const oc_source_file *oc_source_beside(const oc_source *s, size_t i, const char **name) {
    if (i >= BESIDE + s->n_templates) return NULL;
    *name = i < BESIDE ? names[i] : s->templates[i - BESIDE].name;
    return i < BESIDE ? &s->files[i] : &s->templates[i - BESIDE].file;
}

uint64_t oc_source_bytes(const oc_source *s) {
    if (!s) return 0;
    uint64_t n = oc_heap_bytes(sizeof *s);
    for (int i = 0; i < FILES; i++)
        if (s->files[i].data) n += oc_heap_bytes(s->files[i].bytes + 1);
    if (s->templates) n += oc_heap_bytes(s->n_templates * sizeof *s->templates);
    for (size_t i = 0; i < s->n_templates; i++)
        n += oc_heap_bytes(strlen(s->templates[i].name) + 1) +
             oc_heap_bytes(s->templates[i].file.bytes + 1);
    return n;
}
