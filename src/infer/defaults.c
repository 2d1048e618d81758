/* generation_config.json: a table of its keys. */
#include "infer/defaults.h"

#include "base/json.h"
#include "infer/id_list.h"
#include "infer/model_json.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLED_TOP_K = 50 }; /* transformers': GenerationConfig._get_default_generation_params() */

/* What the public struct is the beginning of. */
typedef struct defaults {
    oc_defaults d;
    oc_id_list suppressed;
} defaults;

typedef enum use {
    FOLLOWED, /* read by name below */
    SILENT,   /* changes no text: speed, what is returned, other kinds of models */
    REFUSED   /* changes the text unless it has its neutral value, and is not followed */
} use;

/* neutral: a number or a boolean; null and what is empty are neutral for all. */
static const struct key {
    const char *name;
    use use;
    double neutral;
} keys[] = {
    {"do_sample", FOLLOWED, 0},
    {"temperature", FOLLOWED, 0},
    {"top_k", FOLLOWED, 0},
    {"top_p", FOLLOWED, 0},
    {"min_p", FOLLOWED, 0},
    {"repetition_penalty", FOLLOWED, 0},
    {"max_new_tokens", FOLLOWED, 0},
    {"min_new_tokens", FOLLOWED, 0},
    {"max_length", FOLLOWED, 0},
    {"suppress_tokens", FOLLOWED, 0},
    {"eos_token_id", FOLLOWED, 0}, /* stop_ids.c */
    {"num_beams", REFUSED, 1},
    {"num_beam_groups", REFUSED, 1},
    {"num_return_sequences", REFUSED, 1},
    {"diversity_penalty", REFUSED, 0},
    {"penalty_alpha", REFUSED, 0},
    {"dola_layers", REFUSED, 0},
    {"typical_p", REFUSED, 1},
    {"top_h", REFUSED, 0},
    {"epsilon_cutoff", REFUSED, 0},
    {"eta_cutoff", REFUSED, 0},
    {"encoder_repetition_penalty", REFUSED, 1},
    {"no_repeat_ngram_size", REFUSED, 0},
    {"encoder_no_repeat_ngram_size", REFUSED, 0},
    {"bad_words_ids", REFUSED, 0},
    {"force_words_ids", REFUSED, 0},
    {"constraints", REFUSED, 0},
    {"forced_bos_token_id", REFUSED, -1},
    {"forced_eos_token_id", REFUSED, -1},
    {"forced_decoder_ids", REFUSED, 0},
    {"begin_suppress_tokens", REFUSED, 0},
    {"sequence_bias", REFUSED, 0},
    {"exponential_decay_length_penalty", REFUSED, 0},
    {"token_healing", REFUSED, 0},
    {"guidance_scale", REFUSED, 1},
    {"watermarking_config", REFUSED, 0},
    {"min_length", REFUSED, 0},
    {"max_time", REFUSED, 0},
    {"stop_strings", REFUSED, 0},
    {"bos_token_id", SILENT, 0},
    {"pad_token_id", SILENT, 0},
    {"decoder_start_token_id", SILENT, 0},
    {"transformers_version", SILENT, 0},
    {"_from_model_config", SILENT, 0},
    {"_commit_hash", SILENT, 0},
    {"use_cache", SILENT, 0},
    {"use_mtp", SILENT, 0},
    {"cache_implementation", SILENT, 0},
    {"cache_config", SILENT, 0},
    {"max_cache_len", SILENT, 0},
    {"early_stopping", SILENT, 0}, /* of beams, as length_penalty */
    {"length_penalty", SILENT, 0},
    {"renormalize_logits", SILENT, 0},
    {"remove_invalid_values", SILENT, 0},
    {"output_attentions", SILENT, 0},
    {"output_hidden_states", SILENT, 0},
    {"output_scores", SILENT, 0},
    {"output_logits", SILENT, 0},
    {"return_dict_in_generate", SILENT, 0},
    {"is_assistant", SILENT, 0},
    {"num_assistant_tokens", SILENT, 0},
    {"num_assistant_tokens_schedule", SILENT, 0},
    {"assistant_confidence_threshold", SILENT, 0},
    {"assistant_early_exit", SILENT, 0},
    {"assistant_lookbehind", SILENT, 0},
    {"assistant_ensemble_weight", SILENT, 0},
    {"target_lookbehind", SILENT, 0},
    {"prompt_lookup_num_tokens", SILENT, 0},
    {"max_matching_ngram_size", SILENT, 0},
    {"speculation_type", SILENT, 0},
    {"compile_config", SILENT, 0},
    {"disable_compile", SILENT, 0},
    {"continuous_batching_config", SILENT, 0},
    {"low_memory", SILENT, 0},
    {"prefill_chunk_size", SILENT, 0},
};

