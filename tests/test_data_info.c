/* Names of LLaMA-Factory's dataset_info.json: rows of their files are what its own parser and
 * converter make of them (tools/make_dataset_info_expected.py). */
#include "base/fs.h"
#include "cmocka_all.h"
#include "data/dataset.h"
#include "tokenizer/tokenizer.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define INFO OC_TEST_DATA "/data/info"

static oc_tokenizer *tokenizer;
static oc_error error;

/* ids and labels of every row, as text */
static char said[1 << 16];

static oc_status take(void *arg, const oc_row *row, oc_error *err) {
    (void)arg;
    (void)err;
    size_t at = strlen(said);
    for (size_t i = 0; i < row->n && at < sizeof said - 64; i++)
        at += (size_t)snprintf(said + at, sizeof said - at, "%d/%d ", row->ids[i], row->labels[i]);
    (void)snprintf(said + at, sizeof said - at, "\n");
    return OC_OK;
}

static oc_status visit(const char *name, const char *dir) {
    oc_data_files files;
    said[0] = 0;
    oc_status s = oc_data_files_find(&files, &name, 1, dir, &error);
    if (s != OC_OK) return s;
    const oc_dataset_spec spec = {.paths = (const char *const *)files.paths,
                                  .columns = files.columns,
                                  .n_paths = files.n,
                                  .tokenizer = tokenizer,
                                  .vocab = oc_tokenizer_vocab(tokenizer)};
    s = oc_dataset_visit(&spec, take, NULL, &error);
    oc_data_files_release(&files);
    return s;
}

static char *said_of(const char *name, const char *dir) {
    if (visit(name, dir) != OC_OK) fail_msg("%s: %s", name, error.message);
    assert_true(said[0] != 0);
    return strdup(said);
}

static void refused(const char *name, const char *dir, const char *words) {
    char copy[256], *save = NULL;
    if (visit(name, dir) == OC_OK) fail_msg("%s passes", name);
    (void)snprintf(copy, sizeof copy, "%s", words);
    for (char *w = strtok_r(copy, "|", &save); w; w = strtok_r(NULL, "|", &save))
        if (!strstr(error.message, w)) fail_msg("%s: \"%s\" lacks \"%s\"", name, error.message, w);
}

/* Writes tools and calls, too. */
static const char config[] =
    "{\"eos_token\": \"<|im_end|>\", \"chat_template\": \"{% if tools %}{{ tools|tojson }}{% endif "
    "%}"
    "{% for m in messages %}({{ m.role }}){{ m.content }}{% for c in m.tool_calls or [] %}"
    "[{{ c.function.name }} {{ c.function.arguments|tojson }}]{% endfor %}/{% endfor %}"
    "{% if add_generation_prompt %}(assistant){% endif %}\"}";

static int open_it(void **state) {
    (void)state;
    char *text = NULL;
    size_t n;
    if (oc_fs_read(&text, &n, OC_TEST_DATA "/data/bytelevel/tokenizer.json", 1 << 20, &error) !=
        OC_OK)
        return 1;
    oc_status s = oc_tokenizer_parse(&tokenizer, text, n, config, sizeof config - 1, "it", &error);
    free(text);
    return s != OC_OK;
}

static int close_it(void **state) {
    (void)state;
    oc_tokenizer_close(tokenizer);
    return 0;
}

static void rows_of_a_name_are_what_llama_factory_makes_of_them(void **state) {
    (void)state;
    static const char *const names[] = {"good_plain", "good_columns", "good_texts", "good_sharegpt",
                                        "good_tags",  "good_openai",  "good_tools"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[PATH_MAX];
        (void)snprintf(path, sizeof path, INFO "/%s.expected.jsonl", names[i]);
        char *want = said_of(path, NULL), *got = said_of(names[i], INFO);
        if (strcmp(got, want) != 0) fail_msg("%s:\n%s\nnot\n%s", names[i], got, want);
        free(want);
        free(got);
    }
}

