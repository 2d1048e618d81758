/* train_case.h - a small training run inside the test: a command line in; every step's numbers and
 * the final weights out. The way is the program's own: parse, resolve, set up, open, two steps in
 * flight. */
#ifndef OC_TRAIN_CASE_H
#define OC_TRAIN_CASE_H

#include "base/log.h"
#include "cmocka_all.h"
#include "engine/corpus.h"
#include "engine/session.h"
#include "scratch.h"

#include <string.h>
#include <unistd.h>

enum { TRAIN_STEPS_MAX = 64, TRAIN_LINE_BYTES = 4096 };

typedef struct train_case {
    oc_config *config;
    oc_setup *setup;
    oc_corpus corpus;
    oc_session *session;
    uint64_t next_step;
} train_case;

typedef struct train_result {
    int n;
    oc_result_cell step[TRAIN_STEPS_MAX];
    uint64_t targets[TRAIN_STEPS_MAX];
    uint64_t updates; /* of the carry, at the end */
    double scale;     /* the next step's loss scale */
    size_t bytes;
    unsigned char *weights; /* of all blocks, in order, as trained (fp32) or in compute dtype */
} train_result;

/* ---- files ---- */

/* DIR/config.json and DIR/NAME.jsonl are what a run starts from. */
static inline void train_write_config(const char *dir, const char *json) {
    scratch_write(dir, "config.json", json);
}

static inline uint32_t train_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

typedef struct train_rows {
    int rows, least, most; /* tokens of a row: between least and most */
    int vocab;
    int ignored;    /* of a hundred labels, so many are -100; < 0: no labels are given */
    bool none_left; /* every label is -100 but in the first row */
} train_rows;

/* Rows of token ids that repeat a small pattern with noise, so that there is something to learn. */
static inline void train_write_rows(const char *dir, const char *name, const train_rows *w) {
    char path[SCRATCH_BYTES];
    FILE *f = fopen(scratch_path(path, dir, name), "w");
    assert_non_null(f);
    uint64_t seed = 7;
    for (int i = 0; i < w->rows; i++) {
        int n = w->least;
        if (w->most > w->least) n += (int)(train_random(&seed) % (uint32_t)(w->most - w->least));
        fprintf(f, "{\"input_ids\": [");
        uint64_t again = seed;
        for (int t = 0; t < n; t++) {
            uint32_t r = train_random(&seed);
            int id = r % 4 == 0 ? (int)(r / 4 % (uint32_t)w->vocab) : (i * 5 + t * 3) % w->vocab;
            fprintf(f, "%s%d", t ? ", " : "", id);
        }
        fprintf(f, "]");
        if (w->ignored >= 0) {
            uint64_t pick = again ^ 0x5555;
            fprintf(f, ", \"labels\": [");
            for (int t = 0; t < n; t++) {
                uint32_t r = train_random(&again);
                int id =
                    r % 4 == 0 ? (int)(r / 4 % (uint32_t)w->vocab) : (i * 5 + t * 3) % w->vocab;
                bool out = (int)(train_random(&pick) % 100) < w->ignored;
                if (w->none_left && i > 0) out = true;
                fprintf(f, "%s%d", t ? ", " : "", out ? -100 : id);
            }
            fprintf(f, "]");
        }
        fprintf(f, "}\n");
    }
    assert_int_equal(fclose(f), 0);
}

static inline void train_remove(const char *dir) {
    static const char *const names[] = {
        "config.json", "a.jsonl",           "b.jsonl",
        "ds.json",     "model.safetensors", "run.json",
        "log.jsonl",   "tokenizer.json",    "tokenizer_config.json"};
    char path[SCRATCH_BYTES];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        (void)unlink(scratch_path(path, dir, names[i]));
    (void)rmdir(dir);
}

/* ---- a run ---- */

/* line: words of `outcore train`. NULL: err says why not. */
static inline oc_config *train_config(oc_command command, const char *line, oc_error *err) {
    char words[TRAIN_LINE_BYTES], *argv[128], *save = NULL;
    int argc = 0;
    oc_config *c = NULL;
    snprintf(words, sizeof words, "%s", line);
    for (char *w = strtok_r(words, " ", &save); w; w = strtok_r(NULL, " ", &save))
        argv[argc++] = w;
    if (oc_config_parse(&c, command, argc, argv, NULL, err) != OC_OK) return NULL;
    oc_status s = OC_OK;
    if (c->config_file) s = oc_config_read_deepspeed(c, c->config_file, 1, NULL, err);
    if (s == OC_OK) s = oc_config_resolve(c, 1, NULL, err);
    if (s == OC_OK) return c;
    oc_config_free(c);
    return NULL;
}

static inline void train_close(train_case *t) {
    oc_session_close(t->session);
    oc_corpus_release(&t->corpus);
    oc_setup_close(t->setup);
    oc_config_free(t->config);
    memset(t, 0, sizeof *t);
}

