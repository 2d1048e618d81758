/* model_specs.h - small models of every placement of norms, kind of position and front. */
#ifndef OC_TEST_MODEL_SPECS_H
#define OC_TEST_MODEL_SPECS_H

#include "model_fp64.h"

/* What a rig is built from. */
typedef struct rig_spec {
    const char *name;
    oc_decoder_spec d;
    bool qkv_bias, out_bias, mlp_bias;
    int64_t embed;               /* 0: HIDDEN */
    bool front_norm, front_proj; /* neither: no front block */
    bool bare_final, final_proj; /* without a norm; with a projection */
} rig_spec;

#define SHAPE(inter, q_heads, k_heads, dim)                                                        \
    .hidden = HIDDEN, .intermediate = (inter), .heads = (q_heads), .kv_heads = (k_heads),          \
    .head_dim = (dim), .norm_eps = 1e-5f
#define ALIKE .variants = {{.rope_scaling = 1, .layers = LAYERS}}, .n_variants = 1
#define ROPES(rot) .position = OC_POS_ROPE, .rot_dim = (rot)
#define BIASES .qkv_bias = true, .out_bias = true, .mlp_bias = true

static const rig_spec rig_specs[] = {
    {.name = "llama",
     .qkv_bias = true,
     .d = {SHAPE(40, 4, 2, 8), .norm = OC_NORM_RMS, ROPES(8), .attention_scale = 0.3f,
           .variants = {{.window = 3, .rope_scaling = 1.25f, .layers = LAYERS}}, .n_variants = 1,
           .act = OC_ACT_SILU, .gated = true}},
    {.name = "gpt2",
     BIASES,
     .d = {SHAPE(56, 3, 3, 8), ALIKE, .norm = OC_NORM_LAYER, .position = OC_POS_LEARNED,
           .attention_scale = 0.35355339f, .act = OC_ACT_GELU_TANH}},
    /* up narrower than hidden: the mlp's share of dx does not fit the place of u by itself */
    {.name = "gpt_neox",
     BIASES,
     .d = {SHAPE(20, 3, 3, 8), ALIKE, .norm = OC_NORM_LAYER, .placement = OC_PLACE_PARALLEL,
           ROPES(4), .attention_scale = 0.4f, .act = OC_ACT_GELU}},
    {.name = "qwen3",
     .qkv_bias = true,
     .out_bias = true,
     .d = {SHAPE(18, 4, 2, 10), ALIKE, .norm = OC_NORM_RMS, .qk_norm = true, ROPES(10),
           .attention_scale = 0.3f, .act = OC_ACT_SILU, .gated = true}},
    {.name = "gemma",
     .d = {SHAPE(30, 4, 2, 8), .norm = OC_NORM_RMS, .norm_plus_one = true,
           .placement = OC_PLACE_SANDWICH, .qk_norm = true, ROPES(8), .attention_scale = 0.5f,
           .attention_cap = 1.5f, .logit_cap = 3.0f,
           .variants = {{.rope_scaling = 1, .layers = 1},
                        {.window = 2, .rope = 1, .rope_scaling = 0.8f, .layers = 1}},
           .n_variants = 2, .act = OC_ACT_GELU_TANH, .gated = true}},
    {.name = "opt-350m",
     BIASES,
     .embed = 10,
     .front_proj = true,
     .bare_final = true,
     .final_proj = true,
     .d = {SHAPE(30, 3, 3, 8), ALIKE, .norm = OC_NORM_LAYER, .placement = OC_PLACE_POST,
           .position = OC_POS_LEARNED, .attention_scale = 0.35f, .act = OC_ACT_GELU}},
    /* an mlp so wide that its values, not the attention's, decide the size of the work area */
    {.name = "post without final block",
     .bare_final = true,
     .d = {SHAPE(90, 2, 1, 6), ALIKE, .norm = OC_NORM_RMS, .placement = OC_PLACE_POST,
           .qk_norm = true, ROPES(6), .attention_scale = 0.35f, .act = OC_ACT_SILU}},
    {.name = "projections around norms",
     .embed = 14,
     .front_proj = true,
     .final_proj = true,
     .d = {SHAPE(30, 3, 3, 8), ALIKE, .norm = OC_NORM_LAYER, .position = OC_POS_LEARNED,
           .attention_scale = 0.35f, .act = OC_ACT_GELU}},
    {.name = "bloom",
     BIASES,
     .front_norm = true,
     .d = {SHAPE(30, 3, 3, 8), ALIKE, .norm = OC_NORM_LAYER, .position = OC_POS_ALIBI,
           .attention_scale = 0.35f, .act = OC_ACT_GELU_TANH}},
};
enum { N_SPECS = sizeof rig_specs / sizeof rig_specs[0] };
static const rig_spec *const llama_like = &rig_specs[0], *const gpt2_like = &rig_specs[1];

#endif
