/* request_keys.c - what keys of a request mean: OpenAI's and vLLM's. Each is followed, or asks for
 * what happens anyway, or is refused by name. */
#include "infer/request.h"

#include "base/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STOPS_MOST = 64, ALTERNATIVES_MOST = 20 };

#define PLAIN OC_PLACE_PLAIN
#define CHAT OC_PLACE_CHAT
#define COMPLETION OC_PLACE_COMPLETION
#define TALK (PLAIN | CHAT)
#define ALL (PLAIN | CHAT | COMPLETION)

typedef enum use {
    READ, /* by whoever makes the prompt */
    REAL, /* a number of sampling */
    MAX_TOKENS,
    MIN_TOKENS,
    TOP_K,
    SEED,
    STOP,
    LOGPROBS,
    TOP_LOGPROBS,
    IGNORE_EOS,
    IDLE, /* no effect, by what it means */
    ONLY  /* refused but for these values, null, false and what is empty */
} use;

#define AT(field) offsetof(oc_request, sampling.field)

static const char no_more[] = "one answer is given to a row: repeat it, with another seed";
static const char no_tools[] = "calls are written as the model writes them, none is made sure of";
static const char no_form[] = "an answer is held to no form";
static const char no_bias[] = "no token is favoured or forbidden";
static const char no_sound[] = "answers are text";
static const char use_kwargs[] = "\"chat_template_kwargs\" has what the template sees";

