/* place.c - where states live and how many slots there are, within the budgets.
 *
 * Placements are tried from the least device memory upwards; each step buys the thing that saves
 * most time for its bytes: a second slot and slab (transfers beside compute), checkpoints that stay
 * on the device, values kept for the backward (those first that cost the most flops a byte to make
 * again), then more slots. Beside that, blocks may be at home on the device altogether: as many as
 * give the least estimated time. What the user fixed stays fixed. */
#include "engine/place.h"
#include "base/checked.h"
#include "engine/corpus.h"
#include "engine/homes.h"
#include "model/flops.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

oc_status oc_place_note(const oc_setup *s, oc_status st) {
    if (st == OC_E_MEMORY) *s->starved = true;
    return st;
}

/* Of the executor only
 * the trace and the lists of ops are of any size. */
oc_status oc_place_measure(const oc_setup *s, const oc_placement *p, uint64_t bytes[OC_TIER_COUNT],
                           oc_error *err) {
    oc_build_spec spec = s->build;
    oc_build_bytes b;
    spec.place = *p;
    OC_TRY(oc_place_note(s, oc_build_measure(&spec, &b, err)));
    memcpy(bytes, b.arena, sizeof b.arena);
    uint64_t trace = s->config->trace_path ? s->config->trace_bytes : 0;
    bytes[OC_TIER_HOST] += b.plan + trace + oc_setup_text_bytes(s, &spec) + s->staging_bytes;
    return OC_OK;
}

bool oc_place_fits(const oc_setup *s, const uint64_t bytes[OC_TIER_COUNT]) {
    uint64_t host = bytes[OC_TIER_HOST] + s->foreign_bytes;
    /* a capped CPU device lives in host memory as well */
    uint64_t sum = host + bytes[OC_TIER_DEVICE];
    return bytes[OC_TIER_DEVICE] <= s->budget[OC_TIER_DEVICE] && sum <= s->budget[OC_TIER_HOST];
}

/* Legal, and nobody needs the gradients for anything else. */
static bool takes_early(const oc_setup *s) {
    return s->train && s->config->early_updates != OC_EARLY_OFF &&
           oc_config_check_early(s->config, s->dtype, s->build.micros, NULL) == OC_OK;
}

/* ---- what is kept for the backward ---- */

/* Of a value or of logits, by its number: OC_SAVED_COUNT is the logits. */
static int32_t *kept_field(oc_placement *p, int v) {
    return v == OC_SAVED_COUNT ? &p->kept_logits : &p->kept[v];
}

static int32_t most_kept(const oc_model *m, int v) {
    if (v == OC_SAVED_COUNT) return m->n_head;
    return oc_program_backward_reads(&m->decoder, (oc_saved)v) ? m->n_layers : 0;
}

/* Where a value is that is not made again: on the device, or away from it. */
static void keep_all(const oc_setup *s, oc_placement *p, int v) {
    bool host = s->config->saved_home == OC_HOME_HOST && v < OC_SAVED_COUNT;
    *(host ? &p->away[v] : kept_field(p, v)) = most_kept(s->model, v);
}

/* Logits are T x vocabulary: nobody keeps all of them without asking. */
static void keep_asked(const oc_setup *s, oc_placement *p) {
    const oc_config *c = s->config;
    bool away = c->recompute == OC_RECOMPUTE_AUTO && c->saved_home == OC_HOME_HOST;
    for (int v = 0; v <= OC_SAVED_COUNT && s->train; v++) {
        bool all = v < OC_SAVED_COUNT && (c->recompute == OC_RECOMPUTE_NONE || away);
        bool listed = c->recompute == OC_RECOMPUTE_LIST && !(c->recompute_list >> v & 1u);
        if (all || listed) keep_all(s, p, v);
    }
}

/* Flops of making a value again, a layer on average, over the bytes of keeping it. */
static double density(const oc_setup *s, int v) {
    const oc_model *m = s->model;
    const oc_build_spec *b = &s->build;
    double flops = 0, tokens = (double)(b->batch * b->seq);
    if (v == OC_SAVED_COUNT) return oc_flops_head(m, b->batch * b->seq, 1) / (4 * tokens);
    if (b->sizes.saved_bytes[v] == 0) return 0;
    for (int32_t l = 0; l < m->n_layers; l++)
        flops += oc_flops_saved(m, &m->blocks[m->first_layer + l], b->batch, b->seq, (oc_saved)v);
    return flops / m->n_layers / (double)b->sizes.saved_bytes[v];
}

