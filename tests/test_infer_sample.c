/* From logits to tokens: what is kept and with which probability is what transformers' processors
 * leave, and draws follow it. */
#include "alloc_watch.h"
#include "cmocka_all.h"
#include "infer/sample.h"
#include "infer/weights.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

enum { DRAWS = 100000, MOST = 2048 };

typedef struct row_case {
    const char *name;
    float logits[MOST];
    int32_t vocab;
    oc_sampling how;
    int32_t ids[64];
    oc_sample_row row;
    const json_t *o;
} row_case;

static json_t *expected;

static int load(void **state) {
    (void)state;
    json_error_t e;
    expected = json_load_file(OC_TEST_DATA "/sampling.json", 0, &e);
    if (!expected) print_message("sampling.json:%d: %s\n", e.line, e.text);
    return expected ? 0 : -1;
}

static int unload(void **state) {
    (void)state;
    json_decref(expected);
    return 0;
}

static int32_t read_logits(const char *name, float out[MOST]) {
    const json_t *list = json_object_get(json_object_get(expected, "logits"), name);
    size_t n = json_array_size(list);
    assert_in_range(n, 1, MOST);
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(list, i);
        out[i] = json_is_null(v) ? -INFINITY : (float)json_number_value(v);
    }
    return (int32_t)n;
}

static double number(const json_t *o, const char *key, double otherwise) {
    const json_t *v = json_object_get(o, key);
    return v ? json_number_value(v) : otherwise;
}

static oc_sampling read_how(const json_t *o) {
    return (oc_sampling){.temperature = number(o, "temperature", 1),
                         .top_k = (int32_t)number(o, "top_k", 0),
                         .top_p = number(o, "top_p", 1),
                         .min_p = number(o, "min_p", 0),
                         .repetition_penalty = number(o, "repetition_penalty", 1),
                         .presence_penalty = number(o, "presence_penalty", 0),
                         .frequency_penalty = number(o, "frequency_penalty", 0),
                         .seed = 17};
}

static void read_case(row_case *c, const json_t *o) {
    static const char *const lists[2] = {"prompt", "answer"};
    *c = (row_case){.o = o, .how = read_how(o)};
    c->name = json_string_value(json_object_get(o, "logits"));
    c->vocab = read_logits(c->name, c->logits);
    c->row.ids = c->ids;
    for (int l = 0; l < 2; l++) {
        const json_t *list = json_object_get(o, lists[l]);
        for (size_t i = 0; i < json_array_size(list); i++)
            c->ids[c->row.n_ids++] = (int32_t)json_integer_value(json_array_get(list, i));
        if (l == 0) c->row.n_prompt = c->row.n_ids;
    }
}

static oc_sampler *open_sampler(int32_t vocab) {
    oc_sampler *s;
    oc_error err;
    if (oc_sampler_open(&s, vocab, &err) != OC_OK) fail_msg("%s", err.message);
    return s;
}

static void probabilities(row_case *c, double out[MOST]) {
    oc_sampler *s = open_sampler(c->vocab);
    oc_error err;
    if (oc_sample_probabilities(s, &c->how, &c->row, c->logits, out, &err) != OC_OK)
        fail_msg("%s: %s", c->name, err.message);
    oc_sampler_close(s);
}

static oc_sampled sample(oc_sampler *s, const oc_sampling *how, oc_sample_row *row,
                         const float *logits, bool want_logprob) {
    oc_sampled x;
    oc_error err;
    if (oc_sample(s, how, row, logits, want_logprob, &x, &err) != OC_OK)
        fail_msg("%s", err.message);
    return x;
}

/* --- What is kept */

