/* JSON: strict, and every error names file, place and what was expected. */
#include "cmocka_all.h"
#include "scratch.h"

#include "base/fs.h"
#include "base/json.h"

static json_t *parse(const char *text) {
    oc_error err;
    json_t *j = NULL;
    if (oc_json_parse(&j, text, strlen(text), "t.json", 1, OC_JSON_NO_NUL, &err) != OC_OK)
        fail_msg("%s", err.message);
    return j;
}

static void refused(const char *text, oc_json_text flags, const char *where) {
    oc_error err = {0};
    json_t *j = (json_t *)(uintptr_t)1;
    assert_int_equal(oc_json_parse(&j, text, strlen(text), "t.json", 1, flags, &err), OC_E_FORMAT);
    assert_null(j);
    if (!strstr(err.message, where)) fail_msg("\"%s\" lacks \"%s\"", err.message, where);
}

static void what_is_not_json_is_refused_with_its_place(void **state) {
    (void)state;
    refused("{\"a\": 1,\n \"b\": }", OC_JSON_NO_NUL, "t.json:2:");
    refused("{\"a\": 1, \"a\": 2}", OC_JSON_NO_NUL, "duplicate");
    refused("{} {}", OC_JSON_NO_NUL, "t.json:1:");
    refused("", OC_JSON_NO_NUL, "t.json:1:");
    refused("[1, 2,]", OC_JSON_NO_NUL, "t.json:1:");
    refused("{\"a\": NaN}", OC_JSON_NO_NUL, "t.json:1:");
    refused("{\"a\": 1e999}", OC_JSON_NO_NUL, "t.json:1:");
    refused("{\"a\": 99999999999999999999}", OC_JSON_NO_NUL, "t.json:1:");
    refused("[\"\xff\"]", OC_JSON_NO_NUL, "t.json:1:");
    refused("[\"a\\u0000b\"]", OC_JSON_NO_NUL, "t.json:1:");
    refused("[\"\\ud800\"]", OC_JSON_ALLOW_NUL, "t.json:1:");
}

static void nul_is_kept_where_allowed(void **state) {
    (void)state;
    json_t *j = NULL;
    static const char text[] = "\"a\\u0000b\"";
    assert_int_equal(oc_json_parse(&j, text, sizeof text - 1, "t.json", 1, OC_JSON_ALLOW_NUL, NULL),
                     OC_OK);
    assert_int_equal(json_string_length(j), 3);
    json_decref(j);
}

static void a_line_of_many_is_named(void **state) {
    (void)state;
    oc_error err;
    json_t *j;
    assert_int_equal(oc_json_parse(&j, "{\"x\"", 4, "d.jsonl", 57, OC_JSON_NO_NUL, &err),
                     OC_E_FORMAT);
    assert_non_null(strstr(err.message, "d.jsonl:57:"));
}

static void files_load_or_say_why(void **state) {
    (void)state;
    char dir[SCRATCH_BYTES], path[SCRATCH_BYTES];
    oc_error err;
    json_t *j;
    scratch_make(dir);
    scratch_write(dir, "good.json", "{\"k\": [1, 2.5]}\n");
    assert_int_equal(oc_json_load(&j, scratch_path(path, dir, "good.json"), OC_JSON_NO_NUL, &err),
                     OC_OK);
    assert_int_equal(json_array_size(json_object_get(j, "k")), 2);
    json_decref(j);
    scratch_write(dir, "bad.json", "{\n\n\"k\": tru\n}");
    assert_int_equal(oc_json_load(&j, scratch_path(path, dir, "bad.json"), OC_JSON_NO_NUL, &err),
                     OC_E_FORMAT);
    assert_null(j);
    assert_non_null(strstr(err.message, "bad.json:3:"));
    assert_int_equal(oc_json_load(&j, scratch_path(path, dir, "none.json"), OC_JSON_NO_NUL, &err),
                     OC_E_NOTFOUND);
    assert_non_null(strstr(err.message, "none.json"));
    assert_int_equal(oc_json_load(&j, dir, OC_JSON_NO_NUL, &err), OC_E_IO);
    assert_non_null(strstr(err.message, "a directory"));
    assert_int_equal(oc_fs_remove_temporary(dir, NULL), OC_OK);
}

