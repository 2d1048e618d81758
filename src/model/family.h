/* family.h - what a model family is, as data: config keys, tensor names, architecture names.
 *
 * Private to src/model. A new family is a new entry of oc_families (family.c); the readers
 * (family_config.c) and the layout (model.c) know no family by name. Key spellings and defaults are
 * those of the reference library's configuration classes. */
#ifndef OC_FAMILY_H
#define OC_FAMILY_H

#include "model/model.h"

#include <jansson.h>

typedef enum oc_rope_type {
    OC_ROPE_DEFAULT,
    OC_ROPE_LINEAR,
    OC_ROPE_LLAMA3,
    OC_ROPE_YARN,
    OC_ROPE_TYPE_COUNT
} oc_rope_type;

typedef struct oc_rope_config {
    oc_rope_type type;
    double theta, factor, original; /* original: positions the model was first trained on */
    double low_freq, high_freq;     /* llama3 */
    double beta_fast, beta_slow;    /* yarn */
    double attention_factor;        /* yarn; 0: from factor */
    double mscale, mscale_all;      /* yarn; 0: absent */
    bool truncate;                  /* yarn */
} oc_rope_config;

/* What config.json says, before it becomes a decoder spec. 0 stands for "null or absent" in the
 * three fields that have a derived default. */
typedef struct oc_family_config {
    int64_t hidden, intermediate, layers, heads, kv_heads, head_dim, vocab, positions;
    double norm_eps, initializer_range;
    bool tied, attention_bias, mlp_bias, attention_scaled;
    oc_act act;
    oc_rope_config rope;
} oc_family_config;

typedef enum oc_field_rule {
    OC_FIELD_INT,    /* min..max; null allowed when min is 0, and then means 0 */
    OC_FIELD_REAL,   /* min..max */
    OC_FIELD_BOOL,   /* */
    OC_FIELD_ACT,    /* name of an activation */
    OC_FIELD_ONLY,   /* changes the result; any value but `text` (or null) is refused by name */
    OC_FIELD_NOTE,   /* ignored; a value but 0 leaves a note that says `text` */
    OC_FIELD_IGNORE, /* does not change what the model computes */
    OC_FIELD_CODE    /* read by family_config.c itself (ids, dtype, rope, names) */
} oc_field_rule;

typedef struct oc_family_field {
    const char *key;
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
    OC_DIM_Q,   /* heads * head_dim */
    OC_DIM_KV,  /* kv_heads * head_dim */
    OC_DIM_QKV, /* q and k and v */
    OC_DIM_VOCAB,
    OC_DIM_POSITIONS /* position_offset included */
} oc_family_dim;

typedef enum oc_family_when {
    OC_WHEN_ALWAYS,
    OC_WHEN_ATTENTION_BIAS,
    OC_WHEN_MLP_BIAS,
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
} oc_family_tensor;

typedef struct oc_family {
    const char *model_type;
    const char *architectures[3]; /* the first is what a saved model is called */
    const char *prefix;           /* of names in the file */
    bool prefix_optional;         /* checkpoints without it exist */
    const char *ignored[4];       /* ends of names of tensors that hold no parameter */

    oc_norm_kind norm;
    oc_position_kind position;
    bool gated;
    int64_t inner_factor; /* intermediate = this * hidden when null; 0: the key is needed */
    int64_t position_offset;
    int32_t bos_id, eos_id; /* when config.json has no such key; -1: none */

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
/* rope_theta, and rope_scaling or rope_parameters (its newer name). */
OC_NODISCARD oc_status oc_rope_read(const json_t *root, const char *origin, int64_t positions,
                                    oc_rope_config *c, oc_error *err);
/* inv_freq[rot_dim / 2]; returns the factor of cos and sin. */
float oc_rope_fill(const oc_rope_config *c, int32_t rot_dim, float *inv_freq);

/* A value as it stands in the file, cut to fit a message. */
enum { OC_SHOWN_BYTES = 64 };
const char *oc_family_shown(const json_t *v, char out[OC_SHOWN_BYTES]);

/* Append a line to m->notes; what does not fit is cut. */
void oc_model_note(oc_model *m, const char *fmt, ...) OC_PRINTF(2, 3);

#endif
