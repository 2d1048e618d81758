/* Every allocation can fail: the program ends with a message that says memory, or does what it
 * would have done; it never crashes, never writes something else, never takes away what was there.
 *
 * A library loaded before the others makes allocation N fail, or all from N on. Here some N of each
 * command; OC_SWEEP=1 tries every one (minutes). */
#include "cli_case.h"

#include <sys/stat.h>

#ifdef OC_FAIL_LIBRARY

enum { TRIES = 90 };

typedef struct command {
    const char *line;
    const char *output; /* a file that it writes; NULL: standard output alone */
    const char *last;   /* and one more */
} command;

static char *whole[3]; /* what the command leaves when nothing fails */

static char *copy_of_file(const char *path) {
    char *text = malloc(CLI_TEXT_BYTES);
    FILE *f = path ? fopen(path, "rb") : NULL;
    size_t n = f ? fread(text, 1, CLI_TEXT_BYTES - 1, f) : 0;
    if (f) fclose(f);
    for (size_t i = 0; i < n; i++)
        if (!text[i]) text[i] = 1;
    text[n] = 0;
    return text;
}

static void clean(const command *c) {
    cli_remove("out");
    if (c->output) (void)remove(c->output);
    if (c->last) (void)remove(c->last);
    (void)remove("answers.jsonl.run");
}

static cli_result *run_failing(const command *c, long at, long span) {
    char number[32];
    clean(c);
    snprintf(number, sizeof number, "%ld", at);
    assert_int_equal(setenv("OC_FAIL_AT", number, 1), 0);
    snprintf(number, sizeof number, "%ld", span);
    assert_int_equal(setenv("OC_FAIL_SPAN", number, 1), 0);
    assert_int_equal(setenv("LD_PRELOAD", OC_FAIL_LIBRARY, 1), 0);
    cli_result *r = cli_run(c->line);
    unsetenv("LD_PRELOAD");
    return r;
}

static long count_calls(const command *c) {
    char text[64] = "";
    assert_int_equal(setenv("OC_FAIL_COUNT", "calls", 1), 0);
    cli_result *r = run_failing(c, -1, 1);
    unsetenv("OC_FAIL_COUNT");
    if (r->code != 0) fail_msg("%s\n%s", c->line, cli_tail(r->err));
    whole[0] = copy_of_file("stdout");
    whole[1] = copy_of_file(c->output);
    whole[2] = copy_of_file(c->last);
    FILE *f = fopen("calls", "r");
    assert_non_null(f);
    assert_non_null(fgets(text, sizeof text, f));
    fclose(f);
    return strtol(text, NULL, 10);
}

static bool same(const char *path, const char *want) {
    char *got = copy_of_file(path);
    bool equal = strcmp(got, want) == 0;
    free(got);
    return equal;
}

static void check(const command *c, long at, long span) {
    cli_result *r = run_failing(c, at, span);
    char where[512];
    snprintf(where, sizeof where, "%s\nallocation %ld%s", c->line, at,
             span > 1 ? " and all after it" : "");
    if (r->signal) fail_msg("%s: signal %d\n%s", where, r->signal, cli_tail(r->err));
    if (r->code == 0) {
        if (!same("stdout", whole[0]) || !same(c->output, whole[1]) || !same(c->last, whole[2]))
            fail_msg("%s: exit 0, and something else was written\n%s", where, cli_tail(r->err));
        return;
    }
    if (r->code != 1 && r->code != 2) fail_msg("%s: exit %d\n%s", where, r->code, cli_tail(r->err));
    bool says = strstr(r->err, "memory") || strstr(r->err, "Memory");
    if (!says)
        fail_msg("%s: exit %d, and nothing said of memory:\n%s", where, r->code, cli_tail(r->err));
}

static void sweep(const command *c) {
    long n = count_calls(c), step = getenv("OC_SWEEP") ? 1 : n / TRIES + 1;
    print_message("%s: %ld allocations\n", c->line, n);
    assert_true(n > 100);
    for (long at = n % 7; at < n; at += step)
        check(c, at, 1);
    for (long at = n % 11; at < n; at += 3 * step)
        check(c, at, 1000000000);
    /* the last ones: where what was made is written */
    for (long at = n > 40 ? n - 40 : 0; at < n; at++)
        check(c, at, 1);
    for (int i = 0; i < 3; i++)
        free(whole[i]);
}

