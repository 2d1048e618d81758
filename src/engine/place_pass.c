/* place_pass.c - how many sequences a pass of generation takes, and where weights live beside them.
 *
 * For each batch of a growing list the device's memory goes to activations and pages first, then to
 * a second and third weight slot, and what is left to blocks that stay there. Of these candidates
 * the one with the least estimated time for what is to be generated is taken: a larger batch shares
 * each fetched block among more sequences, until arithmetic is what bounds, or pages displace the
 * blocks that need no fetch. */
#include "base/checked.h"
#include "engine/place.h"
#include "model/flops.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { PASS_TOKENS = 512, BATCH_MOST = 4096, PAGE_SLOTS = 2 };

static int32_t pages_for(int64_t tokens, int64_t page_tokens) {
    return (int32_t)((tokens + page_tokens - 1) / page_tokens);
}

/* ---- sizes that follow from a batch ---- */

/* Tokens of a group's pass: its answers, and prompts beside them; no more than there may ever be.
 */
static int64_t pass_tokens(const oc_setup *s, int32_t rows) {
    int64_t asked = s->config->gen.prefill, most = rows * s->wish.longest;
    int64_t n = asked > 0 ? (asked + s->build.micros - 1) / s->build.micros : PASS_TOKENS;
    if (n > most) n = most;
    return n > rows ? n : rows;
}

/* Pages of a group: as many as are asked for; else for sequences as long as they are on average, if
 * there are many; for one of the longest always. */
static int32_t group_pages(const oc_setup *s, int32_t rows, int32_t row_pages) {
    int64_t size = s->config->gen.page_tokens, asked = s->config->gen.kv_tokens;
    if (asked > 0) return pages_for(pages_for(asked, size), s->build.micros);
    int32_t mean = pages_for((int64_t)ceil(s->wish.prompt + s->wish.answer), size);
    if (mean < 1 || mean > row_pages || rows < 4) mean = row_pages;
    int64_t n = (int64_t)rows * mean + (mean < row_pages ? rows : 0);
    return n < row_pages ? row_pages : (int32_t)n;
}

/* rows: of a group. */
static void size_pass(oc_setup *s, int32_t rows) {
    int64_t size = s->config->gen.page_tokens;
    int32_t row_pages = pages_for(s->wish.longest > 1 ? s->wish.longest - 1 : 1, size);
    s->build.batch = 1;
    s->build.seq = pass_tokens(s, rows);
    s->build.pass = (oc_pass_spec){.rows = rows,
                                   .page_tokens = (int32_t)size,
                                   .pages = group_pages(s, rows, row_pages),
                                   .row_pages = row_pages};
    s->shape = (oc_program_shape){.model = s->model,
                                  .device = s->device,
                                  .dtype = s->dtype,
                                  .batch = 1,
                                  .seq = s->build.seq,
                                  .products = OC_GEMM_AUTO};
    const oc_program_shape *p = &s->shape;
    oc_program_shape sampled = *p;
    oc_pages pages = {.rows = rows, .row_pages = row_pages, .page_tokens = (int32_t)size};
    sampled.seq = rows;
    s->build.pass.page_bytes = oc_program_page_bytes(p, (int32_t)size);
    s->build.sizes = (oc_build_sizes){
        .act_bytes = oc_program_act_bytes(p),
        .row_bytes = oc_program_row_bytes(p),
        .work_bytes = oc_program_pass_work_bytes(p, &pages),
        .head_state_bytes = oc_program_head_state_bytes(&sampled),
        .scratch_bytes = s->device->ops->scratch_bytes(s->device),
    };
    for (int v = 0; v < OC_SAVED_COUNT; v++)
        s->build.sizes.saved_bytes[v] = oc_program_saved_bytes(p, (oc_saved)v);
}

/* ---- where weights live ---- */

/* Homes are a choice where the device's memory is its own, or has a cap. */
static bool has_two_tiers(const oc_setup *s) {
    return s->config->device_memory != UINT64_MAX || oc_setup_opaque(s);
}

