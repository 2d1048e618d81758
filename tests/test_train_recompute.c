/* What a backward needs is kept or made again, value by value. Which is which changes no bit, and
 * within a budget the planner keeps what spares most arithmetic. */
#include "model/program.h"
#include "train_case.h"

static const char *const models[] = {
    "{\"model_type\":\"llama\",\"architectures\":[\"LlamaForCausalLM\"],\"hidden_size\":40,"
    "\"intermediate_size\":72,\"num_hidden_layers\":3,\"num_attention_heads\":4,"
    "\"num_key_value_heads\":2,\"vocab_size\":1100,\"max_position_embeddings\":64,"
    "\"rms_norm_eps\":1e-5,\"tie_word_embeddings\":false}",
    /* post norms and norms of q and k; parallel, and chunks of several tiles; post; each keeps
       other values */
    "{\"model_type\":\"gemma3_text\",\"architectures\":[\"Gemma3ForCausalLM\"],\"hidden_size\":40,"
    "\"intermediate_size\":72,\"num_hidden_layers\":3,\"num_attention_heads\":4,"
    "\"num_key_value_heads\":2,\"head_dim\":10,\"vocab_size\":1100,\"sliding_window\":8,"
    "\"max_position_embeddings\":64,\"tie_word_embeddings\":true}",
    "{\"model_type\":\"gpt_neox\",\"architectures\":[\"GPTNeoXForCausalLM\"],\"hidden_size\":36,"
    "\"intermediate_size\":1200,\"num_hidden_layers\":3,\"num_attention_heads\":3,"
    "\"vocab_size\":2500,\"max_position_embeddings\":64,\"use_parallel_residual\":true,"
    "\"rotary_pct\":0.5,\"tie_word_embeddings\":false}",
    "{\"model_type\":\"opt\",\"architectures\":[\"OPTForCausalLM\"],\"hidden_size\":36,"
    "\"word_embed_proj_dim\":36,\"ffn_dim\":72,\"num_hidden_layers\":3,\"num_attention_heads\":3,"
    "\"max_position_embeddings\":64,\"vocab_size\":1100,\"do_layer_norm_before\":false}",
};
enum { MODELS = sizeof models / sizeof *models, SETS = 1 << (OC_SAVED_COUNT + 1) };

/* Taken in turn, so that each set of values meets some of them. */
static const char *const placements[] = {
    "",
    "--slots 2 --slabs 2 --act-home host --debug-memory",
    "--micro-order interleave --slots 3 --slabs 2 --act-home device",
    "--micro-order breadth --slots 2 --slabs 1 --piece 128KiB --delay-seed 5",
    "--threads 3 --debug-memory",
    "--slots 1 --slabs 1 --micro-order interleave --act-home host",
    "--debug-async --delay-seed 2",
};
enum { PLACEMENTS = sizeof placements / sizeof *placements };

typedef struct world {
    char dir[SCRATCH_BYTES];
} world;

static void make(world *w, const char *config) {
    static const train_rows rows = {
        .rows = 14, .least = 5, .most = 40, .vocab = 1060, .ignored = 20};
    scratch_make(w->dir);
    train_write_config(w->dir, config);
    train_write_rows(w->dir, "a.jsonl", &rows);
}

static void command(char *line, const world *w, const char *placement) {
    snprintf(line, TRAIN_LINE_BYTES,
             "--init %s --data %s/a.jsonl --output %s/out --seq-length 32 --micro-batch 2 "
             "--grad-accum 3 --max-steps 3 --lr 3e-3 --dtype bf16 %s",
             w->dir, w->dir, w->dir, placement);
}

static const char *name_of(int v) {
    return v == OC_SAVED_COUNT ? "logits" : oc_saved_name((oc_saved)v);
}

/* --recompute for a set of values; no list means none. */
static void option_of(int set, char *out, size_t n) {
    size_t at = (size_t)snprintf(out, n, "--recompute %s", set ? "" : "none");
    for (int v = 0; v <= OC_SAVED_COUNT; v++)
        if (set >> v & 1)
            at += (size_t)snprintf(out + at, n - at, "%s%s", set & ((1 << v) - 1) ? "," : "",
                                   name_of(v));
}

