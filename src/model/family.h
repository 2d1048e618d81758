/* family.h - what a model family is, as data: config keys, tensor names, architecture names.
 *
 * Private to src/model. A new family is a new entry of a table (family_llama.c and its like); the
 * readers (family_config.c, family_rope.c, family_layers.c) and the layout (model.c) know no family
 * by name. Key spellings and defaults are those of the reference library's configuration classes.
 */
#ifndef OC_FAMILY_H
#define OC_FAMILY_H

#include "model/model.h"

#include <jansson.h>

typedef enum oc_rope_type {
    OC_ROPE_DEFAULT,
    OC_ROPE_LINEAR,
    OC_ROPE_DYNAMIC,
    OC_ROPE_LLAMA3,
    OC_ROPE_YARN,
    OC_ROPE_LONGROPE,
    OC_ROPE_TYPE_COUNT
} oc_rope_type;

typedef struct oc_rope_config {
    oc_rope_type type;
    double theta, factor, original;    /* original: positions the model was first trained on */
    double positions;                  /* max_position_embeddings */
    double low_freq, high_freq;        /* llama3 */
    double beta_fast, beta_slow;       /* yarn */
    double attention_factor;           /* yarn, longrope; 0: from factor */
    double mscale, mscale_all;         /* yarn; 0: absent */
    bool truncate;                     /* yarn */
    float *short_factor, *long_factor; /* longrope; [(dim + 1) / 2] each, owned */
    int32_t dim; /* of a head, that turn; an odd one counts up to the next even one */
} oc_rope_config;

enum { OC_LAYERS_MOST = 4096 };

/* What config.json says, before it becomes a decoder spec. 0 stands for "null or absent" in the
 * fields that have a derived default. */
typedef struct oc_family_config {
    int64_t hidden, intermediate, layers, heads, kv_heads, head_dim, vocab, positions, embed_dim;
    int64_t window, window_pattern;
    int64_t rope_original; /* phi3 has it outside of its rope object */
    double norm_eps, initializer_range, query_scalar, attention_cap, logit_cap;
    bool tied, qkv_bias, out_bias, mlp_bias, attention_scaled, qk_norm;
    bool norm_before, final_norm_removed, norm_affine, parallel, windowed;
    oc_act act;
    oc_rope_config *ropes; /* [OC_VARIANTS]: the model's own */
    int32_t n_ropes;
    bool sliding[OC_LAYERS_MOST]; /* layers that see the window alone */
    char ignored[512];            /* keys that the reference ignores too, as many as fit */
    int32_t n_ignored;
} oc_family_config;

typedef enum oc_field_rule {
    OC_FIELD_INT,        /* min..max; null allowed when min is 0, and then means 0 */
    OC_FIELD_REAL,       /* min..max; null allowed when text is "null", and then means 0 */
    OC_FIELD_BOOL,       /* */
    OC_FIELD_FIXED,      /* no key: a bool that has its fallback in every model of the family */
    OC_FIELD_FIXED_REAL, /* the same, a double */
    OC_FIELD_ACT,        /* name of an activation */
    OC_FIELD_ONLY,       /* changes the result; any value but `text` (or null) is refused by name */
    OC_FIELD_UNUSED,     /* the reference ignores it; a value but `text` is counted in a note */
    OC_FIELD_NOTE,       /* ignored; a value but 0 leaves a note that says `text` */
    OC_FIELD_IGNORE,     /* does not change what the model computes */
    OC_FIELD_CODE        /* read by family_config.c itself (ids, dtype, rope, names) */
} oc_field_rule;

typedef struct oc_family_field {
    const char *key;   /* NULL: fixed */
    const char *alias; /* the same thing under another name; NULL: none */
    oc_field_rule rule;
    size_t offset; /* in oc_family_config */
    double min, max, fallback;
    const char *text;
} oc_family_field;

typedef enum oc_family_dim {
    OC_DIM_ONE,
    OC_DIM_HIDDEN,
    OC_DIM_INTER,
    OC_DIM_INTER2, /* gate and up */
    OC_DIM_EMBED,  /* width of the embedding */
    OC_DIM_HEAD,   /* head_dim */
    OC_DIM_Q,      /* heads * head_dim */
    OC_DIM_KV,     /* kv_heads * head_dim */
    OC_DIM_QKV,    /* q and k and v */
    OC_DIM_VOCAB,
    OC_DIM_POSITIONS /* position_offset included */
} oc_family_dim;

typedef enum oc_family_when {
    OC_WHEN_ALWAYS,
    OC_WHEN_QKV_BIAS,
    OC_WHEN_OUT_BIAS,
    OC_WHEN_MLP_BIAS,
    OC_WHEN_QK_NORM,
    OC_WHEN_PROJECTED, /* the embedding has another width than the layers */
    OC_WHEN_FINAL_NORM,
    OC_WHEN_UNTIED
} oc_family_when;

