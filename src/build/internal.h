/* internal.h - the state of a build, shared by the files of this room. Nobody else includes it.
 *
 *   emit.c        one op and its accesses
 *   homes.c       where states live, and what follows from it
 *   routes.c      how bytes get from tier to tier
 *   demand.c      what an op asks of the machine
 *   buffers.c     the buffers of a set
 *   signatures.c  what ops of each body look like
 *   slots.c       places that values pass through: what lies where, from plan to plan
 *   weights.c     weights from their homes
 *   layers.c      the parts of a layer, and the values between forward and backward
 *   acts.c        activation checkpoints
 *   grads.c       gradients from where they are made to the update
 *   step.c        forward and backward of a group, and the end of a step
 *   pass.c        what a pass of generation has of its own
 *   sets.c        which plans there are, which follows which, what each relies on
 *   build.c       entry points */
#ifndef OC_BUILD_INTERNAL_H
#define OC_BUILD_INTERNAL_H

#include "build/build.h"
#include "build/cells.h"

#include <stddef.h>

#define OC_NO_KEY UINT32_MAX

/* How far a gradient is (oc_value.stage). In the midst of a plan it is OC_STAGE_LOCAL + the plan's
 * micro-batches that are in it. */
enum { OC_STAGE_RAW, OC_STAGE_SOME, OC_STAGE_ALL, OC_STAGE_DENSE, OC_STAGE_LOCAL };

/* Places on the device that values pass through, each known by a key (slots.c). */
typedef struct slot_pool {
    oc_buffer_id *slots;
    int32_t n;
    int64_t keys;
    uint32_t apart; /* what was used by so many uses before is not replaced, if there is a choice */
    uint32_t *content; /* per slot: the key there; OC_NO_KEY */
    uint32_t *used;    /* per slot: uses up to its last one; 0: none in this plan */
    uint32_t *wanted;  /* per slot: the next use of what is there; OC_NO_KEY: none */
    uint32_t *trace;   /* keys of all uses, in order */
    uint32_t *next;    /* per use: the next use of the same key */
    uint32_t *first;   /* per key: its first use */
    uint32_t n_trace, capacity, cursor;
} slot_pool;

/* What a walk over the ops of a plan is for. */
typedef enum walk {
    WALK_EMIT,
    WALK_RECORD, /* in which order slots are used */
    WALK_AHEAD,  /* the same, of a plan after it */
    WALK_PLAY    /* what it leaves in the slots */
} walk;

/* Which part of a step a plan is. */
typedef enum plan_part {
    PART_GROUP, /* forward and backward of a group */
    PART_OPEN,  /* interleaved: the first forward */
    PART_TURN,  /* backward of one micro-batch, forward of the next */
    PART_CLOSE, /* the last backward */
    PART_UPDATE,
    PART_STEP, /* all of an early step */
    PART_EVAL,
    PART_PASS /* generation */
} plan_part;

typedef struct plan_kind {
    const char *name;
    plan_part part;
    bool first, last;   /* it has the step's first, last micro-batch */
    uint32_t parity;    /* interleaved: of the micro-batch that goes backward */
    uint32_t pred_from; /* micro-batches from here on may have no rows */
} plan_kind;

enum { MAX_KINDS = 8, PUBLISH_STAGES = 4, ROUTE_STOPS = 4, PASSING_SLOTS = 2 };

typedef struct piece_run {
    uint32_t first, count; /* count 0: none */
} piece_run;

/* Weight slots are of several sizes, so that a small block does not take a large one. */
enum { SIZE_CLASSES = 3 };

typedef struct slot_state {
    uint32_t *content[SIZE_CLASSES]; /* per weight slot */
    bool known;
} slot_state;

