/* Which tokens a pass takes: every page a sequence reads holds its own tokens, whatever comes and
 * goes. */
#include "cmocka_all.h"
#include "infer/roster.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 200, PLACES = 64, IDS = 4096 };

/* The passes' other side: pages that hold tokens instead of keys and values. */
typedef struct world {
    oc_roster_spec spec;
    oc_roster *s;
    oc_control_cell control;
    int32_t *batch, *content; /* content: [groups][pages][page_tokens] */
    int32_t *home;            /* with lists, the same between passes */
    void *pages;
    uint64_t batch_bytes, pages_bytes;
    uint64_t seed;
    int32_t longest_wait;
} world;

static uint32_t draw(world *w, uint32_t n) {
    w->seed = w->seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(w->seed >> 33) % n;
}

static void world_open(world *w, oc_roster_spec spec) {
    oc_error err;
    memset(w, 0, sizeof *w);
    w->spec = spec;
    w->seed = 11;
    w->batch_bytes = 4u * OC_BATCH_ARRAYS * (uint64_t)spec.tokens;
    w->pages_bytes = oc_pages_bytes(spec.rows, spec.row_pages, spec.listed);
    w->batch = calloc((size_t)spec.groups, w->batch_bytes);
    w->pages = calloc((size_t)spec.groups, w->pages_bytes);
    w->content = calloc((size_t)(spec.groups * spec.pages * spec.page_tokens), 4);
    w->home = calloc((size_t)(spec.groups * spec.pages * spec.page_tokens), 4);
    assert_int_equal(oc_roster_open(&w->s, &spec, &err), OC_OK);
}

static void world_close(world *w) {
    oc_roster_close(w->s);
    free(w->batch);
    free(w->pages);
    free(w->content);
    free(w->home);
}

static int32_t *content_at(world *w, int32_t group, const int32_t *table, int32_t place) {
    int32_t page = table[place / w->spec.page_tokens];
    assert_in_range(page, 0, w->spec.pages - 1);
    return w->content + (group * w->spec.pages + page) * w->spec.page_tokens +
           place % w->spec.page_tokens;
}

static oc_sequence *sequence_of(world *w, int32_t group, int32_t first, int32_t n) {
    oc_sequence *x;
    for (int32_t k = 0; (x = oc_roster_at(w->s, k)); k++)
        if (x->group == group && x->taken == n && x->done == first) return x;
    return NULL;
}

/* What a row is told to read is what stands before its tokens in one sequence of that length. */
static void check_row(world *w, int32_t group, const oc_paged_row *r, const int32_t *table,
                      const int32_t *tokens) {
    oc_sequence *x;
    bool found = false;
    assert_non_null(sequence_of(w, group, r->context, r->tokens));
    for (int32_t k = 0; (x = oc_roster_at(w->s, k)) && !found; k++) {
        if (x->group != group || x->taken != r->tokens || x->done != r->context) continue;
        found = memcmp(x->ids + x->done, tokens + r->first, 4 * (size_t)r->tokens) == 0;
        for (int32_t i = 0; found && i < r->context; i++)
            found = *content_at(w, group, table, i) == x->ids[i];
    }
    assert_true(found);
    for (int32_t i = 0; i < r->tokens; i++)
        *content_at(w, group, table, r->context + i) = tokens[r->first + i];
}

/* Pages pass through a place that forgets: only what the lists name comes and goes. */
static void move_pages(world *w, int32_t group, const int32_t *page, int32_t n, bool back) {
    int32_t *from = back ? w->content : w->home, *to = back ? w->home : w->content;
    for (int32_t i = 0; i < n; i++) {
        size_t size = (size_t)w->spec.page_tokens;
        size_t at = ((size_t)(group * w->spec.pages) + (size_t)page[i]) * size;
        assert_in_range(page[i], i > 0 ? page[i - 1] + 1 : 0, w->spec.pages - 1);
        memcpy(to + at, from + at, 4 * size);
    }
}

static void begin_group(world *w, int32_t g, oc_pages_cell *c) {
    const oc_roster_spec *p = &w->spec;
    size_t n = 4 * (size_t)(p->pages * p->page_tokens);
    if (!p->listed) return;
    memset(w->content + g * p->pages * p->page_tokens, 0xff, n);
    move_pages(w, g, oc_pages_read(c, p->rows, p->row_pages), c->read, false);
}

static void end_group(world *w, int32_t g, oc_pages_cell *c) {
    const oc_roster_spec *p = &w->spec;
    if (!p->listed) return;
    move_pages(w, g, oc_pages_filled(c, p->rows, p->row_pages, p->listed), c->filled, true);
}

