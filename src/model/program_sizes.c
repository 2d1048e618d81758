/* program_sizes.c - how wide activations are, where a layer's values and its work lie, which
 * weights a part reads. */
#include "model/program_internal.h"

#include <assert.h>
#include <stddef.h>

/* ---- widths -------------------------------------------------------------------------------- */

static oc_widths model_widths(const oc_model *m) {
    const oc_decoder_spec *d = &m->decoder;
    return (oc_widths){
        .hidden = d->hidden,
        .heads = (int64_t)d->heads * d->head_dim,
        .kv = (int64_t)d->kv_heads * d->head_dim,
        .qkv = ((int64_t)d->heads + 2 * (int64_t)d->kv_heads) * d->head_dim,
        .up = d->gated ? 2 * d->intermediate : d->intermediate,
        .mid = d->intermediate,
        .embed = m->embed_dim,
        .rms = d->norm == OC_NORM_RMS,
    };
}

/* All tokens, as long as a tile of them takes no more room than a short tile and the sums over
 * tiles would: T (up + mid) e <= TILE (up + mid) e + 4 hidden (up + mid). In fp32 sums take none.
 */
int64_t oc_program_tile(const oc_program_shape *s) {
    int64_t tokens = s->batch * s->seq;
    int64_t e = (int64_t)oc_dtype_bytes(s->dtype);
    int64_t sums = s->dtype == OC_F32 ? 0 : 4 * s->model->decoder.hidden / e;
    if (s->tile > 0) return s->tile;
    return tokens <= OC_TOKEN_TILE + sums ? tokens : OC_TOKEN_TILE;
}

oc_widths oc_program_widths(const oc_program_shape *s) {
    oc_widths w = model_widths(s->model);
    w.tokens = s->batch * s->seq;
    int64_t tile = oc_program_tile(s);
    w.tile = tile < w.tokens ? tile : w.tokens;
    return w;
}

const char *oc_saved_name(oc_saved v) {
    static const char *const names[OC_SAVED_COUNT] = {"qkv", "attention", "mid", "up", "mlp"};
    return (unsigned)v < OC_SAVED_COUNT ? names[v] : "?";
}

oc_part oc_saved_part(oc_saved v) {
    static const oc_part parts[OC_SAVED_COUNT] = {OC_PART_IN, OC_PART_ATTENTION, OC_PART_OUT,
                                                  OC_PART_MLP, OC_PART_MLP};
    return parts[v];
}

/* ---- norms ---- */

int64_t oc_site_groups(const oc_decoder_spec *d, oc_site site) {
    return site == OC_SITE_Q ? d->heads : site == OC_SITE_K ? d->kv_heads : 1;
}

oc_site oc_site_after_mlp(const oc_decoder_spec *d) {
    return oc_is_sandwich(d) ? OC_SITE_POST2 : oc_is_post(d) ? OC_SITE_2 : OC_SITES;
}

bool oc_program_backward_reads(const oc_decoder_spec *d, oc_saved v) {
    if (v == OC_SAVED_MID) return !oc_is_parallel(d);
    if (v == OC_SAVED_MLP) return oc_site_after_mlp(d) != OC_SITES;
    return true;
}

/* ---- saved values -------------------------------------------------------------------------- */

static void statistics(const oc_widths *w, uint64_t *end, int64_t rows, int64_t groups,
                       uint64_t *mean, uint64_t *rstd) {
    *mean = oc_area(end, w->rms ? 0 : rows, groups, sizeof(float));
    *rstd = oc_area(end, rows, groups, sizeof(float));
}

oc_saved_layout oc_program_saved_layout(const oc_program_shape *s) {
    const oc_decoder_spec *d = &s->model->decoder;
    oc_widths w = oc_program_widths(s);
    size_t e = oc_dtype_bytes(s->dtype);
    int64_t T = w.tokens;
    oc_saved_layout l = {0};
    (void)oc_area(&l.bytes[OC_SAVED_QKV], T, w.qkv, e);
    (void)oc_area(&l.bytes[OC_SAVED_ATTENTION], T, w.heads, e);
    l.lse = oc_area(&l.bytes[OC_SAVED_ATTENTION], T, d->heads, sizeof(float));
    (void)oc_area(&l.bytes[OC_SAVED_MID], T, w.hidden, e);
    if (oc_is_sandwich(d)) {
        l.p = oc_area(&l.bytes[OC_SAVED_MID], T, w.hidden, e);
        statistics(&w, &l.bytes[OC_SAVED_MID], T, 1, &l.p_mean, &l.p_rstd);
    }
    (void)oc_area(&l.bytes[OC_SAVED_UP], T, w.up, e);
    if (oc_site_after_mlp(d) == OC_SITES) return l;
    (void)oc_area(&l.bytes[OC_SAVED_MLP], T, w.hidden, e);
    statistics(&w, &l.bytes[OC_SAVED_MLP], T, 1, &l.m_mean, &l.m_rstd);
    return l;
}

