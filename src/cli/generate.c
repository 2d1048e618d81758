/* generate.c - outcore generate: text that goes on, answers, a file of them. */
#include "base/log.h"
#include "cli/cli.h"

static int not_there(const oc_config *c) {
    oc_log(OC_LOG_ERROR, "outcore %s is not available in this version",
           oc_command_name(c->command));
    return OC_EXIT_REFUSED;
}

int oc_cmd_generate(oc_config *c) { return not_there(c); }

int oc_cmd_plan_generate(oc_config *c) { return not_there(c); }