static oc_placement base_placement(const oc_setup *s) {
    const oc_config *c = s->config;
    oc_placement p = {
        .compute = OC_TIER_DEVICE, .slots = 1, .slabs = 1, .act_slots = 2, .group = 1};
    uint64_t piece = c->piece_bytes ? c->piece_bytes / oc_dtype_bytes(s->dtype) : 4u << 20;
    p.piece_elements = oc_max_u64(piece / OC_NORM_CHUNK, 1) * OC_NORM_CHUNK;
    if (c->order == OC_ORDER_BREADTH_FIRST) p.group = s->build.micros;
    p.interleave = c->order == OC_ORDER_INTERLEAVED && s->train;
    if (c->slots > 0) p.slots = c->slots;
    if (c->slabs > 0) p.slabs = c->slabs;
    if (c->act_home == OC_HOME_DEVICE) p.act_slots = 0;
    keep_asked(s, &p);
    p.early = takes_early(s);
    return p;
}

/* Blocks of a layer's size: smaller ones have slots of their own size. */
static int32_t moved_blocks(const oc_model *m) {
    return m->n_layers + m->n_head + (m->front_block >= 0);
}

/* What the tokenizer and the data cost, when that is much of it or more than what is missing; else
 * "".
 */
static const char *text_part(const oc_setup *s, const oc_placement *p, uint64_t sum, char *buf,
                             size_t n) {
    char size[32];
    oc_build_spec spec = s->build;
    spec.place = *p;
    uint64_t bytes = oc_setup_text_bytes(s, &spec);
    buf[0] = 0;
    uint64_t missing = sum - oc_min_u64(sum, s->budget[OC_TIER_HOST]);
    if (bytes >= sum / 20 || bytes > missing)
        (void)snprintf(buf, n, ", %s for the tokenizer and the data",
                       oc_size_format(bytes, size, sizeof size));
    return buf;
}

oc_status oc_place_refuse(const oc_setup *s, const oc_placement *p, oc_error *err) {
    if (s->no_memory) return oc_fail(err, OC_E_MEMORY, "no memory to plan the run in");
    uint64_t need[OC_TIER_COUNT];
    char a[32], b[32], c[32], text[96];
    OC_TRY(oc_place_measure(s, p, need, err));
    if (need[OC_TIER_DEVICE] > s->budget[OC_TIER_DEVICE])
        return oc_fail(err, OC_E_MEMORY,
                       "the device needs %llu bytes (%s), but --device-memory allows %llu (%s); "
                       "--device-memory %llu fits, or a smaller --micro-batch or --seq-length",
                       (unsigned long long)need[OC_TIER_DEVICE],
                       oc_size_format(need[OC_TIER_DEVICE], a, sizeof a),
                       (unsigned long long)s->budget[OC_TIER_DEVICE],
                       oc_size_format(s->budget[OC_TIER_DEVICE], b, sizeof b),
                       (unsigned long long)need[OC_TIER_DEVICE]);
    uint64_t sum = need[OC_TIER_HOST] + need[OC_TIER_DEVICE] + s->foreign_bytes;
    return oc_fail(err, OC_E_MEMORY,
                   "host memory of %s is needed (%s of it for libraries and stacks%s), but %s is "
                   "there; a model of fewer parameters, bf16 instead of fp32 activations, or "
                   "--host-memory %llu on a larger machine fits",
                   oc_size_format(sum, a, sizeof a), oc_size_format(s->foreign_bytes, b, sizeof b),
                   text_part(s, p, sum, text, sizeof text),
                   oc_size_format(s->budget[OC_TIER_HOST], c, sizeof c), (unsigned long long)sum);
}

bool oc_place_affords(const oc_setup *s, const oc_placement *p) {
    uint64_t bytes[OC_TIER_COUNT];
    return oc_place_measure(s, p, bytes, NULL) == OC_OK && oc_place_fits(s, bytes);
}

/* Take q if it fits; tells whether it did. */
static bool adopt(const oc_setup *s, oc_placement *p, oc_placement q) {
    if (!oc_place_affords(s, &q)) return false;
    *p = q;
    return true;
}

