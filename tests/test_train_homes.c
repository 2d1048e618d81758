/* Placement changes no bit, whatever the table of homes: random ones, with weights here and
 * optimizer states there, poisoned and protected, on the stand-in for an accelerator too. */
#include "homes_case.h"
#include "train_case.h"

static const char llama[] =
    "{\"model_type\":\"llama\",\"architectures\":[\"LlamaForCausalLM\"],\"hidden_size\":40,"
    "\"intermediate_size\":72,\"num_hidden_layers\":3,\"num_attention_heads\":4,"
    "\"num_key_value_heads\":2,\"vocab_size\":1100,\"max_position_embeddings\":64,"
    "\"rms_norm_eps\":1e-5,\"tie_word_embeddings\":false}";
static const char gpt2[] =
    "{\"model_type\":\"gpt2\",\"architectures\":[\"GPT2LMHeadModel\"],\"n_embd\":36,\"n_head\":3,"
    "\"n_layer\":3,\"n_positions\":32,\"vocab_size\":1067,\"activation_function\":\"gelu_new\","
    "\"tie_word_embeddings\":true}";
static const char bloom[] =
    "{\"model_type\":\"bloom\",\"architectures\":[\"BloomForCausalLM\"],\"hidden_size\":36,"
    "\"n_head\":3,\"n_layer\":3,\"vocab_size\":1067}";

typedef struct world {
    char dir[SCRATCH_BYTES];
} world;

static void make(world *w, const char *config) {
    static const train_rows rows = {
        .rows = 23, .least = 5, .most = 40, .vocab = 1060, .ignored = 20};
    scratch_make(w->dir);
    train_write_config(w->dir, config);
    train_write_rows(w->dir, "a.jsonl", &rows);
}

static void command(char *line, const world *w, const char *dtype, const char *options) {
    snprintf(line, TRAIN_LINE_BYTES,
             "--init %s --data %s/a.jsonl --output %s/out --seq-length 32 --micro-batch 3 "
             "--grad-accum 3 --max-steps 4 --lr 3e-3 --warmup-steps 1 --weight-decay 0.1 --dtype "
             "%s %s",
             w->dir, w->dir, w->dir, dtype, options);
}

/* Set up as the line says, but with another table of homes. */
static void open_with(train_case *t, const char *line, const oc_block_homes *homes) {
    oc_error err = {OC_OK, ""};
    oc_log_set_level(OC_LOG_WARN);
    memset(t, 0, sizeof *t);
    t->config = train_config(OC_CMD_TRAIN, line, &err);
    if (!t->config) fail_msg("%s", err.message);
    const oc_config *c = t->config;
    oc_status st = oc_setup_open(&t->setup, c, NULL, &err);
    if (st != OC_OK) fail_msg("%s", err.message);
    oc_placement p = t->setup->build.place;
    p.homes = homes;
    st = oc_setup_place_as(t->setup, &p, &err);
    if (st == OC_OK) st = oc_corpus_open(&t->corpus, t->setup, &t->setup->files, true, &err);
    if (st == OC_OK) st = oc_session_open(&t->session, t->setup, c->max_steps, &err);
    if (st != OC_OK) fail_msg("%s", err.message);
}

static void run_with(const char *line, const char *config, uint32_t seed, train_result *r) {
    oc_model *m = NULL;
    oc_error err = {OC_OK, ""};
    train_case t;
    memset(r, 0, sizeof *r);
    assert_int_equal(oc_model_parse(&m, config, "test", &err), OC_OK);
    oc_block_homes *homes = homes_make(m, seed, 0);
    open_with(&t, line, homes);
    train_steps(&t, (int)t.config->max_steps, r);
    train_snapshot(&t, r);
    for (int i = 0; i < OC_TIER_COUNT; i++)
        if (!oc_setup_opaque(t.setup) || i != OC_TIER_DEVICE)
            assert_int_equal(oc_session_measured(t.session, (oc_tier)i) >> 14,
                             (t.setup->set->arena_bytes[i] + 4095) / 4096 * 4096 >> 14);
    train_close(&t);
    free(homes);
    oc_model_close(m);
}

