/* eval.c - outcore eval: loss, perplexity and tokens on stdout. */
#include "base/log.h"
#include "cli/cli.h"
#include "infer/scores.h"
#include "train/train.h"

#include <math.h>
#include <string.h>

/* JSON has no NaN and no infinity. */
static const char *number(double x, char *buf, size_t n) {
    if (isfinite(x))
        snprintf(buf, n, "%.17g", x);
    else
        snprintf(buf, n, "null");
    return buf;
}

/* Where rows go to standard output they have it to themselves. */
static FILE *place_of(const oc_config *c) {
    return c->scores && strcmp(c->scores, "-") == 0 ? stderr : stdout;
}

static void print_result(const oc_config *c, const oc_eval_result *r) {
    char loss[32], perplexity[32];
    if (c->json)
        (void)fprintf(place_of(c), "{\"loss\": %s, \"perplexity\": %s, \"tokens\": %llu}\n",
                      number(r->loss, loss, sizeof loss),
                      number(r->perplexity, perplexity, sizeof perplexity),
                      (unsigned long long)r->tokens);
    else
        (void)fprintf(place_of(c), "loss %.6f  perplexity %.4f  tokens %llu\n", r->loss,
                      r->perplexity, (unsigned long long)r->tokens);
}

/* With --scores: as generate ends. */
static int score(const oc_config *c) {
    enum { SIGNAL_BASE = 128 };
    oc_error err = {OC_OK, ""};
    oc_score_sum sum;
    volatile sig_atomic_t *stop = oc_cli_watch(false);
    if (oc_score(c, &sum, stop, &err) != OC_OK) {
        oc_log(OC_LOG_ERROR, "%s", err.message);
        return sum.begun ? OC_EXIT_FAILED : OC_EXIT_REFUSED;
    }
    double loss = sum.tokens ? sum.nll / (double)sum.tokens : 0;
    print_result(c, &(oc_eval_result){loss, exp(loss), sum.tokens});
    return sum.failed ? OC_EXIT_FAILED : *stop ? SIGNAL_BASE + (int)*stop : OC_EXIT_DONE;
}

int oc_cmd_eval(oc_config *c) {
    oc_error err = {OC_OK, ""};
    oc_eval_result r;
    if (c->scores) return score(c);
    if (oc_evaluate(c, &r, &err) != OC_OK) {
        oc_log(OC_LOG_ERROR, "%s", err.message);
        return OC_EXIT_REFUSED;
    }
    print_result(c, &r);
    return OC_EXIT_DONE;
}
