/* run.c - the session's side of the executor: what bodies ask, errors, submissions, questions. */
#include "run/inner.h"

#include "base/checked.h"
#include "base/clock.h"

/* ---- tasks ---- */

static uint8_t *buffer_address(const oc_plan_set *set, void *const *bases, oc_buffer_id id,
                               uint32_t copy) {
    const oc_buffer *b = &set->buffers[id];
    uint64_t at = b->offset;
    if (b->life == OC_LIFE_SUBMISSION) at += copy * oc_align_up(b->bytes, 64);
    return (uint8_t *)bases[b->tier] + at;
}

void *oc_task_address(const oc_task *t, const oc_access *a) {
    return buffer_address(t->set, t->bases, a->buffer, t->copy) +
           a->first * t->set->buffers[a->buffer].piece_bytes;
}

uint64_t oc_task_bytes(const oc_task *t, const oc_access *a) {
    const oc_buffer *b = &t->set->buffers[a->buffer];
    uint64_t from = a->first * b->piece_bytes;
    uint64_t to = oc_min_u64(from + a->count * b->piece_bytes, b->bytes);
    return to > from ? to - from : 0;
}

const oc_access *oc_task_access(const oc_task *t, oc_role role) {
    for (uint32_t i = 0; i < t->op->n_accesses; i++)
        if (t->accesses[i].role == role) return &t->accesses[i];
    return NULL;
}

void *oc_task_role(const oc_task *t, oc_role role) {
    const oc_access *a = oc_task_access(t, role);
    return a ? oc_task_address(t, a) : NULL;
}

/* ---- errors ---- */

void oc_run_poison(oc_run *r, const oc_op *o, oc_status s, const oc_error *e) {
    pthread_mutex_lock(&r->error_lock);
    if (!atomic_load(&r->failed)) {
        const char *text = e->message[0] ? e->message : oc_status_sentence(s);
        oc_fail(&r->error, s, "%s: %s", oc_op_kind_name((oc_op_kind)o->kind), text);
        atomic_store_explicit(&r->failed, true, memory_order_release);
    }
    pthread_mutex_unlock(&r->error_lock);
}

void oc_run_poison_queue(oc_run *r, const oc_op *o, oc_status s) {
    oc_error e;
    oc_fail(&e, s, "the %s of lane %s: %s", r->lanes[o->lane].queue->ops->name,
            oc_lane_name((oc_lane)o->lane), oc_status_sentence(s));
    oc_run_poison(r, o, s, &e);
}

static oc_status first_error(oc_run *r, oc_error *err) {
    if (!atomic_load_explicit(&r->failed, memory_order_acquire)) return OC_OK;
    /* Written before the flag was set, never after. */
    if (err) *err = r->error;
    return r->error.status;
}

oc_status oc_run_write_trace(oc_run *r, oc_error *err) {
    oc_gate_wait(&r->completed, r->n_submitted);
    return oc_trace_write(r, err);
}

/* ---- submissions ---- */

oc_status oc_run_begin(oc_run *r, uint32_t *copy, oc_error *err) {
    if (r->n_submitted >= 1) oc_gate_wait(&r->completed, r->n_submitted - 1);
    if (oc_gate_value(&r->completed) == r->n_submitted) oc_guard_open_all(r);
    OC_TRY(first_error(r, err));
    r->begun = true;
    *copy = (uint32_t)(r->n_submitted % 2);
    return OC_OK;
}

/* Waits were derived for the successions that the set lists, and for no others. */
static oc_status check_succession(const oc_run *r, uint32_t plan, oc_error *err) {
    const oc_plan_set *set = r->set;
    if (plan >= set->n_plans)
        return oc_fail(err, OC_E_INVALID, "there is no plan %u in a set of %u", plan, set->n_plans);
    const char *name = set->plans[plan].name;
    if (r->last_plan == OC_NO_PLAN) {
        if (set->opens[plan]) return OC_OK;
        return oc_fail(err, OC_E_INVALID, "plan %.16s cannot be the first", name);
    }
    if (set->follows[r->last_plan][plan]) return OC_OK;
    return oc_fail(err, OC_E_INVALID, "plan %.16s cannot follow plan %.16s", name,
                   set->plans[r->last_plan].name);
}

/* Give the submission its place in the count of every lane's ops. */
static void number_ops(oc_run *r, oc_submission *s, const oc_submission *before) {
    for (int l = 0; l < OC_LANE_COUNT; l++) {
        s->base_before[l] = before->base[l];
        s->base[l] = r->total[l];
        r->total[l] += r->set->plans[s->plan].lane_ops[l];
    }
}

oc_status oc_run_submit(oc_run *r, uint32_t plan, uint64_t *ticket, oc_error *err) {
    OC_TRY(check_succession(r, plan, err));
    if (!r->begun)
        return oc_fail(err, OC_E_INVALID, "a plan was submitted without oc_run_begin before it");
    OC_TRY(first_error(r, err));
    OC_TRY(oc_guard_close_all(r, err));
    uint64_t step = r->n_submitted + 1;
    oc_submission *s = &r->slots[step % 2];
    s->plan = plan;
    s->before = r->last_plan;
    s->copy = (uint32_t)(r->n_submitted % 2);
    s->submitted_ns = (uint64_t)oc_clock_ns();
    number_ops(r, s, &r->slots[r->n_submitted % 2]);
    atomic_store(&s->workers_left, r->n_workers);
    r->last_plan = plan;
    r->n_submitted = step;
    r->begun = false;
    oc_gate_raise(&r->submitted, step);
    *ticket = step;
    return OC_OK;
}

oc_status oc_run_wait(oc_run *r, uint64_t ticket, oc_error *err) {
    if (ticket == 0 || ticket > r->n_submitted)
        return oc_fail(err, OC_E_INVALID, "ticket %llu was never issued",
                       (unsigned long long)ticket);
    oc_gate_wait(&r->completed, ticket);
    if (oc_gate_value(&r->completed) == r->n_submitted) oc_guard_open_all(r);
    return first_error(r, err);
}

oc_status oc_run_drain(oc_run *r, oc_error *err) {
    if (r->n_submitted) return oc_run_wait(r, r->n_submitted, err);
    return OC_OK;
}

/* ---- questions ---- */

void *oc_run_buffer(const oc_run *r, oc_buffer_id id, uint32_t copy) {
    return buffer_address(r->set, r->spec.bases, id, copy);
}

void oc_run_stats(const oc_run *r, oc_lane_stats out[OC_LANE_COUNT]) {
    for (int l = 0; l < OC_LANE_COUNT; l++) {
        const oc_lane_state *s = &r->lanes[l];
        out[l].busy_ns = atomic_load_explicit(&s->busy_ns, memory_order_relaxed);
        out[l].ops = atomic_load_explicit(&s->ops, memory_order_relaxed);
        out[l].bytes = atomic_load_explicit(&s->bytes, memory_order_relaxed);
    }
}

uint64_t oc_run_host_bytes(const oc_run *r) { return r->host_bytes; }

uint64_t oc_run_measure(const oc_run_spec *spec) { return oc_layout_bytes(spec); }

uint64_t oc_run_trace_left_out(const oc_run *r) {
    uint64_t n = 0;
    for (int l = 0; l < OC_LANE_COUNT; l++)
        n += oc_trace_left_out(&r->lanes[l].ring);
    return n;
}
