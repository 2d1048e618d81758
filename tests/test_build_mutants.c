/* Plans in which one access goes elsewhere, or says it holds something else, are refused, unless it
 * makes no difference: a read finds equal bytes there, a write harms nothing that is read later and
 * is itself not read. That rule is played here, by bytes, and shares nothing with verify. */
#include "homes_case.h"
#include "plan_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    OTHER_BUFFERS = 10, /* that an access is redirected to: a sample by a fixed seed */
    OTHER_ROLES = 3,
    MAX_SURVIVORS_SHOWN = 40,
    TIED_STRIDE = 3 /* it has as many accesses as all the others */
};

typedef enum kind {
    FIRST,
    COUNT,
    BUFFER,
    ROLE,
    PIECE,
    BLOCK,
    MICRO,
    VERSION,
    STAGE,
    SHARE,
    FORMAT,
    RUN,     /* op.piece and one access's piece with it */
    RUN_ALL, /* op.piece and all pieces that are named by it */
    KINDS
} kind;
static const char *const kind_names[KINDS] = {"first",  "count", "buffer",    "role",  "piece",
                                              "block",  "micro", "version",   "stage", "share",
                                              "format", "run",   "run of all"};

typedef struct tally {
    uint64_t refused[KINDS], same[KINDS], wrong[KINDS];
    uint32_t shown;
} tally;

typedef struct subject {
    oc_plan_set *set;
    oc_plan *plan;
    oc_op *op;
    oc_access *access;
    oc_access was;
    uint32_t seed;
    tally *n;
} subject;

/* ---- bytes ---- */

typedef struct bytes {
    oc_tier tier;
    uint64_t lo, hi;
} bytes;

static bytes bytes_of(const oc_plan_set *s, oc_buffer_id id, uint32_t first, uint32_t count) {
    const oc_buffer *b = &s->buffers[id];
    uint64_t lo = first * b->piece_bytes, hi = (uint64_t)(first + count) * b->piece_bytes;
    if (hi > b->bytes) hi = b->bytes;
    return (bytes){b->tier, b->offset + lo, b->offset + hi};
}

static bytes accessed(const oc_plan_set *s, const oc_access *a) {
    return bytes_of(s, a->buffer, a->first, a->count);
}

static bool meet(bytes x, bytes y) { return x.tier == y.tier && x.lo < y.hi && y.lo < x.hi; }

static uint64_t length(bytes x) { return x.hi - x.lo; }

static bool unread_from(const oc_plan_set *s, const oc_plan *p, const oc_op *op, bytes x);

/* What is left of the bytes beside those that are written now. */
static bool rest_unread(const oc_plan_set *s, const oc_plan *p, const oc_op *op, bytes x,
                        bytes written) {
    bytes left = x, right = x;
    left.hi = written.lo;
    right.lo = written.hi;
    return (left.lo >= left.hi || unread_from(s, p, op, left)) &&
           (right.lo >= right.hi || unread_from(s, p, op, right));
}

/* Nobody reads what the bytes hold before the op: they are written first, or not promised. */
static bool unread_from(const oc_plan_set *s, const oc_plan *p, const oc_op *op, bytes x) {
    for (; op < p->ops + p->n_ops; op++) {
        const oc_access *a = &p->accesses[op->first_access];
        for (uint32_t k = 0; k < op->n_accesses; k++)
            if (a[k].mode != OC_WRITE && meet(accessed(s, &a[k]), x)) return false;
        for (uint32_t k = 0; k < op->n_accesses; k++)
            if (a[k].mode == OC_WRITE && meet(accessed(s, &a[k]), x))
                return rest_unread(s, p, op, x, accessed(s, &a[k]));
    }
    for (uint32_t i = 0; i < p->n_ends; i++) {
        const oc_holding *h = &p->ends[i];
        if (meet(bytes_of(s, h->buffer, h->first, h->count), x)) return false;
    }
    return true;
}

