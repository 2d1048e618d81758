/* outcore eval --scores: each row's log-likelihood is transformers', and depends on nothing beside
 * the row. */
#include "cli_case.h"

#include <math.h>

#define SCORE "eval --model g --dtype fp32 --data in.jsonl --quiet "

/* g: a model with the byte tokenizer. */
static void make_model(void) {
    if (!cli_exists("g/model.safetensors")) cli_make_model("g");
}

static char *read_all(const char *path) {
    char *text = malloc(CLI_TEXT_BYTES);
    cli_read(path, text);
    return text;
}

/* ---- numbers from outside ---- */

static json_t *loaded(const char *path) {
    oc_error err;
    json_t *x = NULL;
    if (oc_json_load(&x, path, OC_JSON_NO_NUL, &err) != OC_OK) fail_msg("%s", err.message);
    return x;
}

static void write_rows(const char *path, const json_t *rows) {
    size_t i;
    json_t *row;
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    json_array_foreach(rows, i, row) {
        char *prompt = json_dumps(json_object_get(row, "prompt"), 0);
        char *completion = json_dumps(json_object_get(row, "completion"), 0);
        fprintf(f, "{\"prompt\": %s, \"completion\": %s}\n", prompt, completion);
        free(prompt);
        free(completion);
    }
    assert_int_equal(fclose(f), 0);
}

static json_t *row_of(char **at) {
    json_t *row = json_loadb(*at, strcspn(*at, "\n"), 0, NULL);
    assert_non_null(row);
    *at += strcspn(*at, "\n") + 1;
    return row;
}

static double check_row(const char *name, size_t i, const json_t *want, json_t *got) {
    double x = json_number_value(json_object_get(want, "log_likelihood"));
    double y = json_number_value(json_object_get(got, "log_likelihood"));
    bool greedy = json_is_true(json_object_get(want, "greedy"));
    if (!(fabs(x - y) <= 1e-5 * fmax(1, fabs(x))))
        fail_msg("%s, row %zu: %.9g, not %.9g", name, i, y, x);
    assert_int_equal(json_is_true(json_object_get(got, "is_greedy")), greedy);
    assert_int_equal(json_integer_value(json_object_get(got, "tokens")),
                     json_array_size(json_object_get(want, "completion")));
    json_decref(got);
    return y;
}

static size_t check_model(const char *name, const json_t *model) {
    const json_t *rows = json_object_get(model, "rows"), *want;
    char line[512], *text, *at;
    double sum = 0, tokens = 0;
    size_t i;
    write_rows("rows.jsonl", rows);
    snprintf(line, sizeof line,
             "eval --model " OC_TEST_DATA "/models/%s --dtype fp32 --seq-length %d --data "
             "rows.jsonl --scores %s.out --json --quiet",
             name, (int)json_integer_value(json_object_get(model, "longest")), name);
    cli_expect(line, 0, "");
    snprintf(line, sizeof line, "%s.out", name);
    at = text = read_all(line);
    json_array_foreach(rows, i, want) {
        sum += check_row(name, i, want, row_of(&at));
        tokens += (double)json_array_size(json_object_get(want, "completion"));
    }
    assert_int_equal(*at, 0);
    free(text);
    assert_true(sum < 0 && tokens > 0);
    return json_array_size(rows);
}

static void every_family_scores_as_transformers_does(void **state) {
    json_t *expected = loaded(OC_TEST_DATA "/scores.json"), *model;
    const char *name;
    size_t rows = 0;
    (void)state;
    json_object_foreach(expected, name, model) { rows += check_model(name, model); }
    assert_true(rows >= 300);
    json_decref(expected);
}

/* ---- rows of texts ---- */

/* Lengths from 0 to 60 tokens, a few errors among them. */
static void write_texts(const char *path, int first, int end) {
    static const char words[] = "a quick brown fox jumps over the lazy dog and away it goes";
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (int i = first; i < end; i++) {
        if (i % 11 == 5) fprintf(f, "{\"prompt\": %d, \"completion\": \"x\"}\n", i);
        if (i % 11 == 5) continue;
        fprintf(f, "{\"custom_id\": \"r%d\", \"prompt\": \"%.*s\", \"completion\": \"%.*s\"}\n", i,
                i * 7 % 40, words, i * 5 % 17, words + i % 20);
    }
    assert_int_equal(fclose(f), 0);
}