/* While a placement is improved, what the host holds beside its arena counts as it was at the
 * start: the arenas alone are quickly laid out. What comes of it is measured. */
typedef struct shop {
    const oc_setup *s;
    uint64_t beside;
} shop;

static bool open_shop(const oc_setup *s, const oc_placement *p, shop *x) {
    oc_build_spec spec = s->build;
    oc_build_bytes b;
    uint64_t all[OC_TIER_COUNT];
    *x = (shop){.s = s};
    spec.place = *p;
    if (oc_place_measure(s, p, all, NULL) != OC_OK ||
        oc_place_note(s, oc_build_layout(&spec, &b, NULL)) != OC_OK)
        return false;
    x->beside = all[OC_TIER_HOST] - b.arena[OC_TIER_HOST];
    return true;
}

static bool affords(const shop *x, const oc_placement *p) {
    oc_build_spec spec = x->s->build;
    oc_build_bytes b;
    spec.place = *p;
    if (oc_place_note(x->s, oc_build_layout(&spec, &b, NULL)) != OC_OK) return false;
    b.arena[OC_TIER_HOST] += x->beside;
    return oc_place_fits(x->s, b.arena);
}

/* Take q if it can be afforded; tells whether it can. */
static bool buy(const shop *x, oc_placement *p, oc_placement q) {
    if (!affords(x, &q)) return false;
    *p = q;
    return true;
}

/* The most of one field, by bisection: memory grows with it. */
static void raise(const shop *x, oc_placement *p, int32_t *field, int32_t most) {
    int32_t lo = *field, hi = most;
    while (lo < hi) {
        int32_t mid = lo + (hi - lo + 1) / 2;
        *field = mid;
        if (affords(x, p))
            lo = mid;
        else
            hi = mid - 1;
    }
    *field = lo;
}

/* Densest first, in as many layers as fit. */
static void keep_more(const shop *x, oc_placement *p) {
    bool done[OC_SAVED_COUNT + 1] = {false};
    const oc_setup *s = x->s;
    if (!s->train || s->config->recompute != OC_RECOMPUTE_AUTO) return;
    for (int k = 0; k <= OC_SAVED_COUNT; k++) {
        int best = -1;
        for (int v = 0; v <= OC_SAVED_COUNT; v++)
            if (!done[v] && (best < 0 || density(s, v) > density(s, best))) best = v;
        done[best] = true;
        raise(x, p, kept_field(p, best), most_kept(s->model, best));
    }
}

static void more_slots(const shop *x, oc_placement *p) {
    if (x->s->config->slots == 0) raise(x, p, &p->slots, moved_blocks(x->s->model));
}

/* A second slot and slab, and checkpoints that stay. Without two of each nothing else is of use. */
static bool first_things(const shop *x, oc_placement *p) {
    const oc_config *c = x->s->config;
    oc_placement q = *p;
    if (c->slots == 0) q.slots = q.interleave ? 4 : 2;
    bool two = buy(x, p, q);
    q = *p;
    if (c->slabs == 0) q.slabs = 2;
    two = buy(x, p, q) && two;
    q = *p;
    q.act_slots = 3;
    if (p->act_slots) (void)buy(x, p, q);
    q.act_slots = 0;
    if (two && p->act_slots && c->act_home == OC_HOME_AUTO) (void)buy(x, p, q);
    return two;
}

/* What is bought last: more slots where arithmetic is scarce, values where a link is. */
typedef enum way { SLOTS_LAST, VALUES_LAST, WAYS, VALUES_ALONE } way;

static void spend(const shop *x, oc_placement *p, way how) {
    if (how != VALUES_ALONE && !first_things(x, p)) return;
    if (how == VALUES_LAST) more_slots(x, p);
    keep_more(x, p);
    if (how == SLOTS_LAST) more_slots(x, p);
}

/* Where less fits than was thought, once more with what was then seen beside the arena. */
static void improve(const oc_setup *s, oc_placement *p, way how) {
    shop x;
    oc_placement seen = *p;
    for (int i = 0; i < 2; i++) {
        oc_placement q = *p;
        if (!open_shop(s, &seen, &x)) return;
        spend(&x, &q, how);
        if (adopt(s, p, q)) return;
        seen = q;
    }
}

/* ---- homes ---- */

