/* roster.c - see roster.h. */
#include "infer/roster.h"

#include "base/heap.h"

#include <stdlib.h>
#include <string.h>

enum { NO_PAGE = -1 };

/* A page of a group. Pages are in a list of free ones, or in use by `users` sequences. Free pages
 * that still hold something known are at the list's end: oldest first. */
typedef struct page {
    uint64_t key; /* of its tokens and of the page before; 0: not known */
    int32_t users;
    bool filled;        /* else whoever let it in is filling it */
    int32_t next, prev; /* in the list of free pages */
    bool reads, fills;  /* the pass being filled does; false between passes */
} page;

typedef struct group {
    page *pages;
    int32_t *ids; /* [pages][page_tokens]: tokens of pages that are known */
    int32_t oldest, newest, n_free;
} group;

struct oc_roster {
    oc_roster_spec spec;
    group *groups;
    oc_sequence *places; /* [groups][rows]; ids NULL: free */
    int32_t *tables;     /* [groups][rows][row_pages] */
    uint64_t *ages;      /* of places: order in which they were let in */
    uint64_t clock;
    int32_t count;
};

/* ---- life ---- */

static size_t places_of(const oc_roster_spec *p) { return (size_t)p->groups * (size_t)p->rows; }

uint64_t oc_roster_bytes(const oc_roster_spec *p) {
    uint64_t places = places_of(p), pages = (uint64_t)p->pages;
    return oc_heap_bytes(sizeof(oc_roster)) + oc_heap_bytes((uint64_t)p->groups * sizeof(group)) +
           oc_heap_bytes(places * sizeof(oc_sequence)) +
           oc_heap_bytes(places * (uint64_t)p->row_pages * sizeof(int32_t)) +
           oc_heap_bytes(places * sizeof(uint64_t)) +
           (uint64_t)p->groups * (oc_heap_bytes(pages * sizeof(page)) +
                                  oc_heap_bytes(pages * (uint64_t)p->page_tokens * 4));
}

static void put_last(group *g, int32_t i) {
    page *x = &g->pages[i];
    x->next = NO_PAGE;
    x->prev = g->newest;
    if (g->newest != NO_PAGE) g->pages[g->newest].next = i;
    g->newest = i;
    if (g->oldest == NO_PAGE) g->oldest = i;
    g->n_free++;
}

static void take_out(group *g, int32_t i) {
    page *x = &g->pages[i];
    if (x->prev != NO_PAGE) g->pages[x->prev].next = x->next;
    if (x->next != NO_PAGE) g->pages[x->next].prev = x->prev;
    if (g->oldest == i) g->oldest = x->next;
    if (g->newest == i) g->newest = x->prev;
    g->n_free--;
}

static bool open_group(group *g, int32_t pages, int32_t page_tokens) {
    *g = (group){.oldest = NO_PAGE, .newest = NO_PAGE};
    g->pages = calloc((size_t)pages, sizeof *g->pages);
    g->ids = calloc((size_t)pages * (size_t)page_tokens, sizeof *g->ids);
    for (int32_t i = 0; g->pages && i < pages; i++)
        put_last(g, i);
    return g->pages && g->ids;
}

static bool open_all(oc_roster *s) {
    const oc_roster_spec *p = &s->spec;
    size_t n = places_of(p);
    s->groups = calloc((size_t)p->groups, sizeof *s->groups);
    s->places = calloc(n, sizeof *s->places);
    s->tables = calloc(n * (size_t)p->row_pages, sizeof *s->tables);
    s->ages = calloc(n, sizeof *s->ages);
    bool ok = s->groups && s->places && s->tables && s->ages;
    for (int32_t g = 0; ok && g < p->groups; g++)
        ok = open_group(&s->groups[g], p->pages, p->page_tokens);
    return ok;
}

oc_status oc_roster_open(oc_roster **out, const oc_roster_spec *spec, oc_error *err) {
    oc_roster *s = calloc(1, sizeof *s);
    if (s) s->spec = *spec;
    if (!s || !open_all(s)) {
        oc_roster_close(s);
        return oc_fail(err, OC_E_MEMORY, "no memory for the roster of passes");
    }
    *out = s;
    return OC_OK;
}

void oc_roster_close(oc_roster *s) {
    if (!s) return;
    for (int32_t g = 0; s->groups && g < s->spec.groups; g++) {
        free(s->groups[g].pages);
        free(s->groups[g].ids);
    }
    free(s->groups);
    free(s->places);
    free(s->tables);
    free(s->ages);
    free(s);
}

/* ---- pages ---- */

static int32_t pages_for(const oc_roster_spec *p, int32_t tokens) {
    return (tokens + p->page_tokens - 1) / p->page_tokens;
}