static oc_placement base_placement(const oc_setup *s) {
    const oc_config *c = s->config;
    oc_placement p = {.compute = OC_TIER_DEVICE, .slots = 1, .group = s->build.micros};
    uint64_t piece = c->piece_bytes ? c->piece_bytes / oc_dtype_bytes(s->dtype) : 4u << 20;
    p.piece_elements = oc_max_u64(piece / OC_NORM_CHUNK, 1) * OC_NORM_CHUNK;
    if (c->slots > 0) p.slots = c->slots;
    return p;
}

static oc_placement with_resident(oc_setup *s, oc_placement p, int32_t resident) {
    oc_homes_wish w = {.resident = resident, .weights = s->config->weights_home == OC_HOME_DEVICE};
    oc_place_use_homes(s, &p, &w);
    return p;
}

/* Pages of the first n layers on the host. */
static oc_placement with_pages_away(oc_placement p, int32_t n) {
    p.away_pages = n;
    p.page_slots = n > 0 ? PAGE_SLOTS : 0;
    return p;
}

static bool try_resident(oc_setup *s, const oc_placement *p, int32_t n) {
    oc_placement q = with_resident(s, *p, n);
    return oc_place_affords(s, &q);
}

/* As many blocks as fit. */
static int32_t most_resident(oc_setup *s, const oc_placement *p) {
    int32_t lo = 0, hi = s->model->n_blocks;
    while (lo < hi) {
        int32_t mid = lo + (hi - lo + 1) / 2;
        if (try_resident(s, p, oc_homes_clip(s->model, mid)))
            lo = mid;
        else
            hi = mid - 1;
    }
    return oc_homes_clip(s->model, lo);
}

static bool everything_stays(const oc_setup *s) {
    const oc_config *c = s->config;
    return c->weights_home == OC_HOME_DEVICE || c->resident_blocks >= s->model->n_blocks;
}

/* Every weight where the device computes: its memory is the host's where it has no cap. */
static oc_placement resident_placement(const oc_setup *s, oc_placement p) {
    bool hosted = s->config->device_memory == UINT64_MAX && !oc_setup_opaque(s);
    p.resident = true;
    p.slots = 0;
    p.homes = NULL;
    p.compute = hosted ? OC_TIER_HOST : OC_TIER_DEVICE;
    return p;
}

/* Slots enough that fetches run beside arithmetic, then blocks that stay, then more slots. */
static int32_t improve(oc_setup *s, oc_placement *p) {
    const oc_config *c = s->config;
    int32_t resident = c->resident_blocks > 0 ? (int32_t)c->resident_blocks : 0;
    for (int32_t n = 2; n <= 3 && c->slots == 0; n++) {
        oc_placement q = *p;
        q.slots = n;
        if (try_resident(s, &q, resident)) *p = q;
    }
    if (c->resident_blocks < 0 && c->weights_home == OC_HOME_AUTO && c->slots == 0)
        resident = most_resident(s, p);
    return oc_homes_clip(s->model, resident);
}

/* As few layers as must have their pages on the host. */
static oc_placement fewest_away(const oc_setup *s, oc_placement p) {
    int32_t lo = 0, hi = p.away_pages;
    while (lo < hi) {
        int32_t mid = lo + (hi - lo) / 2;
        oc_placement q = with_pages_away(p, mid);
        if (oc_place_affords(s, &q))
            hi = mid;
        else
            lo = mid + 1;
    }
    return with_pages_away(p, hi);
}

/* ---- how long it takes ---- */

/* What products of a pass and reading weights come to, in round numbers (docs/performance.md has
 * what was measured): a guess that orders batches, and nothing else. */
static double arithmetic_rate(const oc_setup *s) {
    bool pairs = s->dtype == OC_BF16 && strstr(oc_device_kernels(s->device), "pairs") != NULL;
    return (pairs ? 4 : 1.5) * oc_place_flop_rate(s);
}

static double memory_rate(const oc_setup *s) {
    double cores = oc_pool_cores(s->pool);
    return (cores < 8 ? cores : 8) * 2e10;
}

/* Where the link is the processor itself, what it copies it does not multiply meanwhile. */
static double copying_seconds(const oc_setup *s, double bytes) {
    const double core_bytes = 9e9; /* a second: docs/performance.md */
    bool apart = s->config->pace[OC_LANE_H2D] > 0 || oc_setup_opaque(s);
    return apart ? 0 : bytes / (core_bytes * oc_pool_cores(s->pool));
}

