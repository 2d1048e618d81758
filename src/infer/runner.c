/* runner.c - see runner.h. */
#include "infer/runner.h"

#include "base/clock.h"
#include "base/heap.h"
#include "infer/roster.h"
#include "infer/text_stream.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct list {
    oc_job *first, *last;
    int32_t n;
} list;

/* A sequence whose next token is due. */
typedef struct due {
    oc_sequence *x;
    oc_sampled got;
    oc_status status;
} due;

struct oc_runner {
    oc_runner_spec spec;
    oc_session *session;
    pthread_mutex_t lock; /* all below, between the owner and the lane */
    oc_roster *roster;
    list waiting, over;
    due *dues; /* [rows of all groups] */
    int32_t n_dues;
    int n_slots; /* of the pool: a sampler and a row of logits each */
    oc_sampler **samplers;
    float **rows;
    const oc_pass_cells *cells; /* of the pass that was looked at last */
    bool busy;                  /* the next pass takes something */
    bool last;                  /* and after it there will be nothing */
    uint64_t tickets[2];
    int in_flight;
    int64_t began;    /* of the pass under way */
    bool has_prompts; /* it takes some */
    int64_t answers;  /* tokens of answers in it */
    oc_runner_stats stats;
};

const char *oc_finish_name(oc_finish f) {
    static const char *const names[] = {"none", "stop", "length", "error"};
    return names[f];
}

/* ---- jobs ---- */

oc_status oc_job_new(oc_job **out, const int32_t *ids, int32_t n_prompt, int32_t most_answer,
                     oc_error *err) {
    oc_job *j = calloc(1, sizeof *j);
    size_t most = (size_t)n_prompt + (size_t)most_answer;
    if (j) j->ids = calloc(most, sizeof *j->ids);
    if (!j || !j->ids) {
        oc_job_free(j);
        return oc_fail(err, OC_E_MEMORY, "no memory for a prompt of %d tokens", n_prompt);
    }
    memcpy(j->ids, ids, (size_t)n_prompt * sizeof *ids);
    j->n_prompt = j->n_ids = n_prompt;
    j->most = (int32_t)most;
    j->logprobs = -1;
    j->sampling = oc_sampling_greedy();
    *out = j;
    return OC_OK;
}

void oc_job_free(oc_job *j) {
    if (!j) return;
    oc_text_stream_close(j->stream);
    if (j->free_user) j->free_user(j->user);
    free(j->ids);
    free(j->text);
    free(j->tokens);
    free(j->top);
    free(j);
}

static void put(list *l, oc_job *j) {
    j->next = NULL;
    if (l->last)
        l->last->next = j;
    else
        l->first = j;
    l->last = j;
    l->n++;
}

static oc_job *take(list *l) {
    oc_job *j = l->first;
    if (!j) return NULL;
    l->first = j->next;
    if (!l->first) l->last = NULL;
    l->n--;
    return j;
}

static void drop_all(list *l) {
    for (oc_job *j; (j = take(l));)
        oc_job_free(j);
}

/* ---- answers ---- */

static oc_status add_text(oc_job *j, const char *text, size_t n, oc_error *err) {
    if (j->n_text + n + 1 > j->room) {
        size_t room = 2 * (j->n_text + n) + 64;
        char *more = realloc(j->text, room);
        if (!more) return oc_fail(err, OC_E_MEMORY, "no memory for an answer's text");
        j->text = more;
        j->room = room;
    }
    memcpy(j->text + j->n_text, text, n);
    j->n_text += n;
    j->text[j->n_text] = 0;
    return OC_OK;
}

static oc_status finish_text(oc_job *j, oc_error *err) {
    const char *text;
    size_t n;
    bool stopped;
    if (!j->stream) return add_text(j, "", 0, err);
    OC_TRY(oc_text_stream_end(j->stream, &text, &n, &stopped, err));
    if (stopped) j->finish = OC_FINISH_STOP;
    return add_text(j, text, n, err);
}

