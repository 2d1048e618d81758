/* Every placement of the training plans passes verify, and no access of them can be left out. */
#include "plan_drops.h"

#include "build/cells.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* A layer's program may not run in place. */
static void inputs_survive(const oc_plan *p) {
    for (uint32_t i = 0; i < p->n_ops; i++) {
        const oc_access *x = &p->accesses[p->ops[i].first_access];
        for (uint32_t in = 0; in < p->ops[i].n_accesses; in++)
            for (uint32_t out = 0; out < p->ops[i].n_accesses; out++)
                if (x[in].role == OC_ROLE_IN && x[out].role == OC_ROLE_OUT)
                    assert_int_not_equal(x[in].buffer, x[out].buffer);
    }
}

typedef struct placements {
    int early, interleaved, host, device; /* the last two: resident there */
} placements;

static void check_placement(const oc_build_spec *s, bool poison, placements *n) {
    oc_plan_set *set = built(s);
    oc_error err = {0};
    verified(set);
    for (uint32_t q = 0; q < set->n_plans; q++)
        inputs_survive(&set->plans[q]);
    oc_build_bytes bytes;
    assert_int_equal(oc_build_measure(s, &bytes, &err), OC_OK);
    assert_memory_equal(bytes.arena, set->arena_bytes, sizeof bytes.arena);
    assert_memory_equal(bytes.use, set->use_bytes, sizeof bytes.use);
    assert_true(bytes.plan >= oc_plan_host_bytes(set));
    if (poison) {
        assert_int_equal(oc_plan_add_poison(set, OC_BODY_POISON, &err), OC_OK);
        verified(set);
    }
    oc_plan_set_free(set);
    n->early += s->place.early;
    n->interleaved += s->place.interleave && s->micros > 1;
    n->host += s->place.resident && s->place.compute == OC_TIER_HOST;
    n->device += s->place.resident && s->place.compute != OC_TIER_HOST;
}

/* Nothing, everything, or values in different numbers of layers. */
static void keep(oc_placement *p, int what, int32_t layers) {
    for (int v = 0; v < OC_SAVED_COUNT; v++)
        p->kept[v] = what == 0 ? 0 : what == 1 ? layers : (v * 2 + what) % (layers + 1);
}

static void sweep(const char *json) {
    oc_model *m = case_model(json);
    int count = 0;
    placements tally = {0};
    static const int steps[] = {1, 2, 3, 5};
    for (int k = 0; k < 4; k++) {
        int micros = steps[k];
        for (int group = 1; group <= micros; group++)
            for (int slots = 0; slots <= 4; slots++) /* 0: resident */
                for (int acts = 0; acts <= 3; acts += acts ? 1 : 2)
                    for (int kept = 0; kept < 4; kept += 1 + (micros > 2))
                        for (int dtype = 0; dtype < 2; dtype++) {
                            oc_build_spec s = case_spec(m);
                            s.dtype = dtype ? OC_BF16 : OC_F32;
                            s.micros = micros;
                            s.place.group = group;
                            s.place.resident = slots == 0;
                            s.place.compute =
                                slots == 0 && count % 3 == 0 ? OC_TIER_HOST : OC_TIER_DEVICE;
                            s.place.slots = slots;
                            s.place.act_slots = acts;
                            keep(&s.place, kept, m->n_layers);
                            s.place.kept_logits = count % 3 == 0;
                            s.place.slabs = 1 + count % 3;
                            s.place.interleave = group == 1 && count % 2;
                            s.place.early = micros == 1 && count % 5 < 3;
                            s.with_eval = count % 4 != 0;
                            check_placement(&s, count % 7 == 0, &tally);
                            count++;
                        }
    }
    assert_true(tally.early > 5 && tally.interleaved > 5);
    assert_true(tally.host > 5 && tally.device > 5);
    assert_true(count >= 100);
    oc_model_close(m);
}

static void every_placement_of_untied_llama_verifies(void **state) {
    (void)state;
    sweep(llama_untied);
}

static void every_placement_of_tied_llama_verifies(void **state) {
    (void)state;
    sweep(llama_tied);
}

static void every_placement_of_gpt2_verifies(void **state) {
    (void)state;
    sweep(gpt2_small);
}

static void every_placement_of_models_with_a_front_verifies(void **state) {
    (void)state;
    sweep(bloom_small);
    sweep(opt_projected);
    sweep(gemma2_small);
}

