/* pass.c - what a pass of generation has of its own: pages of keys and values, logits of the tokens
 * that are wanted logits of, and the op that says what the next pass takes.
 *
 * Cells are not filled by the session for each submission: the pass before leaves them, a version
 * on, like any state. */
#include "build/internal.h"

#include "base/checked.h"

#include <stdio.h>

static const oc_value none = {0};

static oc_value of_each(oc_what what, uint16_t version) {
    oc_value v = oc_value_of(what, 0, OC_EACH_MICRO, 0);
    v.version = version;
    return v;
}

static oc_value control_value(uint16_t version) {
    oc_value v = oc_value_of(OC_V_CONTROL, 0, 0, 0);
    v.version = version;
    return v;
}

static oc_value kv_value(const build *b, uint32_t layer, uint32_t micro, uint16_t version) {
    oc_value v = oc_value_of(OC_V_KV, (uint32_t)b->spec->model->first_layer + layer, micro, 0);
    v.version = version;
    return v;
}

static uint64_t logits_bytes(const build *b, int64_t rows) {
    return oc_align_up((uint64_t)b->spec->pass.rows * (uint64_t)rows * sizeof(float), 64);
}

/* ---- buffers ---- */

static oc_buffer_id numbered(build *b, const char *name, int32_t i, oc_tier tier, oc_use use,
                             oc_buffer_life life, uint64_t bytes, uint64_t pieces, oc_value v) {
    char text[24];
    (void)snprintf(text, sizeof text, "%s%d", name, i);
    return oc_plan_buffer(b->pb, text, tier, use, life, bytes * pieces, bytes, 0, v);
}

static uint64_t group_bytes(const oc_build_spec *s) {
    return (uint64_t)s->pass.pages * s->pass.page_bytes;
}

static bool pages_away(const build *b, uint32_t layer) {
    return (int32_t)layer < b->spec->place.away_pages;
}

int32_t oc_build_listed_pages(const oc_build_spec *s) {
    return s->place.away_pages > 0 ? s->pass.pages : 0;
}

static void pages(build *b) {
    const oc_build_spec *s = b->spec;
    for (int32_t l = 0; l < s->model->n_layers; l++) {
        oc_value v = kv_value(b, (uint32_t)l, OC_EACH_MICRO, 0);
        oc_tier tier = pages_away(b, (uint32_t)l) ? OC_TIER_HOST : s->place.compute;
        b->kv[l] = numbered(b, "kv", l, tier, OC_USE_KV_CACHE, OC_LIFE_CARRIED, group_bytes(s),
                            (uint64_t)oc_build_sets(s), v);
    }
    for (int32_t i = 0; s->place.away_pages > 0 && i < s->place.page_slots; i++)
        b->page_slots[i] = numbered(b, "kv.slot", i, s->place.compute, OC_USE_KV_CACHE,
                                    OC_LIFE_TRANSIENT, group_bytes(s), 1, none);
}

static int64_t largest_chunk(const oc_model *m) {
    int64_t most = 0;
    for (int32_t i = m->first_head; i < m->first_head + m->n_head; i++)
        if (m->blocks[i].rows > most) most = m->blocks[i].rows;
    return most;
}

static void logits(build *b) {
    const oc_build_spec *s = b->spec;
    const oc_model *m = s->model;
    uint64_t sets = (uint64_t)oc_build_sets(s);
    for (int32_t c = 0; c < m->n_head; c++)
        b->ids->logits[c] =
            numbered(b, "logits", c, OC_TIER_HOST, OC_USE_STAGING, OC_LIFE_TRANSIENT,
                     logits_bytes(b, m->blocks[m->first_head + c].rows), sets, none);
    for (int32_t i = 0; i < 2 && oc_build_away(b); i++)
        b->logits_stages[i] =
            numbered(b, "logits.dev", i, s->place.compute, OC_USE_STAGING, OC_LIFE_TRANSIENT,
                     logits_bytes(b, largest_chunk(m)), 1, none);
}

void oc_pass_buffers(build *b) {
    const oc_build_spec *s = b->spec;
    uint64_t piece = oc_pages_bytes(s->pass.rows, s->pass.row_pages, oc_build_listed_pages(s));
    uint64_t sets = (uint64_t)oc_build_sets(s);
    pages(b);
    logits(b);
    b->ids->pages = oc_plan_buffer(b->pb, "pages", OC_TIER_HOST, OC_USE_STAGING, OC_LIFE_CARRIED,
                                   piece * sets, piece, 0, of_each(OC_V_PAGES, 0));
    if (oc_build_away(b))
        b->pages_copy = oc_plan_buffer(b->pb, "pages.dev", s->place.compute, OC_USE_STAGING,
                                       OC_LIFE_TRANSIENT, piece * sets, piece, 0, none);
}

