/* model.h - a model as data: the decoder-block spec, the blocks and the tensors in them.
 *
 * Built from config.json by a family's table entry (family.c). Knows nothing of devices, tiers or
 * plans. A block's parameters are one flat buffer of `elements` values, the same layout for weight,
 * grad, master, m and v. Linear weights are kept [out, in] in it whatever the file does (gpt2
 * stores [in, out]).
 *
 * The vocabulary matrices are cut into blocks of whole rows ("chunks"), about as large as a decoder
 * layer, so that nothing in the system has to treat a large embedding specially. Tied embeddings:
 * the same chunk blocks serve as head. */
#ifndef OC_MODEL_H
#define OC_MODEL_H

#include "base/dtype.h"
#include "base/status.h"
#include "device/device.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum oc_norm_kind { OC_NORM_RMS, OC_NORM_LAYER } oc_norm_kind;
typedef enum oc_position_kind { OC_POS_ROPE, OC_POS_LEARNED, OC_POS_ALIBI } oc_position_kind;

/* Where the norms of a layer stand:
 *   pre       x2 = x + attention(norm1(x));          y = x2 + mlp(norm2(x2))
 *   post      x2 = norm1(x + attention(x));          y = norm2(x2 + mlp(x2))
 *   sandwich  x2 = x + post1(attention(norm1(x)));   y = x2 + post2(mlp(norm2(x2)))
 *   parallel  y = x + attention(norm1(x)) + mlp(norm2(x)) */
typedef enum oc_norm_placement {
    OC_PLACE_PRE,
    OC_PLACE_POST,
    OC_PLACE_SANDWICH,
    OC_PLACE_PARALLEL
} oc_norm_placement;

/* What may differ from layer to layer. */
typedef struct oc_layer_variant {
    int64_t window;     /* 0: none */
    int32_t rope;       /* which of the model's frequency tables */
    float rope_scaling; /* multiplies cos and sin */
    int32_t layers;     /* how many are of it */
} oc_layer_variant;

enum { OC_VARIANTS = 2 };

/* One decoder block, in the terms of the block program (program.h). */
typedef struct oc_decoder_spec {
    int64_t hidden, intermediate;
    int32_t heads, kv_heads, head_dim;
    oc_norm_kind norm;
    float norm_eps;
    bool norm_plus_one; /* a norm's factor is 1 + its weight */
    /* Norms have no weights: zeros stand in their places, padding like any other, and the factor is
     * 1 + 0. */
    bool norm_bare;
    oc_norm_placement placement;
    bool qk_norm; /* each head's q and k are normed before they turn */
    oc_position_kind position;
    int32_t rot_dim;
    float attention_scale; /* 1 / sqrt(head_dim) unless the family says otherwise */
    float attention_cap;   /* soft cap of scores; 0: none */
    float logit_cap;       /* soft cap of the logits; 0: none */
    oc_layer_variant variants[OC_VARIANTS];
    int32_t n_variants;
    oc_act act;
    bool gated; /* gate and up projections, silu-style; else fc1, act, fc2 */
} oc_decoder_spec;

/* Where a tensor stands in the block program. */
typedef enum oc_weight {
    OC_W_NORM1,
    OC_W_NORM1_BIAS,
    OC_W_QKV,
    OC_W_QKV_BIAS, /* q, k and v rows one after another, no gap: one GEMM */
    OC_W_QNORM,
    OC_W_KNORM, /* [head_dim] */
    OC_W_OUT,
    OC_W_OUT_BIAS,
    OC_W_POST1, /* sandwich: norm of the attention's output */
    OC_W_NORM2,
    OC_W_NORM2_BIAS,
    OC_W_UP,
    OC_W_UP_BIAS, /* gate then up rows when gated */
    OC_W_DOWN,
    OC_W_DOWN_BIAS,
    OC_W_POST2, /* sandwich: norm of the mlp's output */
    OC_W_FINAL_NORM,
    OC_W_FINAL_NORM_BIAS,
    OC_W_PROJECT_OUT, /* [embed_dim, hidden] */
    OC_W_EMBED_NORM,
    OC_W_EMBED_NORM_BIAS,
    OC_W_PROJECT_IN, /* [hidden, embed_dim] */
    OC_W_TABLE,      /* rows of an embedding, position or head matrix */
    OC_W_COUNT
} oc_weight;

typedef enum oc_init_kind { OC_INIT_NORMAL, OC_INIT_ZERO, OC_INIT_ONE } oc_init_kind;

/* A tensor of the file, or a range of rows of one, at its place in a block. */
typedef struct oc_tensor_spec {
    const char *name; /* in the file; owned by the model. Chunks of one matrix share it */
    oc_weight weight;
    uint64_t offset; /* elements, in the block */
    uint64_t elements;
    int64_t rows, cols; /* as kept: [out, in] (1-D: rows = n, cols = 1) */
    int64_t file_row0;  /* first row of the file's tensor (chunks, parts of a fused tensor) */
    /* A part whose rows stand in groups: row r is the file's row
     * file_row0 + r / file_group * file_stride + r % file_group. 0: they stand together. */
    int64_t file_group, file_stride;
    int64_t file_dims[2]; /* the whole file tensor's shape */
    int32_t file_ndim;
    bool transposed; /* the file has [in, out] */
    bool decay;      /* weight decay applies */
    bool frozen;     /* not trained: no share of the gradient norm, no update (freeze.c) */
    oc_init_kind init;
    float init_std;
} oc_tensor_spec;

