/* sets.c - which plans a set has, which may follow which, and what each finds and leaves. */
#include "build/internal.h"

#include "base/checked.h"

#include <stddef.h>
#include <string.h>

/* ---- kinds ---- */

static uint32_t add(build *b, plan_kind k) {
    b->kinds[b->n_kinds] = k;
    return b->n_kinds++;
}

static void follow(build *b, uint32_t from, uint32_t to) { b->follows[from][to] = true; }

static uint32_t add_update(build *b) {
    return add(b, (plan_kind){.name = "update", .part = PART_UPDATE, .last = true});
}

/* Returns the plan a step begins with; *end: the one it ends with. */
static uint32_t list_groups(build *b, uint32_t *end) {
    const oc_build_spec *s = b->spec;
    int32_t groups = (int32_t)oc_ceil_div((uint64_t)s->micros, (uint64_t)s->place.group);
    if (s->place.early) return *end = add(b, (plan_kind){"step", PART_STEP, true, true, 0, 1});
    if (groups == 1) {
        uint32_t whole = add(b, (plan_kind){"whole", PART_GROUP, true, true, 0, 1});
        *end = add_update(b);
        follow(b, whole, *end);
        return whole;
    }
    uint32_t first = add(b, (plan_kind){"first", PART_GROUP, true, false, 0, 1});
    uint32_t middle = add(b, (plan_kind){"middle", PART_GROUP, false, false, 0, 1});
    /* an epoch's last batch may have one group only: then there is none for the last plan */
    uint32_t last = add(b, (plan_kind){"last", PART_GROUP, false, true, 0, 0});
    *end = add_update(b);
    follow(b, first, middle);
    follow(b, middle, middle);
    follow(b, first, last);
    follow(b, middle, last);
    follow(b, last, *end);
    return first;
}

/* Turns alternate between the two sets of activations. All micro-batches have a turn, with rows or
 * without. */
static uint32_t list_turns(build *b, uint32_t *end) {
    int32_t n = b->spec->micros;
    uint32_t parity = (uint32_t)(n - 1) % 2;
    uint32_t open = add(b, (plan_kind){"open", PART_OPEN, false, false, 0, 1});
    uint32_t first = add(b, (plan_kind){"turn0.first", PART_TURN, true, false, 0, 1});
    uint32_t odd = n > 2 ? add(b, (plan_kind){"turn1", PART_TURN, false, false, 1, 0}) : first;
    uint32_t even = n > 3 ? add(b, (plan_kind){"turn0", PART_TURN, false, false, 0, 0}) : first;
    uint32_t close = add(b, (plan_kind){"close", PART_CLOSE, false, true, parity, 0});
    *end = add_update(b);
    follow(b, open, first);
    if (odd != first) follow(b, first, odd);
    if (even != first) {
        follow(b, odd, even);
        if (n > 4) follow(b, even, odd);
    }
    follow(b, n == 2 ? first : parity ? even : odd, close);
    follow(b, close, *end);
    return open;
}

void oc_sets_list(build *b) {
    const oc_build_spec *s = b->spec;
    uint32_t begin = 0, end = 0;
    bool turns = s->place.interleave && s->micros > 1;
    if (oc_build_passes(s)) {
        uint32_t pass = add(b, (plan_kind){"pass", PART_PASS, false, false, 0, 0});
        b->opens[pass] = true;
        follow(b, pass, pass);
        return;
    }
    if (s->train) {
        begin = turns ? list_turns(b, &end) : list_groups(b, &end);
        b->opens[begin] = true;
        follow(b, end, begin);
    }
    if (s->train && !s->with_eval) return;
    uint32_t eval = add(b, (plan_kind){"eval", PART_EVAL, false, false, 0, 1});
    b->opens[eval] = true;
    follow(b, eval, eval);
    if (!s->train) return;
    follow(b, end, eval);
    follow(b, eval, begin);
}

/* ---- weight slots from plan to plan ---- */

static void begin_kind(build *b, uint32_t k) {
    const oc_build_spec *s = b->spec;
    b->kind = b->kinds[k];
    b->micros = (uint32_t)(b->kind.part == PART_EVAL    ? oc_build_eval_micros(s)
                           : s->place.group < s->micros ? s->place.group
                                                        : s->micros);
    b->next_slab = b->next_stage = 0;
    memset(b->head_stage, 0, (size_t)oc_build_sets(s) * sizeof *b->head_stage);
}

