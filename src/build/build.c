/* build.c - entry points: a build's life, and the questions about sets and sizes. */
#include "build/build.h"

#include "base/checked.h"
#include "build/internal.h"

#include <stdlib.h>
#include <string.h>

/* Bytes that one transfer moves at most: enough that a link does not notice where one ends. What is
 * retired passes through a stage of that size. */
enum { FETCH_BYTES = 32 << 20, RETIRE_BYTES = 16 << 20 };

/* ---- questions ---- */

int32_t oc_build_sets(const oc_build_spec *s) {
    if (s->place.interleave && s->micros > 1) return 2;
    return s->place.group < s->micros ? s->place.group : s->micros;
}

int32_t oc_build_eval_micros(const oc_build_spec *s) {
    return s->place.interleave ? 1 : oc_build_sets(s);
}

bool oc_build_rows_late(const oc_build_spec *s) {
    return s->model->tied && s->micros > s->place.group &&
           oc_build_trains(s, (uint32_t)s->model->first_table);
}

int32_t oc_build_order_micros(const oc_build_spec *s) {
    if (oc_build_rows_late(s)) return s->micros;
    return s->place.interleave ? 1 : oc_build_sets(s);
}

uint64_t oc_build_loss_bytes(const oc_build_spec *s) {
    uint64_t tokens = (uint64_t)(s->batch * s->seq);
    return sizeof(double) + (s->scores ? tokens * sizeof(oc_token_score) : 0);
}

uint32_t oc_build_pieces(const oc_build_spec *s, uint32_t block) {
    return (uint32_t)oc_ceil_div(s->model->blocks[block].elements, s->place.piece_elements);
}

uint64_t oc_build_run_bytes(const build *b, uint32_t block, uint32_t k, uint32_t n,
                            uint64_t width) {
    uint64_t piece = b->spec->place.piece_elements;
    uint64_t elements = b->spec->model->blocks[block].elements;
    return oc_min_u64(n * piece, elements - k * piece) * width;
}

piece_run oc_build_part_run(const oc_build_spec *s, oc_part p) {
    uint64_t piece = s->place.piece_elements, lo, end;
    oc_program_part_span(s->model, &s->model->blocks[s->model->first_layer], p, &lo, &end);
    piece_run r = {.first = (uint32_t)(lo / piece)};
    r.count = (uint32_t)oc_ceil_div(end, piece) - r.first;
    return r;
}

int32_t oc_build_kept(const oc_build_spec *s, oc_saved v) {
    bool reads = s->train && oc_program_backward_reads(&s->model->decoder, v);
    return reads ? s->place.kept[v] : 0;
}

int32_t oc_build_away_saved(const oc_build_spec *s, oc_saved v) {
    bool reads = s->train && oc_program_backward_reads(&s->model->decoder, v);
    int32_t others = s->model->n_layers - oc_build_kept(s, v);
    return !reads ? 0 : s->place.away[v] < others ? s->place.away[v] : others;
}

uint64_t oc_build_logits_bytes(const oc_build_spec *s, int64_t rows) {
    return oc_align_up((uint64_t)(s->batch * s->seq) * (uint64_t)rows * sizeof(float), 64);
}

bool oc_build_keeps_logits(const oc_build_spec *s, uint32_t block, uint32_t *index) {
    const oc_model *m = s->model;
    int32_t first = m->first_head + m->n_head - s->place.kept_logits;
    *index = (uint32_t)((int32_t)block - first);
    return (int32_t)block >= first;
}

static uint32_t run_of(const oc_build_spec *s, uint64_t bytes) {
    uint64_t piece = s->place.piece_elements * oc_dtype_bytes(s->dtype);
    return (uint32_t)oc_max_u64(bytes / piece, 1);
}

uint32_t oc_build_fetch_run(const oc_build_spec *s) { return run_of(s, FETCH_BYTES); }
uint32_t oc_build_retire_run(const oc_build_spec *s) { return run_of(s, RETIRE_BYTES); }

