/* scores.c - see scores.h. */
#include "infer/scores.h"

#include "base/checked.h"
#include "base/clock.h"
#include "base/heap.h"
#include "base/json.h"
#include "base/log.h"
#include "data/lines.h"
#include "engine/session.h"
#include "infer/requests.h"
#include "infer/results.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_DEFAULT = 2048, WAITING_MOST = 1 << 20, PROGRESS_SECONDS = 30 };

typedef struct placed {
    oc_request q;
    int64_t at; /* its first token in the submission */
} placed;

/* A submission's rows. */
typedef struct window {
    placed *rows;
    int32_t n;
} window;

typedef struct scoring {
    const oc_config *c;
    oc_generator generator;
    oc_setup *setup;
    oc_requests *in;
    oc_results *out;
    window windows[2];
    oc_request held; /* read, and not placed yet */
    bool holds, more;
    uint64_t begun, done, all; /* rows: of an earlier run, so far, in the file (0: not known) */
    uint64_t step;
    int64_t started, told;
    oc_score_sum *sum;
} scoring;

/* ---- lengths ---- */

static int64_t positions_of(const oc_setup *s) {
    if (s->config->seq_length > 0) return s->config->seq_length;
    return s->model->max_positions > 0 ? s->model->max_positions : INT32_MAX / 4;
}

static oc_requests_spec rows_spec(const oc_setup *s, int64_t longest) {
    return (oc_requests_spec){.path = s->config->data[0],
                              .tokenizer = s->tokenizer,
                              .logprobs = -1,
                              .vocab = (int32_t)s->model->vocab,
                              .max_positions = (int32_t)longest,
                              .pairs = true};
}

/* Every row of a file is looked at, so that none turns out too long. */
static oc_status wish(void *user, const oc_setup *s, oc_pass_wish *out, oc_error *err) {
    scoring *x = user;
    oc_requests_survey seen;
    int64_t most = positions_of(s);
    oc_requests_spec spec = rows_spec(s, most);
    *out = (oc_pass_wish){0};
    OC_TRY(oc_requests_survey_file(&spec, UINT64_MAX, &seen, err));
    x->all = seen.whole ? seen.rows : 0;
    out->longest = seen.whole               ? seen.longest_prompt
                   : most < LONGEST_DEFAULT ? most
                                            : LONGEST_DEFAULT;
    if (s->config->seq_length > 0) out->longest = most;
    if (out->longest < 2) out->longest = 2;
    return OC_OK;
}

static int64_t grains(int64_t tokens) {
    return (int64_t)oc_ceil_div((uint64_t)tokens, OC_ATTENTION_GRAIN);
}

static uint64_t room_of(const oc_build_spec *b) { return (uint64_t)(b->batch * grains(b->seq)); }

static uint64_t beside(void *user, const oc_setup *s, const oc_build_spec *b) {
    (void)user, (void)s;
    return 2 * oc_heap_bytes(room_of(b) * sizeof(placed));
}

/* ---- rows out ---- */

static oc_status put(scoring *x, const oc_request *q, const oc_answer *a, oc_error *err) {
    x->done++;
    x->sum->failed += a == NULL;
    return oc_results_put(x->out, q, a, err);
}

static oc_status put_score(scoring *x, const oc_request *q, const oc_token_score *at,
                           oc_error *err) {
    oc_answer a = {.scored = true,
                   .greedy = true,
                   .prompt_tokens = q->n_context,
                   .completion_tokens = q->n_ids - q->n_context};
    double nll = 0;
    for (int32_t t = q->n_context - 1; t + 1 < q->n_ids; t++) {
        nll += at[t].nll;
        a.greedy = a.greedy && at[t].likeliest;
    }
    a.log_likelihood = 0 - nll;
    x->sum->nll += nll;
    x->sum->tokens += (uint64_t)a.completion_tokens;
    return put(x, q, &a, err);
}

static void tell(scoring *x) {
    int64_t now = oc_clock_ns();
    double seconds = (double)(now - x->started) / 1e9, rows = (double)(x->done - x->begun);
    char left[64] = "";
    if (now - x->told < PROGRESS_SECONDS * INT64_C(1000000000)) return;
    x->told = now;
    if (x->all > x->done && rows > 0)
        (void)snprintf(left, sizeof left, " of %llu, about %.0f s left", (unsigned long long)x->all,
                       (double)(x->all - x->done) / rows * seconds);
    oc_log(OC_LOG_INFO, "%llu rows%s", (unsigned long long)x->done, left);
}

static void drop(window *w) {
    for (int32_t i = 0; i < w->n; i++)
        oc_request_release(&w->rows[i].q);
    w->n = 0;
}

static oc_status take(void *user, uint32_t slot, const void *losses, oc_error *err) {
    scoring *x = user;
    window *w = &x->windows[slot];
    const oc_token_score *scores = (const void *)((const double *)losses + 1);
    oc_status st = OC_OK;
    for (int32_t i = 0; st == OC_OK && i < w->n; i++)
        st = put_score(x, &w->rows[i].q, scores + w->rows[i].at, err);
    drop(w);
    tell(x);
    return st == OC_OK ? oc_results_sync(x->out, err) : st;
}

