/* plan_case.h - small models and made-up sizes for tests of the plan room: no device is needed. */
#ifndef OC_TEST_PLAN_CASE_H
#define OC_TEST_PLAN_CASE_H

#include "cmocka_all.h"

#include "build/build.h"
#include "model/model.h"

static const char llama_untied[] =
    "{\"model_type\":\"llama\",\"hidden_size\":64,\"intermediate_size\":128,\"num_hidden_layers\":"
    "3,"
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"vocab_size\":2500,"
    "\"max_position_embeddings\":64,\"rms_norm_eps\":1e-5,\"tie_word_embeddings\":false}";
static const char llama_tied[] =
    "{\"model_type\":\"llama\",\"hidden_size\":256,\"intermediate_size\":512,\"num_hidden_layers\":"
    "4,"
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"vocab_size\":1100,"
    "\"max_position_embeddings\":64,\"rms_norm_eps\":1e-5,\"tie_word_embeddings\":true}";
static const char gpt2_small[] =
    "{\"model_type\":\"gpt2\",\"n_embd\":48,\"n_layer\":2,\"n_head\":3,\"n_positions\":32,"
    "\"vocab_size\":300}";

/* Something stands between the embedding's rows and the first layer: a norm; a projection, and
 * positions beside it; a factor. */
static const char bloom_small[] =
    "{\"model_type\":\"bloom\",\"hidden_size\":64,\"n_layer\":2,\"n_head\":4,\"vocab_size\":300}";
static const char opt_projected[] =
    "{\"model_type\":\"opt\",\"hidden_size\":64,\"word_embed_proj_dim\":48,\"ffn_dim\":128,"
    "\"num_hidden_layers\":2,\"num_attention_heads\":4,\"max_position_embeddings\":64,"
    "\"vocab_size\":300,\"do_layer_norm_before\":false}";
static const char gemma2_small[] =
    "{\"model_type\":\"gemma2\",\"hidden_size\":64,\"intermediate_size\":128,"
    "\"num_hidden_layers\":2,\"num_attention_heads\":4,\"num_key_value_heads\":2,\"head_dim\":16,"
    "\"vocab_size\":300,\"max_position_embeddings\":64}";

static inline oc_model *case_model(const char *json) {
    oc_model *m = NULL;
    oc_error err = {0};
    if (oc_model_parse(&m, json, "test", &err) != OC_OK) fail_msg("%s", err.message);
    return m;
}

static inline oc_build_spec case_spec(const oc_model *m) {
    oc_build_spec s = {.model = m,
                       .dtype = OC_BF16,
                       .batch = 2,
                       .seq = 8,
                       .micros = 2,
                       .has_m = true,
                       .has_v = true,
                       .train = true,
                       .with_eval = true};
    uint64_t act = 2 * 8 * (uint64_t)m->hidden * 4; /* room for fp32 */
    s.sizes = (oc_build_sizes){.act_bytes = act,
                               .row_bytes = act,
                               .work_bytes = 3 * act,
                               .head_work_bytes = 65536,
                               .head_state_bytes = 2 * act + 640,
                               .scratch_bytes = 4096,
                               .saved_bytes = {2 * act, act + 64, act, 2 * act, act}};
    s.place = (oc_placement){.compute = OC_TIER_DEVICE,
                             .slots = 2,
                             .slabs = 2,
                             .group = 1,
                             .piece_elements = OC_NORM_CHUNK};
    return s;
}

/* Two groups, one in a row with the other; pages of none, some, all layers on the host. */
static inline oc_build_spec case_pass_spec(const oc_model *m, int32_t away, bool resident) {
    oc_build_spec s = case_spec(m);
    s.batch = 1;
    s.train = s.with_eval = s.has_m = s.has_v = false;
    s.pass = (oc_pass_spec){
        .rows = 3, .page_tokens = 16, .pages = 9, .row_pages = 4, .page_bytes = 16 * 256};
    s.place.group = s.micros;
    s.place.slabs = 0;
    s.place.resident = resident;
    s.place.away_pages = away;
    s.place.page_slots = away > 0 ? 2 + away % 2 : 0;
    return s;
}

#endif
