/* What transfers of a step's plans are said to move is what the lanes of a run count, in every kind
 * of placement. */
#include "train_case.h"

static const char llama[] =
    "{\"model_type\":\"llama\",\"architectures\":[\"LlamaForCausalLM\"],\"hidden_size\":40,"
    "\"intermediate_size\":72,\"num_hidden_layers\":3,\"num_attention_heads\":4,"
    "\"num_key_value_heads\":2,\"vocab_size\":1100,\"tie_word_embeddings\":false}";
static const char gpt2[] =
    "{\"model_type\":\"gpt2\",\"architectures\":[\"GPT2LMHeadModel\"],\"n_embd\":36,\"n_head\":3,"
    "\"n_layer\":2,\"n_positions\":64,\"vocab_size\":1067}";
static const char opt[] =
    "{\"model_type\":\"opt\",\"architectures\":[\"OPTForCausalLM\"],\"hidden_size\":48,"
    "\"word_embed_proj_dim\":32,\"ffn_dim\":64,\"num_hidden_layers\":2,\"num_attention_heads\":4,"
    "\"max_position_embeddings\":64,\"vocab_size\":300,\"do_layer_norm_before\":false}";

enum { STEPS = 3 };

/* Of a step, by lane, and of rows that its lookups bring. */
static void add_step(const oc_setup *s, uint64_t bytes[OC_LANE_COUNT], uint64_t *rows) {
    for (int32_t k = 0; k < oc_build_turns(&s->build, s->build.micros); k++) {
        oc_turn turn = oc_build_turn(&s->build, s->set, s->build.micros, k);
        const oc_plan *p = &s->set->plans[turn.plan];
        for (uint32_t i = 0; i < p->n_ops; i++) {
            bytes[p->ops[i].lane] += p->ops[i].demand.bytes;
            if (p->ops[i].kind == OC_OP_FETCH_ROWS) *rows += p->ops[i].demand.bytes;
        }
    }
}

/* A row of the table, and of the positions, for each token; a front block looks twice. */
static uint64_t rows_of_step(const oc_setup *s) {
    const oc_model *m = s->model;
    uint64_t tokens = (uint64_t)(s->global_batch * s->build.seq);
    uint64_t width = (uint64_t)m->embed_dim * (m->front_block >= 0 ? 2 : 1);
    if (m->position_block >= 0) width += (uint64_t)m->hidden;
    return tokens * width * oc_dtype_bytes(s->dtype);
}

/* Every batch is full and every step is done, so no op is skipped. */
static void compare(const char *dir, const char *rest) {
    char line[TRAIN_LINE_BYTES];
    train_case t;
    train_result r = {0};
    uint64_t want[OC_LANE_COUNT] = {0}, rows = 0;
    oc_lane_stats got[OC_LANE_COUNT];
    snprintf(line, sizeof line,
             "--init %s --data %s/a.jsonl --output /nowhere --no-packing --seq-length 16 "
             "--micro-batch 2 --max-steps %d %s",
             dir, dir, STEPS, rest);
    train_open(&t, line);
    train_steps(&t, STEPS, &r);
    oc_session_stats(t.session, got);
    for (int i = 0; i < STEPS; i++) {
        assert_true(r.step[i].finite);
        add_step(t.setup, want, &rows);
    }
    assert_int_equal(rows, STEPS * rows_of_step(t.setup));
    for (int l = 0; l < OC_LANE_COUNT; l++)
        if (got[l].bytes != want[l])
            fail_msg("%s\n%s counted %llu bytes, not %llu", line, oc_lane_name((oc_lane)l),
                     (unsigned long long)got[l].bytes, (unsigned long long)want[l]);
    bool streams = !t.setup->build.place.resident;
    assert_true(!streams || (want[OC_LANE_H2D] > 0 && want[OC_LANE_D2H] > 0));
    train_close(&t);
}

static void lanes_count_what_ops_are_said_to_move(void **state) {
    static const char *const models[] = {llama, gpt2, opt};
    static const char *const placements[] = {
        "--grad-accum 4",
        "--grad-accum 4 --slots 2 --slabs 1 --act-home host --recompute full --dtype bf16",
        "--grad-accum 4 --slots 3 --micro-order breadth --recompute none --piece 64KiB",
        "--grad-accum 4 --slots 2 --act-home host --micro-order interleave --dtype bf16",
        "--grad-accum 1 --slots 2 --clip-grad-norm 0 --early-updates on --dtype bf16",
        "--grad-accum 4 --debug-async",
        "--grad-accum 4 --debug-async --slots 2 --slabs 2 --act-home host",
    };
    static const train_rows rows = {
        .rows = 64, .least = 16, .most = 16, .vocab = 300, .ignored = -1};
    (void)state;
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        char dir[SCRATCH_BYTES];
        scratch_make(dir);
        train_write_config(dir, models[m]);
        train_write_rows(dir, "a.jsonl", &rows);
        for (size_t i = 0; i < sizeof placements / sizeof *placements; i++)
            compare(dir, placements[i]);
        train_remove(dir);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(lanes_count_what_ops_are_said_to_move)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
