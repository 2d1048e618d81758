/* program_pass.c - what blocks compute in a pass of generation, where that is not what they compute
 * in training: attention over pages, and the head of the tokens that are wanted logits of. */
#include "model/program_internal.h"

/* ---- attention over pages ------------------------------------------------------------------ */

static oc_paged_attention paged(const oc_program_shape *s, int32_t variant, const oc_pages *p) {
    oc_attention a = oc_program_attention(s, variant);
    return (oc_paged_attention){
        .dtype = a.dtype,
        .heads = a.heads,
        .kv_heads = a.kv_heads,
        .head_dim = a.head_dim,
        .scale = a.scale,
        .soft_cap = a.soft_cap,
        .window = a.window,
        .tokens = s->batch * s->seq,
        .rows = p->rows,
        .row = p->row,
        .pages = p->table,
        .pages_ld = p->row_pages,
        .page_tokens = p->page_tokens,
        .keys = p->row_pages * p->page_tokens,
        .kv = p->kv,
        .q_ld = a.q_ld,
        .k_ld = a.k_ld,
        .v_ld = a.v_ld,
        .out_ld = a.out_ld,
    };
}

void oc_program_part_paged(const oc_layer_call *call, const oc_pages *p) {
    oc_layer c = oc_layer_of(call, oc_program_part_work(call->shape, OC_PART_ATTENTION));
    oc_attention at = oc_layer_attention(&c, oc_layer_turn(&c));
    oc_paged_attention a = paged(c.s, c.block->variant, p);
    a.slopes = at.slopes;
    a.q = at.q;
    a.k = at.k;
    a.v = at.v;
    a.out = at.out;
    a.work = at.work;
    c.ops->attention_paged(c.dev, &a);
}

uint64_t oc_program_page_bytes(const oc_program_shape *s, int32_t page_tokens) {
    oc_widths w = oc_program_widths(s);
    return 2 * (uint64_t)page_tokens * (uint64_t)w.kv * oc_dtype_bytes(s->dtype);
}

static uint64_t attention_work(const oc_program_shape *s, const oc_pages *p) {
    uint64_t most = 0;
    for (int32_t i = 0; i < s->model->decoder.n_variants; i++) {
        oc_paged_attention a = paged(s, i, p);
        most = oc_max_u64(most, s->device->ops->attention_paged_work_bytes(s->device, &a));
    }
    uint64_t before = oc_program_part_work(s, OC_PART_ATTENTION).attention;
    return oc_align_up(before + most, OC_AREA_ALIGN);
}

/* ---- the head ------------------------------------------------------------------------------ */

void oc_program_final_sampled(const oc_program_shape *s, const oc_block *block, const void *weights,
                              const void *in, const int32_t *samples, int64_t n, void *state,
                              void *work) {
    oc_program_shape some = *s;
    some.seq = n;
    s->device->ops->rows_gather(s->device, s->dtype, n, s->model->hidden, samples, 0,
                                s->batch * s->seq, in, work);
    oc_program_final_forward(&some, block, weights, work, state);
}

uint64_t oc_program_pass_work_bytes(const oc_program_shape *s, const oc_pages *p) {
    uint64_t most = oc_max_u64(attention_work(s, p), oc_program_front_work_bytes(s));
    uint64_t gathered = 0;
    (void)oc_area(&gathered, p->rows, s->model->hidden, oc_dtype_bytes(s->dtype));
    most = oc_max_u64(most, gathered);
    for (int k = 0; k < OC_PART_COUNT; k++)
        if (k != OC_PART_ATTENTION)
            most = oc_max_u64(most, oc_program_part_work_bytes(s, (oc_part)k));
    return most;
}
