/* generate.c - the set-up of generation, and answers to --prompt. */
#include "infer/generate.h"

#include "base/checked.h"
#include "base/json.h"
#include "base/log.h"
#include "data/chat.h"
#include "engine/corpus.h"
#include "infer/internal.h"
#include "infer/requests.h"

#include <stdlib.h>
#include <string.h>

enum { ANSWER_DEFAULT = 256, CONTEXT_DEFAULT = 4096 };

/* ---- what is asked for ---- */

static oc_sampling sampling_of(const oc_config *c, const oc_defaults *d) {
    const struct oc_generate_config *g = &c->gen;
    oc_sampling s = g->do_sample ? d->drawn : d->sampling;
    if (oc_config_origin(c, "temperature") != OC_FROM_DEFAULT) s.temperature = g->temperature;
    if (oc_config_origin(c, "do-sample") != OC_FROM_DEFAULT && !g->do_sample) s.temperature = 0;
    if (g->do_sample && !(s.temperature > 0)) s.temperature = 1;
    if (oc_config_origin(c, "top-k") != OC_FROM_DEFAULT) s.top_k = (int32_t)g->top_k;
    if (oc_config_origin(c, "top-p") != OC_FROM_DEFAULT) s.top_p = g->top_p;
    if (oc_config_origin(c, "min-p") != OC_FROM_DEFAULT) s.min_p = g->min_p;
    if (oc_config_origin(c, "repetition-penalty") != OC_FROM_DEFAULT)
        s.repetition_penalty = g->repetition_penalty;
    s.presence_penalty = g->presence_penalty;
    s.frequency_penalty = g->frequency_penalty;
    if (oc_config_origin(c, "min-new-tokens") != OC_FROM_DEFAULT) s.least = g->min_new_tokens;
    s.seed = c->seed;
    return s;
}

static int64_t positions_of(const oc_setup *s) {
    const oc_config *c = s->config;
    if (c->seq_length > 0) return c->seq_length;
    return s->model->max_positions > 0 ? s->model->max_positions : CONTEXT_DEFAULT;
}

static int32_t answer_of(const oc_config *c, const oc_defaults *d) {
    if (c->gen.max_new_tokens > 0)
        return (int32_t)oc_min_u64((uint64_t)c->gen.max_new_tokens, INT32_MAX / 4);
    return d->max_new_tokens > 0 ? (int32_t)d->max_new_tokens : ANSWER_DEFAULT;
}

static oc_status need_tokenizer(const oc_setup *s, oc_error *err) {
    if (s->tokenizer) return OC_OK;
    return oc_fail(err, OC_E_NOTFOUND,
                   "%s has no tokenizer.json: text needs one; give --tokenizer DIR, or rows of "
                   "input_ids by --input",
                   s->config->model_dir ? s->config->model_dir : s->config->init_dir);
}

/* ---- prompts ---- */

static oc_status check_prompt(const oc_asked *a, int32_t n, int32_t k, oc_error *err) {
    if (n == 0)
        return oc_fail(
            err, OC_E_INVALID,
            "--prompt number %d is empty, and the tokenizer puts nothing before it: there "
            "is nothing to go on from",
            k + 1);
    if (n < a->positions) return OC_OK;
    return oc_fail(err, OC_E_INVALID,
                   "--prompt number %d has %d tokens, and a sequence at most %lld (the model's "
                   "positions, or --seq-length): nothing is left for an answer",
                   k + 1, n, (long long)a->positions);
}

static int32_t most_answer(const oc_asked *a, int32_t prompt) {
    int64_t room = a->positions - prompt;
    return a->answer < room ? a->answer : (int32_t)room;
}

/* --chat --prompt: what a user says, through the chat template. */
static oc_status encode_message(const oc_setup *s, const char *text, oc_tokens *tokens,
                                oc_error *err) {
    oc_chat *chat = NULL;
    oc_rendered x;
    json_t *m = json_array();
    const char *system = s->config->gen.system;
    if (system) m = oc_json_append(m, json_pack("{s:s,s:s}", "role", "system", "content", system));
    m = oc_json_append(m, json_pack("{s:s,s:s}", "role", "user", "content", text));
    oc_status st = m ? oc_chat_open(&chat, s->tokenizer, err)
                     : oc_fail(err, OC_E_MEMORY, "no memory for the prompts");
    if (st == OC_OK) st = oc_chat_render(chat, &(oc_conversation){.messages = m}, true, &x, err);
    oc_chat_close(chat);
    json_decref(m);
    if (st != OC_OK) return st;
    st = oc_tokenizer_encode(s->tokenizer, x.text, x.n, OC_SPECIAL_NONE, tokens, err);
    oc_rendered_free(&x);
    return st;
}

static oc_status encode_prompt(oc_asked *a, const oc_setup *s, int32_t k, oc_tokens *tokens,
                               oc_error *err) {
    const char *text = s->config->gen.prompts[k];
    if (s->config->gen.chat)
        OC_TRY(encode_message(s, text, tokens, err));
    else
        OC_TRY(oc_request_encode(s->tokenizer, text, strlen(text), tokens, err));
    int32_t n = (int32_t)tokens->n;
    OC_TRY(check_prompt(a, n, k, err));
    OC_TRY(oc_job_new(&a->jobs[k], tokens->ids, n, most_answer(a, n), err));
    return OC_OK;
}

