/* info.c - LLaMA-Factory's dataset_info.json: which file the name of a data set stands for. */
#include "base/fs.h"
#include "data/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES = 256 };

/* ---- the file ---- */

oc_status oc_info_open(oc_data_info *out, const char *dir, oc_error *err) {
    oc_data_info info = {.asked = dir != NULL};
    info.dir = dir != NULL ? dir : "data"; /* as LLaMA-Factory has it */
    if (asprintf(&info.file, "%s/dataset_info.json", info.dir) < 0)
        return oc_fail(err, OC_E_MEMORY, "no memory for the path of a dataset_info.json");
    oc_status s = OC_OK;
    if (oc_fs_exists(info.file))
        s = oc_json_load(&info.root, info.file, OC_JSON_NO_NUL, err);
    else if (dir != NULL)
        s = oc_fail(err, OC_E_NOTFOUND,
                    "--dataset-dir %s: there is no dataset_info.json; a data set of the hub is "
                    "downloaded with: hf download --repo-type dataset NAME --local-dir DIR",
                    dir);
    if (s == OC_OK)
        *out = info;
    else
        oc_info_close(&info);
    return s;
}

void oc_info_close(oc_data_info *info) {
    json_decref(info->root);
    free(info->file);
    *info = (oc_data_info){.root = NULL};
}

/* ---- names ---- */

static json_t *entry_of(const oc_data_info *info, const char *name, size_t n) {
    const char *key;
    json_t *value;
    json_object_foreach(info->root, key, value) {
        if (strlen(key) == n && memcmp(key, name, n) == 0) return value;
    }
    return NULL;
}

/* A path that is there is itself, unless --dataset-dir was given and has that name. */
bool oc_info_means(const oc_data_info *info, const char *text) {
    if (info->root == NULL) return false;
    if (!oc_fs_exists(text)) return true;
    return info->asked && entry_of(info, text, strlen(text)) != NULL;
}

static oc_status unknown(const oc_data_info *info, const char *name, size_t n, oc_error *err) {
    const char *names[NAMES], *key;
    char word[128];
    size_t count = 0;
    json_t *value;
    json_object_foreach(info->root, key, value) {
        if (count < NAMES) names[count++] = key;
    }
    snprintf(word, sizeof word, "%.*s", (int)(n < sizeof word ? n : sizeof word - 1), name);
    const char *near = oc_nearest(word, names, count);
    return oc_fail(err, OC_E_NOTFOUND,
                   "%s is no file or directory here, and %s has no such name%s%s", word, info->file,
                   near ? ": did you mean " : "", near ? near : "");
}

/* ---- entries ---- */

/* What this version does not do, and what to do instead. */
static const struct {
    const char *inside, *key, *advice;
} refused[] = {
    {NULL, "ranking",
     "it has pairs of a chosen and a rejected answer, and the loss is the "
     "negative log-likelihood of the next token: name another"},
    {NULL, "num_samples", "all rows are used: cut the file, as with head -n"},
    {"columns", "images", "only text is trained here: name another"},
    {"columns", "videos", "only text is trained here: name another"},
    {"columns", "audios", "only text is trained here: name another"},
    {"columns", "kto_tag",
     "it says which answers are wanted, and the loss is the negative "
     "log-likelihood of the next token: name another"},
};

static oc_status check_entry(const json_t *entry, const char *file, const char *name,
                             oc_error *err) {
    static const char *const known[] = {"file_name",  "hf_hub_url",      "ms_hub_url", "om_hub_url",
                                        "script_url", "cloud_file_name", "revision",   "file_sha1",
                                        "formatting", "ranking",         "subset",     "split",
                                        "folder",     "num_samples",     "columns",    "tags"};
    const char *split = "train";
    if (!json_is_object(entry))
        return oc_fail(err, OC_E_FORMAT, "%s: %s is %s, not an object", file, name,
                       oc_json_type_name(entry));
    OC_TRY(oc_json_check_keys(entry, file, name, known, sizeof known / sizeof *known, err));
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        const char *inside = refused[i].inside, *key = refused[i].key;
        const json_t *v = json_object_get(inside ? json_object_get(entry, inside) : entry, key);
        if (v == NULL || json_is_null(v) || json_is_false(v)) continue;
        return oc_fail(err, OC_E_UNSUPPORTED, "%s: %s has \"%s\": %s", file, name, key,
                       refused[i].advice);
    }
    OC_TRY(oc_json_get_string(entry, file, "split", OC_JSON_OPTIONAL, &split, err));
    if (strcmp(split, "train") == 0) return OC_OK;
    return oc_fail(err, OC_E_UNSUPPORTED,
                   "%s: %s has the split \"%s\": all rows of its file are used, give a file of "
                   "that part",
                   file, name, split);
}

/* No file of its own, or none that is here. */
static oc_status no_file(const oc_data_info *info, const json_t *entry, const char *name,
                         const char *path, oc_error *err) {
    static const char *const hubs[] = {"hf_hub_url", "ms_hub_url", "om_hub_url"};
    static const char *const others[] = {"script_url", "cloud_file_name"};
    for (int i = 0; i < 3; i++) {
        const char *at = json_string_value(json_object_get(entry, hubs[i]));
        if (at != NULL)
            return oc_fail(err, OC_E_NOTFOUND,
                           "%s: %s is %s of a hub, and nothing is downloaded: hf download "
                           "--repo-type dataset %s --local-dir %s/%s, and name its file by "
                           "\"file_name\" in place of \"%s\"",
                           info->file, name, at, at, info->dir, name, hubs[i]);
    }
    for (int i = 0; i < 2; i++)
        if (json_object_get(entry, others[i]) != NULL)
            return oc_fail(err, OC_E_UNSUPPORTED,
                           "%s: %s is made by \"%s\", which is not run: write its rows into a "
                           ".jsonl file and name that by \"file_name\"",
                           info->file, name, others[i]);
    if (path == NULL)
        return oc_fail(err, OC_E_INVALID, "%s: %s has no \"file_name\"", info->file, name);
    return oc_fail(err, OC_E_NOTFOUND, "%s: %s is in %s, which is not there", info->file, name,
                   path);
}

/* *path: free() it. */
static oc_status path_of(const oc_data_info *info, const json_t *entry, const char *name,
                         char **path, oc_error *err) {
    const char *file = NULL;
    char *at = NULL;
    OC_TRY(oc_json_get_string(entry, info->file, "file_name", OC_JSON_OPTIONAL, &file, err));
    int n = file == NULL     ? 0
            : file[0] == '/' ? asprintf(&at, "%s", file)
                             : asprintf(&at, "%s/%s", info->dir, file);
    if (n < 0) return oc_fail(err, OC_E_MEMORY, "%s: no memory for a path", info->file);
    if (at == NULL || !oc_fs_exists(at)) {
        oc_status s = no_file(info, entry, name, at, err);
        free(at);
        return s;
    }
    *path = at;
    return OC_OK;
}

oc_status oc_info_find(const oc_data_info *info, const char *name, size_t n, char **path,
                       oc_columns **columns, oc_error *err) {
    json_t *entry = entry_of(info, name, n);
    char word[128];
    *path = NULL;
    if (entry == NULL) return unknown(info, name, n, err);
    snprintf(word, sizeof word, "%.*s", (int)(n < sizeof word ? n : sizeof word - 1), name);
    OC_TRY(check_entry(entry, info->file, word, err));
    OC_TRY(path_of(info, entry, word, path, err));
    oc_status s = oc_columns_new(columns, entry, info->file, word, err);
    if (s == OC_OK) return OC_OK;
    free(*path);
    *path = NULL;
    return s;
}