static inline oc_status train_try_open(train_case *t, const char *line, oc_error *err) {
    oc_log_set_level(OC_LOG_WARN);
    memset(t, 0, sizeof *t);
    t->config = train_config(OC_CMD_TRAIN, line, err);
    if (!t->config) return err->status;
    const oc_config *c = t->config;
    oc_status st = oc_setup_open(&t->setup, c, NULL, err);
    if (st == OC_OK) st = oc_corpus_open(&t->corpus, t->setup, &t->setup->files, true, err);
    if (st == OC_OK) st = oc_session_open(&t->session, t->setup, c->max_steps, err);
    if (st != OC_OK) train_close(t);
    return st;
}

static inline void train_open(train_case *t, const char *line) {
    oc_error err = {OC_OK, ""};
    if (train_try_open(t, line, &err) != OC_OK) fail_msg("%s\n%s", line, err.message);
}

static inline void train_collect(train_case *t, train_result *r) {
    oc_error err = {OC_OK, ""};
    int i = r->n++;
    if (oc_session_finish(t->session, &r->step[i], &r->targets[i], &err) != OC_OK)
        fail_msg("%s", err.message);
}

/* n more steps, two in flight as in the program; drained at the end. */
static inline void train_steps(train_case *t, int n, train_result *r) {
    oc_error err = {OC_OK, ""};
    assert_true(r->n + n <= TRAIN_STEPS_MAX);
    for (int i = 0; i < n; i++) {
        if (oc_session_begin(t->session, t->corpus.feed, t->next_step++, &err) != OC_OK)
            fail_msg("%s", err.message);
        if (i > 0) train_collect(t, r);
        if (oc_session_go_on(t->session, &err) != OC_OK) fail_msg("%s", err.message);
    }
    train_collect(t, r);
    if (oc_session_drain(t->session, &err) != OC_OK) fail_msg("%s", err.message);
}

/* Weights and counters as they are now, into r. */
static inline void train_snapshot(train_case *t, train_result *r) {
    const oc_model *m = t->setup->model;
    size_t e = oc_dtype_bytes(oc_session_dtype(t->session)), at = 0;
    r->bytes = 0;
    for (int32_t i = 0; i < m->n_blocks; i++)
        r->bytes += (size_t)m->blocks[i].elements * e;
    free(r->weights);
    r->weights = malloc(r->bytes);
    assert_non_null(r->weights);
    for (int32_t i = 0; i < m->n_blocks; i++) {
        size_t n = (size_t)m->blocks[i].elements * e;
        const void *now = NULL;
        oc_error err = {OC_OK, ""};
        if (oc_session_weights(t->session, i, &now, &err) != OC_OK) fail_msg("%s", err.message);
        memcpy(r->weights + at, now, n);
        at += n;
    }
    r->updates = oc_session_carry(t->session)->updates;
    r->scale = oc_session_carry(t->session)->loss_scale;
}

/* A whole run of --max-steps. */
static inline void train_run(const char *line, train_result *r) {
    train_case t;
    memset(r, 0, sizeof *r);
    train_open(&t, line);
    train_steps(&t, (int)t.config->max_steps, r);
    train_snapshot(&t, r);
    train_close(&t);
}

static inline void train_result_release(train_result *r) {
    free(r->weights);
    r->weights = NULL;
}

/* ---- comparison ---- */

static inline void train_assert_same(const train_result *a, const train_result *b,
                                     const char *what) {
    assert_int_equal(a->n, b->n);
    for (int i = 0; i < a->n; i++) {
        if (memcmp(&a->step[i].loss, &b->step[i].loss, sizeof(double)) != 0)
            fail_msg("%s: loss of step %d is %.17g, not %.17g", what, i + 1, b->step[i].loss,
                     a->step[i].loss);
        if (memcmp(&a->step[i].grad_norm, &b->step[i].grad_norm, sizeof(double)) != 0)
            fail_msg("%s: gradient norm of step %d is %.17g, not %.17g", what, i + 1,
                     b->step[i].grad_norm, a->step[i].grad_norm);
        if (a->step[i].finite != b->step[i].finite || a->step[i].lr_used != b->step[i].lr_used)
            fail_msg("%s: step %d has another learning rate or skips", what, i + 1);
    }
    assert_int_equal(a->bytes, b->bytes);
    for (size_t i = 0; i < a->bytes; i++)
        if (a->weights[i] != b->weights[i])
            fail_msg("%s: the final weights differ from byte %zu of %zu on", what, i, a->bytes);
}

static inline double train_relative(double a, double b) {
    double d = a > b ? a - b : b - a, s = b > 0 ? b : -b;
    return s > 0 ? d / s : d;
}

#endif