/* ---- ops ---- */

static oc_value pages_value(uint32_t micro) { return oc_value_of(OC_V_PAGES, 0, micro, 0); }

void oc_pass_begin_group(build *b, uint32_t micro) {
    const oc_pass_spec *p = &b->spec->pass;
    if (!oc_build_away(b)) return;
    oc_route_copy(b, b->ids->pages, micro, b->pages_copy, micro,
                  oc_pages_bytes(p->rows, p->row_pages, oc_build_listed_pages(b->spec)),
                  pages_value(micro), (int32_t)micro);
}

static void reads_pages(build *b, uint32_t micro) {
    oc_buffer_id at = oc_build_away(b) ? b->pages_copy : b->ids->pages;
    oc_emit_access(b, OC_ROLE_PAGES, OC_READ, at, micro, 1, pages_value(micro), none);
}

/* Layer by layer, and in each group by group, pages take turns in the slots. */
static oc_buffer_id page_slot(const build *b, uint32_t layer, uint32_t micro) {
    return b->page_slots[(layer * b->micros + micro) % (uint32_t)b->spec->place.page_slots];
}

/* A pass writes as many tokens as it has room for, and touches a page more at either end of each
 * row. */
static uint64_t filled_bytes(const oc_build_spec *s) {
    const oc_pass_spec *p = &s->pass;
    uint64_t most = (uint64_t)s->seq / (uint64_t)p->page_tokens + 2 * (uint64_t)p->rows;
    return oc_min_u64(most, (uint64_t)p->pages) * p->page_bytes;
}

/* The lists are the host's to read. */
static void begin_pages(build *b, oc_body_id body, oc_buffer_id from, oc_buffer_id to,
                        uint32_t layer, uint32_t micro) {
    uint32_t block = (uint32_t)b->spec->model->first_layer + layer;
    oc_route_begin(b, body, from, to, block, micro);
    oc_emit_if_live(b, micro);
    bool fetches = body == OC_BODY_FETCH_PAGES;
    if (!fetches) b->op.kind = OC_OP_PUBLISH;
    b->op.demand.bytes = fetches ? group_bytes(b->spec) : filled_bytes(b->spec);
    oc_emit_op(b);
    oc_emit_access(b, OC_ROLE_PAGES, OC_READ, b->ids->pages, micro, 1, pages_value(micro), none);
}

static void fetch_pages(build *b, uint32_t layer, uint32_t micro) {
    oc_buffer_id home = b->kv[layer], slot = page_slot(b, layer, micro);
    oc_value v = kv_value(b, layer, micro, 0);
    begin_pages(b, OC_BODY_FETCH_PAGES, home, slot, layer, micro);
    oc_emit_access(b, OC_ROLE_SRC, OC_READ, home, micro, 1, v, none);
    oc_emit_write(b, OC_ROLE_DST, slot, 1, v);
}

/* The next ones are on their way before this layer's weights are, so that neither waits long for
 * the other's link. */
void oc_pass_fetch_pages(build *b, uint32_t layer, uint32_t micro) {
    bool last = micro + 1 == b->micros;
    uint32_t next = last ? layer + 1 : layer;
    if (oc_dry(b)) return;
    if (layer == 0 && micro == 0 && pages_away(b, 0)) fetch_pages(b, 0, 0);
    if (pages_away(b, next)) fetch_pages(b, next, last ? 0 : micro + 1);
}

void oc_pass_store_pages(build *b, uint32_t layer, uint32_t micro) {
    oc_value was = kv_value(b, layer, micro, 0), now = kv_value(b, layer, micro, 1);
    if (oc_dry(b) || !pages_away(b, layer)) return;
    oc_buffer_id home = b->kv[layer], slot = page_slot(b, layer, micro);
    begin_pages(b, OC_BODY_STORE_PAGES, slot, home, layer, micro);
    oc_emit_read(b, OC_ROLE_SRC, slot, 1, now);
    oc_emit_access(b, OC_ROLE_DST, OC_FOLD, home, micro, 1, was, now);
}

void oc_pass_uses_pages(build *b, uint32_t layer, uint32_t micro) {
    bool away = pages_away(b, layer);
    reads_pages(b, micro);
    oc_emit_access(b, OC_ROLE_KV, OC_FOLD, away ? page_slot(b, layer, micro) : b->kv[layer],
                   away ? 0 : micro, 1, kv_value(b, layer, micro, 0), kv_value(b, layer, micro, 1));
}

static oc_value state_value(uint32_t micro) { return oc_value_of(OC_V_HEAD_STATE, 0, micro, 0); }

