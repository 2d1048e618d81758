/* Any table of homes makes plans that verify, that measure what they are built with, and of which
 * no access can be left out; frozen blocks cost nothing that is not theirs. */
#include "homes_case.h"
#include "plan_case.h"

#include <math.h>
#include <string.h>

static oc_plan_set *built(const oc_build_spec *s, oc_build_ids *ids) {
    oc_plan_set *set = NULL;
    oc_error err = {0};
    if (oc_build(s, &set, ids, &err) != OC_OK) fail_msg("%s", err.message);
    if (oc_plan_verify(set, &err) != OC_OK) fail_msg("%s", err.message);
    return set;
}

static const char *const models[] = {llama_untied, llama_tied,    gpt2_small,
                                     bloom_small,  opt_projected, gemma2_small};
enum { MODELS = sizeof models / sizeof *models };

/* One of many ways in which a table can be used. */
static oc_build_spec vary(const oc_model *m, uint32_t seed) {
    oc_build_spec s = case_spec(m);
    s.dtype = seed % 2 ? OC_BF16 : OC_F32;
    s.micros = 1 + (int32_t)(seed / 2 % 4);
    s.place.group = seed / 8 % 3 == 0 ? s.micros : 1;
    s.place.interleave = seed / 8 % 3 == 1;
    s.place.early = s.micros == 1 && seed / 3 % 2;
    s.place.slots = 1 + (int32_t)(seed % 4);
    s.place.slabs = 1 + (int32_t)(seed % 3);
    s.place.act_slots = seed % 5 == 0 ? 2 : 0;
    for (int v = 0; v < OC_SAVED_COUNT; v++) {
        s.place.kept[v] = (int32_t)(seed * 7 + (uint32_t)v * 3) % (m->n_layers + 1);
        s.place.away[v] = (int32_t)(seed * 5 + (uint32_t)v) % (m->n_layers + 1);
    }
    s.has_m = seed % 7 != 0;
    s.has_v = s.has_m && seed % 11 != 0;
    return s;
}

/* What the ops of a step's submissions ask of each lane. */
static void add_work(const oc_build_spec *s, const oc_plan_set *set, oc_work out[OC_LANE_COUNT]) {
    for (int32_t k = 0; k < oc_build_turns(s, s->micros); k++) {
        const oc_plan *p = &set->plans[oc_build_turn(s, set, s->micros, k).plan];
        for (uint32_t i = 0; i < p->n_ops; i++) {
            const oc_op *op = &p->ops[i];
            bool computes =
                op->kind == OC_OP_FORWARD || op->kind == OC_OP_BACKWARD || op->kind == OC_OP_LOSS;
            out[op->lane].flops += computes ? op->demand.flops : 0;
            out[op->lane].bytes += computes ? 0 : (double)op->demand.bytes;
        }
    }
}

static void check_work(const oc_build_spec *s, const oc_plan_set *set, const oc_work *measured) {
    oc_work want[OC_LANE_COUNT] = {{0, 0}};
    add_work(s, set, want);
    for (int l = 0; l < OC_LANE_COUNT; l++) {
        assert_true(fabs(measured[l].flops - want[l].flops) <= 1e-9 * want[l].flops);
        /* pieces count as equals, whose cells differ by some bytes */
        assert_true(fabs(measured[l].bytes - want[l].bytes) <= 0.01 * want[l].bytes);
    }
}

static void check_measured(const oc_build_spec *s, const oc_plan_set *set) {
    oc_build_bytes bytes;
    oc_error err = {0};
    assert_int_equal(oc_build_measure(s, &bytes, &err), OC_OK);
    assert_memory_equal(bytes.arena, set->arena_bytes, sizeof bytes.arena);
    assert_memory_equal(bytes.use, set->use_bytes, sizeof bytes.use);
    assert_true(bytes.plan >= oc_plan_host_bytes(set));
    check_work(s, set, bytes.step);
}

static void check_tables(const oc_model *m, uint32_t frozen) {
    for (uint32_t seed = 1; seed <= 60; seed++) {
        oc_error err = {0};
        oc_build_ids ids;
        oc_build_spec s = vary(m, seed);
        oc_block_homes *t = homes_make(m, 77 * seed, frozen);
        s.place.homes = t;
        oc_plan_set *set = built(&s, &ids);
        check_measured(&s, set);
        assert_int_equal(oc_plan_add_poison(set, OC_BODY_POISON, &err), OC_OK);
        if (oc_plan_verify(set, &err) != OC_OK) fail_msg("seed %u: %s", seed, err.message);
        oc_plan_set_free(set);
        oc_build_ids_release(&ids);
        free(t);
    }
}

static void every_table_of_homes_verifies(void **state) {
    (void)state;
    for (int i = 0; i < MODELS; i++) {
        oc_model *m = case_model(models[i]);
        check_tables(m, 0);
        oc_model_close(m);
    }
}