static void drop_each(const char *json, oc_placement place, int micros) {
    oc_model *m = case_model(json);
    oc_build_spec s = case_spec(m);
    s.micros = micros;
    s.place = place;
    oc_plan_set *set = built(&s);
    verified(set);
    drops n = {0};
    for (uint32_t q = 0; q < set->n_plans; q++)
        for (uint32_t i = 0; i < set->plans[q].n_ops; i++)
            for (uint32_t k = 0; k < set->plans[q].ops[i].n_accesses; k++)
                drop_one(set, &set->plans[q], &set->plans[q].ops[i], k, &n);
    assert_true(n.caught > 150);
    assert_int_equal(n.needless, 0);
    oc_plan_set_free(set);
    oc_model_close(m);
}

static void no_access_of_a_streamed_step_can_be_dropped(void **state) {
    (void)state;
    drop_each(llama_untied,
              (oc_placement){.compute = OC_TIER_DEVICE,
                             .slots = 2,
                             .slabs = 2,
                             .group = 1,
                             .act_slots = 3,
                             .kept = {1, 1, 1, 1, 1},
                             .piece_elements = OC_NORM_CHUNK},
              2);
}

static void no_access_of_a_step_with_a_front_can_be_dropped(void **state) {
    (void)state;
    const char *const models[] = {bloom_small, opt_projected, gemma2_small};
    for (int i = 0; i < 3; i++)
        drop_each(models[i],
                  (oc_placement){.compute = OC_TIER_DEVICE,
                                 .slots = 2,
                                 .slabs = 2,
                                 .group = 1,
                                 .kept = {1, 1, 1, 1, 1},
                                 .interleave = i == 1,
                                 .piece_elements = OC_NORM_CHUNK},
                  2);
}

/* Values kept in different numbers of layers, and logits. */
static void no_access_of_a_step_that_keeps_some_values_can_be_dropped(void **state) {
    (void)state;
    static const char neox[] =
        "{\"model_type\":\"gpt_neox\",\"hidden_size\":48,\"intermediate_size\":96,"
        "\"num_hidden_layers\":2,\"num_attention_heads\":3,\"vocab_size\":300,"
        "\"use_parallel_residual\":true,\"max_position_embeddings\":64}";
    const char *const models[] = {llama_tied, gemma2_small, neox};
    for (int i = 0; i < 6; i++)
        drop_each(models[i % 3],
                  (oc_placement){.compute = OC_TIER_DEVICE,
                                 .slots = 2,
                                 .slabs = 1,
                                 .group = 1,
                                 .interleave = i >= 3,
                                 .kept = {1, 0, 2, i % 2, 1 - i % 2},
                                 .kept_logits = 1,
                                 .piece_elements = OC_NORM_CHUNK},
                  2);
}

static void no_access_of_a_tied_breadth_first_step_can_be_dropped(void **state) {
    (void)state;
    drop_each(llama_tied,
              (oc_placement){.compute = OC_TIER_DEVICE,
                             .slots = 3,
                             .slabs = 1,
                             .group = 2,
                             .piece_elements = OC_NORM_CHUNK},
              2);
}

static void no_access_of_an_interleaved_step_can_be_dropped(void **state) {
    (void)state;
    drop_each(llama_untied,
              (oc_placement){.compute = OC_TIER_DEVICE,
                             .slots = 4,
                             .slabs = 2,
                             .group = 1,
                             .interleave = true,
                             .act_slots = 3,
                             .piece_elements = OC_NORM_CHUNK},
              3);
}

static void no_access_of_a_resident_step_can_be_dropped(void **state) {
    (void)state;
    static const oc_tier tiers[] = {OC_TIER_HOST, OC_TIER_DEVICE};
    for (int i = 0; i < 2; i++)
        drop_each(gpt2_small,
                  (oc_placement){.compute = tiers[i],
                                 .resident = true,
                                 .slabs = 1,
                                 .group = 1,
                                 .piece_elements = OC_NORM_CHUNK},
                  2);
}

static void no_access_of_an_early_step_can_be_dropped(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++)
        drop_each(i ? llama_untied : gpt2_small,
                  (oc_placement){.compute = OC_TIER_DEVICE,
                                 .slots = 2,
                                 .slabs = 2,
                                 .group = 1,
                                 .early = true,
                                 .piece_elements = OC_NORM_CHUNK},
                  1);
}

