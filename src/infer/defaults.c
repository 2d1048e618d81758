/* defaults.c - see defaults.h. */
#include "infer/defaults.h"

#include "base/fs.h"
#include "base/json.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { PATH_BYTES = 4096 };

static void add_eos(oc_generation_defaults *d, int64_t id) {
    if (id < 0 || id > INT32_MAX || d->n_eos == OC_EOS_MOST) return;
    for (int32_t i = 0; i < d->n_eos; i++)
        if (d->eos[i] == (int32_t)id) return;
    d->eos[d->n_eos++] = (int32_t)id;
}

/* An id or a list of ids; null is none. */
static oc_status read_eos(oc_generation_defaults *d, const json_t *o, const char *path,
                          oc_error *err) {
    const json_t *x = json_object_get(o, "eos_token_id");
    if (!x || json_is_null(x)) return OC_OK;
    size_t n = json_is_array(x) ? json_array_size(x) : 1;
    for (size_t i = 0; i < n; i++) {
        const json_t *one = json_is_array(x) ? json_array_get(x, i) : x;
        if (!json_is_integer(one))
            return oc_fail(err, OC_E_FORMAT, "%s: eos_token_id is an id or a list of ids, not %s",
                           path, oc_json_type_name(one));
        add_eos(d, json_integer_value(one));
    }
    return OC_OK;
}

/* ---- generation_config.json ---- */

static void note(char *list, size_t n, const char *text) {
    size_t at = strlen(list);
    if (at < n) (void)snprintf(list + at, n - at, "%s%s", at ? ", " : "", text);
}

static oc_status read_number(oc_generation_defaults *d, const json_t *o, const char *path,
                             const char *key, double *out, oc_error *err) {
    char text[64];
    double was = *out;
    if (json_is_null(json_object_get(o, key))) return OC_OK;
    OC_TRY(oc_json_get_double(o, path, key, OC_JSON_OPTIONAL, out, err));
    if (*out == was) return OC_OK;
    (void)snprintf(text, sizeof text, "%s %g", key, *out);
    note(d->followed, sizeof d->followed, text);
    return OC_OK;
}

static oc_status read_count(oc_generation_defaults *d, const json_t *o, const char *path,
                            const char *key, int64_t most, int64_t *out, oc_error *err) {
    char text[64];
    int64_t was = *out;
    if (json_is_null(json_object_get(o, key))) return OC_OK;
    OC_TRY(oc_json_get_int(o, path, key, OC_JSON_OPTIONAL, 0, most, out, err));
    if (*out == was) return OC_OK;
    (void)snprintf(text, sizeof text, "%s %lld", key, (long long)*out);
    note(d->followed, sizeof d->followed, text);
    return OC_OK;
}

/* Keys that would change the text, and the value at which they do not. */
static const struct {
    const char *key;
    double idle;
} others[] = {{"num_beams", 1},
              {"num_return_sequences", 1},
              {"no_repeat_ngram_size", 0},
              {"encoder_no_repeat_ngram_size", 0},
              {"encoder_repetition_penalty", 1},
              {"diversity_penalty", 0},
              {"penalty_alpha", 0},
              {"typical_p", 1},
              {"epsilon_cutoff", 0},
              {"eta_cutoff", 0},
              {"min_length", 0},
              {"min_new_tokens", 0},
              {"guidance_scale", 1},
              {"bad_words_ids", 0},
              {"suppress_tokens", 0},
              {"begin_suppress_tokens", 0},
              {"sequence_bias", 0},
              {"forced_bos_token_id", -1},
              {"forced_eos_token_id", -1},
              {"exponential_decay_length_penalty", 0},
              {"stop_strings", 0}};

static bool is_idle(const json_t *x, double idle) {
    if (!x || json_is_null(x) || json_is_false(x)) return true;
    if (json_is_array(x)) return json_array_size(x) == 0;
    return json_is_number(x) && json_number_value(x) == idle;
}

static void note_others(oc_generation_defaults *d, const json_t *o) {
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (!is_idle(json_object_get(o, others[i].key), others[i].idle))
            note(d->ignored, sizeof d->ignored, others[i].key);
}

/* Without do_sample the others of a draw have no effect, as in transformers. */
static oc_status read_sampling(oc_generation_defaults *d, const json_t *o, const char *path,
                               oc_error *err) {
    oc_sampling *s = &d->sampling;
    bool draws = false;
    int64_t k = 50;
    OC_TRY(read_number(d, o, path, "repetition_penalty", &s->repetition_penalty, err));
    if (!json_is_null(json_object_get(o, "do_sample")))
        OC_TRY(oc_json_get_bool(o, path, "do_sample", OC_JSON_OPTIONAL, &draws, err));
    if (!draws) return OC_OK;
    note(d->followed, sizeof d->followed, "do_sample");
    s->temperature = 1;
    OC_TRY(read_number(d, o, path, "temperature", &s->temperature, err));
    OC_TRY(read_count(d, o, path, "top_k", INT32_MAX, &k, err));
    s->top_k = (int32_t)k;
    OC_TRY(read_number(d, o, path, "top_p", &s->top_p, err));
    OC_TRY(read_number(d, o, path, "min_p", &s->min_p, err));
    oc_status st = oc_sampling_check(s, err);
    return st == OC_OK ? OC_OK : oc_error_prefix(err, st, "%s", path);
}

static oc_status read_generation(oc_generation_defaults *d, const json_t *o, const char *path,
                                 oc_error *err) {
    OC_TRY(read_eos(d, o, path, err));
    OC_TRY(read_sampling(d, o, path, err));
    OC_TRY(read_count(d, o, path, "max_new_tokens", INT32_MAX, &d->max_new_tokens, err));
    OC_TRY(read_count(d, o, path, "max_length", INT32_MAX, &d->max_length, err));
    note_others(d, o);
    return OC_OK;
}

typedef oc_status read_fn(oc_generation_defaults *d, const json_t *o, const char *path,
                          oc_error *err);

static oc_status read_file(oc_generation_defaults *d, const char *dir, const char *name,
                           read_fn *read, oc_error *err) {
    char path[PATH_BYTES];
    json_t *o = NULL;
    if (snprintf(path, sizeof path, "%s/%s", dir, name) >= (int)sizeof path)
        return oc_fail(err, OC_E_INVALID, "the path %s is too long", dir);
    if (!oc_fs_exists(path)) return OC_OK;
    OC_TRY(oc_json_load(&o, path, OC_JSON_NO_NUL, err));
    oc_status st = json_is_object(o) ? read(d, o, path, err)
                                     : oc_fail(err, OC_E_FORMAT, "%s is no object", path);
    json_decref(o);
    return st;
}

oc_status oc_generation_defaults_read(oc_generation_defaults *out, const char *model_dir,
                                      const oc_tokenizer *tokenizer, oc_error *err) {
    memset(out, 0, sizeof *out);
    out->sampling = oc_sampling_greedy();
    OC_TRY(read_file(out, model_dir, "generation_config.json", read_generation, err));
    OC_TRY(read_file(out, model_dir, "config.json", read_eos, err));
    if (tokenizer) add_eos(out, oc_tokenizer_eos(tokenizer));
    return OC_OK;
}