/* The last token needs no page: nothing comes after it. */
static int32_t pages_of(const oc_roster_spec *p, int32_t most) {
    return pages_for(p, most > 1 ? most - 1 : 1);
}

bool oc_roster_holds(const oc_roster_spec *p, int32_t most) {
    int32_t n = pages_of(p, most);
    return n <= p->row_pages && n <= p->pages;
}

/* FNV-1a over the page before and the tokens; never 0. */
static uint64_t key_of(uint64_t before, const int32_t *ids, int32_t n) {
    uint64_t h = 14695981039346656037u ^ before;
    for (int32_t i = 0; i < n; i++) {
        h = (h ^ (uint32_t)ids[i]) * 1099511628211u;
        h ^= h >> 29;
    }
    return h | 1;
}

static int32_t find(const oc_roster *s, const group *g, uint64_t key, const int32_t *ids) {
    size_t n = (size_t)s->spec.page_tokens;
    for (int32_t i = 0; i < s->spec.pages; i++)
        if (g->pages[i].key == key && memcmp(g->ids + (size_t)i * n, ids, n * sizeof *ids) == 0)
            return i;
    return NO_PAGE;
}

static int32_t *table_of(oc_roster *s, const oc_sequence *x) {
    size_t at = (size_t)x->group * (size_t)s->spec.rows + (size_t)x->place;
    return s->tables + at * (size_t)s->spec.row_pages;
}

/* Whole pages of the prompt that are known, from its first on; one token at least is left to
 * compute. */
static int32_t find_shared(const oc_roster *s, const group *g, const int32_t *ids, int32_t n_prompt,
                           int32_t *out, int32_t room) {
    int32_t size = s->spec.page_tokens, n = 0;
    uint64_t key = 0;
    for (; s->spec.share && n < room && (n + 1) * size < n_prompt; n++) {
        key = key_of(key, ids + n * size, size);
        out[n] = find(s, g, key, ids + n * size);
        if (out[n] == NO_PAGE) break;
    }
    return n;
}

static void use_page(group *g, int32_t i) {
    if (g->pages[i].users++ == 0) take_out(g, i);
}

static void leave_page(group *g, int32_t i) {
    page *x = &g->pages[i];
    if (--x->users > 0) return;
    if (!x->filled) x->key = 0; /* nobody will */
    put_last(g, i);
}

static int32_t new_page(group *g) {
    int32_t i = g->oldest;
    take_out(g, i);
    g->pages[i] = (page){.users = 1};
    return i;
}

/* New pages of whole prompt pages are known from now on: others that begin alike wait for them. */
static void name_pages(oc_roster *s, group *g, const oc_sequence *x, int32_t from) {
    int32_t size = s->spec.page_tokens, *table = table_of(s, x);
    uint64_t key = from > 0 ? g->pages[table[from - 1]].key : 0;
    for (int32_t n = from; s->spec.share && (n + 1) * size <= x->n_prompt; n++) {
        key = key_of(key, x->ids + n * size, size);
        if (find(s, g, key, x->ids + n * size) != NO_PAGE) return; /* one of a name */
        g->pages[table[n]].key = key;
        memcpy(g->ids + (size_t)table[n] * (size_t)size, x->ids + n * size,
               (size_t)size * sizeof *g->ids);
    }
}

/* ---- coming and going ---- */

static oc_sequence *free_place(oc_roster *s, int32_t g) {
    oc_sequence *x = s->places + (size_t)g * (size_t)s->spec.rows;
    for (int32_t i = 0; i < s->spec.rows; i++)
        if (!x[i].ids) {
            x[i] = (oc_sequence){.group = g, .place = i, .sample = -1};
            return &x[i];
        }
    return NULL;
}

/* Free pages that it would take in a group, of which some are known already; INT32_MAX: no place.
 */
static int32_t cost(oc_roster *s, int32_t g, const int32_t *ids, int32_t n_prompt, int32_t pages,
                    int32_t *found, int32_t *n_found) {
    group *x = &s->groups[g];
    oc_sequence *place = free_place(s, g);
    *n_found = 0;
    if (!place) return INT32_MAX;
    *n_found = find_shared(s, x, ids, n_prompt, found, pages);
    int32_t taken = pages - *n_found;
    for (int32_t i = 0; i < *n_found; i++)
        if (x->pages[found[i]].users == 0) taken++;
    return taken;
}

static oc_sequence *let_in(oc_roster *s, int32_t g, int32_t pages, int32_t n_shared) {
    oc_sequence *x = free_place(s, g);
    int32_t *table = table_of(s, x);
    for (int32_t i = 0; i < n_shared; i++)
        use_page(&s->groups[g], table[i]);
    for (int32_t i = n_shared; i < pages; i++)
        table[i] = new_page(&s->groups[g]);
    s->ages[(size_t)g * (size_t)s->spec.rows + (size_t)x->place] = ++s->clock;
    s->count++;
    return x;
}

