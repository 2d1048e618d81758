/* batch.c - a file of requests in, a file of answers out, as many at a time as the batch holds. */
#include "infer/internal.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "infer/requests.h"
#include "infer/results.h"

#include <stdlib.h>
#include <string.h>

enum { SURVEY_ROWS = 4096, LONGEST_LEAST = 2048, PROGRESS_SECONDS = 30 };

/* ---- what is asked for ---- */

static oc_requests_spec requests_spec(const oc_asked *a, const oc_setup *s) {
    const oc_config *c = s->config;
    return (oc_requests_spec){.path = c->input,
                              .tokenizer = s->tokenizer,
                              .sampling = a->sampling,
                              .max_tokens = a->answer,
                              .stops = (const char *const *)c->gen.stops,
                              .n_stops = c->gen.n_stops,
                              .logprobs = c->gen.logprobs,
                              .ignore_eos = c->gen.ignore_eos,
                              .vocab = (int32_t)s->model->vocab,
                              .max_positions = (int32_t)a->positions};
}

/* Rows behind the first look may be longer, but not without end: pages are for the longest. */
static void bound_rest(oc_asked *a, const oc_config *c, const oc_requests_survey *x) {
    int64_t most = 2 * (int64_t)x->longest_total;
    if (x->whole || c->seq_length > 0) return;
    if (most < LONGEST_LEAST) most = LONGEST_LEAST;
    if (a->positions <= most) return;
    a->positions = most;
    oc_log(
        OC_LOG_INFO,
        "rows of more than %lld tokens, answer included, will be errors; --seq-length makes room "
        "for them",
        (long long)most);
}

oc_status oc_generate_survey(oc_asked *a, const oc_setup *s, oc_pass_wish *out, oc_error *err) {
    oc_requests_survey x;
    oc_requests_spec spec = requests_spec(a, s);
    OC_TRY(oc_requests_survey_file(&spec, SURVEY_ROWS, &x, err));
    bound_rest(a, s->config, &x);
    a->rows = x.whole ? x.rows : 0;
    bool some = x.rows > x.errors;
    int64_t half = a->positions / 2;
    out->longest = x.whole && some ? x.longest_total : a->positions;
    out->prompt = some ? x.mean_prompt : (double)half;
    out->answer = some ? x.mean_total - x.mean_prompt : (double)(a->positions - half);
    out->sequences = x.whole && some ? x.rows - x.errors : 0;
    return OC_OK;
}

/* ---- a run ---- */

typedef struct oc_generate_batch batch;

struct oc_generate_batch {
    const oc_generate_setup *s;
    oc_runner *runner;
    oc_requests *in;
    oc_results *out;
    uint64_t done, failed; /* rows so far, those of an earlier run too; errors of this one */
    uint64_t begun;        /* rows of an earlier run */
    int32_t capacity;      /* sequences at a time */
    bool more;             /* rows are left */
    bool whole;            /* every row has its answer */
    int64_t started, told;
};

static const char *model_name(const oc_config *c) {
    const char *slash = strrchr(c->model_dir, '/');
    return slash && slash[1] ? slash + 1 : c->model_dir;
}

/* What an answer depends on. */
static char *key_of(const batch *b) {
    const oc_config *c = b->s->setup->config;
    const oc_sampling *p = &b->s->asked->sampling;
    json_t *stops = json_array(), *key;
    for (int32_t i = 0; i < c->gen.n_stops; i++)
        stops = oc_json_append(stops, json_string(c->gen.stops[i]));
    key = json_pack("{s:s,s:s,s:s,s:f,s:i,s:f,s:f,s:f,s:f,s:f,s:I,s:i,s:i,s:b,s:i,s:o}", "model",
                    c->model_dir, "input", c->input, "dtype", oc_dtype_name(b->s->setup->dtype),
                    "temperature", p->temperature, "top_k", p->top_k, "top_p", p->top_p, "min_p",
                    p->min_p, "repetition_penalty", p->repetition_penalty, "presence_penalty",
                    p->presence_penalty, "frequency_penalty", p->frequency_penalty, "seed",
                    (json_int_t)p->seed, "max_new_tokens", b->s->asked->answer, "min_new_tokens",
                    p->least, "ignore_eos", c->gen.ignore_eos, "logprobs", c->gen.logprobs, "stop",
                    stops);
    char *text = key ? oc_json_dump(key, JSON_COMPACT) : NULL;
    json_decref(key);
    return text;
}

static oc_status open_results(batch *b, oc_error *err) {
    const oc_config *c = b->s->setup->config;
    char *key = key_of(b);
    if (!key) return oc_fail(err, OC_E_MEMORY, "no memory for the answers");
    oc_results_spec spec = {.path = c->output,
                            .input = c->input,
                            .overwrite = c->overwrite,
                            .resume = c->resume,
                            .key = key,
                            .model = model_name(c),
                            .tokenizer = b->s->setup->tokenizer};
    oc_status st = oc_results_open(&b->out, &spec, &b->begun, err);
    free(key);
    if (st != OC_OK) return st;
    b->done = b->begun;
    if (b->begun > 0)
        oc_log(OC_LOG_INFO, "%s: %llu rows are there already", c->output,
               (unsigned long long)b->begun);
    return OC_OK;
}

static void free_request(void *user) {
    oc_request *q = user;
    if (q) oc_request_release(q);
    free(q);
}

/* ---- rows in ---- */

static oc_status refuse_row(batch *b, oc_request *q, oc_error *err) {
    oc_status st = oc_results_put(b->out, q, NULL, err);
    free_request(q);
    b->done++;
    b->failed++;
    return st;
}

