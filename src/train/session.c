/* session.c - arenas, weights and lanes for a set-up. */
#include "train/session.h"

#include "base/checked.h"
#include "base/log.h"
#include "model/load.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct oc_session {
    oc_setup *setup;
    oc_arena *arenas[OC_TIER_COUNT];
    oc_run *run;
    oc_step_context context;
};

static void *buffer(const oc_session *s, oc_buffer_id id) {
    const oc_buffer *b = &s->setup->set->buffers[id];
    return (char *)oc_arena_base(s->arenas[b->tier]) + b->offset;
}

/* ---- weights ---- */

typedef struct reader {
    oc_session *s;
    oc_tensors *tensors; /* NULL: initialise */
    void *scratch;
    uint64_t scratch_bytes;
} reader;

/* Into the master when there is one (then the copy follows), else into the weights' home. */
static oc_status read_block(const reader *r, int32_t block, oc_error *err) {
    oc_session *s = r->s;
    const oc_setup *u = s->setup;
    const oc_model *m = u->model;
    bool master = u->train;
    void *to = buffer(s, master ? u->ids.master[block] : u->ids.weight[block]);
    oc_dtype t = master ? OC_F32 : u->dtype;
    size_t n = (size_t)m->blocks[block].elements;
    if (r->tensors) {
        OC_TRY(oc_model_read_block(m, r->tensors, block, t, to, r->scratch, r->scratch_bytes, err));
    } else if (t == OC_F32) {
        oc_model_init_block(m, block, u->config->seed, to);
    } else {
        oc_model_init_block(m, block, u->config->seed, r->scratch);
        oc_convert(to, t, r->scratch, OC_F32, n);
    }
    if (master && u->dtype != OC_F32)
        oc_convert(buffer(s, u->ids.weight[block]), u->dtype, to, OC_F32, n);
    return OC_OK;
}

static oc_status load_weights(oc_session *s, oc_error *err) {
    oc_setup *u = s->setup;
    reader r = {s, NULL, NULL, 0};
    if (u->config->model_dir) {
        OC_TRY(oc_tensors_open(&r.tensors, u->config->model_dir, err));
        r.scratch_bytes = oc_max_u64(oc_model_scratch_bytes(u->model), 1u << 20);
    } else {
        r.scratch_bytes = 4 * u->model->max_block_elements;
    }
    oc_status st = OC_OK;
    r.scratch = aligned_alloc(64, oc_align_up(r.scratch_bytes, 64));
    if (!r.scratch) st = oc_fail(err, OC_E_MEMORY, "no memory to read the weights");
    size_t told = strlen(u->model->notes);
    if (st == OC_OK && r.tensors) st = oc_model_check_tensors(u->model, r.tensors, err);
    /* what the checkpoint holds beyond the model: not used, and said */
    const char *more = u->model->notes + told;
    more += strspn(more, "\n");
    if (st == OC_OK && *more) oc_log(OC_LOG_INFO, "%s", more);
    for (int32_t i = 0; st == OC_OK && i < u->model->n_blocks; i++)
        st = read_block(&r, i, err);
    free(r.scratch);
    oc_tensors_close(r.tensors);
    return st;
}

/* ---- opening ---- */

static oc_status open_arenas(oc_session *s, oc_error *err) {
    for (int t = 0; t < OC_TIER_COUNT; t++) {
        oc_arena_spec spec = {.tier = (oc_tier)t,
                              .bytes = s->setup->set->arena_bytes[t],
                              .huge_pages = true,
                              .touch = true};
        OC_TRY(oc_arena_open(&s->arenas[t], &spec, err));
    }
    s->setup->device->ops->lend_scratch(s->setup->device, buffer(s, s->setup->ids.scratch));
    return OC_OK;
}

