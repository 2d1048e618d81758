/* What a long sequence takes, as `plan` says for a llama of 8 billion parameters with one sequence
 * a micro-batch, layer inputs at home on the host and everything made again: it grows with the
 * tokens and with nothing else, and what docs/performance.md says of it is so. */
#include "cli_case.h"

#define GIB (1024.0 * 1024.0 * 1024.0)
#define MILLION (1 << 20)

typedef struct shape {
    int intermediate, vocab;
} shape;

static const shape llama_8b = {14336, 128256};

typedef struct bytes {
    double least, workspace, host; /* of the device: the least, and its workspace; of the host */
} bytes;

static void write_config(const shape *x) {
    char text[1024];
    snprintf(text, sizeof text,
             "{\"model_type\": \"llama\", \"architectures\": [\"LlamaForCausalLM\"],\n"
             " \"hidden_size\": 4096, \"intermediate_size\": %d, \"num_hidden_layers\": 32,\n"
             " \"num_attention_heads\": 32, \"num_key_value_heads\": 8, \"head_dim\": 128,\n"
             " \"vocab_size\": %d, \"max_position_embeddings\": 131072,\n"
             " \"tie_word_embeddings\": false}",
             x->intermediate, x->vocab);
    cli_text("m/config.json", text);
}

static double number(const json_t *root, const char *a, const char *b, const char *c,
                     const char *d) {
    const char *const path[] = {a, b, c, d};
    for (int i = 0; i < 4 && path[i]; i++)
        root = json_object_get(root, path[i]);
    if (!json_is_number(root)) fail_msg("no number %s.%s", a, b);
    return json_number_value(root);
}

/* A plan of m; what is at home nowhere else is on a host of any size. */
static json_t *plan(long long tokens, double device_memory, const char *more) {
    char line[512];
    snprintf(line, sizeof line,
             "plan --init m --dtype bf16 --micro-batch 1 --grad-accum 1 --seq-length %lld "
             "--act-home host --recompute full --threads 2 --host-memory 4000GiB "
             "--device-memory %.0f --json %s",
             tokens, device_memory, more);
    cli_expect(line, 0, "");
    json_t *root = json_loads(cli_run(line)->out, 0, NULL);
    assert_non_null(root);
    return root;
}

/* With the least device memory, so that what is counted is what must be there. */
static bytes least(long long tokens, const char *more) {
    json_t *root = plan(tokens, 4000 * GIB, more);
    bytes b = {.least = number(root, "minimum", "device", NULL, NULL)};
    json_decref(root);
    root = plan(tokens, b.least, more);
    assert_true(number(root, "tiers", "device", "bytes", NULL) == b.least);
    b.workspace = number(root, "tiers", "device", "by_use", "workspace");
    b.host = number(root, "tiers", "host", "bytes", NULL);
    json_decref(root);
    return b;
}

static void assert_near(const char *what, double a, double b, double tolerance) {
    double off = a > b ? a - b : b - a;
    if (!(off <= tolerance * b)) fail_msg("%s: %.17g, not %.17g", what, a, b);
}

/* ---- tests ---- */

static bytes rise(const bytes *from, const bytes *to, long long tokens) {
    double n = (double)tokens;
    return (bytes){(to->least - from->least) / n, (to->workspace - from->workspace) / n,
                   (to->host - from->host) / n};
}

/* Each phase of a step is a constant and so much a token, and the least is that of the largest:
 * the mlp's half of a layer's backward for short sequences, the attention's from 100,000 tokens on.
 * So it is a line from there, and before it there is nothing steeper. */
static void device_and_host_memory_are_linear_in_tokens(void **state) {
    static const long long tokens[] = {65536, 131072, 262144, 524288, MILLION};
    bytes b[5], each[4];
    (void)state;
    write_config(&llama_8b);
    for (int i = 0; i < 5; i++)
        b[i] = least(tokens[i], "");
    for (int i = 0; i < 4; i++)
        each[i] = rise(&b[i], &b[i + 1], tokens[i + 1] - tokens[i]);
    print_message("a token: %.1f bytes, %.1f of them workspace; host %.1f\n", each[3].least,
                  each[3].workspace, each[3].host);
    for (int i = 1; i < 4; i++) {
        assert_near("device bytes a token", each[i].least, each[3].least, 1e-6);
        assert_near("workspace a token", each[i].workspace, each[3].workspace, 1e-6);
        assert_near("host bytes a token", each[i].host, each[3].host, 1e-3);
    }
    assert_true(each[0].least <= each[3].least && each[0].least > 0.9 * each[3].least);
    assert_near("host bytes a token", each[0].host, each[3].host, 1e-3);
}

