/* flops.c - what blocks cost to compute. */
#include "model/flops.h"

double oc_flops_pairs(int64_t seq, int64_t window) {
    double s = (double)seq, w = window > 0 && window < seq ? (double)window : s;
    return w * (w + 1) / 2 + (s - w) * w;
}

double oc_flops_up(const oc_model *m, int64_t tokens) {
    const oc_decoder_spec *d = &m->decoder;
    double wide = (double)d->intermediate * (d->gated ? 2 : 1);
    return 2 * (double)tokens * (double)d->hidden * wide;
}

double oc_flops_part(const oc_model *m, const oc_block *layer, int64_t batch, int64_t seq,
                     oc_part p) {
    const oc_decoder_spec *d = &m->decoder;
    double tokens = (double)(batch * seq), hidden = (double)d->hidden;
    double heads = (double)d->heads * d->head_dim, kv = (double)d->kv_heads * d->head_dim;
    switch (p) {
    case OC_PART_IN:
        return 2 * tokens * hidden * (heads + 2 * kv);
    case OC_PART_ATTENTION: /* scores and values: 2 each */
        return 4 * (double)batch * heads * oc_flops_pairs(seq, d->variants[layer->variant].window);
    case OC_PART_OUT:
        return 2 * tokens * heads * hidden;
    case OC_PART_MLP:
        return oc_flops_up(m, batch * seq) + 2 * tokens * (double)d->intermediate * hidden;
    case OC_PART_COUNT:
        break;
    }
    return 0;
}

double oc_flops_saved(const oc_model *m, const oc_block *layer, int64_t batch, int64_t seq,
                      oc_saved v) {
    if (v == OC_SAVED_UP) return oc_flops_up(m, batch * seq);
    return oc_flops_part(m, layer, batch, seq, oc_saved_part(v));
}

double oc_flops_head(const oc_model *m, int64_t tokens, int64_t rows) {
    return 2 * (double)tokens * (double)m->embed_dim * (double)rows;
}

double oc_flops_projection(const oc_model *m, const oc_block *block, int64_t tokens) {
    bool there = block->offset[OC_W_PROJECT_IN] >= 0 || block->offset[OC_W_PROJECT_OUT] >= 0;
    return there ? 2 * (double)tokens * (double)m->embed_dim * (double)m->hidden : 0;
}
