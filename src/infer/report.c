/* report.c - what a run of generation was like: rates, bytes, and what bounded it. */
#include "infer/internal.h"

#include "base/log.h"

/* Exit codes, as cli.h has them. */
enum { FAILED = 1, REFUSED = 2, SIGNAL_BASE = 128 };

static double rate(double n, double seconds) { return seconds > 0 ? n / seconds : 0; }

/* The lane that was busy for the largest part of the passes. */
static oc_lane busiest(const oc_runner_stats *x) {
    oc_lane best = OC_LANE_COMPUTE;
    for (int l = 0; l < OC_LANE_COUNT; l++)
        if (x->lanes[l].busy_ns > x->lanes[best].busy_ns) best = (oc_lane)l;
    return best;
}

void oc_generate_report(const oc_generate_setup *s, oc_runner *r) {
    oc_runner_stats x;
    char moved[32];
    oc_runner_stats_of(r, &x);
    double seconds = x.prefill_seconds + x.decode_seconds;
    oc_lane lane = busiest(&x);
    if (x.passes == 0) return;
    oc_log(OC_LOG_INFO,
           "%llu prompts of %llu tokens (%llu more were shared), %llu tokens of answers in %llu "
           "passes and %.2f s",
           (unsigned long long)x.sequences, (unsigned long long)x.prompt_tokens,
           (unsigned long long)x.shared_tokens, (unsigned long long)x.answer_tokens,
           (unsigned long long)x.passes, seconds);
    oc_log(OC_LOG_INFO,
           "%.1f tokens/s of prompts, %.1f tokens/s of answers (%.1f overall), %.2f requests/s",
           rate((double)x.prompt_tokens, x.prefill_seconds),
           rate((double)x.decode_tokens, x.decode_seconds), rate((double)x.answer_tokens, seconds),
           rate((double)x.sequences, seconds));
    const char *what = s->setup->build.place.away_pages > 0 ? "weights and pages" : "weights";
    oc_log(OC_LOG_INFO, "%s of %s fetched; lane %s was busy %.0f %% of the time",
           oc_size_format(x.lanes[OC_LANE_H2D].bytes, moved, sizeof moved), what,
           oc_lane_name(lane), 100 * rate((double)x.lanes[lane].busy_ns / 1e9, seconds));
    if (!s->setup->config->quiet) oc_session_print_measured(oc_runner_session(r), stderr);
}

typedef struct run {
    oc_generate_setup s;
    oc_runner *runner;
    oc_generate_batch *batch;
    int32_t failed;
} run;

/* The answers' file is claimed before weights are read. */
static oc_status open_run(run *x, oc_error *err) {
    if (x->s.setup->config->input) OC_TRY(oc_generate_open_batch(&x->batch, &x->s, err));
    oc_runner_spec spec = {.setup = x->s.setup};
    spec.eos = oc_stop_ids_list(x->s.ends, &spec.n_eos);
    return oc_runner_open(&x->runner, &spec, err);
}

static oc_status answer(run *x, volatile sig_atomic_t *stop, oc_error *err) {
    const oc_config *c = x->s.setup->config;
    if (x->batch) return oc_generate_run_batch(x->batch, x->runner, stop, &x->failed, err);
    if (c->gen.n_prompts > 0) return oc_generate_prompts(&x->s, x->runner, stop, &x->failed, err);
    return oc_generate_chat(&x->s, x->runner, stdin, stop, err);
}

/* What went wrong first is told; what the end of it has to say, too. */
static oc_status close_run(run *x, oc_status st) {
    oc_error err = {OC_OK, ""};
    oc_status end = oc_generate_close_batch(x->batch, &err);
    if (end != OC_OK) oc_log(OC_LOG_ERROR, "%s", err.message);
    oc_runner_close(x->runner);
    oc_generate_setup_close(&x->s);
    return st != OC_OK ? st : end;
}

int oc_generate(const oc_config *c, FILE *out, volatile sig_atomic_t *stop) {
    oc_error err = {OC_OK, ""};
    run x = {.failed = 0};
    if (oc_generate_setup_open(&x.s, c, c->quiet ? NULL : stderr, &err) != OC_OK) {
        oc_log(OC_LOG_ERROR, "%s", err.message);
        return REFUSED;
    }
    x.s.asked->out = out;
    if (!c->quiet) oc_setup_print(x.s.setup, stderr);
    oc_status st = open_run(&x, &err);
    bool begun = st == OC_OK;
    if (begun) st = answer(&x, stop, &err);
    if (st == OC_OK) oc_generate_report(&x.s, x.runner);
    if (st == OC_OK && c->trace_path)
        st = oc_session_write_trace(oc_runner_session(x.runner), &err);
    if (st != OC_OK) oc_log(OC_LOG_ERROR, "%s", err.message);
    int failed = x.failed;
    st = close_run(&x, st);
    if (!begun) return REFUSED;
    return st != OC_OK || failed ? FAILED : *stop ? SIGNAL_BASE + (int)*stop : 0;
}