/* --- Lines */

static oc_status add_line(defaults *x, bool warning, oc_error *err, const char *fmt, ...)
    OC_PRINTF(4, 5);
static oc_status add_line(defaults *x, bool warning, oc_error *err, const char *fmt, ...) {
    oc_defaults *d = &x->d;
    oc_defaults_line *p = realloc(d->lines, ((size_t)d->n_lines + 1) * sizeof *p);
    va_list args;
    char *text;
    if (p == NULL) return oc_fail(err, OC_E_MEMORY, "no memory for the model's defaults");
    d->lines = p;
    va_start(args, fmt);
    int n = vasprintf(&text, fmt, args);
    va_end(args);
    if (n < 0) return oc_fail(err, OC_E_MEMORY, "no memory for the model's defaults");
    d->lines[d->n_lines++] = (oc_defaults_line){warning, text};
    return OC_OK;
}

/* What a key says, as JSON, cut. */
static void value_text(const json_t *v, char out[64]) {
    char *text = oc_json_dump(v, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(6));
    snprintf(out, 64, "%.60s%s", text != NULL ? text : "?",
             text != NULL && strlen(text) > 60 ? "..." : "");
    free(text);
}

static bool is_neutral(const json_t *v, double neutral) {
    if (json_is_number(v)) return json_number_value(v) == neutral;
    if (json_is_boolean(v)) return json_is_true(v) == (neutral != 0);
    if (json_is_string(v)) return json_string_length(v) == 0;
    return json_is_null(v) || (json_is_array(v) && json_array_size(v) == 0) ||
           (json_is_object(v) && json_object_size(v) == 0);
}

static const struct key *find_key(const char *name) {
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(keys[i].name, name) == 0) return &keys[i];
    return NULL;
}

static oc_status warn(defaults *x, const json_t *root, const char *file, oc_error *err) {
    const char *name;
    json_t *v;
    char text[64];
    json_object_foreach((json_t *)(uintptr_t)root, name, v) {
        const struct key *k = find_key(name);
        if (k != NULL && (k->use != REFUSED || is_neutral(v, k->neutral))) continue;
        value_text(v, text);
        OC_TRY(add_line(x, true, err, "%s: \"%s\" %s is not followed%s", file, name, text,
                        k == NULL ? ": it is not known" : ""));
    }
    return OC_OK;
}

/* --- What is followed */

typedef struct reader {
    defaults *x;
    const json_t *root;
    const char *file;
    bool samples;
    char said[512]; /* ", temperature 0.6, top_p 0.9" */
} reader;

static void say(reader *r, const char *fmt, ...) OC_PRINTF(2, 3);
static void say(reader *r, const char *fmt, ...) {
    size_t n = strlen(r->said);
    va_list args;
    va_start(args, fmt);
    vsnprintf(r->said + n, sizeof r->said - n, fmt, args);
    va_end(args);
}

static bool has(const reader *r, const char *key) {
    const json_t *v = json_object_get(r->root, key);
    return v != NULL && !json_is_null(v);
}

static oc_status read_number(reader *r, const char *key, double *out, oc_error *err) {
    if (!has(r, key)) return OC_OK;
    OC_TRY(oc_json_get_double(r->root, r->file, key, OC_JSON_OPTIONAL, out, err));
    say(r, ", %s %g", key, *out);
    return OC_OK;
}

static oc_status read_count(reader *r, const char *key, int64_t least, int32_t *out,
                            oc_error *err) {
    int64_t v;
    if (!has(r, key)) return OC_OK;
    OC_TRY(oc_json_get_int(r->root, r->file, key, OC_JSON_OPTIONAL, least, INT32_MAX, &v, err));
    *out = (int32_t)v;
    say(r, ", %s %d", key, (int)v);
    return OC_OK;
}

/* One that is said without do_sample must not start sampling: the temperature stays 0. */
static oc_status read_temperature(reader *r, oc_error *err) {
    double t = 1;
    OC_TRY(oc_json_get_double(r->root, r->file, "temperature", OC_JSON_OPTIONAL, &t, err));
    r->x->d.drawn.temperature = t;
    if (!r->samples) return OC_OK;
    r->x->d.sampling.temperature = t;
    say(r, ", temperature %g", t);
    return OC_OK;
}

