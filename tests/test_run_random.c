/* test_run_random.c - thousands of small random plan sets, run with random delays on threads and on
 * queues of every kind, end in the bytes of the sequential reference; and no wait that matters can
 * be dropped without verify noticing.
 *
 * With an argument, a longer campaign: the number of sets, and optionally the first seed. */
#include "plan_order.h"
#include "random_plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>

#include <cmocka.h>

/* Sanitizers run everything several times slower: the same seeds, fewer of them. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#endif
#ifdef SANITIZED
enum {
    N_SETS = 150,
    N_QUEUED_SETS = 300,
    N_FAILING_SETS = 150,
    N_MUTATED_SETS = 60,
    N_PROTECTED_SETS = 30
};
#else
enum {
    N_SETS = 1000,
    N_QUEUED_SETS = 1500,
    N_FAILING_SETS = 600,
    N_MUTATED_SETS = 250,
    N_PROTECTED_SETS = 100
};
#endif

static const rp_limits small = {
    .max_plans = 3, .min_ops = 4, .max_ops = 24, .max_lanes = 7, .piece_bytes = 64};
/* Buffers with whole pages inside, for page protection. */
static const rp_limits paged = {
    .max_plans = 3, .min_ops = 4, .max_ops = 24, .max_lanes = 7, .piece_bytes = 4096};

typedef struct how {
    bool queues, serial, protect;
} how;

static oc_plan_set *make_within(uint64_t seed, const rp_limits *limits) {
    rp_rng g = {seed};
    oc_error err;
    err.message[0] = '\0';
    oc_plan_set *s = rp_make(&g, limits, &err);
    if (!s) fail_msg("seed %llu: %s", (unsigned long long)seed, err.message);
    if (oc_plan_verify(s, &err) != OC_OK)
        fail_msg("seed %llu is refused: %s", (unsigned long long)seed, err.message);
    return s;
}

static oc_plan_set *make_verified(uint64_t seed) { return make_within(seed, &small); }

/* ---- queues of all lanes, by chance ---- */

typedef struct machine {
    toy_family families[2];
    toy_stream streams[OC_LANE_COUNT];
    toy_ring rings[OC_LANE_COUNT];
    oc_queue *queues[OC_LANE_COUNT];
} machine;

/* What a campaign has met; a path that was never taken proves nothing. */
static struct { uint64_t waits, overtaken, full_rings, full_streams; } met;

static void add_stream(machine *m, uint32_t lane, rp_rng *g) {
    toy_stream *x = &m->streams[lane];
    toy_family *f = &m->families[rp_chance(g, 20)];
    toy_stream_open(x, f, 2 + rp_below(g, rp_chance(g, 50) ? 4 : TOY_MARKS - 1), rp_next(g));
    m->queues[lane] = &x->q;
}

static void add_ring(machine *m, uint32_t lane, rp_rng *g) {
    toy_ring_open(&m->rings[lane], 1 + rp_below(g, 5), rp_next(g));
    m->queues[lane] = &m->rings[lane].q;
}

static void machine_open(machine *m, const oc_plan_set *s, uint64_t seed) {
    rp_rng g = {seed * 77 + 1};
    for (int i = 0; i < 2; i++)
        toy_family_init(&m->families[i]);
    for (uint32_t l = 0; l < OC_LANE_COUNT; l++) {
        m->queues[l] = NULL;
        if (s->unordered[l] && rp_chance(&g, 60))
            add_ring(m, l, &g);
        else if (rp_chance(&g, 65))
            add_stream(m, l, &g);
    }
}

static bool is_stream(const machine *m, uint32_t lane) {
    return m->queues[lane] && m->queues[lane]->ops->kind == OC_QUEUE_STREAM;
}

static void machine_close(machine *m) {
    for (uint32_t l = 0; l < OC_LANE_COUNT; l++) {
        if (is_stream(m, l)) {
            toy_stream_close(&m->streams[l]);
            assert_int_equal(m->streams[l].n_invalid, 0);
            met.waits += m->streams[l].n_waits;
            met.full_streams += m->streams[l].most_unreached + 1 >= m->streams[l].q.marks;
        } else if (m->queues[l]) {
            toy_ring_close(&m->rings[l]);
            assert_int_equal(m->rings[l].n_invalid, 0);
            met.overtaken += m->rings[l].n_overtaken;
            met.full_rings += m->rings[l].most_in_flight == m->rings[l].q.depth;
        }
    }
    for (int i = 0; i < 2; i++)
        toy_family_release(&m->families[i]);
}