/* It is over; what is wrong with its text makes an error of it. */
static void finish(oc_runner *r, oc_sequence *x, oc_finish how, const oc_error *why) {
    oc_job *j = x->user;
    oc_error err = {OC_OK, ""};
    j->finish = how;
    j->n_ids = x->n_ids;
    if (finish_text(j, &err) != OC_OK && !why) why = &err;
    if (why) {
        j->finish = OC_FINISH_ERROR;
        j->error = *why;
    }
    oc_roster_remove(r->roster, x);
    put(&r->over, j);
}

static bool is_eos(const oc_runner *r, const oc_job *j, int32_t id) {
    for (int32_t i = 0; i < r->spec.n_eos && !j->ignore_eos; i++)
        if (r->spec.eos[i] == id) return true;
    return false;
}

/* The token's text, if it has one; *stopped: a stop text is there. */
static oc_status put_text(oc_job *j, int32_t id, bool *stopped, oc_error *err) {
    const char *text;
    size_t n;
    *stopped = false;
    if (!j->stream) return OC_OK;
    OC_TRY(oc_text_stream_put(j->stream, id, &text, &n, stopped, err));
    return add_text(j, text, n, err);
}

static void take_token(oc_runner *r, due *d) {
    oc_sequence *x = d->x;
    oc_job *j = x->user;
    oc_error err = {OC_OK, ""};
    bool stopped;
    x->ids[x->n_ids++] = d->got.id;
    r->stats.answer_tokens++;
    if (j->tokens) j->tokens[x->n_ids - 1 - j->n_prompt] = d->got;
    if (is_eos(r, j, d->got.id)) {
        finish(r, x, OC_FINISH_STOP, NULL);
        return;
    }
    if (put_text(j, d->got.id, &stopped, &err) != OC_OK)
        finish(r, x, OC_FINISH_ERROR, &err);
    else if (stopped)
        finish(r, x, OC_FINISH_STOP, NULL);
    else if (x->n_ids == x->most)
        finish(r, x, OC_FINISH_LENGTH, NULL);
}

/* ---- sampling: many rows, each on a thread of the pool ---- */

/* A row as one: where the head is in chunks, put together. */
static const float *row_of(oc_runner *r, const oc_sequence *x, int worker) {
    const oc_model *m = r->spec.setup->model;
    float *to = r->rows[worker];
    if (m->n_head == 1) return oc_pass_logits(r->cells, x->group, x->sample, 0);
    for (int32_t c = 0; c < m->n_head; c++) {
        size_t n = (size_t)m->blocks[m->first_head + c].rows;
        memcpy(to, oc_pass_logits(r->cells, x->group, x->sample, c), n * sizeof *to);
        to += n;
    }
    return r->rows[worker];
}

static void sample_task(void *arg, int64_t task, int worker) {
    oc_runner *r = arg;
    due *d = &r->dues[task];
    oc_job *j = d->x->user;
    oc_sample_row row = {j->row, j->drawn, d->x->ids, d->x->n_ids, j->n_prompt};
    const float *x = row_of(r, d->x, worker);
    if (r->spec.watch) r->spec.watch(r->spec.watch_user, j, d->x->n_ids, x);
    d->status =
        oc_sample(r->samplers[worker], &j->sampling, &row, x, j->logprobs >= 0, &d->got, &j->error);
    j->drawn = row.drawn;
    if (d->status == OC_OK && j->logprobs > 0)
        oc_sample_top(r->samplers[worker], x, j->logprobs,
                      j->top + (int64_t)(d->x->n_ids - j->n_prompt) * j->logprobs);
}

static void sample_all(oc_runner *r) {
    oc_sequence *x;
    r->n_dues = 0;
    for (int32_t k = 0; (x = oc_roster_at(r->roster, k)); k++)
        if (x->sample >= 0) r->dues[r->n_dues++] = (due){.x = x};
    oc_pool_for(r->spec.setup->pool, r->n_dues, sample_task, r);
    for (int32_t i = 0; i < r->n_dues; i++) {
        oc_job *j = r->dues[i].x->user;
        if (r->dues[i].status == OC_OK)
            take_token(r, &r->dues[i]);
        else
            finish(r, r->dues[i].x, OC_FINISH_ERROR, &j->error);
    }
}

