/* program_internal.h - what the block programs share: sizes, places of weights and of values,
 * norms.
 *
 * Private to src/model (program*.c):
 *
 *   program_sizes.c      widths, places, flops
 *   program.c            the parts of a layer's forward
 *   program_backward.c   its backward
 *   program_head.c       what stands before and after the layers
 *   program_pass.c       what a pass of generation computes otherwise */
#ifndef OC_PROGRAM_INTERNAL_H
#define OC_PROGRAM_INTERNAL_H

#include "model/program.h"

#include "base/checked.h"

enum { OC_AREA_ALIGN = 64 };

/* Widths of activations, in elements a token. tile: tokens that the mlp and the head take at a
 * time. */
typedef struct oc_widths {
    int64_t tokens, tile, hidden, heads, kv, qkv, up, mid, embed;
    bool rms;
} oc_widths;

oc_widths oc_program_widths(const oc_program_shape *s);

/* Append an area of rows x cols elements; returns its offset. */
static inline uint64_t oc_area(uint64_t *end, int64_t rows, int64_t cols, size_t element_bytes) {
    uint64_t at = *end;
    *end = oc_align_up(at + (uint64_t)rows * (uint64_t)cols * element_bytes, OC_AREA_ALIGN);
    return at;
}

/* NULL when the block lacks it, or there is no block. */
static inline void *oc_weight_at(const oc_block *block, oc_dtype t, const void *flat, oc_weight k) {
    int64_t o = block->offset[k];
    return o < 0 || !flat ? NULL : (char *)(uintptr_t)flat + (size_t)o * oc_dtype_bytes(t);
}

/* Of a block's gradient, when all that is computed is there: zero what no gradient op writes, the
 * gaps between tensors and after the last. NULL: there is none. */
void oc_program_finish_gradient(const oc_program_shape *s, const oc_block *block, void *grads);

/* The norm `k` of the block over [T, cols], without y and gradients. */
oc_norm oc_program_norm(const oc_program_shape *s, const oc_block *block, const void *weights,
                        oc_weight k, oc_weight bias, int64_t cols, const void *x, float *mean,
                        float *rstd);

/* Bytes of work that the front block's backward needs. */
uint64_t oc_program_front_work_bytes(const oc_program_shape *s);

/* ---- layers ---- */

/* Where a layer norms. */
typedef enum oc_site {
    OC_SITE_1,
    OC_SITE_2,
    OC_SITE_POST1,
    OC_SITE_POST2,
    OC_SITE_Q,
    OC_SITE_K,
    OC_SITES
} oc_site;

static inline bool oc_is_sandwich(const oc_decoder_spec *d) {
    return d->placement == OC_PLACE_SANDWICH;
}
static inline bool oc_is_post(const oc_decoder_spec *d) { return d->placement == OC_PLACE_POST; }
static inline bool oc_is_parallel(const oc_decoder_spec *d) {
    return d->placement == OC_PLACE_PARALLEL;
}

/* Vectors a row that a site norms. */
int64_t oc_site_groups(const oc_decoder_spec *d, oc_site site);
/* The norm of the mlp's output; OC_SITES: there is none. */
oc_site oc_site_after_mlp(const oc_decoder_spec *d);

/* Byte offsets, each in the place of its value: what follows the first of it. */
typedef struct oc_saved_layout {
    uint64_t lse;            /* ATTENTION, behind o */
    uint64_t p;              /* MID: the attention's projected output */
    uint64_t p_mean, p_rstd; /* MID: of the norm of p */
    uint64_t m_mean, m_rstd; /* MLP: of the norm of its output */
    uint64_t bytes[OC_SAVED_COUNT];
} oc_saved_layout;

oc_saved_layout oc_program_saved_layout(const oc_program_shape *s);

/* Byte offsets in an op's work area; which there are depends on the op. */
typedef struct oc_work_layout {
    uint64_t mean[OC_SITES], rstd[OC_SITES]; /* of norms that are done anew in the backward */
    uint64_t n;                              /* what norm 1 or 2 makes, later its gradient */
    uint64_t hold;                           /* gradient of the mlp's output */
    uint64_t a, u, m;                        /* a tile of the mlp: activated, up, output */
    uint64_t sum_up, sum_down, sum_bias, tile_bias; /* fp32 sums over tiles */
    uint64_t dqkv, turned, after, attention;
    uint64_t bytes;
} oc_work_layout;

oc_work_layout oc_program_part_work(const oc_program_shape *s, oc_part p);
oc_work_layout oc_program_backward_work(const oc_program_shape *s);

oc_attention oc_program_attention(const oc_program_shape *s, int32_t variant);

/* One call, at the rows [first, first + rows). */
typedef struct oc_layer {
    const oc_layer_call *call;
    const oc_program_shape *s;
    const oc_decoder_spec *d;
    const oc_layer_variant *v;
    const oc_block *block;
    oc_device *dev;
    const oc_device_ops *ops;
    oc_widths w;
    oc_dtype t;
    int64_t first, rows;
    oc_saved_layout sl;
    oc_work_layout wl;
    char *work, *grads;
    char *qkv, *o, *mid, *p, *u, *m; /* values; NULL: not there */
    float *lse;
} oc_layer;

oc_layer oc_layer_of(const oc_layer_call *call, oc_work_layout work);
/* The same call at rows of one tile. */
oc_layer oc_layer_tile(const oc_layer *c, int64_t first);

/* Row `first` of the rows at hand in x[T, cols]; NULL stays NULL. */
static inline char *oc_layer_rows(const oc_layer *c, const void *x, int64_t cols) {
    size_t skip = (size_t)(c->first * cols) * oc_dtype_bytes(c->t);
    return x ? (char *)(uintptr_t)x + skip : NULL;
}

/* y[rows, out] = x[rows, in] W[out, in]^T (+ bias) (+ residual) */
void oc_layer_linear(const oc_layer *c, const void *x, int64_t in, oc_weight k, oc_weight bias,
                     const void *residual, void *y, int64_t out);
/* The norm at a site of x, the rows at hand; without y and gradients. */
oc_norm oc_layer_norm(const oc_layer *c, oc_site site, const void *x);
void oc_layer_norm_forward(const oc_layer *c, oc_site site, const void *x, void *y);
oc_weight oc_site_weight(oc_site site);
oc_weight oc_site_bias(oc_site site);

void oc_layer_rope(const oc_layer *c, void *qkv, bool inverse);
char *oc_layer_k(const oc_layer *c, char *qkv);
/* q and k as attention reads them: where they stand, or normed and turned in a copy. */
char *oc_layer_turn(const oc_layer *c);
oc_attention oc_layer_attention(const oc_layer *c, char *turned);

/* u from what norm2 made; a from u: the rows at hand. */
void oc_layer_up(const oc_layer *c, const void *n, void *u);
void oc_layer_activate(const oc_layer *c, const void *u, void *a);

#endif