typedef struct build {
    const oc_build_spec *spec;
    oc_plan_builder *pb;
    oc_build_ids *ids;
    walk walk;
    bool counting;                  /* only count ops and accesses; contracts are few */
    bool failed;                    /* no memory */
    uint64_t largest_moved;         /* elements of a block that passes through slots */
    int32_t lowest;                 /* layer that a backward reaches */
    piece_run parts[OC_PART_COUNT]; /* of a layer: pieces in which a part's weights lie */
    uint64_t n_ops, n_accesses;
    oc_work lanes[OC_LANE_COUNT]; /* when counting: of the plans so far, as often as they run */
    oc_op op;                     /* being emitted */
    plan_kind kind;
    uint32_t micros; /* of the plan being emitted */

    plan_kind kinds[MAX_KINDS];
    slot_state starts[MAX_KINDS];
    uint32_t n_kinds;
    bool follows[MAX_KINDS][MAX_KINDS], opens[MAX_KINDS];

    slot_pool weights[SIZE_CLASSES]; /* by block */
    slot_pool act_slots; /* activation checkpoints at home on the host: by oc_act_index() */
    oc_buffer_id *slabs, *stages, *partials, *device_partials;
    oc_buffer_id published[PUBLISH_STAGES]
                          [OC_TIER_COUNT]; /* new weights on their way, by where they come from */
    oc_buffer_id *acts;                    /* [sets][n_layers + 1]: at home */
    oc_buffer_id *waiting[OC_SAVED_COUNT]; /* each [sets][away]: on the host */
    oc_buffer_id passing[OC_SAVED_COUNT][PASSING_SLOTS]; /* that these pass through */
    uint32_t next_passing[OC_SAVED_COUNT];
    oc_buffer_id *saved[OC_SAVED_COUNT];        /* each [sets][kept] */
    oc_buffer_id saved_scratch[OC_SAVED_COUNT]; /* of layers that do not keep it; OC_NO_BUFFER */
    oc_buffer_id *logits;                       /* [sets; interleaved 1][kept_logits] */
    oc_buffer_id *states;                       /* [sets] head state */
    oc_buffer_id *ds;                           /* [sets] gradient of an activation */
    oc_buffer_id rows, position_rows, batch_copy;
    oc_buffer_id order_copy, losses_copy, scale_copy, scalars_copy, loss;
    oc_buffer_id front_drows;       /* gradient of a micro-batch's token rows, by the front block */
    oc_buffer_id drows, dpositions; /* gradients of token and position rows */
    oc_buffer_id row_grads;         /* early: the dense gradient of a table chunk */
    oc_buffer_id *kv;               /* of a pass: pages of each layer, at home */
    oc_buffer_id *page_slots;       /* that those which live on the host pass through */
    oc_buffer_id pages_copy;        /* of the pages cell, where the device computes */
    oc_buffer_id logits_stages[2];  /* logits on their way to the host */
    uint32_t next_logits;
    oc_buffer_id work, head_work;
    uint64_t row_bytes, position_bytes; /* of a micro-batch in drows, in dpositions */
    oc_buffer_id stops[ROUTE_STOPS];    /* on the host, of runs on their way over it */
    uint32_t n_stages, next_stage, next_slab, next_published, next_stop;
    uint32_t *head_stage; /* per micro-batch of the plan: folds so far into its head state */
} build;

/* ---- questions ---- */

static inline bool oc_dry(const build *b) { return b->walk != WALK_EMIT; }
static inline bool oc_build_away(const build *b) { return b->spec->place.compute != OC_TIER_HOST; }
oc_format oc_build_format(oc_dtype t);
uint32_t oc_build_pieces(const oc_build_spec *s, uint32_t block);
/* Bytes of pieces k .. k + n - 1 of a block at so many bytes an element. */
uint64_t oc_build_run_bytes(const build *b, uint32_t block, uint32_t k, uint32_t n, uint64_t width);
/* Pieces that one transfer covers at most. */
uint32_t oc_build_fetch_run(const oc_build_spec *s);
uint32_t oc_build_retire_run(const oc_build_spec *s);
bool oc_build_has_grad_home(const oc_build_spec *s, uint32_t block);
bool oc_build_rows_differ(const oc_model *m);
/* Of a block: does anything update it; does its gradient leave the device; is the update elsewhere
 * than the weights, so that these are published; is it updated on a device of its own? */
bool oc_build_trains(const oc_build_spec *s, uint32_t block);
bool oc_build_frozen(const oc_build_spec *s, uint32_t block);
bool oc_build_retires(const oc_build_spec *s, uint32_t block);
bool oc_build_publishes(const oc_build_spec *s, uint32_t block);
bool oc_build_updates_there(const oc_build_spec *s, uint32_t block);
/* Its weights come to the device over the host. */
bool oc_build_stops_over(const oc_build_spec *s, uint32_t block);
bool oc_build_any(const oc_build_spec *s, bool (*is)(const oc_build_spec *, uint32_t));
/* What an optimizer keeps of a block beside its weights, in fp32: a row each. The master is the
 * weight where both are fp32 and live together. */
typedef struct state_row {
    const char *name;
    oc_what what;
    oc_role role; /* in an update */
    oc_use use;
    size_t ids; /* where oc_build_ids has its buffers */
    bool (*kept)(const oc_build_spec *s);
} state_row;
enum { STATE_ROWS = 3 };
extern const state_row oc_state_rows[STATE_ROWS]; /* the first is the master */
static inline oc_buffer_id *oc_state_ids(const oc_build_ids *ids, const state_row *r) {
    return *(oc_buffer_id *const *)(const void *)((const char *)ids + r->ids);
}

