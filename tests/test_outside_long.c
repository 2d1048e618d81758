/* A micro-batch of 262,144 tokens in no more device memory than the plan says is the least: the
 * mlp and the head go through it tile by tile. What is measured is what was planned, and the losses
 * are those of a run that takes all tokens at once. */
#include "base/json.h"
#include "program.h"

#include <math.h>
#include <sys/stat.h>

enum { TOKENS = 262144, VOCAB = 128, STEPS = 2 };

static const char llama[] =
    "{\"model_type\":\"llama\",\"architectures\":[\"LlamaForCausalLM\"],\"hidden_size\":32,"
    "\"intermediate_size\":96,\"num_hidden_layers\":2,\"num_attention_heads\":2,"
    "\"num_key_value_heads\":1,\"vocab_size\":128,\"max_position_embeddings\":262144,"
    "\"tie_word_embeddings\":false}";
static const char mistral[] =
    "{\"model_type\":\"mistral\",\"architectures\":[\"MistralForCausalLM\"],\"hidden_size\":32,"
    "\"intermediate_size\":96,\"num_hidden_layers\":2,\"num_attention_heads\":2,"
    "\"num_key_value_heads\":1,\"head_dim\":16,\"vocab_size\":128,\"sliding_window\":256,"
    "\"max_position_embeddings\":262144,\"tie_word_embeddings\":false}";

/* ---- a model, its rows, a run ---- */

static uint32_t next(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

static void write_row(FILE *f, int tokens, uint64_t *seed) {
    fprintf(f, "{\"input_ids\": [%d", (int)(next(seed) % VOCAB));
    for (int t = 1; t < tokens; t++)
        fprintf(f, ",%d", next(seed) % 4 ? t % 97 : (int)(next(seed) % VOCAB));
    fprintf(f, "]}\n");
}

/* Two sequences of rows, each at most `longest`: attention costs what a row is long, or a window
 * wide, not what the sequence is. */
static void make(char dir[SCRATCH_BYTES], const char *config, int longest) {
    char path[SCRATCH_BYTES];
    uint64_t seed = 5;
    scratch_make(dir);
    scratch_write(dir, "config.json", config);
    FILE *f = fopen(scratch_path(path, dir, "a.jsonl"), "w");
    assert_non_null(f);
    for (int left = 2 * TOKENS; left > 1;) {
        int n = longest < TOKENS ? longest / 4 + (int)(next(&seed) % (uint32_t)(longest * 3 / 4))
                                 : longest;
        if (n > left) n = left;
        write_row(f, n, &seed);
        left -= n;
    }
    assert_int_equal(fclose(f), 0);
}

/* device_memory 0: no budget. */
static void train(const char *dir, const char *dtype, int tile, uint64_t device_memory, int code,
                  program_result *r) {
    char line[2048], budget[64] = "";
    if (device_memory)
        snprintf(budget, sizeof budget, "--device-memory %llu", (unsigned long long)device_memory);
    snprintf(line, sizeof line,
             "train --init %s --data %s/a.jsonl --output %s/out --overwrite --no-shuffle "
             "--seq-length %d --micro-batch 1 --grad-accum 1 --max-steps %d --lr 1e-3 "
             "--act-home host --recompute full --dtype %s --log %s/log.jsonl --token-tile %d %s",
             dir, dir, dir, TOKENS, STEPS, dtype, dir, tile, budget);
    program_run(&(program_spec){.line = line, .dir = dir, .after = "\nstep 1/"}, r);
    if (r->code != code)
        fail_msg("outcore %s: exit code %d, signal %d\n%s", line, r->code, r->signal, r->text);
}

/* As a refusal tells. */
static uint64_t least_device_memory(const char *dir, const char *dtype, int tile) {
    static program_result r;
    train(dir, dtype, tile, 1, 2, &r);
    return program_number(&r, "the device needs ");
}

static void read_steps(const char *dir, double loss[STEPS], double norm[STEPS]) {
    char path[SCRATCH_BYTES];
    FILE *f = fopen(scratch_path(path, dir, "log.jsonl"), "r");
    assert_non_null(f);
    for (int i = 0; i < STEPS; i++) {
        json_t *row = json_loadf(f, JSON_DISABLE_EOF_CHECK, NULL);
        loss[i] = json_number_value(json_object_get(row, "loss"));
        norm[i] = json_number_value(json_object_get(row, "grad_norm"));
        assert_true(loss[i] > 0 && norm[i] > 0);
        json_decref(row);
    }
    fclose(f);
}

/* ---- what is compared ---- */

/* "device: N bytes planned (..), N measured": whole pages. */
static void assert_measured_is_planned(const program_result *r) {
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), planned = 0, measured = 0;
    const char *at = r->text;
    while ((at = strstr(at, "\ndevice: ")) != NULL) { /* "device: cpu" stands there as well */
        char *end = NULL;
        planned = strtoull(at += strlen("\ndevice: "), &end, 10);
        const char *comma = end > at ? strstr(end, "), ") : NULL;
        if (comma) measured = strtoull(comma + 3, NULL, 10);
    }
    assert_true(measured > 0);
    assert_int_equal(measured, (planned + page - 1) / page * page);
}

