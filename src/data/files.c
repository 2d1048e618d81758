/* files.c - which files a path stands for, and which form their names promise. */
#include "base/log.h"
#include "data/internal.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum { DEEPEST = 32, NAMED = 3 };

/* A directory on the way down: a link back to one of them would never end. */
typedef struct folder {
    const struct folder *above;
    dev_t device;
    ino_t inode;
    int depth;
} folder;

typedef struct search {
    oc_data_files *out;
    const oc_columns *columns; /* of the files that are found now */
    size_t room;
    uint64_t others; /* files of unknown endings */
    char *named[NAMED];
} search;

/* Whether s[0..n) ends with tail; then *left is what stands before it. */
static bool ends_with(const char *s, size_t n, const char *tail, size_t *left) {
    size_t m = strlen(tail);
    if (n <= m || memcmp(s + n - m, tail, m) != 0) return false;
    *left = n - m;
    return true;
}

oc_file_kind oc_data_file_kind(const char *path) {
    static const char *const packed[] = {".gz", ".zst", ".zstd"};
    size_t n = strlen(path), left;
    for (size_t i = 0; i < sizeof packed / sizeof *packed; i++)
        if (ends_with(path, n, packed[i], &left)) {
            n = left;
            break;
        }
    if (ends_with(path, n, ".txt", &left)) return OC_FILE_TXT;
    if (ends_with(path, n, ".jsonl", &left)) return OC_FILE_JSONL;
    if (ends_with(path, n, ".json", &left)) return OC_FILE_JSON;
    return OC_FILE_OTHER;
}

/* What others write beside data and is none: LLaMA-Factory's and the datasets library's notes. */
static bool describes_data(const char *path) {
    static const char *const names[] = {"dataset_info.json", "dataset_infos.json",
                                        "dataset_dict.json", "state.json"};
    static const char *const words[] = {"README", "LICENSE", "LICENCE", "NOTICE", "CITATION"};
    const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0) return true;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t n = strlen(words[i]);
        if (strncasecmp(name, words[i], n) == 0 && (name[n] == '.' || name[n] == 0)) return true;
    }
    return false;
}

static oc_status no_memory(const char *path, oc_error *err) {
    return oc_fail(err, OC_E_MEMORY, "%s: no memory for the names of its files", path);
}

static bool grow(oc_data_files *f, size_t room) {
    char **paths = f->n < INT32_MAX / 2 ? realloc(f->paths, room * sizeof *paths) : NULL;
    if (paths == NULL) return false;
    f->paths = paths;
    const oc_columns **columns = realloc(f->columns, room * sizeof *columns);
    if (columns == NULL) return false;
    f->columns = columns;
    return true;
}

/* Takes path over. */
static oc_status add(search *s, char *path, oc_error *err) {
    oc_data_files *f = s->out;
    if ((size_t)f->n == s->room) {
        size_t room = s->room == 0 ? 16 : 2 * s->room;
        if (!grow(f, room)) {
            oc_status st = no_memory(path, err);
            free(path);
            return st;
        }
        s->room = room;
    }
    f->columns[f->n] = s->columns;
    f->paths[f->n++] = path;
    return OC_OK;
}

static void note_other(search *s, char *path) {
    if (s->others < NAMED)
        s->named[s->others] = path;
    else
        free(path);
    s->others++;
}

static oc_status walk(search *s, const char *dir, const folder *above, oc_error *err);

/* Takes path over. */
static oc_status visit(search *s, char *path, const folder *here, oc_error *err) {
    struct stat st;
    if (stat(path, &st) != 0) {
        oc_status r = oc_fail_errno(err, OC_E_IO, errno, "cannot open %s", path);
        free(path);
        return r;
    }
    if (S_ISDIR(st.st_mode)) {
        oc_status r = walk(s, path, here, err);
        free(path);
        return r;
    }
    if (oc_data_file_kind(path) != OC_FILE_OTHER && !describes_data(path)) return add(s, path, err);
    note_other(s, path);
    return OC_OK;
}

static oc_status enter(folder *here, const char *dir, const folder *above, oc_error *err) {
    struct stat st;
    if (stat(dir, &st) != 0) return oc_fail_errno(err, OC_E_IO, errno, "cannot open %s", dir);
    *here = (folder){above, st.st_dev, st.st_ino, above != NULL ? above->depth + 1 : 0};
    for (const folder *f = above; f != NULL; f = f->above)
        if (f->device == here->device && f->inode == here->inode)
            return oc_fail(err, OC_E_INVALID, "%s leads back to a directory above it", dir);
    if (here->depth > DEEPEST)
        return oc_fail(err, OC_E_INVALID, "%s is nested deeper than %d directories", dir, DEEPEST);
    return OC_OK;
}