static double weight_bytes(const oc_setup *s) {
    double sum = 0;
    for (int32_t i = 0; i < s->model->n_blocks; i++) {
        oc_block_kind k = s->model->blocks[i].kind;
        bool rows = k == OC_BLOCK_POSITION || (k == OC_BLOCK_TABLE && !s->model->tied);
        if (!rows) sum += (double)s->model->blocks[i].elements;
    }
    return sum * (double)oc_dtype_bytes(s->dtype);
}

static double token_flops(const oc_setup *s) {
    const oc_model *m = s->model;
    double sum = 0;
    for (int32_t l = 0; l < m->n_layers; l++)
        for (int p = 0; p < OC_PART_COUNT; p++)
            if (p != OC_PART_ATTENTION)
                sum += oc_flops_part(m, &m->blocks[m->first_layer + l], 1, 1, (oc_part)p);
    return sum;
}

static double head_flops(const oc_setup *s) {
    const oc_model *m = s->model;
    double sum = 0;
    for (int32_t i = m->first_head; i < m->first_head + m->n_head; i++)
        sum += oc_flops_head(m, 1, m->blocks[i].rows);
    return sum;
}

/* What is planned to come of pages: all that there is room for. What comes are those in use. */
static double planned_pages(const oc_setup *s, const oc_placement *p) {
    const oc_pass_spec *x = &s->build.pass;
    return (double)p->away_pages * s->build.micros * x->pages * (double)x->page_bytes;
}

/* Of a pass that answers n sequences and has `prompts` tokens of prompts: the slowest lane. */
static oc_pass_estimate estimate_pass(const oc_setup *s, const oc_placement *p, double n,
                                      double prompts) {
    oc_build_spec spec = s->build;
    oc_build_bytes b;
    oc_pass_estimate e = {.link = HUGE_VAL};
    spec.place = *p;
    spec.seq = 1; /* rows of embeddings count little */
    if (oc_place_note(s, oc_build_measure(&spec, &b, NULL)) != OC_OK) return e;
    double keys = s->wish.prompt + s->wish.answer / 2;
    double kv = n * keys * (double)s->build.pass.page_bytes / s->build.pass.page_tokens *
                s->model->n_layers;
    double away = (double)p->away_pages / s->model->n_layers;
    e.link_bytes = b.step[OC_LANE_H2D].bytes - planned_pages(s, p) + kv * away;
    e.link = e.link_bytes / oc_place_lane_rate(s, OC_LANE_H2D);
    double back = n * (double)s->build.pass.page_bytes * p->away_pages;
    e.link = fmax(e.link, back / oc_place_lane_rate(s, OC_LANE_D2H));
    e.arithmetic = ((n + prompts) * token_flops(s) + n * head_flops(s)) / arithmetic_rate(s);
    e.memory = (weight_bytes(s) + kv) / memory_rate(s);
    double copying = copying_seconds(s, e.link_bytes);
    e.arithmetic += copying;
    e.memory += copying;
    return e;
}

static double slowest(const oc_pass_estimate *e) {
    double compute = e->arithmetic > e->memory ? e->arithmetic : e->memory;
    return e->link > compute ? e->link : compute;
}

/* Tokens a second over all that is to be generated: full batches, each sequence that ends replaced
 * by the next; or one wave, when there are no more than that. */
static oc_pass_estimate estimate(const oc_setup *s, const oc_placement *p) {
    double n = (double)s->build.pass.rows * s->build.micros, all = (double)s->wish.sequences;
    double room = (double)s->config->gen.kv_tokens / (s->wish.prompt + s->wish.answer);
    if (room > 0 && room < n) n = fmax(floor(room), 1);
    if (all > 0 && all < n) n = all;
    double waves = all > 0 ? ceil(all / n) : 1;
    double answer = s->wish.answer > 1 ? s->wish.answer : 1;
    oc_pass_estimate e = estimate_pass(s, p, n, n * s->wish.prompt / answer);
    e.passes = waves * answer;
    e.pass_seconds = slowest(&e);
    double sequences = all > 0 ? all : n;
    e.tokens_per_second = sequences * answer / (e.passes * e.pass_seconds);
    return e;
}