/* ---- between passes ---- */

static void drop_cancelled(oc_runner *r) {
    oc_sequence *x;
    for (int32_t k = 0; (x = oc_roster_at(r->roster, k));) {
        if (((oc_job *)x->user)->cancelled)
            finish(r, x, OC_FINISH_STOP, NULL);
        else
            k++;
    }
}

/* What it needs before its first token; an error is the answer. */
static oc_status open_job(oc_runner *r, oc_job *j, oc_error *err) {
    size_t n = (size_t)(j->most - j->n_prompt);
    oc_text_stream_spec spec = {.tokenizer = r->spec.setup->tokenizer,
                                .stops = (const char *const *)j->stops,
                                .n_stops = j->n_stops,
                                .prompt = j->ids,
                                .n_prompt = j->n_prompt};
    if (j->logprobs >= 0) j->tokens = calloc(n, sizeof *j->tokens);
    if (j->logprobs > 0) j->top = calloc(n * (size_t)j->logprobs, sizeof *j->top);
    if ((j->logprobs >= 0 && !j->tokens) || (j->logprobs > 0 && !j->top))
        return oc_fail(err, OC_E_MEMORY, "no memory for %zu log-probabilities", n);
    return spec.tokenizer ? oc_text_stream_open(&j->stream, &spec, err) : OC_OK;
}

static void refuse(oc_runner *r, oc_job *j, const oc_error *why) {
    j->finish = OC_FINISH_ERROR;
    j->error = *why;
    put(&r->over, j);
}

/* In order: one that does not fit now keeps those behind it waiting, so that none waits for ever.
 */
static void let_in(oc_runner *r) {
    for (oc_job *j; (j = r->waiting.first);) {
        oc_error err = {OC_OK, ""};
        oc_sequence *x = NULL;
        if (!j->cancelled) {
            x = oc_roster_admit(r->roster, j->ids, j->n_prompt, j->most, j);
            if (!x) return;
        }
        (void)take(&r->waiting);
        r->stats.sequences++;
        if (!x) {
            j->finish = OC_FINISH_STOP;
            put(&r->over, j);
        } else if (open_job(r, j, &err) != OC_OK) {
            oc_roster_remove(r->roster, x);
            refuse(r, j, &err);
        } else {
            j->shared = x->shared;
            r->stats.shared_tokens += (uint64_t)x->shared;
        }
    }
}

/* Whether every sequence ends with the pass that was filled, and nobody waits. */
static bool is_last(oc_runner *r) {
    oc_sequence *x;
    if (r->waiting.n > 0) return false;
    for (int32_t k = 0; (x = oc_roster_at(r->roster, k)); k++)
        if (x->sample < 0 || x->n_ids + 1 < x->most) return false;
    return true;
}

static void count_pass(oc_runner *r) {
    oc_sequence *x;
    r->has_prompts = false;
    r->answers = 0;
    for (int32_t k = 0; (x = oc_roster_at(r->roster, k)); k++) {
        bool answers = x->taken == 1 && x->n_ids > x->n_prompt;
        if (answers) r->answers++;
        if (x->taken && !answers) {
            r->has_prompts = true;
            r->stats.prompt_tokens += (uint64_t)x->taken;
        }
    }
}

static void fill(oc_runner *r, const oc_pass_cells *x) {
    const oc_setup *s = r->spec.setup;
    const oc_buffer *b = s->set->buffers;
    let_in(r);
    r->busy = oc_roster_fill(r->roster, x->control, x->batch, b[s->ids.batch].piece_bytes, x->pages,
                             b[s->ids.pages].piece_bytes) > 0;
    count_pass(r);
    r->last = is_last(r);
}

static void time_pass(oc_runner *r) {
    int64_t now = oc_clock_ns();
    double seconds = (double)(now - r->began) / 1e9;
    r->began = now;
    if (!r->busy) return;
    r->stats.passes++;
    if (r->has_prompts) {
        r->stats.prefill_seconds += seconds;
        return;
    }
    r->stats.decode_seconds += seconds;
    r->stats.decode_tokens += (uint64_t)r->answers;
}