/* What piece k of a buffer holds before the op, by the last write of its very bytes. */
static oc_value held_before(const oc_plan_set *s, const oc_plan *p, const oc_op *op,
                            oc_buffer_id id, uint32_t k) {
    bytes x = bytes_of(s, id, k, 1);
    for (const oc_op *o = op; o-- > p->ops;)
        for (uint32_t j = o->n_accesses; j-- > 0;) {
            const oc_access *a = &p->accesses[o->first_access + j];
            if (a->mode == OC_READ || !meet(accessed(s, a), x)) continue;
            bool own = a->buffer == id && k >= a->first && k < a->first + a->count;
            oc_value left = a->mode == OC_WRITE ? a->value : a->result;
            return own ? oc_value_at(left, a->first, k) : (oc_value){0};
        }
    for (uint32_t i = 0; i < p->n_starts; i++) {
        const oc_holding *h = &p->starts[i];
        if (h->buffer == id && k >= h->first && k < h->first + h->count)
            return oc_value_at(h->value, h->first, k);
    }
    bool fresh = s->buffers[id].life == OC_LIFE_SUBMISSION;
    return fresh ? oc_value_at(s->buffers[id].initial, 0, k) : (oc_value){0};
}

static bool same_value(oc_value a, oc_value b) {
    return a.what == b.what && a.block == b.block && a.piece == b.piece && a.micro == b.micro &&
           a.version == b.version && a.stage == b.stage && a.share == b.share &&
           a.format == b.format;
}

/* ---- whether a mutant makes no difference ---- */

static bool reads_equal(const subject *x) {
    const oc_access *a = x->access, *was = &x->was;
    if (a->count != was->count) return false;
    if (length(accessed(x->set, a)) < length(accessed(x->set, was))) return false;
    for (uint32_t k = 0; k < a->count; k++) {
        oc_value there = held_before(x->set, x->plan, x->op, a->buffer, a->first + k);
        oc_value old = held_before(x->set, x->plan, x->op, was->buffer, was->first + k);
        if (there.what == OC_V_NONE || !same_value(there, old)) return false;
    }
    return true;
}

static bool unread_after(const subject *x, bytes at) {
    return unread_from(x->set, x->plan, x->op + 1, at);
}

/* Both name the same: OC_EACH_MICRO of one piece is that piece's micro-batch. */
static bool says_same(const oc_access *a, const oc_access *was) {
    for (uint32_t k = a->first; k < a->first + a->count; k++)
        if (!same_value(oc_value_at(a->value, a->first, k), oc_value_at(was->value, a->first, k)))
            return false;
    return true;
}

/* Neither what it wrote nor what it now overwrites is read, it has as much room, and its op does
 * not use these bytes for anything else. */
static bool writes_unread(const subject *x) {
    bytes to = accessed(x->set, x->access), from = accessed(x->set, &x->was);
    for (uint32_t k = 0; k < x->op->n_accesses; k++) {
        const oc_access *o = &x->plan->accesses[x->op->first_access + k];
        if (o != x->access && meet(accessed(x->set, o), to)) return false;
    }
    return length(to) >= length(from) && unread_after(x, from) && unread_after(x, to);
}

static bool harmless(const subject *x, kind k) {
    const oc_access *a = x->access, *was = &x->was;
    if (k == ROLE || k == RUN || k == RUN_ALL) return false;
    if (k != FIRST && k != COUNT && k != BUFFER) { /* it only says another thing */
        bool read_same = a->mode == OC_WRITE || says_same(a, was);
        return read_same && (a->mode == OC_READ || unread_after(x, accessed(x->set, a)));
    }
    return (a->mode == OC_WRITE || reads_equal(x)) && (a->mode == OC_READ || writes_unread(x));
}

/* ---- trying ---- */

static bool in_range(const oc_plan_set *s, const oc_access *a) {
    return a->count > 0 && a->first + a->count <= s->buffers[a->buffer].pieces;
}