/* ---- a step as submissions ---- */

uint32_t oc_build_find(const oc_plan_set *set, const char *name) {
    for (uint32_t i = 0; i < set->n_plans; i++)
        if (strcmp(set->plans[i].name, name) == 0) return i;
    return OC_NO_PLAN;
}

static bool has_turns(const oc_build_spec *s) { return s->place.interleave && s->micros > 1; }

/* Submissions that compute, for so many micro-batches with rows. A set of several groups always
 * ends with its last plan. */
static int32_t passes(const oc_build_spec *s, int32_t live) {
    int32_t group = oc_build_sets(s);
    if (has_turns(s)) return s->micros + 1;
    if (s->micros <= group) return 1;
    int32_t n = (live + group - 1) / group;
    return n < 2 ? 2 : n;
}

int32_t oc_build_turns(const oc_build_spec *s, int32_t live) {
    return passes(s, live) + (s->place.early ? 0 : 1);
}

static oc_turn group_turn(const oc_build_spec *s, const oc_plan_set *set, int32_t k, int32_t n) {
    int32_t group = oc_build_sets(s);
    const char *name = s->place.early ? "step"
                       : n == 1       ? "whole"
                       : k == 0       ? "first"
                       : k + 1 < n    ? "middle"
                                      : "last";
    return (oc_turn){.plan = oc_build_find(set, name),
                     .first_micro = k * group,
                     .micros = group,
                     .ends_step = s->place.early};
}

/* Turn k goes backward with micro-batch k - 1 and forward with k. */
static oc_turn interleaved_turn(const oc_build_spec *s, const oc_plan_set *set, int32_t k) {
    const char *name = k == 0           ? "open"
                       : k == s->micros ? "close"
                       : k == 1         ? "turn0.first"
                       : k % 2          ? "turn0"
                                        : "turn1";
    bool both = k > 0 && k < s->micros;
    return (oc_turn){
        .plan = oc_build_find(set, name), .first_micro = k > 0 ? k - 1 : 0, .micros = both ? 2 : 1};
}

oc_turn oc_build_turn(const oc_build_spec *s, const oc_plan_set *set, int32_t live, int32_t k) {
    int32_t n = passes(s, live);
    if (k == n) return (oc_turn){.plan = oc_build_find(set, "update"), .ends_step = true};
    oc_turn t = has_turns(s) ? interleaved_turn(s, set, k) : group_turn(s, set, k, n);
    bool late = oc_build_rows_late(s), forward_only = has_turns(s) && k == 0;
    t.has_order = late ? k + 1 == n : !forward_only;
    t.order_first = late ? 0 : t.first_micro;
    return t;
}

/* ---- life of a build ---- */

static void release(build *b) {
    for (int k = 0; k < SIZE_CLASSES; k++)
        oc_slots_close(&b->weights[k]);
    oc_slots_close(&b->act_slots);
    for (int k = 0; k < MAX_KINDS; k++)
        for (int c = 0; c < SIZE_CLASSES; c++)
            free(b->starts[k].content[c]);
    free(b->slabs);
    free(b->stages);
    free(b->partials);
    free(b->device_partials);
    free(b->acts);
    for (int v = 0; v < OC_SAVED_COUNT; v++) {
        free(b->saved[v]);
        free(b->waiting[v]);
    }
    free(b->logits);
    free(b->kv);
    free(b->page_slots);
    free(b->states);
    free(b->ds);
    free(b->head_stage);
    oc_plan_builder_free(b->pb);
}

static void *words(build *b, int64_t n) {
    void *p = calloc((size_t)n + 1, sizeof(uint32_t));
    if (!p) b->failed = true;
    return p;
}

/* What an op may still compute from when a transfer begins that should run beside it: the block at
 * hand and the one before it; the activation at hand. */
enum { WEIGHTS_APART = 2, ACTS_APART = 1 };