/* ---- one run ---- */

/* The op that fails, at its issue or when it is done. */
typedef struct fault {
    uint32_t plan, op;
    bool at_issue;
    atomic_bool hit;
} fault;

static bool is_faulty(const oc_task *t) {
    const fault *f = t->user;
    return t->plan == &t->set->plans[f->plan] && t->op == &t->plan->ops[f->op];
}

static oc_status fail_or_mix_now(const oc_task *t, oc_error *err) {
    if (!is_faulty(t)) return rp_mix_now(t, err);
    atomic_store(&((fault *)t->user)->hit, true);
    return oc_fail(err, OC_E_IO, "as told");
}

static oc_status fail_or_mix(const oc_task *t, oc_error *err) {
    bool now = ((const fault *)t->user)->at_issue && is_faulty(t);
    return now ? fail_or_mix_now(t, err) : toy_issue(t, fail_or_mix_now, err);
}

static oc_body *const failing_bodies[RP_BODIES] = {fail_or_mix, rp_flags, rp_poison};

/* OC_OK, or what the run failed with. */
static oc_status submit_all(oc_run *r, const oc_plan_set *s, const rp_memory *m,
                            const uint32_t *order, uint32_t n, uint64_t seed, oc_error *err) {
    for (uint32_t k = 0; k < n; k++) {
        uint32_t copy;
        uint64_t ticket;
        OC_TRY(oc_run_begin(r, &copy, err));
        rp_fill_cells(s, m->bases, copy, seed, k);
        OC_TRY(oc_run_submit(r, order[k], &ticket, err));
    }
    return oc_run_drain(r, err);
}

/* Run the plans; with a fault until it strikes. */
static oc_status execute(const oc_plan_set *s, const rp_memory *m, const uint32_t *order,
                         uint32_t n, uint64_t seed, how mode, fault *f, oc_error *err) {
    oc_run_spec spec = {.set = s,
                        .bodies = f ? failing_bodies : rp_bodies,
                        .n_bodies = RP_BODIES,
                        .user = f,
                        .serial = mode.serial,
                        .protect = mode.protect,
                        .delay_seed = (uint32_t)seed + 1};
    memcpy(spec.bases, m->bases, sizeof spec.bases);
    machine *toys = mode.queues ? calloc(1, sizeof *toys) : NULL;
    if (toys) {
        machine_open(toys, s, seed);
        memcpy(spec.queues, toys->queues, sizeof spec.queues);
    }
    oc_run *r;
    oc_status st = oc_run_open(&r, &spec, err);
    if (st != OC_OK) fail_msg("%s", err->message);
    st = submit_all(r, s, m, order, n, seed, err);
    oc_run_close(r);
    if (toys) machine_close(toys);
    free(toys);
    return st;
}

/* Whether the executor and the reference end in the same bytes. */
static bool agrees(const oc_plan_set *s, uint64_t seed, how mode) {
    rp_rng g = {seed ^ 0x5555};
    uint32_t order[RP_MAX_SUBMISSIONS], n = rp_walk(&g, s, order);
    rp_memory got, want;
    rp_memory_init(&got, s, seed);
    rp_memory_init(&want, s, seed);
    rp_reference(s, want.bases, order, n, seed);
    oc_error err;
    if (execute(s, &got, order, n, seed, mode, NULL, &err) != OC_OK)
        fail_msg("seed %llu: %s", (unsigned long long)seed, err.message);
    bool equal = rp_memory_equal(&got, &want);
    rp_memory_release(&got);
    rp_memory_release(&want);
    return equal;
}

static void poison(oc_plan_set *s, uint64_t seed) {
    oc_error err;
    if (oc_plan_add_poison(s, RP_BODY_POISON, &err) != OC_OK || oc_plan_verify(s, &err) != OC_OK)
        fail_msg("seed %llu, with poison: %s", (unsigned long long)seed, err.message);
}

static void campaign(uint64_t first, uint64_t count, bool queues) {
    for (uint64_t seed = first; seed < first + count; seed++) {
        oc_plan_set *s = make_verified(seed);
        if (seed % 4 == 1) poison(s, seed);
        if (!agrees(s, seed, (how){.queues = queues, .serial = seed % 16 == 0}))
            fail_msg("seed %llu: the run differs from the reference", (unsigned long long)seed);
        oc_plan_set_free(s);
    }
}