static bool same_probabilities(row_case *c) {
    static double p[MOST];
    const json_t *ids = json_object_get(c->o, "ids"), *want = json_object_get(c->o, "p");
    int64_t kept = 0, sum = 0;
    double off = 0;
    probabilities(c, p);
    for (int32_t i = 0; i < c->vocab; i++) {
        kept += p[i] > 0;
        sum += p[i] > 0 ? i : 0;
    }
    for (size_t i = 0; i < json_array_size(ids); i++) {
        double w = json_number_value(json_array_get(want, i));
        off = fmax(off, fabs(p[json_integer_value(json_array_get(ids, i))] - w) / w);
    }
    bool same = kept == (int64_t)number(c->o, "kept", 0) &&
                sum == (int64_t)number(c->o, "kept_ids", 0) && off < 1e-11;
    if (!same) {
        char *text = json_dumps(c->o, JSON_COMPACT | JSON_REAL_PRECISION(6));
        print_message("%.150s: kept %d, their sum %d, off by %g\n", text, (int)kept, (int)sum, off);
        free(text);
    }
    return same;
}

static void what_is_kept_is_what_transformers_keeps(void **state) {
    static row_case c;
    const json_t *cases = json_object_get(expected, "cases");
    int bad = 0;
    (void)state;
    assert_true(json_array_size(cases) > 300);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        read_case(&c, json_array_get(cases, i));
        bad += !same_probabilities(&c);
    }
    assert_int_equal(bad, 0);
}

static void greedy_takes_what_transformers_takes(void **state) {
    static row_case c;
    const json_t *cases = json_object_get(expected, "cases");
    (void)state;
    for (size_t i = 0; i < json_array_size(cases); i++) {
        read_case(&c, json_array_get(cases, i));
        c.how.temperature = 0;
        oc_sampler *s = open_sampler(c.vocab);
        int32_t id = sample(s, &c.how, &c.row, c.logits, false).id;
        assert_int_equal(id, (int32_t)number(c.o, "greedy", -1));
        assert_int_equal(c.row.drawn, 0);
        oc_sampler_close(s);
    }
}

/* --- Draws */

/* Tokens that are expected fewer than 5 times count as one. */
static double chi_squared(const double *p, const int32_t *seen, int32_t n) {
    double sum = 0, rare = 0, rare_seen = 0;
    for (int32_t i = 0; i < n; i++) {
        double want = p[i] * DRAWS;
        if (want >= 5) sum += (seen[i] - want) * (seen[i] - want) / want;
        if (want < 5) rare += want, rare_seen += seen[i];
    }
    if (rare == 0) return rare_seen > 0 ? INFINITY : sum;
    return sum + (rare_seen - rare) * (rare_seen - rare) / rare;
}

static double chi_squared_of(row_case *c) {
    static int32_t seen[MOST];
    static double p[MOST];
    const json_t *ids = json_object_get(c->o, "ids"), *want = json_object_get(c->o, "p");
    oc_sampler *s = open_sampler(c->vocab);
    memset(seen, 0, sizeof seen);
    memset(p, 0, sizeof p);
    for (size_t i = 0; i < json_array_size(ids); i++)
        p[json_integer_value(json_array_get(ids, i))] = json_number_value(json_array_get(want, i));
    for (int i = 0; i < DRAWS; i++)
        seen[sample(s, &c->how, &c->row, c->logits, false).id]++;
    assert_int_equal(c->row.drawn, DRAWS);
    oc_sampler_close(s);
    return chi_squared(p, seen, c->vocab);
}

/* Next case of which all probabilities are known, from *i on. */
static bool next_whole(row_case *c, size_t *i) {
    const json_t *cases = json_object_get(expected, "cases");
    for (; *i < json_array_size(cases); ++*i) {
        if (!json_is_true(json_object_get(json_array_get(cases, *i), "whole"))) continue;
        read_case(c, json_array_get(cases, (*i)++));
        return true;
    }
    return false;
}

static void draws_follow_the_probabilities(void **state) {
    static row_case c;
    int n = 0;
    (void)state;
    for (size_t i = 0; next_whole(&c, &i); n++) {
        double x = chi_squared_of(&c), limit = number(c.o, "limit", 0);
        if (!(x < limit)) fail_msg("%s: chi-squared %g, at most %g", c.name, x, limit);
    }
    assert_int_equal(n, 5);
}