static void allocate_weight_slots(build *b, int size_class) {
    const oc_build_spec *s = b->spec;
    uint64_t elements;
    int32_t n = oc_weights_slots(b, size_class, &elements);
    uint32_t apart = WEIGHTS_APART * (uint32_t)oc_build_sets(s); /* each serves a group in a row */
    if (!oc_slots_open(&b->weights[size_class], n, s->model->n_blocks, apart)) b->failed = true;
    for (int k = 0; k < MAX_KINDS; k++)
        b->starts[k].content[size_class] = words(b, n);
}

static void allocate_slots(build *b) {
    const oc_build_spec *s = b->spec;
    int64_t acts = oc_build_sets(s) * ((int64_t)s->model->n_layers + 1);
    for (int k = 0; k < SIZE_CLASSES; k++)
        allocate_weight_slots(b, k);
    if (!oc_slots_open(&b->act_slots, s->place.act_slots, acts, ACTS_APART)) b->failed = true;
}

static void allocate(build *b) {
    const oc_build_spec *s = b->spec;
    const oc_placement *p = &s->place;
    int64_t layers = s->model->n_layers, blocks = s->model->n_blocks, sets = oc_build_sets(s);
    allocate_slots(b);
    b->n_stages = (uint32_t)(2 * p->slabs > 4 ? 2 * p->slabs : 4);
    b->slabs = words(b, p->slabs);
    b->stages = words(b, b->n_stages);
    b->partials = words(b, blocks);
    b->device_partials = words(b, blocks);
    b->acts = words(b, sets * (layers + 1));
    b->kv = words(b, layers);
    b->page_slots = words(b, p->page_slots);
    for (int v = 0; v < OC_SAVED_COUNT; v++) {
        b->saved[v] = words(b, sets * oc_build_kept(s, (oc_saved)v));
        b->waiting[v] = words(b, sets * oc_build_away_saved(s, (oc_saved)v));
    }
    b->logits = words(b, sets * p->kept_logits);
    b->states = words(b, sets);
    b->ds = words(b, sets);
    b->head_stage = words(b, sets);
    b->ids->logits = words(b, s->model->n_head);
    b->ids->weight = words(b, blocks);
    b->ids->grad = words(b, blocks);
    b->ids->master = words(b, blocks);
    b->ids->m = words(b, blocks);
    b->ids->v = words(b, blocks);
}

/* States are where something reaches them, and the rows of an embedding come from one place. */
static oc_status check_homes(const oc_build_spec *s, oc_error *err) {
    const oc_model *m = s->model;
    oc_block_homes rows = oc_build_homes(s, (uint32_t)m->first_table);
    for (uint32_t i = 0; i < (uint32_t)m->n_blocks; i++) {
        oc_block_homes h = oc_build_homes(s, i);
        bool by_row = m->blocks[i].kind == OC_BLOCK_POSITION || m->blocks[i].kind == OC_BLOCK_TABLE;
        bool fetched = !by_row || oc_route_is_direct(h.weight, s->place.compute);
        bool updated = h.optimizer == OC_TIER_HOST || h.optimizer == s->place.compute;
        bool published = h.frozen || oc_route_is_direct(h.optimizer, h.weight);
        if (!fetched || !updated || !published)
            return oc_fail(err, OC_E_INVALID, "block %u has a home on a tier without a route", i);
        bool table = m->blocks[i].kind == OC_BLOCK_TABLE, same = h.weight == rows.weight;
        if (m->blocks[i].kind != OC_BLOCK_POSITION && !table) continue;
        if (!same || h.optimizer != rows.optimizer || (table && h.frozen != rows.frozen))
            return oc_fail(err, OC_E_INVALID, "the rows of the embeddings have one home");
    }
    return OC_OK;
}