/* Whether nothing is said of homes, or of what only streaming needs. */
static bool homes_are_free(const oc_config *c) {
    return c->weights_home == OC_HOME_AUTO && c->optimizer_home == OC_HOME_AUTO &&
           c->resident_blocks < 0 && c->optimizer_ratio >= 1 && c->slots == 0 &&
           c->act_home != OC_HOME_HOST;
}

static bool wants_resident(const oc_setup *s, bool *must) {
    const oc_config *c = s->config;
    bool capped = c->device_memory != UINT64_MAX;
    bool homes = c->weights_home == OC_HOME_DEVICE && c->optimizer_home == OC_HOME_DEVICE;
    *must = homes || c->resident_blocks >= s->model->n_blocks;
    if (*must) return true;
    if (c->slots > 0 || c->act_home == OC_HOME_HOST || c->resident_blocks >= 0) return false;
    return !capped || homes_are_free(c);
}

void oc_place_use_homes(oc_setup *s, oc_placement *p, const oc_homes_wish *w) {
    oc_homes_fill(s->model, s->train, p->compute, w, s->homes);
    p->homes = s->homes;
}

/* ---- how long a step takes, by what it asks of each lane ---- */

/* A guess where nothing was measured or paced: a link, the memory, a core's arithmetic. */
#define LINK_BYTES 8e9
#define MEMORY_BYTES 1e10

static double core_flops(const oc_setup *s) {
    const char *kernels = oc_device_kernels(s->device);
    return strstr(kernels, "avx512") ? 8e10 : strstr(kernels, "avx2") ? 4e10 : 4e9;
}

double oc_place_flop_rate(const oc_setup *s) { return core_flops(s) * oc_pool_cores(s->pool); }

double oc_place_lane_rate(const oc_setup *s, int lane) {
    bool link = lane == OC_LANE_H2D || lane == OC_LANE_D2H;
    return s->config->pace[lane] > 0 ? s->config->pace[lane] : link ? LINK_BYTES : MEMORY_BYTES;
}

static double lane_seconds(const oc_setup *s, int lane, const oc_work *w) {
    return w->bytes / oc_place_lane_rate(s, lane) + w->flops / oc_place_flop_rate(s);
}

/* Lanes run side by side, but not altogether: ends of a step wait for each other. */
static double seconds_of(const oc_setup *s, const oc_placement *p) {
    oc_build_spec spec = s->build;
    oc_build_bytes b;
    double most = 0, sum = 0;
    spec.place = *p;
    if (oc_place_note(s, oc_build_measure(&spec, &b, NULL)) != OC_OK) return HUGE_VAL;
    for (int l = 0; l < OC_LANE_COUNT; l++) {
        double t = lane_seconds(s, l, &b.step[l]);
        sum += t;
        if (t > most) most = t;
    }
    return most + 0.15 * (sum - most);
}

/* ---- some blocks at home on the device, the others streamed ---- */

typedef struct option {
    oc_homes_wish wish;
    oc_placement place;
    double seconds;
} option;

static bool fits_resident(oc_setup *s, const shop *x, const oc_placement *least, int32_t n) {
    oc_placement p = *least;
    oc_homes_wish w = oc_homes_asked(s->config);
    w.resident = n;
    oc_place_use_homes(s, &p, &w);
    return affords(x, &p);
}

/* The best of what n blocks at home on the device leave room for. */
static void consider(oc_setup *s, const oc_placement *least, int32_t n, option *best) {
    if (n < 0) return;
    for (int how = 0; how < WAYS; how++) {
        option x = {.wish = oc_homes_asked(s->config), .place = *least};
        x.wish.resident = n;
        oc_place_use_homes(s, &x.place, &x.wish);
        if (!adopt(s, &x.place, x.place)) return;
        improve(s, &x.place, (way)how);
        x.seconds = seconds_of(s, &x.place);
        if (x.seconds < best->seconds) *best = x;
    }
}

/* Over all that fits in eighths, then closer around the best of these. */
static void mix(oc_setup *s, const oc_placement *least, option *best) {
    int32_t lo = 0, hi = oc_homes_clip(s->model, s->model->n_blocks - 1);
    shop x;
    if (!open_shop(s, &best->place, &x)) return;
    while (lo < hi) {
        int32_t mid = lo + (hi - lo + 1) / 2;
        if (fits_resident(s, &x, least, mid))
            lo = mid;
        else
            hi = mid - 1;
    }
    int32_t step = lo / 8 > 1 ? lo / 8 : 1;
    for (int32_t n = lo; n > 0; n -= step)
        consider(s, least, n, best);
    for (step /= 2; step > 0; step /= 2) {
        int32_t n = best->wish.resident;
        consider(s, least, n - step, best);
        consider(s, least, n + step, best);
    }
}