static const struct key {
    const char *name;
    unsigned places;
    use use;
    size_t offset;      /* of REAL */
    double least, most; /* of REAL */
    const char *only;   /* of ONLY: JSON values, '|' between */
    const char *why;    /* of ONLY */
} keys[] = {
    {"prompt", PLAIN | COMPLETION, READ, 0, 0, 0, NULL, NULL},
    {"input_ids", PLAIN, READ, 0, 0, 0, NULL, NULL},
    {"messages", TALK, READ, 0, 0, 0, NULL, NULL},
    {"custom_id", PLAIN, READ, 0, 0, 0, NULL, NULL},
    {"system", PLAIN, READ, 0, 0, 0, NULL, NULL},
    {"system_prompt", PLAIN, READ, 0, 0, 0, NULL, NULL},
    {"tools", TALK, READ, 0, 0, 0, NULL, NULL},
    {"functions", TALK, READ, 0, 0, 0, NULL, NULL},
    {"chat_template_kwargs", TALK, READ, 0, 0, 0, NULL, NULL},

    {"max_tokens", ALL, MAX_TOKENS, 0, 0, 0, NULL, NULL},
    {"max_completion_tokens", TALK, MAX_TOKENS, 0, 0, 0, NULL, NULL},
    {"max_new_tokens", PLAIN, MAX_TOKENS, 0, 0, 0, NULL, NULL},
    {"min_tokens", ALL, MIN_TOKENS, 0, 0, 0, NULL, NULL},
    {"min_new_tokens", PLAIN, MIN_TOKENS, 0, 0, 0, NULL, NULL},
    {"temperature", ALL, REAL, AT(temperature), 0, 1e6, NULL, NULL},
    {"top_p", ALL, REAL, AT(top_p), 0, 1, NULL, NULL},
    {"min_p", ALL, REAL, AT(min_p), 0, 1, NULL, NULL},
    {"repetition_penalty", ALL, REAL, AT(repetition_penalty), 1e-6, 1e6, NULL, NULL},
    {"presence_penalty", ALL, REAL, AT(presence_penalty), -2, 2, NULL, NULL},
    {"frequency_penalty", ALL, REAL, AT(frequency_penalty), -2, 2, NULL, NULL},
    {"top_k", ALL, TOP_K, 0, 0, 0, NULL, NULL},
    {"seed", ALL, SEED, 0, 0, 0, NULL, NULL},
    {"stop", ALL, STOP, 0, 0, 0, NULL, NULL},
    {"logprobs", ALL, LOGPROBS, 0, 0, 0, NULL, NULL},
    {"top_logprobs", TALK, TOP_LOGPROBS, 0, 0, 0, NULL, NULL},
    {"ignore_eos", ALL, IGNORE_EOS, 0, 0, 0, NULL, NULL},

    /* whose model it is, the command line says */
    {"model", ALL, IDLE, 0, 0, 0, NULL, NULL},
    {"user", ALL, IDLE, 0, 0, 0, NULL, NULL},
    {"safety_identifier", ALL, IDLE, 0, 0, 0, NULL, NULL},
    {"metadata", ALL, IDLE, 0, 0, 0, NULL, NULL},
    {"store", ALL, IDLE, 0, 0, 0, NULL, NULL},
    {"service_tier", ALL, IDLE, 0, 0, 0, NULL, NULL},
    {"prompt_cache_key", ALL, IDLE, 0, 0, 0, NULL, NULL},
    {"priority", ALL, IDLE, 0, 0, 0, NULL, NULL},
    {"parallel_tool_calls", TALK, IDLE, 0, 0, 0, NULL, NULL},

    {"n", ALL, ONLY, 0, 0, 0, "1", no_more},
    {"best_of", ALL, ONLY, 0, 0, 0, "1", no_more},
    {"num_return_sequences", PLAIN, ONLY, 0, 0, 0, "1", no_more},
    {"use_beam_search", ALL, ONLY, 0, 0, 0, "", no_more},
    {"num_beams", PLAIN, ONLY, 0, 0, 0, "1", no_more},
    {"length_penalty", ALL, ONLY, 0, 0, 0, "1|1.0", no_more},
    {"stream", ALL, ONLY, 0, 0, 0, "", "a file is answered row by row"},
    {"stream_options", ALL, ONLY, 0, 0, 0, "", "a file is answered row by row"},
    {"echo", COMPLETION | PLAIN, ONLY, 0, 0, 0, "", "an answer is what follows the prompt"},
    {"suffix", COMPLETION | PLAIN, ONLY, 0, 0, 0, "", "an answer is what follows the prompt"},
    {"response_format", ALL, ONLY, 0, 0, 0, "{\"type\": \"text\"}", no_form},
    {"guided_json", ALL, ONLY, 0, 0, 0, "", no_form},
    {"guided_regex", ALL, ONLY, 0, 0, 0, "", no_form},
    {"guided_choice", ALL, ONLY, 0, 0, 0, "", no_form},
    {"guided_grammar", ALL, ONLY, 0, 0, 0, "", no_form},
    {"structured_outputs", ALL, ONLY, 0, 0, 0, "", no_form},
    {"logit_bias", ALL, ONLY, 0, 0, 0, "", no_bias},
    {"bad_words", ALL, ONLY, 0, 0, 0, "", no_bias},
    {"allowed_token_ids", ALL, ONLY, 0, 0, 0, "", no_bias},
    {"tool_choice", TALK, ONLY, 0, 0, 0, "\"auto\"", no_tools},
    {"function_call", TALK, ONLY, 0, 0, 0, "\"auto\"", no_tools},
    {"modalities", TALK, ONLY, 0, 0, 0, "[\"text\"]", no_sound},
    {"audio", TALK, ONLY, 0, 0, 0, "", no_sound},
    {"prediction", TALK, ONLY, 0, 0, 0, "", "each token is computed by the model itself"},
    {"web_search_options", TALK, ONLY, 0, 0, 0, "", "nothing is looked up"},
    {"reasoning_effort", TALK, ONLY, 0, 0, 0, "", use_kwargs},
    {"verbosity", TALK, ONLY, 0, 0, 0, "", use_kwargs},
    {"documents", TALK, ONLY, 0, 0, 0, "", use_kwargs},
    {"chat_template", TALK, ONLY, 0, 0, 0, "", "the model's own is taken"},
    {"add_generation_prompt", TALK, ONLY, 0, 0, 0, "true", "an answer begins with it"},
    {"continue_final_message", TALK, ONLY, 0, 0, 0, "", "an answer is a message of its own"},
    {"add_special_tokens", TALK, ONLY, 0, 0, 0, "", "the template writes them"},
    {"add_special_tokens", COMPLETION, ONLY, 0, 0, 0, "true", "give input_ids"},
    {"stop_token_ids", ALL, ONLY, 0, 0, 0, "", "use \"stop\", with the token's text"},
    {"include_stop_str_in_output", ALL, ONLY, 0, 0, 0, "", "an answer ends before its stop"},
    {"skip_special_tokens", ALL, ONLY, 0, 0, 0, "true", "an answer's text has none"},
    {"prompt_logprobs", ALL, ONLY, 0, 0, 0, "", "outcore eval measures given texts"},
    {"truncate_prompt_tokens", ALL, ONLY, 0, 0, 0, "", "a prompt is taken whole"},
};

enum { KEYS = sizeof keys / sizeof *keys };

/* A number of tokens that has two names. */
typedef struct limit {
    const char *said; /* the name that was used; NULL: none */
    int64_t least;
    const char *due;
} limit;

/* A row on its way. */
typedef struct taking {
    oc_request *out;
    oc_request_place place;
    const char *where;
    limit longest, shortest;
    bool has_logprobs, has_top;
    int32_t logprobs, top; /* -1: none are asked for */
    oc_error *err;
} taking;

