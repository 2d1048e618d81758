/* Training data as users bring it, through the program: directories, compressed files, every form,
 * the model's own tokenizer; and what is saved beside the model. */
#include "base/fs.h"
#include "cli_case.h"
#include "packed.h"

#define BYTELEVEL OC_TEST_DATA "/data/bytelevel"
#define SMALL "--seq-length 32 --micro-batch 2 --threads 1 --max-steps 1 "

static const char talk[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}, "
                           "{\"role\": \"assistant\", \"content\": \"Hello\"}]}\n"
                           "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}, "
                           "{\"role\": \"assistant\", \"content\": \"Hello\", \"weight\": 0}]}\n";

static void copy(const char *from, const char *to) {
    char *text = NULL;
    size_t n;
    oc_error err;
    if (oc_fs_read(&text, &n, from, 1 << 24, &err) != OC_OK) fail_msg("%s", err.message);
    cli_write(to, text, n);
    free(text);
}

static bool same_file(const char *a, const char *b) {
    char *x = NULL, *y = NULL;
    size_t n, m;
    assert_int_equal(oc_fs_read(&x, &n, a, 1 << 24, NULL), OC_OK);
    assert_int_equal(oc_fs_read(&y, &m, b, 1 << 24, NULL), OC_OK);
    bool same = n == m && memcmp(x, y, n) == 0;
    free(x);
    free(y);
    return same;
}

/* w: a model of the fixture's tokenizer; its vocabulary has `vocab` ids. */
static void make_model(const char *vocab) {
    char config[1024];
    const char *at = strstr(cli_config, "259");
    cli_remove("w");
    mkdir("w", 0700);
    snprintf(config, sizeof config, "%.*s%s%s", (int)(at - cli_config), cli_config, vocab, at + 3);
    cli_text("w/config.json", config);
    copy(BYTELEVEL "/tokenizer.json", "w/tokenizer.json");
    copy(BYTELEVEL "/tokenizer_config.json", "w/tokenizer_config.json");
    cli_text("w/generation_config.json", "{\"eos_token_id\": 2}");
}

/* The model's tokenizer and template are used, and saved as they were. */
static void a_model_keeps_its_tokenizer(void **state) {
    (void)state;
    make_model("500");
    cli_text("talk.jsonl", talk);
    cli_expect("train --init w --data talk.jsonl --output o " SMALL, 0,
               "data: 2 rows; 1 packed, 0 split, 0 truncated, 1 dropped|3 targets");
    assert_string_equal(cli_list("o"), "config.json generation_config.json model.safetensors "
                                       "run.json tokenizer.json tokenizer_config.json");
    assert_true(same_file("o/tokenizer.json", "w/tokenizer.json"));
    assert_true(same_file("o/tokenizer_config.json", "w/tokenizer_config.json"));
    cli_expect("eval --model o --data talk.jsonl --seq-length 32", 0, "");
    cli_text(
        "o/chat_template.jinja",
        "{% for m in messages %}{% generation %}{{ m.content }}. {% endgeneration %}{% endfor %}");
    /* its marks make the first message of the other row a target too */
    cli_expect("train --model o --data talk.jsonl --output p " SMALL, 0, "2 rows; 2 packed");
    assert_true(same_file("p/chat_template.jinja", "o/chat_template.jinja"));
    assert_true(same_file("p/generation_config.json", "w/generation_config.json"));
    cli_remove("o");
    cli_remove("p");
}

/* Another tokenizer's files are saved, not the model's; its eos is not that of the model's
 * generation_config.json. */
static void another_tokenizer_takes_its_place(void **state) {
    (void)state;
    make_model("500");
    mkdir("t", 0700);
    copy(BYTELEVEL "/tokenizer.json", "t/tokenizer.json");
    cli_text("t/tokenizer_config.json", "{\"eos_token\": \"<|eot|>\"}");
    cli_text("text.jsonl", "{\"text\": \"Hello\"}\n");
    cli_expect("train --init w --tokenizer t --data text.jsonl --output o " SMALL, 0, "");
    assert_true(same_file("o/tokenizer_config.json", "t/tokenizer_config.json"));
    assert_false(cli_exists("o/generation_config.json"));
    cli_remove("o");
    cli_expect("train --init w --tokenizer bytes --data text.jsonl --output o " SMALL, 0, "");
    assert_false(same_file("o/tokenizer.json", "w/tokenizer.json"));
    assert_false(cli_exists("o/generation_config.json"));
    cli_remove("o");
    cli_expect("train --init w --tokenizer t --data talk.jsonl --output o " SMALL, 2,
               "talk.jsonl:1: the tokenizer has no chat template|chat_template.jinja");
    assert_string_equal(cli_list("o"), "absent");
}

