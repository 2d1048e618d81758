/* What a model directory says of ends and of sampling, and what of it is told. */
#include "cmocka_all.h"
#include "infer/defaults.h"
#include "infer/stop_ids.h"
#include "scratch.h"

#include <string.h>
#include <unistd.h>

static void remove_all(const char *dir) {
    static const char *const names[] = {"generation_config.json", "config.json", "tokenizer.json",
                                        "tokenizer_config.json"};
    char path[SCRATCH_BYTES];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        remove(scratch_path(path, dir, names[i]));
    rmdir(dir);
}

/* --- Ends */

static void check_ids(const char *generation, const char *config, const oc_tokenizer *t,
                      const int32_t *want, int32_t n_want) {
    char dir[SCRATCH_BYTES];
    oc_stop_ids *s;
    oc_error err;
    int32_t n;
    scratch_make(dir);
    if (generation != NULL) scratch_write(dir, "generation_config.json", generation);
    if (config != NULL) scratch_write(dir, "config.json", config);
    if (oc_stop_ids_open(&s, dir, t, &err) != OC_OK) fail_msg("%s", err.message);
    const int32_t *ids = oc_stop_ids_list(s, &n);
    assert_int_equal(n, n_want);
    for (int32_t i = 0; i < n; i++) {
        assert_int_equal(ids[i], want[i]);
        assert_true(oc_stop_ids_has(s, want[i]));
    }
    assert_false(oc_stop_ids_has(s, 12345));
    assert_false(oc_stop_ids_has(s, -1));
    oc_stop_ids_close(s);
    remove_all(dir);
}

static void all_files_ends_are_ends(void **state) {
    static const int32_t ids[] = {2, 5, 7, 9};
    oc_tokenizer *t;
    (void)state;
    assert_int_equal(oc_tokenizer_bytes(&t, NULL), OC_OK);
    check_ids("{\"eos_token_id\": [9, 7]}", "{\"eos_token_id\": 5}", t, ids, 4);
    check_ids("{\"eos_token_id\": [9, 5, 9]}",
              "{\"eos_token_id\": null, \"text_config\": {\"eos_token_id\": [7, 5]}}", t, ids, 4);
    check_ids("{\"eos_token_id\": 2}", "{\"eos_token_id\": [2]}", t, ids, 1);
    check_ids("{\"eos_token_id\": [5, 7]}", NULL, NULL, ids + 1, 2);
    check_ids(NULL, "{\"eos_token_id\": 5}", NULL, ids + 1, 1);
    check_ids(NULL, NULL, t, ids, 1);
    oc_tokenizer_close(t);
}

static void there_may_be_no_end(void **state) {
    (void)state;
    check_ids(NULL, NULL, NULL, NULL, 0);
    check_ids("{}", "{\"eos_token_id\": -1}", NULL, NULL, 0);
}

/* tokenizer_config.json names it; tokenizer.json has its id as an added token. */
static void a_tokenizers_end_is_an_added_token(void **state) {
    static const int32_t want = 2;
    char dir[SCRATCH_BYTES];
    oc_tokenizer *t;
    oc_error err;
    (void)state;
    scratch_make(dir);
    scratch_write(
        dir, "tokenizer.json",
        "{\"added_tokens\": [{\"id\": 2, \"content\": \"<turn>\", \"single_word\": false,"
        "\"lstrip\": false, \"rstrip\": false, \"normalized\": false, \"special\": true}],"
        "\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1}, \"merges\": []}}");
    scratch_write(dir, "tokenizer_config.json", "{\"eos_token\": {\"content\": \"<turn>\"}}");
    if (oc_tokenizer_open(&t, dir, &err) != OC_OK) fail_msg("%s", err.message);
    remove_all(dir);
    check_ids(NULL, NULL, t, &want, 1);
    oc_tokenizer_close(t);
}

static void an_end_that_is_no_id_is_named(void **state) {
    static const char *const wrong[] = {"{\"eos_token_id\": \"</s>\"}",
                                        "{\"eos_token_id\": [1, 2.5]}",
                                        "{\"eos_token_id\": true}",
                                        "{\"eos_token_id\": 4294967296}",
                                        "[]",
                                        "{"};
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char dir[SCRATCH_BYTES];
        oc_stop_ids *s;
        oc_error err;
        scratch_make(dir);
        scratch_write(dir, "config.json", wrong[i]);
        assert_int_equal(oc_stop_ids_open(&s, dir, NULL, &err), OC_E_FORMAT);
        assert_null(s);
        assert_non_null(strstr(err.message, "config.json"));
        if (i < 4) assert_non_null(strstr(err.message, "eos_token_id"));
        remove_all(dir);
    }
}

/* --- Sampling */

static oc_defaults *read_text(const char *text) {
    char dir[SCRATCH_BYTES];
    oc_defaults *d;
    oc_error err;
    scratch_make(dir);
    if (text != NULL) scratch_write(dir, "generation_config.json", text);
    if (oc_defaults_open(&d, dir, &err) != OC_OK) fail_msg("%s", err.message);
    remove_all(dir);
    return d;
}

