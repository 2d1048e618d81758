/* report.c - the table of bytes per tier and use, plan --json, and the plan op by op. */
#include "base/json.h"
#include "engine/setup.h"

#include <stdlib.h>
#include <string.h>

static void print_uses(const oc_setup *s, oc_tier tier, FILE *to) {
    char size[32];
    for (int u = 0; u < OC_USE_COUNT; u++) {
        uint64_t bytes = oc_setup_use_bytes(s, tier, (oc_use)u);
        if (bytes == 0) continue;
        (void)fprintf(to, "    %-12s %14llu  %s\n", oc_use_name((oc_use)u),
                      (unsigned long long)bytes, oc_size_format(bytes, size, sizeof size));
    }
}

static void print_tier(const oc_setup *s, oc_tier tier, FILE *to) {
    char size[32], room[32];
    uint64_t bytes = oc_setup_tier_bytes(s, tier), budget = s->budget[tier];
    (void)fprintf(to, "  %-14s %14llu  %s", oc_tier_name(tier), (unsigned long long)bytes,
                  oc_size_format(bytes, size, sizeof size));
    if (budget != UINT64_MAX && budget >= bytes)
        (void)fprintf(to, ", %s of the budget left",
                      oc_size_format(budget - bytes, room, sizeof room));
    (void)fprintf(to, "\n");
    print_uses(s, tier, to);
}

static double ratio(const oc_setup *s, oc_tier tier) {
    uint64_t bound = oc_plan_lower_bound(s->set, tier);
    if (bound == UINT64_MAX) *s->starved = true;
    return bound ? (double)s->set->arena_bytes[tier] / (double)bound : 1.0;
}

void oc_setup_print(const oc_setup *s, FILE *to) {
    char a[32], b[32];
    uint64_t device = oc_setup_tier_bytes(s, OC_TIER_DEVICE);
    uint64_t sum = device + oc_setup_tier_bytes(s, OC_TIER_HOST) + s->foreign_bytes;
    (void)fprintf(to, "%s, %llu parameters, %s, ", s->model->architecture,
                  (unsigned long long)s->model->parameters, oc_dtype_name(s->dtype));
    if (s->build.pass.rows > 0)
        (void)fprintf(to, "%d x %d sequences of at most %lld tokens, %lld tokens a pass\n",
                      s->build.micros, s->build.pass.rows, (long long)s->wish.longest,
                      (long long)s->build.seq * s->build.micros);
    else
        (void)fprintf(to, "%lld x %d sequences of %lld tokens a step\n", (long long)s->build.batch,
                      s->build.micros, (long long)s->build.seq);
    (void)fprintf(to, "placement: %s\n", s->choice);
    (void)fprintf(to, "device: cpu, %d threads, %s\nbytes, rank 0 of 1:\n", oc_pool_cores(s->pool),
                  oc_device_kernels(s->device));
    if (device) print_tier(s, OC_TIER_DEVICE, to);
    print_tier(s, OC_TIER_HOST, to);
    (void)fprintf(to, "  %-14s %14llu  %s (libraries, code, stacks: a reserve)\n", "foreign",
                  (unsigned long long)s->foreign_bytes,
                  oc_size_format(s->foreign_bytes, a, sizeof a));
    (void)fprintf(to, "  %-14s %14llu  %s%s\n", "process", (unsigned long long)sum,
                  oc_size_format(sum, b, sizeof b),
                  device ? " (the CPU's device arena is host memory too)" : "");
    (void)fprintf(to,
                  "  arena / lower bound: device %.3f, host %.3f; the least --device-memory is "
                  "%llu (%s)\n",
                  ratio(s, OC_TIER_DEVICE), ratio(s, OC_TIER_HOST),
                  (unsigned long long)s->minimum[OC_TIER_DEVICE],
                  oc_size_format(s->minimum[OC_TIER_DEVICE], a, sizeof a));
    (void)fflush(to);
}

/* ---- JSON ---- */

static json_t *tier_json(const oc_setup *s, oc_tier tier) {
    json_t *uses = json_object();
    for (int u = 0; u < OC_USE_COUNT; u++) {
        uint64_t bytes = oc_setup_use_bytes(s, tier, (oc_use)u);
        uses = oc_json_with(uses, oc_use_name((oc_use)u), json_integer((json_int_t)bytes));
    }
    return json_pack("{s:I,s:o}", "bytes", (json_int_t)oc_setup_tier_bytes(s, tier), "by_use",
                     uses);
}

/* One word where all blocks agree. */
static const char *common_tier(const oc_setup *s, bool weights) {
    oc_tier first = OC_TIER_COUNT;
    for (int32_t i = 0; i < s->model->n_blocks; i++) {
        oc_block_homes h = oc_build_homes(&s->build, (uint32_t)i);
        if (h.frozen && !weights) continue;
        oc_tier t = weights ? h.weight : h.optimizer;
        if (first == OC_TIER_COUNT) first = t;
        if (t != first) return "mixed";
    }
    return first == OC_TIER_COUNT ? "none" : oc_tier_name(first);
}

