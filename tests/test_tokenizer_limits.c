/* Rules of a tokenizer.json that make much of little are bounded, and their file is named; files of
 * chat templates take the place of tokenizer_config.json's. */
#include "base/json.h"
#include "cmocka_all.h"
#include "text_util.h"
#include "tokenizer/tokenizer.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MODEL "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"\u00c3\":2},\"merges\":[]}"
#define REPLACE "{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"aaaa\"}"
#define BYTES                                                                                      \
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":"      \
    "false}"

/* {"normalizer": a Sequence of `times` steps} and its like. */
static char *rules(const char *part, const char *list, const char *step, int times) {
    size_t room = strlen(step) * (size_t)times + 1024;
    char *text = malloc(room);
    assert_non_null(text);
    int n = snprintf(text, room, "{\"%s\":{\"type\":\"Sequence\",\"%s\":[", part, list);
    for (int i = 0; i < times; i++)
        n += snprintf(text + n, room - (size_t)n, "%s%s", i > 0 ? "," : "", step);
    (void)snprintf(text + n, room - (size_t)n, "]}," MODEL "}");
    return text;
}

static oc_tokenizer *parse(char *json, oc_error *err) {
    oc_tokenizer *t = NULL;
    oc_status s = oc_tokenizer_parse(&t, json, strlen(json), NULL, 0, "dir/tokenizer.json", err);
    assert_true((s == OC_OK) == (t != NULL));
    free(json);
    return t;
}

static void expect_too_much(char *json, const char *text) {
    oc_error err = {OC_OK, ""};
    oc_tokens tokens = {0};
    oc_tokenizer *t = parse(json, &err);
    if (t == NULL) fail_msg("%s", err.message);
    assert_int_equal(oc_tokenizer_encode(t, text, strlen(text), OC_SPECIAL_NONE, &tokens, &err),
                     OC_E_OVERFLOW);
    if (strncmp(err.message, "dir/tokenizer.json: its rules", 29) != 0) fail_msg("%s", err.message);
    assert_int_equal(tokens.n, 0);
    /* the same working memory serves what is harmless */
    assert_int_equal(oc_tokenizer_encode(t, "", 0, OC_SPECIAL_NONE, &tokens, &err), OC_OK);
    oc_tokens_free(&tokens);
    oc_tokenizer_close(t);
}

static void rules_that_expand_are_bounded_by_the_text(void **state) {
    (void)state;
    expect_too_much(rules("normalizer", "normalizers", REPLACE, 30), "a");
    expect_too_much(rules("pre_tokenizer", "pretokenizers", BYTES, 40), "\xc3\xa9");
    char *big = malloc(80000);
    assert_non_null(big);
    memset(big, 'a', 70000);
    memcpy(big + 70000, "\"}", 3);
    char *step = malloc(90000);
    assert_non_null(step);
    snprintf(step, 90000, "{\"type\":\"Prepend\",\"prepend\":\"%s", big);
    expect_too_much(rules("normalizer", "normalizers", step, 1), "a");
    free(step);
    free(big);
}

static void a_little_expansion_is_let_through(void **state) {
    (void)state;
    oc_error err;
    oc_tokens tokens = {0};
    oc_tokenizer *t = parse(rules("normalizer", "normalizers", REPLACE, 3), &err);
    assert_int_equal(oc_tokenizer_encode(t, "ab", 2, OC_SPECIAL_NONE, &tokens, &err), OC_OK);
    assert_int_equal(tokens.n, 65);
    oc_tokens_free(&tokens);
    oc_tokenizer_close(t);
}

static void decoders_are_bounded_too(void **state) {
    (void)state;
    static const int32_t ids[] = {0};
    oc_error err = {OC_OK, ""};
    char *text = NULL;
    size_t n;
    oc_tokenizer *t = parse(rules("decoder", "decoders", REPLACE, 30), &err);
    assert_non_null(t);
    assert_int_equal(oc_tokenizer_decode(t, ids, 1, false, &text, &n, &err), OC_E_OVERFLOW);
    assert_non_null(strstr(err.message, "dir/tokenizer.json: its decoder"));
    oc_tokenizer_close(t);
}

