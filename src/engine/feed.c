/* feed.c - sequences into cells, and the order in which embedding rows are folded. */
#include "engine/feed.h"

#include "base/checked.h"
#include "base/heap.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { RADIX_BITS = 11, RADIX = 1 << RADIX_BITS };

struct oc_feed {
    oc_feed_spec spec;
    uint64_t sequences, global_batch;
    uint64_t step;               /* the counts below are of this one */
    int32_t counted;             /* micro-batches whose targets are in */
    uint64_t targets;            /* of them */
    int32_t *swap;               /* tokens of an order cell: the other half of the radix sort */
    int32_t *tokens, *positions; /* of the whole step, when the order cell covers that; else NULL */
    uint32_t count[RADIX];
};

static uint64_t tokens_of(const oc_feed_spec *s) { return (uint64_t)(s->batch * s->seq); }

static uint64_t order_entries(const oc_feed_spec *s) {
    return tokens_of(s) * (uint64_t)s->order_micros;
}

uint64_t oc_feed_bytes(const oc_feed_spec *spec) {
    uint64_t order = 4 * order_entries(spec);
    uint64_t late = spec->order_late ? 2 * oc_heap_bytes(order) : 0;
    return oc_heap_bytes(sizeof(oc_feed)) + (order ? oc_heap_bytes(order) : 0) + late;
}

static bool allocate(oc_feed *f) {
    uint64_t n = order_entries(&f->spec);
    if (n == 0) return true;
    f->swap = calloc(n, sizeof *f->swap);
    if (!f->spec.order_late) return f->swap != NULL;
    f->tokens = calloc(n, sizeof *f->tokens);
    f->positions = calloc(n, sizeof *f->positions);
    return f->swap && f->tokens && f->positions;
}

oc_status oc_feed_open(oc_feed **out, const oc_feed_spec *spec, oc_error *err) {
    oc_feed *f = calloc(1, sizeof *f);
    if (f) f->spec = *spec;
    if (!f || !allocate(f)) {
        oc_feed_close(f);
        return oc_fail(err, OC_E_MEMORY, "no memory for the data feed");
    }
    f->sequences = oc_dataset_count(spec->data);
    f->global_batch = (uint64_t)spec->batch * (uint64_t)spec->micros;
    f->step = UINT64_MAX;
    *out = f;
    return OC_OK;
}

void oc_feed_close(oc_feed *f) {
    if (!f) return;
    free(f->swap);
    free(f->tokens);
    free(f->positions);
    free(f);
}

uint64_t oc_feed_host_bytes(const oc_feed *f) { return oc_feed_bytes(&f->spec); }

uint64_t oc_feed_steps_per_epoch(const oc_feed *f) {
    return oc_ceil_div(f->sequences, f->global_batch);
}

/* Sequence number, within the epoch, of a step's first. */
static uint64_t first_place(const oc_feed *f, uint64_t step) {
    return step % oc_feed_steps_per_epoch(f) * f->global_batch;
}

int32_t oc_feed_live(const oc_feed *f, uint64_t step) {
    uint64_t left = f->sequences - oc_min_u64(first_place(f, step), f->sequences);
    uint64_t live = oc_ceil_div(left, (uint64_t)f->spec.batch);
    return (int32_t)oc_max_u64(oc_min_u64(live, (uint64_t)f->spec.micros), 1);
}

/* ---- rows ---- */

static void pad_row(const oc_feed *f, int32_t *tokens, int32_t *labels, int32_t *positions,
                    int32_t *doc_start) {
    for (int64_t t = 0; t < f->spec.seq; t++) {
        tokens[t] = f->spec.pad_id;
        labels[t] = -100;
        positions[t] = 0;
        doc_start[t] = (int32_t)t; /* a document of its own: attends to itself only */
    }
}

static oc_status fill_row(oc_feed *f, uint64_t epoch, uint64_t place, int32_t *piece, int64_t row,
                          oc_error *err) {
    int64_t t = f->spec.batch * f->spec.seq, at = row * f->spec.seq;
    int32_t *tokens = piece + OC_BATCH_TOKENS * t + at, *labels = piece + OC_BATCH_LABELS * t + at;
    int32_t *positions = piece + OC_BATCH_POSITIONS * t + at;
    int32_t *doc_start = piece + OC_BATCH_DOC_START * t + at;
    if (place >= f->sequences) {
        pad_row(f, tokens, labels, positions, doc_start);
        return OC_OK;
    }
    uint64_t i = oc_dataset_order(f->spec.seed, epoch, place, f->sequences, f->spec.shuffle);
    return oc_dataset_read(f->spec.data, i, tokens, labels, positions, doc_start, err);
}

static int32_t *piece_of(const oc_feed *f, const oc_feed_cells *c, int32_t micro) {
    uint64_t at = (uint64_t)(micro % f->spec.sets) * c->batch_piece_bytes;
    return (int32_t *)(void *)((char *)c->batch + at);
}

