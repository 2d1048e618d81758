/* place.c - where states live and how many slots there are, within the budgets.
 *
 * Placements are tried from the least device memory upwards; each step buys the thing that saves
 * most time for its bytes: a second slot and slab (transfers beside compute), checkpoints that stay
 * on the device, saved tensors instead of recomputing them, then more slots. What the user fixed
 * stays fixed. */
#include "base/checked.h"
#include "engine/corpus.h"
#include "engine/setup.h"

#include <stdio.h>
#include <string.h>

/* Bytes of each tier: arenas, and on the host all that is planned beside them. Of the executor only
 * the trace and the lists of ops are of any size. */
static oc_status measure(const oc_setup *s, const oc_placement *p, uint64_t bytes[OC_TIER_COUNT],
                         oc_error *err) {
    oc_build_spec spec = s->build;
    oc_build_bytes b;
    spec.place = *p;
    OC_TRY(oc_build_measure(&spec, &b, err));
    memcpy(bytes, b.arena, sizeof b.arena);
    uint64_t trace = s->config->trace_path ? s->config->trace_bytes : 0;
    bytes[OC_TIER_HOST] += b.plan + trace + oc_corpus_bytes(s, &spec) + s->staging_bytes;
    return OC_OK;
}

static bool fits(const oc_setup *s, const uint64_t bytes[OC_TIER_COUNT]) {
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
    if (c->recompute == OC_RECOMPUTE_NONE) p.kept_layers = s->model->n_layers;
    if (!s->train) p.kept_layers = 0;
    p.early = takes_early(s);
    return p;
}

/* Blocks that pass through slots; the final norm has its own. */
static int32_t moved_blocks(const oc_model *m) {
    return m->n_layers + m->n_head + (m->front_block >= 0);
}

/* What the tokenizer and the data cost, when that is much of it; else "". */
static const char *text_part(const oc_setup *s, const oc_placement *p, uint64_t sum, char *buf,
                             size_t n) {
    char size[32];
    oc_build_spec spec = s->build;
    spec.place = *p;
    uint64_t bytes = oc_corpus_bytes(s, &spec);
    buf[0] = 0;
    if (bytes >= sum / 20)
        (void)snprintf(buf, n, ", %s for the tokenizer and the data",
                       oc_size_format(bytes, size, sizeof size));
    return buf;
}

