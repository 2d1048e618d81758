/* report.c - what a run of generation was like: rates, bytes, and what bounded it. */
#include "infer/internal.h"

#include "base/log.h"

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
    oc_log(OC_LOG_INFO, "%s of weights fetched; lane %s was busy %.0f %% of the time",
           oc_size_format(x.lanes[OC_LANE_H2D].bytes, moved, sizeof moved), oc_lane_name(lane),
           100 * rate((double)x.lanes[lane].busy_ns / 1e9, seconds));
    (void)s;
}

int oc_generate(const oc_config *c, FILE *out, const volatile sig_atomic_t *stop) {
    oc_error err = {OC_OK, ""};
    oc_generate_setup s;
    oc_runner *r = NULL;
    int32_t failed = 0;
    if (oc_generate_setup_open(&s, c, c->quiet ? NULL : stderr, &err) != OC_OK) {
        oc_log(OC_LOG_ERROR, "%s", err.message);
        return 2;
    }
    s.asked->out = out;
    if (!c->quiet) oc_setup_print(s.setup, stderr);
    oc_runner_spec spec = {.setup = s.setup, .eos = s.defaults.eos, .n_eos = s.defaults.n_eos};
    oc_status st = oc_runner_open(&r, &spec, &err);
    if (st == OC_OK) st = oc_generate_prompts(&s, r, stop, &failed, &err);
    if (st == OC_OK) oc_generate_report(&s, r);
    if (st == OC_OK && c->trace_path) st = oc_session_write_trace(oc_runner_session(r), &err);
    if (st != OC_OK) oc_log(OC_LOG_ERROR, "%s", err.message);
    oc_runner_close(r);
    oc_generate_setup_close(&s);
    return st != OC_OK || failed ? 1 : *stop ? 128 + (int)*stop : 0;
}