/* Interleaved, a micro-batch is filled twice: it counts once. */
static void count_targets(oc_feed *f, int32_t micro, const int32_t *labels) {
    if (micro < f->counted) return;
    for (uint64_t i = 0; i < tokens_of(&f->spec); i++)
        f->targets += labels[i] >= 0;
    f->counted = micro + 1;
}

static oc_status fill_micro(oc_feed *f, uint64_t step, int32_t micro, const oc_feed_cells *c,
                            oc_error *err) {
    int64_t t = f->spec.batch * f->spec.seq;
    uint64_t epoch = step / oc_feed_steps_per_epoch(f);
    uint64_t place = first_place(f, step) + (uint64_t)micro * (uint64_t)f->spec.batch;
    int32_t *piece = piece_of(f, c, micro);
    /* the first fold of a step initialises the gradients, so micro-batch 0 always runs */
    bool live = micro < f->spec.micros && (micro == 0 || place < f->sequences);
    if (micro >= f->spec.micros) place = f->sequences; /* a last group that is not full */
    c->control->live[micro % f->spec.sets] = live;
    for (int64_t row = 0; row < f->spec.batch; row++)
        OC_TRY(fill_row(f, epoch, place + (uint64_t)row, piece, row, err));
    count_targets(f, micro, piece + OC_BATCH_LABELS * t);
    if (!f->spec.order_late || !live) return OC_OK;
    memcpy(f->tokens + micro * t, piece + OC_BATCH_TOKENS * t, (size_t)t * 4);
    memcpy(f->positions + micro * t, piece + OC_BATCH_POSITIONS * t, (size_t)t * 4);
    return OC_OK;
}

/* ---- the order of rows ---- */

/* Stable radix sort of 0 .. n-1 by key (not negative): equal keys stay in order of place. */
static void sort_places(oc_feed *f, const int32_t *key, int64_t n, int32_t *order) {
    int32_t *from = order, *to = f->swap;
    for (int64_t i = 0; i < n; i++)
        from[i] = (int32_t)i;
    for (int shift = 0; shift < 3 * RADIX_BITS; shift += RADIX_BITS) {
        memset(f->count, 0, sizeof f->count);
        for (int64_t i = 0; i < n; i++)
            f->count[(uint32_t)key[i] >> shift & (RADIX - 1)]++;
        uint32_t sum = 0;
        for (int d = 0; d < RADIX; d++) {
            uint32_t c = f->count[d];
            f->count[d] = sum;
            sum += c;
        }
        for (int64_t i = 0; i < n; i++)
            to[f->count[(uint32_t)key[from[i]] >> shift & (RADIX - 1)]++] = from[i];
        int32_t *other = from;
        from = to;
        to = other;
    }
    if (from != order) memcpy(order, from, (size_t)n * sizeof *order);
}

/* One micro-batch's rows; those of one without rows have no place in any table. */
static void order_micro(const oc_feed *f, const oc_feed_cells *c, int32_t micro, bool live,
                        int32_t *tokens, int32_t *positions) {
    int64_t t = f->spec.batch * f->spec.seq;
    bool late = f->spec.order_late;
    const int32_t *piece = late ? NULL : piece_of(f, c, micro);
    const int32_t *from = late ? f->tokens + micro * t : piece + OC_BATCH_TOKENS * t;
    const int32_t *places = late ? f->positions + micro * t : piece + OC_BATCH_POSITIONS * t;
    for (int64_t i = 0; i < t; i++) {
        bool row = live && from[i] != f->spec.padding_idx;
        tokens[i] = row ? from[i] : OC_NO_ROW;
        positions[i] = live ? places[i] : OC_NO_ROW;
    }
}

static void fill_order(oc_feed *f, uint64_t step, const oc_feed_cells *c) {
    int64_t t = f->spec.batch * f->spec.seq, n = t * f->spec.order_micros;
    int32_t *tokens = c->order + OC_ORDER_TOKENS * n;
    int32_t *positions = c->order + OC_ORDER_POSITIONS * n;
    int32_t live = oc_feed_live(f, step);
    for (int32_t i = 0; i < f->spec.order_micros; i++) {
        int32_t micro = c->order_first + i;
        order_micro(f, c, micro, micro < live, tokens + i * t, positions + i * t);
    }
    sort_places(f, tokens, n, c->order + OC_ORDER_OF_TOKENS * n);
    sort_places(f, positions, n, c->order + OC_ORDER_OF_POSITIONS * n);
}

/* ---- a submission ---- */

oc_status oc_feed_fill(oc_feed *f, uint64_t step, const oc_feed_cells *cells, oc_error *err) {
    oc_control_cell *control = cells->control;
    if (step != f->step) {
        f->step = step;
        f->counted = 0;
        f->targets = 0;
    }
    memset(control, 0, offsetof(oc_control_cell, live) + 4 * (size_t)f->spec.sets);
    control->step = step + 1;
    control->first_micro = (uint32_t)cells->first_micro;
    for (int32_t i = 0; i < cells->micros; i++)
        OC_TRY(fill_micro(f, step, cells->first_micro + i, cells, err));
    control->targets = f->targets;
    if (cells->order) fill_order(f, step, cells);
    return OC_OK;
}