static oc_status next(void *user, const oc_pass_cells *x, oc_error *err) {
    oc_runner *r = user;
    (void)err;
    pthread_mutex_lock(&r->lock);
    time_pass(r);
    r->cells = x;
    oc_roster_passed(r->roster);
    sample_all(r);
    drop_cancelled(r);
    fill(r, x);
    pthread_mutex_unlock(&r->lock);
    return OC_OK;
}

/* ---- life ---- */

static oc_roster_spec roster_spec(const oc_build_spec *b) {
    return (oc_roster_spec){.groups = b->micros,
                            .rows = b->pass.rows,
                            .tokens = (int32_t)b->seq,
                            .page_tokens = b->pass.page_tokens,
                            .pages = b->pass.pages,
                            .row_pages = b->pass.row_pages,
                            .share = true,
                            .listed = oc_build_listed_pages(b)};
}

uint64_t oc_runner_bytes(const oc_setup *s, const oc_build_spec *build) {
    oc_roster_spec roster = roster_spec(build);
    uint64_t rows = (uint64_t)build->micros * (uint64_t)build->pass.rows;
    uint64_t vocab = (uint64_t)s->model->vocab, slots = (uint64_t)oc_pool_slots(s->pool);
    uint64_t row = s->model->n_head > 1 ? oc_heap_bytes(vocab * sizeof(float)) : 0;
    return oc_heap_bytes(sizeof(oc_runner)) + oc_roster_bytes(&roster) +
           oc_heap_bytes(rows * sizeof(due)) + 2 * oc_heap_bytes(slots * sizeof(void *)) +
           slots * (oc_sampler_bytes((int32_t)vocab) + row);
}

static oc_status no_memory(oc_error *err) {
    return oc_fail(err, OC_E_MEMORY, "no memory to answer with");
}

static oc_status open_samplers(oc_runner *r, oc_error *err) {
    const oc_model *m = r->spec.setup->model;
    r->n_slots = oc_pool_slots(r->spec.setup->pool);
    r->samplers = calloc((size_t)r->n_slots, sizeof *r->samplers);
    r->rows = calloc((size_t)r->n_slots, sizeof *r->rows);
    if (!r->samplers || !r->rows) return no_memory(err);
    for (int i = 0; i < r->n_slots; i++) {
        OC_TRY(oc_sampler_open(&r->samplers[i], (int32_t)m->vocab, err));
        if (m->n_head == 1) continue;
        r->rows[i] = calloc((size_t)m->vocab, sizeof **r->rows);
        if (!r->rows[i]) return no_memory(err);
    }
    return OC_OK;
}

static oc_status open_all(oc_runner *r, oc_error *err) {
    const oc_build_spec *b = &r->spec.setup->build;
    oc_roster_spec roster = roster_spec(b);
    OC_TRY(oc_roster_open(&r->roster, &roster, err));
    r->dues = calloc((size_t)b->micros * (size_t)b->pass.rows, sizeof *r->dues);
    if (!r->dues) return no_memory(err);
    OC_TRY(open_samplers(r, err));
    OC_TRY(oc_session_open(&r->session, r->spec.setup, 1, err));
    oc_session_next(r->session, next, r);
    return OC_OK;
}

oc_status oc_runner_open(oc_runner **out, const oc_runner_spec *spec, oc_error *err) {
    oc_runner *r = calloc(1, sizeof *r);
    if (!r) return no_memory(err);
    r->spec = *spec;
    (void)pthread_mutex_init(&r->lock, NULL);
    oc_status st = open_all(r, err);
    if (st != OC_OK) {
        oc_runner_close(r);
        return st;
    }
    *out = r;
    return OC_OK;
}

void oc_runner_close(oc_runner *r) {
    if (!r) return;
    oc_session_close(r->session);
    for (oc_sequence *x; r->roster && (x = oc_roster_at(r->roster, 0));) {
        oc_job *j = x->user;
        oc_roster_remove(r->roster, x);
        oc_job_free(j);
    }
    drop_all(&r->waiting);
    drop_all(&r->over);
    for (int i = 0; i < r->n_slots; i++) {
        if (r->samplers) oc_sampler_close(r->samplers[i]);
        if (r->rows) free(r->rows[i]);
    }
    free(r->samplers);
    free(r->rows);
    free(r->dues);
    oc_roster_close(r->roster);
    (void)pthread_mutex_destroy(&r->lock);
    free(r);
}