static void check_kept(const oc_setup *s, int set) {
    for (int v = 0; v < OC_SAVED_COUNT; v++) {
        bool there = oc_program_backward_reads(&s->model->decoder, (oc_saved)v);
        int32_t all = there && !(set >> v & 1) ? s->model->n_layers : 0;
        assert_int_equal(oc_build_kept(&s->build, (oc_saved)v), all);
    }
    bool logits = set && !(set >> OC_SAVED_COUNT & 1);
    assert_int_equal(s->build.place.kept_logits, logits ? s->model->n_head : 0);
}

static void run_set(const world *w, int set, const char *placement, train_result *r) {
    char line[TRAIN_LINE_BYTES], option[128], rest[256];
    train_case t;
    memset(r, 0, sizeof *r);
    option_of(set, option, sizeof option);
    snprintf(rest, sizeof rest, "%s %s", option, placement);
    command(line, w, rest);
    train_open(&t, line);
    check_kept(t.setup, set);
    train_steps(&t, (int)t.config->max_steps, r);
    train_snapshot(&t, r);
    train_close(&t);
}

static void whatever_is_made_again_gives_the_same_bits(void **state) {
    (void)state;
    for (int m = 0; m < MODELS; m++) {
        world w;
        train_result want, got;
        make(&w, models[m]);
        run_set(&w, 0, "", &want);
        assert_true(want.updates >= 2);
        for (int set = 1 + m % 3; set < SETS; set += 3) { /* each with one model at least */
            char what[160];
            const char *placement = placements[(set + m) % PLACEMENTS];
            run_set(&w, set, placement, &got);
            snprintf(what, sizeof what, "model %d, set %x, %s", m, (unsigned)set, placement);
            train_assert_same(&want, &got, what);
            train_result_release(&got);
        }
        train_result_release(&want);
        train_remove(w.dir);
    }
}

/* Placements in which the last layers keep other values than those before. */
static void layers_may_keep_different_values(void **state) {
    (void)state;
    for (int m = 0; m < MODELS; m++) {
        world w;
        char line[TRAIN_LINE_BYTES], rest[96];
        train_result want, got;
        make(&w, models[m]);
        run_set(&w, 0, "", &want);
        command(line, &w, "--recompute full --device-memory 1GiB --slots 2 --slabs 2");
        uint64_t least = 0, most = 0;
        int mixed = 0;
        train_case t;
        train_open(&t, line);
        least = t.setup->set->arena_bytes[OC_TIER_DEVICE];
        train_close(&t);
        command(line, &w, "--recompute none --device-memory 1GiB --slots 2 --slabs 2");
        train_open(&t, line);
        most = t.setup->set->arena_bytes[OC_TIER_DEVICE];
        train_close(&t);
        for (uint64_t i = 0; i <= 8; i++) {
            snprintf(rest, sizeof rest, "--slots 2 --slabs 2 --device-memory %llu",
                     (unsigned long long)(least + (most - least) * i / 8));
            command(line, &w, rest);
            memset(&got, 0, sizeof got);
            train_open(&t, line);
            const int32_t *kept = t.setup->build.place.kept;
            mixed += kept[OC_SAVED_QKV] != kept[OC_SAVED_UP] || kept[OC_SAVED_QKV] % 3;
            train_steps(&t, (int)t.config->max_steps, &got);
            train_snapshot(&t, &got);
            train_close(&t);
            train_assert_same(&want, &got, rest);
            train_result_release(&got);
        }
        assert_true(mixed >= 2);
        train_result_release(&want);
        train_remove(w.dir);
    }
}

/* ---- what is worth keeping ---- */

static const char large[] =
    "{\"model_type\":\"llama\",\"architectures\":[\"LlamaForCausalLM\"],\"hidden_size\":2048,"
    "\"intermediate_size\":8192,\"num_hidden_layers\":24,\"num_attention_heads\":32,"
    "\"num_key_value_heads\":8,\"vocab_size\":32000,\"max_position_embeddings\":131072,"
    "\"rms_norm_eps\":1e-5,\"tie_word_embeddings\":false}";

