/* Greedy text equals that of transformers for every family, a sequence alone and several of mixed
 * lengths at a time, past sliding windows; what is computed does not depend on where anything
 * lives. */
#include "base/json.h"
#include "generate_case.h"

#include <math.h>

static json_t *expected;

static int open_expected(void **state) {
    oc_error err;
    (void)state;
    return oc_json_load(&expected, OC_TEST_DATA "/generate.json", OC_JSON_NO_NUL, &err) != OC_OK;
}

static int close_expected(void **state) {
    (void)state;
    json_decref(expected);
    return 0;
}

static generate_row *rows_of(const json_t *model, int32_t *n) {
    const json_t *rows = json_object_get(model, "rows");
    *n = (int32_t)json_array_size(rows);
    generate_row *x = calloc((size_t)*n, sizeof *x);
    for (int32_t i = 0; i < *n; i++) {
        const json_t *prompt = json_object_get(json_array_get(rows, (size_t)i), "prompt");
        x[i].n_prompt = (int32_t)json_array_size(prompt);
        x[i].answer =
            (int32_t)json_array_size(json_object_get(json_array_get(rows, (size_t)i), "answer"));
        for (int32_t k = 0; k < x[i].n_prompt; k++)
            x[i].ids[k] = (int32_t)json_integer_value(json_array_get(prompt, (size_t)k));
    }
    return x;
}

/* Rounding differs: of two logits that are nearly the same either may be the larger. What follows
 * then is another text. */
static bool follows(const generate_row *got, const json_t *want, const char *where) {
    const json_t *answer = json_object_get(want, "answer"), *gaps = json_object_get(want, "gaps");
    for (int32_t k = 0; k < got->answer; k++) {
        int32_t id = (int32_t)json_integer_value(json_array_get(answer, (size_t)k));
        if (got->ids[got->n_prompt + k] == id) continue;
        double gap = json_number_value(json_array_get(gaps, (size_t)k));
        if (gap > 2e-4)
            fail_msg("%s, token %d: %d, not %d, at a gap of %g", where, k,
                     got->ids[got->n_prompt + k], id, gap);
        return false;
    }
    return true;
}

static void check_logits(const generate_row *got, const json_t *want, const char *where) {
    const json_t *logits = json_object_get(want, "logits");
    for (size_t i = 0; i < json_array_size(logits); i++) {
        double x = json_number_value(json_array_get(logits, i));
        if (fabs((double)got->logits[i] - x) > 2e-4 * fmax(1, fabs(x)))
            fail_msg("%s, logit %zu: %.7g, not %.7g", where, i, (double)got->logits[i], x);
    }
}

static void check(const char *name, const json_t *model, const generate_row *x, int32_t n,
                  const char *how, int *whole) {
    for (int32_t i = 0; i < n; i++) {
        const json_t *want = json_array_get(json_object_get(model, "rows"), (size_t)i);
        char where[128];
        snprintf(where, sizeof where, "%s, prompt %d, %s", name, i, how);
        if (!follows(&x[i], want, where)) continue;
        check_logits(&x[i], want, where);
        ++*whole;
    }
}

static void line_of(char *line, size_t n, const char *name, const json_t *model, const char *more) {
    snprintf(line, n, "--model " OC_TEST_DATA "/models/%s --dtype fp32 --seq-length %d %s", name,
             (int)json_integer_value(json_object_get(model, "longest")), more);
}

static void every_family_goes_on_as_transformers_does(void **state) {
    const char *name;
    json_t *model;
    int whole = 0, all = 0;
    (void)state;
    json_object_foreach(expected, name, model) {
        char line[512];
        int32_t n;
        generate_row *x = rows_of(model, &n);
        all += 2 * n;
        for (int32_t i = 0; i < n; i++) {
            line_of(line, sizeof line, name, model, "--batch 1");
            generate_run(line, &x[i], 1);
        }
        check(name, model, x, n, "alone", &whole);
        line_of(line, sizeof line, name, model, "--batch 3 --prefill-chunk 9");
        generate_run(line, x, n);
        check(name, model, x, n, "together", &whole);
        generate_release(x, n);
    }
    assert_true(all >= 300);
    assert_int_equal(whole, all); /* no two logits of these texts are that near */
}

