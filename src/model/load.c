/* load.c - blocks from the tensors of a checkpoint. */
#include "model/load.h"

#include "base/checked.h"
#include "model/transpose.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- finding -------------------------------------------------------------------------- */

/* Under its name, the other one that heads may have, or without the prefix. */
static const oc_tensor_info *find(const oc_model *m, const oc_tensors *t, const char *name) {
    const oc_tensor_info *x = oc_tensors_find(t, name);
    if (!x && m->head_alias && m->head_name && strcmp(name, m->head_name) == 0)
        x = oc_tensors_find(t, m->head_alias);
    size_t n = strlen(m->prefix);
    if (!x && m->prefix_optional && strncmp(name, m->prefix, n) == 0)
        x = oc_tensors_find(t, name + n);
    return x;
}

/* "[3, 4]" */
static const char *shape_text(int32_t ndim, const uint64_t *dims, char *out, size_t bytes) {
    size_t at = (size_t)snprintf(out, bytes, "[");
    for (int32_t i = 0; i < ndim && i < OC_TENSOR_MAX_DIMS && at < bytes; i++)
        at += (size_t)snprintf(out + at, bytes - at, "%s%" PRIu64, i ? ", " : "", dims[i]);
    if (at < bytes) snprintf(out + at, bytes - at, "]");
    return out;
}

static oc_status check_shape(const oc_tensors *t, const oc_tensor_info *x, const oc_tensor_spec *s,
                             oc_error *err) {
    uint64_t want[OC_TENSOR_MAX_DIMS] = {(uint64_t)s->file_dims[0], (uint64_t)s->file_dims[1]};
    bool same = x->ndim == s->file_ndim;
    for (int32_t i = 0; same && i < s->file_ndim && i < 2; i++)
        same = x->dims[i] == want[i];
    const char *path = oc_tensors_file(t, x->file);
    char found[200], expected[64];
    if (!same)
        return oc_fail(
            err, OC_E_FORMAT,
            "%s: tensor '%s' has shape %s, but config.json asks for %s; the two files do "
            "not belong together",
            path, x->name, shape_text(x->ndim, x->dims, found, sizeof found),
            shape_text(s->file_ndim, want, expected, sizeof expected));
    oc_dtype unused;
    if (!oc_file_dtype_compute(x->dtype, &unused))
        return oc_fail(err, OC_E_UNSUPPORTED,
                       "%s: tensor '%s' is stored as %s; weights must be F32, BF16 or F16", path,
                       x->name, oc_file_dtype_name(x->dtype));
    return OC_OK;
}

static oc_status missing(const oc_model *m, const oc_tensors *t, const char *name, oc_error *err) {
    const char *path = oc_tensors_file_count(t) ? oc_tensors_file(t, 0) : "the checkpoint";
    if (m->head_name && strcmp(name, m->head_name) == 0)
        return oc_fail(
            err, OC_E_NOTFOUND,
            "%s: tensor '%s' is missing; set \"tie_word_embeddings\": true in config.json "
            "if the head is the embedding",
            path, name);
    return oc_fail(err, OC_E_NOTFOUND,
                   "%s: tensor '%s' is missing; the checkpoint is incomplete or does not belong to "
                   "config.json (model_type %s, %" PRId32 " layers)",
                   path, name, m->family, m->n_layers);
}

/* Chunks and parts of one file tensor share its name's storage and stand side by side. */
static bool first_of_tensor(const oc_model *m, int32_t i) {
    return i == 0 || m->tensors[i].name != m->tensors[i - 1].name;
}

/* ---- the whole checkpoint ------------------------------------------------------------- */

static int by_address(const void *a, const void *b) {
    uintptr_t x = (uintptr_t) * (const void *const *)a, y = (uintptr_t) * (const void *const *)b;
    return (x > y) - (x < y);
}

enum { COMPARE_VALUES = 65536 };

