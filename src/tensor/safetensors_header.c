#include "base/checked.h"
#include "tensor/safetensors_internal.h"

#include "base/json.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

oc_status oc_st_json_fail(const void *json_error, const char *what, const char *path,
                          oc_error *err) {
    const json_error_t *e = json_error;
    char text[OC_ST_PRINTABLE];
    oc_st_printable(text, e->text);
    switch (json_error_code(e)) {
    case json_error_out_of_memory:
        return oc_fail(err, OC_E_MEMORY, "%s: no memory to parse the %s", path, what);
    case json_error_invalid_utf8:
        return oc_fail(err, OC_E_FORMAT, "%s: the %s is not valid UTF-8 (byte %d)", path, what,
                       e->position);
    case json_error_duplicate_key:
        return oc_fail(err, OC_E_FORMAT, "%s: the %s has a key twice: %s", path, what, text);
    default:
        return oc_fail(err, OC_E_FORMAT, "%s: the %s is not valid JSON (line %d, column %d: %s)",
                       path, what, e->line, e->column, text);
    }
}

static bool dtype_from_name(const char *name, oc_file_dtype *out) {
    for (int t = 0; t < OC_FD_COUNT; t++) {
        if (strcmp(name, oc_file_dtype_name((oc_file_dtype)t)) != 0) continue;
        *out = (oc_file_dtype)t;
        return true;
    }
    return false;
}

static bool json_u64(const json_t *v, uint64_t *out) {
    if (!json_is_integer(v) || json_integer_value(v) < 0) return false;
    *out = (uint64_t)json_integer_value(v);
    return true;
}

static oc_status parse_shape(oc_tensor_info *x, const json_t *shape, const char *path,
                             const char *name, oc_error *err) {
    if (!json_is_array(shape))
        return oc_fail(err, OC_E_FORMAT, "%s: tensor '%s' has no \"shape\" array", path, name);
    size_t ndim = json_array_size(shape);
    if (ndim > OC_TENSOR_MAX_DIMS)
        return oc_fail(err, OC_E_UNSUPPORTED,
                       "%s: tensor '%s' has %zu dimensions; at most %d are supported", path, name,
                       ndim, OC_TENSOR_MAX_DIMS);
    x->ndim = (int32_t)ndim;
    x->elements = 1;
    for (size_t i = 0; i < ndim; i++) {
        if (!json_u64(json_array_get(shape, i), &x->dims[i]))
            return oc_fail(err, OC_E_FORMAT,
                           "%s: tensor '%s': dimension %zu of its shape is not a size", path, name,
                           i);
        if (!oc_mul_u64(x->elements, x->dims[i], &x->elements))
            return oc_fail(err, OC_E_OVERFLOW,
                           "%s: tensor '%s': the product of its shape overflows 64 bits", path,
                           name);
    }
    uint64_t bits;
    if (!oc_mul_u64(x->elements, oc_file_dtype_bits(x->dtype), &bits))
        return oc_fail(err, OC_E_OVERFLOW, "%s: tensor '%s': its size overflows 64 bits", path,
                       name);
    if (bits % 8 != 0)
        return oc_fail(err, OC_E_FORMAT,
                       "%s: tensor '%s': %" PRIu64
                       " elements of %s are not a whole number of bytes",
                       path, name, x->elements, oc_file_dtype_name(x->dtype));
    x->bytes = bits / 8;
    return OC_OK;
}

static oc_status parse_offsets(oc_tensor_info *x, const json_t *offsets, uint64_t data_start,
                               const char *path, const char *name, oc_error *err) {
    uint64_t begin, end;
    if (!json_is_array(offsets) || json_array_size(offsets) != 2 ||
        !json_u64(json_array_get(offsets, 0), &begin) ||
        !json_u64(json_array_get(offsets, 1), &end))
        return oc_fail(err, OC_E_FORMAT,
                       "%s: tensor '%s': \"data_offsets\" is not a pair of byte offsets", path,
                       name);
    if (end < begin)
        return oc_fail(err, OC_E_FORMAT,
                       "%s: tensor '%s' ends (%" PRIu64 ") before it begins (%" PRIu64 ")", path,
                       name, end, begin);
    if (end - begin != x->bytes)
        return oc_fail(err, OC_E_FORMAT,
                       "%s: tensor '%s' has %" PRIu64 " bytes of data, but its shape and dtype %s "
                       "need %" PRIu64,
                       path, name, end - begin, oc_file_dtype_name(x->dtype), x->bytes);
    if (!oc_add_u64(begin, data_start, &x->offset) || end > UINT64_MAX - data_start)
        return oc_fail(err, OC_E_OVERFLOW, "%s: tensor '%s': its offset overflows 64 bits", path,
                       name);
    return OC_OK;
}

static oc_status parse_tensor(oc_tensor_info *x, const char *raw_name, const json_t *v,
                              uint64_t data_start, const char *path, oc_error *err) {
    char name[OC_ST_PRINTABLE], text[OC_ST_PRINTABLE];
    oc_st_printable(name, raw_name);
    if (!json_is_object(v))
        return oc_fail(err, OC_E_FORMAT, "%s: the entry of tensor '%s' is not a JSON object", path,
                       name);
    const char *dtype = json_string_value(json_object_get(v, "dtype"));
    if (dtype == NULL)
        return oc_fail(err, OC_E_FORMAT, "%s: tensor '%s' has no \"dtype\" string", path, name);
    if (!dtype_from_name(dtype, &x->dtype))
        return oc_fail(err, OC_E_FORMAT, "%s: tensor '%s' has the unknown dtype '%s'", path, name,
                       oc_st_printable(text, dtype));
    OC_TRY(parse_shape(x, json_object_get(v, "shape"), path, name, err));
    return parse_offsets(x, json_object_get(v, "data_offsets"), data_start, path, name, err);
}