static int64_t pass(world *w) {
    const oc_roster_spec *p = &w->spec;
    int64_t n =
        oc_roster_fill(w->s, &w->control, w->batch, w->batch_bytes, w->pages, w->pages_bytes);
    for (int32_t g = 0; g < p->groups; g++) {
        oc_pages_cell *c = (void *)((char *)w->pages + (uint64_t)g * w->pages_bytes);
        int32_t *tokens = (void *)((char *)w->batch + (uint64_t)g * w->batch_bytes);
        assert_in_range(c->tokens, 0, p->tokens);
        assert_in_range(c->rows, 0, p->rows);
        begin_group(w, g, c);
        for (int32_t r = 0; r < c->rows; r++)
            check_row(w, g, &oc_pages_rows(c)[r], oc_pages_table(c, p->rows) + r * p->row_pages,
                      tokens);
        end_group(w, g, c);
    }
    oc_roster_passed(w->s);
    return n;
}

/* The next token of all that were asked for one; those that are full, or that luck ends, go. */
static int answer(world *w, bool cancels) {
    oc_sequence *x;
    int ended = 0;
    for (int32_t k = 0; (x = oc_roster_at(w->s, k));) {
        if (x->sample >= 0) x->ids[x->n_ids++] = (int32_t)draw(w, 7);
        bool over = x->n_ids == x->most || (cancels && draw(w, 40) == 0);
        if (!over) {
            k++;
            continue;
        }
        free(x->ids);
        oc_roster_remove(w->s, x);
        ended++;
    }
    return ended;
}

/* Prompts begin with one of three long texts, so that many have pages in common. */
static int32_t *prompt(world *w, int32_t *n, int32_t *most) {
    int32_t *ids = calloc(MOST, sizeof *ids), kind = (int32_t)draw(w, 3);
    *n = 1 + (int32_t)draw(w, 120);
    *most = *n + 1 + (int32_t)draw(w, 60);
    for (int32_t i = 0; i < *n; i++)
        ids[i] = i < 70 ? (i * (kind + 3)) % 11 : (int32_t)draw(w, 11);
    return ids;
}

static void run_all(world *w, int rows, bool cancels) {
    int in = 0, out = 0, passes = 0, idle = 0;
    int32_t n = 0, most = 0, *waiting = NULL;
    while (out < rows) {
        for (; in < rows; in++) {
            if (!waiting) waiting = prompt(w, &n, &most);
            if (!oc_roster_admit(w->s, waiting, n, most, NULL)) break;
            waiting = NULL;
        }
        idle = pass(w) > 0 ? 0 : idle + 1;
        assert_true(idle < 2);
        out += answer(w, cancels);
        assert_true(++passes < 100000);
    }
    assert_int_equal(oc_roster_count(w->s), 0);
    assert_int_equal(oc_roster_pages(w->s), 0);
}

static void every_page_holds_the_tokens_of_whoever_reads_it(void **state) {
    static const oc_roster_spec specs[] = {
        {.groups = 1, .rows = 4, .tokens = 32, .page_tokens = 16, .pages = 40, .row_pages = 12},
        {.groups = 3, .rows = 5, .tokens = 7, .page_tokens = 16, .pages = 30, .row_pages = 12},
        {.groups = 2, .rows = 16, .tokens = 64, .page_tokens = 32, .pages = 90, .row_pages = 6},
        {.groups = 1, .rows = 1, .tokens = 1, .page_tokens = 16, .pages = 12, .row_pages = 12},
    };
    (void)state;
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
        for (int how = 0; how < 8; how++) {
            oc_roster_spec spec = specs[i];
            world w;
            spec.share = how & 1;
            spec.listed = how & 4 ? spec.pages : 0;
            world_open(&w, spec);
            run_all(&w, 150, how & 2);
            world_close(&w);
        }
}

static void a_common_beginning_is_computed_once(void **state) {
    oc_roster_spec spec = {.groups = 1,
                           .rows = 8,
                           .tokens = 512,
                           .page_tokens = 16,
                           .pages = 99,
                           .row_pages = 12,
                           .share = true};
    int64_t tokens = 0, n;
    world w;
    (void)state;
    world_open(&w, spec);
    for (int i = 0; i < 8; i++) {
        int32_t *ids = calloc(MOST, 4);
        ids[100] = i;
        assert_non_null(oc_roster_admit(w.s, ids, 101, 102, NULL));
    }
    while ((n = pass(&w)) > 0) {
        tokens += n;
        (void)answer(&w, false);
    }
    assert_int_equal(tokens, 101 + 7 * (101 - 96));
    world_close(&w);
}