/* The same to the bit wherever weights live, however they get there, on however many threads. */
static void nothing_depends_on_where_anything_lives(void **state) {
    static const char *const models[] = {"llama-untied", "gemma3",     "gpt2",
                                         "bloom",        "opt-narrow", "qwen3-tied"};
    static const char *const placements[] = {
        "--threads 1",
        "--device-memory 64MiB --resident-blocks 0 --slots 1 --threads 1",
        "--device-memory 64MiB --resident-blocks 0 --slots 2",
        "--device-memory 64MiB --resident-blocks 2 --slots 3 --debug-memory",
        "--device-memory 64MiB --weights-home device",
        "--device-memory 64MiB --resident-blocks 1 --debug-async --delay-seed 5",
        "--debug-async --delay-seed 6 --serial-lanes",
        "--page-tokens 16 --piece 128KiB --device-memory 64MiB --resident-blocks 0",
        "--device-memory 64MiB --resident-blocks 0 --slots 2 --kv-home host",
        "--device-memory 64MiB --kv-home host --row-groups 2 --page-tokens 16 --debug-memory",
        "--kv-home host --resident-blocks 1 --row-groups 3 --debug-async --kv-tokens 700",
    };
    (void)state;
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        json_t *model = json_object_get(expected, models[m]);
        char line[512];
        int32_t n;
        generate_row *x = rows_of(model, &n), *y = rows_of(model, &n);
        line_of(line, sizeof line, models[m], model, "--batch 3 --prefill-chunk 9");
        generate_run(line, x, n);
        for (size_t p = 0; p < sizeof placements / sizeof *placements; p++) {
            char more[256];
            snprintf(more, sizeof more, "--batch 3 --prefill-chunk 9 %s", placements[p]);
            line_of(line, sizeof line, models[m], model, more);
            generate_run(line, y, n);
            for (int32_t i = 0; i < n; i++) {
                assert_memory_equal(y[i].ids, x[i].ids, sizeof x[i].ids);
                assert_memory_equal(y[i].bits, x[i].bits, sizeof x[i].bits);
            }
        }
        generate_release(x, n);
        generate_release(y, n);
    }
}

/* To the bit; logits after a token are those of its sequence computed at once. */
static void a_sequence_does_not_depend_on_its_company(void **state) {
    static const char *const models[] = {"llama-tied", "gemma2", "mistral-window", "phi3-partial"};
    static const char *const ways[] = {"--batch 1", "--batch 1 --prefill-chunk 1",
                                       "--batch 4 --prefill-chunk 7",
                                       "--batch 2 --row-groups 2 --prefill-chunk 64"};
    (void)state;
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        json_t *model = json_object_get(expected, models[m]);
        char line[512];
        int32_t n;
        generate_row *x = rows_of(model, &n), *y = rows_of(model, &n);
        line_of(line, sizeof line, models[m], model, "--batch 4 --prefill-chunk 512");
        generate_run(line, x, n);
        for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
            line_of(line, sizeof line, models[m], model, ways[w]);
            generate_run(line, y, n);
            for (int32_t i = 0; i < n; i++)
                assert_memory_equal(y[i].bits, x[i].bits, sizeof x[i].bits);
        }
        /* all but the last token as a prompt: one fresh forward */
        for (int32_t i = 0; i < n; i++) {
            free(y[i].logits);
            y[i] = x[i];
            y[i].logits = NULL;
            y[i].n_prompt = x[i].n_ids - 1;
            y[i].answer = 1;
            memset(y[i].bits, 0, sizeof y[i].bits);
        }
        line_of(line, sizeof line, models[m], model, "--batch 1 --prefill-chunk 512");
        for (int32_t i = 0; i < n; i++) {
            generate_run(line, &y[i], 1);
            assert_true(y[i].bits[x[i].n_ids - 1] == x[i].bits[x[i].n_ids - 1]);
        }
        generate_release(x, n);
        generate_release(y, n);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_family_goes_on_as_transformers_does),
        cmocka_unit_test(nothing_depends_on_where_anything_lives),
        cmocka_unit_test(a_sequence_does_not_depend_on_its_company),
    };
    return cmocka_run_group_tests(tests, open_expected, close_expected);
}