/* The measure is a sharp one: top-p that keeps one token less or more, a temperature off by 3 %. */
static void draws_of_one_token_less_or_more_do_not(void **state) {
    static row_case c;
    static double p[MOST];
    size_t i = 0;
    (void)state;
    assert_true(next_whole(&c, &i));
    assert_true(c.how.top_p == 0.9);
    const double limit = number(c.o, "limit", 0), kept = number(c.o, "kept", 0);
    for (int more = -1; more <= 1; more += 2) {
        double n = kept;
        for (c.how.top_p = 0.9; n != kept + more; c.how.top_p += more * 1e-4) {
            assert_in_range((int)(c.how.top_p * 100), 80, 98);
            probabilities(&c, p);
            n = 0;
            for (int32_t k = 0; k < c.vocab; k++)
                n += p[k] > 0;
        }
        c.row.drawn = 0;
        assert_true(chi_squared_of(&c) > limit);
    }
    c.how.top_p = 0.9;
    c.how.temperature = 1.03;
    c.row.drawn = 0;
    assert_true(chi_squared_of(&c) > limit);
}

static void fill_row(float *y, int32_t n, uint32_t seed) {
    for (int32_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        y[i] = (float)(seed >> 8) * 0x1p-20f - 8;
    }
}

/* Rows in any company, and in any order, get the same tokens. */
static void a_rows_tokens_are_its_own(void **state) {
    enum { ROWS = 5, TOKENS = 40, VOCAB = 500 };
    static float y[ROWS][VOCAB];
    int32_t alone[ROWS][TOKENS], ids[ROWS][TOKENS], differ = 0;
    oc_sampling how = oc_sampling_greedy();
    oc_sampler *s = open_sampler(VOCAB);
    (void)state;
    how.temperature = 0.9;
    how.top_p = 0.95;
    how.repetition_penalty = 1.1;
    how.frequency_penalty = 0.5;
    for (int r = 0; r < ROWS; r++) {
        oc_sample_row row = {.row = (uint64_t)r, .ids = alone[r]};
        fill_row(y[r], VOCAB, r < 2 ? 7 : 7 + (uint32_t)r);
        for (row.n_ids = 0; row.n_ids < TOKENS; row.n_ids++)
            alone[r][row.n_ids] = sample(s, &how, &row, y[r], false).id;
    }
    for (int k = 0; k < TOKENS; k++)
        for (int i = 0; i < ROWS; i++) {
            int r = (i * 3 + k) % ROWS;
            oc_sample_row row = {.row = (uint64_t)r, .drawn = (uint64_t)k, .ids = ids[r]};
            row.n_ids = k;
            ids[r][k] = sample(s, &how, &row, y[r], k % 2).id;
        }
    assert_memory_equal(ids, alone, sizeof alone);
    for (int k = 0; k < TOKENS; k++)
        differ += alone[0][k] != alone[1][k]; /* of equal logits */
    assert_true(differ > TOKENS / 2);
    oc_sampler_close(s);
}

static void another_seed_draws_others(void **state) {
    static float y[300];
    int32_t first[64], second[64];
    oc_sampling how = oc_sampling_greedy();
    oc_sampler *s = open_sampler(300);
    (void)state;
    how.temperature = 1;
    fill_row(y, 300, 3);
    for (uint64_t high = 0; high < 2; high++) {
        oc_sample_row row = {0};
        how.seed = high << 40;
        for (int i = 0; i < 64; i++)
            (high ? second : first)[i] = sample(s, &how, &row, y, false).id;
    }
    assert_memory_not_equal(first, second, sizeof first);
    oc_sampler_close(s);
}

static uint64_t hash(uint64_t h, const void *data, size_t n) {
    const unsigned char *p = data;
    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 0x100000001b3u;
    return h;
}

