/* plan.h - the program of one step: ops over lanes, and the buffers they touch.
 *
 * Pure data: nothing here touches memory or devices. A builder appends ops in an order in which
 * running them one by one is correct (program order) and says of each what it reads and writes.
 * Everything else - which op waits for which, within a plan and from one plan to the next - is
 * derived (derive.c), and checked by an independent method (verify.c). The executor runs any
 * verified set.
 *
 * Invariants of a verified set:
 *   every access: 0 <= first, first + count <= buffer.pieces
 *   running a plan in program order, each read finds the value it names in every piece it names
 *   every two conflicting accesses are ordered by lane order and waits
 *   every wait points backwards in program order (so no cycle, no deadlock)
 *   offset + bytes <= arena bytes of the tier; buffers that share bytes are in one alias group */
#ifndef OC_PLAN_H
#define OC_PLAN_H

#include "base/status.h"
#include "mem/mem.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum oc_lane {
    OC_LANE_COMPUTE,
    OC_LANE_H2D,
    OC_LANE_D2H,
    OC_LANE_COMM,
    OC_LANE_READ,
    OC_LANE_WRITE,
    OC_LANE_OPTIM,
    OC_LANE_COUNT
} oc_lane;
const char *oc_lane_name(oc_lane l); /* "h2d" */
bool oc_lane_parse(const char *name, oc_lane *out);

typedef enum oc_op_kind {
    OC_OP_FETCH,      /* home -> slot, same value */
    OC_OP_FETCH_ROWS, /* rows of a table chosen by an index cell -> rows buffer */
    OC_OP_GATHER,     /* shards of ranks -> slot */
    OC_OP_FORWARD,
    OC_OP_BACKWARD, /* a block's program; `body` tells which */
    OC_OP_LOSS,
    OC_OP_REDUCE, /* gradients over ranks */
    OC_OP_RETIRE, /* device -> host, same value */
    OC_OP_FOLD,   /* accumulate a gradient at its home; the last one yields norm partials */
    OC_OP_NORM,
    OC_OP_UPDATE,
    OC_OP_PUBLISH, /* updated weights -> their home */
    OC_OP_POISON,  /* debug: destroy a transient value after its last reader */
    OC_OP_KIND_COUNT
} oc_op_kind;
const char *oc_op_kind_name(oc_op_kind k);

/* What memory is for: the keys of "by_use" in plan --json. */
typedef enum oc_use {
    OC_USE_WEIGHTS,
    OC_USE_GRADIENTS,
    OC_USE_MASTER,
    OC_USE_MOMENTS,
    OC_USE_ACTIVATIONS,
    OC_USE_WORKSPACE,
    OC_USE_KV_CACHE,
    OC_USE_STAGING,
    OC_USE_TEXT,
    OC_USE_COUNT
} oc_use;
const char *oc_use_name(oc_use u); /* "kv_cache" */

typedef uint32_t oc_buffer_id;
#define OC_NO_BUFFER UINT32_MAX

/* A value: what bytes mean, not where they are. Packed so that it compares as one number.
 * version counts updates: a plan starts with every persistent value at 0 and ends with all that it
 * updates at 1; in the next plan that is 0 again. micro: micro-batch, 0 where it does not apply. */
typedef struct oc_value {
    uint16_t what; /* oc_what */
    uint16_t micro;
    uint16_t version;
    uint16_t stage; /* partial results: how many folds are in it */
    uint32_t block;
} oc_value;

/* As the micro of a value over several pieces: piece number k holds micro-batch k's. */
enum { OC_EACH_MICRO = UINT16_MAX };

typedef enum oc_what {
    OC_V_NONE,
    OC_V_WEIGHT,
    OC_V_GRAD,
    OC_V_MASTER,
    OC_V_M,
    OC_V_V,
    OC_V_ACT,  /* input of layer `block` (n_layers: of the final norm) */
    OC_V_DACT, /* gradient of the same */
    OC_V_SAVE,
    OC_V_HEAD_STATE,
    OC_V_ROWS,
    OC_V_BATCH,
    OC_V_CELL,
    OC_V_PARTIALS,
    OC_V_SCRATCH,
    OC_V_POISON,
    OC_V_USER /* test programs: from here on */
} oc_what;

typedef enum oc_access_mode { OC_READ, OC_WRITE, OC_FOLD } oc_access_mode;

/* The part an access plays for its op: bodies find their pointers by role, and a kind's signature
 * (build_buffers.c) says which roles an op cannot do without. */