/* What one more block at home on the device would cost and save. */
static void describe_next(oc_setup *s, const oc_homes_wish *w) {
    char size[32];
    oc_placement p = s->build.place, q = p;
    uint64_t now[OC_TIER_COUNT], then[OC_TIER_COUNT];
    oc_homes_wish more = *w;
    more.resident = oc_homes_clip(s->model, w->resident + 1);
    if (more.resident == w->resident) more.resident = s->model->n_blocks;
    double before = seconds_of(s, &p);
    if (oc_place_measure(s, &p, now, NULL) != OC_OK) return;
    oc_place_use_homes(s, &q, &more);
    double after = seconds_of(s, &q);
    oc_status st = oc_place_measure(s, &q, then, NULL);
    oc_place_use_homes(s, &p, w);
    if (st != OC_OK || then[OC_TIER_DEVICE] <= now[OC_TIER_DEVICE]) return;
    size_t n = strlen(s->choice);
    double saved = 100 * (before - after) / before;
    (void)oc_size_format(then[OC_TIER_DEVICE] - now[OC_TIER_DEVICE], size, sizeof size);
    if (saved >= 0.1)
        (void)snprintf(s->choice + n, sizeof s->choice - n,
                       "; %s more device memory would keep another block there and save an "
                       "estimated %.1f %% of a step",
                       size, saved);
    else
        (void)snprintf(s->choice + n, sizeof s->choice - n,
                       "; another block there (%s) would save next to nothing", size);
}

/* Which blocks are at home on the device, and with what. */
static const char *describe_homes(const oc_setup *s, char *buf, size_t n) {
    int32_t weights = 0, optimizers = 0, frozen = 0, blocks = s->model->n_blocks;
    for (int32_t i = 0; i < blocks; i++) {
        weights += s->homes[i].weight != OC_TIER_HOST;
        optimizers += s->homes[i].optimizer != OC_TIER_HOST && !s->homes[i].frozen;
        frozen += s->homes[i].frozen;
    }
    int at = snprintf(buf, n, "states at home on the host");
    if (weights || optimizers)
        at = snprintf(buf, n,
                      "of %d blocks %d have their weights at home on the device and %d "
                      "their optimizer states",
                      blocks, weights, optimizers);
    if (frozen) (void)snprintf(buf + at, n - (size_t)at, ", %d are frozen", frozen);
    return buf;
}

/* "qkv 32 of 32, up 12 of 32, logits 2 of 5": layers, and chunks of the head. */
static void describe_kept(const oc_setup *s, char *out, size_t n) {
    const oc_placement *p = &s->build.place;
    size_t at = 0;
    int named = 0;
    out[0] = 0;
    for (int v = 0; v <= OC_SAVED_COUNT && at < n; v++) {
        int32_t kept = v < OC_SAVED_COUNT ? oc_build_kept(&s->build, (oc_saved)v) : p->kept_logits;
        const char *name = v < OC_SAVED_COUNT ? oc_saved_name((oc_saved)v) : "logits";
        if (most_kept(s->model, v) == 0) continue;
        int32_t away = v < OC_SAVED_COUNT ? oc_build_away_saved(&s->build, (oc_saved)v) : 0;
        at += (size_t)snprintf(out + at, n - at, "%s%s %d of %d", named++ ? ", " : "", name, kept,
                               most_kept(s->model, v));
        if (away && at < n) at += (size_t)snprintf(out + at, n - at, " (host %d)", away);
    }
}

static void describe(oc_setup *s) {
    char homes[160];
    char kept[160];
    describe_kept(s, kept, sizeof kept);
    const oc_placement *p = &s->build.place;
    const char *early =
        p->early ? ", updates during the backward: gradients pass through slabs alone" : "";
    if (p->resident)
        (void)snprintf(s->choice, sizeof s->choice,
                       "every state at home in %s memory, kept for the backward: %s%s",
                       oc_tier_name(p->compute), kept, early);
    else
        (void)snprintf(s->choice, sizeof s->choice,
                       "%s, %d weight slots, %d gradient slabs, activation "
                       "checkpoints on the %s, kept for the backward: %s, "
                       "micro-batches %s groups of %d, pieces of %llu elements%s",
                       describe_homes(s, homes, sizeof homes), p->slots, p->slabs,
                       p->act_slots ? "host" : "device", kept,
                       p->interleave ? "interleaved in" : "in", p->group,
                       (unsigned long long)p->piece_elements, early);
}

