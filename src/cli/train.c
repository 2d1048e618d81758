/* train.c - outcore train: the exit code is the outcome. */
#include "train/train.h"

#include "base/log.h"
#include "cli/cli.h"

int oc_cmd_train(oc_config *c) {
    oc_error err = {OC_OK, ""};
    oc_outcome out = oc_train(c, &err);
    if (out.status != OC_OK) {
        oc_log(OC_LOG_ERROR, "%s", err.message);
        return out.started ? OC_EXIT_FAILED : OC_EXIT_REFUSED;
    }
    if (out.signal) return 128 + out.signal;
    (void)printf("%s\n", c->output);
    return OC_EXIT_DONE;
}