static void make_files(void) {
    if (cli_exists("model/model.safetensors")) return;
    cli_expect("train --init m --data d.txt --output model --max-steps 1 --seq-length 32 --quiet",
               0, "");
    cli_text("model/chat_template.jinja",
             "{% for m in messages %}{{ '<' + m['role'] + '>' }}{{ m.content | trim }}{% endfor %}"
             "{% if add_generation_prompt %}<assistant>{% endif %}");
    cli_text("say.json",
             "[{\"role\": \"user\", \"content\": \" hello \"}, {\"role\": \"assistant\", "
             "\"content\": \"there\"}]");
    cli_text("rows.jsonl",
             "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}, {\"role\": \"assistant\", "
             "\"content\": \"you\"}]}\n");
    cli_text("in.jsonl", "{\"prompt\": \"abc\", \"max_tokens\": 5}\n{\"prompt\": 3}\n");
}

#define RUN " --threads 1 --seq-length 32 --micro-batch 2 --quiet "

static void plan_survives_or_says_memory(void **state) {
    (void)state;
    make_files();
    sweep(&(command){.line = "plan --init m --device-memory 8MiB --json" RUN});
    sweep(&(command){
        .line = "plan generate --model model --json --quiet --threads 1 --device-memory 8MiB"});
}

static void train_survives_or_says_memory(void **state) {
    (void)state;
    make_files();
    sweep(&(command){
        .line =
            "train --model model --data rows.jsonl --output out --max-steps 2 --log log.jsonl" RUN,
        .output = "out/model.safetensors",
        .last = "out/config.json"});
}

static void eval_survives_or_says_memory(void **state) {
    (void)state;
    make_files();
    sweep(&(command){.line = "eval --model model --data d.txt --json" RUN});
    cli_text(
        "pairs.jsonl",
        "{\"prompt\": \"ab\", \"completion\": \"cd\"}\n"
        "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}], \"completion\": \"you\"}\n"
        "{\"prompt\": [5, 6], \"completion\": [7]}\n");
    sweep(&(command){.line = "eval --model model --data pairs.jsonl --scores scores.jsonl "
                             "--overwrite --json" RUN,
                     .output = "scores.jsonl"});
}

static void tokenize_survives_or_says_memory(void **state) {
    (void)state;
    make_files();
    sweep(&(command){.line = "tokenize --model model --messages say.json --generation-prompt"});
    sweep(&(command){.line = "tokenize --model model --data rows.jsonl --show-labels"});
    sweep(&(command){.line = "tokenize --model model --text hello"});
}

static void generate_survives_or_says_memory(void **state) {
    (void)state;
    make_files();
    sweep(&(command){
        .line = "generate --model model --threads 1 --quiet --json --chat --prompt hello you "
                "--max-new-tokens 6 --temperature 1 --logprobs 2 --ignore-eos"});
}

/* What an earlier run left is there as long as nothing new is. */
static void nothing_is_lost_for_want_of_memory(void **state) {
    command c = {
        .line =
            "train --model model --data rows.jsonl --output kept --overwrite --max-steps 1" RUN};
    (void)state;
    make_files();
    cli_expect("train --model model --data rows.jsonl --output kept --max-steps 1" RUN, 0, "");
    char *before = copy_of_file("kept/config.json");
    long n = count_calls(&c);
    for (long at = 0; at < n; at += n / 40 + 1) {
        (void)run_failing(&c, at, 1000000000);
        cli_result *r = cli_run("inspect kept/model.safetensors");
        if (r->code != 0 || !same("kept/config.json", before))
            fail_msg("allocations from %ld on fail: the model that was there is gone\n%s", at,
                     cli_tail(r->err));
    }
    free(before);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plan_survives_or_says_memory),
        cmocka_unit_test(train_survives_or_says_memory),
        cmocka_unit_test(eval_survives_or_says_memory),
        cmocka_unit_test(tokenize_survives_or_says_memory),
        cmocka_unit_test(generate_survives_or_says_memory),
        cmocka_unit_test(nothing_is_lost_for_want_of_memory),
    };
    return cmocka_run_group_tests(tests, cli_setup, cli_teardown);
}

#else

static void sanitizers_bring_allocators_of_their_own(void **state) {
    (void)state;
    skip();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(sanitizers_bring_allocators_of_their_own)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