/* Written down once: whatever processor and compiler, to the bit. */
static void a_seed_gives_the_same_tokens_everywhere(void **state) {
    static float y[1000];
    static double e[1000], sums[4];
    static const int32_t want[12] = {358, 931, 592, 934, 913, 592, 673, 991, 614, 559, 413, 743};
    float largest;
    oc_sampling how = oc_sampling_greedy();
    oc_sample_row row = {.row = 3};
    oc_sampler *s = open_sampler(1000);
    (void)state;
    fill_row(y, 1000, 1);
    assert_true(oc_draw_weights_largest(y, 1000, &largest));
    oc_draw_weights_fill(y, 1000, largest, e);
    double sum = oc_draw_weights_sum(e, 1000, sums), log_sum = oc_draw_weights_log(sum);
    uint64_t h = hash(hash(hash(0xcbf29ce484222325u, e, sizeof e), &sum, 8), &log_sum, 8);
    assert_true(h == 0x59f305914747fa39u);
    how.temperature = 0.8;
    how.top_p = 0.9;
    how.seed = 0x123456789abcdefu;
    for (int i = 0; i < 12; i++)
        assert_int_equal(sample(s, &how, &row, y, false).id, want[i]);
    oc_sampler_close(s);
}

/* --- Log-probabilities */

static void the_most_probable_have_log_softmax(void **state) {
    static float y[MOST];
    const json_t *tops = json_object_get(expected, "top");
    oc_sampled top[OC_SAMPLE_TOP];
    (void)state;
    assert_true(json_array_size(tops) > 5);
    for (size_t i = 0; i < json_array_size(tops); i++) {
        const json_t *o = json_array_get(tops, i), *ids = json_object_get(o, "ids");
        int32_t n = (int32_t)json_array_size(ids);
        int32_t vocab = read_logits(json_string_value(json_object_get(o, "logits")), y);
        oc_sampler *s = open_sampler(vocab);
        oc_sample_top(s, y, n, top);
        for (int32_t k = 0; k < n; k++) {
            const json_t *v = json_array_get(json_object_get(o, "logprobs"), (size_t)k);
            double want = json_is_null(v) ? -INFINITY : json_number_value(v);
            assert_int_equal(top[k].id, json_integer_value(json_array_get(ids, (size_t)k)));
            assert_true(top[k].logprob == (float)want ||
                        fabs(top[k].logprob - want) <= 6e-8 * fabs(want) + 1e-14);
        }
        oc_sampler_close(s);
    }
}

/* Whatever was done to the logits, the model's own distribution is told. */
static void a_tokens_log_probability_is_the_models_own(void **state) {
    static row_case c;
    const json_t *cases = json_object_get(expected, "cases");
    oc_sampled top[OC_SAMPLE_TOP];
    int compared = 0;
    (void)state;
    for (size_t i = 0; i < json_array_size(cases); i += 3) {
        read_case(&c, json_array_get(cases, i));
        oc_sampler *s = open_sampler(c.vocab);
        oc_sampled x = sample(s, &c.how, &c.row, c.logits, true);
        int32_t n = c.vocab < OC_SAMPLE_TOP ? c.vocab : OC_SAMPLE_TOP;
        oc_sample_top(s, c.logits, n, top);
        for (int32_t k = 0; k < n; k++)
            if (top[k].id == x.id) {
                assert_true(top[k].logprob == x.logprob);
                compared++;
            }
        oc_sampler_close(s);
    }
    assert_true(compared > 50);
}

/* --- Edges */

static void broken_logits_are_an_error(void **state) {
    static float y[100];
    const float wrong[] = {NAN, INFINITY, -INFINITY};
    oc_sampler *s = open_sampler(100);
    (void)state;
    for (size_t at = 0; at < 100; at++)
        for (int w = 0; w < 3; w++)
            for (int t = 0; t < 2; t++) {
                oc_sampling how = oc_sampling_greedy();
                oc_sample_row row = {0};
                oc_sampled x = {-7, 0};
                oc_error err = {0};
                how.temperature = t;
                for (size_t i = 0; i < 100; i++)
                    y[i] = w == 2 ? -INFINITY : (float)i;
                y[at] = wrong[w];
                assert_int_equal(oc_sample(s, &how, &row, y, true, &x, &err), OC_E_INVALID);
                assert_true(x.id == -7 && err.message[0] != 0 && row.drawn == 0);
            }
    oc_sampler_close(s);
}