static void show(subject *x, kind k) {
    const oc_access *a = x->access, *w = &x->was;
    if (x->n->shown++ >= MAX_SURVIVORS_SHOWN) return;
    print_message("survives: %s: plan %s, op %td (body %u, block %u, micro-batch %u), %s of %s, "
                  "mode %u: now %s, role %s, [%u, %u) was [%u, %u)\n",
                  kind_names[k], x->plan->name, x->op - x->plan->ops, x->op->body, x->op->block,
                  x->op->micro, oc_role_name((oc_role)w->role), x->set->buffers[w->buffer].name,
                  w->mode, x->set->buffers[a->buffer].name, oc_role_name((oc_role)a->role),
                  a->first, a->first + a->count, w->first, w->first + w->count);
}

/* The access as it is now, against the rule; then it is again what it was. */
static void judge(subject *x, kind k) {
    bool derives = in_range(x->set, x->access);
    if (derives) assert_int_equal(oc_plan_derive(x->set, NULL), OC_OK);
    oc_status st = oc_plan_verify(x->set, NULL);
    assert_true(st == OC_OK || st == OC_E_PLAN);
    if (st == OC_E_PLAN) {
        x->n->refused[k]++;
    } else if (harmless(x, k)) {
        x->n->same[k]++;
    } else {
        x->n->wrong[k]++;
        show(x, k);
    }
    *x->access = x->was;
}