/* ---- the owner's side ---- */

void oc_runner_queue(oc_runner *r, oc_job *j) {
    j->sampling.ends = r->spec.eos;
    j->sampling.n_ends = j->ignore_eos ? 0 : r->spec.n_eos;
    pthread_mutex_lock(&r->lock);
    put(&r->waiting, j);
    pthread_mutex_unlock(&r->lock);
}

int32_t oc_runner_waiting(oc_runner *r) {
    pthread_mutex_lock(&r->lock);
    int32_t n = r->waiting.n;
    pthread_mutex_unlock(&r->lock);
    return n;
}

oc_job *oc_runner_done(oc_runner *r) {
    pthread_mutex_lock(&r->lock);
    oc_job *j = take(&r->over);
    pthread_mutex_unlock(&r->lock);
    return j;
}

bool oc_runner_is_over(oc_runner *r, const oc_job *j) {
    pthread_mutex_lock(&r->lock);
    bool over = j->finish != OC_FINISH_NOT;
    pthread_mutex_unlock(&r->lock);
    return over;
}

size_t oc_runner_text(oc_runner *r, oc_job *j, char *buf, size_t n) {
    pthread_mutex_lock(&r->lock);
    size_t m = j->n_text - j->shown;
    if (m > n - 1) {
        m = n - 1;
        while (m > 0 && ((unsigned char)j->text[j->shown + m] & 0xc0) == 0x80)
            m--;
    }
    if (m > 0) memcpy(buf, j->text + j->shown, m);
    buf[m] = 0;
    j->shown += m;
    pthread_mutex_unlock(&r->lock);
    return m;
}

void oc_runner_cancel(oc_runner *r, oc_job *j) {
    pthread_mutex_lock(&r->lock);
    j->cancelled = true;
    pthread_mutex_unlock(&r->lock);
}

/* Nothing is under way: the cells are this thread's to fill. */
static void start(oc_runner *r) {
    oc_pass_cells x;
    oc_session_pass_cells(r->session, &x);
    pthread_mutex_lock(&r->lock);
    fill(r, &x);
    r->began = oc_clock_ns();
    pthread_mutex_unlock(&r->lock);
}

/* Whether there is a pass to submit: one that takes something, or one after it. */
static bool wants_pass(oc_runner *r) {
    pthread_mutex_lock(&r->lock);
    bool wants = r->busy && (r->in_flight == 0 || !r->last);
    pthread_mutex_unlock(&r->lock);
    return wants;
}

static oc_status submit(oc_runner *r, oc_error *err) {
    while (r->in_flight < 2 && wants_pass(r)) {
        OC_TRY(oc_session_pass(r->session, &r->tickets[r->in_flight], err));
        r->in_flight++;
    }
    return OC_OK;
}

oc_status oc_runner_turn(oc_runner *r, bool *idle, oc_error *err) {
    if (r->in_flight == 0) start(r);
    OC_TRY(submit(r, err));
    if (r->in_flight > 0) {
        OC_TRY(oc_session_wait(r->session, r->tickets[0], err));
        r->tickets[0] = r->tickets[1];
        r->in_flight--;
    }
    pthread_mutex_lock(&r->lock);
    *idle = r->in_flight == 0 && !r->busy && r->waiting.n == 0 && oc_roster_count(r->roster) == 0;
    pthread_mutex_unlock(&r->lock);
    return OC_OK;
}

void oc_runner_stats_of(oc_runner *r, oc_runner_stats *out) {
    pthread_mutex_lock(&r->lock);
    *out = r->stats;
    pthread_mutex_unlock(&r->lock);
    oc_session_stats(r->session, out->lanes);
}

oc_session *oc_runner_session(oc_runner *r) { return r->session; }
