/* bodies_pass.c - the ops that a pass of generation alone has. */
#include "engine/body.h"

/* As the device reads it; counts are the control cell's. */
static oc_pages pages_of(const oc_task *t) {
    const oc_pass_spec *p = &oc_body_context(t)->build->pass;
    void *cell = oc_task_role(t, OC_ROLE_PAGES);
    return (oc_pages){.rows = oc_body_count(t, 2),
                      .row = oc_pages_rows(cell),
                      .table = oc_pages_table(cell, p->rows),
                      .row_pages = p->row_pages,
                      .page_tokens = p->page_tokens,
                      .kv = oc_task_role(t, OC_ROLE_KV)};
}

oc_status oc_body_part_paged(const oc_task *t, oc_error *err) {
    oc_program_shape shape = oc_body_shape(t);
    oc_program_batch b = oc_body_batch(t);
    oc_layer_call c = oc_body_layer_call(t, &shape, &b);
    oc_pages p = pages_of(t);
    oc_program_part_paged(&c, &p);
    return oc_body_done(t, err);
}

/* A pass in which no prompt ends and nothing is answered has no samples. */
oc_status oc_body_final_sampled(const oc_task *t, oc_error *err) {
    oc_program_shape shape = oc_body_shape(t);
    int64_t n = oc_body_count(t, 1);
    void *cell = oc_task_role(t, OC_ROLE_PAGES);
    if (n == 0) return OC_OK;
    oc_program_final_sampled(&shape, oc_body_block(t), oc_task_role(t, OC_ROLE_WEIGHT),
                             oc_task_role(t, OC_ROLE_IN),
                             oc_pages_samples(cell, oc_body_context(t)->build->pass.rows), n,
                             oc_task_role(t, OC_ROLE_STATE), oc_task_role(t, OC_ROLE_WORK));
    return oc_body_done(t, err);
}

oc_status oc_body_head_logits(const oc_task *t, oc_error *err) {
    oc_program_shape shape = oc_body_context(t)->shape;
    const oc_block *chunk = oc_body_block(t);
    shape.seq = oc_body_count(t, 1);
    if (shape.seq == 0) return OC_OK;
    oc_program_head_logits(&shape, chunk, oc_task_role(t, OC_ROLE_WEIGHT),
                           oc_task_role(t, OC_ROLE_STATE), oc_task_role(t, OC_ROLE_LOGITS),
                           chunk->rows);
    return oc_body_done(t, err);
}

/* Runs of pages, which stand at the same places on either side. */
static oc_status move_pages(const oc_task *t, const int32_t *page, int32_t n, oc_error *err) {
    oc_device *d = oc_body_device(t);
    uint64_t bytes = oc_body_context(t)->build->pass.page_bytes;
    char *to = oc_task_role(t, OC_ROLE_DST);
    const char *from = oc_task_role(t, OC_ROLE_SRC);
    for (int32_t i = 0, k; i < n; i = k) {
        for (k = i + 1; k < n && page[k] == page[i] + k - i;)
            k++;
        uint64_t at = (uint64_t)page[i] * bytes;
        d->ops->copy(d, to + at, from + at, (uint64_t)(k - i) * bytes);
    }
    *t->moved = (uint64_t)n * bytes;
    return oc_body_done(t, err);
}

oc_status oc_body_fetch_pages(const oc_task *t, oc_error *err) {
    const oc_pass_spec *p = &oc_body_context(t)->build->pass;
    oc_pages_cell *cell = oc_task_role(t, OC_ROLE_PAGES);
    return move_pages(t, oc_pages_read(cell, p->rows, p->row_pages), cell->read, err);
}

oc_status oc_body_store_pages(const oc_task *t, oc_error *err) {
    const oc_pass_spec *p = &oc_body_context(t)->build->pass;
    oc_pages_cell *cell = oc_task_role(t, OC_ROLE_PAGES);
    const int32_t *page = oc_pages_filled(cell, p->rows, p->row_pages, p->pages);
    return move_pages(t, page, cell->filled, err);
}

/* On the host: everything that it reads and leaves is there. */
oc_status oc_body_next(const oc_task *t, oc_error *err) {
    const oc_step_context *c = oc_body_context(t);
    oc_pass_cells x = {.control = oc_task_role(t, OC_ROLE_CELLS_OUT),
                       .batch = oc_task_role(t, OC_ROLE_BATCH),
                       .pages = oc_task_role(t, OC_ROLE_PAGES),
                       .task = t};
    return c->next(c->next_user, &x, err);
}

const float *oc_pass_logits(const oc_pass_cells *x, int32_t group, int32_t sample, int32_t chunk) {
    const oc_task *t = x->task;
    const oc_model *m = oc_body_context(t)->shape.model;
    int32_t seen = 0;
    for (uint32_t k = 0; k < t->op->n_accesses; k++) {
        const oc_access *a = &t->accesses[k];
        if (a->role != OC_ROLE_LOGITS || seen++ != chunk) continue;
        const char *at = oc_task_address(t, a);
        at += (uint64_t)group * t->set->buffers[a->buffer].piece_bytes;
        return (const float *)(const void *)at +
               (int64_t)sample * m->blocks[m->first_head + chunk].rows;
    }
    return NULL;
}