static void assert_seen_is_said(const program_result *r, const char *what) {
    double said = (double)program_number(r, "\n  process") / MIB;
    double seen = (double)r->anonymous / MIB;
    assert_true(r->looks >= 3);
    print_message("%s: %.2f MiB said, %.2f of it on the device, %.2f seen\n", what, said,
                  (double)program_number(r, "\n  device ") / MIB, seen);
    if (seen > said || said - seen > 2)
        fail_msg("%s: %.2f MiB were seen, the table says %.2f MiB\n%s", what, seen, said, r->text);
}

/* In the least device memory with this tile, which is returned; losses and gradient norms are those
 * wanted. */
static uint64_t follow(const char *dir, const char *dtype, int tile, const double want[STEPS],
                       const double want_norm[STEPS]) {
    static program_result r;
    double loss[STEPS], norm[STEPS];
    char what[64];
    snprintf(what, sizeof what, "%s, tiles of %d", dtype, tile);
    uint64_t least = least_device_memory(dir, dtype, tile);
    train(dir, dtype, tile, least, 0, &r);
    assert_int_equal(program_number(&r, "\n  device "), least);
    assert_measured_is_planned(&r);
    assert_seen_is_said(&r, what);
    read_steps(dir, loss, norm);
    for (int i = 0; i < STEPS; i++) {
        double off = fabs(loss[i] - want[i]) / want[i];
        double norm_off = fabs(norm[i] - want_norm[i]) / want_norm[i];
        print_message("    step %d: loss %.9g, off by %.2g; gradient norm %.9g, %.2g\n", i + 1,
                      loss[i], off, norm[i], norm_off);
        if (!(off <= 1e-5 && norm_off <= 1e-5)) fail_msg("%s: step %d differs", what, i + 1);
    }
    return least;
}

static void compare(const char *config, int longest, const char *dtype, int tile) {
    static program_result r;
    char dir[SCRATCH_BYTES];
    double want[STEPS], norm[STEPS];
    make(dir, config, longest);
    train(dir, dtype, TOKENS, 0, 0, &r);
    read_steps(dir, want, norm);
    assert_true(want[1] != want[0]);
    uint64_t whole = least_device_memory(dir, dtype, TOKENS);
    assert_true(follow(dir, dtype, tile, want, norm) < whole);
    scratch_remove(dir);
}

/* ---- tests ---- */

/* Of tiles of 5,000 tokens the last has 2,144. */
static void a_long_sequence_of_short_documents_fits_where_planned(void **state) {
    (void)state;
    if (SANITIZED) skip();
    compare(llama, 256, "fp32", 4096);
    compare(llama, 256, "bf16", 5000);
}

static void a_long_document_under_a_window_fits_where_planned(void **state) {
    (void)state;
    if (SANITIZED) skip();
    compare(mistral, TOKENS, "bf16", 4096);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_long_sequence_of_short_documents_fits_where_planned),
        cmocka_unit_test(a_long_document_under_a_window_fits_where_planned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