static int by_offset(const void *a, const void *b) {
    const oc_tensor_info *x = a, *y = b;
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    /* An empty tensor stands before the one that begins at the same byte. */
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Sorted tensors must tile [data_start, file_bytes) exactly. */
static oc_status check_layout(const oc_st_header *h, uint64_t data_start, uint64_t file_bytes,
                              const char *path, oc_error *err) {
    char name[OC_ST_PRINTABLE], other[OC_ST_PRINTABLE];
    uint64_t at = data_start;
    for (int32_t i = 0; i < h->count; i++) {
        const oc_tensor_info *x = &h->tensors[i];
        oc_st_printable(name, x->name);
        if (x->offset > at)
            return oc_fail(err, OC_E_FORMAT, "%s: a hole of %" PRIu64 " bytes before tensor '%s'",
                           path, x->offset - at, name);
        if (x->offset < at)
            return oc_fail(err, OC_E_FORMAT, "%s: tensor '%s' overlaps tensor '%s'", path, name,
                           oc_st_printable(other, h->tensors[i - 1].name));
        at = x->offset + x->bytes;
        if (at > file_bytes)
            return oc_fail(err, OC_E_FORMAT,
                           "%s: truncated: tensor '%s' ends at byte %" PRIu64
                           ", but the file has %" PRIu64 " bytes; get it again",
                           path, name, at, file_bytes);
    }
    if (at != file_bytes)
        return oc_fail(err, OC_E_FORMAT, "%s: %" PRIu64 " bytes after the last tensor", path,
                       file_bytes - at);
    return OC_OK;
}

static char *put_string(char **at, const char *s, size_t n) {
    char *here = *at;
    memcpy(here, s, n);
    here[n] = 0;
    *at += n + 1;
    return here;
}

static oc_status check_metadata(json_t *meta, const char *path, oc_error *err) {
    if (meta == NULL || json_is_null(meta)) return OC_OK;
    if (!json_is_object(meta))
        return oc_fail(err, OC_E_FORMAT, "%s: \"__metadata__\" is not a JSON object", path);
    const char *key;
    json_t *v;
    json_object_foreach(meta, key, v) {
        char text[OC_ST_PRINTABLE];
        if (!json_is_string(v))
            return oc_fail(err, OC_E_FORMAT, "%s: \"__metadata__\" key '%s' is not a string", path,
                           oc_st_printable(text, key));
    }
    return OC_OK;
}

static uint64_t string_bytes(json_t *root, json_t *meta) {
    uint64_t total = 1;
    const char *key;
    json_t *v;
    json_object_foreach(root, key, v) total += strlen(key) + 1;
    if (json_is_object(meta))
        json_object_foreach(meta, key, v) total += strlen(key) + 1 + json_string_length(v) + 1;
    return total;
}

static oc_status fill(oc_st_header *h, json_t *root, uint64_t data_start, const char *path,
                      oc_error *err) {
    json_t *meta = json_object_get(root, "__metadata__");
    OC_TRY(check_metadata(meta, path, err));
    size_t entries = json_object_size(root), pairs = json_object_size(meta);
    h->tensors = calloc(entries + 1, sizeof *h->tensors);
    h->metadata = calloc(2 * pairs + 1, sizeof *h->metadata);
    h->strings = malloc(string_bytes(root, meta));
    if (h->tensors == NULL || h->metadata == NULL || h->strings == NULL)
        return oc_fail(err, OC_E_MEMORY, "%s: no memory for %zu tensor entries", path, entries);
    char *at = h->strings;
    const char *key;
    json_t *v;
    json_object_foreach(root, key, v) {
        if (strcmp(key, "__metadata__") == 0) continue;
        oc_tensor_info *x = &h->tensors[h->count];
        OC_TRY(parse_tensor(x, key, v, data_start, path, err));
        x->name = put_string(&at, key, strlen(key));
        h->count++;
    }
    if (pairs == 0) return OC_OK;
    json_object_foreach(meta, key, v) {
        h->metadata[2 * h->metadata_count] = put_string(&at, key, strlen(key));
        h->metadata[2 * h->metadata_count + 1] =
            put_string(&at, json_string_value(v), json_string_length(v));
        h->metadata_count++;
    }
    return OC_OK;
}

oc_status oc_st_header_parse(oc_st_header *out, const char *json, size_t n, uint64_t data_start,
                             uint64_t file_bytes, const char *path, oc_error *err) {
    json_error_t je;
    json_t *root = oc_json_read(json, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &je);
    if (root == NULL) return oc_st_json_fail(&je, "header", path, err);
    oc_st_header h = {0};
    oc_status s;
    if (!json_is_object(root)) {
        s = oc_fail(err, OC_E_FORMAT, "%s: the header is not a JSON object", path);
    } else {
        s = fill(&h, root, data_start, path, err);
    }
    json_decref(root);
    if (s == OC_OK) {
        qsort(h.tensors, (size_t)h.count, sizeof *h.tensors, by_offset);
        s = check_layout(&h, data_start, file_bytes, path, err);
    }
    if (s != OC_OK) {
        oc_st_header_release(&h);
        return s;
    }
    *out = h;
    return OC_OK;
}

void oc_st_header_release(oc_st_header *h) {
    if (h == NULL) return;
    free(h->tensors);
    free(h->metadata);
    free(h->strings);
    *h = (oc_st_header){0};
}