/* The end of line i, from where the file's name is over. */
static const char *line(const oc_defaults *d, int32_t i, bool warning) {
    assert_in_range(i, 0, d->n_lines - 1);
    assert_int_equal(d->lines[i].warning, warning);
    const char *s = strstr(d->lines[i].text, "/generation_config.json: ");
    assert_non_null(s);
    return s + strlen("/generation_config.json: ");
}

static void check_sampling(const oc_defaults *d, double t, int32_t top_k, double top_p,
                           double min_p, double repetition) {
    assert_true(d->sampling.temperature == t && d->sampling.top_k == top_k);
    assert_true(d->sampling.top_p == top_p && d->sampling.min_p == min_p);
    assert_true(d->sampling.repetition_penalty == repetition);
    assert_true(d->sampling.presence_penalty == 0 && d->sampling.frequency_penalty == 0);
}

static void without_a_file_it_is_greedy(void **state) {
    oc_defaults *d = read_text(NULL);
    (void)state;
    check_sampling(d, 0, 0, 1, 0, 1);
    assert_int_equal(d->max_new_tokens, -1);
    assert_int_equal(d->max_length, -1);
    assert_int_equal(d->n_lines, 0);
    oc_defaults_close(d);
}

static void what_a_model_asks_for_is_followed_and_told(void **state) {
    oc_defaults *d =
        read_text("{\"do_sample\": true, \"temperature\": 0.6, \"top_k\": 20, \"top_p\": 0.95,"
                  "\"min_p\": 0.1, \"repetition_penalty\": 1.05, \"max_new_tokens\": 2048, "
                  "\"min_new_tokens\": 4,"
                  "\"max_length\": 32768, \"eos_token_id\": [1, 2], \"pad_token_id\": 0,"
                  "\"transformers_version\": \"4.51.0\"}");
    (void)state;
    check_sampling(d, 0.6, 20, 0.95, 0.1, 1.05);
    assert_int_equal(d->max_new_tokens, 2048);
    assert_int_equal(d->sampling.least, 4);
    assert_int_equal(d->max_length, 32768);
    assert_int_equal(d->n_lines, 1);
    assert_string_equal(line(d, 0, false),
                        "do_sample, temperature 0.6, top_k 20, top_p 0.95, min_p 0.1, "
                        "repetition_penalty 1.05, max_new_tokens 2048, min_new_tokens 4, "
                        "max_length 32768");
    oc_defaults_close(d);
}

/* GenerationConfig._get_default_generation_params(): temperature 1.0, top_k 50, top_p 1.0. */
static void do_sample_alone_means_what_it_means_to_transformers(void **state) {
    static const char *const texts[] = {
        "{\"do_sample\": true}", "{\"do_sample\": true, \"top_k\": null, \"temperature\": null}"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        oc_defaults *d = read_text(texts[i]);
        check_sampling(d, 1, 50, 1, 0, 1);
        assert_string_equal(line(d, 0, false),
                            "do_sample, temperature 1, top_k 50 (transformers' own)");
        oc_defaults_close(d);
    }
}

static void without_do_sample_it_is_greedy_whatever_else_is_said(void **state) {
    static const char *const texts[] = {
        "{\"temperature\": 0.7, \"top_p\": 0.8}",
        "{\"do_sample\": false, \"temperature\": 0.7, \"top_p\": 0.8}"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        oc_defaults *d = read_text(texts[i]);
        check_sampling(d, 0, 0, 0.8, 0, 1);
        assert_int_equal(d->n_lines, 1);
        assert_string_equal(line(d, 0, false), "greedy, top_p 0.8");
        oc_defaults_close(d);
    }
}

/* generate(do_sample=True): the file's values, then transformers' own. */
static void do_sample_beside_the_file_takes_what_it_says_of_sampling(void **state) {
    static const struct {
        const char *text;
        double temperature, top_p;
        int32_t top_k;
    } rows[] = {{NULL, 1, 1, 50},
                {"{\"do_sample\": false, \"temperature\": 0.7, \"top_p\": 0.8}", 0.7, 0.8, 50},
                {"{\"top_k\": 0}", 1, 1, 0},
                {"{\"do_sample\": true, \"temperature\": 0.6, \"top_k\": 20}", 0.6, 1, 20}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        oc_defaults *d = read_text(rows[i].text);
        assert_true(d->drawn.temperature == rows[i].temperature && d->drawn.top_p == rows[i].top_p);
        assert_int_equal(d->drawn.top_k, rows[i].top_k);
        oc_defaults_close(d);
    }
}