static oc_status wrong(const taking *t, const char *key, const json_t *v, const char *due) {
    char *text = oc_json_dump(v, JSON_ENCODE_ANY | JSON_COMPACT);
    oc_status s = oc_fail(t->err, OC_E_INVALID, "%s: \"%s\" is %.40s, not %s", t->where, key,
                          text != NULL && strlen(text) <= 40 ? text : oc_json_type_name(v), due);
    free(text);
    return s;
}

static oc_status take_integer(const taking *t, const char *key, const json_t *v, int64_t least,
                              int64_t most, const char *due, int64_t *out) {
    double x = json_number_value(v);
    bool whole = json_is_integer(v) || (json_is_real(v) && floor(x) == x && fabs(x) < 9e15);
    int64_t i = json_is_integer(v) ? json_integer_value(v) : whole ? (int64_t)x : 0;
    if (!whole || i < least || i > most) return wrong(t, key, v, due);
    *out = i;
    return OC_OK;
}

static oc_status take_real(const taking *t, const struct key *k, const json_t *v) {
    char due[64];
    double x = json_number_value(v);
    (void)snprintf(due, sizeof due, "a number of %g to %g", k->least, k->most);
    if (!json_is_number(v) || !(x >= k->least && x <= k->most)) return wrong(t, k->name, v, due);
    memcpy((char *)t->out + k->offset, &x, sizeof x);
    return OC_OK;
}

/* Two names of one limit must agree. */
static oc_status take_limit(taking *t, limit *l, const char *key, const json_t *v, int32_t *out) {
    int64_t n;
    OC_TRY(take_integer(t, key, v, l->least, INT32_MAX, l->due, &n));
    if (l->said != NULL && n != *out)
        return oc_fail(t->err, OC_E_INVALID, "%s: \"%s\" and \"%s\" differ: give one", t->where,
                       l->said, key);
    l->said = key;
    *out = (int32_t)n;
    return OC_OK;
}

static oc_status take_top_k(const taking *t, const char *key, const json_t *v) {
    int64_t n;
    OC_TRY(take_integer(t, key, v, -1, INT32_MAX, "a whole number (0 or -1: all)", &n));
    t->out->sampling.top_k = n > 0 ? (int32_t)n : 0;
    return OC_OK;
}

static oc_status take_seed(const taking *t, const char *key, const json_t *v) {
    int64_t n;
    OC_TRY(take_integer(t, key, v, INT64_MIN, INT64_MAX, "a whole number", &n));
    t->out->sampling.seed = (uint64_t)n;
    return OC_OK;
}

static oc_status take_stop(const taking *t, const char *key, const json_t *v) {
    const char *texts[STOPS_MOST];
    size_t n = json_is_array(v) ? json_array_size(v) : 1;
    if (n > STOPS_MOST) return wrong(t, key, v, "64 texts at most");
    for (size_t i = 0; i < n; i++) {
        const json_t *x = json_is_array(v) ? json_array_get(v, i) : v;
        texts[i] = json_string_value(x);
        if (texts[i] == NULL || json_string_length(x) == 0 ||
            strlen(texts[i]) != json_string_length(x))
            return wrong(t, key, v, "a text, or a list of texts, none empty or with U+0000");
    }
    return oc_request_set_stops(t->out, texts, (int32_t)n, t->err);
}

/* A switch in a chat completion, a number in a completion, either in a row of ours. */
static oc_status take_logprobs(taking *t, const char *key, const json_t *v) {
    int64_t n = 0;
    bool number = t->place != CHAT && !json_is_boolean(v);
    if (t->place == COMPLETION && json_is_boolean(v)) return wrong(t, key, v, "a whole number");
    if (!number && !json_is_boolean(v)) return wrong(t, key, v, "true or false");
    if (number)
        OC_TRY(take_integer(t, key, v, 0, ALTERNATIVES_MOST, "a whole number of 0 to 20", &n));
    t->has_logprobs = true;
    t->logprobs = number || json_is_true(v) ? (int32_t)n : -1;
    return OC_OK;
}

static oc_status take_top(taking *t, const char *key, const json_t *v) {
    int64_t n;
    OC_TRY(take_integer(t, key, v, 0, ALTERNATIVES_MOST, "a whole number of 0 to 20", &n));
    t->has_top = true;
    t->top = (int32_t)n;
    return OC_OK;
}

static oc_status settle_limits(const taking *t) {
    const oc_request *r = t->out;
    if (!(t->shortest.said || t->longest.said) || r->sampling.least <= r->max_tokens) return OC_OK;
    return oc_fail(t->err, OC_E_INVALID, "%s: at least %d tokens are asked for, and at most %d",
                   t->where, (int)r->sampling.least, (int)r->max_tokens);
}