static oc_status same_values(oc_tensors *t, const oc_tensor_info *a, const oc_tensor_info *b,
                             float *room, bool *same, oc_error *err) {
    float *va = room, *vb = room + COMPARE_VALUES;
    *same = a->elements == b->elements;
    for (uint64_t at = 0; *same && at < a->elements; at += COMPARE_VALUES) {
        uint64_t n = oc_min_u64(COMPARE_VALUES, a->elements - at);
        OC_TRY(oc_tensors_read(t, a, at, n, OC_F32, va, err));
        OC_TRY(oc_tensors_read(t, b, at, n, OC_F32, vb, err));
        *same = memcmp(va, vb, n * sizeof(float)) == 0;
    }
    return OC_OK;
}

/* *head: the tensor of a tied model's head, NULL when the checkpoint has none; *same: it repeats
 * the embedding. */
static oc_status compare_head(const oc_model *m, oc_tensors *t, const oc_tensor_info **head,
                              const oc_tensor_info **table, bool *same, oc_error *err) {
    *same = true;
    *head = m->tied && m->head_name ? find(m, t, m->head_name) : NULL;
    *table = find(m, t, m->tensors[m->blocks[m->first_table].first_tensor].name);
    if (!*head || !*table) return OC_OK;
    float *room = malloc(2 * COMPARE_VALUES * sizeof *room);
    if (!room) return oc_fail(err, OC_E_MEMORY, "no memory to compare '%s'", (*head)->name);
    oc_status s = same_values(t, *head, *table, room, same, err);
    free(room);
    return s;
}

/* A model that is laid out as tied reads no head: the checkpoint must have no other. */
static oc_status check_tied_head(const oc_model *m, oc_tensors *t, oc_error *err) {
    const oc_tensor_info *head, *table;
    bool same;
    OC_TRY(compare_head(m, t, &head, &table, &same, err));
    if (same) return OC_OK;
    return oc_fail(err, OC_E_FORMAT,
                   "%s: tensor '%s' differs from '%s', but config.json ties them; set "
                   "\"tie_word_embeddings\": false to keep both",
                   oc_tensors_file(t, head->file), head->name, table->name);
}

bool oc_model_holds_other_head(const oc_model *m, const char *dir) {
    const oc_tensor_info *head, *table;
    oc_tensors *t = NULL;
    bool same = true;
    if (oc_tensors_open(&t, dir, NULL) != OC_OK) return false;
    bool known = compare_head(m, t, &head, &table, &same, NULL) == OC_OK;
    oc_tensors_close(t);
    return known && !same;
}

static bool is_ignored(const oc_model *m, const char *name) {
    size_t n = strlen(name);
    for (const char *const *p = m->ignored; *p; p++) {
        size_t k = strlen(*p);
        if (n >= k && strcmp(name + n - k, *p) == 0) return true;
    }
    return false;
}

static void note_unused(oc_model *m, const oc_tensors *t, const oc_tensor_info **used, int32_t n) {
    char list[400] = "";
    size_t at = 0;
    int32_t unused = 0, shown = 0;
    qsort(used, (size_t)n, sizeof *used, by_address);
    for (int32_t i = 0; i < oc_tensors_count(t); i++) {
        const oc_tensor_info *x = oc_tensors_at(t, i);
        bool head = m->tied && m->head_name && x == find(m, t, m->head_name);
        if (head || is_ignored(m, x->name) ||
            bsearch(&x, used, (size_t)n, sizeof *used, by_address))
            continue;
        unused++;
        if (shown < 4 && strlen(x->name) + at + 4 < sizeof list) {
            at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", at ? ", " : "", x->name);
            shown++;
        }
    }
    if (unused == 0) return;
    size_t end = strlen(m->notes);
    if (end + 2 < sizeof m->notes)
        snprintf(m->notes + end, sizeof m->notes - end,
                 "%s%" PRId32 " tensors of the checkpoint are not part of the model and not used: "
                 "%s%s",
                 end ? "\n" : "", unused, list, shown < unused ? ", ..." : "");
}