static uint32_t next_random(uint32_t *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static void redirect(subject *x) {
    const oc_plan_set *s = x->set;
    oc_access *a = x->access;
    for (int tried = 0, found = 0; tried < 60 && found < OTHER_BUFFERS; tried++) {
        oc_buffer_id to = next_random(&x->seed) % s->n_buffers;
        const oc_buffer *b = &s->buffers[to];
        if (to == a->buffer || b->tier != s->buffers[a->buffer].tier) continue;
        if (b->pieces < a->first + a->count && b->pieces < a->count) continue;
        a->buffer = to;
        if (!in_range(s, a)) a->first = 0;
        judge(x, BUFFER);
        found++;
    }
}

static void move_pieces(subject *x) {
    x->access->first++;
    judge(x, FIRST);
    if (x->was.first > 0) {
        x->access->first--;
        judge(x, FIRST);
    }
    x->access->count++;
    judge(x, COUNT);
    x->access->count--;
    judge(x, COUNT);
    if (x->was.count > 1) { /* the first one short */
        x->access->first++;
        x->access->count--;
        judge(x, COUNT);
    }
}

static void change_roles(subject *x) {
    for (int i = 0; i < OTHER_ROLES; i++) {
        uint8_t role = (uint8_t)(next_random(&x->seed) % OC_ROLE_COUNT);
        if (role == x->was.role) continue;
        x->access->role = role;
        judge(x, ROLE);
    }
}

/* value, or of a fold the result too. */
static void change_value(subject *x, bool result) {
    oc_value *v = result ? &x->access->result : &x->access->value;
    v->piece++;
    judge(x, PIECE);
    v->block++;
    judge(x, BLOCK);
    if (v->block > 0) {
        v->block--;
        judge(x, BLOCK);
    }
    v->micro++;
    judge(x, MICRO);
    v->version++;
    judge(x, VERSION);
    v->stage++;
    judge(x, STAGE);
    v->share++;
    judge(x, SHARE);
    v->format = (uint16_t)((v->format + 1) % OC_FORMAT_COUNT);
    judge(x, FORMAT);
}

static bool names_run(const oc_op *op, const oc_access *a) {
    return a->value.piece == op->piece && a->count == op->pieces;
}

static void shift(const oc_plan_set *s, oc_access *a, bool place_too, int32_t by) {
    a->value.piece += (uint32_t)by;
    if (a->mode == OC_FOLD) a->result.piece += (uint32_t)by;
    if (!place_too) return;
    a->first += (uint32_t)by;
    if (!in_range(s, a)) a->first -= (uint32_t)by;
}

/* The op's piece and this access's: what it reads lies elsewhere, or is said to be another. */
static void shift_run(subject *x, int32_t by) {
    uint32_t piece = x->op->piece;
    if (piece == UINT32_MAX || !names_run(x->op, x->access) || (by < 0 && piece == 0)) return;
    for (int place_too = 0; place_too < 2; place_too++) {
        x->op->piece = piece + (uint32_t)by;
        shift(x->set, x->access, place_too, by);
        judge(x, RUN);
        x->op->piece = piece;
    }
}

/* The op's piece and those of all its accesses; what it reads stays where it is, or moves along. */
static void shift_all(subject *x, int32_t by) {
    oc_op *op = x->op, was = *op;
    oc_access kept[OC_ROLE_COUNT], *all = &x->plan->accesses[op->first_access];
    if (op->piece == UINT32_MAX || (by < 0 && op->piece == 0)) return;
    assert_true(op->n_accesses <= OC_ROLE_COUNT);
    for (int src_too = 0; src_too < 2; src_too++) {
        memcpy(kept, all, op->n_accesses * sizeof *all);
        for (uint32_t k = 0; k < op->n_accesses; k++)
            if (names_run(&was, &all[k]))
                shift(x->set, &all[k], all[k].role != OC_ROLE_SRC || src_too, by);
        op->piece = was.piece + (uint32_t)by;
        judge(x, RUN_ALL);
        op->piece = was.piece;
        memcpy(all, kept, op->n_accesses * sizeof *all);
    }
}

static void mutate(subject *x, bool first_access) {
    redirect(x);
    move_pieces(x);
    change_roles(x);
    change_value(x, false);
    if (x->was.mode == OC_FOLD) change_value(x, true);
    for (int32_t by = -1; by <= 1; by += 2) {
        shift_run(x, by);
        if (first_access) shift_all(x, by);
    }
}

/* ---- sets ---- */

static void print_tally(const char *what, const tally *n) {
    uint64_t refused = 0, same = 0, wrong = 0;
    for (int k = 0; k < KINDS; k++) {
        print_message("%s, %s: %llu refused, %llu the same, %llu wrong\n", what, kind_names[k],
                      (unsigned long long)n->refused[k], (unsigned long long)n->same[k],
                      (unsigned long long)n->wrong[k]);
        refused += n->refused[k];
        same += n->same[k];
        wrong += n->wrong[k];
    }
    print_message("%s: %llu refused, %llu the same, %llu wrong\n", what,
                  (unsigned long long)refused, (unsigned long long)same, (unsigned long long)wrong);
    assert_true(refused > 1000);
    assert_int_equal(wrong, 0);
}

/* Of every `stride`-th access of every plan; into a sample of the buffers and roles. */
static void mutants_of_spec(const char *what, const oc_build_spec *s, uint32_t stride) {
    oc_build_ids ids;
    oc_error err = {0};
    tally n = {0};
    oc_plan_set *set = NULL;
    if (oc_build(s, &set, &ids, &err) != OC_OK) fail_msg("%s", err.message);
    if (oc_plan_verify(set, &err) != OC_OK) fail_msg("%s", err.message);
    uint32_t count = 0;
    for (uint32_t q = 0; q < set->n_plans; q++)
        for (uint32_t i = 0; i < set->plans[q].n_ops; i++)
            for (uint32_t k = 0; k < set->plans[q].ops[i].n_accesses; k++) {
                if (count++ % stride) continue;
                oc_plan *p = &set->plans[q];
                oc_access *a = &p->accesses[p->ops[i].first_access + k];
                subject x = {set, p, &p->ops[i], a, *a, count, &n};
                mutate(&x, k == 0);
            }
    assert_int_equal(oc_plan_derive(set, &err), OC_OK);
    assert_int_equal(oc_plan_verify(set, &err), OC_OK);
    print_tally(what, &n);
    oc_build_ids_release(&ids);
    oc_plan_set_free(set);
}

/* homes: 0, or the seed of a random table. */
static void mutants_of(const char *what, const char *json, oc_placement place, int micros,
                       uint32_t stride, uint32_t homes) {
    oc_model *m = case_model(json);
    oc_block_homes *table = homes ? homes_make(m, homes, 20) : NULL;
    oc_build_spec s = case_spec(m);
    s.micros = micros;
    s.place = place;
    s.place.homes = table;
    s.place.piece_elements = OC_NORM_CHUNK;
    mutants_of_spec(what, &s, stride);
    free(table);
    oc_model_close(m);
}

static void mutants(const char *what, const char *json, oc_placement place, int micros,
                    uint32_t stride) {
    mutants_of(what, json, place, micros, stride, 0);
}

static void no_access_of_a_streamed_step_can_be_redirected(void **state) {
    (void)state;
    mutants("streamed", llama_untied,
            (oc_placement){.compute = OC_TIER_DEVICE,
                           .slots = 2,
                           .slabs = 2,
                           .group = 1,
                           .act_slots = 3,
                           .kept = {1, 1, 1, 1, 1}},
            3, 1);
}

static void no_access_of_a_tied_breadth_first_step_can_be_redirected(void **state) {
    (void)state;
    mutants("tied breadth-first", llama_tied,
            (oc_placement){.compute = OC_TIER_DEVICE, .slots = 3, .slabs = 1, .group = 2}, 4,
            TIED_STRIDE);
}

static void no_access_of_an_interleaved_step_can_be_redirected(void **state) {
    (void)state;
    mutants("interleaved", llama_untied,
            (oc_placement){.compute = OC_TIER_DEVICE,
                           .slots = 4,
                           .slabs = 2,
                           .group = 1,
                           .interleave = true,
                           .act_slots = 3},
            5, 1);
}

static void no_access_of_a_step_that_keeps_some_values_can_be_redirected(void **state) {
    (void)state;
    mutants("some values kept", gemma2_small,
            (oc_placement){.compute = OC_TIER_DEVICE,
                           .slots = 2,
                           .slabs = 1,
                           .group = 1,
                           .kept = {1, 0, 2, 1, 1},
                           .kept_logits = 1},
            2, 1);
}

static void no_access_of_a_resident_step_can_be_redirected(void **state) {
    (void)state;
    mutants("resident", gpt2_small,
            (oc_placement){.compute = OC_TIER_DEVICE, .resident = true, .slabs = 1, .group = 1}, 3,
            1);
}

static void no_access_of_an_early_step_can_be_redirected(void **state) {
    (void)state;
    mutants("early", llama_untied,
            (oc_placement){
                .compute = OC_TIER_DEVICE, .slots = 2, .slabs = 2, .group = 1, .early = true},
            1, 1);
}

static void no_access_of_a_step_with_mixed_homes_can_be_redirected(void **state) {
    (void)state;
    mutants_of("mixed homes", llama_untied,
               (oc_placement){.compute = OC_TIER_DEVICE, .slots = 2, .slabs = 2, .group = 1}, 3, 2,
               5);
}

static void no_access_of_a_pass_can_be_redirected(void **state) {
    (void)state;
    oc_model *m = case_model(llama_untied);
    oc_build_spec s = case_pass_spec(m, 2, false);
    mutants_of_spec("pass", &s, 2);
    oc_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_access_of_a_streamed_step_can_be_redirected),
        cmocka_unit_test(no_access_of_a_tied_breadth_first_step_can_be_redirected),
        cmocka_unit_test(no_access_of_an_interleaved_step_can_be_redirected),
        cmocka_unit_test(no_access_of_a_step_that_keeps_some_values_can_be_redirected),
        cmocka_unit_test(no_access_of_a_resident_step_can_be_redirected),
        cmocka_unit_test(no_access_of_an_early_step_can_be_redirected),
        cmocka_unit_test(no_access_of_a_step_with_mixed_homes_can_be_redirected),
        cmocka_unit_test(no_access_of_a_pass_can_be_redirected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