oc_sequence *oc_roster_admit(oc_roster *s, int32_t *ids, int32_t n_prompt, int32_t most,
                             void *user) {
    int32_t pages = pages_of(&s->spec, most), best = -1, least = INT32_MAX;
    for (int32_t g = 0; g < s->spec.groups; g++) {
        oc_sequence *place = free_place(s, g);
        int32_t n, c = place ? cost(s, g, ids, n_prompt, pages, table_of(s, place), &n) : INT32_MAX;
        if (c > s->groups[g].n_free) continue;
        bool emptier = best >= 0 && c == least && s->groups[g].n_free > s->groups[best].n_free;
        if (c >= least && !emptier) continue;
        best = g;
        least = c;
    }
    if (best < 0) return NULL;
    int32_t n_shared;
    (void)cost(s, best, ids, n_prompt, pages, table_of(s, free_place(s, best)), &n_shared);
    oc_sequence *x = let_in(s, best, pages, n_shared);
    x->ids = ids;
    x->n_ids = x->n_prompt = n_prompt;
    x->most = most;
    x->user = user;
    x->done = x->shared = n_shared * s->spec.page_tokens;
    name_pages(s, &s->groups[best], x, n_shared);
    return x;
}

/* A page that nobody fills any more, though others wait for it: the oldest of them does. */
static void hand_on(oc_roster *s, int32_t g, int32_t i, int32_t at) {
    oc_sequence *best = NULL, *x = s->places + (size_t)g * (size_t)s->spec.rows;
    uint64_t *ages = s->ages + (size_t)g * (size_t)s->spec.rows;
    for (int32_t k = 0; k < s->spec.rows; k++) {
        bool waits =
            x[k].ids && x[k].shared > at * s->spec.page_tokens && table_of(s, &x[k])[at] == i;
        if (waits && (!best || ages[k] < ages[best->place])) best = &x[k];
    }
    if (best) best->done = best->shared = at * s->spec.page_tokens;
}

void oc_roster_remove(oc_roster *s, oc_sequence *x) {
    int32_t pages = pages_of(&s->spec, x->most), *table = table_of(s, x);
    int32_t own = x->shared / s->spec.page_tokens;
    group *g = &s->groups[x->group];
    x->ids = NULL;
    for (int32_t i = pages - 1; i >= 0; i--) { /* a beginning is forgotten after what follows it */
        leave_page(g, table[i]);
        if (i >= own && !g->pages[table[i]].filled && g->pages[table[i]].users > 0)
            hand_on(s, x->group, table[i], i);
    }
    s->count--;
}

/* ---- a pass ---- */

/* A group's cells, being filled. */
typedef struct filling {
    oc_roster *s;
    int32_t group;
    int32_t *tokens, *positions;
    oc_pages_cell *counts;
    oc_paged_row *rows;
    int32_t *samples, *table;
} filling;

static filling filling_of(oc_roster *s, int32_t g, int32_t *batch, void *pages) {
    const oc_roster_spec *p = &s->spec;
    filling f = {.s = s, .group = g, .counts = pages, .rows = oc_pages_rows(pages)};
    f.tokens = batch + OC_BATCH_TOKENS * p->tokens;
    f.positions = batch + OC_BATCH_POSITIONS * p->tokens;
    f.samples = oc_pages_samples(pages, p->rows);
    f.table = oc_pages_table(pages, p->rows);
    *f.counts = (oc_pages_cell){0};
    return f;
}

/* Pages that hold what the row's new tokens look at, and those that these go to. */
static void mark_pages(filling *f, const int32_t *table, int32_t done, int32_t n) {
    page *pages = f->s->groups[f->group].pages;
    int32_t size = f->s->spec.page_tokens;
    for (int32_t i = 0; i * size < done; i++)
        pages[table[i]].reads = true;
    for (int32_t i = done / size; i * size < done + n; i++)
        pages[table[i]].fills = true;
}

/* Each once, however many rows share it, and side by side where they stand so. */
static void list_pages(filling *f) {
    const oc_roster_spec *p = &f->s->spec;
    page *x = f->s->groups[f->group].pages;
    int32_t *read = oc_pages_read(f->counts, p->rows, p->row_pages);
    int32_t *filled = oc_pages_filled(f->counts, p->rows, p->row_pages, p->listed);
    for (int32_t i = 0; i < p->listed; i++) {
        if (x[i].reads) read[f->counts->read++] = i;
        if (x[i].fills) filled[f->counts->filled++] = i;
        x[i].reads = x[i].fills = false;
    }
}