/* ---- one batch ---- */

typedef struct option {
    int32_t rows, resident;
    oc_placement place;
    oc_pass_estimate estimate;
    bool fits;
} option;

/* away: layers whose pages live on the host. */
static option consider_pages(oc_setup *s, int32_t rows, int32_t away) {
    option x = {.rows = rows};
    size_pass(s, rows);
    oc_placement least = with_pages_away(base_placement(s), away);
    oc_placement whole = resident_placement(s, least);
    const oc_config *c = s->config;
    bool forced = everything_stays(s), asked = c->slots > 0 || c->resident_blocks >= 0;
    bool streams = asked && has_two_tiers(s);
    x.resident = s->model->n_blocks;
    x.place = whole;
    x.fits = (forced || !streams) && oc_place_affords(s, &whole);
    if (!x.fits && !forced && has_two_tiers(s)) {
        x.place = with_resident(s, least, c->resident_blocks > 0 ? (int32_t)c->resident_blocks : 0);
        x.fits = oc_place_affords(s, &x.place);
        if (x.fits) x.resident = improve(s, &x.place);
        x.place = with_resident(s, x.place, x.resident);
    }
    if (x.fits && s->config->gen.kv_home == OC_HOME_AUTO) x.place = fewest_away(s, x.place);
    if (x.fits) x.estimate = estimate(s, &x.place);
    return x;
}

static bool better(const option *x, const option *best) {
    return x->fits && (!best->fits ||
                       x->estimate.tokens_per_second > 1.005 * best->estimate.tokens_per_second);
}

static option consider(oc_setup *s, int32_t rows) {
    oc_home home = has_two_tiers(s) ? s->config->gen.kv_home : OC_HOME_DEVICE;
    int32_t layers = s->model->n_layers;
    if (home != OC_HOME_AUTO) return consider_pages(s, rows, home == OC_HOME_HOST ? layers : 0);
    option here = consider_pages(s, rows, 0), there = consider_pages(s, rows, layers);
    if (better(&there, &here)) return there;
    return consider_pages(s, rows, 0); /* homes are the set-up's: those of the last look */
}

static oc_status adopt(oc_setup *s, const option *x) {
    s->build.place = x->place;
    size_pass(s, x->rows);
    if (!x->place.resident) s->build.place = with_resident(s, x->place, x->resident);
    s->estimate = x->estimate;
    return OC_OK;
}

/* ---- the batch ---- */

static int64_t asked_batch(const oc_setup *s) {
    int64_t n = s->config->gen.batch, all = (int64_t)s->wish.sequences;
    if (n > 0 && all > 0 && all < n) n = all;
    return n;
}

static int32_t rows_of(const oc_setup *s, int64_t batch) {
    return (int32_t)((batch + s->build.micros - 1) / s->build.micros);
}

static const char *bound_by(const oc_pass_estimate *e) {
    if (e->link >= e->arithmetic && e->link >= e->memory) return "the link";
    return e->arithmetic >= e->memory ? "arithmetic" : "memory";
}

static void describe(oc_setup *s, const option *x, bool chosen) {
    char homes[96], pages[64] = "";
    const oc_pass_estimate *e = &s->estimate;
    if (s->build.place.away_pages > 0)
        (void)snprintf(pages, sizeof pages, ", those of %d of %d layers on the host",
                       s->build.place.away_pages, s->model->n_layers);
    (void)snprintf(homes, sizeof homes, "the weights of %d of %d blocks stay on the device",
                   x->resident, s->model->n_blocks);
    (void)snprintf(s->choice, sizeof s->choice,
                   "batch %d%s in %d group(s), %lld tokens a pass, %d pages of %d tokens%s; %s, %d "
                   "weight slots; an estimated %.3g tokens/s, bound by %s",
                   x->rows * s->build.micros, chosen ? " (auto)" : "", s->build.micros,
                   (long long)s->build.seq * s->build.micros, s->build.pass.pages * s->build.micros,
                   s->build.pass.page_tokens, pages,
                   x->place.resident ? "all weights at home where they are used" : homes,
                   s->build.place.slots, e->tokens_per_second, bound_by(e));
}