/* Templates by name are saved as they were, and those of an earlier model do not stay. */
static void named_templates_go_with_their_model(void **state) {
    (void)state;
#define NAMED "additional_chat_templates"
    make_model("500");
    cli_text("text.jsonl", "{\"text\": \"Hello\"}\n");
    mkdir("w/" NAMED, 0700);
    cli_text("w/" NAMED "/tool_use.jinja", "{{ tools }}");
    cli_text("w/" NAMED "/rag.jinja", "{{ documents }}");
    cli_text("w/" NAMED "/notes.txt", "no template");
    cli_expect("train --init w --data text.jsonl --save-steps 1 --output o " SMALL, 0, "");
    assert_string_equal(cli_list("o/" NAMED), "rag.jinja tool_use.jinja");
    assert_string_equal(cli_list("o/checkpoint-1/" NAMED), "rag.jinja tool_use.jinja");
    assert_true(same_file("o/" NAMED "/tool_use.jinja", "w/" NAMED "/tool_use.jinja"));
    assert_int_equal(unlink("w/" NAMED "/rag.jinja"), 0);
    cli_expect("train --init w --data text.jsonl --overwrite --output o " SMALL, 0, "");
    assert_string_equal(cli_list("o/" NAMED), "tool_use.jinja");
    cli_remove("w/" NAMED);
    cli_expect("train --init w --data text.jsonl --overwrite --output o " SMALL, 0, "");
    assert_string_equal(cli_list("o"), "config.json generation_config.json model.safetensors "
                                       "run.json tokenizer.json tokenizer_config.json");
    cli_remove("o");
}

/* A tokenizer may know more than the model, until a row holds it. */
static void ids_beyond_the_model_are_named(void **state) {
    (void)state;
    make_model("400");
    cli_text("low.jsonl", "{\"text\": \"Hello\"}\n");
    cli_text("high.jsonl", "{\"text\": \"Hello\"}\n{\"text\": \"caf\\u00e9\"}\n");
    cli_expect("train --init w --data low.jsonl --output o " SMALL, 0,
               "the tokenizer has 484 tokens, the model 400");
    cli_remove("o");
    cli_expect("train --init w --data high.jsonl --output o " SMALL, 2,
               "high.jsonl:2: token id 474 is not in the model's vocabulary [0, 400)");
    assert_string_equal(cli_list("o"), "absent");
}

static void a_directory_of_all_kinds_is_read(void **state) {
    (void)state;
    packed p = {0};
    mkdir("all", 0700);
    mkdir("all/deep", 0700);
    cli_text("all/a.json", "[{\"text\": \"one\"}, {\"text\": \"two\"}]");
    cli_text("all/b.jsonl", "{\"prompt\": \"one\", \"completion\": \"two\"}\n");
    cli_text("all/c.jsonl", "{\"instruction\": \"one\", \"output\": \"two\"}\n");
    cli_text("all/deep/d.jsonl", "{\"input_ids\": [5, 6, 7]}\n");
    packed_gzip(&p, "text", 4);
    cli_write("all/e.txt.gz", p.data, p.n);
    packed_release(&p);
    cli_text("all/notes.md", "x");
    cli_expect("train --init m --data all --output o " SMALL, 0,
               "1 other file is left out (all/notes.md)|data: 6 rows; 5 packed, 1 split");
    cli_remove("o");
    cli_expect("train --init m --data all --output o --log all/deep/d.jsonl " SMALL, 2,
               "--log all/deep/d.jsonl would overwrite a file of the data");
    assert_int_equal(cli_bytes("all/deep/d.jsonl"), 25);
    cli_text("all/z.jsonl.gz", "{\"text\": \"one\"}\n");
    cli_expect("train --init m --data all --output o " SMALL, 2, "all/z.jsonl.gz is not gzip");
    cli_remove("all/z.jsonl.gz");
    cli_text("all/z.jsonl", "{\"text\": \"one\"}\n{\"input_ids\": [1]}\n");
    cli_expect("train --init m --data all --output o " SMALL, 2,
               "all/z.jsonl:2: this row is input_ids but the file began with text");
    mkdir("nothing", 0700);
    cli_expect("train --init m --data nothing --output o " SMALL, 2, "nothing holds no data file");
    assert_string_equal(cli_list("o"), "absent");
}