static void every_table_with_frozen_blocks_verifies(void **state) {
    (void)state;
    for (int i = 0; i < MODELS; i++) {
        oc_model *m = case_model(models[i]);
        check_tables(m, 50);
        oc_model_close(m);
    }
}

/* Lost an access, derived anew: refused, or another one says the same. */
static bool covered(const oc_plan *p, const oc_op *op, const oc_access *a) {
    for (uint32_t k = 0; k < op->n_accesses; k++) {
        const oc_access *x = &p->accesses[op->first_access + k];
        if (x != a && x->buffer == a->buffer && x->role == a->role && x->mode == a->mode &&
            x->first <= a->first && x->first + x->count >= a->first + a->count)
            return true;
    }
    return false;
}

static void drop(oc_plan_set *set, oc_plan *p, oc_op *op, uint32_t k) {
    oc_access *a = &p->accesses[op->first_access + k], kept = *a;
    oc_access *last = &p->accesses[op->first_access + op->n_accesses - 1], end = *last;
    bool needed = !covered(p, op, a);
    *a = *last;
    op->n_accesses--;
    assert_int_equal(oc_plan_derive(set, NULL), OC_OK);
    if (oc_plan_verify(set, NULL) != OC_E_PLAN && needed)
        fail_msg("plan %s, op %td (%s) lost %s of %s unnoticed", p->name, op - p->ops,
                 oc_op_kind_name((oc_op_kind)op->kind), oc_role_name((oc_role)kept.role),
                 set->buffers[kept.buffer].name);
    op->n_accesses++;
    *last = end;
    *a = kept;
}

static void no_access_of_a_mixed_step_can_be_dropped(void **state) {
    (void)state;
    static const uint32_t seeds[] = {3, 10, 16, 6};
    for (int i = 0; i < 4; i++) {
        oc_model *m = case_model(models[i]);
        oc_build_ids ids;
        oc_build_spec s = vary(m, seeds[i]);
        oc_block_homes *t = homes_make(m, seeds[i], i % 2 ? 30 : 0);
        s.place.homes = t;
        s.with_eval = false;
        oc_plan_set *set = built(&s, &ids);
        for (uint32_t q = 0; q < set->n_plans; q++)
            for (uint32_t o = 0; o < set->plans[q].n_ops; o += 3)
                for (uint32_t k = 0; k < set->plans[q].ops[o].n_accesses; k++)
                    drop(set, &set->plans[q], &set->plans[q].ops[o], k);
        oc_plan_set_free(set);
        oc_build_ids_release(&ids);
        free(t);
        oc_model_close(m);
    }
}

/* ---- what is where ---- */

static uint32_t count_ops(const oc_plan_set *set, oc_op_kind kind, uint32_t block) {
    uint32_t n = 0;
    for (uint32_t q = 0; q < set->n_plans; q++)
        for (uint32_t i = 0; i < set->plans[q].n_ops; i++)
            n += set->plans[q].ops[i].kind == kind && set->plans[q].ops[i].block == block;
    return n;
}

static void blocks_at_home_on_the_device_do_not_move(void **state) {
    (void)state;
    oc_model *m = case_model(llama_untied);
    oc_build_spec s = case_spec(m);
    oc_build_ids ids;
    oc_block_homes *t = homes_make(m, 1, 0);
    for (int32_t i = 0; i < m->n_blocks; i++)
        t[i] = (oc_block_homes){OC_TIER_HOST, OC_TIER_HOST, false};
    uint32_t first = (uint32_t)m->first_layer;
    t[first] = (oc_block_homes){OC_TIER_DEVICE, OC_TIER_DEVICE, false};
    t[first + 1] = (oc_block_homes){OC_TIER_DEVICE, OC_TIER_HOST, false};
    t[first + 2] = (oc_block_homes){OC_TIER_HOST, OC_TIER_DEVICE, false};
    s.place.homes = t;
    oc_plan_set *set = built(&s, &ids);
    static const bool fetched[] = {false, false, true}, published[] = {false, true, true};
    static const bool retired[] = {false, true, false};
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(count_ops(set, OC_OP_FETCH, first + i) > 0, fetched[i]);
        assert_int_equal(count_ops(set, OC_OP_PUBLISH, first + i) > 0, published[i]);
        /* norm partials of what is updated on the device are retired in one go */
        uint32_t partials = t[first + i].optimizer == OC_TIER_DEVICE;
        assert_int_equal(count_ops(set, OC_OP_RETIRE, first + i) > partials, retired[i]);
    }
    assert_int_equal(set->buffers[ids.m[first]].tier, OC_TIER_DEVICE);
    assert_int_equal(set->buffers[ids.m[first + 1]].tier, OC_TIER_HOST);
    oc_plan_set_free(set);
    oc_build_ids_release(&ids);
    free(t);
    oc_model_close(m);
}

