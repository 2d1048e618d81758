#include "base/checked.h"
#include "data/internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

oc_status oc_packer_init(oc_packer *p, oc_spool *spool, oc_dataset_report *report,
                         const oc_dataset_spec *spec, oc_error *err) {
    *p = (oc_packer){.spool = spool,
                     .report = report,
                     .seq = spec->seq,
                     .packing = spec->packing,
                     .pad_id = spec->pad_id};
    p->tokens = malloc((size_t)spec->seq * sizeof *p->tokens);
    p->labels = malloc((size_t)spec->seq * sizeof *p->labels);
    if (p->tokens != NULL && p->labels != NULL) return OC_OK;
    return oc_fail(err, OC_E_MEMORY, "no memory to pack sequences of %" PRId64 " tokens",
                   spec->seq);
}

void oc_packer_release(oc_packer *p) {
    free(p->tokens);
    free(p->labels);
    p->tokens = p->labels = NULL;
}

static oc_status push_sequence(oc_packer *p, oc_error *err) {
    int32_t *tokens = oc_spool_next(p->spool), *labels = tokens + p->seq, *start = labels + p->seq;
    for (int64_t t = p->filled; t < p->seq; t++) {
        tokens[t] = p->pad_id;
        labels[t] = OC_IGNORE;
        start[t] = (int32_t)p->filled;
    }
    p->filled = 0;
    return oc_spool_push(p->spool, err);
}

/* The held tokens become a document of the open sequence, which has room for them. */
static oc_status place(oc_packer *p, oc_error *err) {
    int32_t *tokens = oc_spool_next(p->spool), *labels = tokens + p->seq, *start = labels + p->seq;
    int64_t at = p->filled;
    for (int64_t i = 0; i < p->held; i++) {
        int32_t target = i + 1 < p->held ? p->labels[i + 1] : OC_IGNORE;
        tokens[at + i] = p->tokens[i];
        labels[at + i] = target;
        start[at + i] = (int32_t)at;
        p->report->targets += target != OC_IGNORE;
    }
    p->report->tokens += (uint64_t)p->held;
    p->filled += p->held;
    p->held = 0;
    return p->filled == p->seq || !p->packing ? push_sequence(p, err) : OC_OK;
}

/* A sequence's worth is held and more of the document comes. */
static oc_status overflow(oc_packer *p, oc_error *err) {
    if (!p->packing) {
        p->cut = true;
        return OC_OK;
    }
    if (p->filled > 0) OC_TRY(push_sequence(p, err));
    p->split = true;
    return place(p, err);
}

oc_status oc_packer_put(oc_packer *p, const int32_t *tokens, const int32_t *labels, int64_t n,
                        oc_error *err) {
    while (n > 0) {
        if (p->held == p->seq && !p->cut) OC_TRY(overflow(p, err));
        if (p->cut) return OC_OK;
        int64_t k = n < p->seq - p->held ? n : p->seq - p->held;
        memcpy(p->tokens + p->held, tokens, (size_t)k * sizeof *tokens);
        memcpy(p->labels + p->held, labels, (size_t)k * sizeof *labels);
        p->held += k;
        tokens += k;
        labels += k;
        n -= k;
    }
    return OC_OK;
}

oc_status oc_packer_end(oc_packer *p, oc_error *err) {
    p->report->packed += p->packing && !p->split;
    p->report->split += p->split;
    p->report->truncated += p->cut;
    p->split = p->cut = false;
    if (p->filled + p->held > p->seq) OC_TRY(push_sequence(p, err));
    return place(p, err);
}

oc_status oc_packer_finish(oc_packer *p, oc_error *err) {
    return p->filled > 0 ? push_sequence(p, err) : OC_OK;
}