/* Eight sequences of 101 tokens, 96 of them alike: 6 pages of those, and one each. */
static void a_shared_page_is_listed_once(void **state) {
    oc_roster_spec spec = {.groups = 1,
                           .rows = 8,
                           .tokens = 512,
                           .page_tokens = 16,
                           .pages = 99,
                           .row_pages = 12,
                           .share = true,
                           .listed = 99};
    world w;
    (void)state;
    world_open(&w, spec);
    for (int i = 0; i < 8; i++) {
        int32_t *ids = calloc(MOST, 4);
        ids[100] = i;
        assert_non_null(oc_roster_admit(w.s, ids, 101, 110, NULL));
    }
    while (oc_roster_at(w.s, 7)->n_ids == 101) {
        assert_true(pass(&w) > 0);
        (void)answer(&w, false);
    }
    const oc_pages_cell *c = w.pages;
    assert_true(pass(&w) == 8);
    assert_int_equal(c->read, 6 + 8);
    assert_int_equal(c->filled, 8);
    while (oc_roster_count(w.s)) {
        (void)answer(&w, false);
        (void)pass(&w);
    }
    world_close(&w);
}

static void who_waits_for_a_page_fills_it_when_its_owner_goes(void **state) {
    oc_roster_spec spec = {.groups = 1,
                           .rows = 3,
                           .tokens = 16,
                           .page_tokens = 16,
                           .pages = 40,
                           .row_pages = 12,
                           .share = true};
    oc_sequence *x[3];
    world w;
    (void)state;
    world_open(&w, spec);
    for (int i = 0; i < 3; i++)
        x[i] = oc_roster_admit(w.s, calloc(MOST, 4), 100, 110, NULL);
    assert_int_equal(pass(&w), 16);
    free(x[0]->ids);
    oc_roster_remove(w.s, x[0]);
    while (oc_roster_count(w.s)) {
        assert_true(pass(&w) > 0);
        (void)answer(&w, false);
    }
    world_close(&w);
}

static void nobody_is_let_in_that_memory_could_fail(void **state) {
    oc_roster_spec spec = {
        .groups = 1, .rows = 8, .tokens = 8, .page_tokens = 16, .pages = 8, .row_pages = 5};
    int32_t *a = calloc(MOST, 4), *b = calloc(MOST, 4);
    world w;
    (void)state;
    world_open(&w, spec);
    assert_true(oc_roster_holds(&spec, 81));
    assert_false(oc_roster_holds(&spec, 82));
    assert_non_null(oc_roster_admit(w.s, a, 10, 81, NULL));
    assert_null(oc_roster_admit(w.s, b, 10, 50, NULL));
    assert_non_null(oc_roster_admit(w.s, b, 10, 49, NULL));
    assert_int_equal(oc_roster_pages(w.s), 8);
    while (oc_roster_count(w.s)) {
        assert_true(pass(&w) > 0);
        (void)answer(&w, false);
    }
    world_close(&w);
}

/* Sixteen tokens a pass, three answered: thirteen are left for the prompt that waits. */
static void prompts_fill_what_answers_leave(void **state) {
    oc_roster_spec spec = {
        .groups = 1, .rows = 4, .tokens = 16, .page_tokens = 16, .pages = 40, .row_pages = 12};
    world w;
    (void)state;
    world_open(&w, spec);
    for (int i = 0; i < 3; i++)
        assert_non_null(oc_roster_admit(w.s, calloc(MOST, 4), 2, 20, NULL));
    assert_int_equal(pass(&w), 6);
    (void)answer(&w, false);
    assert_non_null(oc_roster_admit(w.s, calloc(MOST, 4), 20, 30, NULL));
    assert_int_equal(pass(&w), 16);
    (void)answer(&w, false);
    assert_int_equal(pass(&w), 3 + 7);
    while (oc_roster_count(w.s)) {
        (void)answer(&w, false);
        (void)pass(&w);
    }
    world_close(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_page_holds_the_tokens_of_whoever_reads_it),
        cmocka_unit_test(a_common_beginning_is_computed_once),
        cmocka_unit_test(a_shared_page_is_listed_once),
        cmocka_unit_test(who_waits_for_a_page_fills_it_when_its_owner_goes),
        cmocka_unit_test(nobody_is_let_in_that_memory_could_fail),
        cmocka_unit_test(prompts_fill_what_answers_leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
