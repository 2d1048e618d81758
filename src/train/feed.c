/* feed.c - sequences into cells, and the order in which embedding rows are folded. */
#include "train/feed.h"

#include "base/checked.h"

#include <stdlib.h>
#include <string.h>

enum { RADIX_BITS = 11, RADIX = 1 << RADIX_BITS };

/* In the order cell: no block holds this row. */
enum { NO_ROW = INT32_MAX };

struct oc_feed {
    oc_feed_spec spec;
    uint64_t sequences, global_batch;
    int32_t *swap; /* micros x T: the other half of the radix sort */
    uint32_t count[RADIX];
};

oc_status oc_feed_open(oc_feed **out, const oc_feed_spec *spec, oc_error *err) {
    oc_feed *f = calloc(1, sizeof *f);
    uint64_t n = (uint64_t)(spec->batch * spec->seq) * (uint64_t)spec->micros;
    if (f) f->swap = calloc(n, sizeof *f->swap);
    if (!f || !f->swap) {
        free(f);
        return oc_fail(err, OC_E_MEMORY, "no memory for the data feed");
    }
    f->spec = *spec;
    f->sequences = oc_dataset_count(spec->data);
    f->global_batch = (uint64_t)spec->batch * (uint64_t)spec->micros;
    *out = f;
    return OC_OK;
}

void oc_feed_close(oc_feed *f) {
    if (!f) return;
    free(f->swap);
    free(f);
}

uint64_t oc_feed_host_bytes(const oc_feed *f) {
    return sizeof *f + 4 * f->global_batch * (uint64_t)f->spec.seq;
}

uint64_t oc_feed_steps_per_epoch(const oc_feed *f) {
    return oc_ceil_div(f->sequences, f->global_batch);
}

static void pad_row(const oc_feed *f, int32_t *tokens, int32_t *labels, int32_t *positions,
                    int32_t *doc_start) {
    for (int64_t t = 0; t < f->spec.seq; t++) {
        tokens[t] = f->spec.pad_id;
        labels[t] = -100;
        positions[t] = 0;
        doc_start[t] = (int32_t)t; /* a document of its own: attends to itself only */
    }
}

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

/* The order cell: tokens of all live micro-batches, their order, positions, theirs. */
static void fill_order(oc_feed *f, const oc_feed_cells *cells, int64_t live_tokens) {
    int64_t t = f->spec.batch * f->spec.seq, n = t * f->spec.micros;
    int32_t *tokens = cells->order, *positions = cells->order + 2 * n;
    for (int32_t m = 0; m < f->spec.micros; m++) {
        const int32_t *piece =
            (const int32_t *)(const void *)((const char *)cells->batch +
                                            (uint64_t)m * cells->batch_piece_bytes);
        memcpy(tokens + m * t, piece + OC_BATCH_TOKENS * t, (size_t)t * 4);
        memcpy(positions + m * t, piece + OC_BATCH_POSITIONS * t, (size_t)t * 4);
    }
    for (int64_t i = 0; f->spec.padding_idx >= 0 && i < live_tokens; i++)
        if (tokens[i] == f->spec.padding_idx) tokens[i] = NO_ROW;
    sort_places(f, tokens, live_tokens, tokens + n);
    sort_places(f, positions, live_tokens, positions + n);
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

oc_status oc_feed_fill(oc_feed *f, uint64_t step, const oc_feed_cells *cells, oc_error *err) {
    uint64_t per_epoch = oc_feed_steps_per_epoch(f);
    uint64_t epoch = step / per_epoch, first = step % per_epoch * f->global_batch;
    int64_t t = f->spec.batch * f->spec.seq, live = 0;
    oc_control_cell *control = cells->control;
    memset(control, 0, sizeof *control);
    control->step = step + 1;
    for (int32_t m = 0; m < f->spec.micros; m++) {
        int32_t *piece =
            (int32_t *)(void *)((char *)cells->batch + (uint64_t)m * cells->batch_piece_bytes);
        uint64_t place = first + (uint64_t)m * (uint64_t)f->spec.batch;
        /* the first fold of a step initialises the gradients, so micro-batch 0 always runs */
        control->live[m] = m == 0 || place < f->sequences;
        if (control->live[m]) live++;
        for (int64_t row = 0; row < f->spec.batch; row++)
            OC_TRY(fill_row(f, epoch, place + (uint64_t)row, piece, row, err));
        const int32_t *labels = piece + OC_BATCH_LABELS * t;
        for (int64_t i = 0; i < t; i++)
            control->targets += labels[i] >= 0;
    }
    control->n_tokens = (uint32_t)(live * t);
    if (cells->order) fill_order(f, cells, live * t);
    return OC_OK;
}
