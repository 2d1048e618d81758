/* Training and evaluation on the asynchronous device, whose ops are done later and whose memory
 * faults when the host follows an address of it: every number is the CPU device's, bit for bit. */
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
static const char gemma2[] =
    "{\"model_type\":\"gemma2\",\"architectures\":[\"Gemma2ForCausalLM\"],\"hidden_size\":36,"
    "\"intermediate_size\":64,\"num_hidden_layers\":2,\"num_attention_heads\":3,"
    "\"num_key_value_heads\":1,\"head_dim\":12,\"vocab_size\":1067,\"sliding_window\":16,"
    "\"max_position_embeddings\":64}";

static const char *const placements[] = {
    "",
    "--debug-memory --delay-seed 3",
    "--recompute full --micro-order breadth",
    "--slots 1 --slabs 1 --act-home host --recompute full --debug-memory",
    "--slots 2 --slabs 2 --recompute none --delay-seed 7",
    "--slots 4 --slabs 3 --micro-order interleave --act-home host --delay-seed 5",
    "--slots 3 --micro-order breadth --piece 64KiB",
    "--slots 2 --serial-lanes",
    "--micro-order interleave --debug-memory",
    "--weights-home host --optimizer-home host --device-memory 1GiB --pace h2d=200MB/s",
};

static void make(char dir[SCRATCH_BYTES], const char *config) {
    static const train_rows rows = {
        .rows = 23, .least = 5, .most = 40, .vocab = 1060, .ignored = 20};
    scratch_make(dir);
    train_write_config(dir, config);
    train_write_rows(dir, "a.jsonl", &rows);
}

/* 3 micro-batches of 3 rows: an epoch is short of a whole batch, and one of its micro-batches
 * empty. */
static void command(char *line, const char *dir, const char *dtype, const char *rest,
                    const char *placement) {
    int n = snprintf(line, TRAIN_LINE_BYTES,
                     "--init %s --data %s/a.jsonl --output %s/out --seq-length 32 --micro-batch 3 "
                     "--grad-accum 3 --max-steps 5 --lr 3e-3 --warmup-steps 1 --weight-decay 0.1 "
                     "--dtype %s %s %s",
                     dir, dir, dir, dtype, rest, placement);
    assert_true(n > 0 && n < TRAIN_LINE_BYTES);
}

static void every_placement(const char *config, const char *dtype, const char *rest) {
    char dir[SCRATCH_BYTES], line[TRAIN_LINE_BYTES], placed[256];
    train_result want, got;
    make(dir, config);
    command(line, dir, dtype, rest, "");
    train_run(line, &want);
    for (size_t i = 0; i < sizeof placements / sizeof *placements; i++) {
        snprintf(placed, sizeof placed, "--debug-async %s", placements[i]);
        command(line, dir, dtype, rest, placed);
        train_run(line, &got);
        train_assert_same(&want, &got, line);
        train_result_release(&got);
    }
    train_result_release(&want);
    train_remove(dir);
}

static void llama_is_the_same_on_the_asynchronous_device(void **state) {
    (void)state;
    every_placement(llama, "fp32", "");
    every_placement(llama, "bf16", "");
    every_placement(llama, "fp16", "--optimizer sgd --momentum 0.9");
}

static void gpt2_is_the_same_on_the_asynchronous_device(void **state) {
    (void)state;
    every_placement(gpt2, "fp32", "--optimizer adam");
    every_placement(gpt2, "bf16", "");
}

static void models_with_a_front_are_the_same_on_the_asynchronous_device(void **state) {
    (void)state;
    every_placement(bloom, "bf16", "");
    every_placement(gemma2, "bf16", "");
}

/* One micro-batch: gradients keep the compute dtype, or have no home at all. */
static void one_micro_batch_is_the_same_on_the_asynchronous_device(void **state) {
    (void)state;
    every_placement(llama, "bf16", "--grad-accum 1");
    every_placement(gpt2, "fp32", "--grad-accum 1 --clip-grad-norm 0");
    every_placement(llama, "bf16", "--grad-accum 1 --clip-grad-norm 0");
}

static double evaluated(const char *dir, const char *placement) {
    char line[TRAIN_LINE_BYTES];
    train_case t;
    oc_corpus eval;
    oc_error err = {OC_OK, ""};
    double nll = 0;
    uint64_t targets = 0;
    bool whole = false;
    command(line, dir, "bf16", "", placement);
    train_open(&t, line);
    if (oc_corpus_open(&eval, t.setup, &t.setup->files, false, &err) != OC_OK ||
        oc_session_evaluate(t.session, eval.feed, NULL, &nll, &targets, &whole, &err) != OC_OK)
        fail_msg("%s", err.message);
    assert_true(whole && targets > 100);
    oc_corpus_release(&eval);
    train_close(&t);
    return nll;
}

static void an_evaluation_is_the_same_on_the_asynchronous_device(void **state) {
    char dir[SCRATCH_BYTES], placed[256];
    (void)state;
    make(dir, llama);
    double want = evaluated(dir, "");
    for (size_t i = 0; i < sizeof placements / sizeof *placements; i++) {
        snprintf(placed, sizeof placed, "--debug-async %s", placements[i]);
        double got = evaluated(dir, placed);
        if (memcmp(&want, &got, sizeof want) != 0) fail_msg("%s: %.17g", placed, got);
    }
    train_remove(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama_is_the_same_on_the_asynchronous_device),
        cmocka_unit_test(gpt2_is_the_same_on_the_asynchronous_device),
        cmocka_unit_test(models_with_a_front_are_the_same_on_the_asynchronous_device),
        cmocka_unit_test(one_micro_batch_is_the_same_on_the_asynchronous_device),
        cmocka_unit_test(an_evaluation_is_the_same_on_the_asynchronous_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
