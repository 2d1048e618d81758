/* plan.h - small programs of ops over lanes, the buffers they touch, and which may follow which.
 *
 * Pure data: nothing here touches memory or devices. A builder appends ops in an order in which
 * running them one by one is correct (program order) and says of each what it reads and writes.
 * Everything else - which op waits for which, within a plan and from one plan to the next - is
 * derived (derive.c), and checked by an independent method (verify.c). The executor runs any
 * verified set.
 *
 * A step is a sequence of plans: first, middle, middle, ..., last, update. Each has a contract: the
 * values it relies on at its start and those it leaves at its end. The set lists the successions
 * that may occur; waits are derived and contracts are checked for exactly these. So a plan's size
 * does not depend on how often it runs.
 *
 * Invariants of a verified set:
 *   every access: 0 <= first, first + count <= buffer.pieces, and room for the value it names
 *   running a plan in program order from its start, each read finds the value it names in every
 *   piece it names, and at its end every value that it promises is there
 *   a -> b is listed: what b relies on at its start is what a promises at its end
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
    OC_OP_NEXT,    /* generation: what the pass made of its rows, and what the next one takes */
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
    OC_USE_PLAN, /* plans, executor, trace: outside the arenas */
    OC_USE_COUNT
} oc_use;
const char *oc_use_name(oc_use u); /* "kv_cache" */

typedef uint32_t oc_buffer_id;
#define OC_NO_BUFFER UINT32_MAX

/* A value: what bytes mean, not where they are.
 *
 * version counts updates: a plan starts with every state at 0; its contract says by how many
 * versions it moves each kind of state, and the next plan calls what it finds 0 again. micro: a
 * micro-batch of the plan's group, 0 where it does not apply. stage: partial results, how far they
 * are. piece: of the block's state, for the access's first piece; one more with each piece of the
 * run. share: 0 the whole, else 1 + the shard. format: how elements are written down. */
typedef struct oc_value {
    uint32_t block, piece;
    uint16_t what; /* oc_what */
    uint16_t micro;
    uint16_t version;
    uint16_t stage;
    uint16_t share;
    uint16_t format; /* oc_format */
} oc_value;

/* As the micro of a value over several pieces: piece number k of the buffer holds micro-batch k's,
 * as its only piece. */
enum { OC_EACH_MICRO = UINT16_MAX };

typedef enum oc_format {
    OC_FORMAT_OWN, /* of cells and activations: what the body makes of it */
    OC_FORMAT_F32,
    OC_FORMAT_BF16,
    OC_FORMAT_F16,
    OC_FORMAT_COUNT
} oc_format;
uint32_t oc_format_bits(oc_format f); /* of an element; 0: not known */

