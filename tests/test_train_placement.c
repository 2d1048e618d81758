/* Placement changes no bit: wherever states live, however many slots and threads there are, in
 * whatever order micro-batches go through the blocks, losses, gradient norms and final weights are
 * the same. The expected values are those of the simplest placement: every state resident, nothing
 * moves. */
#include "base/checked.h"
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

/* A front block. */
static const char bloom[] =
    "{\"model_type\":\"bloom\",\"architectures\":[\"BloomForCausalLM\"],\"hidden_size\":36,"
    "\"n_head\":3,\"n_layer\":3,\"vocab_size\":1067}";

/* The first is the reference. Pieces are 256 KiB at least where it matters: the table's chunks of
 * 1024 rows are smaller than the default piece and larger than the small ones. */
static const char *const placements[] = {
    "--threads 2",
    "--threads 1",
    "--threads 3",
    "--recompute full",
    "--recompute none --piece 64KiB",
    "--micro-order breadth",
    "--micro-order interleave",
    "--slots 4 --slabs 3 --micro-order interleave --recompute none --delay-seed 4",
    "--slots 2 --slabs 1 --micro-order interleave --act-home host --debug-memory",
    "--serial-lanes",
    "--slots 1 --slabs 1 --act-home host --recompute full",
    "--slots 1 --slabs 1 --act-home device --recompute none --delay-seed 3",
    "--slots 2 --slabs 2 --act-home device --recompute full --threads 1",
    "--slots 2 --slabs 1 --act-home host --micro-order breadth --delay-seed 9",
    "--slots 3 --slabs 2 --recompute none --piece 32KiB",
    "--slots 4 --slabs 3 --recompute none --micro-order breadth --piece 256KiB --threads 3",
    "--slots 8 --slabs 3 --act-home device",
    "--slots 2 --slabs 2 --serial-lanes --threads 3",
    "--slots 2 --slabs 2 --debug-memory --delay-seed 5",
    "--slots 1 --slabs 2 --act-home host --micro-order breadth --debug-memory --piece 32KiB",
    "--debug-memory --recompute none",
    "--weights-home host --optimizer-home host --device-memory 1GiB",
    "--resident-blocks 2 --device-memory 1GiB",
    "--slots 2 --slabs 2 --recompute none --saved-home host --debug-memory --delay-seed 3",
    "--slots 2 --slabs 1 --recompute mid --saved-home host --micro-order interleave --debug-memory",
    "--slots 2 --slabs 2 --saved-home host --micro-order breadth --act-home host",
    "--debug-async --recompute none --saved-home host --delay-seed 4",
    "--resident-blocks 3 --device-memory 1GiB --slots 1 --slabs 1 --act-home host --debug-memory",
    "--weights-home device --optimizer-home host --device-memory 1GiB --debug-memory",
    "--weights-home host --optimizer-home device --device-memory 1GiB --debug-memory",
    "--recompute up,logits --slots 2 --slabs 2 --act-home host --debug-memory",
    "--recompute qkv,mid --slots 3 --slabs 1 --micro-order interleave --delay-seed 8",
    "--recompute attention --micro-order breadth --piece 64KiB",
    "--debug-async --recompute mid,up --slots 2 --slabs 2 --delay-seed 7",
    "--debug-async --recompute none --delay-seed 6",
    "--debug-async --slots 4 --slabs 2 --micro-order interleave --act-home host --debug-memory",
};
enum { PLACEMENTS = sizeof placements / sizeof *placements };

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

/* Packed documents, 3 micro-batches of 3 rows: an epoch is short of a whole batch, and one of its
 * micro-batches empty. */
static void command(char *line, const world *w, const char *dtype, const char *placement) {
    snprintf(line, TRAIN_LINE_BYTES,
             "--init %s --data %s/a.jsonl --output %s/out --seq-length 32 --micro-batch 3 "
             "--grad-accum 3 --max-steps 5 --lr 3e-3 --warmup-steps 1 --weight-decay 0.1 --dtype "
             "%s %s",
             w->dir, w->dir, w->dir, dtype, placement);
}

/* options: what the runs have in common beside that; they replace what stands before them. */
static void every_placement_with(const char *config, const char *dtype, const char *options) {
    world w;
    char line[TRAIN_LINE_BYTES], rest[256];
    train_result want, got;
    make(&w, config);
    for (int i = 0; i < PLACEMENTS; i++) {
        snprintf(rest, sizeof rest, "%s %s", options, placements[i]);
        command(line, &w, dtype, rest);
        train_run(line, i ? &got : &want);
        if (i == 0) assert_true(want.updates >= 4);
        if (i == 0) continue;
        train_assert_same(&want, &got, line);
        train_result_release(&got);
    }
    train_result_release(&want);
    train_remove(w.dir);
}