static void fill_context(oc_session *s, int64_t total_steps) {
    oc_setup *u = s->setup;
    const oc_config *c = u->config;
    oc_step_context *x = &s->context;
    *x = (oc_step_context){.shape = u->shape,
                           .micros = u->build.micros,
                           .build = &u->build,
                           .inv_freq = u->model->inv_freq,
                           .optimizer = c->optimizer,
                           .lr = c->lr,
                           .beta1 = c->beta1,
                           .beta2 = c->beta2,
                           .eps = c->eps,
                           .weight_decay = c->weight_decay,
                           .momentum = c->momentum,
                           .clip = c->clip,
                           .schedule = c->schedule};
    if (x->schedule.total_steps == 0) x->schedule.total_steps = total_steps;
    x->scaling = u->dtype == OC_F16;
    x->scaler = (oc_scaler_spec){
        c->loss_scale.static_scale, c->loss_scale.initial_power,          c->loss_scale.window,
        c->loss_scale.hysteresis,   c->loss_scale.consecutive_hysteresis, c->loss_scale.min_scale};
    double tokens = (double)u->global_batch * (double)u->build.seq;
    x->nominal = exp2(ceil(log2(tokens)));
}

static void fill_carry(oc_session *s) {
    if (s->setup->ids.carry == OC_NO_BUFFER) return;
    oc_carry_cell *c = buffer(s, s->setup->ids.carry);
    memset(c, 0, sizeof *c);
    c->loss_scale = 1;
    if (!s->context.scaling) return;
    oc_scaler x;
    oc_scaler_init(&x, &s->context.scaler);
    c->loss_scale = x.scale;
    c->scale_hysteresis = x.hysteresis_left;
}

static oc_status open_run(oc_session *s, oc_error *err) {
    const oc_config *c = s->setup->config;
    oc_run_spec spec = {.set = s->setup->set,
                        .bodies = oc_step_bodies,
                        .n_bodies = OC_BODY_COUNT,
                        .user = &s->context,
                        .serial = c->serial_lanes,
                        .protect = c->verify_debug,
                        .trace_path = c->trace_path,
                        .delay_seed = (uint32_t)c->delay_seed};
    for (int t = 0; t < OC_TIER_COUNT; t++)
        spec.bases[t] = oc_arena_base(s->arenas[t]);
    memcpy(spec.pace_bytes_per_second, c->pace, sizeof c->pace);
    return oc_run_open(&s->run, &spec, err);
}

static oc_status open_all(oc_session *s, int64_t total_steps, oc_error *err) {
    OC_TRY(open_arenas(s, err));
    fill_context(s, total_steps);
    OC_TRY(load_weights(s, err));
    fill_carry(s);
    return open_run(s, err);
}

oc_status oc_session_open(oc_session **out, oc_setup *setup, int64_t total_steps, oc_error *err) {
    oc_session *s = calloc(1, sizeof *s);
    if (!s) return oc_fail(err, OC_E_MEMORY, "no memory for the session");
    s->setup = setup;
    oc_status st = open_all(s, total_steps, err);
    if (st != OC_OK) {
        oc_session_close(s);
        return st;
    }
    *out = s;
    return OC_OK;
}

void oc_session_close(oc_session *s) {
    if (!s) return;
    oc_run_close(s->run);
    for (int t = 0; t < OC_TIER_COUNT; t++)
        oc_arena_close(s->arenas[t]);
    free(s);
}

/* ---- steps ---- */

static oc_feed_cells cells_of(oc_session *s, uint32_t copy, bool training) {
    const oc_build_ids *d = &s->setup->ids;
    return (oc_feed_cells){
        .batch = oc_run_buffer(s->run, d->batch, copy),
        .batch_piece_bytes = s->setup->set->buffers[d->batch].piece_bytes,
        .order = training ? oc_run_buffer(s->run, d->order, copy) : NULL,
        .control = oc_run_buffer(s->run, d->control, copy),
    };
}

