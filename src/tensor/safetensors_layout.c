#include "base/checked.h"
#include "base/json.h"
#include "tensor/safetensors_write.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static oc_status no_memory(const oc_writer *w, oc_error *err) {
    return oc_fail(err, OC_E_MEMORY, "%s: no memory to write a header", w->dir);
}

char *oc_writer_path(const oc_writer *w, int32_t shard, bool temporary) {
    char *path = NULL;
    const char *tmp = temporary ? ".tmp-" : "";
    int n;
    if (shard == w->shard_count) {
        n = asprintf(&path, "%s/%smodel.safetensors.index.json", w->dir, tmp);
    } else if (w->shard_count == 1) {
        n = asprintf(&path, "%s/%smodel.safetensors", w->dir, tmp);
    } else {
        n = asprintf(&path, "%s/%smodel-%05d-of-%05d.safetensors", w->dir, tmp, shard + 1,
                     w->shard_count);
    }
    return n < 0 ? NULL : path;
}

static json_t *slot_json(const oc_writer_slot *s, uint64_t begin) {
    json_t *shape = json_array();
    uint64_t end = begin + s->bytes;
    for (int32_t i = 0; i < s->ndim; i++)
        if (json_array_append_new(shape, json_integer((json_int_t)s->dims[i])) != 0) {
            json_decref(shape);
            return NULL;
        }
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", oc_file_dtype_name(s->dtype), "shape", shape,
                     "data_offsets", (json_int_t)begin, (json_int_t)end);
}

static oc_status header_json(const oc_writer *w, int32_t lo, int32_t hi, json_t *root,
                             oc_error *err) {
    char name[OC_ST_PRINTABLE];
    if (json_object_set_new(root, "__metadata__", json_pack("{s:s}", "format", "pt")) != 0)
        return no_memory(w, err);
    uint64_t at = 0;
    for (int32_t i = lo; i < hi; i++) {
        const oc_writer_slot *s = &w->slots[i];
        if (!oc_json_is_text(s->name))
            return oc_fail(err, OC_E_INVALID, "the tensor name '%s' is not valid UTF-8",
                           oc_st_printable(name, s->name));
        if (at > (uint64_t)INT64_MAX - s->bytes)
            return oc_fail(err, OC_E_OVERFLOW, "tensor '%s' would end past 2^63 bytes",
                           oc_st_printable(name, s->name));
        if (json_object_set_new(root, s->name, slot_json(s, at)) != 0) return no_memory(w, err);
        at += s->bytes;
    }
    return OC_OK;
}

/* Spaces round the header up to 8 bytes, so that tensor data begins aligned. */
static oc_status frame(const oc_writer *w, const char *json, uint64_t text, char **out, uint64_t *n,
                       oc_error *err) {
    uint64_t padded = oc_align_up(text, 8);
    if (padded > OC_ST_MAX_HEADER)
        return oc_fail(err, OC_E_INVALID,
                       "%s: a header of %" PRIu64
                       " bytes is above the format's limit of %d; use smaller shards",
                       w->dir, padded, OC_ST_MAX_HEADER);
    char *buf = malloc(sizeof padded + padded);
    if (buf == NULL) return no_memory(w, err);
    memcpy(buf, &padded, sizeof padded);
    memcpy(buf + sizeof padded, json, text);
    memset(buf + sizeof padded + text, ' ', padded - text);
    *out = buf;
    *n = sizeof padded + padded;
    return OC_OK;
}

oc_status oc_writer_header(const oc_writer *w, int32_t lo, int32_t hi, char **out, uint64_t *n,
                           oc_error *err) {
    json_t *root = json_object();
    if (root == NULL) return no_memory(w, err);
    oc_status s = header_json(w, lo, hi, root, err);
    char *json = s == OC_OK ? oc_json_dump(root, JSON_COMPACT) : NULL;
    if (s == OC_OK)
        s = json == NULL ? no_memory(w, err) : frame(w, json, strlen(json), out, n, err);
    free(json);
    json_decref(root);
    return s;
}

static json_t *index_json(const oc_writer *w) {
    json_t *map = json_object();
    for (int32_t i = 0; i < w->count; i++) {
        char *path = oc_writer_path(w, w->slots[i].shard, false);
        int bad = path == NULL || json_object_set_new(map, w->slots[i].name,
                                                      json_string(strrchr(path, '/') + 1)) != 0;
        free(path);
        if (bad) {
            json_decref(map);
            return NULL;
        }
    }
    return json_pack("{s:{s:I}, s:o}", "metadata", "total_size", (json_int_t)w->total_bytes,
                     "weight_map", map);
}

oc_status oc_writer_index(const oc_writer *w, char **out, uint64_t *n, oc_error *err) {
    json_t *root = index_json(w);
    if (root == NULL) return no_memory(w, err);
    char *json = oc_json_dump(root, JSON_INDENT(2) | JSON_SORT_KEYS), *text = NULL;
    json_decref(root);
    if (json != NULL && asprintf(&text, "%s\n", json) < 0) text = NULL;
    free(json);
    if (text == NULL) return no_memory(w, err);
    *out = text;
    *n = strlen(text);
    return OC_OK;
}
