/* session.c - arenas, weights and lanes for a set-up. */
#include "engine/session.h"

#include "base/checked.h"
#include "base/log.h"
#include "mem/mem.h"
#include "model/load.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A step between its submission and its end. */
typedef struct step_in_flight {
    uint64_t ticket;
    uint32_t copy;
    bool read; /* result and targets are here: its cells may be in use again */
    oc_result_cell result;
    uint64_t targets;
} step_in_flight;

struct oc_session {
    oc_setup *setup;
    oc_memory *memories[OC_TIER_COUNT];
    oc_run *run;
    oc_step_context context;
    void *bounce; /* a block on its way to or from memory that the host cannot read; else NULL */
    step_in_flight steps[2]; /* step n in n % 2 */
    uint64_t submitted, finished;
    oc_feed *feed; /* of the step that was begun last */
    uint64_t step;
    int32_t live; /* its micro-batches with rows */
};

static oc_memory *memory_of(const oc_session *s, oc_buffer_id id) {
    return s->memories[s->setup->set->buffers[id].tier];
}

/* As queues see it. */
static void *address(const oc_session *s, oc_buffer_id id) {
    return (char *)memory_of(s, id)->base + s->setup->set->buffers[id].offset;
}

static oc_status upload(oc_session *s, oc_buffer_id id, const void *from, uint64_t bytes,
                        oc_error *err) {
    oc_memory *m = memory_of(s, id);
    return m->ops->upload(m, s->setup->set->buffers[id].offset, from, bytes, err);
}

/* ---- weights ---- */

typedef struct reader {
    oc_session *s;
    oc_tensors *tensors; /* NULL: initialise */
    void *scratch;
    uint64_t scratch_bytes;
} reader;

static bool host_reaches(const oc_session *s, oc_buffer_id id) {
    return memory_of(s, id)->ops->is_host;
}

/* The bounce holds a block twice: as it is read, and in the compute dtype behind that. */
static void *reach(const oc_session *s, oc_buffer_id id, uint64_t behind) {
    return host_reaches(s, id) ? address(s, id) : (char *)s->bounce + behind;
}

/* Read or initialise a block where the host can reach it. */
static oc_status make_block(const reader *r, int32_t block, oc_dtype t, void *to, oc_error *err) {
    const oc_setup *u = r->s->setup;
    const oc_model *m = u->model;
    if (r->tensors)
        return oc_model_read_block(m, r->tensors, block, t, to, r->scratch, r->scratch_bytes, err);
    if (t == OC_F32) {
        oc_model_init_block(m, block, u->config->seed, to);
        return OC_OK;
    }
    oc_model_init_block(m, block, u->config->seed, r->scratch);
    oc_convert(to, t, r->scratch, OC_F32, (size_t)m->blocks[block].elements);
    return OC_OK;
}

