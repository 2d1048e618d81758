/* train.c - outcore train: the exit code is the outcome. */
#include "train/train.h"

#include "base/json.h"
#include "base/log.h"
#include "cli/cli.h"

#include <math.h>

/* A path need not be UTF-8, and JSON must: then it is null. */
static bool print_json(const oc_config *c, const oc_outcome *out) {
    json_t *loss = isfinite(out->loss) ? json_real(out->loss) : json_null();
    json_t *j = json_pack("{s:o, s:I, s:I, s:I, s:o}", "output",
                          oc_json_is_text(c->output) ? json_string(c->output) : json_null(),
                          "steps", (json_int_t)out->steps, "skipped", (json_int_t)out->skipped,
                          "tokens", (json_int_t)out->tokens, "loss", loss);
    oc_error err = {OC_OK, "no memory to write a result"};
    bool done = j && oc_json_print(j, JSON_REAL_PRECISION(17), stdout, &err) == OC_OK;
    json_decref(j);
    if (!done) oc_log(OC_LOG_ERROR, "%s", err.message);
    return done;
}

int oc_cmd_train(oc_config *c) {
    oc_error err = {OC_OK, ""};
    oc_outcome out = oc_train(c, &err);
    if (out.status != OC_OK) {
        oc_log(OC_LOG_ERROR, "%s", err.message);
        return out.started ? OC_EXIT_FAILED : OC_EXIT_REFUSED;
    }
    if (out.signal) return 128 + out.signal;
    if (!c->json)
        (void)printf("%s\n", c->output);
    else if (!print_json(c, &out))
        return OC_EXIT_FAILED;
    return OC_EXIT_DONE;
}