uint64_t oc_program_saved_bytes(const oc_program_shape *s, oc_saved v) {
    return oc_program_saved_layout(s).bytes[v];
}

static uint64_t width_bytes(const oc_program_shape *s, int64_t cols) {
    uint64_t end = 0;
    (void)oc_area(&end, s->batch * s->seq, cols, oc_dtype_bytes(s->dtype));
    return end;
}

uint64_t oc_program_act_bytes(const oc_program_shape *s) {
    return width_bytes(s, s->model->decoder.hidden);
}

uint64_t oc_program_row_bytes(const oc_program_shape *s) {
    return width_bytes(s, s->model->embed_dim);
}

/* ---- work ---------------------------------------------------------------------------------- */

oc_attention oc_program_attention(const oc_program_shape *s, int32_t variant) {
    const oc_decoder_spec *d = &s->model->decoder;
    oc_widths w = oc_program_widths(s);
    oc_attention a = {
        .dtype = s->dtype,
        .batch = s->batch,
        .seq = s->seq,
        .heads = d->heads,
        .kv_heads = d->kv_heads,
        .head_dim = d->head_dim,
        .scale = d->attention_scale,
        .soft_cap = d->attention_cap,
        .window = d->variants[variant].window,
        .q_ld = w.qkv,
        .k_ld = w.qkv,
        .v_ld = w.qkv,
        .out_ld = w.heads,
    };
    return a;
}

static uint64_t attention_bytes(const oc_program_shape *s) {
    uint64_t most = 0;
    for (int32_t i = 0; i < s->model->decoder.n_variants; i++) {
        oc_attention shape = oc_program_attention(s, i);
        most = oc_max_u64(most, s->device->ops->attention_work_bytes(s->device, &shape));
    }
    return oc_align_up(most, OC_AREA_ALIGN);
}

static void site_statistics(const oc_program_shape *s, oc_work_layout *l, oc_site site,
                            int64_t rows) {
    oc_widths w = oc_program_widths(s);
    int64_t groups = oc_site_groups(&s->model->decoder, site);
    statistics(&w, &l->bytes, rows, groups, &l->mean[site], &l->rstd[site]);
}

static void head_statistics(const oc_program_shape *s, oc_work_layout *l) {
    if (!s->model->decoder.qk_norm) return;
    site_statistics(s, l, OC_SITE_Q, s->batch * s->seq);
    site_statistics(s, l, OC_SITE_K, s->batch * s->seq);
}

/* A tile of the mlp: what is made of it between n and the output. a has room for a row of u in fp32
 * at least. */
static void mlp_tile(const oc_program_shape *s, oc_work_layout *l) {
    oc_widths w = oc_program_widths(s);
    size_t e = oc_dtype_bytes(s->dtype);
    l->a = oc_area(&l->bytes, w.tile < 4 ? 4 : w.tile, w.mid, e);
    l->u = oc_area(&l->bytes, w.tile, w.up, e);
}

static oc_work_layout mlp_work(const oc_program_shape *s) {
    const oc_decoder_spec *d = &s->model->decoder;
    oc_widths w = oc_program_widths(s);
    size_t e = oc_dtype_bytes(s->dtype);
    oc_work_layout l = {0};
    l.n = oc_area(&l.bytes, w.tile, w.hidden, e);
    mlp_tile(s, &l);
    for (int i = OC_SITE_1; i <= OC_SITE_POST2; i++)
        if (i != OC_SITE_POST1) site_statistics(s, &l, (oc_site)i, w.tile);
    if (oc_site_after_mlp(d) != OC_SITES) l.m = oc_area(&l.bytes, w.tile, w.hidden, e);
    return l;
}

