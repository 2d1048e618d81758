/* generate.c - outcore generate: text on stdout, or answers into a file. */
#include "infer/generate.h"

#include "cli/cli.h"

/* Each interrupt of a conversation ends an answer. */
int oc_cmd_generate(oc_config *c) { return oc_generate(c, stdout, oc_cli_watch(c->gen.chat)); }