static void every_placement(const char *config, const char *dtype) {
    every_placement_with(config, dtype, "");
}

static void llama_fp32_is_the_same_in_every_placement(void **state) {
    (void)state;
    every_placement(llama, "fp32");
}
static void llama_bf16_is_the_same_in_every_placement(void **state) {
    (void)state;
    every_placement(llama, "bf16");
}
static void llama_fp16_is_the_same_in_every_placement(void **state) {
    (void)state;
    every_placement(llama, "fp16");
}
static void gpt2_fp32_is_the_same_in_every_placement(void **state) {
    (void)state;
    every_placement(gpt2, "fp32");
}
static void gpt2_bf16_is_the_same_in_every_placement(void **state) {
    (void)state;
    every_placement(gpt2, "bf16");
}
static void gpt2_fp16_is_the_same_in_every_placement(void **state) {
    (void)state;
    every_placement(gpt2, "fp16");
}

/* One micro-batch a step: a gradient is written once and keeps the compute dtype at home. */
static void one_micro_batch_is_the_same_in_every_placement(void **state) {
    (void)state;
    every_placement_with(llama, "bf16", "--grad-accum 1 --clip-grad-norm 0");
    every_placement_with(gpt2, "fp16", "--grad-accum 1");
}

/* Other optimizers keep other states. */
static void other_optimizers_are_the_same_in_every_placement(void **state) {
    (void)state;
    every_placement_with(llama, "bf16", "--optimizer sgd --lr 0.05");
    every_placement_with(llama, "fp32", "--optimizer sgd --momentum 0.9 --lr 0.05");
    every_placement_with(gpt2, "bf16", "--optimizer adam --no-packing");
}

/* Pieces of each block's weights that a plan moves in one way. */
static void count_moved(const oc_setup *s, const char *name, oc_op_kind kind, uint32_t moved[64]) {
    const oc_plan *p = &s->set->plans[oc_build_find(s->set, name)];
    for (uint32_t i = 0; i < p->n_ops; i++)
        if (p->ops[i].kind == kind && p->ops[i].piece != UINT32_MAX)
            moved[p->ops[i].block] += p->ops[i].pieces;
}

/* The plans of a step together: nothing is fetched, and each block's new weights come once. */
static void check_published_once(const oc_setup *s) {
    static const char *const names[] = {"first", "middle", "last", "update"};
    uint32_t fetched[64] = {0}, published[64] = {0};
    assert_true(s->model->n_blocks <= 64 && !s->build.place.resident);
    for (int i = 0; i < 4; i++) {
        count_moved(s, names[i], OC_OP_FETCH, fetched);
        count_moved(s, names[i], OC_OP_PUBLISH, published);
    }
    for (int32_t i = 0; i < s->model->n_blocks; i++) {
        assert_int_equal(fetched[i], 0);
        assert_int_equal(published[i],
                         oc_ceil_div(s->model->blocks[i].elements, s->build.place.piece_elements));
    }
}

static void weights_that_live_on_the_device_are_published_once_a_step(void **state) {
    (void)state;
    static const char *const models[] = {llama, gpt2, bloom};
    for (int i = 0; i < 3; i++) {
        world w;
        char line[TRAIN_LINE_BYTES];
        train_case t;
        make(&w, models[i]);
        command(line, &w, "bf16",
                "--weights-home device --optimizer-home host --device-memory 1GiB");
        train_open(&t, line);
        check_published_once(t.setup);
        train_close(&t);
        train_remove(w.dir);
    }
}

/* ---- budgets ---- */

/* Bytes of the least placement, and of the resident one when `resident` is not NULL. */
static uint64_t least_device(const world *w, const char *dtype, uint64_t *resident) {
    char line[TRAIN_LINE_BYTES];
    oc_error err = {OC_OK, ""};
    oc_setup *s = NULL;
    command(line, w, dtype, "--device-memory 1GiB");
    oc_config *c = train_config(OC_CMD_TRAIN, line, &err);
    assert_non_null(c);
    assert_int_equal(oc_setup_open(&s, c, NULL, &err), OC_OK);
    uint64_t bytes = s->minimum[OC_TIER_DEVICE];
    assert_true(s->build.place.resident);
    if (resident) *resident = s->set->arena_bytes[OC_TIER_DEVICE];
    oc_setup_close(s);
    oc_config_free(c);
    return bytes;
}

/* What the planner chose within a budget of the device; the arena keeps to it. */
static oc_placement run_within(const world *w, const char *dtype, uint64_t budget,
                               train_result *r) {
    char line[TRAIN_LINE_BYTES], option[64];
    train_case t;
    snprintf(option, sizeof option, "--device-memory %llu", (unsigned long long)budget);
    command(line, w, dtype, option);
    memset(r, 0, sizeof *r);
    train_open(&t, line);
    assert_true(t.setup->set->arena_bytes[OC_TIER_DEVICE] <= budget);
    oc_placement p = t.setup->build.place;
    train_steps(&t, (int)t.config->max_steps, r);
    train_snapshot(&t, r);
    train_close(&t);
    return p;
}