static void every_table(const char *config, const char *dtype, const char *common) {
    static const char *const ways[] = {
        "--slots 2 --slabs 2 --debug-memory --delay-seed 5",
        "--slots 1 --slabs 1 --act-home host --recompute full --debug-memory",
        "--slots 3 --slabs 2 --micro-order interleave --debug-memory --delay-seed 2",
        "--slots 2 --slabs 2 --micro-order breadth --piece 32KiB --debug-memory",
        "--slots 2 --slabs 2 --debug-async --debug-memory --delay-seed 6",
    };
    world w;
    char line[TRAIN_LINE_BYTES], rest[256];
    train_result want, got;
    make(&w, config);
    command(line, &w, dtype, common);
    train_run(line, &want);
    for (uint32_t seed = 1; seed <= 10; seed++) {
        snprintf(rest, sizeof rest, "%s %s", common, ways[seed % 5]);
        command(line, &w, dtype, rest);
        run_with(line, config, 31 * seed, &got);
        train_assert_same(&want, &got, line);
        train_result_release(&got);
    }
    train_result_release(&want);
    train_remove(w.dir);
}

static void llama_is_the_same_with_every_table_of_homes(void **state) {
    (void)state;
    every_table(llama, "fp32", "");
    every_table(llama, "bf16", "");
}

static void gpt2_is_the_same_with_every_table_of_homes(void **state) {
    (void)state;
    every_table(gpt2, "fp32", "");
    every_table(gpt2, "fp16", "");
}

static void bloom_is_the_same_with_every_table_of_homes(void **state) {
    (void)state;
    every_table(bloom, "bf16", "");
}

static void early_updates_are_the_same_with_every_table_of_homes(void **state) {
    (void)state;
    every_table(llama, "bf16", "--grad-accum 1 --clip-grad-norm 0");
    every_table(gpt2, "fp32", "--grad-accum 1 --clip-grad-norm 0 --optimizer sgd --lr 0.05");
}

/* Twin-Flow: the part of the optimizer that is not offloaded is updated on the device. */
static void a_part_of_the_optimizer_stays_on_the_device(void **state) {
    world w;
    char line[TRAIN_LINE_BYTES], rest[SCRATCH_BYTES + 64];
    train_result want, got;
    train_case t;
    (void)state;
    make(&w, llama);
    FILE *f = fopen(scratch_path(line, w.dir, "ds.json"), "w");
    fprintf(f, "{\"zero_optimization\":{\"stage\":2,\"offload_optimizer\":{\"device\":\"cpu\","
               "\"ratio\":0.5}}}");
    assert_int_equal(fclose(f), 0);
    command(line, &w, "bf16", "");
    train_run(line, &want);
    snprintf(rest, sizeof rest, "--config %s/ds.json --device-memory 1GiB", w.dir);
    command(line, &w, "bf16", rest);
    memset(&got, 0, sizeof got);
    train_open(&t, line);
    double here = 0, all = 0;
    for (int32_t i = 0; i < t.setup->model->n_blocks; i++) {
        double n = (double)t.setup->model->blocks[i].elements;
        bool device = t.setup->homes[i].optimizer == OC_TIER_DEVICE;
        assert_int_equal(t.setup->homes[i].weight, OC_TIER_DEVICE);
        all += n;
        here += device ? n : 0;
    }
    assert_true(here >= 0.5 * all && here < all);
    train_steps(&t, (int)t.config->max_steps, &got);
    train_snapshot(&t, &got);
    train_close(&t);
    train_assert_same(&want, &got, line);
    train_result_release(&want);
    train_result_release(&got);
    train_remove(w.dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_part_of_the_optimizer_stays_on_the_device),
        cmocka_unit_test(llama_is_the_same_with_every_table_of_homes),
        cmocka_unit_test(gpt2_is_the_same_with_every_table_of_homes),
        cmocka_unit_test(bloom_is_the_same_with_every_table_of_homes),
        cmocka_unit_test(early_updates_are_the_same_with_every_table_of_homes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