static void nothing_depends_on_where_anything_lives_or_on_the_batch(void **state) {
    static const char *const ways[] = {
        "--micro-batch 1", "--micro-batch 3 --threads 1", "--debug-async --delay-seed 3",
        "--device-memory 64MiB --resident-blocks 0 --slots 1",
        "--device-memory 64MiB --resident-blocks 1 --slots 2 --debug-memory --micro-batch 2"};
    (void)state;
    make_model();
    write_texts("in.jsonl", 0, 120);
    cli_expect(SCORE "--scores whole.out", 1, "11 rows are errors");
    char *want = read_all("whole.out"), line[256];
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        snprintf(line, sizeof line, SCORE "--scores way.out --overwrite %s", ways[i]);
        cli_expect(line, 1, "");
        char *got = read_all("way.out");
        assert_string_equal(got, want);
        free(got);
    }
    free(want);
}

static double score_of(json_t *row) {
    double x = json_number_value(json_object_get(row, "log_likelihood"));
    json_decref(row);
    return x;
}

/* Up to 400 tokens, so that attention goes over several blocks of keys. */
static void write_long(const char *path, int first, int end) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (int i = first; i < end; i++) {
        fprintf(f, "{\"prompt\": [3");
        for (int k = 0; k < i * 53 % 390; k++)
            fprintf(f, ", %d", 3 + (i * 31 + k * k) % 250);
        fprintf(f, "], \"completion\": [%d, 9, 8, 7]}\n", 20 + i);
    }
    assert_int_equal(fclose(f), 0);
}

static void a_row_does_not_depend_on_its_neighbours(void **state) {
    (void)state;
    make_model();
    write_long("in.jsonl", 0, 40);
    cli_expect(SCORE "--seq-length 400 --scores many.out --overwrite", 0, "");
    char *many = read_all("many.out"), *at = many;
    for (int i = 0; i < 40; i++) {
        double x = score_of(row_of(&at));
        if (i % 4 != 3) continue;
        write_long("in.jsonl", i, i + 1);
        cli_expect(SCORE "--seq-length 400 --scores one.out --overwrite", 0, "");
        char *one = read_all("one.out"), *only = one;
        assert_true(score_of(row_of(&only)) == x);
        free(one);
    }
    free(many);
}

static void the_sum_of_the_rows_is_the_loss(void **state) {
    double sum = 0, tokens = 0;
    (void)state;
    make_model();
    write_texts("in.jsonl", 12, 16);
    cli_expect(SCORE "--scores sum.out --json --overwrite", 0, "");
    json_t *said = loaded("stdout");
    char *text = read_all("sum.out"), *at = text;
    while (*at) {
        json_t *row = row_of(&at);
        tokens += (double)json_integer_value(json_object_get(row, "tokens"));
        sum -= score_of(row);
    }
    double loss = json_number_value(json_object_get(said, "loss"));
    assert_true(tokens > 0 && json_number_value(json_object_get(said, "tokens")) == tokens);
    assert_true(fabs(loss * tokens - sum) <= 1e-12 * sum);
    assert_true(fabs(json_number_value(json_object_get(said, "perplexity")) - exp(loss)) <
                1e-9 * exp(loss));
    json_decref(said);
    free(text);
}

/* As training has it: eos aside, its loss is that of the same pairs. */
static void scores_agree_with_the_loss_of_training_data(void **state) {
    (void)state;
    make_model();
    cli_text("ids.jsonl",
             "{\"input_ids\": [9, 8, 7, 40, 41], \"labels\": [-100, -100, 7, 40, 41]}\n");
    cli_expect("eval --model g --dtype fp32 --data ids.jsonl --seq-length 16 --json --quiet", 0,
               "");
    json_t *loss = loaded("stdout");
    cli_text("in.jsonl", "{\"prompt\": [9, 8], \"completion\": [7, 40, 41]}\n");
    cli_expect(SCORE "--scores pair.out --json", 0, "");
    json_t *pair = loaded("stdout");
    double x = json_number_value(json_object_get(loss, "loss"));
    assert_true(fabs(json_number_value(json_object_get(pair, "loss")) - x) < 1e-6 * x);
    assert_int_equal(json_integer_value(json_object_get(pair, "tokens")), 3);
    json_decref(loss);
    json_decref(pair);
}

