/* generate.c - what a line of generate and plan generate must have, and what goes with what. */
#include "config/options.h"

#include <string.h>

bool oc_config_generates(const oc_config *c) {
    return c->command == OC_CMD_GENERATE || c->command == OC_CMD_PLAN_GENERATE;
}

static bool given(const oc_config *c, const char *option) {
    return oc_config_origin(c, option) != OC_FROM_DEFAULT;
}

static oc_status check_model(const oc_config *c, oc_error *err) {
    if (c->model_dir && c->init_dir)
        return oc_fail(err, OC_E_INVALID, "--model and --init exclude each other");
    if (c->model_dir || c->init_dir) return OC_OK;
    return oc_fail(err, OC_E_INVALID,
                   c->command == OC_CMD_GENERATE
                       ? "outcore %s needs --model DIR"
                       : "outcore %s needs --model DIR, or --init DIR for its config.json alone",
                   oc_command_name(c->command));
}

/* Prompts, a conversation or a file: one of them; a plan needs none. */
static oc_status check_source(const oc_config *c, oc_error *err) {
    if (c->input && (c->gen.n_prompts > 0 || c->gen.chat))
        return oc_fail(err, OC_E_INVALID, "--input and --%s exclude each other",
                       c->gen.n_prompts > 0 ? "prompt" : "chat");
    if (c->gen.system && !c->gen.chat)
        return oc_fail(err, OC_E_INVALID,
                       "--system goes with --chat only: a row of --input has its own messages");
    if (c->gen.chat && c->gen.n_prompts == 0 && c->json)
        return oc_fail(err, OC_E_INVALID,
                       "--chat without --prompt is for people and has no --json; give --prompt");
    if (c->command == OC_CMD_PLAN_GENERATE) return OC_OK;
    if (!c->input && !c->gen.chat && c->gen.n_prompts == 0)
        return oc_fail(err, OC_E_INVALID,
                       "outcore generate needs --prompt TEXT..., --chat, or --input FILE --output "
                       "FILE");
    return OC_OK;
}

static oc_status check_files(const oc_config *c, oc_error *err) {
    const char *extra = c->resume ? "resume" : "overwrite";
    if (c->command == OC_CMD_GENERATE && c->input && !c->output)
        return oc_fail(err, OC_E_INVALID,
                       "--input needs --output FILE.jsonl for the answers (-: standard output)");
    if (c->output && !c->input)
        return oc_fail(err, OC_E_INVALID, "--output goes with --input only");
    if (c->resume && c->overwrite)
        return oc_fail(err, OC_E_INVALID, "--resume and --overwrite exclude each other");
    if (c->resume_path)
        return oc_fail(err, OC_E_INVALID,
                       "--resume %s: the answers of --output are gone on with; leave \"%s\" out",
                       c->resume_path, c->resume_path);
    if ((c->resume || c->overwrite) && (!c->output || strcmp(c->output, "-") == 0))
        return oc_fail(err, OC_E_INVALID, "--%s goes with --output FILE only", extra);
    if (c->resume && strcmp(c->input, "-") == 0)
        return oc_fail(err, OC_E_INVALID,
                       "--resume needs the rows once more: --input must be a file");
    return OC_OK;
}

static oc_status check_answers(const oc_config *c, oc_error *err) {
    for (int32_t i = 0; i < c->gen.n_stops; i++)
        if (!*c->gen.stops[i]) return oc_fail(err, OC_E_INVALID, "--stop: the text is empty");
    if (c->gen.max_new_tokens > 0 && c->gen.min_new_tokens > c->gen.max_new_tokens)
        return oc_fail(err, OC_E_INVALID, "--min-new-tokens %d is above --max-new-tokens %lld",
                       c->gen.min_new_tokens, (long long)c->gen.max_new_tokens);
    if (c->gen.logprobs >= 0 && !c->input && !c->json)
        return oc_fail(err, OC_E_INVALID,
                       "--logprobs has its place in rows: give --input, or --json");
    if (c->gen.page_tokens % 16 != 0)
        return oc_fail(err, OC_E_INVALID, "--page-tokens %lld is no multiple of 16",
                       (long long)c->gen.page_tokens);
    if (given(c, "prompt-tokens") && (c->input || c->gen.n_prompts > 0))
        return oc_fail(err, OC_E_INVALID, "--prompt-tokens stands for prompts: leave out --%s",
                       c->input ? "input" : "prompt");
    return OC_OK;
}

/* do_sample, as transformers has it, is whether the temperature is above 0. */
static oc_status settle_temperature(oc_config *c, oc_error *err) {
    bool draws = c->gen.do_sample, said = given(c, "do-sample");
    if (said && given(c, "temperature") && draws != (c->gen.temperature > 0))
        return oc_fail(err, OC_E_INVALID,
                       "--do-sample %s and --temperature %g contradict each other; give one",
                       draws ? "true" : "false", c->gen.temperature);
    if (said && !draws) c->gen.temperature = 0;
    if (c->gen.top_k == -1) c->gen.top_k = 0;
    return OC_OK;
}

static void note_idle(const oc_config *c, FILE *notes) {
    bool greedy = (given(c, "temperature") && !(c->gen.temperature > 0)) ||
                  (given(c, "do-sample") && !c->gen.do_sample);
    static const char *const drawn[] = {"top-k", "top-p", "min-p"};
    for (size_t i = 0; i < sizeof drawn / sizeof *drawn; i++)
        if (given(c, drawn[i]) && greedy)
            fprintf(notes, "--%s has an effect with --temperature above 0 only\n", drawn[i]);
    static const char *const tiers[] = {"kv-home", "resident-blocks", "slots"};
    bool one = c->device_memory == UINT64_MAX && !c->debug_async; /* its memory is the host's */
    for (size_t i = 0; i < sizeof tiers / sizeof *tiers; i++)
        if (given(c, tiers[i]) && one)
            fprintf(notes, "--%s has an effect with --device-memory only\n", tiers[i]);
    if (given(c, "trace-size") && !c->trace_path)
        fprintf(notes, "--trace-size has an effect with --trace only\n");
}

oc_status oc_config_resolve_generate(oc_config *c, FILE *notes, oc_error *err) {
    OC_TRY(check_model(c, err));
    OC_TRY(check_source(c, err));
    OC_TRY(check_files(c, err));
    OC_TRY(check_answers(c, err));
    OC_TRY(settle_temperature(c, err));
    if (notes) note_idle(c, notes);
    return OC_OK;
}