static oc_status read_top_k(reader *r, oc_error *err) {
    oc_sampling *s = &r->x->d.sampling;
    OC_TRY(read_count(r, "top_k", 0, &s->top_k, err));
    r->x->d.drawn.top_k = has(r, "top_k") ? s->top_k : SAMPLED_TOP_K;
    if (!r->samples || has(r, "top_k")) return OC_OK;
    s->top_k = SAMPLED_TOP_K;
    say(r, ", top_k %d (transformers' own)", (int)s->top_k);
    return OC_OK;
}

static oc_status read_suppressed(reader *r, oc_error *err) {
    oc_id_list *l = &r->x->suppressed;
    OC_TRY(oc_id_list_read(l, r->root, "suppress_tokens", r->file, err));
    r->x->d.sampling.suppressed = l->ids;
    r->x->d.sampling.n_suppressed = l->n;
    if (l->n > 0) say(r, ", suppress_tokens (%d ids)", (int)l->n);
    return OC_OK;
}

static oc_status read_followed(reader *r, oc_error *err) {
    oc_defaults *d = &r->x->d;
    OC_TRY(oc_json_get_bool(r->root, r->file, "do_sample", OC_JSON_OPTIONAL, &r->samples, err));
    OC_TRY(read_temperature(r, err));
    OC_TRY(read_top_k(r, err));
    OC_TRY(read_number(r, "top_p", &d->sampling.top_p, err));
    OC_TRY(read_number(r, "min_p", &d->sampling.min_p, err));
    OC_TRY(read_number(r, "repetition_penalty", &d->sampling.repetition_penalty, err));
    OC_TRY(read_suppressed(r, err));
    OC_TRY(read_count(r, "max_new_tokens", 1, &d->max_new_tokens, err));
    OC_TRY(read_count(r, "min_new_tokens", 0, &d->sampling.least, err));
    return read_count(r, "max_length", 1, &d->max_length, err);
}

static oc_status follow(defaults *x, const json_t *root, const char *file, oc_error *err) {
    reader r = {.x = x, .root = root, .file = file};
    oc_status s = read_followed(&r, err);
    if (s != OC_OK) return s;
    s = oc_sampling_check(&x->d.sampling, err);
    if (s != OC_OK) return oc_error_prefix(err, s, "%s", file);
    if (!r.samples && r.said[0] == 0) return OC_OK;
    return add_line(x, false, err, "%s: %s%s", file, r.samples ? "do_sample" : "greedy", r.said);
}

/* All but what read_temperature() and read_top_k() have settled. */
static void settle_drawn(oc_defaults *d) {
    oc_sampling s = d->sampling;
    s.temperature = d->drawn.temperature;
    s.top_k = d->drawn.top_k;
    d->drawn = s;
}

/* --- Life */

static oc_status fill(defaults *x, const char *dir, oc_error *err) {
    char path[PATH_MAX];
    json_t *root;
    x->d.sampling = x->d.drawn = oc_sampling_greedy();
    x->d.drawn.temperature = 1;
    x->d.drawn.top_k = SAMPLED_TOP_K;
    x->d.max_new_tokens = x->d.max_length = -1;
    OC_TRY(oc_model_json(&root, dir, "generation_config.json", path, sizeof path, err));
    if (root == NULL) return OC_OK;
    oc_status s = follow(x, root, path, err);
    if (s == OC_OK) s = warn(x, root, path, err);
    settle_drawn(&x->d);
    json_decref(root);
    return s;
}

oc_status oc_defaults_open(oc_defaults **out, const char *model_dir, oc_error *err) {
    *out = NULL;
    defaults *x = calloc(1, sizeof *x);
    if (x == NULL) return oc_fail(err, OC_E_MEMORY, "no memory for the model's defaults");
    oc_status s = fill(x, model_dir, err);
    if (s == OC_OK)
        *out = &x->d;
    else
        oc_defaults_close(&x->d);
    return s;
}

void oc_defaults_close(oc_defaults *d) {
    defaults *x = (defaults *)d;
    if (x == NULL) return;
    for (int32_t i = 0; i < d->n_lines; i++)
        free(d->lines[i].text);
    free(d->lines);
    oc_id_list_release(&x->suppressed);
    free(x);
}