/* ---- rows in ---- */

/* A row that needs no arithmetic: an error, or one whose completion is empty. */
static oc_status put_now(scoring *x, oc_request *q, oc_error *err) {
    oc_status st = q->error ? put(x, q, NULL, err) : put_score(x, q, NULL, err);
    oc_request_release(q);
    return st;
}

/* The next row that is to be placed, if there is one; not past too many that wait to be written. */
static oc_status hold(scoring *x, bool may_wait, oc_error *err) {
    while (!x->holds && x->more && !(may_wait && oc_results_waiting(x->out) > WAITING_MOST)) {
        OC_TRY(oc_requests_next(x->in, &x->held, &x->more, err));
        if (!x->more) break;
        x->holds = !x->held.error && x->held.n_context < x->held.n_ids;
        if (!x->holds) OC_TRY(put_now(x, &x->held, err));
    }
    return OC_OK;
}

/* One micro-batch: arrays of batch x seq. */
typedef struct arrays {
    int64_t n, seq;
    int32_t *tokens, *labels, *positions, *starts;
} arrays;

/* Of tokens that are none: each a document of its own. */
static arrays empty_arrays(const scoring *x, int32_t *batch) {
    const oc_build_spec *b = &x->setup->build;
    int64_t n = b->batch * b->seq;
    int32_t pad = x->setup->tokenizer ? oc_tokenizer_pad(x->setup->tokenizer) : 0;
    arrays a = {n,
                b->seq,
                batch + OC_BATCH_TOKENS * n,
                batch + OC_BATCH_LABELS * n,
                batch + OC_BATCH_POSITIONS * n,
                batch + OC_BATCH_DOC_START * n};
    for (int64_t t = 0; t < n; t++) {
        a.tokens[t] = pad > 0 ? pad : 0;
        a.labels[t] = -100;
        a.positions[t] = 0;
        a.starts[t] = (int32_t)(t % a.seq);
    }
    return a;
}

static void place(const arrays *a, const oc_request *q, int64_t at) {
    for (int32_t i = 0; i < q->n_ids; i++) {
        a->tokens[at + i] = q->ids[i];
        a->positions[at + i] = i;
        a->starts[at + i] = (int32_t)(at % a->seq);
        if (i + 1 >= q->n_context && i + 1 < q->n_ids) a->labels[at + i] = q->ids[i + 1];
    }
}

/* As many rows as the sequence that begins at `first` has room for, one behind the other. */
static oc_status fill_sequence(scoring *x, window *w, const arrays *a, int64_t first,
                               oc_error *err) {
    for (int64_t at = 0; at < a->seq;) {
        OC_TRY(hold(x, w->n > 0, err));
        if (!x->holds || at + x->held.n_ids > a->seq) return OC_OK;
        w->rows[w->n++] = (placed){x->held, first + at};
        x->holds = false;
        place(a, &x->held, first + at);
        at = grains(at + x->held.n_ids) * OC_ATTENTION_GRAIN;
    }
    return OC_OK;
}

static oc_status fill(void *user, uint32_t slot, const oc_feed_cells *cells, bool *some,
                      oc_error *err) {
    scoring *x = user;
    window *w = &x->windows[slot];
    arrays a = empty_arrays(x, cells->batch);
    for (int64_t first = 0; first < a.n; first += a.seq)
        OC_TRY(fill_sequence(x, w, &a, first, err));
    memset(cells->control, 0, offsetof(oc_control_cell, live) + sizeof *cells->control->live);
    cells->control->step = ++x->step;
    cells->control->live[0] = w->n > 0;
    *some = w->n > 0;
    return OC_OK;
}

/* ---- what is there already ---- */

/* Scores of rows of an earlier run; errors have none. null is what JSON has no number for. */
static oc_status add_row(scoring *x, const char *line, size_t n, uint64_t number, oc_error *err) {
    json_t *row = NULL;
    OC_TRY(oc_json_parse(&row, line, n, x->c->scores, number, 0, err));
    const json_t *score = json_object_get(row, "log_likelihood");
    if (score) {
        x->sum->nll -= json_is_number(score) ? json_number_value(score) : (double)NAN;
        x->sum->tokens += (uint64_t)json_integer_value(json_object_get(row, "tokens"));
    }
    json_decref(row);
    return OC_OK;
}

static oc_status add_rows(scoring *x, oc_error *err) {
    oc_lines in;
    oc_status st = OC_OK;
    if (x->begun == 0) return OC_OK;
    OC_TRY(oc_lines_open(&in, x->c->scores, err));
    for (uint64_t i = 0; st == OC_OK && i < x->begun; i++) {
        const char *line;
        size_t n;
        bool more;
        st = oc_lines_next(&in, &line, &n, &more, err);
        if (st == OC_OK && more) st = add_row(x, line, n, i + 1, err);
    }
    oc_lines_close(&in);
    oc_log(OC_LOG_INFO, "%s: %llu rows are there already", x->c->scores,
           (unsigned long long)x->begun);
    return st;
}