/* Twice as wide an mlp and twice the vocabulary: not a byte more a token. */
static void neither_mlp_nor_vocabulary_grows_with_tokens(void **state) {
    static const shape shapes[] = {{14336, 128256}, {28672, 128256}, {14336, 256512}};
    bytes first = {0};
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        write_config(&shapes[i]);
        bytes a = least(MILLION / 2, ""), b = least(MILLION, "");
        bytes each = rise(&a, &b, MILLION / 2);
        if (i == 0) first = each;
        assert_true(each.least > 0 && each.workspace > 0);
        assert_true(each.least == first.least && each.workspace == first.workspace);
    }
}

/* The tile decides what the mlp and the head take: their widths times its rows. */
static void a_smaller_tile_takes_less_and_a_whole_one_grows(void **state) {
    (void)state;
    write_config(&llama_8b);
    double none = least(65536, "--token-tile 65536").least, usual = least(65536, "").least;
    double small = least(65536, "--token-tile 256").least;
    assert_true(small <= usual && usual < none);
    /* u is 2 x 14336 wide, a 14336, in 2 bytes */
    assert_true(none - usual > 0.5 * (65536 - 4096) * 3 * 14336 * 2);
    json_t *root = plan(65536, 80 * GIB, "--token-tile 300");
    assert_true(number(root, "token_tile", NULL, NULL, NULL) == 300);
    json_decref(root);
}

static void a_million_tokens_fit_in_80_gib(void **state) {
    (void)state;
    write_config(&llama_8b);
    json_t *root = plan(MILLION, 80 * GIB, "");
    assert_true(number(root, "tiers", "device", "bytes", NULL) <= 80 * GIB);
    double most = number(root, "minimum", "device", NULL, NULL) / GIB;
    print_message("1,048,576 tokens: %.2f GiB is the least\n", most);
    assert_true(most <= 74);
    json_decref(root);
}

/* A row "| 65,536 | 8.31 GiB | 153.0 GiB |" as its numbers. */
static bool read_row(const char *line, double out[3]) {
    char plain[256];
    size_t n = 0;
    for (; *line && *line != '\n' && n + 1 < sizeof plain; line++)
        if (*line != ',') plain[n++] = *line;
    plain[n] = 0;
    char *at = plain;
    for (int i = 0; i < 3; i++) {
        at += strspn(at, "| GiBtokens");
        char *end = NULL;
        out[i] = strtod(at, &end);
        if (end == at) return false;
        at = end;
    }
    return true;
}

/* To half a percent: kernels of another machine may want other scratch. */
static void the_table_of_performance_md_is_what_plan_says(void **state) {
    char text[64 << 10], *at;
    int rows = 0;
    double row[3];
    (void)state;
    write_config(&llama_8b);
    FILE *f = fopen(OC_TEST_DATA "/../../docs/performance.md", "r");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    at = strstr(text, "## Long sequences");
    assert_non_null(at);
    char *next = strstr(at, "\n## ");
    if (next) *next = 0; /* tables of other sections are no concern */
    while ((at = strstr(at, "\n| ")) != NULL && *(at += 3)) {
        if (!read_row(at, row)) continue;
        bytes b = least((long long)row[0], "");
        assert_near("device, GiB", row[1], b.least / GIB, 5e-3);
        assert_near("host, GiB", row[2], b.host / GIB, 5e-3);
        rows++;
    }
    assert_int_equal(rows, 4);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, cli_setup, cli_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(device_and_host_memory_are_linear_in_tokens),
        CASE(neither_mlp_nor_vocabulary_grows_with_tokens),
        CASE(a_smaller_tile_takes_less_and_a_whole_one_grows),
        CASE(a_million_tokens_fit_in_80_gib),
        CASE(the_table_of_performance_md_is_what_plan_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