static json_t *home_json(oc_tier tier, oc_dtype format) {
    return json_pack("{s:s,s:s,s:s}", "tier", oc_tier_name(tier), "share", "whole", "format",
                     oc_dtype_name(format));
}

/* A row of the table: the homes of a block's states. */
static json_t *block_json(const oc_setup *s, int32_t i) {
    static const char *const kinds[] = {"embedding", "head",  "positions",
                                        "front",     "layer", "final norm"};
    const oc_block *x = &s->model->blocks[i];
    oc_block_homes h = oc_build_homes(&s->build, (uint32_t)i);
    const oc_build_ids *d = &s->ids;
    json_t *row =
        json_pack("{s:s,s:i,s:b,s:o}", "block", kinds[x->kind], "index", x->index, "trainable",
                  s->train && !h.frozen, "weight", home_json(h.weight, s->dtype));
    const struct {
        const char *name;
        oc_buffer_id id;
        oc_dtype format;
    } states[] = {{"gradient", d->grad[i], oc_build_grad_dtype(&s->build, i)},
                  {"master", d->master[i], OC_F32},
                  {"m", d->m[i], OC_F32},
                  {"v", d->v[i], OC_F32}};
    for (int k = 0; k < 4; k++)
        if (states[k].id != OC_NO_BUFFER)
            row = oc_json_with(row, states[k].name, home_json(h.optimizer, states[k].format));
    return row;
}

static json_t *homes_json(const oc_setup *s) {
    const oc_placement *p = &s->build.place;
    const char *states = common_tier(s, false);
    json_t *blocks = json_array();
    for (int32_t i = 0; i < s->model->n_blocks; i++)
        blocks = oc_json_append(blocks, block_json(s, i));
    return json_pack("{s:s,s:s,s:s,s:s,s:s,s:o}", "weights", common_tier(s, true), "gradients",
                     states, "master", states, "moments", states, "activations",
                     p->act_slots ? "host" : oc_tier_name(p->compute), "blocks", blocks);
}

/* Layers, and chunks of the head, that keep a value from forward to backward. */
static json_t *kept_json(const oc_setup *s) {
    json_t *kept = json_object();
    for (int v = 0; v < OC_SAVED_COUNT; v++)
        if (oc_program_backward_reads(&s->model->decoder, (oc_saved)v))
            kept = oc_json_with(kept, oc_saved_name((oc_saved)v),
                                json_integer(oc_build_kept(&s->build, (oc_saved)v)));
    kept = oc_json_with(kept, "logits", json_integer(s->build.place.kept_logits));
    return kept;
}

/* Layers that let a value wait on the host. */
static json_t *waiting_json(const oc_setup *s) {
    json_t *waiting = json_object();
    for (int v = 0; v < OC_SAVED_COUNT; v++)
        if (oc_program_backward_reads(&s->model->decoder, (oc_saved)v))
            waiting = oc_json_with(waiting, oc_saved_name((oc_saved)v),
                                   json_integer(oc_build_away_saved(&s->build, (oc_saved)v)));
    return waiting;
}

static json_t *generation_json(oc_setup *s);

oc_status oc_setup_print_json(oc_setup *s, FILE *to, oc_error *err) {
    json_t *tiers = json_object();
    for (int t = 0; t < OC_TIER_COUNT; t++)
        tiers = oc_json_with(tiers, oc_tier_name((oc_tier)t), tier_json(s, (oc_tier)t));
    const oc_placement *p = &s->build.place;
    json_t *placement =
        json_pack("{s:b,s:i,s:i,s:i,s:o,s:o,s:i,s:I}", "resident", p->resident, "slots", p->slots,
                  "slabs", p->slabs, "activation_slots", p->act_slots, "kept", kept_json(s),
                  "waiting", waiting_json(s), "micro_batch_group", p->group, "piece_elements",
                  (json_int_t)p->piece_elements);
    json_t *root =
        json_pack("{s:I,s:I,s:s,s:I,s:o,s:{s:I,s:I},s:I,s:o,s:o,s:n,s:{s:f,s:f}}", "parameters",
                  (json_int_t)s->model->parameters, "trained_parameters",
                  (json_int_t)oc_model_trained_parameters(s->model), "dtype",
                  oc_dtype_name(s->dtype), "token_tile", (json_int_t)oc_program_tile(&s->shape),
                  "tiers", tiers, "minimum", "device", (json_int_t)s->minimum[OC_TIER_DEVICE],
                  "host", (json_int_t)(s->minimum[OC_TIER_HOST] + oc_setup_outside_bytes(s)),
                  "foreign", (json_int_t)s->foreign_bytes, "homes", homes_json(s), "placement",
                  placement, "predicted", "arena_over_lower_bound", "device",
                  ratio(s, OC_TIER_DEVICE), "host", ratio(s, OC_TIER_HOST));
    if (s->build.pass.rows > 0) root = oc_json_with(root, "generation", generation_json(s));
    if (!root || s->no_memory) {
        json_decref(root);
        return oc_fail(err, OC_E_MEMORY, "no memory for the plan's JSON");
    }
    oc_status st = oc_json_print(root, JSON_INDENT(2), to, err);
    json_decref(root);
    return st;
}