/* What `git clone` leaves of large files without git-lfs. */
static void a_pointer_in_a_file_s_place_is_told(void **state) {
    (void)state;
    static const char pointer[] = "version https://git-lfs.github.com/spec/v1\n"
                                  "oid sha256:0a\nsize 12\n";
    make_model("500");
    mkdir("lfs", 0700);
    static const char *const files[] = {"lfs/d.txt", "lfs/d.jsonl", "lfs/d.json.gz"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char line[128], words[256];
        cli_text(files[i], pointer);
        snprintf(line, sizeof line, "train --init w --output p " SMALL "--data %s", files[i]);
        snprintf(words, sizeof words,
                 "%s is a git-lfs pointer, not the file itself; fetch it with: git -C lfs lfs pull",
                 files[i]);
        cli_expect(line, 2, words);
        assert_false(cli_exists("p/config.json"));
    }
    cli_text("lfs/tokenizer.json", pointer);
    cli_expect("tokenize --tokenizer lfs --text x", 2, "lfs/tokenizer.json is a git-lfs pointer");
}

/* What the template leaves out stops every command that reads rows, until that is what is wanted.
 */
static void messages_that_are_lost_stop_a_run(void **state) {
    (void)state;
    static const char rows[] =
        "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":"
        "\"b\"}]}\n"
        "{\"messages\":[{\"role\":\"developer\",\"content\":\"a\"},{\"role\":\"assistant\","
        "\"content\":\"b\"}]}\n";
    static const char refusal[] = "lost.jsonl:2: the chat template writes nothing of messages[0], "
                                  "whose role is \"developer\"";
    make_model("500");
    cli_text("w/chat_template.jinja",
             "{% for m in messages %}{% if m.role in ['user', 'assistant'] %}{{ m.role }}: "
             "{{ m.content }}{{ eos_token }}{% endif %}{% endfor %}");
    cli_text("lost.jsonl", rows);
    cli_text("lost.json", "[{\"role\": \"developer\", \"content\": \"a\"}]");
    cli_expect("train --init w --data lost.jsonl --output o " SMALL, 2, refusal);
    assert_string_equal(cli_list("o"), "absent");
    cli_expect("train --init w --data lost.jsonl --output o --lost-messages drop " SMALL, 0,
               "1 rows (first lost.jsonl:2) hold messages that the chat template does not write");
    cli_expect("eval --model o --data lost.jsonl --seq-length 32", 2, refusal);
    cli_expect("eval --model o --data lost.jsonl --seq-length 32 --lost-messages drop", 0, "");
    cli_expect("plan --init w --data lost.jsonl --lost-messages drop", 0, "");
    cli_expect("tokenize --model w --data lost.jsonl --show-labels --lost-messages drop", 0, "");
    cli_expect("tokenize --model w --messages lost.json", 2, "lost.json: the chat template writes");
    cli_expect("tokenize --model w --messages lost.json --lost-messages drop", 0,
               "does not write 1 of the messages");
    cli_expect("tokenize --model w --messages lost.json --lost-messages keep", 2, "refuse|drop");
    cli_remove("o");
}

/* A row that its budget has no memory for. */
static void a_row_beyond_the_budget_is_refused(void **state) {
    (void)state;
    enum { BYTES = 3 << 20 };
    char *text = malloc(BYTES + 32);
    assert_non_null(text);
    int n = snprintf(text, 32, "{\"text\":\"");
    memset(text + n, 'a', BYTES);
    memcpy(text + n + BYTES, "\"}\n", 4);
    cli_text("long.jsonl", text);
    free(text);
    cli_expect("train --init m --data long.jsonl --output o --host-memory 64MiB " SMALL, 2,
               "long.jsonl:1: a line of more than|--host-memory");
    cli_expect("train --init m --data long.jsonl --output o --host-memory 512MiB " SMALL, 0, "");
    cli_remove("o");
}

/* Options of tokenize are no part of a run. */
static void run_json_knows_nothing_of_tokenize(void **state) {
    (void)state;
    char *text = NULL;
    size_t n;
    cli_expect("train --init m --data d.txt --output o " SMALL, 0, "");
    assert_int_equal(oc_fs_read(&text, &n, "o/run.json", 1 << 20, NULL), OC_OK);
    assert_null(strstr(text, "special"));
    assert_null(strstr(text, "generation-prompt"));
    free(text);
    cli_expect("train --config o/run.json --output o2", 0, "");
    cli_remove("o");
    cli_remove("o2");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_keeps_its_tokenizer),
        cmocka_unit_test(another_tokenizer_takes_its_place),
        cmocka_unit_test(named_templates_go_with_their_model),
        cmocka_unit_test(ids_beyond_the_model_are_named),
        cmocka_unit_test(a_directory_of_all_kinds_is_read),
        cmocka_unit_test(a_pointer_in_a_file_s_place_is_told),
        cmocka_unit_test(messages_that_are_lost_stop_a_run),
        cmocka_unit_test(a_row_beyond_the_budget_is_refused),
        cmocka_unit_test(run_json_knows_nothing_of_tokenize),
    };
    return cmocka_run_group_tests(tests, cli_setup, cli_teardown);
}