static oc_status check_kept(const oc_build_spec *s, oc_error *err) {
    const oc_placement *p = &s->place;
    for (int v = 0; v < OC_SAVED_COUNT; v++)
        if (p->kept[v] < 0 || p->kept[v] > s->model->n_layers || p->away[v] < 0 ||
            p->away[v] > s->model->n_layers)
            return oc_fail(err, OC_E_INVALID, "the model has %d layers, not %d to keep %s in",
                           s->model->n_layers, p->kept[v] < 0 ? p->kept[v] : p->away[v],
                           oc_saved_name((oc_saved)v));
    if (p->kept_logits < 0 || p->kept_logits > s->model->n_head)
        return oc_fail(err, OC_E_INVALID, "the head has %d chunks, not %d to keep logits of",
                       s->model->n_head, p->kept_logits);
    return OC_OK;
}

/* While pages of one group are read, those of the next come. */
static oc_status check_pages(const oc_build_spec *s, oc_error *err) {
    const oc_placement *p = &s->place;
    if (p->away_pages < 0 || p->away_pages > s->model->n_layers)
        return oc_fail(err, OC_E_INVALID, "the model has %d layers, not %d with pages on the host",
                       s->model->n_layers, p->away_pages);
    if (p->away_pages > 0 && (p->page_slots < 2 || p->compute == OC_TIER_HOST))
        return oc_fail(err, OC_E_INVALID,
                       "pages on the host pass through two slots or more of a device, not %d",
                       p->compute == OC_TIER_HOST ? 0 : p->page_slots);
    return OC_OK;
}

static oc_status check(const oc_build_spec *s, oc_error *err) {
    const oc_placement *p = &s->place;
    if (s->micros < 1)
        return oc_fail(err, OC_E_INVALID, "a step has at least 1 micro-batch, not %d", s->micros);
    if (p->piece_elements == 0 || p->piece_elements % OC_NORM_CHUNK)
        return oc_fail(err, OC_E_INVALID, "pieces are multiples of %d elements", OC_NORM_CHUNK);
    if (p->group < 1 || p->group > OC_MAX_GROUP)
        return oc_fail(err, OC_E_INVALID,
                       "a block serves 1 to %d micro-batches in a row, not %d; accumulate them "
                       "depth-first (--micro-order depth), or in smaller steps",
                       OC_MAX_GROUP, p->group);
    if (p->interleave && p->group != 1)
        return oc_fail(err, OC_E_INVALID, "interleaved micro-batches are in groups of 1, not %d",
                       p->group);
    /* their places are sorted as int32 */
    if (oc_build_rows_late(s) && s->batch * s->seq > INT32_MAX / s->micros)
        return oc_fail(err, OC_E_INVALID,
                       "a step of a model with tied embeddings has at most %d tokens, not %lld x "
                       "%lld x %d",
                       INT32_MAX, (long long)s->batch, (long long)s->seq, s->micros);
    if (oc_build_passes(s) && s->micros * OC_PASS_COUNTS > OC_MAX_GROUP)
        return oc_fail(err, OC_E_INVALID, "a pass has at most %d groups, not %d",
                       OC_MAX_GROUP / OC_PASS_COUNTS, s->micros);
    if (p->early && s->micros != 1)
        return oc_fail(err, OC_E_INVALID, "early updates take one micro-batch a step, not %d",
                       s->micros);
    OC_TRY(check_pages(s, err));
    OC_TRY(check_kept(s, err));
    OC_TRY(check_homes(s, err));
    if (s->train && !oc_build_any(s, oc_build_trains))
        return oc_fail(err, OC_E_INVALID, "every block is frozen: there is nothing to train");
    if ((oc_build_any(s, oc_build_streams) && p->slots < 1) || (s->train && p->slabs < 1) ||
        p->act_slots < 0 || p->act_slots == 1)
        return oc_fail(err, OC_E_INVALID,
                       "at least 1 weight slot, 1 gradient slab, and 0 or 2 and "
                       "more activation slots are needed");
    return OC_OK;
}

