/* cli.h - one function a command. Each takes the resolved configuration and returns the process's
 * exit code: 0 done, 2 refused before the first step, 1 failed later, 129 / 130 / 143 stopped. They
 * print results on stdout and everything else on stderr. */
#ifndef OC_CLI_H
#define OC_CLI_H

#include "config/config.h"

#include <signal.h>

/* Set by the first of SIGINT, SIGTERM and SIGHUP; a second ends the process, but for interrupts
 * with `again`. Ignored ones stay ignored. */
volatile sig_atomic_t *oc_cli_watch(bool again);

enum { OC_EXIT_DONE = 0, OC_EXIT_FAILED = 1, OC_EXIT_REFUSED = 2 };

int oc_cmd_train(oc_config *c);
int oc_cmd_eval(oc_config *c);
int oc_cmd_plan(oc_config *c);
int oc_cmd_generate(oc_config *c);
int oc_cmd_plan_generate(oc_config *c);
int oc_cmd_inspect(oc_config *c);
int oc_cmd_tokenize(oc_config *c);

void oc_cli_usage(FILE *to); /* outcore --help: the commands */
void oc_cli_help(oc_command command,
                 FILE *to); /* outcore COMMAND --help: its options, by section */

#endif