typedef enum oc_role {
    OC_ROLE_SRC,
    OC_ROLE_DST,
    OC_ROLE_WEIGHT,
    OC_ROLE_IN,
    OC_ROLE_OUT,
    OC_ROLE_SAVE,
    OC_ROLE_WORK,
    OC_ROLE_GRAD_OUT, /* flat gradient of the block */
    OC_ROLE_D,        /* gradient of an activation */
    OC_ROLE_STATE,    /* head state */
    OC_ROLE_BATCH,    /* tokens, labels, positions, doc bounds of a micro-batch */
    OC_ROLE_GRAD,
    OC_ROLE_MASTER,
    OC_ROLE_M,
    OC_ROLE_V,
    OC_ROLE_COPY,
    OC_ROLE_PARTIALS,
    OC_ROLE_CELLS_IN,
    OC_ROLE_CELLS_OUT,
    OC_ROLE_CARRY,
    OC_ROLE_ROWS,
    OC_ROLE_POSITION_ROWS,
    OC_ROLE_COUNT
} oc_role;
const char *oc_role_name(oc_role r);

typedef struct oc_access {
    oc_buffer_id buffer;
    uint32_t first, count; /* pieces */
    uint8_t mode;          /* oc_access_mode */
    uint8_t role;    /* oc_role; a role may stand more than once in an op (chunks of a table) */
    oc_value value;  /* OC_READ, OC_FOLD: found there. OC_WRITE: left there */
    oc_value result; /* OC_FOLD: left there */
} oc_access;

typedef struct oc_demand {
    uint64_t bytes; /* moved over the lane's link (a copy moves exactly these), or read + written by
                       a memory-bound op */
    double flops;
    int32_t cores; /* 0: as many as there are */
} oc_demand;

typedef struct oc_op {
    uint16_t kind; /* oc_op_kind */
    uint16_t lane; /* oc_lane */
    uint16_t body; /* index in the executor's table of bodies */
    uint16_t micro;
    uint32_t block, piece; /* for the body and for printing; piece UINT32_MAX: whole block */
    uint32_t blocks; /* an op over many blocks (table lookup, norm): block .. block + blocks - 1;
                        else 1 */
    uint32_t pred;   /* OC_NO_BUFFER: always; else a cell buffer: body is skipped when cell is 0 */
    uint32_t pred_index; /* which uint32 of that cell */
    uint32_t index;      /* OC_NO_BUFFER, or the cell buffer that chooses rows or pieces */
    uint32_t first_access, n_accesses;
    uint32_t first_wait, n_waits; /* derived */
    uint32_t seq;                 /* derived: 1-based number in its lane, within the plan */
    oc_demand demand;
} oc_op;

/* Before the op starts, lane `lane` must have finished its op number `seq` (of the same plan, or of
 * the plan before in a pair table). At most one per lane and op. */
typedef struct oc_wait {
    uint32_t op; /* pair tables: op of the later plan; within a plan implied */
    uint16_t lane;
    uint32_t seq;
} oc_wait;

typedef enum oc_buffer_life {
    OC_LIFE_CARRIED,   /* homes and counters: content survives from plan to plan */
    OC_LIFE_TRANSIENT, /* slots, slabs, work: content means nothing to the next plan */
    OC_LIFE_SUBMISSION /* cells filled anew for each submission; two copies, used in turn */
} oc_buffer_life;

typedef struct oc_buffer {
    char name[24]; /* "W0", "weight.L3" */
    oc_tier tier;
    oc_use use;
    oc_buffer_life life;
    uint64_t bytes;       /* capacity of one copy */
    uint64_t piece_bytes; /* the last piece may be shorter */
    uint32_t pieces;
    uint64_t offset;  /* in the tier's arena; multiple of 64. SUBMISSION: copy i at offset + i *
                         align(bytes) */
    uint32_t alias;   /* buffers of one nonzero group share bytes: they conflict as a whole */
    oc_value initial; /* CARRIED: value at the start of every plan. SUBMISSION: as filled */
} oc_buffer;

typedef struct oc_plan {
    char name[16]; /* "step" */
    oc_op *ops;
    uint32_t n_ops;
    oc_access *accesses;
    uint32_t n_accesses;
    oc_wait *waits;
    uint32_t n_waits;
    uint32_t lane_ops[OC_LANE_COUNT];
} oc_plan;

enum { OC_MAX_PLANS = 4, OC_MAX_BODIES = 32 };

/* Whether ops of a body have a predicate. */
typedef enum oc_pred_rule {
    OC_PRED_ANY, /* not checked */
    OC_PRED_NEVER,
    OC_PRED_ALWAYS, /* cell pred_buffer[pred_base] */
    OC_PRED_MICRO,  /* cell pred_buffer[pred_base + micro] for micro > 0; micro-batch 0 always runs
                     */
    OC_PRED_MICRO_MAY /* that or none */
} oc_pred_rule;

/* What an op with a given body must look like. Masks have a bit (1 << role) for each role. A body
 * reaches memory through its accesses only, so an access that is missing here is an access the op
 * does not make. A body without a signature is checked for values and races only. */