typedef enum oc_block_kind {
    OC_BLOCK_TABLE,    /* chunk of the token embedding (and of the head when tied) */
    OC_BLOCK_HEAD,     /* chunk of an untied head */
    OC_BLOCK_POSITION, /* learned positions, looked up by row */
    OC_BLOCK_FRONT,    /* norm or projection of the gathered embedding rows */
    OC_BLOCK_LAYER,
    OC_BLOCK_FINAL_NORM, /* and projection; may hold neither */
    OC_BLOCK_KINDS
} oc_block_kind;

typedef struct oc_block {
    oc_block_kind kind;
    int32_t index;      /* layer or chunk number */
    int32_t variant;    /* layers: which of decoder.variants */
    int64_t row0, rows; /* table chunks: vocabulary (or position) rows */
    uint64_t elements;  /* multiple of 64, padding included; the padding is 0 and stays 0 */
    bool trained;       /* some tensor of it is, or nothing was frozen at all */
    int32_t first_tensor, n_tensors;
    /* element offset of each weight, -1 when the block lacks it */
    int64_t offset[OC_W_COUNT];
} oc_block;

enum { OC_MODEL_NOTES = 2048 };

typedef struct oc_model {
    char family[32];
    char architecture[64];
    oc_decoder_spec decoder;
    int32_t n_layers;
    int64_t vocab, hidden, max_positions;
    int64_t embed_dim; /* width of the embedding's and the head's rows; hidden in most families */
    int64_t position_offset; /* row of position 0 in the position table (opt: 2) */
    bool tied;
    bool said_tied; /* config.json says tied, the checkpoint has another head, and tied is false */
    float embedding_scale;  /* gemma: sqrt(hidden); else 1. See oc_program_embedding_scale() */
    int32_t bos_id, pad_id; /* -1: none */
    int32_t padding_idx;    /* looking this token up trains nothing (torch's term); -1: none */
    int32_t eos_ids[8];
    int32_t n_eos;
    oc_dtype file_dtype; /* config's torch_dtype / dtype; fp32 when absent */
    bool has_file_dtype;
    float initializer_range;

    int32_t n_blocks; /* order: TABLE chunks, POSITION, FRONT, LAYERs, FINAL_NORM, HEAD chunks */
    oc_block *blocks;
    int32_t first_table, n_table, first_layer, final_norm_block;
    int32_t position_block, front_block; /* -1: none */
    int32_t first_head, n_head;          /* the head's chunks: = first_table, n_table when tied */
    int32_t n_tensors;
    oc_tensor_spec *tensors;
    uint64_t parameters; /* true count, tied once, padding excluded */
    uint64_t max_block_elements;
    /* What the position kind needs beside weights, fp32, on the device while programs run:
     * rope: [n_ropes][rot_dim / 2] frequencies, as for short sequences until oc_model_rope()
     * fills them anew; alibi: [heads] slopes; learned: NULL. */
    float *inv_freq;
    int32_t n_inv_freq;
    struct oc_rope_config *ropes; /* [n_ropes]; private to src/model */
    int32_t n_ropes;

    /* Names in the file start with it; when optional, checkpoints without it exist as well. */
    const char *prefix;
    bool prefix_optional;
    const char *head_name;      /* the untied head's tensor, which a tied checkpoint may repeat */
    const char *head_alias;     /* another name some files have for it; NULL: none */
    const char *const *ignored; /* ends of names of tensors that hold no parameter; NULL ends */
    char *names;                /* storage of the tensors' names */
    char notes[OC_MODEL_NOTES]; /* lines the user should see: what was ignored and why */
} oc_model;

/* dir_or_config: a model directory, or a config.json. Every refusal names the file and the key. */
OC_NODISCARD oc_status oc_model_open(oc_model **out, const char *dir_or_config, oc_error *err);
/* The same of a directory whose weights are going to be read: a head that its files hold beside the
 * embedding, with other values, is one of its own although config.json ties it. So the reference
 * loads it; a note says so. What is wrong with the files is left to those who read them. */
OC_NODISCARD oc_status oc_model_open_trained(oc_model **out, const char *dir, oc_error *err);
/* The same from JSON text, for tests; origin stands for the file in messages. */
OC_NODISCARD oc_status oc_model_parse(oc_model **out, const char *json, const char *origin,
                                      oc_error *err);
void oc_model_close(oc_model *m);

/* ---- what is trained (freeze.c) ---- */

/* Leaves the tensors that a pattern (fnmatch(3)) is the name of as they are, or with train_only all
 * others. Names are those of the checkpoint, with or without an optional prefix; a tied table goes
 * by the head's name too. Refused: a pattern that no tensor has, and one that leaves none to train.
 * n = 0: all are trained. Once a model. */
OC_NODISCARD oc_status oc_model_freeze(oc_model *m, const char *const *patterns, int n,
                                       bool train_only, oc_error *err);
uint64_t oc_model_trained_parameters(const oc_model *m);
/* The first layer with a trained tensor; n_layers: none. */
int32_t oc_model_lowest_trained(const oc_model *m);
/* Whether some of what stands before the layers is: table, positions, front. */
bool oc_model_trains_below(const oc_model *m);
/* grads: the block's flat gradient, on the device: frozen tensors' parts of it become 0. */
void oc_model_zero_frozen(const oc_model *m, const oc_block *block, oc_device *d, oc_dtype t,
                          void *grads);

/* inv_freq[n_inv_freq] for sequences of `seq` tokens: rope types dynamic and longrope depend on the
 * length of a run's sequences, the others do not. */
void oc_model_rope(const oc_model *m, int64_t seq, float *inv_freq);
/* Whether they are others for sequences of `seq` tokens than for short ones. */
bool oc_model_rope_differs(const oc_model *m, int64_t seq);

/* Rows of the vocabulary that one tile of the head's GEMM covers; chunks are multiples of it. */
enum { OC_HEAD_TILE = 1024 };

#endif