oc_work_layout oc_program_part_work(const oc_program_shape *s, oc_part p) {
    const oc_decoder_spec *d = &s->model->decoder;
    oc_widths w = oc_program_widths(s);
    size_t e = oc_dtype_bytes(s->dtype);
    oc_work_layout l = {0};
    switch (p) {
    case OC_PART_IN:
        l.n = oc_area(&l.bytes, oc_is_post(d) ? 0 : w.tokens, w.hidden, e);
        site_statistics(s, &l, OC_SITE_1, w.tokens);
        break;
    case OC_PART_ATTENTION:
        head_statistics(s, &l);
        l.turned = oc_area(&l.bytes, d->qk_norm ? w.tokens : 0, w.qkv, e);
        l.attention = l.bytes;
        l.bytes += attention_bytes(s);
        break;
    case OC_PART_OUT:
        l.n = oc_area(&l.bytes, oc_is_sandwich(d) ? w.tokens : 0, w.hidden, e);
        break;
    case OC_PART_MLP:
        return mlp_work(s);
    case OC_PART_COUNT:
        break;
    }
    return l;
}

static bool has_up_bias(const oc_program_shape *s) {
    return s->model->blocks[s->model->first_layer].offset[OC_W_UP_BIAS] >= 0;
}

/* Where weight gradients are summed over tiles; in fp32 that is the gradient itself. */
static void sums(const oc_program_shape *s, oc_work_layout *l) {
    oc_widths w = oc_program_widths(s);
    bool apart = s->dtype != OC_F32, bias = has_up_bias(s);
    if (w.tile == w.tokens) return;
    l->sum_up = oc_area(&l->bytes, apart ? w.up : 0, w.hidden, sizeof(float));
    l->sum_down = oc_area(&l->bytes, apart ? w.mid : 0, w.hidden, sizeof(float));
    l->sum_bias = oc_area(&l->bytes, bias && apart, w.up, sizeof(float));
    l->tile_bias = oc_area(&l->bytes, bias, w.up, sizeof(float));
}

/* The mlp's half, then in the same place the attention's: dqkv, where q and k are normed a copy of
 * qkv, and behind them do with attention's own work, later what norm 1 makes. */
oc_work_layout oc_program_backward_work(const oc_program_shape *s) {
    const oc_decoder_spec *d = &s->model->decoder;
    oc_widths w = oc_program_widths(s);
    size_t e = oc_dtype_bytes(s->dtype);
    uint64_t act = oc_program_act_bytes(s);
    oc_work_layout l = {0};
    site_statistics(s, &l, OC_SITE_1, w.tokens);
    site_statistics(s, &l, OC_SITE_2, w.tokens);
    head_statistics(s, &l);
    l.n = l.dqkv = l.bytes;
    l.hold = l.n + act;
    l.bytes = l.hold + (oc_is_sandwich(d) ? act : 0);
    mlp_tile(s, &l);
    sums(s, &l);

    l.turned = l.after = l.dqkv;
    (void)oc_area(&l.turned, w.tokens, w.qkv, e);
    l.after = l.turned;
    (void)oc_area(&l.after, d->qk_norm ? w.tokens : 0, w.qkv, e);
    /* n waits there for its sum with d */
    if (oc_is_parallel(d)) l.after = oc_max_u64(l.after, l.n + act);
    l.attention = l.after;
    (void)oc_area(&l.attention, w.tokens, w.heads, e);
    l.bytes = oc_max_u64(l.bytes, oc_max_u64(l.attention + attention_bytes(s), l.after + act));
    return l;
}

uint64_t oc_program_part_work_bytes(const oc_program_shape *s, oc_part p) {
    return oc_program_part_work(s, p).bytes;
}

uint64_t oc_program_backward_work_bytes(const oc_program_shape *s) {
    return oc_program_backward_work(s).bytes;
}

uint64_t oc_program_work_bytes(const oc_program_shape *s) {
    uint64_t most = oc_max_u64(oc_program_backward_work_bytes(s), oc_program_front_work_bytes(s));
    for (int p = 0; p < OC_PART_COUNT; p++)
        most = oc_max_u64(most, oc_program_part_work_bytes(s, (oc_part)p));
    return most;
}

/* ---- weights ------------------------------------------------------------------------------- */

