/* prompts.c - answers to --prompt on standard output: one prompt's text as it comes, several one
 * after the other. */
#include "infer/internal.h"

#include "base/json.h"
#include "base/log.h"

#include <stdio.h>
#include <string.h>

enum { TEXT_BYTES = 4096 };

static void print_text(const oc_generate_setup *s, oc_runner *r, oc_job *j) {
    char text[TEXT_BYTES];
    for (size_t n; (n = oc_runner_text(r, j, text, sizeof text)) > 0;)
        (void)fwrite(text, 1, n, s->asked->out);
    (void)fflush(s->asked->out);
}

static oc_status print_json(const oc_generate_setup *s, const oc_job *j, int32_t index,
                            oc_error *err) {
    json_t *row = json_object();
    row = oc_json_with(row, "index", json_integer(index));
    row = oc_json_with(row, "text", json_stringn(j->text ? j->text : "", j->n_text));
    row = oc_json_with(row, "finish_reason", json_string(oc_finish_name(j->finish)));
    row = oc_json_with(row, "usage",
                       json_pack("{s:i,s:i}", "prompt_tokens", j->n_prompt, "completion_tokens",
                                 oc_job_answered(j)));
    if (!row) return oc_fail(err, OC_E_MEMORY, "no memory for a result");
    oc_status st = oc_json_print(row, JSON_COMPACT | JSON_ENSURE_ASCII, s->asked->out, err);
    json_decref(row);
    return st;
}

static oc_status show(const oc_generate_setup *s, oc_runner *r, oc_job *j, int32_t k,
                      oc_error *err) {
    const oc_config *c = s->setup->config;
    if (c->json) return print_json(s, j, k, err);
    if (s->asked->n_jobs > 1) (void)fprintf(s->asked->out, "%s[%d]\n", k ? "\n" : "", k);
    print_text(s, r, j);
    (void)fputc('\n', s->asked->out);
    return OC_OK;
}

static oc_status drain(const oc_generate_setup *s, oc_runner *r, int32_t *failed, oc_error *err) {
    oc_asked *a = s->asked;
    for (oc_job *j; (j = oc_runner_done(r));) {
        int32_t k = (int32_t)j->row;
        a->jobs[k] = j;
        if (j->finish != OC_FINISH_ERROR) continue;
        oc_log(OC_LOG_ERROR, "prompt %d: %s", k + 1, j->error.message);
        ++*failed;
    }
    /* in order: an answer that is done early waits */
    for (; a->n_shown < a->n_jobs && a->jobs[a->n_shown]; a->n_shown++)
        OC_TRY(show(s, r, a->jobs[a->n_shown], a->n_shown, err));
    return OC_OK;
}

oc_status oc_generate_prompts(const oc_generate_setup *s, oc_runner *r,
                              const volatile sig_atomic_t *stop, int32_t *failed, oc_error *err) {
    oc_asked *a = s->asked;
    bool idle = false, alone = a->n_jobs == 1 && !s->setup->config->json;
    oc_job *only = a->jobs[0];
    *failed = 0;
    for (int32_t k = 0; k < a->n_jobs; k++) {
        oc_generate_ask(s, a->jobs[k], (uint64_t)k);
        oc_runner_queue(r, a->jobs[k]);
        a->jobs[k] = NULL;
    }
    while (!idle && !*stop) {
        OC_TRY(oc_runner_turn(r, &idle, err));
        if (alone && !idle) print_text(s, r, only);
        OC_TRY(drain(s, r, failed, err));
    }
    return OC_OK;
}