static oc_status no_memory(oc_error *err) {
    return oc_fail(err, OC_E_MEMORY, "no memory to build the plan");
}

static oc_status open_build(build *b, const oc_build_spec *spec, oc_build_ids *ids, oc_error *err) {
    memset(b, 0, sizeof *b);
    memset(ids, 0, sizeof *ids);
    b->spec = spec;
    b->ids = ids;
    OC_TRY(check(spec, err));
    OC_TRY(oc_plan_builder_new(&b->pb, err));
    b->largest_moved = oc_weights_largest(spec);
    b->lowest = oc_build_lowest(spec);
    for (int p = 0; p < OC_PART_COUNT; p++)
        b->parts[p] = oc_build_part_run(spec, (oc_part)p);
    allocate(b);
    if (b->failed) return no_memory(err);
    oc_build_buffers(b);
    if (oc_plan_builder_starved(b->pb)) return no_memory(err);
    oc_build_signatures(b);
    oc_sets_list(b);
    return OC_OK;
}

static oc_status build_set(build *b, oc_plan_set **out, oc_error *err) {
    oc_sets_settle(b);
    oc_sets_emit(b);
    if (b->failed) return no_memory(err);
    return oc_plan_finish(b->pb, out, err);
}

oc_status oc_build(const oc_build_spec *spec, oc_plan_set **out, oc_build_ids *ids, oc_error *err) {
    build *b = malloc(sizeof *b);
    if (!b) return no_memory(err);
    oc_status st = open_build(b, spec, ids, err);
    if (st == OC_OK) st = build_set(b, out, err);
    release(b);
    free(b);
    if (st != OC_OK) oc_build_ids_release(ids);
    return st;
}

void oc_build_ids_release(oc_build_ids *ids) {
    if (!ids) return;
    free(ids->logits);
    free(ids->weight);
    free(ids->grad);
    free(ids->master);
    free(ids->m);
    free(ids->v);
    memset(ids, 0, sizeof *ids);
}

/* ---- sizes ---- */

/* A measured bound (tests/test_build_size.c): an op has about one wait within its plan and one for
 * the plans before it. */
enum { WAITS_PER_OP = 3 };

static oc_status lay_out(build *b, oc_build_bytes *out, oc_error *err) {
    memset(out, 0, sizeof *out);
    return oc_plan_layout(b->pb, out->arena, out->use, err);
}

static oc_status measure(build *b, oc_build_bytes *out, oc_error *err) {
    OC_TRY(lay_out(b, out, err));
    b->counting = true;
    oc_sets_settle(b);
    b->n_ops = b->n_accesses = 0;
    memset(b->lanes, 0, sizeof b->lanes);
    oc_sets_emit(b);
    memcpy(out->step, b->lanes, sizeof out->step);
    if (b->failed || oc_plan_builder_starved(b->pb)) return no_memory(err);
    out->plan = oc_plan_builder_bytes(b->pb) +
                b->n_ops * (sizeof(oc_op) + WAITS_PER_OP * sizeof(oc_wait)) +
                b->n_accesses * sizeof(oc_access);
    return OC_OK;
}

typedef oc_status question_fn(build *b, oc_build_bytes *out, oc_error *err);

static oc_status ask(question_fn *fn, const oc_build_spec *spec, oc_build_bytes *out,
                     oc_error *err) {
    build *b = malloc(sizeof *b);
    oc_build_ids ids;
    if (!b) return no_memory(err);
    oc_status st = open_build(b, spec, &ids, err);
    if (st == OC_OK) st = fn(b, out, err);
    release(b);
    free(b);
    oc_build_ids_release(&ids);
    return st;
}

oc_status oc_build_measure(const oc_build_spec *spec, oc_build_bytes *out, oc_error *err) {
    return ask(measure, spec, out, err);
}

oc_status oc_build_layout(const oc_build_spec *spec, oc_build_bytes *out, oc_error *err) {
    return ask(lay_out, spec, out, err);
}