/* Which can be read once only: nothing may look at it before. */
static void rows_of_standard_input_are_scored_as_a_files(void **state) {
    (void)state;
    make_model();
    write_texts("in.jsonl", 12, 16);
    cli_expect(SCORE "--scores named.out", 0, "");
    cli_stdin = "in.jsonl";
    cli_expect("eval --model g --dtype fp32 --data - --scores - --quiet", 0, "loss ");
    cli_stdin = NULL;
    char *want = read_all("named.out"), *got = read_all("stdout");
    assert_string_equal(got, want);
    free(want);
    free(got);
}

/* ---- runs that end early ---- */

static cli_result *score_by(const char *model, const char *how) {
    char line[256];
    snprintf(line, sizeof line, "eval --model %s --dtype fp32 --data in.jsonl --quiet --scores %s",
             model, how);
    return cli_run(line);
}

static void check_going_on(const char *model) {
    assert_int_equal(score_by(model, "all.out --overwrite --json")->code, 1);
    char *want = read_all("all.out"), *said = read_all("stdout");
    for (rlim_t limit = 300; limit < 8000; limit += 2900) {
        cli_file_limit = limit;
        cli_result *r = score_by(model, "part.out --overwrite");
        cli_file_limit = RLIM_INFINITY;
        assert_true(r->code == 1 || r->signal == SIGXFSZ);
        assert_true(cli_bytes("part.out") <= (long long)limit && cli_exists("part.out.run"));
        assert_int_equal(score_by(model, "part.out --resume --json")->code, 1);
        char *got = read_all("part.out"), *now = read_all("stdout");
        assert_string_equal(got, want);
        assert_string_equal(now, said);
        assert_false(cli_exists("part.out.run"));
        free(got);
        free(now);
    }
    free(want);
    free(said);
}

static void a_run_that_was_cut_short_goes_on(void **state) {
    (void)state;
    make_model();
    write_texts("in.jsonl", 0, 120);
    check_going_on("g");
}

/* The embedding of `token` in n is no number. */
static void break_token(int token) {
    unsigned char head[1 << 14], none[32 * sizeof(float)]; /* a row: hidden_size of cli_config */
    uint64_t length;
    FILE *f = fopen("n/model.safetensors", "r+");
    assert_non_null(f);
    assert_int_equal(fread(&length, sizeof length, 1, f), 1);
    assert_true(length < sizeof head && fread(head, 1, length, f) == length);
    json_t *tensors = json_loadb((char *)head, length, 0, NULL), *first = NULL;
    assert_int_equal(
        json_unpack(tensors, "{s:{s:[o]}}", "model.embed_tokens.weight", "data_offsets", &first),
        0);
    long at = (long)(sizeof length + length) + (long)json_integer_value(first);
    json_decref(tensors);
    memset(none, 0xff, sizeof none);
    assert_int_equal(fseek(f, at + token * (long)sizeof none, SEEK_SET), 0);
    assert_int_equal(fwrite(none, 1, sizeof none, f), sizeof none);
    assert_int_equal(fclose(f), 0);
}

/* Nor does a sum that is none become one when later rows are gone on with. */
static void a_row_that_is_no_number_leaves_its_neighbours_alone(void **state) {
    (void)state;
    cli_make_model("n");
    write_texts("in.jsonl", 0, 120);
    char *rows = read_all("in.jsonl"), *both = malloc(CLI_TEXT_BYTES);
    snprintf(both, CLI_TEXT_BYTES, "{\"prompt\": [8, 200, 8], \"completion\": [9, 9]}\n%s", rows);
    cli_text("in.jsonl", both);
    assert_int_equal(score_by("n", "sound.out --json")->code, 1);
    char *sound = read_all("sound.out");
    break_token(200);
    check_going_on("n");
    char *broken = read_all("all.out");
    assert_non_null(strstr(broken, "{\"index\":0,\"log_likelihood\":null,\"tokens\":2,"));
    assert_string_equal(strchr(broken, '\n'), strchr(sound, '\n'));
    free(rows);
    free(both);
    free(sound);
    free(broken);
}

