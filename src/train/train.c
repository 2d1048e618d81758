/* train.c - the run: set up, steps two deep, evaluation, checkpoints, the final model. */
#include "train/train.h"

#include "base/checked.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "engine/corpus.h"
#include "engine/session.h"
#include "mem/mem.h"
#include "train/claims.h"
#include "train/output.h"
#include "train/progress.h"
#include "train/save.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- stop requests ---- */

static volatile sig_atomic_t stop_signal;

/* What ends a run after the step under way, and how it is called; a closed terminal hangs up. */
static const struct stop {
    int number;
    const char *name;
} stops[] = {{SIGINT, "SIGINT"}, {SIGTERM, "SIGTERM"}, {SIGHUP, "SIGHUP"}};
enum { STOPS = sizeof stops / sizeof *stops };
static volatile sig_atomic_t is_ours[STOPS]; /* not ignored when the run began (nohup) */

/* The first asks for a stop after the current step; the second, of any kind, gets the default
 * action. */
static void on_signal(int number) {
    stop_signal = number;
    for (int i = 0; i < STOPS; i++)
        if (is_ours[i]) (void)signal(stops[i].number, SIG_DFL);
}

static void catch_signals(void) {
    struct sigaction action, before;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    (void)sigemptyset(&action.sa_mask);
    for (int i = 0; i < STOPS; i++)
        (void)sigaddset(&action.sa_mask, stops[i].number);
    for (int i = 0; i < STOPS; i++) {
        bool known = sigaction(stops[i].number, NULL, &before) == 0;
        is_ours[i] = known && before.sa_handler != SIG_IGN;
        if (is_ours[i]) (void)sigaction(stops[i].number, &action, NULL);
    }
    (void)signal(SIGXFSZ, SIG_IGN); /* a file size limit becomes an error of write() */
    (void)signal(SIGPIPE, SIG_IGN);
}

static const char *signal_name(int number) {
    for (int i = 0; i < STOPS; i++)
        if (stops[i].number == number) return stops[i].name;
    return "a signal";
}

/* ---- the trainer ---- */

typedef struct in_flight {
    bool live;
    uint64_t step;
} in_flight;

typedef struct trainer {
    const oc_config *config;
    oc_setup *setup;
    oc_session *session;
    oc_corpus corpus, eval_corpus;
    oc_progress *progress;
    oc_output output;
    oc_claims claims;
    uint64_t total_steps, done_steps, saved_step;
    uint64_t overflowed; /* steps that were skipped, as their gradients were not finite */
    uint64_t applied;    /* steps that updated the weights */
    uint64_t tokens;
    double loss; /* of the last step that had targets */
    in_flight last;
    bool started;
    int stopped_by; /* the signal that ended the steps; 0: none */
} trainer;

static uint64_t count_steps(const trainer *t) {
    if (t->config->max_steps > 0) return (uint64_t)t->config->max_steps;
    double steps = t->config->epochs * (double)oc_feed_steps_per_epoch(t->corpus.feed);
    return (uint64_t)ceil(steps);
}

/* A checkpoint is written before the oldest goes; so is the final model. */
static oc_status check_disk(const trainer *t, oc_error *err) {
    const oc_config *c = t->config;
    uint64_t room = 0, copies = 1;
    if (c->save_every > 0)
        copies += oc_min_u64((uint64_t)c->keep + 1, t->total_steps / (uint64_t)c->save_every);
    uint64_t need = copies * oc_save_bytes(t->setup);
    OC_TRY(oc_fs_free_bytes(c->output, &room, err));
    if (room >= need) return OC_OK;
    return oc_fail(
        err, OC_E_IO,
        "--output %s has %llu bytes free, but this run will keep %llu copies of the model: "
        "%llu bytes; free some space, choose another directory, or lower --keep",
        c->output, (unsigned long long)room, (unsigned long long)copies, (unsigned long long)need);
}

/* The directory is this run's from here on. What needs no model is checked before one is read. */
static oc_status take_output(trainer *t, oc_error *err) {
    const oc_config *c = t->config;
    OC_TRY(oc_output_open(&t->output, c->output, err));
    OC_TRY(oc_config_check_output(c, stderr, err));
    OC_TRY(oc_save_check_free(c, err));
    return oc_claims_check(c, err);
}

/* The last thing before step 1: a run that is refused leaves all as it was, so what may still be
 * refused comes before what removes something. */
static oc_status begin(trainer *t, oc_error *err) {
    const oc_config *c = t->config;
    OC_TRY(oc_save_run(t->setup, c->output, err));
    t->started = true;
    if (c->overwrite) OC_TRY(oc_save_forget(c->output, err));
    return oc_progress_start(t->progress, err);
}

static oc_status open_data(trainer *t, oc_error *err) {
    const oc_config *c = t->config;
    OC_TRY(oc_corpus_open(&t->corpus, t->setup, &t->setup->files, true, err));
    if (c->n_eval_data == 0) return OC_OK;
    return oc_corpus_open(&t->eval_corpus, t->setup, &t->setup->eval_files, false, err);
}