/* Into the master when there is one (then the copy follows), else into the weights' home. */
static oc_status read_block(const reader *r, int32_t block, oc_error *err) {
    oc_session *s = r->s;
    const oc_setup *u = s->setup;
    oc_buffer_id copy = u->ids.weight[block], master = u->ids.master[block];
    oc_buffer_id home = master != OC_NO_BUFFER ? master : copy;
    oc_dtype t = master != OC_NO_BUFFER ? OC_F32 : u->dtype;
    uint64_t n = u->model->blocks[block].elements;
    void *to = reach(s, home, 0), *copied = reach(s, copy, n * sizeof(float));
    OC_TRY(make_block(r, block, t, to, err));
    if (!host_reaches(s, home)) OC_TRY(upload(s, home, to, n * oc_dtype_bytes(t), err));
    if (copy == home) return OC_OK;
    oc_convert(copied, u->dtype, to, OC_F32, (size_t)n);
    if (host_reaches(s, copy)) return OC_OK;
    return upload(s, copy, copied, n * oc_dtype_bytes(u->dtype), err);
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

static oc_status open_memory(oc_session *s, oc_tier tier, oc_error *err) {
    oc_setup *u = s->setup;
    oc_arena_spec spec = {
        .tier = tier, .bytes = u->set->arena_bytes[tier], .huge_pages = true, .touch = true};
    if (tier == OC_TIER_DEVICE)
        return u->device->ops->open_memory(u->device, &s->memories[tier], &spec, err);
    return oc_memory_open_host(&s->memories[tier], &spec, err);
}

static oc_status open_memories(oc_session *s, oc_error *err) {
    oc_setup *u = s->setup;
    for (int t = 0; t < OC_TIER_COUNT; t++)
        OC_TRY(open_memory(s, (oc_tier)t, err));
    u->device->ops->lend_scratch(u->device, address(s, u->ids.scratch));
    if (!oc_setup_opaque(u)) return OC_OK;
    s->bounce = aligned_alloc(64, oc_setup_bounce_bytes(u));
    if (!s->bounce) return oc_fail(err, OC_E_MEMORY, "no memory to send weights to the device");
    return OC_OK;
}

static oc_status fill_table(oc_session *s, oc_error *err) {
    const oc_setup *u = s->setup;
    if (u->ids.table == OC_NO_BUFFER) return OC_OK;
    return upload(s, u->ids.table, u->model->inv_freq, 4 * (uint64_t)u->model->n_inv_freq, err);
}

static void fill_context(oc_session *s, int64_t total_steps) {
    oc_setup *u = s->setup;
    const oc_config *c = u->config;
    oc_step_context *x = &s->context;
    *x = (oc_step_context){.shape = u->shape,
                           .build = &u->build,
                           .sets = oc_build_sets(&u->build),
                           .optimizer = c->optimizer,
                           .lr = c->lr,
                           .beta1 = c->beta1,
                           .beta2 = c->beta2,
                           .eps = c->eps,
                           .weight_decay = c->weight_decay,
                           .momentum = c->momentum,
                           .clip = c->clip,
                           .schedule = c->schedule};
    memcpy(x->devices, u->lanes, sizeof x->devices);
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
    oc_carry_cell *c = address(s, s->setup->ids.carry);
    memset(c, 0, sizeof *c);
    c->loss_scale = 1;
    c->dscale = 1;
    if (!s->context.scaling) return;
    oc_scaler x;
    oc_scaler_init(&x, &s->context.scaler);
    c->loss_scale = x.scale;
    c->dscale = (float)oc_step_loss_scale(&s->context, x.scale);
    c->scale_hysteresis = x.hysteresis_left;
}

static oc_status open_run(oc_session *s, oc_error *err) {
    oc_run_spec spec = oc_setup_run_spec(s->setup);
    spec.bodies = oc_step_bodies;
    spec.n_bodies = OC_BODY_COUNT;
    spec.user = &s->context;
    for (int t = 0; t < OC_TIER_COUNT; t++) {
        spec.bases[t] = s->memories[t]->base;
        spec.opaque[t] = !s->memories[t]->ops->is_host;
    }
    return oc_run_open(&s->run, &spec, err);
}

static oc_status open_all(oc_session *s, int64_t total_steps, oc_error *err) {
    OC_TRY(open_memories(s, err));
    fill_context(s, total_steps);
    OC_TRY(load_weights(s, err));
    OC_TRY(fill_table(s, err));
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
        oc_memory_close(s->memories[t]);
    free(s->bounce);
    free(s);
}

/* ---- submissions ---- */

static oc_control_cell *control_of(oc_session *s, uint32_t copy) {
    return oc_run_buffer(s->run, s->setup->ids.control, copy);
}

static oc_feed_cells cells_of(oc_session *s, const oc_turn *turn, uint32_t copy) {
    const oc_build_ids *d = &s->setup->ids;
    return (oc_feed_cells){
        .batch = oc_run_buffer(s->run, d->batch, copy),
        .batch_piece_bytes = s->setup->set->buffers[d->batch].piece_bytes,
        .control = control_of(s, copy),
        .first_micro = turn->first_micro,
        .micros = turn->micros,
        .order = turn->has_order ? oc_run_buffer(s->run, d->order, copy) : NULL,
        .order_first = turn->order_first,
    };
}

static void forget_losses(oc_session *s, uint32_t copy) {
    oc_buffer_id id = s->setup->ids.losses;
    memset(oc_run_buffer(s->run, id, copy), 0, s->setup->set->buffers[id].bytes);
}

static oc_status fill(oc_session *s, oc_feed *feed, uint64_t step, const oc_turn *turn,
                      uint32_t copy, oc_error *err) {
    oc_feed_cells cells = cells_of(s, turn, copy);
    OC_TRY(oc_feed_fill(feed, step, &cells, err));
    forget_losses(s, copy);
    return OC_OK;
}

/* ---- steps ---- */

/* The step's result, from cells that the next submission but one may use again. */
static oc_status read_result(oc_session *s, step_in_flight *x, oc_error *err) {
    if (x->read) return OC_OK;
    OC_TRY(oc_run_wait(s->run, x->ticket, err));
    memcpy(&x->result, oc_run_buffer(s->run, s->setup->ids.result, x->copy), sizeof x->result);
    x->targets = control_of(s, x->copy)->targets;
    x->read = true;
    return OC_OK;
}

/* Submission k of the step that was begun last. From the second on, the step before is done once
 * begin returned: its cells may be in use from now on. */
static oc_status submit_turn(oc_session *s, int32_t k, oc_error *err) {
    oc_turn turn = oc_build_turn(&s->setup->build, s->setup->set, s->live, k);
    step_in_flight *x = &s->steps[(s->submitted - 1) % 2];
    OC_TRY(oc_run_begin(s->run, &x->copy, err));
    if (k > 0 && s->submitted > 1) OC_TRY(read_result(s, &s->steps[s->submitted % 2], err));
    OC_TRY(fill(s, s->feed, s->step, &turn, x->copy, err));
    return oc_run_submit(s->run, turn.plan, &x->ticket, err);
}

oc_status oc_session_begin(oc_session *s, oc_feed *feed, uint64_t step, oc_error *err) {
    s->feed = feed;
    s->step = step;
    s->live = oc_feed_live(feed, step);
    s->steps[s->submitted++ % 2] = (step_in_flight){.read = false};
    return submit_turn(s, 0, err);
}

oc_status oc_session_go_on(oc_session *s, oc_error *err) {
    int32_t n = oc_build_turns(&s->setup->build, s->live);
    for (int32_t k = 1; k < n; k++)
        OC_TRY(submit_turn(s, k, err));
    return OC_OK;
}

oc_status oc_session_finish(oc_session *s, oc_result_cell *result, uint64_t *targets,
                            oc_error *err) {
    if (s->finished == s->submitted)
        return oc_fail(err, OC_E_INVALID, "no step was begun that is not finished");
    step_in_flight *x = &s->steps[s->finished % 2];
    OC_TRY(read_result(s, x, err));
    *result = x->result;
    *targets = x->targets;
    s->finished++;
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
    for (int32_t m = 0; m < oc_build_eval_micros(&s->setup->build); m++)
        *nll += losses[m];
    *targets += control_of(s, p->copy)->targets;
    p->live = false;
    return OC_OK;
}

static oc_turn eval_turn(const oc_session *s) {
    return (oc_turn){.plan = oc_build_find(s->setup->set, "eval"),
                     .micros = oc_build_eval_micros(&s->setup->build)};
}

static oc_status submit_eval(oc_session *s, oc_feed *feed, uint64_t i, pending *p, oc_error *err) {
    oc_turn turn = eval_turn(s);
    OC_TRY(oc_run_begin(s->run, &p->copy, err));
    OC_TRY(fill(s, feed, i, &turn, p->copy, err));
    OC_TRY(oc_run_submit(s->run, turn.plan, &p->ticket, err));
    p->live = true;
    return OC_OK;
}

oc_status oc_session_evaluate(oc_session *s, oc_feed *feed, const volatile sig_atomic_t *stop,
                              double *nll, uint64_t *targets, bool *whole, oc_error *err) {
    uint64_t n = oc_feed_steps_per_epoch(feed), i = 0;
    pending last = {0};
    double sum = 0;
    uint64_t count = 0;
    for (; i < n && !(stop && *stop); i++) {
        pending next = {.live = false};
        OC_TRY(submit_eval(s, feed, i, &next, err));
        OC_TRY(collect(s, &last, &sum, &count, err));
        last = next;
    }
    OC_TRY(collect(s, &last, &sum, &count, err));
    *nll = sum;
    *targets = count;
    *whole = i == n;
    return OC_OK;
}

static oc_status submit_scored(oc_session *s, const oc_scorer *x, pending *p, oc_error *err) {
    oc_turn turn = eval_turn(s);
    OC_TRY(oc_run_begin(s->run, &p->copy, err));
    oc_feed_cells cells = cells_of(s, &turn, p->copy);
    OC_TRY(x->fill(x->user, p->copy, &cells, &p->live, err));
    forget_losses(s, p->copy);
    return p->live ? oc_run_submit(s->run, turn.plan, &p->ticket, err) : OC_OK;
}

static oc_status take_scored(oc_session *s, const oc_scorer *x, const pending *p, oc_error *err) {
    if (!p->live) return OC_OK;
    OC_TRY(oc_run_wait(s->run, p->ticket, err));
    return x->take(x->user, p->copy, oc_run_buffer(s->run, s->setup->ids.losses, p->copy), err);
}

oc_status oc_session_score(oc_session *s, const oc_scorer *x, const volatile sig_atomic_t *stop,
                           oc_error *err) {
    pending last = {.live = false}, next = {.live = true};
    while (next.live && !*stop) {
        OC_TRY(submit_scored(s, x, &next, err));
        OC_TRY(take_scored(s, x, &last, err));
        last = next;
    }
    return take_scored(s, x, &last, err);
}

/* ---- passes ---- */

void oc_session_next(oc_session *s, oc_pass_next *next, void *user) {
    s->context.next = next;
    s->context.next_user = user;
}

void oc_session_pass_cells(oc_session *s, oc_pass_cells *out) {
    const oc_build_ids *d = &s->setup->ids;
    *out = (oc_pass_cells){.control = oc_run_buffer(s->run, d->control, 0),
                           .batch = oc_run_buffer(s->run, d->batch, 0),
                           .pages = oc_run_buffer(s->run, d->pages, 0)};
}

oc_status oc_session_pass(oc_session *s, uint64_t *ticket, oc_error *err) {
    uint32_t copy;
    OC_TRY(oc_run_begin(s->run, &copy, err));
    return oc_run_submit(s->run, oc_build_find(s->setup->set, "pass"), ticket, err);
}

oc_status oc_session_wait(oc_session *s, uint64_t ticket, oc_error *err) {
    return oc_run_wait(s->run, ticket, err);
}

/* ---- questions ---- */

oc_status oc_session_weights(oc_session *s, int32_t block, const void **out, oc_error *err) {
    oc_buffer_id id = s->setup->ids.weight[block];
    oc_memory *m = memory_of(s, id);
    *out = address(s, id);
    if (m->ops->is_host) return OC_OK;
    const oc_buffer *b = &s->setup->set->buffers[id];
    OC_TRY(m->ops->download(m, s->bounce, b->offset, b->bytes, err));
    *out = s->bounce;
    return OC_OK;
}

oc_dtype oc_session_dtype(const oc_session *s) { return s->setup->dtype; }

const oc_carry_cell *oc_session_carry(const oc_session *s) {
    return oc_run_buffer(s->run, s->setup->ids.carry, 0);
}

void oc_session_stats(const oc_session *s, oc_lane_stats out[OC_LANE_COUNT]) {
    oc_run_stats(s->run, out);
}

uint64_t oc_session_measured(const oc_session *s, oc_tier tier) {
    return s->memories[tier]->ops->resident(s->memories[tier], NULL);
}

void oc_session_print_measured(const oc_session *s, FILE *to) {
    char planned[32], measured[32];
    for (int i = 0; i < OC_TIER_COUNT; i++) {
        uint64_t p = s->setup->set->arena_bytes[i];
        if (p == 0) continue;
        uint64_t m = oc_session_measured(s, (oc_tier)i);
        (void)fprintf(to, "%s: %llu bytes planned (%s), %llu measured (%s)\n",
                      oc_tier_name((oc_tier)i), (unsigned long long)p,
                      oc_size_format(p, planned, sizeof planned), (unsigned long long)m,
                      oc_size_format(m, measured, sizeof measured));
    }
    (void)fprintf(to, "process: %s resident, seen from outside\n",
                  oc_size_format(oc_mem_rss(), planned, sizeof planned));
}

oc_status oc_session_drain(oc_session *s, oc_error *err) { return oc_run_drain(s->run, err); }

oc_status oc_session_write_trace(oc_session *s, oc_error *err) {
    OC_TRY(oc_run_write_trace(s->run, err));
    uint64_t left_out = oc_run_trace_left_out(s->run);
    if (left_out)
        oc_log(OC_LOG_WARN,
               "--trace %s: the oldest %llu events are left out; a larger --trace-size than %llu "
               "bytes holds more",
               s->setup->config->trace_path, (unsigned long long)left_out,
               (unsigned long long)s->setup->config->trace_bytes);
    return OC_OK;
}