/* No data race, yet wrong: the rows for step t + 1 read before the update of step t. */
static void a_fetch_of_next_steps_value_before_its_update_is_refused(void **state) {
    (void)state;
    oc_model *m = case_model(llama_untied);
    oc_build_spec s = case_spec(m);
    oc_plan_set *set = built(&s);
    oc_plan *p = &set->plans[0];
    int changed = 0;
    for (uint32_t i = 0; i < p->n_ops && !changed; i++) {
        if (p->ops[i].kind != OC_OP_FETCH || p->ops[i].block == UINT32_MAX) continue;
        for (uint32_t k = 0; k < p->ops[i].n_accesses; k++) {
            oc_access *a = &p->accesses[p->ops[i].first_access + k];
            if (a->role == OC_ROLE_SRC || a->role == OC_ROLE_DST) {
                a->value.version = 1;
                changed = 1;
            }
        }
    }
    assert_true(changed);
    oc_error err = {0};
    assert_int_equal(oc_plan_derive(set, &err), OC_OK);
    assert_int_equal(oc_plan_verify(set, &err), OC_E_PLAN);
    assert_non_null(strstr(err.message, "not there at that point"));
    oc_plan_set_free(set);
    oc_model_close(m);
}

/* ---- ops that do not do what their accesses say ---- */

static bool accepted(oc_plan_set *set) {
    oc_error err = {0};
    assert_int_equal(oc_plan_derive(set, &err), OC_OK);
    oc_status st = oc_plan_verify(set, &err);
    if (st != OC_OK && st != OC_E_PLAN) fail_msg("%s", err.message);
    return st == OC_OK;
}

static oc_plan_set *bendable(oc_model **m, oc_build_ids *ids) {
    *m = case_model(llama_tied);
    oc_build_spec s = case_spec(*m);
    s.micros = 3;
    s.place.act_slots = 2;
    oc_plan_set *set = NULL;
    oc_error err = {0};
    if (oc_build(&s, &set, ids, &err) != OC_OK) fail_msg("%s", err.message);
    assert_true(accepted(set));
    return set;
}

static void unbend(oc_model *m, oc_build_ids *ids, oc_plan_set *set) {
    assert_true(accepted(set));
    oc_build_ids_release(ids);
    oc_plan_set_free(set);
    oc_model_close(m);
}

static void an_access_one_piece_short_is_refused(void **state) {
    (void)state;
    oc_model *m;
    oc_build_ids ids;
    oc_plan_set *set = bendable(&m, &ids);
    int tried = 0;
    for (uint32_t q = 0; q < set->n_plans; q++)
        for (uint32_t i = 0; i < set->plans[q].n_accesses; i++) {
            oc_access *a = &set->plans[q].accesses[i];
            if (a->count < 2) continue;
            tried++;
            a->count--;
            if (accepted(set))
                fail_msg("%s of %s", oc_role_name((oc_role)a->role), set->buffers[a->buffer].name);
            a->count++;
        }
    assert_true(tried > 20);
    unbend(m, &ids, set);
}

/* Nothing that these touch belongs to a block. */
static bool blockless(uint16_t body) {
    return body == OC_BODY_EMBED || body == OC_BODY_LOSS || body == OC_BODY_COPY_ROWS ||
           body == OC_BODY_FOLD_LOSS || body == OC_BODY_FOLD_LOSS_FIRST || body == OC_BODY_BEGIN;
}

/* Bodies look at the op's block and piece, so they must be those of the accesses. */
static void an_op_of_another_block_or_piece_is_refused(void **state) {
    (void)state;
    oc_model *m;
    oc_build_ids ids;
    oc_plan_set *set = bendable(&m, &ids);
    for (uint32_t q = 0; q < set->n_plans; q++)
        for (uint32_t i = 0; i < set->plans[q].n_ops; i++) {
            oc_op *op = &set->plans[q].ops[i];
            uint32_t block = op->block;
            op->block = block ? block - 1 : block + 1;
            if (!blockless(op->body) && accepted(set)) fail_msg("block of op %u", i);
            op->block = block;
            if (op->piece == UINT32_MAX) continue;
            op->piece++;
            if (accepted(set)) fail_msg("piece of op %u", i);
            op->piece--;
        }
    unbend(m, &ids, set);
}

