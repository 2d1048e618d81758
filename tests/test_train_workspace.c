/* How planned memory grows: the workspace knows the vocabulary only as a tile of the head, whatever
 * its size, and nothing grows faster than the sequence. Sizes of real models; nothing is
 * allocated. */
#include "train_case.h"

static const char llama[] =
    "{\"model_type\":\"llama\",\"architectures\":[\"LlamaForCausalLM\"],\"hidden_size\":2048,"
    "\"intermediate_size\":8192,\"num_hidden_layers\":4,\"num_attention_heads\":32,"
    "\"num_key_value_heads\":8,\"head_dim\":64,\"vocab_size\":%d,"
    "\"max_position_embeddings\":131072,\"tie_word_embeddings\":%s}";
static const char gpt2[] =
    "{\"model_type\":\"gpt2\",\"architectures\":[\"GPT2LMHeadModel\"],\"n_embd\":768,"
    "\"n_head\":12,\"n_layer\":12,\"n_positions\":32768,\"vocab_size\":%d,"
    "\"activation_function\":\"gelu_new\",\"tie_word_embeddings\":%s}";

static const char *const placements[] = {
    "",
    "--slots 2 --slabs 2 --act-home host --recompute full",
    "--slots 2 --slabs 2 --act-home device --recompute none",
    "--slots 2 --slabs 2 --micro-order breadth --recompute up,logits",
};

typedef struct needs {
    uint64_t workspace, activations, all;
} needs;

static needs plan(const char *dir, const char *format, int vocab, bool tied, int64_t seq,
                  const char *dtype, const char *placement) {
    char text[1024], line[TRAIN_LINE_BYTES];
    oc_error err = {OC_OK, ""};
    oc_setup *s = NULL;
    needs n = {0, 0, 0};
    /* the formats are constants of this file */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(text, sizeof text, format, vocab, tied ? "true" : "false");
#pragma GCC diagnostic pop
    train_write_config(dir, text);
    snprintf(line, sizeof line,
             "--init %s --seq-length %lld --micro-batch 2 --grad-accum 2 --dtype %s --host-memory "
             "4TiB %s",
             dir, (long long)seq, dtype, placement);
    oc_config *c = train_config(OC_CMD_PLAN, line, &err);
    if (!c || oc_setup_open(&s, c, NULL, &err) != OC_OK) fail_msg("%s\n%s", line, err.message);
    for (int t = 0; t < OC_TIER_COUNT; t++) {
        n.workspace += oc_setup_use_bytes(s, (oc_tier)t, OC_USE_WORKSPACE);
        n.activations += oc_setup_use_bytes(s, (oc_tier)t, OC_USE_ACTIVATIONS);
        n.all += oc_setup_tier_bytes(s, (oc_tier)t);
    }
    oc_setup_close(s);
    oc_config_free(c);
    return n;
}

/* Twice the vocabulary: at most the logits of one tile more, and those are there already. (What is
 * not asked for, the first placement, may keep logits where there is room.) */
static void the_workspace_does_not_grow_with_the_vocabulary(void **state) {
    char dir[SCRATCH_BYTES];
    (void)state;
    scratch_make(dir);
    for (size_t p = 1; p < sizeof placements / sizeof *placements; p++) {
        for (int k = 0; k < 4; k++) {
            const char *format = k < 2 ? llama : gpt2, *dtype = k % 2 ? "bf16" : "fp32";
            bool tied = k != 1;
            int64_t seq = 512, tile = 2 * seq * OC_HEAD_TILE * 4;
            needs one = plan(dir, format, 50257, tied, seq, dtype, placements[p]);
            needs two = plan(dir, format, 100514, tied, seq, dtype, placements[p]);
            assert_true(one.workspace > 0 && one.activations > 0);
            assert_true(two.all > one.all); /* it was planned: its weights are there */
            if (two.workspace > one.workspace + (uint64_t)tile || two.activations > one.activations)
                fail_msg("%s %s: %llu + %llu bytes became %llu + %llu", dtype, placements[p],
                         (unsigned long long)one.workspace, (unsigned long long)one.activations,
                         (unsigned long long)two.workspace, (unsigned long long)two.activations);
        }
    }
    train_remove(dir);
}