/* Of what stands before the layers: token rows, position rows, the front block. */
bool oc_build_trains_rows(const oc_build_spec *s);
bool oc_build_trains_positions(const oc_build_spec *s);
bool oc_build_trains_front(const oc_build_spec *s);
static inline bool oc_build_parallel(const oc_build_spec *s) {
    return s->model->decoder.placement == OC_PLACE_PARALLEL;
}
/* Pieces of a layer's block in which a part's weights lie: of all layers the same. */
piece_run oc_build_part_run(const oc_build_spec *s, oc_part p);
uint64_t oc_build_logits_bytes(const oc_build_spec *s, int64_t rows);
/* Whether a head's chunk keeps its logits, and which of those it is. */
bool oc_build_keeps_logits(const oc_build_spec *s, uint32_t block, uint32_t *index);

/* ---- values ---- */

oc_value oc_value_of(oc_what what, uint32_t block, uint32_t micro, uint32_t stage);
oc_value oc_state_value(const oc_build_spec *s, oc_what what, uint32_t block, uint32_t piece);
oc_value oc_grad_raw(const oc_build_spec *s, uint32_t block, uint32_t micro, uint32_t piece);
oc_value oc_grad_home(const oc_build_spec *s, uint32_t block, uint32_t stage, uint32_t piece);

/* ---- emit.c ---- */

void oc_emit_begin(build *b, oc_op_kind kind, oc_lane lane, oc_body_id body, uint32_t block,
                   uint32_t micro);
void oc_emit_run(build *b, uint32_t piece, uint32_t pieces); /* of the op begun */
void oc_emit_pred(build *b, oc_buffer_id cell, uint32_t at);
/* Bodies of a micro-batch without rows are skipped. */
void oc_emit_if_live(build *b, uint32_t micro);
void oc_emit_op(build *b); /* accesses follow */
void oc_emit_access(build *b, oc_role role, oc_access_mode mode, oc_buffer_id buffer,
                    uint32_t first, uint32_t count, oc_value value, oc_value result);
void oc_emit_read(build *b, oc_role role, oc_buffer_id buffer, uint32_t count, oc_value v);
void oc_emit_write(build *b, oc_role role, oc_buffer_id buffer, uint32_t count, oc_value v);
void oc_emit_cell(build *b, oc_role role, oc_buffer_id cell); /* read as it was filled */
/* When counting: what was emitted since `before` stands for `times` as much. */
typedef struct emit_count {
    uint64_t ops, accesses;
    oc_work work[OC_LANE_COUNT];
} emit_count;
emit_count oc_emit_count(const build *b);
/* work: as often as its demand counts; a last piece is shorter than the others. */
void oc_emit_times(build *b, emit_count before, uint64_t times, double work);
/* ---- routes.c ---- */

/* Whether one hop leads there; else bytes stop over on the host (oc_route_pieces() alone). */
bool oc_route_is_direct(oc_tier from, oc_tier to);
/* An op that moves bytes between two buffers, on the lane that lies between their tiers; its
 * demand, predicate and accesses follow. */
void oc_route_begin(build *b, oc_body_id body, oc_buffer_id from, oc_buffer_id to, uint32_t block,
                    uint32_t micro);
/* One piece, of one value, to another place. micro -1: of the step, and so always done. */
void oc_route_copy(build *b, oc_buffer_id from, uint32_t from_piece, oc_buffer_id to,
                   uint32_t to_piece, uint64_t bytes, oc_value v, int32_t micro);

/* A run of pieces of a block's state; value: of the first. */
typedef struct state_move {
    oc_value value;
    uint32_t pieces;
    oc_buffer_id from, to;
    uint32_t from_piece, to_piece;
    int32_t micro; /* -1: of the step */
} state_move;
void oc_route_pieces(build *b, const state_move *m);
/* was: the value that the piece at home has until then. */
void oc_route_publish(build *b, oc_buffer_id from, oc_buffer_id to, uint32_t to_piece,
                      oc_value was);

/* ---- demand.c ---- */

/* Whether its bytes are what it moves: then they are its emitter's to say, rows aside. */
bool oc_demand_moves(const oc_op *op);
/* Before its accesses are known. A body that is not known here keeps the flops it came with. */
oc_demand oc_demand_of_op(const oc_build_spec *s, const oc_op *op);
/* What one more access adds to it. */
void oc_demand_add_access(const build *b, oc_op *op, const oc_access *a);

/* ---- the other files ---- */

typedef void hold_fn(oc_plan_builder *b, oc_buffer_id buffer, uint32_t first, uint32_t count,
                     oc_value value);

void oc_build_buffers(build *b);
void oc_build_signatures(build *b);