/* Returns whether it could be tried. */
static bool bend_pred(oc_plan_set *set, oc_op *op, const oc_build_ids *ids) {
    uint32_t pred = op->pred, index = op->pred_index;
    if (pred != OC_NO_BUFFER) {
        op->pred_index++;
    } else if (op->body == OC_BODY_FOLD_LAST || op->body == OC_BODY_NORM) {
        op->pred = ids->control;
        op->pred_index = (uint32_t)offsetof(oc_control_cell, live) / 4;
    } else {
        return false;
    }
    if (accepted(set)) fail_msg("predicate of an op of body %d", op->body);
    op->pred = pred;
    op->pred_index = index;
    return true;
}

static void another_predicate_is_refused(void **state) {
    (void)state;
    oc_model *m;
    oc_build_ids ids;
    oc_plan_set *set = bendable(&m, &ids);
    int tried = 0;
    for (uint32_t q = 0; q < set->n_plans; q++)
        for (uint32_t i = 0; i < set->plans[q].n_ops; i++)
            tried += bend_pred(set, &set->plans[q].ops[i], &ids);
    assert_true(tried > 50);
    unbend(m, &ids, set);
}

/* Both ways of a predicate: what a skipped op would have written is not there for others. */
static void a_value_that_may_not_be_written_is_not_for_all(void **state) {
    (void)state;
    oc_model *m;
    oc_build_ids ids;
    oc_plan_set *set = bendable(&m, &ids);
    oc_plan *p = &set->plans[oc_build_find(set, "last")];
    oc_op *op = p->ops;
    while (op->body != OC_BODY_FOLD_LAST)
        assert_true(++op < p->ops + p->n_ops);
    oc_signature kept = set->signatures[OC_BODY_FOLD_LAST];
    set->signatures[OC_BODY_FOLD_LAST].pred = OC_PRED_ANY;
    op->pred = ids.control;
    op->pred_index = (uint32_t)offsetof(oc_control_cell, live) / 4;
    assert_false(accepted(set));
    op->pred = OC_NO_BUFFER;
    op->pred_index = 0;
    set->signatures[OC_BODY_FOLD_LAST] = kept;
    unbend(m, &ids, set);
}

static void a_slot_too_small_for_its_piece_is_refused(void **state) {
    (void)state;
    oc_model *m;
    oc_build_ids ids;
    oc_plan_set *set = bendable(&m, &ids);
    for (uint32_t i = 0; i < set->n_buffers; i++) {
        oc_buffer *b = &set->buffers[i], kept = *b;
        if (strcmp(b->name, "stage0") != 0 && strcmp(b->name, "A0") != 0) continue;
        b->bytes = b->piece_bytes = 64;
        assert_false(accepted(set));
        *b = kept;
    }
    unbend(m, &ids, set);
}

/* Without one op of it, waiting for less is a race. A wait for the lane's first op goes away. */
static void need_wait(oc_plan_set *set, oc_wait *all, uint32_t *n, uint32_t at, const char *what) {
    oc_wait *w = &all[at], kept = *w;
    if (kept.seq > 1) {
        w->seq--;
    } else {
        memmove(w, w + 1, (*n - at - 1) * sizeof *w);
        --*n;
    }
    if (oc_plan_verify(set, NULL) != OC_E_PLAN)
        fail_msg("%s need not wait for %s %u", what, oc_lane_name((oc_lane)kept.lane), kept.seq);
    if (kept.seq == 1) {
        memmove(w + 1, w, (*n - at) * sizeof *w);
        ++*n;
    }
    *w = kept;
}

static int need_waits_within(oc_plan_set *set) {
    int tried = 0;
    for (uint32_t q = 0; q < set->n_plans; q++) {
        oc_plan *p = &set->plans[q];
        for (uint32_t i = 0; i < p->n_ops; i++)
            for (uint32_t k = 0; k < p->ops[i].n_waits; k++, tried++)
                need_wait(set, &p->waits[p->ops[i].first_wait], &p->ops[i].n_waits, k, p->name);
    }
    return tried;
}

static int need_waits_across(oc_plan_set *set) {
    int tried = 0;
    for (uint32_t a = 0; a < set->n_plans; a++)
        for (uint32_t b = 0; b < set->n_plans; b++)
            for (uint32_t w = 0; w < set->n_pairs[a][b]; w++, tried++)
                need_wait(set, set->pairs[a][b], &set->n_pairs[a][b], w, set->plans[b].name);
    return tried;
}