static void members_are_read_by_type(void **state) {
    (void)state;
    json_t *j = parse("{\"b\": true, \"i\": -7, \"d\": 2.5, \"s\": \"x\", \"o\": {}, \"a\": []}");
    bool b = false;
    int64_t i = 0;
    double d = 0, d2 = 0;
    const char *s = NULL;
    json_t *o = NULL, *a = NULL;
    assert_int_equal(oc_json_get_bool(j, "f", "b", OC_JSON_REQUIRED, &b, NULL), OC_OK);
    assert_int_equal(oc_json_get_int(j, "f", "i", OC_JSON_REQUIRED, -7, -7, &i, NULL), OC_OK);
    assert_int_equal(oc_json_get_double(j, "f", "d", OC_JSON_REQUIRED, &d, NULL), OC_OK);
    assert_int_equal(oc_json_get_double(j, "f", "i", OC_JSON_REQUIRED, &d2, NULL), OC_OK);
    assert_int_equal(oc_json_get_string(j, "f", "s", OC_JSON_REQUIRED, &s, NULL), OC_OK);
    assert_int_equal(oc_json_get_object(j, "f", "o", OC_JSON_REQUIRED, &o, NULL), OC_OK);
    assert_int_equal(oc_json_get_array(j, "f", "a", OC_JSON_REQUIRED, &a, NULL), OC_OK);
    assert_true(b && i == -7 && d == 2.5 && d2 == -7.0);
    assert_string_equal(s, "x");
    assert_true(json_is_object(o) && json_is_array(a));
    json_decref(j);
}

static void wrong_types_are_named(void **state) {
    (void)state;
    json_t *j = parse("{\"x\": \"4\", \"f\": 2.0, \"one\": 1, \"big\": 300}");
    oc_error err;
    int64_t i = 5;
    bool b = true;
    const char *s = "kept";
    assert_int_equal(oc_json_get_int(j, "c.json", "x", OC_JSON_REQUIRED, 0, 9, &i, &err),
                     OC_E_FORMAT);
    assert_string_equal(err.message, "c.json: \"x\" must be an integer, not a string");
    assert_int_equal(oc_json_get_int(j, "c.json", "f", OC_JSON_OPTIONAL, 0, 9, &i, &err),
                     OC_E_FORMAT);
    assert_int_equal(oc_json_get_int(j, "c.json", "big", OC_JSON_OPTIONAL, 0, 255, &i, &err),
                     OC_E_INVALID);
    assert_string_equal(err.message, "c.json: \"big\" is 300, but must lie in 0 .. 255");
    assert_int_equal(oc_json_get_bool(j, "c.json", "one", OC_JSON_REQUIRED, &b, &err), OC_E_FORMAT);
    assert_int_equal(oc_json_get_string(j, "c.json", "one", OC_JSON_REQUIRED, &s, &err),
                     OC_E_FORMAT);
    assert_int_equal(i, 5);
    assert_true(b);
    assert_string_equal(s, "kept");
    json_decref(j);
}

static void missing_keys(void **state) {
    (void)state;
    json_t *j = parse("{\"n\": null}");
    oc_error err;
    double d = 1.5;
    assert_int_equal(oc_json_get_double(j, "c.json", "lr", OC_JSON_OPTIONAL, &d, &err), OC_OK);
    assert_int_equal(oc_json_get_double(j, "c.json", "n", OC_JSON_OPTIONAL, &d, &err), OC_OK);
    assert_true(d == 1.5);
    assert_int_equal(oc_json_get_double(j, "c.json", "lr", OC_JSON_REQUIRED, &d, &err),
                     OC_E_NOTFOUND);
    assert_string_equal(err.message, "c.json: the key \"lr\" (a number) is missing");
    assert_int_equal(oc_json_get_double(j, "c.json", "n", OC_JSON_REQUIRED, &d, &err), OC_E_FORMAT);
    json_t *array = parse("[1]");
    assert_int_equal(oc_json_get_double(array, "c.json", "n", OC_JSON_OPTIONAL, &d, &err),
                     OC_E_FORMAT);
    json_decref(array);
    json_decref(j);
}