static void suppressed_tokens_are_followed(void **state) {
    oc_defaults *d = read_text("{\"suppress_tokens\": [7, 3, -1, 7]}");
    (void)state;
    assert_int_equal(d->sampling.n_suppressed, 2);
    assert_int_equal(d->sampling.suppressed[0], 3);
    assert_int_equal(d->sampling.suppressed[1], 7);
    assert_string_equal(line(d, 0, false), "greedy, suppress_tokens (2 ids)");
    oc_defaults_close(d);
}

static void what_is_not_followed_is_a_warning(void **state) {
    static const char *const wants[] = {"\"num_beams\" 4 is not followed",
                                        "\"no_repeat_ngram_size\" 3 is not followed",
                                        "\"bad_words_ids\" [[5,6]] is not followed",
                                        "\"forced_bos_token_id\" 0 is not followed",
                                        "\"penalty_alpha\" 0.6 is not followed",
                                        "\"chat_format\" \"raw\" is not followed: it is not known"};
    oc_defaults *d =
        read_text("{\"num_beams\": 4, \"no_repeat_ngram_size\": 3, \"bad_words_ids\": [[5, 6]],"
                  "\"forced_bos_token_id\": 0, \"penalty_alpha\": 0.6, \"chat_format\": \"raw\"}");
    (void)state;
    assert_int_equal(d->n_lines, 6);
    for (int32_t i = 0; i < 6; i++)
        assert_string_equal(line(d, i, true), wants[i]);
    oc_defaults_close(d);
}

static void neutral_values_are_no_warning(void **state) {
    oc_defaults *d =
        read_text("{\"num_beams\": 1, \"no_repeat_ngram_size\": 0, \"bad_words_ids\": null,"
                  "\"typical_p\": 1.0, \"penalty_alpha\": 0.0, \"token_healing\": false,"
                  "\"sequence_bias\": {}, \"begin_suppress_tokens\": [], \"use_cache\": true,"
                  "\"length_penalty\": 2.0, \"guidance_scale\": 1, \"min_length\": 0}");
    (void)state;
    assert_int_equal(d->n_lines, 0);
    oc_defaults_close(d);
}

/* Of each key that transformers knows, whether it matters is known here. */
static void every_key_of_transformers_is_known(void **state) {
    FILE *f = fopen(OC_TEST_DATA "/generation_keys.txt", "r");
    char name[128], text[256];
    int n = 0;
    (void)state;
    assert_non_null(f);
    while (fgets(name, sizeof name, f) != NULL) {
        name[strcspn(name, "\n")] = 0;
        if (name[0] == '#') continue;
        snprintf(text, sizeof text, "{\"%s\": null}", name);
        oc_defaults *d = read_text(text);
        if (d->n_lines != 0) fail_msg("%s", d->lines[0].text);
        oc_defaults_close(d);
        n++;
    }
    fclose(f);
    assert_true(n > 50);
}

static void values_out_of_range_name_file_and_key(void **state) {
    static const char *const wrong[][2] = {
        {"{\"do_sample\": true, \"temperature\": -0.5}", "temperature"},
        {"{\"top_p\": 1.5}", "top_p"},
        {"{\"top_p\": \"0.9\"}", "top_p"},
        {"{\"top_k\": -1}", "top_k"},
        {"{\"min_p\": -0.1}", "min_p"},
        {"{\"repetition_penalty\": 0}", "repetition_penalty"},
        {"{\"do_sample\": 1}", "do_sample"},
        {"{\"max_new_tokens\": 0}", "max_new_tokens"},
        {"{\"max_length\": 2.5}", "max_length"},
        {"{\"suppress_tokens\": [\"a\"]}", "suppress_tokens"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char dir[SCRATCH_BYTES];
        oc_defaults *d;
        oc_error err;
        scratch_make(dir);
        scratch_write(dir, "generation_config.json", wrong[i][0]);
        assert_true(oc_defaults_open(&d, dir, &err) != OC_OK);
        assert_null(d);
        assert_non_null(strstr(err.message, "generation_config.json"));
        assert_non_null(strstr(err.message, wrong[i][1]));
        remove_all(dir);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_files_ends_are_ends),
        cmocka_unit_test(there_may_be_no_end),
        cmocka_unit_test(a_tokenizers_end_is_an_added_token),
        cmocka_unit_test(an_end_that_is_no_id_is_named),
        cmocka_unit_test(without_a_file_it_is_greedy),
        cmocka_unit_test(what_a_model_asks_for_is_followed_and_told),
        cmocka_unit_test(do_sample_alone_means_what_it_means_to_transformers),
        cmocka_unit_test(do_sample_beside_the_file_takes_what_it_says_of_sampling),
        cmocka_unit_test(without_do_sample_it_is_greedy_whatever_else_is_said),
        cmocka_unit_test(suppressed_tokens_are_followed),
        cmocka_unit_test(what_is_not_followed_is_a_warning),
        cmocka_unit_test(neutral_values_are_no_warning),
        cmocka_unit_test(every_key_of_transformers_is_known),
        cmocka_unit_test(values_out_of_range_name_file_and_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