static oc_status open_progress(trainer *t, oc_error *err) {
    oc_progress_spec spec = {
        .log_path = t->config->log_path, .quiet = t->config->quiet, .total_steps = t->total_steps};
    for (int i = 0; i < OC_TIER_COUNT; i++)
        spec.peak_bytes[i] = oc_setup_tier_bytes(t->setup, (oc_tier)i);
    return oc_progress_open(&t->progress, &spec, err);
}

/* A pace on a lane that has nothing to do. */
static void note_idle_lanes(const oc_setup *s) {
    for (int l = 0; l < OC_LANE_COUNT; l++) {
        uint32_t ops = 0;
        for (uint32_t p = 0; p < s->set->n_plans; p++)
            ops += s->set->plans[p].lane_ops[l];
        if (s->config->pace[l] > 0 && ops == 0)
            oc_log(OC_LOG_INFO, "--pace %s has no effect: nothing runs on that lane in this plan",
                   oc_lane_name((oc_lane)l));
    }
}

static oc_status open_trainer(trainer *t, oc_error *err) {
    const oc_config *c = t->config;
    OC_TRY(take_output(t, err));
    OC_TRY(oc_setup_open(&t->setup, c, stderr, err));
    OC_TRY(oc_claims_check_data(c, &t->setup->files, err));
    OC_TRY(oc_claims_check_data(c, &t->setup->eval_files, err));
    OC_TRY(open_data(t, err));
    t->total_steps = count_steps(t);
    if (!c->quiet) oc_setup_print(t->setup, stderr);
    note_idle_lanes(t->setup);
    OC_TRY(oc_save_clean(c->output, err));
    OC_TRY(check_disk(t, err));
    OC_TRY(oc_claims_take(&t->claims, c, err));
    OC_TRY(open_progress(t, err));
    OC_TRY(oc_session_open(&t->session, t->setup, (int64_t)t->total_steps, err));
    oc_mem_trim(); /* what setting up needed on the way is gone */
    return begin(t, err);
}

static void close_trainer(trainer *t) {
    if (t->output.fd >= 0) oc_save_discard(t->config->output);
    oc_progress_close(t->progress);
    oc_session_close(t->session);
    oc_corpus_release(&t->eval_corpus);
    oc_corpus_release(&t->corpus);
    oc_setup_close(t->setup);
    oc_claims_release(&t->claims, t->started);
    oc_output_close(&t->output, t->started);
}

/* ---- steps ---- */

static oc_status finish_last(trainer *t, oc_error *err) {
    if (!t->last.live) return OC_OK;
    oc_result_cell r;
    uint64_t targets = 0;
    oc_lane_stats stats[OC_LANE_COUNT];
    t->last.live = false;
    OC_TRY(oc_session_finish(t->session, &r, &targets, err));
    oc_session_stats(t->session, stats);
    t->done_steps = t->last.step + 1;
    oc_progress_step(t->progress, t->done_steps, &r, targets, stats);
    t->overflowed += r.overflow != 0;
    t->applied += r.finite != 0;
    t->tokens += targets;
    if (targets > 0) t->loss = r.loss;
    if (r.overflow && t->setup->dtype == OC_F16 && r.scale_exhausted)
        return oc_fail(err, OC_E_INVALID,
                       "step %llu: gradients overflow at the least loss scale (%g); lower the "
                       "learning rate, or train in bf16 or fp32",
                       (unsigned long long)t->done_steps, r.loss_scale);
    return OC_OK;
}

static oc_status evaluate(trainer *t, oc_error *err) {
    double nll = 0;
    uint64_t targets = 0;
    bool whole = true;
    OC_TRY(oc_session_evaluate(t->session, t->eval_corpus.feed, &stop_signal, &nll, &targets,
                               &whole, err));
    if (!whole) {
        oc_progress_note(t->progress, "step %llu: the evaluation was stopped",
                         (unsigned long long)t->done_steps);
        return OC_OK;
    }
    double loss = targets ? nll / (double)targets : 0;
    oc_progress_note(t->progress, "step %llu: eval loss %.6f, perplexity %.4f over %llu tokens",
                     (unsigned long long)t->done_steps, loss, exp(loss),
                     (unsigned long long)targets);
    return OC_OK;
}

static oc_status save(trainer *t, oc_error *err) {
    if (t->saved_step == t->done_steps) return OC_OK;
    OC_TRY(oc_save_checkpoint(t->session, t->setup, t->config->output, t->done_steps,
                              t->config->keep, err));
    t->saved_step = t->done_steps;
    oc_progress_note(t->progress, "saved %s/checkpoint-%llu", t->config->output,
                     (unsigned long long)t->done_steps);
    return OC_OK;
}

static bool due(int64_t every, uint64_t step) { return every > 0 && step % (uint64_t)every == 0; }