/* Within a plan and from plan to plan. */
static void every_derived_wait_is_needed(void **state) {
    (void)state;
    const char *const models[] = {llama_tied, gpt2_small, llama_untied};
    for (int i = 0; i < 3; i++) {
        oc_model *m = case_model(models[i]);
        oc_build_spec s = case_spec(m);
        s.micros = 3;
        s.place.act_slots = i < 2 ? 2 : 0;
        s.place.interleave = i == 2;
        oc_plan_set *set = built(&s);
        assert_true(need_waits_within(set) > 50);
        assert_true(need_waits_across(set) > 20);
        verified(set);
        oc_plan_set_free(set);
        oc_model_close(m);
    }
}

static const oc_op *op_of(const oc_plan *p, const oc_wait *w) {
    for (uint32_t i = 0; i < p->n_ops; i++)
        if (p->ops[i].lane == w->lane && p->ops[i].seq == w->seq) return &p->ops[i];
    fail_msg("plan %s has no such op", p->name);
    return NULL;
}

/* The fetch of the first layer waits for that layer's update, and for no later one. */
static void starts_early(const oc_plan_set *set, const char *next, uint32_t layer) {
    uint32_t a = oc_build_find(set, "update"), b = oc_build_find(set, next);
    assert_true(a != OC_NO_PLAN && b != OC_NO_PLAN);
    bool waits = false;
    for (uint32_t w = 0; w < set->n_pairs[a][b]; w++) {
        const oc_wait *x = &set->pairs[a][b][w];
        const oc_op *op = &set->plans[b].ops[x->op];
        if (op->kind != OC_OP_FETCH || op->block != layer || x->lane != OC_LANE_OPTIM) continue;
        const oc_op *update = op_of(&set->plans[a], x);
        assert_int_equal(update->kind, OC_OP_UPDATE);
        assert_int_equal(update->block, layer);
        waits = true;
    }
    assert_true(waits);
}

static void next_step_starts_while_later_blocks_update(void **state) {
    (void)state;
    oc_model *m = case_model(llama_untied);
    for (int32_t group = 1; group <= 2; group++) {
        oc_build_spec s = case_spec(m);
        s.place.group = group;
        oc_plan_set *set = built(&s);
        starts_early(set, group == 1 ? "first" : "whole", (uint32_t)m->first_layer);
        oc_plan_set_free(set);
    }
    oc_model_close(m);
}

/* ---- which slot a weight is fetched into ---- */

enum { MAX_SLOTS = 16 };
#define NO_BLOCK UINT32_MAX

/* What a plan does to the slots, from what its contract says is there. */
typedef struct slot_story {
    uint32_t content[MAX_SLOTS], last[MAX_SLOTS]; /* per slot: block, and 1 + its last use */
    uint32_t uses, fetches;
    uint32_t closest; /* fewest uses between a slot's last one and its next filling */
} slot_story;

static int32_t slot_number(const oc_buffer *b) {
    bool slot = b->name[0] == 'W' && b->name[1] >= '0' && b->name[1] <= '9';
    return slot ? (int32_t)strtol(b->name + 1, NULL, 10) : -1;
}

static void begin_story(slot_story *x, const oc_plan_set *set, const oc_plan *p) {
    *x = (slot_story){.closest = UINT32_MAX};
    memset(x->content, 0xff, sizeof x->content);
    for (uint32_t i = 0; i < p->n_starts; i++) {
        const oc_buffer *b = &set->buffers[p->starts[i].buffer];
        if (slot_number(b) >= 0) x->content[slot_number(b)] = p->starts[i].value.block;
    }
}

static void note_fetch(slot_story *x, const oc_op *op, int32_t slot) {
    if (op->piece != 0) return;
    for (int32_t i = 0; i < MAX_SLOTS; i++)
        assert_int_not_equal(x->content[i], op->block); /* it is there */
    if (x->last[slot] && x->uses - x->last[slot] < x->closest) x->closest = x->uses - x->last[slot];
    x->content[slot] = op->block;
    x->fetches++;
}

static void note_access(slot_story *x, const oc_plan_set *set, const oc_op *op,
                        const oc_access *a) {
    const oc_buffer *b = &set->buffers[a->buffer];
    int32_t slot = slot_number(b);
    if (slot < 0) return;
    if (a->role == OC_ROLE_WEIGHT) x->last[slot] = ++x->uses;
    if (a->role == OC_ROLE_DST) note_fetch(x, op, slot);
}

