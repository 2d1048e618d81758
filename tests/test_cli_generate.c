/* outcore generate as a user meets it: prompts, a conversation, files of requests; what is refused,
 * what is left when it is stopped, and what goes on from there. */
#include "cli_case.h"

#include <sys/stat.h>

static const char small[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"vocab_size\": 300, "
    "\"hidden_size\": 32, \"intermediate_size\": 48, \"num_hidden_layers\": 3, "
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"max_position_embeddings\": 256, "
    "\"rms_norm_eps\": 1e-6, \"rope_theta\": 10000.0, \"tie_word_embeddings\": true, "
    "\"initializer_range\": 0.5, \"eos_token_id\": 2}";

/* g: a model with the byte tokenizer and a template. */
static void make_model(void) {
    if (cli_exists("g/model.safetensors")) return;
    mkdir("i", 0700);
    cli_text("i/config.json", small);
    cli_text("d.txt", "a few words to train on, so that there is a model\n");
    cli_expect("train --init i --data d.txt --output g --max-steps 1 --lr 1e-9 --quiet", 0, "");
    cli_text("g/chat_template.jinja",
             "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
             "{% if add_generation_prompt %}<assistant>{% endif %}");
}

#define GENERATE "generate --model g --dtype fp32 --ignore-eos "

static char *copy_of(const char *text) {
    char *copy = strdup(text);
    assert_non_null(copy);
    return copy;
}

/* ---- prompts ---- */

static void one_prompt_is_text_and_several_are_in_order(void **state) {
    (void)state;
    make_model();
    cli_result *r = cli_run(GENERATE "--prompt hello --max-new-tokens 12 --quiet");
    assert_int_equal(r->code, 0);
    assert_true(strlen(r->out) > 1);
    char *one = copy_of(r->out);
    r = cli_run(GENERATE "--prompt hello bye hello --max-new-tokens 12 --batch 2 --quiet");
    assert_int_equal(r->code, 0);
    char want[4096];
    snprintf(want, sizeof want, "[0]\n%s", one);
    assert_memory_equal(r->out, want, strlen(want));
    snprintf(want, sizeof want, "\n[2]\n%s", one);
    assert_string_equal(r->out + strlen(r->out) - strlen(want), want);
    free(one);
}

static void json_rows_tell_why_they_ended_and_what_they_used(void **state) {
    (void)state;
    make_model();
    cli_result *r = cli_run(GENERATE "--prompt hello --max-new-tokens 5 --json --quiet");
    assert_int_equal(r->code, 0);
    assert_non_null(strstr(r->out, "\"finish_reason\":\"length\""));
    assert_non_null(strstr(r->out, "\"completion_tokens\":5"));
    r = cli_run(GENERATE
                "--prompt hello --max-new-tokens 200 --json --quiet --temperature 5 --stop "
                "a e i o u 1 2 3");
    assert_non_null(strstr(r->out, "\"finish_reason\":\"stop\""));
}

/* Every id but that of A ends an answer: so far as it may not end, it is As. */
static void end_at_all_but_a(void) {
    enum { BYTES = 8192 };
    char *text = malloc(BYTES);
    assert_non_null(text);
    int n = snprintf(text, BYTES, "{\"eos_token_id\": [0");
    for (int i = 1; i < 300; i++)
        if (i != 3 + 'A') n += snprintf(text + n, BYTES - (size_t)n, ", %d", i);
    snprintf(text + n, BYTES - (size_t)n, "]}");
    cli_text("g/generation_config.json", text);
    free(text);
}

static void an_answer_is_no_shorter_than_was_asked(void **state) {
    (void)state;
    make_model();
    end_at_all_but_a();
#define ENDED "generate --model g --dtype fp32 --quiet --max-new-tokens 9 "
    cli_result *r = cli_run(ENDED "--json --prompt hello");
    assert_non_null(strstr(r->out, "\"completion_tokens\":1}"));
    r = cli_run(ENDED "--json --prompt hello --min-new-tokens 5");
    assert_non_null(strstr(r->out, "\"text\":\"AAAAA\""));
    assert_non_null(strstr(r->out, "\"finish_reason\":\"stop\""));
    cli_text("least.jsonl", "{\"prompt\": \"hello\", \"min_tokens\": 3}\n{\"prompt\": \"hello\"}\n"
                            "{\"prompt\": \"hello\", \"min_new_tokens\": 10}\n");
    cli_expect(ENDED "--input least.jsonl --output least.out --min-new-tokens 2", 1, "");
    char *out = malloc(CLI_TEXT_BYTES);
    cli_read("least.out", out);
    assert_non_null(strstr(out, "\"text\":\"AAA\""));
    assert_non_null(strstr(out, "\"text\":\"AA\""));
    assert_non_null(strstr(out, "at least 10 tokens are asked for, and at most 9"));
    free(out);
    assert_int_equal(unlink("g/generation_config.json"), 0);
}

/* The same text in any batch, and another with another seed. */
static void a_seed_is_a_text(void **state) {
    (void)state;
    make_model();
#define DRAW GENERATE "--max-new-tokens 40 --temperature 1.5 --json --quiet --prompt "
    char *one = copy_of(cli_run(DRAW "abc --seed 5")->out);
    assert_string_equal(cli_run(DRAW "abc --seed 5 --threads 1")->out, one);
    char *three = copy_of(cli_run(DRAW "abc abc abc --seed 5")->out);
    assert_memory_equal(three, one, strlen(one));
    assert_string_not_equal(cli_run(DRAW "abc --seed 6")->out, one);
    /* rows draw from streams of their own */
    char *second = strchr(three, '\n') + 1;
    assert_true(strncmp(strstr(second, "text"), strstr(one, "text"), 20) != 0);
    free(one);
    free(three);
}

static void a_prompt_through_the_template_is_a_message(void **state) {
    (void)state;
    make_model();
    cli_text("say.jsonl", "{\"messages\": [{\"role\": \"system\", \"content\": \"s\"}, {\"role\": "
                          "\"user\", \"content\": \"hi\"}]}\n");
    cli_expect(GENERATE "--max-new-tokens 9 --input say.jsonl --output said.jsonl", 0, "");
    char *row = copy_of(""), *out = malloc(CLI_TEXT_BYTES);
    cli_read("said.jsonl", out);
    cli_result *r =
        cli_run(GENERATE "--quiet --json --max-new-tokens 9 --chat --system s --prompt hi");
    free(row);
    row = copy_of(strstr(r->out, "\"text\""));
    *strstr(row, ",\"usage\"") = 0;
    assert_non_null(strstr(out, row));
    free(row);
    free(out);
}

/* ---- what is refused ---- */

static void what_cannot_be_is_refused_before_it_starts(void **state) {
    (void)state;
    make_model();
    cli_text("in.jsonl", "{\"prompt\": \"x\"}\n");
    cli_text("there.jsonl", "{\"index\": 0}\n");
    static const struct {
        const char *line, *words;
    } rows[] = {
        {"generate --model g", "--prompt TEXT|--chat|--input"},
        {"generate --model g --prompt x --input in.jsonl --output o", "exclude each other"},
        {"generate --model g --input in.jsonl", "--output FILE"},
        {"generate --model g --input in.jsonl --output there.jsonl", "there.jsonl|--overwrite"},
        {"generate --model g --input in.jsonl --output in.jsonl --overwrite", "in.jsonl"},
        {"generate --model g --input none.jsonl --output o", "none.jsonl"},
        {"generate --model g --prompt x --temperature -1", "--temperature"},
        {"generate --model g --prompt x --top-p 1.5", "--top-p"},
        {"generate --model g --prompt x --max-new-tokens 0", "--max-new-tokens"},
        {"generate --model g --prompt x --batch 4096 --host-memory 4MiB --max-new-tokens 200",
         "host memory|--host-memory"},
        {"generate --model g --prompt x --device-memory 100KiB",
         "the device needs|--device-memory"},
        {"generate --model nowhere --prompt x", "nowhere"},
        {"generate --model g --prompt x --batchs 3", "--batchs|--batch"},
        {"plan generate --model g --prompt-tokens 10 --input in.jsonl", "--prompt-tokens"},
        {"train --init i --data d.txt --output o2 --temperature 1", "--temperature"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        cli_expect(rows[i].line, 2, rows[i].words);
    char line[2048] = "generate --model g --prompt ";
    memset(line + strlen(line), 'x', 300);
    cli_expect(line, 2, "301 tokens|256|nothing is left for an answer");
    assert_false(cli_exists("o"));
}

/* ---- plan ---- */

static void the_plan_is_what_a_run_takes(void **state) {
    (void)state;
    make_model();
    static char plan[CLI_TEXT_BYTES];
    snprintf(plan, sizeof plan, "%s",
             cli_run("plan generate --model g --dtype fp32 --prompt hello --max-new-tokens 12 "
                     "--device-memory 8MiB --resident-blocks 0 --quiet")
                 ->out);
    cli_result *r = cli_run(GENERATE "--prompt hello --max-new-tokens 12 --device-memory 8MiB "
                                     "--resident-blocks 0");
    assert_int_equal(r->code, 0);
    static const char *const lines[] = {"  device  ", "    weights  ", "    kv_cache  ",
                                        "    plan  "};
    for (int i = 0; i < 4; i++) {
        const char *want = strstr(plan, lines[i]);
        assert_non_null(want);
        char line[256];
        snprintf(line, sizeof line, "%.*s", (int)strcspn(want, ","), want);
        if (strchr(line, '\n')) *strchr(line, '\n') = 0;
        if (!strstr(r->err, line))
            fail_msg("generate does not say \"%s\":\n%s", line, cli_tail(r->err));
    }
    assert_non_null(strstr(plan, "batch  resident blocks"));
}

/* 64 sequences of 120 tokens have 46 MiB of pages in 12 layers, 4 MiB in each. */
static void pages_go_to_the_host_where_that_pays(void **state) {
    static const char line[] = "plan generate --init deep --dtype fp32 --prompt-tokens 90 "
                               "--max-new-tokens 30 --batch 64 --slots 2 --quiet --json "
                               "--pace h2d=1GB/s --device-memory %s --kv-home %s";
    char text[512];
    (void)state;
    mkdir("deep", 0700);
    cli_text("deep/config.json",
             "{\"model_type\": \"llama\", \"hidden_size\": 64, \"intermediate_size\": 128, "
             "\"num_hidden_layers\": 12, \"num_attention_heads\": 4, \"vocab_size\": 300, "
             "\"max_position_embeddings\": 128, \"tie_word_embeddings\": true}");
    snprintf(text, sizeof text, line, "64MiB", "auto");
    json_t *roomy = json_loads(cli_run(text)->out, 0, NULL);
    snprintf(text, sizeof text, line, "64MiB", "host");
    json_t *away = json_loads(cli_run(text)->out, 0, NULL);
    for (size_t i = 0; i < 3; i++) {
        json_t *x =
            json_array_get(json_object_get(json_object_get(roomy, "generation"), "batches"), i);
        json_t *y =
            json_array_get(json_object_get(json_object_get(away, "generation"), "batches"), i);
        assert_int_equal(json_integer_value(json_object_get(x, "kv_cache_layers_on_host")), 0);
        assert_true(json_integer_value(json_object_get(y, "kv_cache_layers_on_host")) > 0);
    }
    json_decref(roomy);
    json_decref(away);
    snprintf(text, sizeof text, line, "20MiB", "device");
    assert_int_not_equal(cli_run(text)->code, 0);
    snprintf(text, sizeof text, line, "20MiB", "auto");
    assert_int_equal(cli_run(text)->code, 0);
}

static void pages_are_as_many_as_are_asked_for(void **state) {
    (void)state;
    make_model();
    cli_expect(GENERATE "--prompt hello --max-new-tokens 2 --kv-home host --resident-blocks 1", 0,
               "--kv-home has an effect with --device-memory only|--resident-blocks has an effect");
    cli_expect(GENERATE "--prompt hello --max-new-tokens 90 --kv-tokens 64", 2,
               "--kv-tokens 64 is too few: the longest sequence takes 96");
    cli_expect(GENERATE "--prompt hello --max-new-tokens 20 --kv-tokens 320", 0, "10 pages of 32");
}

/* ---- files ---- */

static int count(const char *text, const char *what) {
    int n = 0;
    for (const char *at = text; (at = strstr(at, what)); at += strlen(what))
        n++;
    return n;
}

static void write_requests(const char *path, int rows) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (int i = 0; i < rows; i++) {
        if (i % 9 == 4)
            fprintf(f, "{\"prompt\": %d}\n", i);
        else if (i % 9 == 5)
            fprintf(f,
                    "{\"messages\": [{\"role\": \"user\", \"content\": \"row %d\"}], "
                    "\"max_tokens\": %d}\n",
                    i, 1 + i % 20);
        else
            fprintf(f, "{\"prompt\": \"row number %d\", \"max_tokens\": %d}\n", i, 1 + i * 7 % 30);
    }
    assert_int_equal(fclose(f), 0);
}

static char *read_all(const char *path) {
    char *text = malloc(CLI_TEXT_BYTES);
    cli_read(path, text);
    return text;
}

static void every_row_has_its_answer_in_order_whatever_the_batch(void **state) {
    static const char *const ways[] = {"--batch 1", "--batch 7 --prefill-chunk 16",
                                       "--batch 4 --row-groups 2",
                                       "--device-memory 8MiB --resident-blocks 1 --threads 1",
                                       "--device-memory 8MiB --kv-home host --row-groups 2"};
    (void)state;
    make_model();
    write_requests("in.jsonl", 60);
    /* rows that are errors: the exit says so */
    cli_expect(GENERATE "--batch-invariant --input in.jsonl --output out.jsonl", 1,
               "rows are errors");
    char *want = read_all("out.jsonl");
    assert_int_equal(count(want, "\n"), 60);
    assert_int_equal(count(want, "\"error\""), 7);
    for (int i = 0; i < 60; i++) {
        char index[32];
        snprintf(index, sizeof index, "\"index\":%d,", i);
        assert_int_equal(count(want, index), 1);
    }
    assert_false(cli_exists("out.jsonl.run"));
    for (int i = 0; i < 5; i++) {
        char line[256];
        snprintf(line, sizeof line,
                 GENERATE "--batch-invariant --input in.jsonl --output o%d.jsonl %s", i, ways[i]);
        cli_expect(line, 1, "");
        snprintf(line, sizeof line, "o%d.jsonl", i);
        char *got = read_all(line);
        assert_string_equal(got, want);
        free(got);
    }
    free(want);
}

static void openai_s_form_comes_back_in_openai_s_form(void **state) {
    (void)state;
    make_model();
    cli_text("ai.jsonl",
             "{\"custom_id\": \"a\", \"method\": \"POST\", \"url\": \"/v1/chat/completions\", "
             "\"body\": {\"model\": \"m\", "
             "\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}], \"max_tokens\": 4}}\n"
             "{\"custom_id\": \"b\", \"method\": \"POST\", \"url\": \"/v1/completions\", \"body\": "
             "{\"model\": \"m\", "
             "\"prompt\": \"hi\", \"max_tokens\": 4, \"n\": 3}}\n");
    cli_expect(GENERATE "--input ai.jsonl --output ai.out --overwrite", 1, "");
    char *out = read_all("ai.out");
    assert_non_null(strstr(out, "\"custom_id\":\"a\""));
    assert_non_null(strstr(out, "\"role\":\"assistant\""));
    assert_non_null(strstr(out, "\"status_code\":200"));
    assert_non_null(strstr(out, "\"status_code\":400"));
    free(out);
}

/* Killed at any moment: no row is lost, none is there twice, and the rest is what it would have
 * been. */
static void a_killed_run_goes_on_where_it_was(void **state) {
    int kills = 0;
    (void)state;
    make_model();
    write_requests("in.jsonl", 200);
#define RUN_ALL GENERATE "--batch-invariant --input in.jsonl --pace optim=20MB/s --output "
    cli_expect(RUN_ALL "whole.jsonl --overwrite", 1, "");
    char *want = read_all("whole.jsonl");
    for (int i = 0; i < 4; i++) {
        cli_result r;
        (void)remove("killed.jsonl");
        (void)remove("killed.jsonl.run");
        pid_t pid = cli_start(RUN_ALL "killed.jsonl");
        for (int k = 0; k < 4000 && cli_bytes("killed.jsonl") < 400 + 3000 * i; k++)
            cli_sleep_ms(1);
        (void)kill(pid, i == 3 ? SIGINT : SIGKILL);
        cli_wait(&r, pid);
        kills += r.signal == SIGKILL || r.code == 130;
        cli_expect(RUN_ALL "killed.jsonl --resume", 1, "");
        char *got = read_all("killed.jsonl");
        assert_string_equal(got, want);
        free(got);
    }
    assert_true(kills >= 2);
    cli_expect(GENERATE "--input in.jsonl --output whole.jsonl --resume", 2,
               "whole.jsonl is finished");
    free(want);
}

static void a_full_disk_keeps_whole_rows_and_says_so(void **state) {
    (void)state;
    make_model();
    write_requests("in.jsonl", 200);
    cli_file_limit = 3000;
    cli_result *r = cli_run(GENERATE "--input in.jsonl --output full.jsonl");
    cli_file_limit = RLIM_INFINITY;
    assert_true(r->code == 1 || r->signal == SIGXFSZ);
    if (r->code == 1) assert_non_null(strstr(r->err, "full.jsonl"));
    cli_expect(GENERATE "--input in.jsonl --output full.jsonl --resume", 1,
               "rows are there already");
    char *out = read_all("full.jsonl");
    assert_int_equal(count(out, "\n"), 200);
    free(out);
}

/* It can be read once only: nothing may look at it before. */
static void rows_of_standard_input_are_answered_as_a_files(void **state) {
    (void)state;
    make_model();
    cli_text("in.jsonl", "{\"prompt\": \"one\"}\n{\"prompt\": \"another\"}\n");
    cli_expect(GENERATE "--input in.jsonl --output named.jsonl --max-new-tokens 6", 0, "");
    cli_stdin = "in.jsonl";
    cli_expect(GENERATE "--input - --output - --max-new-tokens 6 --quiet", 0, "");
    cli_stdin = NULL;
    char *want = read_all("named.jsonl"), *got = read_all("stdout");
    assert_int_equal(count(want, "\n"), 2);
    assert_string_equal(got, want);
    free(want);
    free(got);
}

/* ---- a conversation ---- */

static char *talk(const char *said) {
    char line[512];
    cli_text("said", said);
    cli_stdin = "said";
    snprintf(line, sizeof line, GENERATE "--chat --max-new-tokens 8 --quiet --batch-invariant");
    cli_result *r = cli_run(line);
    cli_stdin = NULL;
    assert_int_equal(r->code, 0);
    return copy_of(r->out);
}

static void a_conversation_remembers_until_it_is_reset(void **state) {
    (void)state;
    make_model();
    char *once = talk("hello\n"), *twice = talk("hello\nhello\n"),
         *again = talk("hello\n/reset\nhello\n");
    char *block = talk("\"\"\"\nhello\n\"\"\"\n"), *left = talk("hello\n/exit\nhello\n");
    char want[512];
    assert_memory_equal(twice, once, strlen(once));
    snprintf(want, sizeof want, "%s%s", once, once);
    assert_string_equal(again, want);
    assert_string_not_equal(twice, again);
    assert_string_equal(block, once);
    assert_string_equal(left, once);
    free(once);
    free(twice);
    free(again);
    free(block);
    free(left);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_prompt_is_text_and_several_are_in_order),
        cmocka_unit_test(json_rows_tell_why_they_ended_and_what_they_used),
        cmocka_unit_test(an_answer_is_no_shorter_than_was_asked),
        cmocka_unit_test(a_seed_is_a_text),
        cmocka_unit_test(a_prompt_through_the_template_is_a_message),
        cmocka_unit_test(what_cannot_be_is_refused_before_it_starts),
        cmocka_unit_test(the_plan_is_what_a_run_takes),
        cmocka_unit_test(pages_go_to_the_host_where_that_pays),
        cmocka_unit_test(pages_are_as_many_as_are_asked_for),
        cmocka_unit_test(every_row_has_its_answer_in_order_whatever_the_batch),
        cmocka_unit_test(openai_s_form_comes_back_in_openai_s_form),
        cmocka_unit_test(a_killed_run_goes_on_where_it_was),
        cmocka_unit_test(a_full_disk_keeps_whole_rows_and_says_so),
        cmocka_unit_test(rows_of_standard_input_are_answered_as_a_files),
        cmocka_unit_test(a_conversation_remembers_until_it_is_reset),
    };
    return cmocka_run_group_tests(tests, cli_setup, cli_teardown);
}