static void suppressed_tokens_never_come(void **state) {
    const float y[6] = {1, 5, 4, 3, 2, 0};
    const int32_t not [] = {1, 3, -1, 6, 99};
    oc_sampling how = oc_sampling_greedy();
    oc_sampler *s = open_sampler(6);
    oc_sample_row row = {0};
    double p[6];
    oc_error err;
    (void)state;
    how.suppressed = not ;
    how.n_suppressed = 5;
    assert_int_equal(sample(s, &how, &row, y, false).id, 2);
    how.temperature = 1;
    assert_int_equal(oc_sample_probabilities(s, &how, &row, y, p, &err), OC_OK);
    assert_true(p[1] == 0 && p[3] == 0 && p[2] > p[4] && p[4] > p[0] && p[5] > 0);
    oc_sampler_close(s);
}

/* As MinNewTokensLengthLogitsProcessor of transformers: -infinity while fewer are generated. */
static void an_answer_does_not_end_before_its_least_length(void **state) {
    const float y[4] = {1, 5, 4, 3};
    const int32_t ends[] = {1, 2, -1, 9}, ids[] = {0, 1, 0, 3};
    oc_sampling how = oc_sampling_greedy();
    oc_sampler *s = open_sampler(4);
    double p[4];
    oc_error err;
    (void)state;
    how.ends = ends;
    how.n_ends = 4;
    how.least = 2;
    for (int32_t n = 2; n <= 4; n++) {
        oc_sample_row row = {.ids = ids, .n_ids = n, .n_prompt = 2};
        how.temperature = 0;
        assert_int_equal(sample(s, &how, &row, y, false).id, n < 4 ? 3 : 1);
        how.temperature = 1;
        assert_int_equal(oc_sample_probabilities(s, &how, &row, y, p, &err), OC_OK);
        assert_true((p[1] == 0) == (n < 4) && (p[2] == 0) == (n < 4) && p[0] > 0 && p[3] > p[0]);
    }
    how.least = -1;
    assert_int_equal(oc_sampling_check(&how, &err), OC_E_INVALID);
    oc_sampler_close(s);
}

/* Where probabilities sum up to top-p but for rounding, no token more or less is kept. */
static void of_ten_equal_tokens_top_p_keeps_tenths(void **state) {
    const float y[10] = {0};
    double p[10];
    oc_sampling how = oc_sampling_greedy();
    oc_sampler *s = open_sampler(10);
    oc_sample_row row = {0};
    oc_error err;
    (void)state;
    how.temperature = 1;
    for (int k = 1; k <= 10; k++) {
        how.top_p = k / 10.0;
        assert_int_equal(oc_sample_probabilities(s, &how, &row, y, p, &err), OC_OK);
        for (int i = 0; i < 10; i++)
            assert_true(p[i] == (i < 10 - k ? 0 : 1.0 / k));
    }
    oc_sampler_close(s);
}

/* A quotient that overflows leaves the largest. */
static void a_temperature_near_zero_takes_the_largest(void **state) {
    const float y[5] = {-1, 30, 29.999f, 30, -INFINITY}, below[3] = {-3, -2, -2.5f};
    oc_sampling how = oc_sampling_greedy();
    oc_sample_row row = {0};
    double p[5];
    oc_error err;
    (void)state;
    for (double t = 1e-37; t > 0; t *= 1e-30) {
        how.temperature = t;
        assert_int_equal(oc_sampling_check(&how, &err), OC_OK);
        oc_sampler *s = open_sampler(5);
        assert_int_equal(oc_sample_probabilities(s, &how, &row, y, p, &err), OC_OK);
        assert_true(p[0] == 0 && p[1] == 0.5 && p[2] == 0 && p[3] == 0.5 && p[4] == 0);
        oc_sampler_close(s);
        s = open_sampler(3);
        assert_int_equal(oc_sample_probabilities(s, &how, &row, below, p, &err), OC_OK);
        assert_true(p[0] == 0 && p[1] == 1 && p[2] == 0);
        oc_sampler_close(s);
    }
}

