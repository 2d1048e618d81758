/* eval.c - outcore eval: loss, perplexity and tokens on stdout. */
#include "base/log.h"
#include "cli/cli.h"
#include "train/train.h"

int oc_cmd_eval(oc_config *c) {
    oc_error err = {OC_OK, ""};
    oc_eval_result r;
    if (oc_evaluate(c, &r, &err) != OC_OK) {
        oc_log(OC_LOG_ERROR, "%s", err.message);
        return OC_EXIT_REFUSED;
    }
    if (c->json)
        (void)printf("{\"loss\": %.17g, \"perplexity\": %.17g, \"tokens\": %llu}\n", r.loss,
                     r.perplexity, (unsigned long long)r.tokens);
    else
        (void)printf("loss %.6f  perplexity %.4f  tokens %llu\n", r.loss, r.perplexity,
                     (unsigned long long)r.tokens);
    return OC_EXIT_DONE;
}