/* What happens between steps; needs the last step to be done. */
static oc_status between(trainer *t, uint64_t step, oc_error *err) {
    const oc_config *c = t->config;
    bool eval = c->n_eval_data > 0 && (due(c->eval_every, step) || step == t->total_steps);
    bool keep = due(c->save_every, step);
    if (!eval && !keep) return OC_OK;
    OC_TRY(finish_last(t, err));
    if (eval) OC_TRY(evaluate(t, err));
    if (keep) OC_TRY(save(t, err));
    oc_progress_skip_time(t->progress);
    return OC_OK;
}

/* A step begins while the one before it ends. */
static oc_status run_steps(trainer *t, oc_error *err) {
    for (uint64_t step = 0; step < t->total_steps && !stop_signal; step++) {
        in_flight next = {.live = true, .step = step};
        t->started = true;
        OC_TRY(oc_session_begin(t->session, t->corpus.feed, step, err));
        OC_TRY(finish_last(t, err));
        OC_TRY(oc_session_go_on(t->session, err));
        t->last = next;
        OC_TRY(between(t, step + 1, err));
    }
    return finish_last(t, err);
}

static void print_end(const trainer *t) {
    if (!t->config->quiet) oc_session_print_measured(t->session, stderr);
}

/* A model that no step has changed is no result, when there was something to learn. */
static oc_status check_skipped(const trainer *t, oc_error *err) {
    if (t->overflowed == 0) return OC_OK;
    if (t->applied == 0 && !t->stopped_by)
        return oc_fail(err, OC_E_INVALID,
                       "no step was applied: the gradients of all %llu steps were not finite; is "
                       "the model whole, and the learning rate not too large?",
                       (unsigned long long)t->overflowed);
    oc_log(OC_LOG_WARN, "%llu of %llu steps were skipped, as their gradients were not finite",
           (unsigned long long)t->overflowed, (unsigned long long)t->done_steps);
    return OC_OK;
}

static oc_status finish_run(trainer *t, oc_error *err) {
    t->stopped_by = t->done_steps < t->total_steps ? stop_signal : 0;
    OC_TRY(check_skipped(t, err));
    if (t->stopped_by) {
        oc_progress_note(t->progress, "stopped by %s after step %llu of %llu",
                         signal_name(t->stopped_by), (unsigned long long)t->done_steps,
                         (unsigned long long)t->total_steps);
        return save(t, err);
    }
    OC_TRY(oc_save_final(t->session, t->setup, t->config->output, err));
    print_end(t);
    return OC_OK;
}

oc_outcome oc_train(const oc_config *c, oc_error *err) {
    trainer t = {.config = c, .output = {.fd = -1}, .claims = OC_CLAIMS_NONE, .loss = NAN};
    catch_signals();
    oc_status st = open_trainer(&t, err);
    if (st == OC_OK) st = run_steps(&t, err);
    if (st == OC_OK) st = finish_run(&t, err);
    if (st == OC_OK) st = oc_session_write_trace(t.session, err);
    oc_outcome out = {.status = st,
                      .started = t.started,
                      .signal = st == OC_OK ? t.stopped_by : 0,
                      .steps = t.done_steps,
                      .skipped = t.done_steps - t.applied,
                      .tokens = t.tokens,
                      .loss = t.loss};
    close_trainer(&t);
    return out;
}

/* ---- evaluation alone ---- */

static oc_status evaluate_on(oc_setup *setup, oc_corpus *corpus, oc_eval_result *out,
                             oc_error *err) {
    oc_session *session = NULL;
    double nll = 0;
    OC_TRY(oc_session_open(&session, setup, 1, err));
    oc_mem_trim();
    bool whole;
    oc_status st =
        oc_session_evaluate(session, corpus->feed, NULL, &nll, &out->tokens, &whole, err);
    if (st == OC_OK) st = oc_session_write_trace(session, err);
    oc_session_close(session);
    OC_TRY(st);
    out->loss = out->tokens ? nll / (double)out->tokens : 0;
    out->perplexity = exp(out->loss);
    return OC_OK;
}

static oc_status evaluate_data(oc_setup *setup, oc_eval_result *out, oc_error *err) {
    oc_corpus corpus = {NULL, NULL};
    OC_TRY(oc_corpus_open(&corpus, setup, &setup->files, false, err));
    if (!setup->config->quiet) oc_setup_print(setup, stderr);
    note_idle_lanes(setup);
    oc_status st = evaluate_on(setup, &corpus, out, err);
    oc_corpus_release(&corpus);
    return st;
}

oc_status oc_evaluate(const oc_config *c, oc_eval_result *out, oc_error *err) {
    oc_setup *setup = NULL;
    oc_eval_result result = {0, 0, 0};
    oc_claims claims = OC_CLAIMS_NONE;
    OC_TRY(oc_claims_check(c, err));
    oc_status st = oc_setup_open(&setup, c, stderr, err);
    if (st == OC_OK) st = oc_claims_take(&claims, c, err);
    if (st == OC_OK) st = evaluate_data(setup, &result, err);
    oc_setup_close(setup);
    oc_claims_release(&claims, st == OC_OK);
    if (st == OC_OK) *out = result;
    return st;
}