static slot_story story_of(const oc_plan_set *set, const oc_plan *p) {
    slot_story x;
    begin_story(&x, set, p);
    for (uint32_t i = 0; i < p->n_ops; i++)
        for (uint32_t k = 0; k < p->ops[i].n_accesses; k++)
            note_access(&x, set, &p->ops[i], &p->accesses[p->ops[i].first_access + k]);
    return x;
}

/* A transfer into a slot runs beside the two uses before it, as far as slots allow. Returns the
 * blocks that plans found in the slots. */
static uint32_t check_slots(const oc_model *m, int32_t slots, int32_t group) {
    uint32_t blocks = (uint32_t)(m->n_layers + m->n_head), found = 0; /* others are small */
    oc_build_spec s = case_spec(m);
    s.micros = 3;
    s.place.group = group;
    s.place.slots = slots;
    oc_plan_set *set = built(&s);
    for (uint32_t q = 0; q < set->n_plans; q++) {
        slot_story start, x = story_of(set, &set->plans[q]);
        uint32_t there = 0;
        begin_story(&start, set, &set->plans[q]);
        for (int32_t i = 0; i < slots; i++)
            there += start.content[i] != NO_BLOCK;
        found += there;
        if (x.uses == 0) continue;
        if (slots < (int32_t)blocks)
            assert_true(x.closest >= (slots > 3 ? 2 : (uint32_t)slots - 1) * (uint32_t)group);
        if (slots >= (int32_t)blocks) assert_int_equal(x.fetches + there, blocks);
    }
    oc_plan_set_free(set);
    return found;
}

static void slots_rest_before_they_are_filled_and_keep_what_is_wanted(void **state) {
    (void)state;
    static const char deep[] =
        "{\"model_type\":\"llama\",\"hidden_size\":64,\"intermediate_size\":128,"
        "\"num_hidden_layers\":14,\"num_attention_heads\":4,\"vocab_size\":5300}";
    static const char *const models[] = {llama_untied, deep, bloom_small};
    uint32_t found = 0;
    for (int k = 0; k < 3; k++) {
        oc_model *m = case_model(models[k]);
        for (int32_t slots = 2; slots <= 12; slots++)
            for (int32_t group = 1; group <= 3; group += 2)
                found += check_slots(m, slots, group);
        oc_model_close(m);
    }
    assert_true(found > 50); /* a plan begins with what the one before it ended with */
}

/* Fewest fetches of a sequence of uses: Belady's rule over all of it, looking ahead each time. */
static uint32_t fewest_fetches(const uint32_t *uses, uint32_t n, int32_t slots) {
    uint32_t content[MAX_SLOTS], fetches = 0;
    memset(content, 0xff, sizeof content);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t worst = 0, furthest = 0;
        bool there = false;
        for (uint32_t k = 0; k < (uint32_t)slots; k++) {
            uint32_t next = i;
            while (next < n && uses[next] != content[k])
                next++;
            there = there || content[k] == uses[i];
            if (next > furthest) {
                furthest = next;
                worst = k;
            }
        }
        if (!there) content[worst] = uses[i];
        fetches += !there;
    }
    return fetches;
}

/* Blocks in the order in which plans use them; *fetches: what they fetch. */
static uint32_t list_uses(const oc_plan_set *set, const char *const *plans, uint32_t n_plans,
                          uint32_t *uses, uint32_t *fetches) {
    uint32_t n = 0;
    for (uint32_t q = 0; q < n_plans; q++) {
        const oc_plan *p = &set->plans[oc_build_find(set, plans[q])];
        for (uint32_t i = 0; i < p->n_ops; i++)
            for (uint32_t k = 0; k < p->ops[i].n_accesses; k++) {
                const oc_access *a = &p->accesses[p->ops[i].first_access + k];
                bool slot = slot_number(&set->buffers[a->buffer]) >= 0;
                if (slot && a->role == OC_ROLE_WEIGHT) uses[n++] = p->ops[i].block;
                if (slot && a->role == OC_ROLE_DST && p->ops[i].piece == 0) ++*fetches;
            }
    }
    return n;
}