static void frozen_blocks_have_weights_and_nothing_else(void **state) {
    (void)state;
    oc_model *m = case_model(llama_untied);
    oc_build_spec s = case_spec(m);
    oc_build_ids ids;
    oc_block_homes *t = homes_make(m, 1, 0);
    uint32_t top = (uint32_t)(m->first_layer + m->n_layers - 1);
    for (uint32_t i = 0; i < (uint32_t)m->n_blocks; i++)
        t[i] = (oc_block_homes){OC_TIER_HOST, OC_TIER_HOST, i != top};
    s.place.homes = t;
    oc_plan_set *set = built(&s, &ids);
    for (uint32_t i = 0; i < (uint32_t)m->n_blocks; i++) {
        bool trained = i == top;
        assert_int_equal(ids.master[i] != OC_NO_BUFFER, trained);
        assert_int_equal(ids.m[i] != OC_NO_BUFFER, trained);
        assert_int_equal(ids.grad[i] != OC_NO_BUFFER, trained);
        assert_int_equal(count_ops(set, OC_OP_UPDATE, i) > 0, trained);
        bool head = m->blocks[i].kind == OC_BLOCK_HEAD;
        bool final = m->blocks[i].kind == OC_BLOCK_FINAL_NORM;
        assert_int_equal(count_ops(set, OC_OP_BACKWARD, i) > 0, trained || head || final);
    }
    oc_plan_set_free(set);
    oc_build_ids_release(&ids);
    free(t);
    oc_model_close(m);
}

static uint32_t count_lane(const oc_plan_set *set, oc_lane lane) {
    uint32_t n = 0;
    for (uint32_t q = 0; q < set->n_plans; q++)
        n += set->plans[q].lane_ops[lane];
    return n;
}

/* No file is opened here: the plans alone. */
static void weights_on_disk_come_over_the_host(void **state) {
    (void)state;
    oc_model *m = case_model(llama_untied);
    oc_build_spec s = case_spec(m);
    oc_build_ids ids;
    oc_error err = {0};
    oc_block_homes *t = homes_make(m, 1, 0);
    for (int32_t i = 0; i < m->n_blocks; i++)
        t[i] = (oc_block_homes){OC_TIER_HOST, OC_TIER_HOST, false};
    for (int32_t i = m->first_layer; i < m->first_layer + m->n_layers; i++)
        t[i].weight = OC_TIER_NVME;
    s.place.homes = t;
    oc_plan_set *set = built(&s, &ids);
    check_measured(&s, set);
    uint64_t bytes = set->arena_bytes[OC_TIER_NVME];
    assert_true(bytes >= 2 * (uint64_t)m->n_layers * m->blocks[m->first_layer].elements);
    assert_true(count_lane(set, OC_LANE_READ) > 0 && count_lane(set, OC_LANE_WRITE) > 0);
    assert_true(count_lane(set, OC_LANE_H2D) > count_lane(set, OC_LANE_READ));
    assert_int_equal(oc_plan_add_poison(set, OC_BODY_POISON, &err), OC_OK);
    if (oc_plan_verify(set, &err) != OC_OK) fail_msg("%s", err.message);
    for (uint32_t q = 0; q < set->n_plans; q++)
        for (uint32_t o = 0; o < set->plans[q].n_ops; o += 5)
            for (uint32_t k = 0; k < set->plans[q].ops[o].n_accesses; k++)
                if (set->plans[q].ops[o].kind != OC_OP_POISON)
                    drop(set, &set->plans[q], &set->plans[q].ops[o], k);
    oc_plan_set_free(set);
    oc_build_ids_release(&ids);
    free(t);
    oc_model_close(m);
}

static void tables_without_a_way_are_refused(void **state) {
    (void)state;
    oc_model *m = case_model(gpt2_small);
    oc_build_spec s = case_spec(m);
    oc_block_homes *t = homes_make(m, 1, 0);
    oc_plan_set *set = NULL;
    oc_build_ids ids;
    oc_error err = {0};
    s.place.homes = t;
    t[m->first_layer].optimizer = OC_TIER_NVME;
    assert_int_equal(oc_build(&s, &set, &ids, &err), OC_E_INVALID);
    assert_non_null(strstr(err.message, "without a route"));
    t[m->first_layer].optimizer = OC_TIER_HOST;
    t[m->position_block].weight =
        t[m->first_table].weight == OC_TIER_HOST ? OC_TIER_DEVICE : OC_TIER_HOST;
    assert_int_equal(oc_build(&s, &set, &ids, &err), OC_E_INVALID);
    assert_non_null(strstr(err.message, "one home"));
    free(t);
    oc_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_table_of_homes_verifies),
        cmocka_unit_test(every_table_with_frozen_blocks_verifies),
        cmocka_unit_test(no_access_of_a_mixed_step_can_be_dropped),
        cmocka_unit_test(blocks_at_home_on_the_device_do_not_move),
        cmocka_unit_test(frozen_blocks_have_weights_and_nothing_else),
        cmocka_unit_test(weights_on_disk_come_over_the_host),
        cmocka_unit_test(tables_without_a_way_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