typedef enum oc_what {
    OC_V_NONE,
    OC_V_WEIGHT,
    OC_V_GRAD,
    OC_V_MASTER,
    OC_V_M,
    OC_V_V,
    OC_V_ACT,  /* input of layer `block` (n_layers: of the final norm) */
    OC_V_DACT, /* gradient of the same */
    OC_V_QKV,  /* what a layer's forward leaves for its backward */
    OC_V_ATTENTION,
    OC_V_MID,
    OC_V_UP,
    OC_V_MLP,
    OC_V_LOGITS, /* of a chunk of the head */
    OC_V_HEAD_STATE,
    OC_V_ROWS,
    OC_V_BATCH,
    OC_V_CELL,
    OC_V_PARTIALS,
    OC_V_SCRATCH,
    OC_V_POISON,
    OC_V_CONST,   /* tables that never change */
    OC_V_CONTROL, /* cells: what the session says of a submission, */
    OC_V_ORDER,   /* the order of its rows, */
    OC_V_LOSSES,  /* what micro-batches lost, */
    OC_V_LOSS,    /* their sum, */
    OC_V_RESULT,  /* what the norm made of them, */
    OC_V_SCALARS, /* what of that updates read, */
    OC_V_CARRY,   /* what goes on from step to step, */
    OC_V_SCALE,   /* the loss scale as kernels read it */
    OC_V_KV,      /* pages of keys and values of a layer */
    OC_V_PAGES,   /* cells: which pages whose they are */
    OC_V_FROZEN,  /* weights that no update changes: stands wherever a weight may */
    OC_V_USER,    /* test programs: from here on */
    OC_V_COUNT = OC_V_USER + 4
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
    OC_ROLE_QKV,
    OC_ROLE_ATTENTION,
    OC_ROLE_MID,
    OC_ROLE_UP,
    OC_ROLE_MLP,
    OC_ROLE_LOGITS,
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
    OC_ROLE_TABLE, /* rotary frequencies, slopes */
    OC_ROLE_KV,
    OC_ROLE_PAGES,
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

/* What an op asks of the machine. */
typedef struct oc_demand {
    uint64_t bytes; /* a transfer moves exactly these over its lane's link; an op that computes
                       reads and writes them in memory */
    double flops;
    int32_t cores; /* that it can use; 0: as many as there are */
} oc_demand;

typedef struct oc_op {
    uint16_t kind; /* oc_op_kind */
    uint16_t lane; /* oc_lane */
    uint16_t body; /* index in the executor's table of bodies */
    uint16_t micro;
    uint16_t always; /* 1: entered even when the run has failed (a collective, whose peers wait) */
    uint16_t unused;
    uint32_t block, piece; /* for the body and for printing; piece UINT32_MAX: whole block */
    uint32_t pieces;       /* a run: piece .. piece + pieces - 1 */
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

/* Before the op starts, lane `lane` must have finished its ops up to number `seq` (of the same
 * plan, or of the plan before in a pair table). At most one per lane and op. */
typedef struct oc_wait {
    uint32_t op; /* pair tables: op of the later plan; within a plan implied */
    uint16_t lane;
    uint32_t seq;
} oc_wait;

typedef enum oc_buffer_life {
    OC_LIFE_CARRIED,   /* homes and counters: the session fills them before the first plan */
    OC_LIFE_TRANSIENT, /* slots, slabs, work: empty before the first plan */
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
    oc_value initial; /* CARRIED: before the first plan. SUBMISSION: as filled */
} oc_buffer;

/* What pieces of a buffer hold at a plan's start or end. With a pred only when that cell is not 0,
 * which the session sees to for both plans. */
typedef struct oc_holding {
    oc_buffer_id buffer;
    uint32_t first, count;
    uint32_t pred, pred_index; /* OC_NO_BUFFER: for certain */
    oc_value value;
} oc_holding;

typedef struct oc_plan {
    char name[16]; /* "first" */
    oc_op *ops;
    uint32_t n_ops;
    oc_access *accesses;
    uint32_t n_accesses;
    oc_wait *waits;
    uint32_t n_waits;
    uint32_t lane_ops[OC_LANE_COUNT];
    /* The contract. What is not listed counts as empty; SUBMISSION buffers always hold `initial` at
     * the start. */
    oc_holding *starts, *ends;
    uint32_t n_starts, n_ends;
    uint8_t advance[OC_V_COUNT]; /* versions that each kind of state has moved at the end */
    uint16_t pred_from; /* micro-batches from this number on may have no rows, so that their ops
                           have predicates */
} oc_plan;

enum { OC_MAX_PLANS = 12, OC_MAX_BODIES = 48, OC_NO_PLAN = UINT16_MAX };

/* Whether ops of a body have a predicate. */
typedef enum oc_pred_rule {
    OC_PRED_ANY, /* not checked */
    OC_PRED_NEVER,
    OC_PRED_ALWAYS,   /* cell pred_buffer[pred_base] */
    OC_PRED_MICRO,    /* cell pred_buffer[pred_base + micro] from the plan's pred_from on */
    OC_PRED_MICRO_MAY /* that or none */
} oc_pred_rule;

/* What an op with a given body must look like. Masks have a bit (1 << role) for each role. A body
 * reaches memory through its accesses only, so an access that is missing here is an access the op
 * does not make. A body without a signature is checked for values and races only. */
typedef struct oc_signature {
    uint32_t reads, writes, folds; /* roles it cannot do without, by mode */
    uint32_t optional;             /* may be there too, in any mode; others are refused */
    uint32_t many;     /* once for each of the op's blocks, in order, by the block of the value */
    uint32_t repeated; /* may stand more than once; others stand once a mode */
    uint32_t whole;    /* all pieces of the op's block, from piece 0 */
    uint32_t part;     /* pieces part_first .. part_first + part_count - 1 of the op's block */
    uint32_t part_first, part_count;
    uint32_t full;                 /* all pieces of the buffer */
    uint32_t single;               /* the op's run of pieces and no other, when it has one */
    uint32_t run;                  /* a value of the op's run of pieces, wherever it lies */
    uint32_t own_block, own_micro; /* the value's block or micro-batch is the op's */
    uint16_t what[OC_ROLE_COUNT];  /* kind of value that a role has; OC_V_NONE: any */
    uint64_t bytes[OC_ROLE_COUNT]; /* that an access of the role must span at least; 0: any */
    uint32_t tolerant; /* the body copes when a predicate kept the value from being written */
    bool appends;      /* of a copy: into a part of DST that the index cell chooses */
    oc_pred_rule pred;
    uint32_t pred_buffer, pred_base;
} oc_signature;

typedef struct oc_block_size {
    uint64_t elements;
    bool frozen; /* it has no gradient, and so no share in an op over the gradients of many */
} oc_block_size;

typedef struct oc_plan_set {
    oc_buffer *buffers;
    uint32_t n_buffers;
    uint64_t arena_bytes[OC_TIER_COUNT];
    uint64_t use_bytes[OC_TIER_COUNT][OC_USE_COUNT]; /* sums to arena_bytes */
    oc_plan plans[OC_MAX_PLANS];
    uint32_t n_plans;
    /* follows[a][b]: b may be submitted right after a; opens[b]: before any other */
    bool follows[OC_MAX_PLANS][OC_MAX_PLANS], opens[OC_MAX_PLANS];
    /* pairs[a][b]: waits of plan b's ops for plan a's, when b is submitted right after a; sorted by
     * op */
    oc_wait *pairs[OC_MAX_PLANS][OC_MAX_PLANS];
    uint32_t n_pairs[OC_MAX_PLANS][OC_MAX_PLANS];
    /* lanes whose ops may start before, and end after, the one issued before them */
    bool unordered[OC_LANE_COUNT];
    oc_signature signatures[OC_MAX_BODIES];
    bool has_signature[OC_MAX_BODIES];
    /* the size of states: elements of each block and of a piece */
    oc_block_size *blocks;
    uint32_t n_blocks;
    uint64_t piece_elements; /* 0: not known */
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
/* What verify knows of sizes: the next block, in order, and of a piece. */
void oc_plan_block(oc_plan_builder *b, oc_block_size size);
void oc_plan_piece(oc_plan_builder *b, uint64_t elements);
/* Ops of this lane may be done in any order. */
void oc_plan_unordered(oc_plan_builder *b, oc_lane lane);
/* Bytes of each tier if finish were called now, and by use. */
OC_NODISCARD oc_status oc_plan_layout(oc_plan_builder *b, uint64_t arena[OC_TIER_COUNT],
                                      uint64_t use[OC_TIER_COUNT][OC_USE_COUNT], oc_error *err);
/* Memory for something that was put into it was not there. */
bool oc_plan_builder_starved(const oc_plan_builder *b);
/* Bytes on the host of what there is so far; waits are not derived yet. */
uint64_t oc_plan_builder_bytes(const oc_plan_builder *b);
const oc_buffer *oc_plan_buffer_at(const oc_plan_builder *b, oc_buffer_id id);
/* Ops now go to a new plan; returns its number. */
uint32_t oc_plan_begin(oc_plan_builder *b, const char *name);
/* The contract of the plan begun last. count UINT32_MAX: all pieces. */
void oc_plan_starts(oc_plan_builder *b, oc_buffer_id buffer, uint32_t first, uint32_t count,
                    oc_value value);
void oc_plan_ends(oc_plan_builder *b, oc_buffer_id buffer, uint32_t first, uint32_t count,
                  oc_value value);
/* The holding added last is there only when the cell is not 0. */
void oc_plan_held_if(oc_plan_builder *b, oc_buffer_id pred, uint32_t pred_index);
void oc_plan_advances(oc_plan_builder *b, oc_what what, uint8_t versions);
void oc_plan_pred_from(oc_plan_builder *b, uint16_t micro);
/* Plan `to` may be submitted right after `from`; OC_NO_PLAN: before any other. */
void oc_plan_follows(oc_plan_builder *b, uint32_t from, uint32_t to);
/* The op's derived fields and accesses are ignored; accesses follow by the next call. */
void oc_plan_op(oc_plan_builder *b, const oc_op *op);
/* Of the op appended last. count UINT32_MAX: all pieces. */
void oc_plan_access(oc_plan_builder *b, oc_role role, oc_access_mode mode, oc_buffer_id buffer,
                    uint32_t first, uint32_t count, oc_value value, oc_value result);
/* Of the op appended last, in place of what it came with. */
void oc_plan_demand(oc_plan_builder *b, oc_demand demand);
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

/* Checks every invariant above for every plan alone and every succession that is listed, by
 * replaying values and by vector clocks over lanes. OC_E_PLAN names the plan, the op and the
 * access. */
OC_NODISCARD oc_status oc_plan_verify(const oc_plan_set *s, oc_error *err);
/* The least arena that any allocation of these buffers could have: per tier, the maximum over time
 * of the bytes of live values (slots of a pool count as live throughout), in bytes. UINT64_MAX: no
 * memory. */
uint64_t oc_plan_lower_bound(const oc_plan_set *s, oc_tier tier);
uint64_t oc_plan_bytes(const oc_plan_set *s, oc_tier tier,
                       oc_use use); /* buffers of this use, both copies */

static inline bool oc_value_equal(oc_value a, oc_value b) {
    return a.what == b.what && a.micro == b.micro && a.version == b.version && a.stage == b.stage &&
           a.block == b.block && a.piece == b.piece && a.share == b.share && a.format == b.format;
}

/* Of an access that begins at piece `first` of its buffer: the value in piece k. */
static inline oc_value oc_value_at(oc_value x, uint32_t first, uint32_t k) {
    if (x.micro == OC_EACH_MICRO)
        x.micro = (uint16_t)k;
    else
        x.piece += k - first;
    return x;
}

/* Bytes of the set's own arrays, on the host. */
uint64_t oc_plan_host_bytes(const oc_plan_set *s);

#endif