static void interleaved_turns_fetch_as_little_as_slots_allow(void **state) {
    (void)state;
    static const char *const plans[] = {"open",  "turn0.first", "turn1", "turn0", "turn1",
                                        "turn0", "turn1",       "close", "update"};
    static const char deep[] =
        "{\"model_type\":\"llama\",\"hidden_size\":64,\"intermediate_size\":128,"
        "\"num_hidden_layers\":16,\"num_attention_heads\":4,\"vocab_size\":260}";
    oc_model *m = case_model(deep);
    for (int32_t slots = 3; slots <= 9; slots++) {
        uint32_t uses[1024], fetches = 0;
        oc_build_spec s = case_spec(m);
        s.micros = 7;
        s.place.group = 1;
        s.place.interleave = true;
        s.place.slots = slots;
        oc_plan_set *set = built(&s);
        uint32_t n = list_uses(set, plans, 9, uses, &fetches),
                 least = fewest_fetches(uses, n, slots);
        /* slots that rest beside a transfer cost a few */
        assert_in_range(fetches, least, least + 3);
        oc_plan_set_free(set);
    }
    oc_model_close(m);
}

static void small_blocks_pass_through_small_slots(void **state) {
    (void)state;
    oc_model *m = case_model(bloom_small);
    oc_build_spec s = case_spec(m);
    s.place.slots = 4;
    oc_plan_set *set = built(&s);
    uint64_t large = 0, small = 0;
    for (uint32_t i = 0; i < set->n_buffers; i++) {
        const oc_buffer *b = &set->buffers[i];
        if (slot_number(b) >= 0) large += b->bytes;
        if (b->name[0] == 'W' && (b->name[1] == 'S' || b->name[1] == 'T')) small += b->bytes;
    }
    uint64_t layer = 2 * m->blocks[m->first_layer].elements;
    uint64_t front = 2 * m->blocks[m->front_block].elements;
    uint64_t norm = 2 * m->blocks[m->final_norm_block].elements;
    assert_true(large >= 4 * layer && small > 0 && small <= 2 * (front + norm));
    oc_plan_set_free(set);
    oc_model_close(m);
}

static void doubling_the_vocabulary_adds_no_workspace(void **state) {
    (void)state;
    oc_model *small = case_model(llama_tied);
    char json[512];
    const char *at = strstr(llama_tied, "1100");
    (void)snprintf(json, sizeof json, "%.*s2200%s", (int)(at - llama_tied), llama_tied, at + 4);
    oc_model *large = case_model(json);
    oc_build_bytes bytes[2];
    for (int i = 0; i < 2; i++) {
        oc_build_spec s = case_spec(i ? large : small);
        oc_error err = {0};
        assert_int_equal(oc_build_measure(&s, &bytes[i], &err), OC_OK);
    }
    assert_int_equal(bytes[0].use[OC_TIER_DEVICE][OC_USE_WORKSPACE],
                     bytes[1].use[OC_TIER_DEVICE][OC_USE_WORKSPACE]);
    oc_model_close(small);
    oc_model_close(large);
}

static void arenas_are_within_five_percent_of_the_lower_bound(void **state) {
    (void)state;
    oc_model *m = case_model(llama_tied);
    oc_build_spec s = case_spec(m);
    oc_plan_set *set = built(&s);
    for (int t = 0; t < 2; t++) {
        double arena = (double)set->arena_bytes[t];
        double bound = (double)oc_plan_lower_bound(set, (oc_tier)t);
        if (arena > 1.05 * bound)
            fail_msg("%s: %.0f over %.0f", oc_tier_name((oc_tier)t), arena, bound);
    }
    oc_plan_set_free(set);
    oc_model_close(m);
}

/* Number in its lane of the op up to which this one waits for the lane; 0: for none. */
static uint32_t waited_for(const oc_plan *p, const oc_op *op, oc_lane lane) {
    for (uint32_t k = 0; k < op->n_waits; k++) {
        const oc_wait *w = &p->waits[op->first_wait + k];
        if (w->lane == lane) return w->seq;
    }
    return 0;
}

/* Number in its lane of the transfer that brings piece k of the block. */
static uint32_t brought_by(const oc_plan *p, uint32_t block, uint32_t k) {
    for (uint32_t i = 0; i < p->n_ops; i++) {
        const oc_op *op = &p->ops[i];
        bool fetch = op->kind == OC_OP_FETCH && op->block == block && op->piece != UINT32_MAX;
        if (fetch && op->piece <= k && k < op->piece + op->pieces) return op->seq;
    }
    return 0;
}

/* The first layer's ops each wait for the transfer of their own last piece, and those of the mlp
 * come after the attention has begun. */
