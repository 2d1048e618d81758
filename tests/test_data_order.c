/* The order of an epoch: a permutation, another one for another epoch or seed, without bias. */
#include "data/dataset.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static void is_a_permutation_for_every_size(void **state) {
    (void)state;
    enum { MOST = 5000 };
    static unsigned char seen[MOST];
    for (uint64_t n = 1; n <= MOST; n = n < 70 ? n + 1 : n * 3 / 2) {
        for (uint64_t i = 0; i < n; i++)
            seen[i] = 0;
        for (uint64_t i = 0; i < n; i++) {
            uint64_t at = oc_dataset_order(42, n, i, n, true);
            assert_true(at < n);
            assert_int_equal(seen[at], 0);
            seen[at] = 1;
        }
    }
}

static void is_the_identity_without_shuffle(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 100; i++)
        assert_int_equal(oc_dataset_order(42, i, i, 100, false), i);
}

static int places_kept(uint64_t seed_a, uint64_t epoch_a, uint64_t seed_b, uint64_t epoch_b) {
    int same = 0;
    for (uint64_t i = 0; i < 1000; i++)
        same += oc_dataset_order(seed_a, epoch_a, i, 1000, true) ==
                oc_dataset_order(seed_b, epoch_b, i, 1000, true);
    return same;
}

/* Two independent permutations agree in about one place; ten is beyond any doubt. */
static void depends_on_seed_and_epoch_alone(void **state) {
    (void)state;
    assert_int_equal(places_kept(1, 2, 1, 2), 1000);
    for (uint64_t e = 0; e < 20; e++) {
        assert_true(places_kept(42, e, 42, e + 1) < 10);
        assert_true(places_kept(42 + e, 0, 43 + e, 0) < 10);
        assert_true(places_kept(e, e + 1, e + 1, e) < 10);
        int fixed = 0;
        for (uint64_t i = 0; i < 1000; i++)
            fixed += oc_dataset_order(42, e, i, 1000, true) == i;
        assert_true(fixed < 10);
    }
}

/* Over 6000 epochs each of 6 rows comes to each place 1000 times on average; the chi-square of 36
 * cells with 25 degrees of freedom passes 60 once in 10,000 fair tries. */
static void favours_no_row_at_any_place(void **state) {
    (void)state;
    int count[6][6] = {{0}};
    for (uint64_t e = 0; e < 6000; e++)
        for (uint64_t i = 0; i < 6; i++)
            count[i][oc_dataset_order(42, e, i, 6, true)]++;
    double chi = 0;
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < 6; k++)
            chi += (count[i][k] - 1000.0) * (count[i][k] - 1000.0) / 1000.0;
    assert_true(chi < 60);
}

/* Neighbours must not stay neighbours: in a fair permutation of 4096, a step of +1 occurs once. */
static void breaks_up_runs(void **state) {
    (void)state;
    for (uint64_t e = 0; e < 10; e++) {
        int runs = 0;
        for (uint64_t i = 0; i + 1 < 4096; i++)
            runs += oc_dataset_order(7, e, i + 1, 4096, true) ==
                    oc_dataset_order(7, e, i, 4096, true) + 1;
        assert_true(runs < 10);
    }
}

static void works_for_huge_counts(void **state) {
    (void)state;
    for (uint64_t n = UINT64_MAX; n > 1; n /= 5) {
        uint64_t a = oc_dataset_order(1, 1, 0, n, true), b = oc_dataset_order(1, 1, n - 1, n, true);
        assert_true(a < n && b < n && a != b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_a_permutation_for_every_size),
        cmocka_unit_test(is_the_identity_without_shuffle),
        cmocka_unit_test(depends_on_seed_and_epoch_alone),
        cmocka_unit_test(favours_no_row_at_any_place),
        cmocka_unit_test(breaks_up_runs),
        cmocka_unit_test(works_for_huge_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
