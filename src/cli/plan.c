/* plan.c - outcore plan: what a run needs, without starting it. */
#include "base/log.h"
#include "cli/cli.h"
#include "engine/setup.h"
#include "infer/generate.h"

static void note_text(const oc_config *c) {
    if (c->n_data > 0) return;
    oc_log(OC_LOG_INFO, "without --data%s what %s take is left out: use \"text\"",
           c->tokenizer ? "" : " and --tokenizer",
           c->tokenizer ? "the data's buffers" : "the tokenizer and the data's buffers");
}

static oc_status print(const oc_config *c, oc_setup *s, oc_error *err) {
    if (c->json) return oc_setup_print_json(s, stdout, err);
    oc_setup_print(s, stdout);
    if (c->command == OC_CMD_PLAN_GENERATE) oc_setup_print_trades(s, stdout);
    if (c->plan_ops) oc_setup_print_ops(s, stdout);
    if (s->no_memory) return oc_fail(err, OC_E_MEMORY, "no memory to look at the plan");
    return OC_OK;
}

int oc_cmd_plan_generate(oc_config *c) {
    oc_error err = {OC_OK, ""};
    oc_generate_setup g;
    if (oc_generate_setup_open(&g, c, stderr, &err) != OC_OK) {
        oc_log(OC_LOG_ERROR, "%s", err.message);
        return OC_EXIT_REFUSED;
    }
    oc_status st = print(c, g.setup, &err);
    if (st != OC_OK) oc_log(OC_LOG_ERROR, "%s", err.message);
    oc_generate_setup_close(&g);
    return st == OC_OK ? OC_EXIT_DONE : OC_EXIT_FAILED;
}

int oc_cmd_plan(oc_config *c) {
    oc_error err = {OC_OK, ""};
    oc_setup *s = NULL;
    if (c->json && c->plan_ops) {
        oc_log(OC_LOG_ERROR,
               "--ops prints lines for people and has no place in --json; give one of them");
        return OC_EXIT_REFUSED;
    }
    if (oc_setup_open(&s, c, stderr, &err) != OC_OK) {
        oc_log(OC_LOG_ERROR, "%s", err.message);
        return OC_EXIT_REFUSED;
    }
    note_text(c);
    oc_status st = print(c, s, &err);
    if (st != OC_OK) oc_log(OC_LOG_ERROR, "%s", err.message);
    oc_setup_close(s);
    return st == OC_OK ? OC_EXIT_DONE : OC_EXIT_FAILED;
}