static oc_status start(oc_session *s, oc_feed *feed, uint64_t step, int32_t plan, uint64_t *ticket,
                       uint32_t *copy, oc_error *err) {
    const oc_build_ids *d = &s->setup->ids;
    OC_TRY(oc_run_begin(s->run, copy, err));
    oc_feed_cells cells = cells_of(s, *copy, plan == d->step_plan);
    OC_TRY(oc_feed_fill(feed, step, &cells, err));
    memset(oc_run_buffer(s->run, d->losses, *copy), 0, 8 * (size_t)s->setup->build.micros);
    return oc_run_submit(s->run, (uint32_t)plan, ticket, err);
}

oc_status oc_session_submit(oc_session *s, oc_feed *feed, uint64_t step, uint64_t *ticket,
                            uint32_t *copy, oc_error *err) {
    return start(s, feed, step, s->setup->ids.step_plan, ticket, copy, err);
}

oc_status oc_session_finish(oc_session *s, uint64_t ticket, uint32_t copy, oc_result_cell *result,
                            uint64_t *targets, oc_error *err) {
    const oc_build_ids *d = &s->setup->ids;
    OC_TRY(oc_run_wait(s->run, ticket, err));
    memcpy(result, oc_run_buffer(s->run, d->result, copy), sizeof *result);
    *targets = ((const oc_control_cell *)oc_run_buffer(s->run, d->control, copy))->targets;
    return OC_OK;
}

/* ---- evaluation ---- */

typedef struct pending {
    uint64_t ticket;
    uint32_t copy;
    bool live;
} pending;

static oc_status collect(oc_session *s, pending *p, double *nll, uint64_t *targets, oc_error *err) {
    if (!p->live) return OC_OK;
    const oc_build_ids *d = &s->setup->ids;
    OC_TRY(oc_run_wait(s->run, p->ticket, err));
    const double *losses = oc_run_buffer(s->run, d->losses, p->copy);
    for (int32_t m = 0; m < s->setup->build.micros; m++)
        *nll += losses[m];
    *targets += ((const oc_control_cell *)oc_run_buffer(s->run, d->control, p->copy))->targets;
    p->live = false;
    return OC_OK;
}

oc_status oc_session_evaluate(oc_session *s, oc_feed *feed, const volatile sig_atomic_t *stop,
                              double *nll, uint64_t *targets, bool *whole, oc_error *err) {
    uint64_t n = oc_feed_steps_per_epoch(feed), i = 0;
    pending last = {0};
    double sum = 0;
    uint64_t count = 0;
    for (; i < n && !(stop && *stop); i++) {
        pending next = {.live = true};
        OC_TRY(start(s, feed, i, s->setup->ids.eval_plan, &next.ticket, &next.copy, err));
        OC_TRY(collect(s, &last, &sum, &count, err));
        last = next;
    }
    OC_TRY(collect(s, &last, &sum, &count, err));
    *nll = sum;
    *targets = count;
    *whole = i == n;
    return OC_OK;
}

/* ---- questions ---- */

const void *oc_session_weights(oc_session *s, int32_t block) {
    return oc_run_buffer(s->run, s->setup->ids.weight[block], 0);
}

oc_dtype oc_session_dtype(const oc_session *s) { return s->setup->dtype; }

const oc_carry_cell *oc_session_carry(const oc_session *s) {
    return oc_run_buffer(s->run, s->setup->ids.carry, 0);
}

void oc_session_stats(const oc_session *s, oc_lane_stats out[OC_LANE_COUNT]) {
    oc_run_stats(s->run, out);
}

uint64_t oc_session_measured(const oc_session *s, oc_tier tier) {
    return oc_arena_resident(s->arenas[tier], NULL);
}

oc_status oc_session_drain(oc_session *s, oc_error *err) { return oc_run_drain(s->run, err); }

oc_status oc_session_write_trace(oc_session *s, oc_error *err) {
    return oc_run_write_trace(s->run, err);
}