static void final_sampled(build *b, uint32_t micro) {
    const oc_model *m = b->spec->model;
    uint32_t block = (uint32_t)m->final_norm_block, layers = (uint32_t)m->n_layers;
    oc_buffer_id w = oc_weights_use(b, block);
    oc_buffer_id in = oc_acts_use(b, layers, micro);
    oc_emit_begin(b, OC_OP_FORWARD, OC_LANE_COMPUTE, OC_BODY_FINAL_SAMPLED, block, micro);
    oc_emit_if_live(b, micro);
    oc_emit_op(b);
    oc_weights_read(b, block, w);
    oc_emit_read(b, OC_ROLE_IN, in, 1, oc_act_value(layers, micro));
    reads_pages(b, micro);
    oc_emit_write(b, OC_ROLE_STATE, b->states[micro], 1, state_value(micro));
    oc_emit_write(b, OC_ROLE_WORK, b->work, 1, oc_step_scratch());
}

static void head_logits(build *b, uint32_t chunk, uint32_t micro) {
    uint32_t block = (uint32_t)b->spec->model->first_head + chunk;
    bool away = oc_build_away(b);
    oc_value v = oc_value_of(OC_V_LOGITS, block, micro, 0);
    oc_buffer_id w = oc_weights_use(b, block), home = b->ids->logits[chunk];
    oc_buffer_id to = away ? b->logits_stages[b->next_logits++ % 2] : home;
    oc_emit_begin(b, OC_OP_FORWARD, OC_LANE_COMPUTE, OC_BODY_HEAD_LOGITS, block, micro);
    oc_emit_if_live(b, micro);
    oc_emit_op(b);
    oc_weights_read(b, block, w);
    oc_emit_read(b, OC_ROLE_STATE, b->states[micro], 1, state_value(micro));
    oc_emit_access(b, OC_ROLE_LOGITS, OC_WRITE, to, away ? 0 : micro, 1, v, none);
    if (away)
        oc_route_copy(b, to, 0, home, micro, logits_bytes(b, b->spec->model->blocks[block].rows), v,
                      (int32_t)micro);
}

/* From the logits of all groups to what each of them takes next. */
static void next(build *b) {
    const oc_model *m = b->spec->model;
    oc_emit_begin(b, OC_OP_NEXT, OC_LANE_OPTIM, OC_BODY_NEXT, (uint32_t)m->first_head, 0);
    b->op.blocks = (uint32_t)m->n_head;
    oc_emit_op(b);
    for (uint32_t c = 0; c < (uint32_t)m->n_head; c++)
        oc_emit_read(b, OC_ROLE_LOGITS, b->ids->logits[c], UINT32_MAX,
                     oc_value_of(OC_V_LOGITS, (uint32_t)m->first_head + c, OC_EACH_MICRO, 0));
    oc_emit_access(b, OC_ROLE_CELLS_OUT, OC_FOLD, b->ids->control, 0, UINT32_MAX, control_value(0),
                   control_value(1));
    oc_emit_access(b, OC_ROLE_BATCH, OC_FOLD, b->ids->batch, 0, UINT32_MAX, of_each(OC_V_BATCH, 0),
                   of_each(OC_V_BATCH, 1));
    oc_emit_access(b, OC_ROLE_PAGES, OC_FOLD, b->ids->pages, 0, UINT32_MAX, of_each(OC_V_PAGES, 0),
                   of_each(OC_V_PAGES, 1));
}

void oc_pass_head(build *b) {
    for (uint32_t g = 0; g < b->micros; g++)
        final_sampled(b, g);
    for (uint32_t c = 0; c < (uint32_t)b->spec->model->n_head; c++)
        for (uint32_t g = 0; g < b->micros; g++)
            head_logits(b, c, g);
    next(b);
}

/* ---- contracts ---- */

void oc_pass_hold(build *b, hold_fn *hold, uint16_t version) {
    for (uint32_t l = 0; l < (uint32_t)b->spec->model->n_layers; l++)
        hold(b->pb, b->kv[l], 0, UINT32_MAX, kv_value(b, l, OC_EACH_MICRO, version));
    hold(b->pb, b->ids->control, 0, UINT32_MAX, control_value(version));
    hold(b->pb, b->ids->batch, 0, UINT32_MAX, of_each(OC_V_BATCH, version));
    hold(b->pb, b->ids->pages, 0, UINT32_MAX, of_each(OC_V_PAGES, version));
}

void oc_pass_advance(build *b) {
    static const oc_what moved[] = {OC_V_KV, OC_V_CONTROL, OC_V_BATCH, OC_V_PAGES};
    for (int i = 0; i < 4; i++)
        oc_plan_advances(b->pb, moved[i], 1);
}