/* ---- the trade of a batch ---- */

enum { TRADES_MOST = 16 };

void oc_setup_print_trades(oc_setup *s, FILE *to) {
    oc_pass_trade rows[TRADES_MOST];
    char a[32], b[32], c[32];
    int32_t n = oc_setup_trades(s, rows, TRADES_MOST);
    (void)fprintf(
        to, "batch  resident blocks  keys and values  on the host  device memory  fetched a pass  "
            "tokens/s (estimate)  bound by\n");
    for (int32_t i = 0; i < n; i++) {
        const oc_pass_trade *x = &rows[i];
        if (!x->fits) {
            (void)fprintf(to, "%5d  does not fit\n", x->batch);
            continue;
        }
        (void)fprintf(to, "%5d  %8d of %-4d  %15s  %4d of %-4d  %13s  %14s  %19.4g  %s\n", x->batch,
                      x->resident, s->model->n_blocks, oc_size_format(x->kv_bytes, a, sizeof a),
                      x->away_pages, s->model->n_layers,
                      oc_size_format(x->device_bytes, b, sizeof b),
                      oc_size_format((uint64_t)x->estimate.link_bytes, c, sizeof c),
                      x->estimate.tokens_per_second, x->bound_by);
    }
}

static json_t *trade_json(const oc_pass_trade *x) {
    return json_pack("{s:i,s:b,s:i,s:i,s:I,s:I,s:I,s:f,s:f,s:f,s:s}", "batch", x->batch, "fits",
                     x->fits, "resident_blocks", x->resident, "kv_cache_layers_on_host",
                     x->away_pages, "device_bytes", (json_int_t)x->device_bytes, "kv_cache_bytes",
                     (json_int_t)x->kv_bytes, "fetched_bytes_per_pass",
                     (json_int_t)x->estimate.link_bytes, "passes", x->estimate.passes,
                     "pass_seconds", x->estimate.pass_seconds, "tokens_per_second",
                     x->estimate.tokens_per_second, "bound_by", x->bound_by);
}

static json_t *generation_json(oc_setup *s) {
    oc_pass_trade rows[TRADES_MOST];
    json_t *list = json_array();
    int32_t n = oc_setup_trades(s, rows, TRADES_MOST);
    for (int32_t i = 0; i < n; i++)
        list = oc_json_append(list, trade_json(&rows[i]));
    return json_pack("{s:i,s:i,s:I,s:I,s:i,s:i,s:o}", "batch", s->build.pass.rows * s->build.micros,
                     "row_groups", s->build.micros, "tokens_per_pass",
                     (json_int_t)(s->build.seq * s->build.micros), "longest",
                     (json_int_t)s->wish.longest, "pages", s->build.pass.pages * s->build.micros,
                     "page_tokens", s->build.pass.page_tokens, "batches", list);
}

/* ---- op by op ---- */

static void print_accesses(const oc_setup *s, const oc_plan *p, const oc_op *op, bool written,
                           FILE *to) {
    for (uint32_t k = 0; k < op->n_accesses; k++) {
        const oc_access *a = &p->accesses[op->first_access + k];
        if ((a->mode != OC_READ) != written) continue;
        const oc_buffer *b = &s->set->buffers[a->buffer];
        (void)fprintf(to, " %s", b->name);
        if (b->pieces > 1 && a->count == 1) (void)fprintf(to, "[%u]", a->first);
        if (a->mode == OC_FOLD) (void)fprintf(to, "(fold)");
    }
}

static void print_op(const oc_setup *s, const oc_plan *p, const oc_op *op, FILE *to) {
    (void)fprintf(to, "%6td  %-7s %-10s m%-3u", op - p->ops, oc_lane_name((oc_lane)op->lane),
                  oc_op_kind_name((oc_op_kind)op->kind), op->micro);
    (void)fprintf(to, " reads");
    print_accesses(s, p, op, false, to);
    (void)fprintf(to, "  writes");
    print_accesses(s, p, op, true, to);
    if (op->n_waits) (void)fprintf(to, "  after");
    for (uint32_t k = 0; k < op->n_waits; k++) {
        const oc_wait *w = &p->waits[op->first_wait + k];
        (void)fprintf(to, " %s:%u", oc_lane_name((oc_lane)w->lane), w->seq);
    }
    (void)fprintf(to, "\n");
}

void oc_setup_print_ops(const oc_setup *s, FILE *to) {
    for (uint32_t i = 0; i < s->set->n_plans; i++) {
        const oc_plan *p = &s->set->plans[i];
        (void)fprintf(to, "plan %s: %u ops, %u waits\n", p->name, p->n_ops, p->n_waits);
        for (uint32_t k = 0; k < p->n_ops; k++)
            print_op(s, p, &p->ops[k], to);
    }
}