/* Those of phi3-long are others behind 16 tokens. */
static void rotary_positions_that_go_by_the_longest_row_are_told(void **state) {
    static const char line[] = "eval --model " OC_TEST_DATA "/models/phi3-long --dtype fp32 "
                               "--overwrite --data in.jsonl --scores rope.out",
                      told[] = "rotary positions are those of sequences of 17 tokens";
    char set[512];
    (void)state;
    snprintf(set, sizeof set, "%s --seq-length 64", line);
    cli_text("in.jsonl", "{\"prompt\": [5, 6], \"completion\": [7]}\n");
    assert_null(strstr(cli_run(line)->err, "rotary"));
    cli_text("in.jsonl", "{\"prompt\": [5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16], "
                         "\"completion\": [5, 6, 7, 8, 9]}\n");
    cli_expect(line, 0, told);
    assert_null(strstr(cli_run(set)->err, "rotary"));
}

static void what_cannot_be_scored_is_said(void **state) {
    (void)state;
    make_model();
    write_texts("in.jsonl", 0, 4);
    cli_expect("eval --model g --data in.jsonl --overwrite", 2, "--overwrite goes with --scores");
    cli_expect("eval --model g --data in.jsonl d.txt --scores o.out", 2,
               "one --data file, not of 2");
    cli_expect(SCORE "--scores o.out --lost-messages drop", 2, "scored whole or is an error");
    cli_expect("eval --model g --data - --scores o.out --resume", 2, "--data must be a file");
    cli_expect("eval --model g --data in.jsonl --scores said.out --no-packing", 0,
               "--no-packing has no effect on --scores");
    cli_expect(SCORE "--scores in.jsonl", 2, "--scores in.jsonl is the file of --data");
    cli_expect(SCORE "--scores o.out", 0, "");
    cli_expect(SCORE "--scores o.out", 2, "is there already");
    cli_text("in.jsonl", "{\"text\": \"abc\"}\n{\"prompt\": \"a\", \"completion\": [1]}\n"
                         "{\"prompt\": [3], \"completion\": [999]}\n"
                         "{\"prompt\": \"a\", \"completion\": \"\"}\n");
    cli_expect(SCORE "--scores bad.out", 1, "3 rows are errors");
    char *text = read_all("bad.out");
    assert_non_null(strstr(text, "a row to score is {\\\"prompt\\\", \\\"completion\\\"}"));
    assert_non_null(strstr(text, "\\\"completion\\\" is an array, not a text"));
    assert_non_null(strstr(text, "token id 999 is not in the model's vocabulary"));
    assert_non_null(
        strstr(text, "{\"index\":3,\"log_likelihood\":0.0,\"tokens\":0,\"is_greedy\":true}"));
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_family_scores_as_transformers_does),
        cmocka_unit_test(nothing_depends_on_where_anything_lives_or_on_the_batch),
        cmocka_unit_test(a_row_does_not_depend_on_its_neighbours),
        cmocka_unit_test(the_sum_of_the_rows_is_the_loss),
        cmocka_unit_test(scores_agree_with_the_loss_of_training_data),
        cmocka_unit_test(rows_of_standard_input_are_scored_as_a_files),
        cmocka_unit_test(a_run_that_was_cut_short_goes_on),
        cmocka_unit_test(a_row_that_is_no_number_leaves_its_neighbours_alone),
        cmocka_unit_test(rotary_positions_that_go_by_the_longest_row_are_told),
        cmocka_unit_test(what_cannot_be_scored_is_said),
    };
    return cmocka_run_group_tests(tests, cli_setup, cli_teardown);
}
