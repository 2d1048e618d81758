/* save.c - blocks back into the tensors of a file. */
#include "base/checked.h"
#include "model/load.h"
#include "model/transpose.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static bool first_of_tensor(const oc_model *m, int32_t i) {
    return i == 0 || m->tensors[i].name != m->tensors[i - 1].name;
}

/* The least scratch there is; what tensors are converted in; and what a tensor's name, shape and
 * place take, as JSON and as read. */
enum { LEAST_SCRATCH = 64, CONVERTING_BYTES = 256 << 10, DESCRIPTION_BYTES = 2 << 10 };

/* Where no tensor is transposed, the memory for that is never written, and hence is none. */
static uint64_t transpose_bytes(const oc_model *m) {
    uint64_t bytes = oc_model_scratch_bytes(m);
    return bytes <= LEAST_SCRATCH ? 0 : oc_max_u64(bytes, OC_MODEL_ROOMY_SCRATCH);
}

/* Of the files: the parts that a vocabulary is cut into stand side by side. */
static uint64_t count_tensors(const oc_model *m) {
    uint64_t n = 0;
    for (int32_t i = 0; i < m->n_tensors; i++)
        n += i == 0 || strcmp(m->tensors[i].name, m->tensors[i - 1].name) != 0;
    return n;
}

uint64_t oc_model_staging_bytes(const oc_model *m) {
    return transpose_bytes(m) + CONVERTING_BYTES + count_tensors(m) * DESCRIPTION_BYTES;
}

oc_status oc_model_decls(const oc_model *m, oc_dtype dtype, oc_tensor_decl **out, int32_t *n,
                         oc_error *err) {
    static const oc_file_dtype file_dtypes[OC_DTYPE_COUNT] = {
        [OC_F32] = OC_FD_F32, [OC_BF16] = OC_FD_BF16, [OC_F16] = OC_FD_F16};
    *out = NULL;
    oc_tensor_decl *decls = calloc((size_t)m->n_tensors, sizeof *decls);
    if (!decls) return oc_fail(err, OC_E_MEMORY, "no memory to declare the model's tensors");
    int32_t k = 0;
    for (int32_t i = 0; i < m->n_tensors; i++) {
        const oc_tensor_spec *s = &m->tensors[i];
        if (!first_of_tensor(m, i)) continue;
        decls[k++] =
            (oc_tensor_decl){.name = s->name,
                             .dtype = file_dtypes[dtype],
                             .ndim = s->file_ndim,
                             .dims = {(uint64_t)s->file_dims[0], (uint64_t)s->file_dims[1]}};
        if (s->file_ndim == 1) decls[k - 1].dims[1] = 0;
    }
    *out = decls;
    *n = k;
    return OC_OK;
}

/* ---- streaming ------------------------------------------------------------------------ */

typedef struct saver {
    const oc_model *m;
    oc_writer *w;
    oc_model_values_fn *fn;
    void *arg;
    char *scratch;
    uint64_t scratch_bytes;
    const int32_t *block_of; /* [n_tensors] */
    int32_t held;            /* the block whose values we hold; -1: none */
    const void *values;
    oc_dtype dtype;
    oc_error *err;
} saver;

static oc_status hold(saver *v, int32_t block) {
    if (block == v->held) return OC_OK;
    v->held = -1;
    OC_TRY(v->fn(v->arg, block, &v->values, &v->dtype, v->err));
    v->held = block;
    return OC_OK;
}

static oc_status write_straight(saver *v, int32_t first, int32_t end) {
    for (int32_t i = first; i < end; i++) {
        const oc_tensor_spec *s = &v->m->tensors[i];
        OC_TRY(hold(v, v->block_of[i]));
        const char *at = (const char *)v->values + s->offset * oc_dtype_bytes(v->dtype);
        OC_TRY(oc_writer_append(v->w, at, v->dtype, s->elements, v->err));
    }
    return OC_OK;
}

/* The parts of a turned tensor are in one block and of one dtype. */
static oc_status write_turned(saver *v, int32_t first, int32_t end) {
    const oc_tensor_spec *s = &v->m->tensors[first];
    uint64_t in = (uint64_t)s->file_dims[0], out = (uint64_t)s->file_dims[1];
    OC_TRY(hold(v, v->block_of[first]));
    size_t e = oc_dtype_bytes(v->dtype);
    uint64_t group = oc_min_u64(in, v->scratch_bytes / (out * e));
    if (group == 0)
        return oc_fail(v->err, OC_E_INVALID,
                       "tensor '%s': %" PRIu64 " bytes of scratch do not hold one row", s->name,
                       v->scratch_bytes);
    for (uint64_t r = 0; r < in; r += group) {
        uint64_t n = oc_min_u64(group, in - r);
        for (int32_t i = first; i < end; i++) {
            const oc_tensor_spec *p = &v->m->tensors[i];
            oc_transpose((const char *)v->values + (p->offset + r) * e, in,
                         v->scratch + (uint64_t)p->file_row0 * e, out, (uint64_t)p->rows, n, e);
        }
        OC_TRY(oc_writer_append(v->w, v->scratch, v->dtype, n * out, v->err));
    }
    return OC_OK;
}

/* The parts of a fused tensor, group by group; they are in one block. */
static oc_status write_groups(saver *v, int32_t first, int32_t end) {
    const oc_tensor_spec *s = &v->m->tensors[first];
    OC_TRY(hold(v, v->block_of[first]));
    size_t e = oc_dtype_bytes(v->dtype);
    uint64_t n = (uint64_t)s->file_group * (uint64_t)s->cols;
    for (uint64_t at = 0; at < s->elements; at += n)
        for (int32_t i = first; i < end; i++)
            OC_TRY(oc_writer_append(v->w,
                                    (const char *)v->values + (v->m->tensors[i].offset + at) * e,
                                    v->dtype, n, v->err));
    return OC_OK;
}

static oc_status write_all(saver *v, const int32_t *first, int32_t n) {
    for (int32_t k = 0; k < n; k++) {
        int32_t d = oc_writer_at(v->w, k);
        if (v->m->tensors[first[d]].transposed)
            OC_TRY(write_turned(v, first[d], first[d + 1]));
        else if (v->m->tensors[first[d]].file_group > 0)
            OC_TRY(write_groups(v, first[d], first[d + 1]));
        else
            OC_TRY(write_straight(v, first[d], first[d + 1]));
    }
    return OC_OK;
}

oc_status oc_model_write(const oc_model *m, oc_writer *w, oc_model_values_fn *fn, void *arg,
                         void *scratch, uint64_t scratch_bytes, oc_error *err) {
    /* first[d]: the first spec of declaration d; first[n]: the end */
    int32_t *first = calloc((size_t)m->n_tensors + 1, sizeof *first);
    int32_t *block_of = calloc((size_t)m->n_tensors, sizeof *block_of);
    oc_status s = OC_OK;
    if (!first || !block_of) {
        s = oc_fail(err, OC_E_MEMORY, "no memory to write the model's tensors");
    } else {
        int32_t n = 0;
        for (int32_t i = 0; i < m->n_tensors; i++)
            if (first_of_tensor(m, i)) first[n++] = i;
        first[n] = m->n_tensors;
        for (int32_t b = 0; b < m->n_blocks; b++)
            for (int32_t i = 0; i < m->blocks[b].n_tensors; i++)
                block_of[m->blocks[b].first_tensor + i] = b;
        saver v = {m, w, fn, arg, scratch, scratch_bytes, block_of, -1, NULL, OC_F32, err};
        s = write_all(&v, first, n);
    }
    free(first);
    free(block_of);
    return s;
}