static void test_random_plans_end_like_the_reference(void **state) {
    (void)state;
    campaign(1, N_SETS, false);
}

/* Every lane a thread, a stream of one of two families, or a ring. */
static void test_random_plans_on_queues_end_like_the_reference(void **state) {
    (void)state;
    memset(&met, 0, sizeof met);
    campaign(1, N_QUEUED_SETS, true);
    print_message("waits in streams %llu, ring ops overtaken %llu, full rings %llu, streams %llu\n",
                  (unsigned long long)met.waits, (unsigned long long)met.overtaken,
                  (unsigned long long)met.full_rings, (unsigned long long)met.full_streams);
    assert_true(met.waits > N_QUEUED_SETS / 4);
    assert_true(met.overtaken > N_QUEUED_SETS / 4);
    assert_true(met.full_rings > N_QUEUED_SETS / 8);
    assert_true(met.full_streams > N_QUEUED_SETS / 8);
}

/* Legal accesses never meet a protected page, whatever overlaps. */
static void test_random_plans_run_under_protection(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= N_PROTECTED_SETS; seed++) {
        oc_plan_set *s = make_within(seed, &paged);
        if (!agrees(s, seed, (how){.queues = seed % 2, .protect = true}))
            fail_msg("seed %llu: the run differs from the reference", (unsigned long long)seed);
        oc_plan_set_free(s);
    }
}

/* Whatever op fails, the run ends with its error, and queues are not asked for what is not there.
 */
static void test_random_plans_with_a_fault_end_with_its_error(void **state) {
    (void)state;
    uint32_t hits = 0;
    for (uint64_t seed = 1; seed <= N_FAILING_SETS; seed++) {
        oc_plan_set *s = make_verified(seed);
        rp_rng g = {seed ^ 0x7777};
        uint32_t order[RP_MAX_SUBMISSIONS], n = rp_walk(&g, s, order);
        fault f = {.plan = order[rp_below(&g, n)], .at_issue = rp_chance(&g, 30)};
        f.op = rp_below(&g, s->plans[f.plan].n_ops);
        rp_memory m;
        rp_memory_init(&m, s, seed);
        oc_error err;
        how mode = {.queues = seed % 4 > 0, .serial = seed % 16 == 0};
        oc_status st = execute(s, &m, order, n, seed, mode, &f, &err);
        bool hit = atomic_load(&f.hit);
        if (st != (hit ? OC_E_IO : OC_OK))
            fail_msg("seed %llu: %s", (unsigned long long)seed, err.message);
        hits += hit;
        rp_memory_release(&m);
        oc_plan_set_free(s);
    }
    assert_true(hits > N_FAILING_SETS / 2);
}

/* The reference itself must depend on order, or the campaign could not fail. */
static void test_swapped_ops_change_the_bytes(void **state) {
    (void)state;
    uint32_t changed = 0, swapped = 0;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        oc_plan_set *s = make_verified(seed);
        oc_plan *p = &s->plans[0];
        for (uint32_t i = 0; i + 1 < p->n_ops; i++) {
            oc_op *a = &p->ops[i], *b = &p->ops[i + 1];
            bool conflict = false;
            for (uint32_t x = 0; x < a->n_accesses; x++)
                for (uint32_t y = 0; y < b->n_accesses; y++)
                    conflict |= po_conflict(s, &p->accesses[a->first_access + x],
                                            &p->accesses[b->first_access + y], false);
            if (!conflict || a->pred != OC_NO_BUFFER || b->pred != OC_NO_BUFFER) continue;
            uint32_t order = 0;
            rp_memory m, w;
            rp_memory_init(&m, s, seed);
            rp_memory_init(&w, s, seed);
            rp_reference(s, w.bases, &order, 1, seed);
            oc_op keep = *a;
            *a = *b;
            *b = keep;
            rp_reference(s, m.bases, &order, 1, seed);
            swapped++;
            changed += !rp_memory_equal(&m, &w);
            rp_memory_release(&m);
            rp_memory_release(&w);
            break;
        }
        oc_plan_set_free(s);
    }
    assert_true(swapped > 100);
    assert_true(changed * 10 > swapped * 8); /* later writes hide the rest */
}