/* Entries stand in the order of the layout. Neighbours of one weight form a group without gaps. */
typedef struct oc_family_tensor {
    oc_block_kind place;
    oc_weight weight;
    const char *name; /* '#' stands for the layer's number */
    oc_family_dim rows, cols;
    oc_family_when when;
    bool transposed; /* the file has [cols, rows] */
    bool residual;   /* --init divides its standard deviation by sqrt(2 * layers) */
    /* Parts 1..parts of one file tensor: for each head the rows of part 1, then of part 2, ... */
    uint8_t part, parts;
} oc_family_tensor;

/* Which layers see the window alone. */
typedef enum oc_family_sliding {
    OC_SLIDING_NONE,
    OC_SLIDING_ALL,   /* all, when there is a window */
    OC_SLIDING_LAST,  /* layer_types, else all but the first max_window_layers */
    OC_SLIDING_PERIOD /* layer_types, else all but every window_pattern-th */
} oc_family_sliding;

typedef struct oc_family {
    const char *model_type;
    const char *architectures[4]; /* the first where config.json names none */
    const char *prefix;           /* of names in the file */
    bool prefix_optional;         /* checkpoints without it exist */
    const char *ignored[4];       /* ends of names of tensors that hold no parameter */
    const char *head_alias;       /* another name of the head's tensor; NULL: none */

    oc_norm_kind norm;
    oc_position_kind position;
    bool gated, plus_one, sandwich;
    bool scaled_embedding; /* by sqrt(hidden) */
    oc_family_sliding sliding;
    oc_act act; /* of families whose config.json has no key for it */

    double rope_theta;          /* when config.json has none */
    const char *rope_theta_key; /* another name of rope_theta; NULL: none */
    const char *partial_key;    /* of the part of a head that turns; NULL: all of it turns */
    double partial;             /* when config.json has none */
    unsigned rope_types;        /* bits of oc_rope_type */
    bool long_names;            /* types "su" and "yarn" are old names of longrope */
    bool rope_by_type;          /* one rope for full, one for sliding layers */

    int64_t inner_factor; /* intermediate = this * hidden when null; 0: the key is needed */
    int64_t position_offset;
    int32_t bos_id, eos_id, pad_id; /* when config.json has no such key; -1: none */
    bool trains_padding;            /* the reference's embedding has no padding_idx: see oc_model */

    const oc_family_field *fields;
    const oc_family_tensor *tensors;
    int32_t n_fields, n_tensors;
} oc_family;

/* NULL when there is none. */
const oc_family *oc_family_find(const char *model_type);
/* "llama, gpt2": for messages. */
void oc_family_names(char *out, size_t bytes);
/* Keys that every family shares. */
const oc_family_field *oc_family_common(int32_t *n);

/* Reads and checks the whole of config.json into c and into m's own fields (ids, dtype, family,
 * rope, notes). */
OC_NODISCARD oc_status oc_family_read(const json_t *root, const char *origin, oc_model *m,
                                      oc_family_config *c, const oc_family **family, oc_error *err);
/* c->ropes and c->n_ropes from rope_theta and rope_scaling or rope_parameters (its newer name),
 * under the family's spellings. */
OC_NODISCARD oc_status oc_rope_read(const json_t *root, const char *origin, const oc_family *family,
                                    oc_family_config *c, oc_error *err);
/* inv_freq[(dim + 1) / 2] for sequences of seq tokens. */
void oc_rope_fill(const oc_rope_config *c, int64_t seq, float *inv_freq);
bool oc_rope_differs(const oc_rope_config *c, int64_t seq); /* from that of short ones */
/* The factor of cos and sin. */
float oc_rope_scaling(const oc_rope_config *c);
void oc_rope_release(oc_rope_config *c);
/* c->sliding from layer_types, or the family's rule. */
OC_NODISCARD oc_status oc_layers_read(const json_t *root, const char *origin,
                                      const oc_family *family, oc_family_config *c, oc_error *err);

/* One more key that is ignored, in `object` of the file when that is not NULL. */
void oc_family_ignore(oc_family_config *c, const char *object, const char *key);

/* The known key that is `key` but for one letter more, less or other, or two swapped; NULL: none.
 * Closer than oc_nearest(): files carry keys of other programs that are alike. */
const char *oc_family_slip(const char *key, const char *const *known, size_t n);

/* A value as it stands in the file, cut to fit a message. */
enum { OC_SHOWN_BYTES = 64 };
const char *oc_family_shown(const json_t *v, char out[OC_SHOWN_BYTES]);

/* Append a line to m->notes; what does not fit is cut. */
void oc_model_note(oc_model *m, const char *fmt, ...) OC_PRINTF(2, 3);

#endif
