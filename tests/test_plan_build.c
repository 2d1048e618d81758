/* Every placement of the training plans passes verify, and no access of them can be left out. */
#include "plan_case.h"

#include <stdlib.h>
#include <string.h>

static oc_plan_set *built(const oc_build_spec *s) {
    oc_plan_set *set = NULL;
    oc_build_ids ids;
    oc_error err = {0};
    if (oc_build(s, &set, &ids, &err) != OC_OK) fail_msg("%s", err.message);
    oc_build_ids_release(&ids);
    return set;
}

static void verified(const oc_plan_set *set) {
    oc_error err = {0};
    if (oc_plan_verify(set, &err) != OC_OK) fail_msg("%s", err.message);
}

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

static void sweep(const char *json) {
    oc_model *m = case_model(json);
    int count = 0;
    for (int micros = 1; micros <= 3; micros += 2)
        for (int group = 1; group <= micros; group++)
            for (int slots = 0; slots <= 4; slots++) /* 0: resident */
                for (int acts = 0; acts <= 3; acts += acts ? 1 : 2)
                    for (int kept = 0; kept <= m->n_layers; kept += m->n_layers)
                        for (int dtype = 0; dtype < 2; dtype++) {
                            oc_build_spec s = case_spec(m);
                            s.dtype = dtype ? OC_BF16 : OC_F32;
                            s.micros = micros;
                            s.place.group = group;
                            s.place.resident = slots == 0;
                            s.place.slots = slots;
                            s.place.act_slots = acts;
                            s.place.kept_layers = kept;
                            s.place.slabs = 1 + count % 3;
                            s.place.interleave = group == 1 && count % 2;
                            oc_plan_set *set = built(&s);
                            verified(set);
                            for (uint32_t q = 0; q < set->n_plans; q++)
                                inputs_survive(&set->plans[q]);
                            if (count % 7 == 0) {
                                oc_error err = {0};
                                assert_int_equal(oc_plan_add_poison(set, OC_BODY_POISON, &err),
                                                 OC_OK);
                                verified(set);
                            }
                            oc_plan_set_free(set);
                            count++;
                        }
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

/* Another access of the op with the same pieces, at least as strong, covers the dropped one. */
static bool redundant(const oc_plan *p, const oc_op *op, const oc_access *a) {
    for (uint32_t k = 0; k < op->n_accesses; k++) {
        const oc_access *x = &p->accesses[op->first_access + k];
        if (x == a || x->buffer != a->buffer || x->role != a->role) continue;
        if (x->first <= a->first && x->first + x->count >= a->first + a->count &&
            x->mode == a->mode)
            return true;
    }
    return false;
}

static void drop_each(const char *json, oc_placement place, int micros) {
    oc_model *m = case_model(json);
    oc_build_spec s = case_spec(m);
    s.micros = micros;
    s.place = place;
    oc_plan_set *set = built(&s);
    verified(set);
    int caught = 0, needless = 0;
    for (uint32_t q = 0; q < set->n_plans; q++) {
        oc_plan *p = &set->plans[q];
        for (uint32_t i = 0; i < p->n_ops; i++)
            for (uint32_t k = 0; k < p->ops[i].n_accesses; k++) {
                oc_op *op = &p->ops[i];
                oc_access *a = &p->accesses[op->first_access + k], kept = *a;
                oc_access *last = &p->accesses[op->first_access + op->n_accesses - 1];
                bool needed = !redundant(p, op, a);
                *a = *last;
                op->n_accesses--;
                oc_error err = {0};
                assert_int_equal(oc_plan_derive(set, &err), OC_OK);
                bool refused = oc_plan_verify(set, NULL) == OC_E_PLAN;
                if (!refused && needed)
                    fail_msg("op %u (%s) lost %s of %s unnoticed", i,
                             oc_op_kind_name((oc_op_kind)op->kind),
                             oc_role_name((oc_role)kept.role), set->buffers[kept.buffer].name);
                if (refused)
                    caught++;
                else
                    needless++;
                op->n_accesses++;
                *last = *a;
                *a = kept;
            }
    }
    assert_true(caught > 200);
    assert_int_equal(needless, 0);
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
                             .kept_layers = 1,
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
                                 .kept_layers = 1,
                                 .interleave = i == 1,
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

static void no_access_of_a_resident_gpt2_step_can_be_dropped(void **state) {
    (void)state;
    drop_each(gpt2_small,
              (oc_placement){.compute = OC_TIER_HOST,
                             .resident = true,
                             .slabs = 1,
                             .group = 1,
                             .piece_elements = OC_NORM_CHUNK},
              2);
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
    oc_plan *p = &set->plans[0];
    int tried = 0;
    for (uint32_t i = 0; i < p->n_accesses; i++) {
        oc_access *a = &p->accesses[i];
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

/* Bodies look at the op's block and piece, so they must be those of the accesses. */
static void an_op_of_another_block_or_piece_is_refused(void **state) {
    (void)state;
    oc_model *m;
    oc_build_ids ids;
    oc_plan_set *set = bendable(&m, &ids);
    oc_plan *p = &set->plans[0];
    for (uint32_t i = 0; i < p->n_ops; i++) {
        oc_op *op = &p->ops[i];
        bool blockless = op->body == OC_BODY_EMBED || op->body == OC_BODY_LOSS;
        uint32_t block = op->block;
        op->block = block ? block - 1 : block + 1;
        if (!blockless && accepted(set)) fail_msg("block of op %u", i);
        op->block = block;
        if (op->piece == UINT32_MAX) continue;
        op->piece++;
        if (accepted(set)) fail_msg("piece of op %u", i);
        op->piece--;
    }
    unbend(m, &ids, set);
}

static void another_predicate_is_refused(void **state) {
    (void)state;
    oc_model *m;
    oc_build_ids ids;
    oc_plan_set *set = bendable(&m, &ids);
    oc_plan *p = &set->plans[0];
    int tried = 0;
    for (uint32_t i = 0; i < p->n_ops; i++) {
        oc_op *op = &p->ops[i];
        uint32_t pred = op->pred, index = op->pred_index;
        if (pred != OC_NO_BUFFER) {
            op->pred_index++;
            if (accepted(set)) fail_msg("predicate of op %u", i);
        } else if (op->body == OC_BODY_FOLD_LAST || op->body == OC_BODY_NORM) {
            op->pred = ids.control;
            op->pred_index = 12;
            if (accepted(set)) fail_msg("new predicate of op %u", i);
        } else {
            continue;
        }
        tried++;
        op->pred = pred;
        op->pred_index = index;
    }
    assert_true(tried > 50);
    unbend(m, &ids, set);
}

/* Both ways of a predicate: what a skipped op would have written is not there for others. */
static void a_value_that_may_not_be_written_is_not_for_all(void **state) {
    (void)state;
    oc_model *m;
    oc_build_ids ids;
    oc_plan_set *set = bendable(&m, &ids);
    oc_plan *p = &set->plans[0];
    for (uint32_t i = 0; i < p->n_ops; i++)
        if (p->ops[i].body == OC_BODY_FOLD_LAST) {
            set->signatures[OC_BODY_FOLD_LAST].pred = OC_PRED_ANY;
            p->ops[i].pred = ids.control;
            oc_error err = {0};
            assert_int_equal(oc_plan_derive(set, &err), OC_OK);
            assert_int_equal(oc_plan_verify(set, &err), OC_E_PLAN);
            assert_non_null(strstr(err.message, "may have kept it from being written"));
            p->ops[i].pred = OC_NO_BUFFER;
            break;
        }
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

/* Each wait is needed: without it verify sees a race. */
static void every_derived_wait_is_needed(void **state) {
    (void)state;
    oc_model *m = case_model(llama_tied);
    oc_build_spec s = case_spec(m);
    s.place.act_slots = 2;
    oc_plan_set *set = built(&s);
    int dropped = 0;
    for (uint32_t q = 0; q < set->n_plans; q++) {
        oc_plan *p = &set->plans[q];
        for (uint32_t i = 0; i < p->n_ops; i++)
            for (uint32_t k = 0; k < p->ops[i].n_waits; k++) {
                oc_wait *w = &p->waits[p->ops[i].first_wait + k], kept = *w;
                if (w->seq == 1) continue; /* a wait for op 0 cannot be written */
                w->seq--;
                if (oc_plan_verify(set, NULL) != OC_E_PLAN)
                    fail_msg("op %u need not wait for %s %u", i, oc_lane_name((oc_lane)w->lane),
                             kept.seq);
                *w = kept;
                dropped++;
            }
    }
    assert_true(dropped > 50);
    oc_plan_set_free(set);
    oc_model_close(m);
}

/* Next forward follows the updates block by block: the first layer's fetch waits for its own update
 * only. */
static void next_step_starts_while_later_blocks_update(void **state) {
    (void)state;
    oc_model *m = case_model(llama_untied);
    oc_build_spec s = case_spec(m);
    oc_plan_set *set = built(&s);
    const oc_plan *p = &set->plans[0];
    uint32_t layer = (uint32_t)m->first_layer;
    for (uint32_t w = 0; w < set->n_pairs[0][0]; w++) {
        const oc_wait *x = &set->pairs[0][0][w];
        const oc_op *op = &p->ops[x->op];
        if (op->kind != OC_OP_FETCH || op->block != layer || x->lane != OC_LANE_OPTIM) continue;
        for (uint32_t i = 0; i < p->n_ops; i++)
            if (p->ops[i].lane == OC_LANE_OPTIM && p->ops[i].seq == x->seq) {
                assert_int_equal(p->ops[i].kind, OC_OP_UPDATE);
                assert_int_equal(p->ops[i].block, layer);
                oc_plan_set_free(set);
                oc_model_close(m);
                return;
            }
    }
    fail_msg("the fetch of the first layer does not wait for an update");
}

/* ---- which slot a weight is fetched into ---- */

/* Weight uses of a plan in order, and what each fetch into a slot finds there. */
typedef struct slot_story {
    uint32_t blocks[1024], n; /* of each use */
    uint32_t fetches, norm_fetches;
    uint32_t closest; /* fewest uses between a slot's last one and its next filling */
} slot_story;

static void note_access(slot_story *x, const oc_plan_set *set, const oc_op *op, const oc_access *a,
                        uint32_t *last) {
    const char *name = set->buffers[a->buffer].name;
    if (a->role == OC_ROLE_DST && strcmp(name, "WN") == 0) x->norm_fetches++;
    if (name[0] != 'W' || name[1] < '0' || name[1] > '9') return;
    uint32_t *slot = &last[strtol(name + 1, NULL, 10)];
    if (a->role == OC_ROLE_WEIGHT) {
        assert_true(x->n < 1024);
        x->blocks[x->n++] = op->block;
        *slot = x->n;
    } else if (a->role == OC_ROLE_DST) {
        x->fetches += op->piece == 0;
        if (*slot && x->n - *slot < x->closest) x->closest = x->n - *slot;
    }
}

static slot_story story_of(const oc_plan_set *set, uint32_t plan) {
    slot_story x = {.closest = UINT32_MAX};
    uint32_t last[16] = {0};
    const oc_plan *p = &set->plans[plan];
    for (uint32_t i = 0; i < p->n_ops; i++)
        for (uint32_t k = 0; k < p->ops[i].n_accesses; k++)
            note_access(&x, set, &p->ops[i], &p->accesses[p->ops[i].first_access + k], last);
    return x;
}

/* Fetches of the same uses when the slot used longest ago is always the one filled. */
static uint32_t fetches_by_age(const slot_story *x, uint32_t slots) {
    uint32_t content[16], age[16], fetches = 0;
    for (uint32_t s = 0; s < slots; s++) {
        content[s] = UINT32_MAX;
        age[s] = 0;
    }
    for (uint32_t i = 0; i < x->n; i++) {
        uint32_t oldest = 0, s = 0;
        while (s < slots && content[s] != x->blocks[i])
            s++;
        for (uint32_t o = 1; o < slots; o++)
            if (age[o] < age[oldest]) oldest = o;
        fetches += s == slots;
        if (s == slots) s = oldest;
        content[s] = x->blocks[i];
        age[s] = i + 1;
    }
    return fetches;
}

/* A transfer into a slot runs beside as many uses as half of the slots are, four at most. Returns
 * how many fetches it saves that what stays is what is wanted soonest. */
static uint32_t check_slots(const oc_model *m, int32_t slots, int32_t group) {
    uint32_t blocks = (uint32_t)(m->n_layers + m->n_head + (m->front_block >= 0)), saved = 0;
    oc_build_spec s = case_spec(m);
    s.micros = 3;
    s.place.group = group;
    s.place.slots = slots;
    oc_plan_set *set = built(&s);
    for (uint32_t plan = 0; plan < set->n_plans; plan++) {
        slot_story x = story_of(set, plan);
        uint32_t by_age = fetches_by_age(&x, (uint32_t)slots);
        assert_true(x.closest >= (slots < 8 ? (uint32_t)slots / 2 : 4));
        assert_true(x.fetches <= by_age);
        if ((uint32_t)slots >= blocks) assert_int_equal(x.fetches, blocks);
        assert_int_equal(x.norm_fetches, 1);
        saved += by_age - x.fetches;
    }
    oc_plan_set_free(set);
    return saved;
}

static void slots_rest_before_they_are_filled_and_keep_what_is_wanted(void **state) {
    (void)state;
    static const char deep[] =
        "{\"model_type\":\"llama\",\"hidden_size\":64,\"intermediate_size\":128,"
        "\"num_hidden_layers\":14,\"num_attention_heads\":4,\"vocab_size\":5300}";
    static const char *const models[] = {llama_untied, deep, bloom_small};
    uint32_t saved = 0;
    for (int k = 0; k < 3; k++) {
        oc_model *m = case_model(models[k]);
        for (int32_t slots = 2; slots <= 12; slots++)
            for (int32_t group = 1; group <= 3; group += 2)
                saved += check_slots(m, slots, group);
        oc_model_close(m);
    }
    assert_true(saved > 50); /* evaluations go round and round */
}

static void doubling_the_vocabulary_adds_no_workspace(void **state) {
    (void)state;
    oc_model *small = case_model(llama_tied);
    char json[512];
    const char *at = strstr(llama_tied, "1100");
    (void)snprintf(json, sizeof json, "%.*s2200%s", (int)(at - llama_tied), llama_tied, at + 4);
    oc_model *large = case_model(json);
    uint64_t use[2][OC_USE_COUNT], bytes;
    for (int i = 0; i < 2; i++) {
        oc_build_spec s = case_spec(i ? large : small);
        oc_error err = {0};
        assert_int_equal(oc_build_measure(&s, OC_TIER_DEVICE, &bytes, use[i], &err), OC_OK);
    }
    assert_int_equal(use[0][OC_USE_WORKSPACE], use[1][OC_USE_WORKSPACE]);
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

static void wrong_placements_are_refused(void **state) {
    (void)state;
    oc_model *m = case_model(llama_tied);
    oc_build_spec s = case_spec(m);
    oc_placement good = s.place;
    oc_build_ids ids;
    oc_plan_set *set = NULL;
    oc_error err = {0};
    oc_placement bad[5] = {good, good, good, good, good};
    bad[0].slots = 0;
    bad[1].slabs = 0;
    bad[2].act_slots = 1;
    bad[3].group = 3;
    bad[4].piece_elements = 1000;
    for (int i = 0; i < 5; i++) {
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
        cmocka_unit_test(no_access_of_a_tied_breadth_first_step_can_be_dropped),
        cmocka_unit_test(no_access_of_an_interleaved_step_can_be_dropped),
        cmocka_unit_test(no_access_of_a_resident_gpt2_step_can_be_dropped),
        cmocka_unit_test(a_fetch_of_next_steps_value_before_its_update_is_refused),
        cmocka_unit_test(an_access_one_piece_short_is_refused),
        cmocka_unit_test(an_op_of_another_block_or_piece_is_refused),
        cmocka_unit_test(another_predicate_is_refused),
        cmocka_unit_test(a_value_that_may_not_be_written_is_not_for_all),
        cmocka_unit_test(a_slot_too_small_for_its_piece_is_refused),
        cmocka_unit_test(every_derived_wait_is_needed),
        cmocka_unit_test(next_step_starts_while_later_blocks_update),
        cmocka_unit_test(slots_rest_before_they_are_filled_and_keep_what_is_wanted),
        cmocka_unit_test(doubling_the_vocabulary_adds_no_workspace),
        cmocka_unit_test(arenas_are_within_five_percent_of_the_lower_bound),
        cmocka_unit_test(wrong_placements_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