oc_status oc_model_check_tensors(oc_model *m, oc_tensors *t, oc_error *err) {
    const oc_tensor_info **used = calloc((size_t)m->n_tensors, sizeof(void *));
    if (!used) return oc_fail(err, OC_E_MEMORY, "no memory to check the checkpoint's tensors");
    oc_status s = OC_OK;
    int32_t n = 0;
    for (int32_t i = 0; s == OC_OK && i < m->n_tensors; i++) {
        if (!first_of_tensor(m, i)) continue;
        const oc_tensor_spec *spec = &m->tensors[i];
        const oc_tensor_info *x = find(m, t, spec->name);
        s = x ? check_shape(t, x, spec, err) : missing(m, t, spec->name, err);
        used[n++] = x;
    }
    if (s == OC_OK) s = check_tied_head(m, t, err);
    if (s == OC_OK) note_unused(m, t, used, n);
    free(used);
    return s;
}

/* ---- one block ------------------------------------------------------------------------ */

uint64_t oc_model_scratch_bytes(const oc_model *m) {
    uint64_t most = 64;
    for (int32_t i = 0; i < m->n_tensors; i++) {
        const oc_tensor_spec *s = &m->tensors[i];
        if (!s->transposed) continue;
        uint64_t rows = oc_min_u64(OC_TRANSPOSE_ROWS, (uint64_t)s->file_dims[0]);
        most = oc_max_u64(most, rows * (uint64_t)s->file_dims[1] * sizeof(float));
    }
    return oc_align_up(most, 64);
}

static oc_status read_turned(oc_tensors *t, const oc_tensor_info *x, const oc_tensor_spec *s,
                             oc_dtype dtype, char *dst, void *scratch, uint64_t scratch_bytes,
                             oc_error *err) {
    size_t e = oc_dtype_bytes(dtype);
    uint64_t in = (uint64_t)s->file_dims[0], out = (uint64_t)s->file_dims[1];
    uint64_t group = oc_min_u64(in, scratch_bytes / (out * e));
    if (group == 0)
        return oc_fail(err, OC_E_INVALID,
                       "tensor '%s': %" PRIu64 " bytes of scratch do not hold one row", x->name,
                       scratch_bytes);
    const char *part = (const char *)scratch + (uint64_t)s->file_row0 * e;
    for (uint64_t r = 0; r < in; r += group) {
        uint64_t n = oc_min_u64(group, in - r);
        OC_TRY(oc_tensors_read(t, x, r * out, n * out, dtype, scratch, err));
        oc_transpose(part, out, dst + r * e, in, n, (uint64_t)s->rows, e);
    }
    return OC_OK;
}

/* Rows that stand in groups, one read a group. */
static oc_status read_groups(oc_tensors *t, const oc_tensor_info *x, const oc_tensor_spec *s,
                             oc_dtype dtype, char *dst, oc_error *err) {
    uint64_t cols = (uint64_t)s->cols, n = (uint64_t)s->file_group * cols;
    for (int64_t r = 0, at = s->file_row0; r < s->rows; r += s->file_group, at += s->file_stride)
        OC_TRY(oc_tensors_read(t, x, (uint64_t)at * cols, n, dtype,
                               dst + (uint64_t)r * cols * oc_dtype_bytes(dtype), err));
    return OC_OK;
}

oc_status oc_model_read_block(const oc_model *m, oc_tensors *t, int32_t block, oc_dtype dtype,
                              void *dst, void *scratch, uint64_t scratch_bytes, oc_error *err) {
    const oc_block *b = &m->blocks[block];
    size_t e = oc_dtype_bytes(dtype);
    uint64_t end = 0;
    for (int32_t i = 0; i < b->n_tensors; i++) {
        const oc_tensor_spec *s = &m->tensors[b->first_tensor + i];
        const oc_tensor_info *x = find(m, t, s->name);
        if (!x) return missing(m, t, s->name, err);
        OC_TRY(check_shape(t, x, s, err));
        char *at = (char *)dst + s->offset * e;
        memset((char *)dst + end * e, 0, (s->offset - end) * e);
        end = s->offset + s->elements;
        if (s->transposed)
            OC_TRY(read_turned(t, x, s, dtype, at, scratch, scratch_bytes, err));
        else if (s->file_group > 0)
            OC_TRY(read_groups(t, x, s, dtype, at, err));
        else
            OC_TRY(oc_tensors_read(t, x, (uint64_t)s->file_row0 * (uint64_t)s->cols, s->elements,
                                   dtype, at, err));
    }
    memset((char *)dst + end * e, 0, (b->elements - end) * e);
    return OC_OK;
}