static bool same_kind(const oc_placement *a, const oc_placement *b) {
    return a->resident == b->resident && a->slots == b->slots && a->slabs == b->slabs &&
           a->act_slots == b->act_slots && a->kept_logits == b->kept_logits &&
           memcmp(a->kept, b->kept, sizeof a->kept) == 0;
}

static void every_budget(const char *config, const char *dtype) {
    world w;
    char line[TRAIN_LINE_BYTES];
    train_result want, got;
    make(&w, config);
    command(line, &w, dtype, placements[0]);
    train_run(line, &want);
    uint64_t most = 0, least = least_device(&w, dtype, &most);
    oc_placement last = {.slots = -1};
    int kinds = 0;
    for (uint64_t i = 0; i <= 16; i++) {
        uint64_t budget = least + (most - least) * i / 16;
        char what[64];
        oc_placement p = run_within(&w, dtype, budget, &got);
        assert_true(i > 0 || !p.resident);
        assert_true(i < 16 || p.resident);
        if (!same_kind(&p, &last)) kinds++;
        last = p;
        snprintf(what, sizeof what, "--device-memory %llu", (unsigned long long)budget);
        train_assert_same(&want, &got, what);
        train_result_release(&got);
    }
    assert_true(kinds >= 4); /* else the budgets tried show little */
    train_result_release(&want);
    train_remove(w.dir);
}

static void llama_runs_in_any_budget_from_the_least(void **state) {
    (void)state;
    every_budget(llama, "fp32");
}
static void gpt2_runs_in_any_budget_from_the_least(void **state) {
    (void)state;
    every_budget(gpt2, "bf16");
}

static void less_than_the_least_is_refused_by_the_bytes_that_fit(void **state) {
    static const uint64_t under[] = {1, 64 << 10};
    world w;
    char line[TRAIN_LINE_BYTES], option[64], fits[64];
    (void)state;
    make(&w, llama);
    uint64_t least = least_device(&w, "fp32", NULL);
    snprintf(fits, sizeof fits, "--device-memory %llu fits", (unsigned long long)least);
    for (size_t i = 0; i < sizeof under / sizeof *under; i++) {
        train_case t;
        oc_error err = {OC_OK, ""};
        snprintf(option, sizeof option, "--device-memory %llu",
                 (unsigned long long)(least - under[i]));
        command(line, &w, "fp32", option);
        assert_int_equal(train_try_open(&t, line, &err), OC_E_MEMORY);
        if (!strstr(err.message, fits)) fail_msg("no \"%s\" in: %s", fits, err.message);
    }
    train_remove(w.dir);
}

/* A budget of the host is kept as well: the message names what would do, and that does. */
static void too_little_host_memory_is_refused_by_the_bytes_that_fit(void **state) {
    world w;
    char line[TRAIN_LINE_BYTES], option[64];
    train_case t;
    oc_error err = {OC_OK, ""};
    (void)state;
    make(&w, llama);
    command(line, &w, "fp32", "--host-memory 1MiB");
    assert_int_equal(train_try_open(&t, line, &err), OC_E_MEMORY);
    const char *at = strstr(err.message, "--host-memory ");
    if (!at) fail_msg("%s", err.message);
    unsigned long long need = strtoull(at + strlen("--host-memory "), NULL, 10);
    /* the process itself is part of it and may have grown meanwhile */
    snprintf(option, sizeof option, "--host-memory %llu", need + (1u << 20));
    command(line, &w, "fp32", option);
    train_open(&t, line);
    train_close(&t);
    train_remove(w.dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama_fp32_is_the_same_in_every_placement),
        cmocka_unit_test(llama_bf16_is_the_same_in_every_placement),
        cmocka_unit_test(llama_fp16_is_the_same_in_every_placement),
        cmocka_unit_test(gpt2_fp32_is_the_same_in_every_placement),
        cmocka_unit_test(gpt2_bf16_is_the_same_in_every_placement),
        cmocka_unit_test(gpt2_fp16_is_the_same_in_every_placement),
        cmocka_unit_test(one_micro_batch_is_the_same_in_every_placement),
        cmocka_unit_test(other_optimizers_are_the_same_in_every_placement),
        cmocka_unit_test(weights_that_live_on_the_device_are_published_once_a_step),
        cmocka_unit_test(llama_runs_in_any_budget_from_the_least),
        cmocka_unit_test(gpt2_runs_in_any_budget_from_the_least),
        cmocka_unit_test(less_than_the_least_is_refused_by_the_bytes_that_fit),
        cmocka_unit_test(too_little_host_memory_is_refused_by_the_bytes_that_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