static void take(filling *f, oc_sequence *x, int32_t n) {
    oc_pages_cell *c = f->counts;
    const oc_roster_spec *p = &f->s->spec;
    int32_t *table = f->table + (size_t)c->rows * (size_t)p->row_pages;
    memcpy(f->tokens + c->tokens, x->ids + x->done, (size_t)n * sizeof *x->ids);
    for (int32_t i = 0; i < n; i++)
        f->positions[c->tokens + i] = x->done + i;
    memcpy(table, table_of(f->s, x), (size_t)pages_for(p, x->done + n) * sizeof *table);
    if (p->listed) mark_pages(f, table, x->done, n);
    f->rows[c->rows++] = (oc_paged_row){.first = c->tokens, .tokens = n, .context = x->done};
    c->tokens += n;
    x->taken = n;
    if (x->done + n < x->n_ids) return;
    x->sample = c->samples;
    f->samples[c->samples++] = c->tokens - 1;
}

static bool answers(const oc_sequence *x) {
    return x->done + 1 == x->n_ids && x->n_ids > x->n_prompt;
}

/* Of those whose prompt is not done: the one let in first that the pass does not take yet. Whoever
 * fills a page comes before those that share it, so that it is full when they read it, in the same
 * pass or a later one (a pass puts all its keys and values in their pages before it reads any). */
static oc_sequence *oldest_prompt(oc_roster *s, int32_t g) {
    oc_sequence *best = NULL, *x = s->places + (size_t)g * (size_t)s->spec.rows;
    uint64_t *ages = s->ages + (size_t)g * (size_t)s->spec.rows, least = UINT64_MAX;
    for (int32_t i = 0; i < s->spec.rows; i++) {
        if (!x[i].ids || x[i].taken || answers(&x[i]) || ages[i] >= least) continue;
        best = &x[i];
        least = ages[i];
    }
    return best;
}

static void fill_group(filling *f) {
    oc_roster *s = f->s;
    oc_sequence *x = s->places + (size_t)f->group * (size_t)s->spec.rows;
    for (int32_t i = 0; i < s->spec.rows; i++) {
        x[i].taken = 0;
        x[i].sample = -1;
        if (x[i].ids && answers(&x[i]) && f->counts->tokens < s->spec.tokens) take(f, &x[i], 1);
    }
    for (int32_t room; (room = s->spec.tokens - f->counts->tokens) > 0;) {
        oc_sequence *p = oldest_prompt(s, f->group);
        if (!p) break;
        int32_t left = p->n_ids - p->done;
        take(f, p, left < room ? left : room);
    }
}

int64_t oc_roster_fill(oc_roster *s, oc_control_cell *control, int32_t *batch,
                       uint64_t batch_piece_bytes, void *pages, uint64_t pages_piece_bytes) {
    int32_t n = s->spec.groups;
    int64_t all = 0;
    control->step++;
    for (int32_t g = 0; g < n; g++) {
        char *b = (char *)batch + (uint64_t)g * batch_piece_bytes;
        filling f =
            filling_of(s, g, (int32_t *)(void *)b, (char *)pages + (uint64_t)g * pages_piece_bytes);
        fill_group(&f);
        list_pages(&f);
        control->live[g] = (uint32_t)f.counts->tokens;
        control->live[n + g] = (uint32_t)f.counts->samples;
        control->live[2 * n + g] = (uint32_t)f.counts->rows;
        all += f.counts->tokens;
    }
    return all;
}

/* Pages that are full now may be shared. */
static void mark_filled(oc_roster *s, const oc_sequence *x, int32_t was) {
    const int32_t *table = table_of(s, x);
    int32_t size = s->spec.page_tokens;
    for (int32_t i = was / size; (i + 1) * size <= x->done; i++)
        s->groups[x->group].pages[table[i]].filled = true;
}

void oc_roster_passed(oc_roster *s) {
    for (size_t i = 0; i < places_of(&s->spec); i++) {
        oc_sequence *x = &s->places[i];
        if (!x->ids || !x->taken) continue;
        int32_t was = x->done;
        x->done += x->taken;
        x->taken = 0;
        mark_filled(s, x, was);
    }
}

/* ---- questions ---- */

oc_sequence *oc_roster_at(oc_roster *s, int32_t k) {
    for (size_t i = 0; i < places_of(&s->spec); i++)
        if (s->places[i].ids && k-- == 0) return &s->places[i];
    return NULL;
}

int32_t oc_roster_count(const oc_roster *s) { return s->count; }

int32_t oc_roster_pages(const oc_roster *s) {
    int32_t n = 0;
    for (int32_t g = 0; g < s->spec.groups; g++)
        n += s->spec.pages - s->groups[g].n_free;
    return n;
}