static oc_status encode_prompts(oc_asked *a, const oc_setup *s, oc_error *err) {
    oc_tokens tokens = {0};
    oc_status st = need_tokenizer(s, err);
    a->n_jobs = s->config->gen.n_prompts;
    a->jobs = calloc((size_t)a->n_jobs, sizeof *a->jobs);
    if (st == OC_OK && !a->jobs) st = oc_fail(err, OC_E_MEMORY, "no memory for the prompts");
    for (int32_t k = 0; st == OC_OK && k < a->n_jobs; k++)
        st = encode_prompt(a, s, k, &tokens, err);
    oc_tokens_free(&tokens);
    return st;
}

static void wish_of_jobs(const oc_asked *a, oc_pass_wish *out) {
    for (int32_t k = 0; k < a->n_jobs; k++) {
        const oc_job *j = a->jobs[k];
        if (j->most > out->longest) out->longest = j->most;
        out->prompt += (double)j->n_prompt / a->n_jobs;
        out->answer += (double)(j->most - j->n_prompt) / a->n_jobs;
    }
    out->sequences = (uint64_t)a->n_jobs;
}

/* ---- the wish ---- */

/* One sequence, as long as it may come to; an answer may take what is left, where nobody says less.
 */
static void wish_of_chat(oc_asked *a, const oc_config *c, oc_pass_wish *out) {
    if (c->seq_length == 0 && a->positions > CONTEXT_DEFAULT) a->positions = CONTEXT_DEFAULT;
    if (c->gen.max_new_tokens == 0 && a->setup->defaults->max_new_tokens <= 0)
        a->answer = (int32_t)a->positions;
    out->longest = a->positions;
    out->prompt = out->answer = (double)a->positions / 4;
    out->sequences = 1;
}

/* Of `plan generate`: lengths alone are known. */
static void wish_of_plan(const oc_asked *a, const oc_config *c, oc_pass_wish *out) {
    int64_t prompt = c->gen.prompt_tokens < a->positions ? c->gen.prompt_tokens : a->positions - 1;
    out->prompt = (double)prompt;
    out->answer = most_answer(a, (int32_t)prompt);
    out->longest = prompt + (int64_t)out->answer;
}

static oc_status wish(void *user, const oc_setup *s, oc_pass_wish *out, oc_error *err) {
    oc_asked *a = user;
    const oc_config *c = s->config;
    const char *dir = c->model_dir ? c->model_dir : c->init_dir;
    *out = (oc_pass_wish){0};
    OC_TRY(oc_defaults_open(&a->setup->defaults, dir, err));
    OC_TRY(oc_stop_ids_open(&a->setup->ends, dir, s->tokenizer, err));
    a->sampling = sampling_of(c, a->setup->defaults);
    OC_TRY(oc_sampling_check(&a->sampling, err));
    a->positions = positions_of(s);
    a->answer = answer_of(c, a->setup->defaults);
    if (c->command == OC_CMD_PLAN_GENERATE && !c->input && c->gen.n_prompts == 0) {
        wish_of_plan(a, c, out);
        return OC_OK;
    }
    if (c->gen.n_prompts > 0) {
        OC_TRY(encode_prompts(a, s, err));
        wish_of_jobs(a, out);
        return OC_OK;
    }
    if (c->input) return oc_generate_survey(a, s, out, err);
    OC_TRY(need_tokenizer(s, err));
    wish_of_chat(a, c, out);
    return OC_OK;
}

static uint64_t beside(void *user, const oc_setup *s, const oc_build_spec *build) {
    (void)user;
    return oc_runner_bytes(s, build);
}

/* ---- set-up ---- */

static void say_defaults(const oc_defaults *d) {
    for (int32_t i = 0; i < d->n_lines; i++)
        oc_log(d->lines[i].warning ? OC_LOG_WARN : OC_LOG_INFO, "%s", d->lines[i].text);
}

oc_status oc_generate_setup_open(oc_generate_setup *out, const oc_config *c, FILE *notes,
                                 oc_error *err) {
    memset(out, 0, sizeof *out);
    oc_asked *a = out->asked = calloc(1, sizeof *a);
    if (!a) return oc_fail(err, OC_E_MEMORY, "no memory for the prompts");
    a->setup = out;
    a->generator = (oc_generator){.wish = wish, .beside = beside, .user = a};
    oc_status st = oc_setup_open_generate(&out->setup, c, &a->generator, notes, err);
    if (st != OC_OK) {
        oc_generate_setup_close(out);
        return st;
    }
    say_defaults(out->defaults);
    return OC_OK;
}

void oc_generate_setup_close(oc_generate_setup *s) {
    oc_setup_close(s->setup);
    if (s->asked)
        for (int32_t k = 0; k < s->asked->n_jobs && s->asked->jobs; k++)
            oc_job_free(s->asked->jobs[k]);
    if (s->asked) free(s->asked->jobs);
    free(s->asked);
    oc_defaults_close(s->defaults);
    oc_stop_ids_close(s->ends);
    memset(s, 0, sizeof *s);
}

void oc_generate_ask(const oc_generate_setup *s, oc_job *j, uint64_t row) {
    const oc_config *c = s->setup->config;
    j->sampling = s->asked->sampling;
    j->row = row;
    j->stops = c->gen.stops;
    j->n_stops = c->gen.n_stops;
    j->logprobs = c->gen.logprobs;
    j->ignore_eos = c->gen.ignore_eos;
}