static void walk_ops(build *b, uint32_t k, walk why) {
    begin_kind(b, k);
    b->walk = why;
    oc_step_ops(b);
    b->walk = WALK_EMIT;
}

/* The plan whose uses tell what is worth keeping: one that the same weights serve. */
static uint32_t kind_after(const build *b, uint32_t k) {
    if (b->kinds[k].part == PART_UPDATE) return MAX_KINDS;
    for (uint32_t n = 0; n < b->n_kinds; n++)
        if (b->follows[k][n] && b->kinds[n].part != PART_UPDATE) return n;
    return MAX_KINDS;
}

/* Slots as they are when plan k begins, and what it and the next one want from them. */
static void prepare(build *b, uint32_t k) {
    uint32_t after = kind_after(b, k);
    b->act_slots.n_trace = 0;
    for (int c = 0; c < SIZE_CLASSES; c++)
        b->weights[c].n_trace = 0;
    walk_ops(b, k, WALK_RECORD);
    if (after < MAX_KINDS) walk_ops(b, after, WALK_AHEAD);
    oc_slots_look_ahead(&b->act_slots);
    for (int c = 0; c < SIZE_CLASSES; c++) {
        oc_slots_look_ahead(&b->weights[c]);
        oc_slots_begin(&b->weights[c], b->starts[k].content[c]);
    }
    oc_slots_begin(&b->act_slots, NULL);
}

static void forget(slot_pool *w) { memset(w->content, 0xff, (size_t)w->n * sizeof *w->content); }

/* What an update changes is of no use any more; what is frozen stays. */
static void forget_trained(const build *b, slot_pool *w) {
    for (int32_t i = 0; i < w->n; i++)
        if (w->content[i] != OC_NO_KEY && oc_build_trains(b->spec, w->content[i]))
            w->content[i] = OC_NO_KEY;
}

/* What the plan leaves in the slots: nothing that is of use when it changes the weights. */
static void play(build *b, uint32_t k) {
    prepare(b, k);
    walk_ops(b, k, WALK_PLAY);
    bool updates = b->kind.part == PART_UPDATE || b->kind.part == PART_STEP;
    for (int c = 0; updates && c < SIZE_CLASSES; c++)
        forget_trained(b, &b->weights[c]);
}

/* Keep of what a pool held at the plan's start what it holds now. */
static bool meet_pool(const slot_pool *w, uint32_t *content, bool known) {
    bool changed = !known;
    if (!known) memcpy(content, w->content, (size_t)w->n * sizeof *content);
    for (int32_t i = 0; i < w->n; i++) {
        if (content[i] == w->content[i] || content[i] == OC_NO_KEY) continue;
        content[i] = OC_NO_KEY;
        changed = true;
    }
    return changed;
}

static bool meet(const build *b, slot_state *to) {
    bool changed = false;
    for (int c = 0; c < SIZE_CLASSES; c++)
        changed = meet_pool(&b->weights[c], to->content[c], to->known) || changed;
    to->known = true;
    return changed;
}

/* The most that every plan before leaves in the slots: from what is known, until nothing changes.
 */
void oc_sets_settle(build *b) {
    for (uint32_t k = 0; k < b->n_kinds; k++) {
        if (!b->opens[k]) continue;
        for (int c = 0; c < SIZE_CLASSES; c++)
            forget(&b->weights[c]);
        (void)meet(b, &b->starts[k]);
    }
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t a = 0; a < b->n_kinds; a++) {
            if (!b->starts[a].known) continue;
            play(b, a);
            for (uint32_t n = 0; n < b->n_kinds; n++)
                if (b->follows[a][n]) changed = meet(b, &b->starts[n]) || changed;
        }
    }
}

/* ---- contracts ---- */

static void hold_pool(build *b, const slot_pool *w, hold_fn *hold) {
    const oc_build_spec *s = b->spec;
    for (int32_t i = 0; i < w->n; i++)
        if (w->content[i] != OC_NO_KEY)
            hold(b->pb, w->slots[i], 0, oc_build_pieces(s, w->content[i]),
                 oc_state_value(s, OC_V_WEIGHT, w->content[i], 0));
}

static void hold_slots(build *b, hold_fn *hold) {
    for (int c = 0; c < SIZE_CLASSES; c++)
        hold_pool(b, &b->weights[c], hold);
}