static void ids_outside_the_vocabulary_are_an_error(void **state) {
    static const int32_t wrong[] = {-1, 4, INT32_MAX};
    const float y[4] = {1, 2, 3, 4};
    oc_sampling how = oc_sampling_greedy();
    oc_sampler *s = open_sampler(4);
    oc_error err;
    oc_sampled x;
    (void)state;
    how.repetition_penalty = 1.5;
    for (int i = 0; i < 3; i++) {
        oc_sample_row row = {.ids = &wrong[i], .n_ids = 1};
        assert_int_equal(oc_sample(s, &how, &row, y, false, &x, &err), OC_E_INVALID);
    }
    oc_sampler_close(s);
}

static void what_is_out_of_range_is_named(void **state) {
    static const struct {
        const char *name;
        oc_sampling s;
    } wrong[] = {
        {"temperature", {.temperature = -1, .top_p = 1, .repetition_penalty = 1}},
        {"temperature", {.temperature = NAN, .top_p = 1, .repetition_penalty = 1}},
        {"temperature", {.temperature = INFINITY, .top_p = 1, .repetition_penalty = 1}},
        {"top_k", {.top_k = -1, .top_p = 1, .repetition_penalty = 1}},
        {"top_p", {.top_p = 1.01, .repetition_penalty = 1}},
        {"top_p", {.top_p = -0.01, .repetition_penalty = 1}},
        {"top_p", {.top_p = NAN, .repetition_penalty = 1}},
        {"min_p", {.min_p = 1.5, .top_p = 1, .repetition_penalty = 1}},
        {"repetition_penalty", {.top_p = 1}},
        {"repetition_penalty", {.top_p = 1, .repetition_penalty = INFINITY}},
        {"presence_penalty", {.presence_penalty = 3, .top_p = 1, .repetition_penalty = 1}},
        {"frequency_penalty", {.frequency_penalty = -3, .top_p = 1, .repetition_penalty = 1}},
    };
    oc_error err;
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(oc_sampling_check(&wrong[i].s, &err), OC_E_INVALID);
        assert_memory_equal(err.message, wrong[i].name, strlen(wrong[i].name));
    }
    oc_sampling fine = oc_sampling_greedy();
    assert_int_equal(oc_sampling_check(&fine, &err), OC_OK);
}

static void sampling_allocates_nothing(void **state) {
    static float y[5000];
    int32_t ids[200];
    oc_sampling how = oc_sampling_greedy();
    oc_sample_row row = {.ids = ids, .n_prompt = 3};
    oc_sampled top[OC_SAMPLE_TOP];
    (void)state;
    fill_row(y, 5000, 9);
    how.temperature = how.repetition_penalty = 1.2;
    how.top_k = 3000;
    how.top_p = 0.99;
    how.presence_penalty = 0.1;
    oc_sampler *s = open_sampler(5000);
    alloc_watch();
    for (; row.n_ids < 200; row.n_ids++) {
        ids[row.n_ids] = sample(s, &how, &row, y, true).id;
        oc_sample_top(s, y, OC_SAMPLE_TOP, top);
    }
    unsigned long long calls = alloc_unwatch();
    if (calls > 0) alloc_print_first();
    assert_int_equal(calls, 0);
    oc_sampler_close(s);
}

/* --- Numbers */