typedef struct oc_signature {
    uint32_t reads, writes, folds; /* roles it cannot do without, by mode */
    uint32_t optional;             /* may be there too, in any mode; others are refused */
    uint32_t many;                 /* once for each of the op's blocks, by the block of the value */
    uint32_t whole;                /* all pieces of the op's block, from piece 0 */
    uint32_t full;                 /* all pieces of the buffer */
    uint32_t single;               /* the op's piece and no other, when it has one */
    uint32_t own_block, own_micro; /* the value's block or micro-batch is the op's */
    uint32_t tolerant; /* the body copes when a predicate kept the value from being written */
    oc_pred_rule pred;
    uint32_t pred_buffer, pred_base;
} oc_signature;

typedef struct oc_plan_set {
    oc_buffer *buffers;
    uint32_t n_buffers;
    uint64_t arena_bytes[OC_TIER_COUNT];
    uint64_t use_bytes[OC_TIER_COUNT][OC_USE_COUNT]; /* sums to arena_bytes */
    oc_plan plans[OC_MAX_PLANS];
    uint32_t n_plans;
    /* pairs[a][b]: waits of plan b's ops for plan a's, when b is submitted right after a; sorted by
     * op */
    oc_wait *pairs[OC_MAX_PLANS][OC_MAX_PLANS];
    uint32_t n_pairs[OC_MAX_PLANS][OC_MAX_PLANS];
    oc_signature signatures[OC_MAX_BODIES];
    bool has_signature[OC_MAX_BODIES];
    uint32_t *block_pieces; /* pieces of each block, for signatures; NULL: none given */
    uint32_t n_blocks;
} oc_plan_set;

/* ---- construction: used by builders. Allocation failures are sticky and reported by finish. ----
 */

typedef struct oc_plan_builder oc_plan_builder;

OC_NODISCARD oc_status oc_plan_builder_new(oc_plan_builder **out, oc_error *err);
void oc_plan_builder_free(oc_plan_builder *b);
/* piece_bytes 0: one piece. Returns the id. Offsets are assigned by finish, in order of creation;
 * members of one alias group start at the same offset. */
oc_buffer_id oc_plan_buffer(oc_plan_builder *b, const char *name, oc_tier tier, oc_use use,
                            oc_buffer_life life, uint64_t bytes, uint64_t piece_bytes,
                            uint32_t alias, oc_value initial);
/* id, of the same alias group as `before`, is placed behind it instead of at the group's start. */
void oc_plan_place_after(oc_plan_builder *b, oc_buffer_id id, oc_buffer_id before);
/* Declare what ops with this body look like; verify refuses others. */
void oc_plan_signature(oc_plan_builder *b, uint16_t body, oc_signature sig);
/* How many pieces each block has, in order. */
void oc_plan_blocks(oc_plan_builder *b, uint32_t pieces);
/* Bytes of a tier if finish were called now. */
uint64_t oc_plan_arena_bytes(const oc_plan_builder *b, oc_tier tier);
uint64_t oc_plan_use_bytes(const oc_plan_builder *b, oc_tier tier, oc_use use);
const oc_buffer *oc_plan_buffer_at(const oc_plan_builder *b, oc_buffer_id id);
void oc_plan_begin(oc_plan_builder *b, const char *name); /* ops now go to a new plan */
/* The op's derived fields and accesses are ignored; accesses follow by the next call. */
void oc_plan_op(oc_plan_builder *b, const oc_op *op);
/* Of the op appended last. count UINT32_MAX: all pieces. */
void oc_plan_access(oc_plan_builder *b, oc_role role, oc_access_mode mode, oc_buffer_id buffer,
                    uint32_t first, uint32_t count, oc_value value, oc_value result);
/* Assigns offsets, derives waits and pair tables. The set owns everything; the builder is empty
 * after. */
OC_NODISCARD oc_status oc_plan_finish(oc_plan_builder *b, oc_plan_set **out, oc_error *err);
void oc_plan_set_free(oc_plan_set *s);

/* Recompute seq, waits and pair tables from the accesses (tests change a plan, then derive again).
 */
OC_NODISCARD oc_status oc_plan_derive(oc_plan_set *s, oc_error *err);

/* ---- passes ---- */

/* Debug: after the last reader of each transient value put an op that overwrites it (body
 * poison_body). */
OC_NODISCARD oc_status oc_plan_add_poison(oc_plan_set *s, uint16_t poison_body, oc_error *err);

/* ---- questions ---- */

/* Checks every invariant above for every plan alone and every ordered pair, by replaying values and
 * by vector clocks over lanes. OC_E_PLAN names the plan, the op and the access. */
OC_NODISCARD oc_status oc_plan_verify(const oc_plan_set *s, oc_error *err);
/* The least arena that any allocation of these buffers could have: per tier, the maximum over time
 * of the bytes of live values (slots of a pool count as live throughout), in bytes. */
uint64_t oc_plan_lower_bound(const oc_plan_set *s, oc_tier tier);
uint64_t oc_plan_bytes(const oc_plan_set *s, oc_tier tier,
                       oc_use use); /* buffers of this use, both copies */

static inline bool oc_value_equal(oc_value a, oc_value b) {
    return a.what == b.what && a.micro == b.micro && a.version == b.version && a.stage == b.stage &&
           a.block == b.block;
}

#endif
