/* fuzz_config.c - any bytes as a config.json: a model whose blocks hold together, or a
 * message. */
#include "model/model.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(int holds) {
    if (!holds) abort();
}

static void check_blocks(const oc_model *m) {
    uint64_t parameters = 0;
    int64_t vocab = 0;
    for (int32_t b = 0; b < m->n_blocks; b++) {
        const oc_block *k = &m->blocks[b];
        uint64_t end = 0;
        demand(k->elements % 64 == 0 && k->elements <= m->max_block_elements);
        for (int32_t i = 0; i < k->n_tensors; i++) {
            const oc_tensor_spec *t = &m->tensors[k->first_tensor + i];
            demand(t->offset >= end && t->rows > 0 && t->cols > 0 && strlen(t->name) > 0);
            end = t->offset + t->elements;
            parameters += t->elements;
            if (t->file_group > 0)
                demand(t->rows % t->file_group == 0 &&
                       t->file_row0 + (t->rows / t->file_group - 1) * t->file_stride +
                               t->file_group <=
                           t->file_dims[0]);
        }
        demand(end <= k->elements && k->elements > 0);
        demand(k->variant >= 0 && k->variant < m->decoder.n_variants);
        if (k->kind == OC_BLOCK_TABLE) vocab += k->rows;
    }
    demand(parameters == m->parameters && vocab == m->vocab);
}

/* At any length: every frequency is a number, and every layer's table is inside. */
static void check_positions(oc_model *m) {
    const oc_decoder_spec *d = &m->decoder;
    demand(d->rot_dim % 2 == 0 && d->rot_dim <= d->head_dim);
    for (int32_t i = 0; i < d->n_variants; i++)
        if (d->rot_dim > 0) demand((d->variants[i].rope + 1) * (d->rot_dim / 2) <= m->n_inv_freq);
    for (int64_t seq = 1; seq < INT32_MAX; seq *= 64) {
        if (m->n_inv_freq > 0) oc_model_rope(m, seq, m->inv_freq);
        for (int32_t i = 0; i < m->n_inv_freq; i++)
            demand(m->inv_freq[i] >= 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1);
    if (!text) return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    oc_model *m = NULL;
    oc_error err = {.status = OC_OK};
    if (oc_model_parse(&m, text, "config.json", &err) == OC_OK) {
        check_blocks(m);
        check_positions(m);
    } else {
        demand(m == NULL && err.status != OC_OK && strncmp(err.message, "config.json", 11) == 0);
    }
    oc_model_close(m);
    free(text);
    return 0;
}