static oc_status queue_row(batch *b, oc_request *q, oc_error *err) {
    oc_job *j;
    oc_status st = oc_job_new(&j, q->ids, q->n_ids, q->max_tokens, err);
    if (st != OC_OK) {
        free_request(q);
        return st;
    }
    j->sampling = q->sampling;
    j->row = q->index;
    j->stops = q->stops;
    j->n_stops = q->n_stops;
    j->logprobs = q->logprobs;
    j->ignore_eos = q->ignore_eos;
    j->user = q;
    j->free_user = free_request;
    oc_runner_queue(b->runner, j);
    return OC_OK;
}

static oc_status take_row(batch *b, oc_error *err) {
    oc_request *q = calloc(1, sizeof *q);
    if (!q) return oc_fail(err, OC_E_MEMORY, "no memory for a request");
    oc_status st = oc_requests_next(b->in, q, &b->more, err);
    if (st != OC_OK || !b->more) {
        free(q);
        return st;
    }
    return q->error ? refuse_row(b, q, err) : queue_row(b, q, err);
}

/* Rows wait so that none is missing when others end; answers wait for an earlier one only so far.
 */
static oc_status take_rows(batch *b, oc_error *err) {
    while (b->more && oc_runner_waiting(b->runner) < b->capacity &&
           b->done < oc_results_written(b->out) + 4 * (uint64_t)b->capacity)
        OC_TRY(take_row(b, err));
    return OC_OK;
}

/* ---- answers out ---- */

static oc_status put_answer(batch *b, oc_job *j, oc_error *err) {
    oc_request *q = j->user;
    oc_answer a = {.text = j->text ? j->text : "",
                   .n_text = j->n_text,
                   .finish_reason = oc_finish_name(j->finish),
                   .prompt_tokens = j->n_prompt,
                   .completion_tokens = oc_job_answered(j),
                   .tokens = j->tokens,
                   .top = j->top,
                   .alternatives = j->logprobs > 0 ? j->logprobs : 0};
    bool failed = j->finish == OC_FINISH_ERROR;
    if (failed) q->error = strdup(j->error.message);
    b->failed += failed;
    b->done++;
    return oc_results_put(b->out, q, failed ? NULL : &a, err);
}

static oc_status put_answers(batch *b, oc_error *err) {
    oc_status st = OC_OK;
    for (oc_job *j; st == OC_OK && (j = oc_runner_done(b->runner));) {
        st = put_answer(b, j, err);
        oc_job_free(j);
    }
    return st == OC_OK ? oc_results_sync(b->out, err) : st;
}

static void tell(batch *b) {
    int64_t now = oc_clock_ns();
    oc_runner_stats x;
    if (now - b->told < PROGRESS_SECONDS * INT64_C(1000000000)) return;
    b->told = now;
    oc_runner_stats_of(b->runner, &x);
    double seconds = (double)(now - b->started) / 1e9, rows = (double)(b->done - b->begun);
    char left[64] = "";
    uint64_t all = b->s->asked->rows;
    if (all > b->done && rows > 0)
        (void)snprintf(left, sizeof left, " of %llu, about %.0f s left", (unsigned long long)all,
                       (double)(all - b->done) / rows * seconds);
    oc_log(OC_LOG_INFO, "%llu rows%s; %.1f tokens/s of prompts, %.1f of answers",
           (unsigned long long)b->done, left, (double)x.prompt_tokens / seconds,
           (double)x.answer_tokens / seconds);
}

static oc_status run(batch *b, const volatile sig_atomic_t *stop, oc_error *err) {
    bool idle = false;
    b->more = true;
    b->started = b->told = oc_clock_ns();
    OC_TRY(oc_requests_skip(b->in, b->begun, err));
    while ((b->more || !idle) && !*stop) {
        OC_TRY(take_rows(b, err));
        OC_TRY(oc_runner_turn(b->runner, &idle, err));
        OC_TRY(put_answers(b, err));
        tell(b);
    }
    return OC_OK;
}

static void say_unknown(const batch *b) {
    const char *first;
    uint64_t n = oc_requests_unknown(b->in, &first);
    if (n > 0)
        oc_log(OC_LOG_WARN,
               "%s: %llu keys without a known meaning were not looked at, \"%s\" among "
               "them",
               b->s->setup->config->input, (unsigned long long)n, first);
}

oc_status oc_generate_open_batch(oc_generate_batch **out, const oc_generate_setup *s,
                                 oc_error *err) {
    batch *b = calloc(1, sizeof *b);
    if (!b) return oc_fail(err, OC_E_MEMORY, "no memory for the answers");
    b->s = s;
    b->capacity = s->setup->build.micros * s->setup->build.pass.rows;
    oc_requests_spec spec = requests_spec(s->asked, s->setup);
    oc_status st = oc_requests_open(&b->in, &spec, err);
    if (st == OC_OK) st = open_results(b, err);
    if (st != OC_OK) {
        oc_requests_close(b->in);
        free(b);
        return st;
    }
    *out = b;
    return OC_OK;
}

oc_status oc_generate_run_batch(oc_generate_batch *b, oc_runner *r,
                                const volatile sig_atomic_t *stop, int32_t *failed, oc_error *err) {
    b->runner = r;
    oc_status st = run(b, stop, err);
    if (st == OC_OK) say_unknown(b);
    *failed = b->failed > INT32_MAX ? INT32_MAX : (int32_t)b->failed;
    b->whole = st == OC_OK && !*stop;
    if (b->failed > 0)
        oc_log(OC_LOG_WARN, "%llu rows are errors: each says why in %s",
               (unsigned long long)b->failed, b->s->setup->config->output);
    return st;
}

oc_status oc_generate_close_batch(oc_generate_batch *b, oc_error *err) {
    if (!b) return OC_OK;
    oc_requests_close(b->in);
    oc_status st = oc_results_close(b->out, b->whole, err);
    free(b);
    return st;
}
