#include "tensor/safetensors_internal.h"

#include "base/json.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* A shard stands beside its index; anything else could reach files that were never meant. */
static bool plain_file_name(const char *s) {
    return s[0] != 0 && strchr(s, '/') == NULL && strchr(s, '\\') == NULL &&
           strstr(s, "..") == NULL && strcmp(s, ".") != 0;
}

static int by_file_name(const void *a, const void *b) {
    const struct oc_st_index_entry *x = a, *y = b;
    int c = strcmp(x->file, y->file);
    return c != 0 ? c : strcmp(x->name, y->name);
}

static oc_status fill(oc_st_index *x, json_t *root, const char *path, oc_error *err) {
    json_t *map = json_object_get(root, "weight_map");
    if (!json_is_object(map))
        return oc_fail(err, OC_E_FORMAT, "%s: the index has no \"weight_map\" object", path);
    size_t n = json_object_size(map);
    if (n == 0) return oc_fail(err, OC_E_FORMAT, "%s: \"weight_map\" names no tensor", path);
    x->entries = calloc(n, sizeof *x->entries);
    if (x->entries == NULL)
        return oc_fail(err, OC_E_MEMORY, "%s: no memory for %zu index entries", path, n);
    const char *key;
    json_t *v;
    json_object_foreach(map, key, v) {
        char name[OC_ST_PRINTABLE], file[OC_ST_PRINTABLE];
        oc_st_printable(name, key);
        if (!json_is_string(v))
            return oc_fail(err, OC_E_FORMAT,
                           "%s: \"weight_map\": the file of tensor '%s' is not a string", path,
                           name);
        const char *s = json_string_value(v);
        if (strlen(s) != json_string_length(v) || !plain_file_name(s))
            return oc_fail(err, OC_E_FORMAT,
                           "%s: \"weight_map\": tensor '%s' is said to be in '%s', which is not "
                           "the plain name of a file beside the index",
                           path, name, oc_st_printable(file, s));
        x->entries[x->count++] = (struct oc_st_index_entry){key, s};
    }
    qsort(x->entries, n, sizeof *x->entries, by_file_name);
    return OC_OK;
}

oc_status oc_st_index_parse(oc_st_index *out, const char *json, size_t n, const char *path,
                            oc_error *err) {
    json_error_t je;
    oc_st_index x = {0};
    json_t *root = oc_json_read(json, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &je);
    if (root == NULL) return oc_st_json_fail(&je, "index", path, err);
    x.json = root;
    oc_status s = fill(&x, root, path, err);
    if (s != OC_OK) {
        oc_st_index_release(&x);
        return s;
    }
    *out = x;
    return OC_OK;
}

void oc_st_index_release(oc_st_index *x) {
    if (x == NULL) return;
    free(x->entries);
    json_decref(x->json);
    *x = (oc_st_index){0};
}