static void a_part_starts_when_its_own_weights_are_there(void **state) {
    (void)state;
    oc_model *m = case_model(llama_tied);
    oc_build_spec s = case_spec(m);
    uint32_t layer = (uint32_t)m->first_layer, most = 0;
    oc_plan_set *set = built(&s);
    verified(set);
    const oc_plan *p = &set->plans[oc_build_find(set, "first")];
    const oc_op *op = p->ops;
    for (int part = 0; part < OC_PART_COUNT; part++) {
        uint64_t first, end;
        while (op->block != layer || op->body != OC_BODY_PART_IN + part)
            op++;
        oc_program_part_span(m, &m->blocks[layer], (oc_part)part, &first, &end);
        if (end == 0) continue; /* the attention itself reads no weights */
        uint32_t last = brought_by(p, layer, (uint32_t)((end - 1) / OC_NORM_CHUNK));
        assert_true(last > most);
        assert_int_equal(waited_for(p, op, OC_LANE_H2D), last);
        most = last;
    }
    uint64_t pieces = (m->blocks[layer].elements + OC_NORM_CHUNK - 1) / OC_NORM_CHUNK;
    assert_int_equal(brought_by(p, layer, (uint32_t)pieces - 1), most);
    oc_plan_set_free(set);
    oc_model_close(m);
}

static void wrong_placements_are_refused(void **state) {
    (void)state;
    oc_model *m = case_model(llama_tied);
    oc_build_spec s = case_spec(m);
    oc_placement good = s.place;
    oc_build_ids ids;
    oc_plan_set *set = NULL;
    oc_error err = {0};
    oc_placement bad[12];
    for (int i = 0; i < 12; i++)
        bad[i] = good;
    bad[0].slots = 0;
    bad[1].slabs = 0;
    bad[2].act_slots = 1;
    bad[3].group = 0;
    bad[4].piece_elements = 1000;
    bad[5].group = OC_MAX_GROUP + 1;
    bad[6].early = true; /* of two micro-batches */
    bad[7].interleave = true;
    bad[7].group = 2;
    bad[8].kept[OC_SAVED_UP] = m->n_layers + 1;
    bad[9].away_pages = m->n_layers + 1;
    bad[10].away_pages = bad[10].page_slots = 1;
    bad[11].away_pages = 1;
    bad[11].page_slots = 2;
    bad[11].compute = OC_TIER_HOST;
    for (int i = 0; i < 12; i++) {
        s.place = bad[i];
        assert_int_equal(oc_build(&s, &set, &ids, &err), OC_E_INVALID);
        assert_true(err.message[0] != 0);
        assert_null(set);
    }
    oc_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_placement_of_untied_llama_verifies),
        cmocka_unit_test(every_placement_of_tied_llama_verifies),
        cmocka_unit_test(every_placement_of_gpt2_verifies),
        cmocka_unit_test(every_placement_of_models_with_a_front_verifies),
        cmocka_unit_test(no_access_of_a_step_with_a_front_can_be_dropped),
        cmocka_unit_test(no_access_of_a_streamed_step_can_be_dropped),
        cmocka_unit_test(no_access_of_a_step_that_keeps_some_values_can_be_dropped),
        cmocka_unit_test(no_access_of_a_tied_breadth_first_step_can_be_dropped),
        cmocka_unit_test(no_access_of_an_interleaved_step_can_be_dropped),
        cmocka_unit_test(no_access_of_a_resident_step_can_be_dropped),
        cmocka_unit_test(no_access_of_an_early_step_can_be_dropped),
        cmocka_unit_test(a_fetch_of_next_steps_value_before_its_update_is_refused),
        cmocka_unit_test(an_access_one_piece_short_is_refused),
        cmocka_unit_test(an_op_of_another_block_or_piece_is_refused),
        cmocka_unit_test(another_predicate_is_refused),
        cmocka_unit_test(a_value_that_may_not_be_written_is_not_for_all),
        cmocka_unit_test(a_slot_too_small_for_its_piece_is_refused),
        cmocka_unit_test(every_derived_wait_is_needed),
        cmocka_unit_test(next_step_starts_while_later_blocks_update),
        cmocka_unit_test(slots_rest_before_they_are_filled_and_keep_what_is_wanted),
        cmocka_unit_test(interleaved_turns_fetch_as_little_as_slots_allow),
        cmocka_unit_test(small_blocks_pass_through_small_slots),
        cmocka_unit_test(doubling_the_vocabulary_adds_no_workspace),
        cmocka_unit_test(arenas_are_within_five_percent_of_the_lower_bound),
        cmocka_unit_test(a_part_starts_when_its_own_weights_are_there),
        cmocka_unit_test(wrong_placements_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