static oc_status walk(search *s, const char *dir, const folder *above, oc_error *err) {
    folder here;
    OC_TRY(enter(&here, dir, above, err));
    DIR *d = opendir(dir);
    if (d == NULL) return oc_fail_errno(err, OC_E_IO, errno, "%s cannot be listed", dir);
    const char *slash = dir[0] != 0 && dir[strlen(dir) - 1] == '/' ? "" : "/";
    oc_status r = OC_OK;
    for (struct dirent *e = readdir(d); e != NULL && r == OC_OK; e = readdir(d)) {
        char *path;
        if (e->d_name[0] == '.') continue;
        if (asprintf(&path, "%s%s%s", dir, slash, e->d_name) < 0)
            r = no_memory(dir, err);
        else
            r = visit(s, path, &here, err);
    }
    (void)closedir(d);
    return r;
}

static int by_bytes(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void tell_others(const search *s, const char *dir) {
    static const char *const endings = ".txt, .jsonl and .json files are read, plain, .gz or .zst";
    if (s->others == 0) return;
    oc_log(OC_LOG_WARN, "%s: %llu other file%s left out (%s%s%s%s%s%s); %s", dir,
           (unsigned long long)s->others, s->others == 1 ? " is" : "s are", s->named[0],
           s->others > 1 ? ", " : "", s->others > 1 ? s->named[1] : "", s->others > 2 ? ", " : "",
           s->others > 2 ? s->named[2] : "", s->others > NAMED ? ", ..." : "", endings);
}

static oc_status expand(search *s, const char *dir, oc_error *err) {
    int32_t first = s->out->n;
    s->others = 0;
    oc_status r = walk(s, dir, NULL, err);
    if (r == OC_OK && s->out->n == first)
        r = oc_fail(err, OC_E_INVALID, "%s holds no data file (.txt, .jsonl or .json)%s%s", dir,
                    s->others > 0 ? ", but others as " : "", s->others > 0 ? s->named[0] : "");
    if (r == OC_OK) {
        qsort(s->out->paths + first, (size_t)(s->out->n - first), sizeof *s->out->paths, by_bytes);
        tell_others(s, dir);
    }
    for (uint64_t i = 0; i < s->others && i < NAMED; i++)
        free(s->named[i]);
    return r;
}

static oc_status take_path(search *s, const char *path, oc_error *err) {
    struct stat st;
    char *copy;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) return expand(s, path, err);
    copy = strdup(path);
    return copy != NULL ? add(s, copy, err) : no_memory(path, err);
}

static oc_status take_name(search *s, const oc_data_info *info, const char *name, size_t n,
                           oc_error *err) {
    oc_columns *columns = NULL;
    char *path = NULL;
    OC_TRY(oc_info_find(info, name, n, &path, &columns, err));
    oc_log(OC_LOG_INFO, "data: %.*s of %s is %s", (int)n, name, info->file, path);
    columns->next = s->out->owned;
    s->out->owned = columns;
    s->columns = columns;
    oc_status r = take_path(s, path, err);
    s->columns = NULL;
    free(path);
    return r;
}

/* "one,two" */
static oc_status take_names(search *s, const oc_data_info *info, const char *names, oc_error *err) {
    for (const char *name = names; name != NULL;) {
        size_t n = strcspn(name, ",");
        OC_TRY(take_name(s, info, name, n, err));
        name = name[n] == ',' ? name + n + 1 : NULL;
    }
    return OC_OK;
}

static oc_status take_all(search *s, const char *const *paths, int32_t n, const oc_data_info *info,
                          oc_error *err) {
    for (int32_t i = 0; i < n; i++) {
        if (oc_info_means(info, paths[i]))
            OC_TRY(take_names(s, info, paths[i], err));
        else
            OC_TRY(take_path(s, paths[i], err));
    }
    return OC_OK;
}

static oc_status find(oc_data_files *out, const char *const *paths, int32_t n,
                      const oc_data_info *info, oc_error *err) {
    oc_data_files found = {.n = 0};
    search s = {.out = &found};
    oc_status r = take_all(&s, paths, n, info, err);
    if (r == OC_OK)
        *out = found;
    else
        oc_data_files_release(&found);
    return r;
}

oc_status oc_data_files_list(oc_data_files *out, const char *path, oc_error *err) {
    const oc_data_info none = {.root = NULL};
    return find(out, &path, 1, &none, err);
}

static bool all_are_there(const char *const *paths, int32_t n) {
    struct stat st;
    for (int32_t i = 0; i < n; i++)
        if (stat(paths[i], &st) != 0) return false;
    return true;
}

oc_status oc_data_files_find(oc_data_files *out, const char *const *paths, int32_t n,
                             const char *info_dir, oc_error *err) {
    oc_data_info info = {.root = NULL};
    if (info_dir != NULL || !all_are_there(paths, n)) OC_TRY(oc_info_open(&info, info_dir, err));
    oc_status s = find(out, paths, n, &info, err);
    oc_info_close(&info);
    return s;
}

void oc_data_files_release(oc_data_files *f) {
    for (int32_t i = 0; i < f->n; i++)
        free(f->paths[i]);
    while (f->owned != NULL) {
        oc_columns *next = f->owned->next;
        oc_columns_free(f->owned);
        f->owned = next;
    }
    free(f->paths);
    free(f->columns);
    *f = (oc_data_files){.n = 0};
}
