/* build_internal.h - the state of a build, shared by build.c (ops) and build_buffers.c. */
#ifndef OC_BUILD_INTERNAL_H
#define OC_BUILD_INTERNAL_H

#include "plan/build.h"
#include "plan/cells.h"

/* Slots that hold values. The first, dry run over the ops records the order of uses; the second
 * replaces by it. */
typedef struct cache {
    int n;
    oc_buffer_id *slots;
    oc_value *content;
    oc_value *trace; /* the values of all uses, in order */
    uint32_t trace_count, trace_capacity;
    uint32_t cursor; /* uses so far */
    uint32_t *used;  /* by slot: cursor at its last use */
    uint32_t apart;  /* so many uses come between a slot's last one and its next filling */
} cache;

typedef struct build {
    const oc_build_spec *spec;
    oc_plan_builder *pb;
    oc_build_ids *ids;
    bool dry;      /* record uses, emit nothing */
    bool training; /* of the plan being emitted */
    bool failed;   /* no memory */
    oc_op op;      /* being emitted */
    cache weights, act_cache;
    oc_buffer_id norm_slot; /* the final norm's own: it is tiny, and used in the midst of others */
    bool norm_there;
    oc_buffer_id *slabs, *stages, *partials;
    oc_buffer_id *acts;   /* [sets][n_layers + 1]: at home */
    oc_buffer_id *saves;  /* [sets][kept_layers] */
    oc_buffer_id *states; /* [sets] head state */
    oc_buffer_id *ds;     /* [sets] gradient of an activation */
    oc_buffer_id rows, position_rows, batch_copy;
    oc_buffer_id front_drows;       /* gradient of a micro-batch's token rows, by the front block */
    oc_buffer_id drows, dpositions; /* gradients of token and position rows of all micro-batches */
    oc_buffer_id work, save_scratch, head_work;
    uint64_t row_bytes, position_bytes; /* of a micro-batch in drows, in dpositions */
    uint32_t n_stages, next_stage, next_slab;
    uint32_t head_stage[OC_MAX_MICROS]; /* folds so far into the micro-batch's head state */
} build;

/* Micro-batches whose activations exist at the same time: sets of buffers. */
static inline int32_t oc_build_sets(const oc_build_spec *s) {
    return s->place.interleave && s->micros > 1 ? 2 : s->place.group;
}

oc_value oc_build_value(oc_what what, uint32_t block, uint32_t micro, uint32_t version,
                        uint32_t stage);
/* Bytes of piece k of a block at so many bytes an element. */
uint64_t oc_build_piece_bytes(const build *b, uint32_t block, uint32_t k, uint64_t width);
/* Appends the ops of one plan (or only records uses when dry). */
void oc_build_ops(build *b, bool training);

#endif