static oc_status refuse(const oc_setup *s, const oc_placement *p, oc_error *err) {
    uint64_t need[OC_TIER_COUNT];
    char a[32], b[32], c[32], text[96];
    OC_TRY(measure(s, p, need, err));
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

/* Take q if it fits; tells whether it did. */
static bool adopt(const oc_setup *s, oc_placement *p, oc_placement q) {
    uint64_t bytes[OC_TIER_COUNT];
    if (measure(s, &q, bytes, NULL) != OC_OK || !fits(s, bytes)) return false;
    *p = q;
    return true;
}

/* The most of one field that fits, by bisection: memory grows with it. */
static void raise(const oc_setup *s, oc_placement *p, int32_t *field, int32_t most) {
    int32_t lo = *field, hi = most;
    while (lo < hi) {
        int32_t mid = lo + (hi - lo + 1) / 2;
        uint64_t bytes[OC_TIER_COUNT];
        *field = mid;
        if (measure(s, p, bytes, NULL) == OC_OK && fits(s, bytes))
            lo = mid;
        else
            hi = mid - 1;
    }
    *field = lo;
}

static void improve(const oc_setup *s, oc_placement *p) {
    const oc_config *c = s->config;
    oc_placement q = *p;
    if (c->slots == 0) q.slots = q.interleave ? 4 : 2;
    bool two = adopt(s, p, q);
    q = *p;
    if (c->slabs == 0) q.slabs = 2;
    two = adopt(s, p, q) && two;
    if (p->act_slots) {
        q = *p;
        q.act_slots = 3;
        (void)adopt(s, p, q);
    }
    if (two && p->act_slots && c->act_home == OC_HOME_AUTO) {
        q = *p;
        q.act_slots = 0;
        (void)adopt(s, p, q);
    }
    if (!two) return;
    if (s->train && c->recompute == OC_RECOMPUTE_AUTO && p->act_slots == 0)
        raise(s, p, &p->kept_layers, s->model->n_layers);
    if (c->slots == 0) raise(s, p, &p->slots, moved_blocks(s->model));
}

static bool wants_resident(const oc_setup *s, bool *must) {
    const oc_config *c = s->config;
    bool capped = c->device_memory != UINT64_MAX;
    bool asked = c->weights_home == OC_HOME_DEVICE && c->optimizer_home == OC_HOME_DEVICE;
    *must = asked;
    if (c->slots > 0 || c->act_home == OC_HOME_HOST) return asked;
    if (asked || !capped) return true;
    return c->weights_home == OC_HOME_AUTO && c->optimizer_home == OC_HOME_AUTO;
}

static void describe(oc_setup *s) {
    const oc_placement *p = &s->build.place;
    const char *early =
        p->early ? ", updates during the backward: gradients pass through slabs alone" : "";
    if (p->resident)
        (void)snprintf(s->choice, sizeof s->choice,
                       "every state at home in %s memory, %d of %d layers keep their saved "
                       "tensors%s",
                       oc_tier_name(p->compute), p->kept_layers, s->model->n_layers, early);
    else
        (void)snprintf(
            s->choice, sizeof s->choice,
            "%sstates at home on the host, %d weight slots, %d gradient slabs, activation "
            "checkpoints on the %s, %d of %d layers keep their saved tensors, "
            "micro-batches %s groups of %d, pieces of %llu elements%s",
            s->config->weights_home == OC_HOME_DEVICE ? "a copy of every weight on the device, "
                                                      : "",
            p->slots, p->slabs, p->act_slots ? "host" : "device", p->kept_layers,
            s->model->n_layers, p->interleave ? "interleaved in" : "in", p->group,
            (unsigned long long)p->piece_elements, early);
}

static oc_placement resident_placement(const oc_setup *s, oc_placement p) {
    p.resident = true;
    bool hosted = s->config->device_memory == UINT64_MAX && !oc_setup_opaque(s);
    p.compute = hosted ? OC_TIER_HOST : OC_TIER_DEVICE;
    p.slots = 0;
    p.act_slots = 0;
    return p;
}

/* The smallest placement that the options leave: streamed, or for a tiny model everything resident.
 */
static oc_status find_least(oc_setup *s, const oc_placement *streamed, const oc_placement *resident,
                            bool *resident_is_least, oc_error *err) {
    uint64_t bytes[OC_TIER_COUNT];
    *resident_is_least = false;
    OC_TRY(measure(s, streamed, s->minimum, err));
    if (!resident) return OC_OK;
    OC_TRY(measure(s, resident, bytes, err));
    if (bytes[OC_TIER_DEVICE] == 0 || bytes[OC_TIER_DEVICE] >= s->minimum[OC_TIER_DEVICE])
        return OC_OK;
    memcpy(s->minimum, bytes, sizeof bytes);
    *resident_is_least = true;
    return OC_OK;
}

oc_status oc_setup_place(oc_setup *s, oc_error *err) {
    const oc_config *c = s->config;
    bool must = false, resident = wants_resident(s, &must), tiny = false;
    if (c->optimizer_home == OC_HOME_DEVICE && c->weights_home == OC_HOME_HOST)
        return oc_fail(err, OC_E_UNSUPPORTED,
                       "--optimizer-home device with --weights-home host moves weights away from "
                       "where they are updated; put both on the device or the optimizer on the "
                       "host");
    oc_placement least = base_placement(s), p;
    if (c->weights_home == OC_HOME_DEVICE && !resident) least.slots = moved_blocks(s->model);
    oc_placement whole = resident_placement(s, least);
    OC_TRY(find_least(s, &least, resident ? &whole : NULL, &tiny, err));
    if (resident && adopt(s, &p, whole)) {
        if (s->train && c->recompute == OC_RECOMPUTE_AUTO)
            raise(s, &p, &p.kept_layers, s->model->n_layers);
    } else if (resident && (must || tiny || c->device_memory == UINT64_MAX)) {
        return refuse(s, &whole, err);
    } else if (adopt(s, &p, least)) {
        improve(s, &p);
    } else {
        return refuse(s, &least, err);
    }
    s->build.place = p;
    describe(s);
    return OC_OK;
}