static void names_with_commas_are_one_after_the_other(void **state) {
    (void)state;
    char both[sizeof said], *first = said_of("good_tags", INFO), *second;
    second = said_of("good_plain", INFO);
    (void)snprintf(both, sizeof both, "%s%s", first, second);
    char *got = said_of("good_tags,good_plain", INFO);
    assert_string_equal(got, both);
    free(first);
    free(second);
    free(got);
}

static void entries_that_cannot_be_read_here_are_refused_with_what_to_do(void **state) {
    (void)state;
    refused("hub", INFO, "hub|org/name|hf download --repo-type dataset org/name|\"file_name\"");
    refused("script", INFO, "script|\"script_url\"|.jsonl");
    refused("pairs", INFO, "pairs|\"ranking\"|chosen");
    refused("pictures", INFO, "pictures|\"images\"|only text");
    refused("sample", INFO, "sample|\"num_samples\"|cut the file");
    refused("part", INFO, "part|train[:10%]|give a file");
    refused("gone", INFO, "gone|gone.json, which is not there");
    refused("nothing", INFO, "nothing|no \"file_name\"");
    refused("raw", INFO, "raw|\"chatml\"|sharegpt");
    refused("misspelt", INFO, "columns|promt|prompt");
    refused("untold", INFO, "untold needs columns.messages");
    refused("good_plane", INFO, "good_plane|no such name|did you mean good_plain");
    refused("good_plain", INFO "/folder", "--dataset-dir|no dataset_info.json");
}

static void a_text_file_has_no_columns(void **state) {
    (void)state;
    refused("lines", INFO, "lines.txt|one document|--data itself");
}

static void a_row_that_the_entry_does_not_fit_is_told_by_line(void **state) {
    (void)state;
    refused("speaker", INFO, "a.jsonl:1|dialog[0].who|\"rule\"|tags");
}

/* As LLaMA-Factory's own --dataset_dir, where nobody gives one. */
static void data_is_the_directory_where_none_is_given(void **state) {
    (void)state;
    char here[PATH_MAX], dir[] = "/tmp/oc-info-XXXXXX", *want = said_of("good_plain", INFO);
    assert_non_null(getcwd(here, sizeof here));
    assert_non_null(mkdtemp(dir));
    assert_int_equal(chdir(dir), 0);
    refused("good_plain", NULL, "good_plain|data files are");
    assert_int_equal(symlink(INFO, "data"), 0);
    char *got = said_of("good_plain", NULL);
    assert_int_equal(unlink("data"), 0);
    assert_int_equal(chdir(here), 0);
    assert_int_equal(rmdir(dir), 0);
    assert_string_equal(got, want);
    free(want);
    free(got);
}

static void a_dataset_info_that_nobody_needs_is_not_read(void **state) {
    (void)state;
    char here[PATH_MAX], dir[] = "/tmp/oc-info-XXXXXX";
    assert_non_null(getcwd(here, sizeof here));
    assert_non_null(mkdtemp(dir));
    assert_int_equal(chdir(dir), 0);
    assert_int_equal(mkdir("data", 0700), 0);
    assert_int_equal(oc_fs_write_atomic("data/dataset_info.json", "{", 1, &error), OC_OK);
    free(said_of(INFO "/good_plain.expected.jsonl", NULL));
    refused("good_plain", NULL, "data/dataset_info.json:1");
    assert_int_equal(unlink("data/dataset_info.json"), 0);
    assert_int_equal(rmdir("data"), 0);
    assert_int_equal(chdir(here), 0);
    assert_int_equal(rmdir(dir), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_a_name_are_what_llama_factory_makes_of_them),
        cmocka_unit_test(names_with_commas_are_one_after_the_other),
        cmocka_unit_test(entries_that_cannot_be_read_here_are_refused_with_what_to_do),
        cmocka_unit_test(a_text_file_has_no_columns),
        cmocka_unit_test(a_row_that_the_entry_does_not_fit_is_told_by_line),
        cmocka_unit_test(a_dataset_info_that_nobody_needs_is_not_read),
        cmocka_unit_test(data_is_the_directory_where_none_is_given),
    };
    return cmocka_run_group_tests(tests, open_it, close_it);
}