/* Values a weight of the block holds, its rows x cols as the spec has them. */
static int64_t weight_elements(const oc_model *m, const oc_block *block, oc_weight k) {
    const oc_decoder_spec *d = &m->decoder;
    oc_widths w = model_widths(m);
    switch (k) {
    case OC_W_NORM1:
    case OC_W_NORM1_BIAS:
    case OC_W_NORM2:
    case OC_W_NORM2_BIAS:
    case OC_W_POST1:
    case OC_W_POST2:
    case OC_W_FINAL_NORM:
    case OC_W_FINAL_NORM_BIAS:
    case OC_W_OUT_BIAS:
    case OC_W_DOWN_BIAS:
        return d->hidden;
    case OC_W_EMBED_NORM:
    case OC_W_EMBED_NORM_BIAS:
        return w.embed;
    case OC_W_PROJECT_IN:
    case OC_W_PROJECT_OUT:
        return w.embed * d->hidden;
    case OC_W_QNORM:
    case OC_W_KNORM:
        return d->head_dim;
    case OC_W_QKV:
        return w.qkv * d->hidden;
    case OC_W_QKV_BIAS:
        return w.qkv;
    case OC_W_OUT:
        return w.heads * d->hidden;
    case OC_W_UP:
        return w.up * d->hidden;
    case OC_W_UP_BIAS:
        return w.up;
    case OC_W_DOWN:
        return w.mid * d->hidden;
    case OC_W_TABLE:
        return block->rows * (block->kind == OC_BLOCK_POSITION ? d->hidden : w.embed);
    case OC_W_COUNT:
        break;
    }
    return 0;
}

/* The place of a weight that norms do not have: padding. */
static bool is_bare(const oc_program_shape *s, oc_weight k) {
    bool norm = k == OC_W_NORM1 || k == OC_W_NORM2 || k == OC_W_FINAL_NORM;
    return norm && s->model->decoder.norm_bare;
}

static void zero_padding(const oc_program_shape *s, const oc_block *block, void *grads) {
    size_t e = oc_dtype_bytes(s->dtype);
    uint64_t at = 0;
    while (at < block->elements) {
        int next = -1;
        for (int k = 0; k < OC_W_COUNT; k++) {
            int64_t o = block->offset[k];
            if (o < 0 || (uint64_t)o < at || is_bare(s, (oc_weight)k)) continue;
            if (next < 0 || o < block->offset[next]) next = k;
        }
        uint64_t start = next < 0 ? block->elements : (uint64_t)block->offset[next];
        if (start > at) s->device->ops->zero(s->device, (char *)grads + at * e, (start - at) * e);
        at = start;
        if (next >= 0) at += (uint64_t)weight_elements(s->model, block, (oc_weight)next);
    }
    assert(at == block->elements);
}

void oc_program_finish_gradient(const oc_program_shape *s, const oc_block *block, void *grads) {
    if (grads) zero_padding(s, block, grads);
}

static uint32_t bit(oc_weight k) { return 1u << k; }

static uint32_t part_weights(const oc_decoder_spec *d, oc_part p) {
    uint32_t norm1 = bit(OC_W_NORM1) | bit(OC_W_NORM1_BIAS);
    uint32_t norm2 = bit(OC_W_NORM2) | bit(OC_W_NORM2_BIAS);
    uint32_t mlp = bit(OC_W_UP) | bit(OC_W_UP_BIAS) | bit(OC_W_DOWN) | bit(OC_W_DOWN_BIAS);
    switch (p) {
    case OC_PART_IN:
        return bit(OC_W_QKV) | bit(OC_W_QKV_BIAS) | (oc_is_post(d) ? 0 : norm1);
    case OC_PART_ATTENTION:
        return bit(OC_W_QNORM) | bit(OC_W_KNORM);
    case OC_PART_OUT:
        return bit(OC_W_OUT) | bit(OC_W_OUT_BIAS) | bit(OC_W_POST1);
    case OC_PART_MLP:
        return mlp | norm2 | bit(OC_W_POST2) | (oc_is_post(d) ? norm1 : 0);
    case OC_PART_COUNT:
        break;
    }
    return 0;
}

void oc_program_part_span(const oc_model *m, const oc_block *block, oc_part p, uint64_t *first,
                          uint64_t *end) {
    uint32_t weights = part_weights(&m->decoder, p);
    *first = block->elements;
    *end = 0;
    for (int k = 0; k < OC_W_COUNT; k++) {
        int64_t at = block->offset[k];
        if (at < 0 || !(weights & bit((oc_weight)k))) continue;
        *first = oc_min_u64(*first, (uint64_t)at);
        *end = oc_max_u64(*end, (uint64_t)(at + weight_elements(m, block, (oc_weight)k)));
    }
    if (*end == 0) *first = 0; /* none */
}