static void hold_home(build *b, hold_fn *hold, oc_buffer_id id, oc_what what, uint32_t block,
                      uint16_t version) {
    oc_value v = oc_state_value(b->spec, what, block, 0);
    v.version = oc_build_trains(b->spec, block) ? version : 0;
    if (id != OC_NO_BUFFER) hold(b->pb, id, 0, UINT32_MAX, v);
}

/* Homes of states, `version` versions on. */
static void hold_homes(build *b, hold_fn *hold, uint16_t version) {
    const oc_build_ids *d = b->ids;
    for (uint32_t i = 0; i < (uint32_t)b->spec->model->n_blocks; i++) {
        hold_home(b, hold, d->weight[i], OC_V_WEIGHT, i, version);
        for (int k = 0; k < STATE_ROWS; k++) {
            oc_buffer_id id = oc_state_ids(d, &oc_state_rows[k])[i];
            if (id != d->weight[i]) hold_home(b, hold, id, oc_state_rows[k].what, i, version);
        }
    }
    if (d->carry != OC_NO_BUFFER) {
        oc_value v = oc_value_of(OC_V_CARRY, 0, 0, 0);
        v.version = version;
        hold(b->pb, d->carry, 0, UINT32_MAX, v);
    }
    if (d->table != OC_NO_BUFFER)
        hold(b->pb, d->table, 0, UINT32_MAX, oc_value_of(OC_V_CONST, 0, 0, 0));
}

/* Gradients, rows that wait, the loss: as far as they are between plans of a step. */
static void hold_sums(build *b, hold_fn *hold, bool all) {
    const oc_build_spec *s = b->spec;
    const oc_model *m = s->model;
    uint32_t stage = all ? OC_STAGE_ALL : OC_STAGE_SOME;
    bool late = oc_build_rows_late(s);
    for (uint32_t i = 0; i < (uint32_t)m->n_blocks; i++) {
        bool rows = i == (uint32_t)m->position_block && m->position_block >= 0;
        if (b->ids->grad[i] == OC_NO_BUFFER || (late && rows && !all)) continue;
        hold(b->pb, b->ids->grad[i], 0, UINT32_MAX, oc_grad_home(s, i, stage, 0));
    }
    oc_value waiting = oc_value_of(OC_V_ROWS, UINT32_MAX, 0, stage);
    bool positions = oc_build_trains_positions(s), apart = b->dpositions != b->drows;
    if (late && !all && (oc_build_trains_rows(s) || (positions && !apart)))
        hold(b->pb, b->drows, 0, UINT32_MAX, waiting);
    if (late && !all && positions && apart) hold(b->pb, b->dpositions, 0, UINT32_MAX, waiting);
    hold(b->pb, b->loss, 0, 1, oc_value_of(OC_V_LOSS, 0, 0, stage));
}

static void hold_partials(build *b, hold_fn *hold) {
    for (uint32_t i = 0; i < (uint32_t)b->spec->model->n_blocks; i++) {
        if (!oc_build_trains(b->spec, i)) continue;
        oc_buffer_id id =
            b->device_partials[i] == OC_NO_BUFFER ? b->partials[i] : b->device_partials[i];
        hold(b->pb, id, 0, UINT32_MAX, oc_value_of(OC_V_PARTIALS, i, 0, 0));
    }
}

/* What the forward of a micro-batch leaves for its backward in the next turn; there when the
 * micro-batch has rows. */
static void hold_forward(build *b, hold_fn *hold, uint32_t micro, bool maybe) {
    const oc_build_spec *s = b->spec;
    uint32_t layers = (uint32_t)s->model->n_layers;
    uint32_t live = (uint32_t)(offsetof(oc_control_cell, live) / 4) + micro;
    for (uint32_t l = 0; l <= layers; l++) {
        hold(b->pb, b->acts[oc_act_index(b, l, micro)], 0, 1, oc_act_value(l, micro));
        if (maybe) oc_plan_held_if(b->pb, b->ids->control, live);
    }
    oc_layers_hold(b, hold, micro, maybe ? b->ids->control : OC_NO_BUFFER, live);
    if (!oc_build_away(b)) return;
    hold(b->pb, b->batch_copy, micro, 1, oc_value_of(OC_V_BATCH, 0, micro, 0));
    if (maybe) oc_plan_held_if(b->pb, b->ids->control, live);
}