/* ---- a run ---- */

/* What a score depends on. */
static char *key_of(const scoring *x) {
    json_t *key = json_pack("{s:b,s:s,s:s,s:s,s:I}", "scores", 1, "model", x->c->model_dir, "data",
                            x->c->data[0], "dtype", oc_dtype_name(x->setup->dtype), "longest",
                            (json_int_t)x->setup->wish.longest);
    char *text = key ? oc_json_dump(key, JSON_COMPACT) : NULL;
    json_decref(key);
    return text;
}

static oc_status open_results(scoring *x, oc_error *err) {
    char *key = key_of(x);
    if (!key) return oc_fail(err, OC_E_MEMORY, "no memory for the scores");
    oc_results_spec spec = {.path = x->c->scores,
                            .input = x->c->data[0],
                            .option = "scores",
                            .input_option = "data",
                            .overwrite = x->c->overwrite,
                            .resume = x->c->resume,
                            .key = key,
                            .model = x->c->model_dir};
    oc_status st = oc_results_open(&x->out, &spec, &x->begun, err);
    free(key);
    x->done = x->begun;
    return st;
}

static oc_status open_all(scoring *x, oc_error *err) {
    x->generator = (oc_generator){.wish = wish, .beside = beside, .user = x, .scores = true};
    FILE *notes = x->c->quiet ? NULL : stderr;
    OC_TRY(oc_setup_open_generate(&x->setup, x->c, &x->generator, notes, err));
    if (notes) oc_setup_print(x->setup, notes);
    const oc_build_spec *b = &x->setup->build;
    for (int i = 0; i < 2; i++) {
        x->windows[i].rows = calloc(room_of(b), sizeof(placed));
        if (!x->windows[i].rows) return oc_fail(err, OC_E_MEMORY, "no memory for the rows");
    }
    int64_t most = positions_of(x->setup);
    oc_requests_spec rows = rows_spec(x->setup, most < b->seq ? most : b->seq);
    OC_TRY(oc_requests_open(&x->in, &rows, err));
    OC_TRY(open_results(x, err));
    OC_TRY(add_rows(x, err));
    return oc_requests_skip(x->in, x->begun, err);
}

/* A round ends when no row is left, or none but those that wait to be written. */
static oc_status score_rows(scoring *x, oc_session *s, const volatile sig_atomic_t *stop,
                            oc_error *err) {
    oc_scorer scorer = {fill, take, x};
    x->more = true;
    x->started = x->told = oc_clock_ns();
    while ((x->more || x->holds) && !*stop)
        OC_TRY(oc_session_score(s, &scorer, stop, err));
    return oc_session_write_trace(s, err);
}

static oc_status run(scoring *x, const volatile sig_atomic_t *stop, oc_error *err) {
    oc_session *s = NULL;
    OC_TRY(oc_session_open(&s, x->setup, 1, err));
    oc_mem_trim();
    x->sum->begun = true;
    oc_status st = score_rows(x, s, stop, err);
    if (st == OC_OK && !x->c->quiet) oc_session_print_measured(s, stderr);
    oc_session_close(s);
    return st;
}

static void say(const scoring *x) {
    const char *first;
    uint64_t n = oc_requests_unknown(x->in, &first);
    if (n > 0)
        oc_log(OC_LOG_WARN,
               "%s: %llu keys without a meaning here were not looked at, \"%s\" among them",
               x->c->data[0], (unsigned long long)n, first);
    if (x->sum->failed > 0)
        oc_log(OC_LOG_WARN, "%llu rows are errors: each says why in %s",
               (unsigned long long)x->sum->failed, x->c->scores);
}

static oc_status close_all(scoring *x, bool whole, oc_error *err) {
    oc_status st = x->out ? oc_results_close(x->out, whole, err) : OC_OK;
    if (x->holds) oc_request_release(&x->held);
    for (int i = 0; i < 2; i++) {
        drop(&x->windows[i]);
        free(x->windows[i].rows);
    }
    oc_requests_close(x->in);
    oc_setup_close(x->setup);
    return st;
}

oc_status oc_score(const oc_config *c, oc_score_sum *out, const volatile sig_atomic_t *stop,
                   oc_error *err) {
    scoring x = {.c = c, .sum = out};
    *out = (oc_score_sum){0};
    oc_status st = open_all(&x, err);
    if (st == OC_OK) st = run(&x, stop, err);
    if (st == OC_OK) say(&x);
    oc_error last = {OC_OK, ""};
    oc_status end = close_all(&x, st == OC_OK && !*stop, &last);
    if (st == OC_OK && end != OC_OK && err) *err = last;
    return st == OC_OK ? end : st;
}