static void unknown_keys_are_refused_with_a_suggestion(void **state) {
    (void)state;
    static const char *const known[] = {"learning_rate", "betas", "eps"};
    json_t *j = parse("{\"eps\": 1, \"learing_rate\": 2}");
    oc_error err;
    assert_int_equal(oc_json_check_keys(j, "c.json", "optimizer.params", known, 3, &err),
                     OC_E_INVALID);
    assert_string_equal(err.message, "c.json: unknown key \"learing_rate\" in optimizer.params; "
                                     "did you mean \"learning_rate\"?");
    json_object_del(j, "learing_rate");
    assert_int_equal(oc_json_check_keys(j, "c.json", NULL, known, 3, &err), OC_OK);
    json_object_set_new(j, "zzz", json_null());
    assert_int_equal(oc_json_check_keys(j, "c.json", NULL, known, 3, &err), OC_E_INVALID);
    assert_string_equal(err.message, "c.json: unknown key \"zzz\"");
    json_decref(j);
}

static void nearest_words(void **state) {
    (void)state;
    static const char *const known[] = {"--micro-batch", "--seq-length", "--steps", "--seed", "lr"};
    assert_string_equal(oc_nearest("--micro_batch", known, 5), "--micro-batch");
    assert_string_equal(oc_nearest("--Steps", known, 5), "--steps");
    assert_string_equal(oc_nearest("--sede", known, 5), "--seed");
    assert_string_equal(oc_nearest("--seqlength", known, 5), "--seq-length");
    static const char *const short_known[] = {"clip", "a-b-c"};
    assert_string_equal(oc_nearest("cilp", short_known, 2), "clip");
    assert_string_equal(oc_nearest("a_b_c", short_known, 2), "a-b-c");
    assert_null(oc_nearest("--output", known, 5));
    assert_null(oc_nearest("xx", known, 5));
    assert_null(oc_nearest("", known, 5));
    assert_null(oc_nearest("lr", known, 0));
    /* Longer than the table of distances. */
    char word[300];
    memset(word, 'a', sizeof word - 1);
    word[sizeof word - 1] = '\0';
    assert_null(oc_nearest(word, known, 5));
}

static void an_integer_of_any_size_can_be_a_real(void **state) {
    (void)state;
    static const char text[] = "{\"model_max_length\": 1000000000000000019884624838656, \"n\": 3}";
    json_t *v = NULL;
    oc_error err = {OC_OK, ""};
    assert_int_equal(oc_json_parse(&v, text, sizeof text - 1, "f", 1, OC_JSON_NO_NUL, &err),
                     OC_E_FORMAT);
    assert_null(v);
    assert_int_equal(oc_json_parse(&v, text, sizeof text - 1, "f", 1, OC_JSON_INT_AS_REAL, &err),
                     OC_OK);
    assert_true(json_real_value(json_object_get(v, "model_max_length")) == 1e30);
    assert_true(json_real_value(json_object_get(v, "n")) == 3);
    json_decref(v);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_json_is_refused_with_its_place),
        cmocka_unit_test(nul_is_kept_where_allowed),
        cmocka_unit_test(a_line_of_many_is_named),
        cmocka_unit_test(files_load_or_say_why),
        cmocka_unit_test(members_are_read_by_type),
        cmocka_unit_test(wrong_types_are_named),
        cmocka_unit_test(missing_keys),
        cmocka_unit_test(unknown_keys_are_refused_with_a_suggestion),
        cmocka_unit_test(nearest_words),
        cmocka_unit_test(an_integer_of_any_size_can_be_a_real),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