static void start_contract(build *b) {
    const plan_kind *k = &b->kind;
    hold_slots(b, oc_plan_starts);
    hold_homes(b, oc_plan_starts, 0);
    if (k->part == PART_PASS) oc_pass_hold(b, oc_plan_starts, 0);
    bool turn = k->part == PART_TURN || k->part == PART_CLOSE;
    bool sums = !k->first && (k->part == PART_GROUP || turn);
    if (k->part == PART_UPDATE) {
        hold_sums(b, oc_plan_starts, true);
        hold_partials(b, oc_plan_starts);
    } else if (sums) {
        hold_sums(b, oc_plan_starts, false);
    }
    if (turn) hold_forward(b, oc_plan_starts, k->parity, !k->first);
}

static void hold_losses(build *b) {
    const plan_kind *k = &b->kind;
    bool turn = k->part == PART_TURN || k->part == PART_CLOSE;
    if (k->part == PART_OPEN || k->part == PART_UPDATE || k->part == PART_PASS) return;
    uint32_t n = turn ? 1 : b->micros, first = turn ? k->parity : 0;
    for (uint32_t i = first; i < first + n; i++) {
        oc_plan_ends(b->pb, b->ids->losses, i, 1, oc_value_of(OC_V_LOSSES, 0, i, 1));
        if (i >= k->pred_from)
            oc_plan_held_if(b->pb, b->ids->control,
                            (uint32_t)(offsetof(oc_control_cell, live) / 4) + i);
    }
}

static void advance(build *b) {
    oc_plan_advances(b->pb, OC_V_WEIGHT, 1);
    oc_plan_advances(b->pb, OC_V_CARRY, 1);
    for (int k = 0; k < STATE_ROWS; k++)
        oc_plan_advances(b->pb, oc_state_rows[k].what, 1);
}

static void end_contract(build *b) {
    const plan_kind *k = &b->kind;
    bool updates = k->part == PART_UPDATE || k->part == PART_STEP;
    hold_losses(b);
    hold_homes(b, oc_plan_ends, updates ? 1 : 0);
    if (updates) {
        advance(b);
        oc_plan_ends(b->pb, b->ids->result, 0, 1,
                     oc_value_of(OC_V_RESULT, 0, 0, k->part == PART_STEP ? 2 : 1));
        return;
    }
    hold_slots(b, oc_plan_ends);
    if (k->part == PART_PASS) {
        oc_pass_hold(b, oc_plan_ends, 1);
        oc_pass_advance(b);
    }
    if (k->part == PART_OPEN) hold_forward(b, oc_plan_ends, 0, false);
    if (k->part == PART_TURN) hold_forward(b, oc_plan_ends, 1 - k->parity, true);
    if (k->part == PART_GROUP || k->part == PART_TURN || k->part == PART_CLOSE)
        hold_sums(b, oc_plan_ends, k->last);
    if (k->last) hold_partials(b, oc_plan_ends);
}

/* ---- emission ---- */

static void emit(build *b, uint32_t k) {
    prepare(b, k);
    begin_kind(b, k);
    (void)oc_plan_begin(b->pb, b->kind.name);
    oc_plan_pred_from(b->pb, (uint16_t)b->kind.pred_from);
    start_contract(b);
    oc_step_ops(b);
    end_contract(b);
}

/* How often a plan runs in a step whose micro-batches all have rows. */
static double runs_of(const build *b, uint32_t k) {
    const oc_build_spec *s = b->spec;
    const plan_kind *kind = &b->kinds[k];
    int32_t groups = (s->micros + oc_build_sets(s) - 1) / oc_build_sets(s);
    if (kind->part == PART_EVAL) return 0;
    if (kind->part == PART_GROUP && !kind->first && !kind->last) return groups - 2;
    if (kind->part != PART_TURN || kind->first) return 1;
    return kind->parity ? (s->micros - 1) / 2 : (s->micros - 2) / 2;
}

/* The plan's work counts as often as it runs. */
static void emit_counted(build *b, uint32_t k) {
    emit_count before = oc_emit_count(b);
    emit(b, k);
    oc_emit_times(b, before, 1, runs_of(b, k));
}

void oc_sets_emit(build *b) {
    for (uint32_t k = 0; k < b->n_kinds; k++)
        emit_counted(b, k);
    for (uint32_t a = 0; a < b->n_kinds && !b->counting; a++) {
        if (b->opens[a]) oc_plan_follows(b->pb, OC_NO_PLAN, a);
        for (uint32_t n = 0; n < b->n_kinds; n++)
            if (b->follows[a][n]) oc_plan_follows(b->pb, a, n);
    }
}