static void special_tokens_around_a_text_are_few(void **state) {
    (void)state;
    char one[16000];
    for (int k = 0; k < 2; k++) { /* one of 3600, or 40 of 60 */
        int specials = k == 0 ? 60 : 1;
        int n = snprintf(one, sizeof one, "{\"type\":\"TemplateProcessing\",\"single\":[");
        for (int i = 0; i < specials; i++)
            n += snprintf(one + n, sizeof one - (size_t)n, "{\"SpecialToken\":{\"id\":\"s\"}},");
        n += snprintf(one + n, sizeof one - (size_t)n,
                      "{\"Sequence\":{\"id\":\"A\"}}],\"pair\":[],\"special_tokens\":"
                      "{\"s\":{\"ids\":[0");
        for (int i = 1; i < 60; i++)
            n += snprintf(one + n, sizeof one - (size_t)n, ",0");
        (void)snprintf(one + n, sizeof one - (size_t)n, "]}}}");
        oc_error err = {OC_OK, ""};
        assert_null(parse(rules("post_processor", "processors", one, k == 0 ? 1 : 40), &err));
        assert_non_null(strstr(err.message, "dir/tokenizer.json: post_processor: more than 1024"));
    }
}

static void words_with_a_nul_are_other_words(void **state) {
    (void)state;
    oc_error err = {OC_OK, ""};
    assert_null(parse(rules("normalizer", "normalizers", "{\"type\":\"NFC\\u0000\"}", 1), &err));
    assert_non_null(strstr(err.message, "\"type\""));
    static const char split[] =
        "{\"type\":\"Split\",\"pattern\":{\"String\":\" \"},\"invert\":false,"
        "\"behavior\":\"Removed\\u0000\"}";
    assert_null(parse(rules("pre_tokenizer", "pretokenizers", split, 1), &err));
    assert_non_null(strstr(err.message, "\"behavior\" has U+0000"));
}

static void files_of_templates_take_the_place_of_named_ones(void **state) {
    (void)state;
    static const char config[] = "{\"chat_template\":[{\"name\":\"default\",\"template\":\"cd\"},"
                                 "{\"name\":\"tool_use\",\"template\":\"ct\"}]}";
    static const char json[] = "{" MODEL "}";
    text_dir d;
    char folder[400], file[500];
    oc_tokenizer *t;
    oc_error err;
    text_dir_init(&d);
    (void)text_dir_put(&d, "tokenizer.json", json, strlen(json));
    (void)text_dir_put(&d, "tokenizer_config.json", config, strlen(config));
    (void)text_dir_put(&d, "chat_template.jinja", "fd", 2);
    if (oc_tokenizer_open(&t, d.dir, &err) != OC_OK) fail_msg("%s", err.message);
    assert_string_equal(oc_tokenizer_chat_template(t, false), "fd");
    assert_string_equal(oc_tokenizer_chat_template(t, true), "fd");
    oc_tokenizer_close(t);
    snprintf(folder, sizeof folder, "%s/additional_chat_templates", d.dir);
    snprintf(file, sizeof file, "%s/tool_use.jinja", folder);
    assert_int_equal(mkdir(folder, 0700), 0);
    FILE *f = fopen(file, "w");
    assert_non_null(f);
    (void)fputs("ft", f);
    (void)fclose(f);
    assert_int_equal(oc_tokenizer_open(&t, d.dir, &err), OC_OK);
    assert_string_equal(oc_tokenizer_chat_template(t, false), "fd");
    assert_string_equal(oc_tokenizer_chat_template(t, true), "ft");
    oc_tokenizer_close(t);
    (void)unlink(file);
    (void)rmdir(folder);
    text_dir_release(&d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_that_expand_are_bounded_by_the_text),
        cmocka_unit_test(a_little_expansion_is_let_through),
        cmocka_unit_test(decoders_are_bounded_too),
        cmocka_unit_test(special_tokens_around_a_text_are_few),
        cmocka_unit_test(words_with_a_nul_are_other_words),
        cmocka_unit_test(files_of_templates_take_the_place_of_named_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
