/* eval.c - outcore eval: loss, perplexity and tokens on stdout. */
#include "base/log.h"
#include "cli/cli.h"
#include "train/train.h"

#include <math.h>

/* JSON has no NaN and no infinity. */
static const char *number(double x, char *buf, size_t n) {
    if (isfinite(x))
        snprintf(buf, n, "%.17g", x);
    else
        snprintf(buf, n, "null");
    return buf;
}

int oc_cmd_eval(oc_config *c) {
    oc_error err = {OC_OK, ""};
    oc_eval_result r;
    if (oc_evaluate(c, &r, &err) != OC_OK) {
        oc_log(OC_LOG_ERROR, "%s", err.message);
        return OC_EXIT_REFUSED;
    }
    char loss[32], perplexity[32];
    if (c->json)
        (void)printf("{\"loss\": %s, \"perplexity\": %s, \"tokens\": %llu}\n",
                     number(r.loss, loss, sizeof loss),
                     number(r.perplexity, perplexity, sizeof perplexity),
                     (unsigned long long)r.tokens);
    else
        (void)printf("loss %.6f  perplexity %.4f  tokens %llu\n", r.loss, r.perplexity,
                     (unsigned long long)r.tokens);
    return OC_EXIT_DONE;
}