/* ---- mutations ---- */

static void drop_own_wait(oc_plan *p, uint32_t wait) {
    memmove(p->waits + wait, p->waits + wait + 1, (p->n_waits - wait - 1) * sizeof *p->waits);
    p->n_waits--;
    for (uint32_t i = 0; i < p->n_ops; i++) {
        oc_op *o = &p->ops[i];
        if (o->first_wait <= wait && wait < o->first_wait + o->n_waits)
            o->n_waits--;
        else if (o->first_wait > wait)
            o->first_wait--;
    }
}

static void drop_pair_wait(oc_plan_set *s, uint32_t a, uint32_t b, uint32_t wait) {
    oc_wait *w = s->pairs[a][b];
    memmove(w + wait, w + wait + 1, (s->n_pairs[a][b] - wait - 1) * sizeof *w);
    s->n_pairs[a][b]--;
}

static void check_agreement(const oc_plan_set *s, uint64_t seed, uint32_t counts[2]) {
    oc_error err;
    bool verified = oc_plan_verify(s, &err) == OC_OK;
    bool ordered = po_all_ordered(s);
    if (verified && !ordered) fail_msg("seed %llu: verify passes a race", (unsigned long long)seed);
    if (!verified && ordered)
        fail_msg("seed %llu: verify refuses an ordered set: %s", (unsigned long long)seed,
                 err.message);
    counts[verified]++;
}

/* Mutant number `m` of the set made from this seed: a wait dropped, or (odd) made for one op less
 * of that lane. False when there are no more. */
static bool mutate(oc_plan_set *s, uint32_t m) {
    uint32_t left = m / 2;
    bool weaken = m % 2;
    for (uint32_t p = 0; p < s->n_plans; p++) {
        oc_plan *plan = &s->plans[p];
        if (left < plan->n_waits) {
            if (weaken && plan->waits[left].seq > 1)
                plan->waits[left].seq--;
            else
                drop_own_wait(plan, left);
            return true;
        }
        left -= plan->n_waits;
        for (uint32_t q = 0; q < s->n_plans; q++) {
            if (left < s->n_pairs[p][q]) {
                if (weaken && s->pairs[p][q][left].seq > 1)
                    s->pairs[p][q][left].seq--;
                else
                    drop_pair_wait(s, p, q, left);
                return true;
            }
            left -= s->n_pairs[p][q];
        }
    }
    return false;
}

static void test_no_needed_wait_can_be_dropped(void **state) {
    (void)state;
    uint32_t counts[2] = {0, 0};
    for (uint64_t seed = 1; seed <= N_MUTATED_SETS; seed++) {
        oc_plan_set *s = make_verified(seed);
        if (!po_all_ordered(s)) fail_msg("seed %llu: a race", (unsigned long long)seed);
        oc_plan_set_free(s);
        for (uint32_t m = 0;; m++) {
            s = make_verified(seed);
            bool more = mutate(s, m);
            if (more) check_agreement(s, seed, counts);
            oc_plan_set_free(s);
            if (!more) break;
        }
    }
    print_message("mutants: %u refused, %u proved harmless\n", counts[0], counts[1]);
    /* Derived waits are minimal but for a few: nearly every mutant is a race. (Of a lane without
     * order, one op less is often one that did not matter.) */
    assert_true(counts[0] > 10 * counts[1]);
    assert_true(counts[0] > 1000);
}

static uint64_t campaign_first = 1, campaign_count;

static void test_campaign(void **state) {
    (void)state;
    campaign(campaign_first, campaign_count, false);
    campaign(campaign_first, campaign_count, true);
}

int main(int argc, char **argv) {
    if (argc > 1) {
        campaign_count = strtoull(argv[1], NULL, 10);
        if (argc > 2) campaign_first = strtoull(argv[2], NULL, 10);
        const struct CMUnitTest longer[] = {cmocka_unit_test(test_campaign)};
        return cmocka_run_group_tests(longer, NULL, NULL);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_swapped_ops_change_the_bytes),
        cmocka_unit_test(test_random_plans_end_like_the_reference),
        cmocka_unit_test(test_random_plans_on_queues_end_like_the_reference),
        cmocka_unit_test(test_random_plans_run_under_protection),
        cmocka_unit_test(test_random_plans_with_a_fault_end_with_its_error),
        cmocka_unit_test(test_no_needed_wait_can_be_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