static oc_placement resident_placement(oc_setup *s, oc_placement p) {
    p.resident = true;
    bool hosted = s->config->device_memory == UINT64_MAX && !oc_setup_opaque(s);
    p.compute = hosted ? OC_TIER_HOST : OC_TIER_DEVICE;
    p.slots = 0;
    p.act_slots = 0;
    for (int v = 0; v < OC_SAVED_COUNT && hosted; v++) { /* the host is where they are */
        p.kept[v] += p.away[v];
        p.away[v] = 0;
    }
    return p;
}

static const oc_homes_wish everything = {.resident = INT32_MAX, .weights = true, .optimizers = 1};

/* The smallest placement that the options leave: streamed, or for a tiny model everything resident.
 */
static oc_status find_least(oc_setup *s, oc_placement *streamed, oc_placement *resident,
                            bool *resident_is_least, oc_error *err) {
    uint64_t bytes[OC_TIER_COUNT];
    *resident_is_least = false;
    OC_TRY(oc_place_measure(s, streamed, s->minimum, err));
    if (!resident) return OC_OK;
    oc_place_use_homes(s, resident, &everything);
    OC_TRY(oc_place_measure(s, resident, bytes, err));
    if (bytes[OC_TIER_DEVICE] == 0 || bytes[OC_TIER_DEVICE] >= s->minimum[OC_TIER_DEVICE])
        return OC_OK;
    memcpy(s->minimum, bytes, sizeof bytes);
    *resident_is_least = true;
    return OC_OK;
}

/* Values that are not kept may wait on the host, where fetching them is estimated to be faster than
 * making them again. */
static void send_away(oc_setup *s, oc_placement *p) {
    const oc_config *c = s->config;
    bool free = c->recompute == OC_RECOMPUTE_AUTO && c->saved_home == OC_HOME_AUTO;
    double best = seconds_of(s, p);
    for (int v = 0; v < OC_SAVED_COUNT && s->train && free; v++) {
        oc_placement q = *p;
        q.away[v] = most_kept(s->model, v) - p->kept[v];
        if (q.away[v] <= 0 || !adopt(s, &q, q)) continue;
        double seconds = seconds_of(s, &q);
        if (seconds >= 0.98 * best) continue;
        *p = q;
        best = seconds;
    }
}

static oc_status place_mixed(oc_setup *s, oc_placement *least, oc_error *err) {
    option best = {.wish = oc_homes_asked(s->config), .place = *least};
    oc_place_use_homes(s, &best.place, &best.wish);
    if (!adopt(s, &best.place, best.place)) return oc_place_refuse(s, &best.place, err);
    best.seconds = HUGE_VAL;
    consider(s, least, best.wish.resident, &best);
    if (homes_are_free(s->config)) mix(s, least, &best);
    oc_place_use_homes(s, &best.place, &best.wish);
    send_away(s, &best.place);
    s->build.place = best.place;
    describe(s);
    if (homes_are_free(s->config)) describe_next(s, &best.wish);
    return OC_OK;
}

oc_status oc_setup_place(oc_setup *s, oc_error *err) {
    const oc_config *c = s->config;
    bool must = false, resident = wants_resident(s, &must), tiny = false;
    oc_homes_wish asked = oc_homes_asked(c);
    oc_placement least = base_placement(s), whole = resident_placement(s, least), p;
    oc_place_use_homes(s, &least, &asked);
    OC_TRY(find_least(s, &least, resident ? &whole : NULL, &tiny, err));
    oc_place_use_homes(s, &whole, &everything);
    if (resident && adopt(s, &p, whole)) {
        improve(s, &p, VALUES_ALONE);
        s->build.place = p;
        describe(s);
        return OC_OK;
    }
    if (resident && (must || tiny || c->device_memory == UINT64_MAX))
        return oc_place_refuse(s, &whole, err);
    return place_mixed(s, &least, err);
}