/* false: no memory; closed by oc_slots_close() all the same. */
bool oc_slots_open(slot_pool *p, int32_t n, int64_t keys, uint32_t apart);
void oc_slots_close(slot_pool *p);
bool oc_slots_record(slot_pool *p, uint32_t key); /* false: no memory */
void oc_slots_look_ahead(slot_pool *p);           /* after the last record */
/* A walk begins with this in the slots; NULL: nothing. */
void oc_slots_begin(slot_pool *p, const uint32_t *content);
int32_t oc_slots_find(const slot_pool *p, uint32_t key); /* -1: in none */
/* The slot for the next use of a key; *there: it is in it already. make: it is to be written. */
int32_t oc_slots_turn(slot_pool *p, uint32_t key, bool make, bool *there);

/* The class of a block that passes through slots; the slots of a class, and the elements of one. */
int oc_weights_class(const build *b, uint32_t block);
int32_t oc_weights_slots(const build *b, int size_class, uint64_t *elements);
uint64_t oc_weights_largest(const oc_build_spec *s); /* elements; of those that pass */
oc_buffer_id oc_weights_use(build *b, uint32_t block);
void oc_weights_read(build *b, uint32_t block, oc_buffer_id at);
void oc_weights_read_part(build *b, uint32_t block, oc_part p, oc_buffer_id at);

oc_buffer_id oc_acts_use(build *b, uint32_t layer, uint32_t micro);
/* Where the input of `layer` is to be written: never where oc_acts_use() found something just
 * before. */
oc_buffer_id oc_acts_make(build *b, uint32_t layer, uint32_t micro);
void oc_acts_retire(build *b, uint32_t layer, uint32_t micro, oc_buffer_id from);
oc_value oc_act_value(uint32_t layer, uint32_t micro);
/* Of a micro-batch. */
uint32_t oc_acts_places(const oc_build_spec *s);
uint32_t oc_act_index(const build *b, uint32_t layer, uint32_t micro);

oc_buffer_id oc_grads_make(build *b, uint32_t block, uint32_t micro);
void oc_grads_settle(build *b, uint32_t block, uint32_t micro, oc_buffer_id from);
/* An op that is skipped with the updates: its predicate, and where it reads that. */
void oc_grads_if_finite(build *b);
void oc_grads_read_result(build *b);
void oc_grads_retire_rows(build *b, uint32_t micro, oc_buffer_id from, bool positions);
void oc_grads_fold_rows(build *b); /* of the plan's micro-batches, or at its end of the step's */
void oc_grads_fold_loss(build *b);
void oc_grads_begin_early(build *b);
void oc_grads_end_step(build *b); /* norm and updates */
oc_value oc_position_gradient(uint32_t micro);
oc_value oc_row_gradient(const oc_model *m, uint32_t micro);

static inline bool oc_build_passes(const oc_build_spec *s) { return s->pass.rows > 0; }
void oc_pass_buffers(build *b);
/* Before a layer's ops of a group, and behind its attention: pages that live on the host come, the
 * next ones already, and what was filled goes back. */
void oc_pass_fetch_pages(build *b, uint32_t layer, uint32_t micro);
void oc_pass_store_pages(build *b, uint32_t layer, uint32_t micro);
/* Accesses of a layer's attention in a pass. */
void oc_pass_uses_pages(build *b, uint32_t layer, uint32_t micro);
void oc_pass_begin_group(build *b, uint32_t micro);
void oc_pass_head(build *b);
void oc_pass_hold(build *b, hold_fn *hold, uint16_t version);
void oc_pass_advance(build *b);

void oc_step_ops(build *b);
/* Accesses and values that ops of the step share. */
oc_value oc_step_scratch(void);
oc_value oc_step_d_value(uint32_t layer, uint32_t micro);
void oc_step_reads_batch(build *b, uint32_t micro);
void oc_step_reads_table(build *b);
void oc_step_writes_grad(build *b, oc_buffer_id g, uint32_t block, uint32_t micro);

oc_value oc_saved_value(const build *b, oc_saved v, uint32_t layer, uint32_t micro);
void oc_layer_forward(build *b, uint32_t layer, uint32_t micro);
void oc_layer_backward(build *b, uint32_t layer, uint32_t micro);
/* What layers keep of a micro-batch, in a contract; pred OC_NO_BUFFER: for certain. */
void oc_layers_hold(build *b, hold_fn *hold, uint32_t micro, oc_buffer_id pred, uint32_t live);

void oc_sets_list(build *b);   /* kinds and successions */
void oc_sets_settle(build *b); /* what weight slots hold at each plan's start */
void oc_sets_emit(build *b);

#endif
