/* generate_case.h - generation inside a test: a command line and prompts as ids in; every token,
 * and the logits it was taken from, out. */
#ifndef OC_GENERATE_CASE_H
#define OC_GENERATE_CASE_H

#include "infer/runner.h"
#include "train_case.h"

#include <pthread.h>

enum { GENERATE_ROWS_MOST = 32, GENERATE_TOKENS_MOST = 512 };

typedef struct generate_row {
    int32_t ids[GENERATE_TOKENS_MOST]; /* prompt, then answer */
    int32_t n_prompt, n_ids;
    int32_t answer; /* tokens asked for */
    oc_sampling sampling;
    /* a sum over the bits of all logits of each token, and the last token's logits */
    uint64_t bits[GENERATE_TOKENS_MOST];
    float *logits;
} generate_row;

typedef struct generate_case {
    oc_config *config;
    oc_setup *setup;
    oc_runner *runner;
    oc_generator generator;
    generate_row *rows;
    int32_t n;
    pthread_mutex_t lock;
} generate_case;

static inline oc_status generate_wish(void *user, const oc_setup *s, oc_pass_wish *w,
                                      oc_error *err) {
    const generate_case *g = user;
    (void)s;
    (void)err;
    *w = (oc_pass_wish){.sequences = (uint64_t)g->n};
    for (int32_t i = 0; i < g->n; i++) {
        int64_t most = g->rows[i].n_prompt + g->rows[i].answer;
        if (most > w->longest) w->longest = most;
        w->prompt += (double)g->rows[i].n_prompt / g->n;
        w->answer += (double)g->rows[i].answer / g->n;
    }
    return OC_OK;
}

static inline uint64_t generate_beside(void *user, const oc_setup *s, const oc_build_spec *b) {
    (void)user;
    return oc_runner_bytes(s, b);
}

static inline void generate_watch(void *user, const oc_job *j, int32_t n_ids, const float *logits) {
    generate_case *g = user;
    generate_row *row = &g->rows[j->row];
    uint64_t sum = 0;
    size_t vocab = (size_t)g->setup->model->vocab;
    for (size_t i = 0; i < vocab; i++) {
        uint32_t bits;
        memcpy(&bits, &logits[i], sizeof bits);
        sum = sum * 1099511628211u + bits;
    }
    row->bits[n_ids] = sum;
    if (n_ids + 1 < row->n_prompt + row->answer) return;
    row->logits = realloc(row->logits, vocab * sizeof *logits);
    memcpy(row->logits, logits, vocab * sizeof *logits);
}

static inline void generate_close(generate_case *g) {
    oc_runner_close(g->runner);
    oc_setup_close(g->setup);
    oc_config_free(g->config);
    *g = (generate_case){.n = 0};
}

static inline oc_status generate_try_open(generate_case *g, const char *line, generate_row *rows,
                                          int32_t n, oc_error *err) {
    char whole[TRAIN_LINE_BYTES];
    oc_log_set_level(OC_LOG_WARN);
    *g = (generate_case){.rows = rows, .n = n};
    snprintf(whole, sizeof whole, "%s --prompt x", line);
    g->config = train_config(OC_CMD_GENERATE, whole, err);
    if (!g->config) return err->status;
    g->generator = (oc_generator){.wish = generate_wish, .beside = generate_beside, .user = g};
    oc_status st = oc_setup_open_generate(&g->setup, g->config, &g->generator, NULL, err);
    oc_runner_spec spec = {.setup = g->setup, .watch = generate_watch, .watch_user = g};
    if (st == OC_OK) st = oc_runner_open(&g->runner, &spec, err);
    if (st != OC_OK) generate_close(g);
    return st;
}

static inline void generate_queue(generate_case *g) {
    oc_error err;
    for (int32_t i = 0; i < g->n; i++) {
        generate_row *row = &g->rows[i];
        oc_job *j;
        assert_int_equal(oc_job_new(&j, row->ids, row->n_prompt, row->answer, &err), OC_OK);
        if (row->sampling.repetition_penalty > 0) j->sampling = row->sampling;
        j->row = (uint64_t)i;
        oc_runner_queue(g->runner, j);
    }
}

static inline void generate_collect(generate_case *g) {
    for (oc_job *j; (j = oc_runner_done(g->runner)); oc_job_free(j)) {
        generate_row *row = &g->rows[j->row];
        if (j->finish != OC_FINISH_LENGTH)
            fail_msg("%s: %s", oc_finish_name(j->finish), j->error.message);
        assert_int_equal(oc_job_answered(j), row->answer);
        memcpy(row->ids, j->ids, (size_t)j->n_ids * sizeof *j->ids);
        row->n_ids = j->n_ids;
    }
}

/* All rows, answered. */
static inline void generate_run(const char *line, generate_row *rows, int32_t n) {
    generate_case g;
    oc_error err = {OC_OK, ""};
    bool idle = false;
    if (generate_try_open(&g, line, rows, n, &err) != OC_OK) fail_msg("%s\n%s", line, err.message);
    generate_queue(&g);
    while (!idle) {
        if (oc_runner_turn(g.runner, &idle, &err) != OC_OK) fail_msg("%s\n%s", line, err.message);
        generate_collect(&g);
    }
    generate_close(&g);
    for (int32_t i = 0; i < n; i++)
        assert_int_equal(rows[i].n_ids, rows[i].n_prompt + rows[i].answer);
}

static inline void generate_release(generate_row *rows, int32_t n) {
    for (int32_t i = 0; i < n; i++)
        free(rows[i].logits);
    free(rows);
}

#endif