/* Twice the sequence: at most twice the workspace and twice the activations, up to alignment.
 * No S x S scores, no T x V logits. */
static void memory_grows_at_most_linearly_with_the_sequence(void **state) {
    char dir[SCRATCH_BYTES];
    enum { TILE = 1 << 20 };
    (void)state;
    scratch_make(dir);
    for (size_t p = 0; p < sizeof placements / sizeof *placements; p++) {
        for (int k = 0; k < 4; k++) {
            const char *format = k < 2 ? llama : gpt2, *dtype = k % 2 ? "bf16" : "fp32";
            needs one = plan(dir, format, 50257, true, 2048, dtype, placements[p]);
            for (int64_t seq = 4096; seq <= 16384; seq *= 2) {
                needs two = plan(dir, format, 50257, true, seq, dtype, placements[p]);
                if (two.workspace > 2 * one.workspace + TILE ||
                    two.activations > 2 * one.activations + TILE)
                    fail_msg("%s %s, %lld: %llu + %llu bytes became %llu + %llu", dtype,
                             placements[p], (long long)seq, (unsigned long long)one.workspace,
                             (unsigned long long)one.activations, (unsigned long long)two.workspace,
                             (unsigned long long)two.activations);
                one = two;
            }
        }
    }
    train_remove(dir);
}

/* 0.6 billion parameters in device budgets from the least upwards: what is reserved is at most 5 %
 * above what any layout of the same values would need. */
static void arenas_stay_within_five_percent_of_the_lower_bound(void **state) {
    static const char large[] =
        "{\"model_type\":\"llama\",\"hidden_size\":1024,\"intermediate_size\":3072,"
        "\"num_hidden_layers\":28,\"num_attention_heads\":16,\"num_key_value_heads\":8,"
        "\"head_dim\":128,\"vocab_size\":151936,\"max_position_embeddings\":40960,"
        "\"tie_word_embeddings\":true}";
    static const int budgets_mib[] = {120, 135, 150, 180, 220, 300, 500, 1000, 4000};
    char dir[SCRATCH_BYTES], line[TRAIN_LINE_BYTES];
    (void)state;
    scratch_make(dir);
    train_write_config(dir, large);
    for (size_t i = 0; i < sizeof budgets_mib / sizeof *budgets_mib; i++) {
        oc_error err = {OC_OK, ""};
        oc_setup *s = NULL;
        snprintf(line, sizeof line,
                 "--init %s --seq-length 1024 --micro-batch 1 --grad-accum 4 --dtype bf16 "
                 "--host-memory 4TiB --device-memory %dMiB",
                 dir, budgets_mib[i]);
        oc_config *c = train_config(OC_CMD_PLAN, line, &err);
        if (!c || oc_setup_open(&s, c, NULL, &err) != OC_OK) fail_msg("%s\n%s", line, err.message);
        for (int t = 0; t < OC_TIER_NVME; t++) {
            double arena = (double)s->set->arena_bytes[t];
            double bound = (double)oc_plan_lower_bound(s->set, (oc_tier)t);
            assert_true(bound > 0);
            if (arena > 1.05 * bound)
                fail_msg("%d MiB, %s: %.3f", budgets_mib[i], oc_tier_name((oc_tier)t),
                         arena / bound);
        }
        oc_setup_close(s);
        oc_config_free(c);
    }
    train_remove(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_workspace_does_not_grow_with_the_vocabulary),
        cmocka_unit_test(memory_grows_at_most_linearly_with_the_sequence),
        cmocka_unit_test(arenas_stay_within_five_percent_of_the_lower_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
