/* The plan of a pass of generation, with pages on the device and on the host. */
#include "plan_drops.h"

static void drop_each_of_a_pass(const char *json, int32_t away, bool resident) {
    oc_model *m = case_model(json);
    oc_build_spec s = case_pass_spec(m, away, resident);
    oc_plan_set *set = built(&s);
    verified(set);
    drops n = {0};
    for (uint32_t i = 0; i < set->plans[0].n_ops; i++)
        for (uint32_t k = 0; k < set->plans[0].ops[i].n_accesses; k++)
            drop_one(set, &set->plans[0], &set->plans[0].ops[i], k, &n);
    assert_true(n.caught > 100);
    assert_int_equal(n.needless, 0);
    oc_plan_set_free(set);
    oc_model_close(m);
}

static void no_access_of_a_pass_can_be_dropped(void **state) {
    (void)state;
    for (int32_t away = 0; away <= 3; away++) {
        drop_each_of_a_pass(llama_untied, away, away == 2);
        drop_each_of_a_pass(gpt2_small, away < 2 ? away : 2, away == 1);
    }
}

/* A pass has room for the pages of one group a slot, however many layers and groups there are. */
static void pages_on_the_host_take_slots_alone(void **state) {
    oc_model *m = case_model(llama_untied);
    uint64_t group = 9 * 16 * 256, layers = 3;
    (void)state;
    for (int32_t away = 0; away <= 3; away++) {
        oc_build_spec s = case_pass_spec(m, away, false);
        oc_plan_set *set = built(&s);
        uint64_t there =
            2 * group * (layers - (uint64_t)away) + group * (uint64_t)s.place.page_slots;
        assert_int_equal(set->use_bytes[OC_TIER_DEVICE][OC_USE_KV_CACHE], there);
        assert_int_equal(set->use_bytes[OC_TIER_HOST][OC_USE_KV_CACHE], 2 * group * (uint64_t)away);
        oc_plan_set_free(set);
    }
    oc_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_access_of_a_pass_can_be_dropped),
        cmocka_unit_test(pages_on_the_host_take_slots_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