static void exponentials_and_logarithms_are_the_librarys(void **state) {
    static float y[4096];
    static double e[4096];
    (void)state;
    for (int i = 0; i < 4096; i++)
        y[i] = (float)(-i * (i % 3 == 0 ? 0.17 : i % 3 == 1 ? 0.01 : 1e-6));
    oc_draw_weights_fill(y, 4096, 0, e);
    for (int i = 0; i < 4096; i++)
        if (y[i] < -700)
            assert_true(e[i] == 0);
        else
            assert_true(fabs(e[i] / exp(y[i]) - 1) < 1e-14);
    for (double x = 1e-300; x < 1e300; x *= 1.37)
        assert_true(fabs(oc_draw_weights_log(x) - log(x)) <= 1e-14 * (1 + fabs(log(x))));
    assert_true(oc_draw_weights_log(1) == 0);
}

/* Of every length: no element is left out or seen twice at the ends of vectors and blocks. */
static void every_element_counts_once(void **state) {
    static float y[600];
    static double e[600], sums[3];
    (void)state;
    for (size_t n = 1; n <= 600; n++)
        for (size_t at = n < 40 ? 0 : n - 20; at < n; at++) {
            float largest;
            for (size_t i = 0; i < n; i++)
                y[i] = -1;
            y[at] = 2;
            assert_true(oc_draw_weights_largest(y, n, &largest) && largest == 2);
            assert_int_equal(oc_draw_weights_find(y, n, 2), at);
            oc_draw_weights_fill(y, n, 2, e);
            assert_true(fabs(oc_draw_weights_sum(e, n, sums) - (1 + (double)(n - 1) * exp(-3))) <
                        1e-11);
            y[at] = NAN;
            assert_false(oc_draw_weights_largest(y, n, &largest));
        }
}

static int falling(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

static void the_kth_largest_is_that_of_a_sorted_list(void **state) {
    static float y[3000], sorted[3000];
    static uint64_t scratch[6000];
    (void)state;
    for (uint32_t seed = 0; seed < 4; seed++) {
        fill_row(y, 3000, seed);
        for (int i = 0; i < 3000; i++)
            y[i] = seed == 1            ? roundf(y[i])
                   : seed == 2          ? (float)i
                   : seed == 3 && i % 2 ? -INFINITY
                                        : y[i];
        memcpy(sorted, y, sizeof y);
        qsort(sorted, 3000, sizeof *sorted, falling);
        for (size_t k = 1; k <= 3000; k += k < 40 ? 1 : 97)
            assert_true(oc_draw_weights_kth(y, 3000, k, scratch) == sorted[k - 1]);
        assert_true(oc_draw_weights_kth(y, 3000, 1024, scratch) == sorted[1023]);
        assert_true(oc_draw_weights_kth(y, 3000, 1025, scratch) == sorted[1024]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_kept_is_what_transformers_keeps),
        cmocka_unit_test(greedy_takes_what_transformers_takes),
        cmocka_unit_test(draws_follow_the_probabilities),
        cmocka_unit_test(draws_of_one_token_less_or_more_do_not),
        cmocka_unit_test(a_rows_tokens_are_its_own),
        cmocka_unit_test(a_seed_gives_the_same_tokens_everywhere),
        cmocka_unit_test(another_seed_draws_others),
        cmocka_unit_test(the_most_probable_have_log_softmax),
        cmocka_unit_test(a_tokens_log_probability_is_the_models_own),
        cmocka_unit_test(broken_logits_are_an_error),
        cmocka_unit_test(suppressed_tokens_never_come),
        cmocka_unit_test(an_answer_does_not_end_before_its_least_length),
        cmocka_unit_test(of_ten_equal_tokens_top_p_keeps_tenths),
        cmocka_unit_test(a_temperature_near_zero_takes_the_largest),
        cmocka_unit_test(ids_outside_the_vocabulary_are_an_error),
        cmocka_unit_test(what_is_out_of_range_is_named),
        cmocka_unit_test(sampling_allocates_nothing),
        cmocka_unit_test(exponentials_and_logarithms_are_the_librarys),
        cmocka_unit_test(every_element_counts_once),
        cmocka_unit_test(the_kth_largest_is_that_of_a_sorted_list),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