/* ---- the trade ---- */

static oc_pass_trade trade_of(oc_setup *s, const option *x) {
    const oc_pass_spec *p = &s->build.pass;
    uint64_t bytes[OC_TIER_COUNT] = {0}, layers = (uint64_t)s->model->n_layers;
    if (oc_place_measure(s, &x->place, bytes, NULL) != OC_OK) bytes[OC_TIER_DEVICE] = 0;
    return (oc_pass_trade){.batch = x->rows * s->build.micros,
                           .fits = x->fits,
                           .resident = x->place.resident ? s->model->n_blocks : x->resident,
                           .away_pages = x->place.away_pages,
                           .device_bytes = bytes[OC_TIER_DEVICE],
                           .kv_bytes = (uint64_t)p->pages * p->page_bytes * layers *
                                       (uint64_t)s->build.micros,
                           .estimate = x->estimate,
                           .bound_by = bound_by(&x->estimate)};
}

int32_t oc_setup_trades(oc_setup *s, oc_pass_trade *out, int32_t most) {
    int32_t n = 0, rows = s->build.pass.rows;
    int64_t all = (int64_t)s->wish.sequences, last = all > 0 && all < BATCH_MOST ? all : BATCH_MOST;
    for (int64_t batch = 1; n < most; batch *= 2) {
        option x = consider(s, rows_of(s, batch < last ? batch : last));
        out[n++] = trade_of(s, &x);
        if (!x.fits || batch >= last) break;
    }
    option chosen = consider(s, rows);
    (void)adopt(s, &chosen);
    return n;
}

static oc_status find_minimum(oc_setup *s, oc_placement *least, oc_error *err) {
    size_pass(s, 1);
    bool here = !has_two_tiers(s) || s->config->gen.kv_home == OC_HOME_DEVICE;
    *least = with_pages_away(base_placement(s), here ? 0 : s->model->n_layers);
    if (everything_stays(s) || !has_two_tiers(s))
        *least = resident_placement(s, *least);
    else
        *least = with_resident(s, *least, 0);
    return oc_place_measure(s, least, s->minimum, err);
}

static oc_status place_asked(oc_setup *s, int64_t batch, oc_error *err) {
    option x = consider(s, rows_of(s, batch));
    if (!x.fits) {
        size_pass(s, x.rows);
        return oc_place_refuse(s, &x.place, err);
    }
    OC_TRY(adopt(s, &x));
    describe(s, &x, false);
    return OC_OK;
}

static oc_status place_auto(oc_setup *s, const oc_placement *least, oc_error *err) {
    int64_t all = (int64_t)s->wish.sequences, most = all > 0 && all < BATCH_MOST ? all : BATCH_MOST;
    option best = {.fits = false};
    for (int64_t n = 1;; n *= 2) {
        option x = consider(s, rows_of(s, n < most ? n : most));
        if (better(&x, &best)) best = x;
        if (!x.fits || n >= most) break;
    }
    if (!best.fits) {
        size_pass(s, 1);
        return oc_place_refuse(s, least, err);
    }
    OC_TRY(adopt(s, &best));
    describe(s, &best, true);
    return OC_OK;
}

static oc_status check_pages(const oc_setup *s, oc_error *err) {
    int64_t asked = s->config->gen.kv_tokens, size = s->config->gen.page_tokens;
    int64_t need = pages_for(s->wish.longest > 1 ? s->wish.longest - 1 : 1, size) * size;
    if (asked == 0 || asked >= need * s->build.micros) return OC_OK;
    return oc_fail(err, OC_E_INVALID,
                   "--kv-tokens %lld is too few: the longest sequence takes %lld (pages of %lld) "
                   "in each of %d group(s)",
                   (long long)asked, (long long)need, (long long)size, s->build.micros);
}

oc_status oc_setup_place_pass(oc_setup *s, oc_error *err) {
    oc_placement least;
    int64_t batch = asked_batch(s);
    OC_TRY(check_pages(s, err));
    OC_TRY(find_minimum(s, &least, err));
    return batch > 0 ? place_asked(s, batch, err) : place_auto(s, &least, err);
}