static oc_status settle_logprobs(const taking *t) {
    if (t->has_top && t->top > 0 && !(t->has_logprobs && t->logprobs >= 0))
        return oc_fail(t->err, OC_E_INVALID, "%s: \"top_logprobs\" needs \"logprobs\": true",
                       t->where);
    if (t->has_logprobs) t->out->logprobs = t->logprobs >= 0 && t->has_top ? t->top : t->logprobs;
    return OC_OK;
}

static bool is_nothing(const json_t *v) {
    return json_is_false(v) || (json_is_string(v) && json_string_length(v) == 0) ||
           (json_is_array(v) && json_array_size(v) == 0) ||
           (json_is_object(v) && json_object_size(v) == 0);
}

/* true: v is among the row's values. */
static bool is_among(const char *only, const json_t *v) {
    for (const char *p = only; *p; p += *p == '|') {
        size_t n = strcspn(p, "|");
        json_t *x = oc_json_of(p, n, JSON_DECODE_ANY, NULL);
        bool same = x != NULL && json_equal(x, v);
        json_decref(x);
        if (same) return true;
        p += n;
    }
    return false;
}

static oc_status take_only(const taking *t, const struct key *k, const json_t *v) {
    if (is_nothing(v) || is_among(k->only, v)) return OC_OK;
    return oc_fail(t->err, OC_E_UNSUPPORTED, "%s: \"%s\" is not available in this version: %s",
                   t->where, k->name, k->why);
}

static oc_status take_key(taking *t, const struct key *k, const json_t *v) {
    switch (k->use) {
    case REAL:
        return take_real(t, k, v);
    case MAX_TOKENS:
        return take_limit(t, &t->longest, k->name, v, &t->out->max_tokens);
    case MIN_TOKENS:
        return take_limit(t, &t->shortest, k->name, v, &t->out->sampling.least);
    case TOP_K:
        return take_top_k(t, k->name, v);
    case SEED:
        return take_seed(t, k->name, v);
    case STOP:
        return take_stop(t, k->name, v);
    case LOGPROBS:
        return take_logprobs(t, k->name, v);
    case TOP_LOGPROBS:
        return take_top(t, k->name, v);
    case IGNORE_EOS:
        if (!json_is_boolean(v)) return wrong(t, k->name, v, "true or false");
        t->out->ignore_eos = json_is_true(v);
        return OC_OK;
    case ONLY:
        return take_only(t, k, v);
    default:
        return OC_OK;
    }
}

/* *elsewhere: the name is known, but not here. */
static const struct key *find(const char *name, size_t n, unsigned place, bool *elsewhere) {
    *elsewhere = false;
    for (size_t i = 0; i < KEYS; i++) {
        if (strlen(keys[i].name) != n || memcmp(keys[i].name, name, n) != 0) continue;
        if (keys[i].places & place) return &keys[i];
        *elsewhere = true;
    }
    return NULL;
}

void oc_request_note_unknown(oc_unknown_keys *u, const char *name) {
    if (u->count++ == 0) (void)snprintf(u->first, sizeof u->first, "%s", name);
}

oc_status oc_request_take_keys(oc_request *out, const json_t *row, oc_request_place place,
                               oc_unknown_keys *unknown, const char *where, oc_error *err) {
    static const char *const forms[] = {
        [PLAIN] = "a row", [CHAT] = "a chat completion", [COMPLETION] = "a completion"};
    taking t = {.out = out,
                .place = place,
                .where = where,
                .longest = {.least = 1, .due = "a whole number above 0"},
                .shortest = {.least = 0, .due = "a whole number, 0 or more"},
                .logprobs = -1,
                .top = -1,
                .err = err};
    void *at = json_object_iter((json_t *)(uintptr_t)row);
    for (; at; at = json_object_iter_next((json_t *)(uintptr_t)row, at)) {
        const char *name = json_object_iter_key(at);
        const json_t *v = json_object_iter_value(at);
        bool elsewhere;
        const struct key *k = find(name, json_object_iter_key_len(at), place, &elsewhere);
        if (json_is_null(v)) continue;
        if (elsewhere && k == NULL)
            return oc_fail(err, OC_E_INVALID, "%s: \"%s\" is no key of %s", where, name,
                           forms[place]);
        if (k == NULL)
            oc_request_note_unknown(unknown, name);
        else
            OC_TRY(take_key(&t, k, v));
    }
    OC_TRY(settle_limits(&t));
    return settle_logprobs(&t);
}