/* Of a step's plans; device bytes into *bytes. */
static double flops_of(const oc_build_spec *spec, uint64_t *bytes) {
    oc_plan_set *set;
    oc_build_ids ids;
    oc_error err = {OC_OK, ""};
    double sum = 0;
    if (oc_build(spec, &set, &ids, &err) != OC_OK) fail_msg("%s", err.message);
    *bytes = set->arena_bytes[OC_TIER_DEVICE];
    const oc_plan *p = &set->plans[oc_build_find(set, "whole")];
    for (uint32_t i = 0; i < p->n_ops; i++)
        sum += p->ops[i].demand.flops;
    oc_build_ids_release(&ids);
    oc_plan_set_free(set);
    return sum;
}

/* The same placement, but with the last so many layers keeping all of theirs. */
static double flops_by_layers(const oc_setup *s, uint64_t budget) {
    for (int32_t k = s->model->n_layers; k >= 0; k--) {
        oc_build_spec spec = s->build;
        uint64_t bytes;
        for (int v = 0; v < OC_SAVED_COUNT; v++)
            spec.place.kept[v] = k;
        spec.place.kept_logits = 0;
        double flops = flops_of(&spec, &bytes);
        if (bytes <= budget) return flops;
    }
    fail_msg("nothing fits in %llu bytes", (unsigned long long)budget);
    return 0;
}

static void the_planner_keeps_what_spares_most_arithmetic(void **state) {
    (void)state;
    world w;
    int fewer = 0;
    make(&w, large);
    for (int64_t seq = 1024; seq <= 16384; seq *= 4)
        for (uint64_t mib = 1024; mib <= 16384; mib *= 2) {
            char line[TRAIN_LINE_BYTES];
            oc_error err = {OC_OK, ""};
            oc_setup *s = NULL;
            snprintf(line, sizeof line,
                     "--init %s --dtype bf16 --seq-length %lld --micro-batch 1 --slots 2 --slabs 2 "
                     "--host-memory 4TiB --device-memory %lluMiB --early-updates off",
                     w.dir, (long long)seq, (unsigned long long)mib);
            oc_config *c = train_config(OC_CMD_PLAN, line, &err);
            if (!c) fail_msg("%s", err.message);
            if (oc_setup_open(&s, c, NULL, &err) == OC_OK && !s->build.place.resident) {
                uint64_t bytes;
                double by_value = flops_of(&s->build, &bytes);
                double by_layer = flops_by_layers(s, mib << 20);
                assert_true(bytes <= mib << 20);
                if (by_value > by_layer)
                    fail_msg("seq %lld, %llu MiB: %g flops, by layers %g", (long long)seq,
                             (unsigned long long)mib, by_value, by_layer);
                fewer += by_value < by_layer;
            }
            oc_setup_close(s);
            oc_config_free(c);
        }
    assert_true(fewer >= 5);
    train_remove(w.dir);
}

static void a_million_tokens_of_an_8b_model_fit_in_80_gib(void **state) {
    (void)state;
    world w;
    char line[TRAIN_LINE_BYTES];
    oc_error err = {OC_OK, ""};
    oc_setup *s = NULL;
    make(&w, "{\"model_type\":\"llama\",\"architectures\":[\"LlamaForCausalLM\"],"
             "\"hidden_size\":4096,\"intermediate_size\":14336,\"num_hidden_layers\":32,"
             "\"num_attention_heads\":32,\"num_key_value_heads\":8,\"vocab_size\":128256,"
             "\"max_position_embeddings\":1048576,\"tie_word_embeddings\":false}");
    snprintf(line, sizeof line,
             "--init %s --dtype bf16 --seq-length 1048576 --micro-batch 1 --host-memory 4TiB "
             "--device-memory 80GiB",
             w.dir);
    oc_config *c = train_config(OC_CMD_PLAN, line, &err);
    if (!c || oc_setup_open(&s, c, NULL, &err) != OC_OK) fail_msg("%s", err.message);
    assert_true(s->minimum[OC_TIER_DEVICE] <= 74ull << 30);
    oc_setup_close(s);
    oc_config_free(c);
    train_remove(w.dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whatever_is_made_again_gives_the_same_bits),
        cmocka_unit_test(layers_may_keep_different_values),
        cmocka_unit_test(the_planner_keeps_what_spares_most_arithmetic),
        cmocka_unit_test(a_million_tokens_of_an_8b_model_fit_in_80_gib),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
