#include "config/deepspeed.h"

#include "base/fs.h"
#include "base/json.h"
#include "config/options.h"
#include "config/problems.h"
#include "config/relaxed.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum { PATH_BYTES = 192, LISTED_BYTES = 1 << 14, FILE_BYTES = 16 << 20 };

typedef struct reader {
    oc_config *c;
    const json_t *root;
    const char *file;
    FILE *notes;
    oc_error *err;
    char listed[LISTED_BYTES]; /* comma separated paths of keys without effect */
    struct automatic {
        char path[PATH_BYTES];
        const char *option; /* that "auto" leaves as it is */
    } autos[64];
    size_t n_autos;
    oc_problems all;
    bool bad_optimizer,
        bad_scheduler; /* of a type that is not there: its parameters mean nothing */
} reader;

static const oc_option *option(const char *name) {
    const char *fixed;
    return oc_options_find(name, strlen(name), &fixed);
}

static bool is_auto(const json_t *v) {
    return json_is_string(v) && strcmp(json_string_value(v), "auto") == 0;
}

/* The value at "a.b.c", or NULL: absent, or null, or below a block that is no object. */
static const json_t *lookup(const json_t *v, const char *path) {
    char part[64];
    while (v && *path) {
        size_t n = strcspn(path, ".");
        snprintf(part, sizeof part, "%.*s", (int)n, path);
        v = json_object_get(v, part);
        path += n + (path[n] == '.');
    }
    return json_is_null(v) ? NULL : v;
}

static oc_status set_json(reader *r, const char *path, const char *name, const json_t *v) {
    char where[PATH_BYTES + 512];
    snprintf(where, sizeof where, "%.500s: %s", r->file, path);
    return oc_option_set_json(r->c, option(name), v, where, r->notes, r->err);
}

/* As if the file held this text at the path. */
static oc_status set_text(reader *r, const char *path, const char *name, const char *text) {
    json_t *v = json_string(text);
    oc_status s = set_json(r, path, name, v);
    json_decref(v);
    return s;
}

static void list(reader *r, const char *path) {
    size_t n = strlen(r->listed);
    snprintf(r->listed + n, sizeof r->listed - n, "%s%s", n ? ", " : "", path);
}

/* "auto" at the path: the option keeps what a flag or its default gave it. */
static void leave(reader *r, const char *path, const char *name) {
    if (r->n_autos == sizeof r->autos / sizeof *r->autos) return;
    struct automatic *a = &r->autos[r->n_autos++];
    snprintf(a->path, sizeof a->path, "%s", path);
    a->option = name;
}

static oc_status refuse(reader *r, const char *path, const char *value, const char *hint) {
    return oc_fail(r->err, OC_E_UNSUPPORTED, "%s: %s%s%s is not available in this version%s%s",
                   r->file, path, value ? " " : "", value ? value : "", hint ? ": " : "",
                   hint ? hint : "");
}

static oc_status wrong_type(reader *r, const char *path, const char *expected, const json_t *v) {
    return oc_fail(r->err, OC_E_INVALID, "%s: %s must be %s, not %s", r->file, path, expected,
                   oc_json_type_name(v));
}

/* A failure of the thing `name` is told with all others; what is no fault of the file ends it. */
static oc_status collect(reader *r, const char *name, oc_status s) {
    if (s == OC_OK || !oc_problems_may_go_on(s)) return s;
    oc_problems_add(&r->all, name, r->err);
    return OC_OK;
}

/* ---- the walk: every key of the file meets its row ---- */

/* "zero_optimization", "the top level": where keys of that name stand, when it is not here. */
static bool belongs_to(const char *key, char *out, size_t bytes) {
    size_t n = 0;
    out[0] = 0;
    for (size_t i = 0; i < oc_keys_count(); i++) {
        const char *path = oc_keys_at(i)->path, *dot = strrchr(path, '.');
        if (oc_keys_at(i)->kind == OC_K_DEFAULT) continue; /* it would be refused there */
        if (strcasecmp(dot ? dot + 1 : path, key) != 0) continue;
        int length = dot ? (int)(dot - path) : 13;
        n += (size_t)snprintf(out + n, bytes - n, "%s%.*s", n ? " or " : "", length,
                              dot ? path : "the top level");
        if (n + 80 > bytes) break;
    }
    return n > 0;
}

/* A flag of that name, here or elsewhere. */
static bool is_on_the_line(const char *key, char *out, size_t bytes) {
    const char *fixed;
    const oc_option *o = oc_options_find(key, strlen(key), &fixed);
    if (o && o->commands != OC_FOR_FILES && (!fixed || strcmp(fixed, OC_OPPOSITE) != 0))
        snprintf(out, bytes, "no key of DeepSpeed: --%s%s%s sets it", o->name, fixed ? " " : "",
                 fixed ? fixed : "");
    else if (oc_foreign_find(key, strlen(key), OC_CMD_TRAIN))
        snprintf(out, bytes, "an argument of a trainer or launcher, no key of DeepSpeed");
    else
        return false;
    return true;
}

static oc_status unknown(reader *r, const char *path, size_t parent) {
    const char *known[256], *key = path + parent;
    char where[320];
    size_t n = 0;
    if (belongs_to(key, where, sizeof where))
        return oc_fail(r->err, OC_E_INVALID, "%s: misplaced key %s: it belongs in %s", r->file,
                       path, where);
    for (size_t i = 0; i < oc_keys_count() && n < sizeof known / sizeof *known; i++) {
        const char *k = oc_keys_at(i)->path;
        if (strncmp(k, path, parent) == 0 && !strchr(k + parent, '.')) known[n++] = k + parent;
    }
    const char *near = oc_nearest(key, known, n);
    if (is_on_the_line(key, where, sizeof where))
        return oc_fail(r->err, OC_E_INVALID, "%s: unknown key %s: %s", r->file, path, where);
    return oc_fail(r->err, OC_E_INVALID, "%s: unknown key %s%s%s%s", r->file, path,
                   near ? ": did you mean \"" : "", near ? near : "", near ? "\"?" : "");
}

/* "_comment", "//", "#1", "comment": a file of JSON has no other place for one. */
static bool is_comment(const char *key) {
    return key[0] == '_' || key[0] == '#' || key[0] == '$' || strncmp(key, "//", 2) == 0 ||
           strncasecmp(key, "comment", 7) == 0;
}

static bool same_value(const json_t *a, const json_t *b) {
    return json_equal(a, b) ||
           (json_is_number(a) && json_is_number(b) && json_number_value(a) == json_number_value(b));
}

static oc_status equals_accepted(reader *r, const oc_key *k, const json_t *v) {
    if (is_auto(v) || json_is_null(v)) return OC_OK;
    for (const char *a = k->accepted; *a;) {
        size_t n = strcspn(a, "|");
        json_t *accepted = oc_json_of(a, n, JSON_DECODE_ANY, NULL);
        bool same = same_value(accepted, v);
        json_decref(accepted);
        if (same) return OC_OK;
        a += n + (a[n] == '|');
    }
    char *text = oc_json_dump(v, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
    oc_status s = refuse(r, k->path, text, k->hint);
    free(text);
    return s;
}

/* expects: "one of A, B, C" */
static bool is_one_of(const char *expects, const char *word) {
    static const char lead[] = "one of ";
    size_t n = strlen(word);
    for (const char *p = expects + sizeof lead - 1; *p;) {
        size_t m = strcspn(p, ",");
        if (m == n && strncasecmp(p, word, n) == 0) return true;
        p += m + strspn(p + m, ", ");
    }
    return false;
}

/* A key without effect is still refused when its value could not mean anything. */
static oc_status check_listed(reader *r, const oc_key *k, const json_t *v) {
    const char *e = k->expects;
    bool fits = is_auto(v);
    if (strcmp(e, OC_EXPECTS_TRUTH) == 0)
        fits |= json_is_boolean(v);
    else if (strcmp(e, OC_EXPECTS_WHOLE) == 0)
        fits |= json_is_number(v) && json_number_value(v) >= 0 &&
                json_number_value(v) == floor(json_number_value(v));
    else if (strcmp(e, OC_EXPECTS_REAL) == 0)
        fits |= json_is_number(v);
    else if (strcmp(e, OC_EXPECTS_TEXT) == 0)
        fits |= json_is_string(v);
    else if (strcmp(e, OC_EXPECTS_LIST) == 0)
        fits |= json_is_array(v);
    else if (strcmp(e, OC_EXPECTS_OBJECT) == 0)
        fits |= json_is_object(v);
    else
        fits |= json_is_string(v) && is_one_of(e, json_string_value(v));
    if (!fits) {
        char *text = oc_json_dump(v, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
        oc_status s = oc_fail(r->err, OC_E_INVALID, "%s: %s must be %s, not %.80s", r->file,
                              k->path, e, text ? text : oc_json_type_name(v));
        free(text);
        return s;
    }
    list(r, k->path);
    return OC_OK;
}

/* A toggled block counts as off when "enabled" is absent: that is DeepSpeed's default. */
static bool enabled(const json_t *block) {
    const json_t *e = json_object_get(block, "enabled");
    return e && !json_is_false(e) && !json_is_null(e);
}

static oc_status refuse_block(reader *r, const oc_key *k, const json_t *v) {
    const json_t *on = json_object_get(v, "enabled");
    if (json_is_false(v) || json_is_false(on)) return OC_OK;
    if (k->kind != OC_K_SWITCHED || !json_is_object(v)) return refuse(r, k->path, NULL, k->hint);
    if (!on || is_auto(on) || json_is_null(on)) {
        list(r, k->path);
        return OC_OK;
    }
    if (!json_is_true(on))
        return oc_fail(r->err, OC_E_INVALID, "%s: %s.enabled must be true or false, not %s",
                       r->file, k->path, oc_json_type_name(on));
    return refuse(r, k->path, NULL, k->hint);
}

static oc_status walk(reader *r, const json_t *object, const char *prefix);

static const oc_key *find_key(const char *path) {
    for (size_t i = 0; i < oc_keys_count(); i++)
        if (strcmp(oc_keys_at(i)->path, path) == 0) return oc_keys_at(i);
    return NULL;
}

static oc_status walk_key(reader *r, const char *path, size_t parent, const json_t *v) {
    /* a dot in a name would stand for the key of a block */
    const oc_key *k = strchr(path + parent, '.') ? NULL : find_key(path);
    if (!k && is_comment(path + parent)) {
        list(r, path);
        return OC_OK;
    }
    if (!k) return unknown(r, path, parent);
    if (json_is_null(v)) return OC_OK;
    switch (k->kind) {
    case OC_K_FIELD:
        if (!is_auto(v)) return set_json(r, path, k->option, v);
        leave(r, path, k->option);
        return OC_OK;
    case OC_K_LISTED:
        return check_listed(r, k, v);
    case OC_K_DEFAULT:
        return equals_accepted(r, k, v);
    case OC_K_SPECIAL:
        return OC_OK;
    case OC_K_BLOCK:
    case OC_K_TOGGLED:
        if (json_is_boolean(v) && strcmp(path, "zero_optimization") == 0) return OC_OK;
        if (!json_is_object(v)) return wrong_type(r, path, "an object", v);
        if (strcmp(path, "optimizer.params") == 0 && r->bad_optimizer) return OC_OK;
        if (strcmp(path, "scheduler.params") == 0 && r->bad_scheduler) return OC_OK;
        return k->kind == OC_K_BLOCK || enabled(v) ? walk(r, v, path) : OC_OK;
    case OC_K_SWITCHED:
    case OC_K_REFUSED:
        return refuse_block(r, k, v);
    }
    return OC_OK;
}

static oc_status walk(reader *r, const json_t *object, const char *prefix) {
    char path[PATH_BYTES];
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)object, key, v) {
        snprintf(path, sizeof path, "%s%s%.64s", prefix, *prefix ? "." : "", key);
        OC_TRY(collect(r, path, walk_key(r, path, strlen(prefix) + (*prefix != 0), v)));
    }
    return OC_OK;
}

/* ---- keys whose meaning hangs on others ---- */

/* *out: the string at path, NULL when absent or "auto", which leaves the option as it is. */
static oc_status string_at(reader *r, const char *path, const char *name, const char **out) {
    const json_t *v = lookup(r->root, path);
    *out = NULL;
    if (!v) return OC_OK;
    if (!json_is_string(v)) return wrong_type(r, path, "a string", v);
    if (is_auto(v))
        leave(r, path, name);
    else
        *out = json_string_value(v);
    return OC_OK;
}

static oc_status bool_at(reader *r, const char *path, const char *name, bool otherwise, bool *out) {
    const json_t *v = lookup(r->root, path);
    *out = otherwise;
    if (is_auto(v)) leave(r, path, name);
    if (!v || is_auto(v)) return OC_OK;
    if (!json_is_boolean(v)) return wrong_type(r, path, "true or false", v);
    *out = json_is_true(v);
    return OC_OK;
}

static oc_status none_of(reader *r, const char *path, const char *value, const char *const *known,
                         size_t n) {
    for (size_t i = 0; i < n; i++)
        if (strcasecmp(value, known[i]) == 0) return refuse(r, path, known[i], NULL);
    const char *near = oc_nearest(value, known, n);
    return oc_fail(r->err, OC_E_INVALID, "%s: %s \"%s\" is unknown%s%s", r->file, path, value,
                   near ? ": the nearest is " : "", near ? near : "");
}

/* The type at path is one of the first `known` names of the list; the others are names too, of
 * features that are not there. *bad: it is none of the first. */
static oc_status check_type(reader *r, const char *path, const char *const *names, size_t known,
                            size_t n, bool (*same)(const char *, const char *), bool *bad) {
    const json_t *v = lookup(r->root, path);
    if (!v || is_auto(v)) return OC_OK;
    const char *type = json_string_value(v);
    for (size_t i = 0; type && i < known; i++)
        if (same(type, names[i])) return OC_OK;
    *bad = true;
    return type ? none_of(r, path, type, names, n) : wrong_type(r, path, "a string", v);
}

static bool same_letters(const char *a, const char *b) { return strcasecmp(a, b) == 0; }
static bool same_word(const char *a, const char *b) { return strcmp(a, b) == 0; }

/* DeepSpeed's own, those it has had, and the rest of torch.optim, which it takes by name. */
static oc_status check_optimizer_type(reader *r) {
    static const char *const names[] = {
        "AdamW",     "Adam",    "SGD",        "Lamb",       "Lion",       "Adagrad",     "Muon",
        "MuAdam",    "MuAdamW", "MuSGD",      "OneBitAdam", "OneBitLamb", "ZeroOneAdam", "CPUAdam",
        "FusedAdam", "RMSprop", "NAdam",      "RAdam",      "Adamax",     "Adadelta",    "ASGD",
        "LBFGS",     "Rprop",   "SparseAdam", "Adafactor"};
    return check_type(r, "optimizer.type", names, 3, sizeof names / sizeof *names, same_letters,
                      &r->bad_optimizer);
}

/* Those of DeepSpeed, and of torch.optim.lr_scheduler, which it takes by name. */
static oc_status check_scheduler_type(reader *r) {
    static const char *const names[] = {
        "WarmupLR",          "WarmupDecayLR", "WarmupCosineLR",   "OneCycle",
        "LRRangeTest",       "StepLR",        "MultiStepLR",      "ExponentialLR",
        "CosineAnnealingLR", "LinearLR",      "ConstantLR",       "LambdaLR",
        "CyclicLR",          "OneCycleLR",    "PolynomialLR",     "ReduceLROnPlateau",
        "MultiplicativeLR",  "SequentialLR",  "ChainedScheduler", "CosineAnnealingWarmRestarts"};
    return check_type(r, "scheduler.type", names, 5, sizeof names / sizeof *names, same_word,
                      &r->bad_scheduler);
}

static oc_status read_optimizer(reader *r) {
    static const char path[] = "optimizer.type";
    const char *type;
    bool decoupled;
    if (r->bad_optimizer) return OC_OK;
    OC_TRY(string_at(r, path, "optimizer", &type));
    OC_TRY(bool_at(r, "optimizer.params.adam_w_mode", "optimizer", true, &decoupled));
    if (!type && lookup(r->root, "optimizer.params.adam_w_mode"))
        list(r, "optimizer.params.adam_w_mode");
    if (!type) return OC_OK;
    if (strcasecmp(type, "SGD") == 0) return set_text(r, path, "optimizer", "sgd");
    bool coupled = strcasecmp(type, "Adam") == 0 && !decoupled;
    return set_text(r, path, "optimizer", coupled ? "adam" : "adamw");
}

#define WARMUPS "WarmupLR WarmupDecayLR WarmupCosineLR"

/* Which parameters a scheduler takes; DeepSpeed raises an error on others. */
static oc_status check_scheduler_params(reader *r, const char *type) {
    static const struct {
        const char *key, *types;
    } rows[] = {
        {"warmup_min_lr", "WarmupLR WarmupDecayLR"},
        {"warmup_max_lr", "WarmupLR WarmupDecayLR"},
        {"warmup_num_steps", WARMUPS},
        {"warmup_type", WARMUPS},
        {"total_num_steps", "WarmupDecayLR WarmupCosineLR"},
        {"warmup_min_ratio", "WarmupCosineLR"},
        {"cos_min_ratio", "WarmupCosineLR"},
        {"cycle_min_lr", "OneCycle"},
        {"cycle_max_lr", "OneCycle"},
        {"decay_lr_rate", "OneCycle"},
        {"cycle_first_step_size", "OneCycle"},
        {"cycle_second_step_size", "OneCycle"},
        {"cycle_first_stair_count", "OneCycle"},
        {"cycle_second_stair_count", "OneCycle"},
        {"decay_step_size", "OneCycle"},
        {"cycle_momentum", "OneCycle"},
        {"cycle_min_mom", "OneCycle"},
        {"cycle_max_mom", "OneCycle"},
        {"decay_mom_rate", "OneCycle"},
        {"lr_range_test_min_lr", "LRRangeTest"},
        {"lr_range_test_step_size", "LRRangeTest"},
        {"lr_range_test_step_rate", "LRRangeTest"},
        {"lr_range_test_staircase", "LRRangeTest"},
    };
    const json_t *params = lookup(r->root, "scheduler.params");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!json_object_get(params, rows[i].key) || strstr(rows[i].types, type)) continue;
        oc_status s = oc_fail(r->err, OC_E_INVALID, "%s: scheduler.params.%s is no parameter of %s",
                              r->file, rows[i].key, type);
        OC_TRY(collect(r, rows[i].key, s));
    }
    return OC_OK;
}

/* The rate after the warm-up. WarmupDecayLR alone has one of its own, unless null is written. */
static oc_status read_warmup_max(reader *r, const char *type) {
    static const char path[] = "scheduler.params.warmup_max_lr";
    const json_t *v = lookup(r->root, path);
    bool absent = !json_object_get(lookup(r->root, "scheduler.params"), "warmup_max_lr");
    bool own = absent && strcmp(type, "WarmupDecayLR") == 0;
    if (is_auto(v)) leave(r, path, "lr");
    if (!own && (!v || is_auto(v))) return OC_OK;
    if (oc_config_origin(r->c, "lr") == OC_FROM_FLAG) {
        if (r->notes) fprintf(r->notes, "--lr overrides %s: %s\n", r->file, path);
        return OC_OK;
    }
    if (!own) return set_json(r, path, "warmup-max-lr", v);
    if (r->notes)
        fprintf(r->notes,
                "%s: %s is absent: WarmupDecayLR then rises to its own 0.001, not to the "
                "optimizer's lr\n",
                r->file, path);
    json_t *rate = json_real(0.001);
    oc_status s = set_json(r, path, "warmup-max-lr", rate);
    json_decref(rate);
    return s;
}

/* null is as if absent, and then 1000; Hugging Face fills "auto" from its own warm-up, our flag. */
static oc_status read_warmup_steps(reader *r) {
    static const char path[] = "scheduler.params.warmup_num_steps";
    const json_t *v = lookup(r->root, path);
    if (is_auto(v)) {
        leave(r, path, "warmup-steps");
        return OC_OK;
    }
    if (oc_config_origin(r->c, "warmup-ratio") == OC_FROM_FLAG) {
        if (v && r->notes) fprintf(r->notes, "--warmup-ratio overrides %s: %s\n", r->file, path);
        return OC_OK;
    }
    if (json_is_number(v) && json_number_value(v) < 1)
        return oc_fail(r->err, OC_E_INVALID, "%s: %s must be at least 1, not %g", r->file, path,
                       json_number_value(v));
    if (v) return set_json(r, path, "warmup-steps", v);
    if (oc_config_origin(r->c, "warmup-steps") == OC_FROM_FLAG) return OC_OK;
    json_t *steps = json_integer(1000);
    oc_status s = set_json(r, path, "warmup-steps", steps);
    json_decref(steps);
    return s;
}

static oc_status read_warmup(reader *r, const char *schedule) {
    const char *type;
    OC_TRY(string_at(r, "scheduler.params.warmup_type", "warmup-log", &type));
    if (type && strcmp(type, "log") != 0 && strcmp(type, "linear") != 0)
        return oc_fail(r->err, OC_E_INVALID,
                       "%s: scheduler.params.warmup_type \"%s\" is neither log nor linear", r->file,
                       type);
    json_t *log = json_boolean(!type || strcmp(type, "log") == 0);
    oc_status s = set_json(r, "scheduler.params.warmup_type", "warmup-log", log);
    json_decref(log);
    OC_TRY(s);
    OC_TRY(read_warmup_max(r, schedule));
    return read_warmup_steps(r);
}

/* OneCycle turns the betas as well, by default and when the optimizer has any. */
static oc_status read_cycle(reader *r) {
    static const char path[] = "scheduler.params.cycle_momentum";
    const char *const needed[] = {"cycle_min_lr", "cycle_max_lr"};
    bool momentum;
    OC_TRY(bool_at(r, path, "lr-schedule", true, &momentum));
    if (momentum && r->c->optimizer != OC_SGD)
        return refuse(r, path, "true (its default)", "set it to false");
    const json_t *params = lookup(r->root, "scheduler.params");
    for (size_t i = 0; i < 2; i++) {
        if (!json_is_number(json_object_get(params, needed[i])))
            return oc_fail(r->err, OC_E_INVALID, "%s: OneCycle needs scheduler.params.%s", r->file,
                           needed[i]);
    }
    if (lookup(r->root, path)) list(r, path);
    return OC_OK;
}

static void note_own_rate(const reader *r, const char *type) {
    if (r->notes && oc_config_origin(r->c, "lr") == OC_FROM_FLAG)
        fprintf(r->notes, "--lr has no effect: %s: scheduler.type %s sets the rate\n", r->file,
                type);
}

static oc_status read_scheduler(reader *r) {
    static const char path[] = "scheduler.type";
    const char *type;
    if (r->bad_scheduler) return OC_OK;
    OC_TRY(string_at(r, path, "lr-schedule", &type));
    if (!type && lookup(r->root, "scheduler.params"))
        return oc_fail(r->err, OC_E_INVALID, "%s: scheduler.params without scheduler.type",
                       r->file);
    if (!type) return OC_OK;
    OC_TRY(check_scheduler_params(r, type));
    OC_TRY(set_text(r, path, "lr-schedule", type));
    if (oc_config_origin(r->c, "lr-schedule") == OC_FROM_FLAG) return OC_OK; /* another schedule */
    if (strstr(WARMUPS, type)) return read_warmup(r, type);
    note_own_rate(r, type);
    return strcmp(type, "OneCycle") == 0 ? read_cycle(r) : OC_OK;
}

static oc_status read_dtype(reader *r) {
    const char *bf16_path = lookup(r->root, "bf16") ? "bf16.enabled" : "bfloat16.enabled";
    bool fp16, bf16;
    OC_TRY(bool_at(r, "fp16.enabled", "dtype", false, &fp16));
    OC_TRY(bool_at(r, bf16_path, "dtype", false, &bf16));
    if (fp16 && bf16)
        return oc_fail(r->err, OC_E_INVALID, "%s: fp16 and bf16 are both enabled: choose one",
                       r->file);
    if (fp16) return set_text(r, "fp16.enabled", "dtype", "fp16");
    if (bf16) return set_text(r, bf16_path, "dtype", "bf16");
    return OC_OK;
}

/* What DeepSpeed looks at from a stage on only. */
static oc_status below_stage(const reader *r, const char *path, int32_t least) {
    if (least == 1)
        return oc_fail(r->err, OC_E_INVALID,
                       "%s: %s cpu needs zero_optimization.stage 1, 2 or 3 (or --optimizer-home "
                       "host)",
                       r->file, path);
    if (r->notes)
        fprintf(r->notes,
                "%s: %s has no effect below zero_optimization.stage 3, and this is %d: the weights "
                "stay on the device (--weights-home host moves them)\n",
                r->file, path, r->c->zero_stage);
    return OC_OK;
}

/* *home: "host" or "device", by the block's device key, which is looked at from a stage on. */
static oc_status offload_home(reader *r, const char *path, const char *name, int32_t least,
                              const char **home) {
    static const char *const devices[] = {"none", "cpu", "nvme"};
    const char *device;
    int which = 0;
    OC_TRY(string_at(r, path, name, &device));
    *home = "device";
    while (device && which < 3 && strcmp(device, devices[which]) != 0)
        which++;
    if (which == 3)
        return oc_fail(r->err, OC_E_INVALID, "%s: %s \"%s\" is none of none, cpu, nvme", r->file,
                       path, device);
    if (which > 0 && r->c->zero_stage < least && (which == 1 || least == 3))
        return below_stage(r, path, least);
    if (which == 2) return refuse(r, path, "nvme", "use cpu");
    if (which == 1) *home = "host";
    return OC_OK;
}

/* The key of old, a bool: true is the block with "device": "cpu". */
static oc_status legacy_home(reader *r, const char *path, const char *block, const char *name,
                             int32_t least, const char **home) {
    bool on;
    OC_TRY(bool_at(r, path, name, false, &on));
    if (!on) return OC_OK;
    if (lookup(r->root, block))
        return oc_fail(r->err, OC_E_INVALID, "%s: %s and %s exclude each other: keep the latter",
                       r->file, path, block);
    if (r->c->zero_stage < least) return below_stage(r, path, least);
    *home = "host";
    return OC_OK;
}

static oc_status read_stage(reader *r) {
    static const char path[] = "zero_optimization.stage";
    const json_t *zero = lookup(r->root, "zero_optimization"), *stage = lookup(r->root, path);
    json_t *old = json_is_boolean(zero) ? json_integer(json_is_true(zero)) : NULL;
    oc_status s = OC_OK;
    if (is_auto(stage))
        leave(r, path, "zero-stage");
    else if (stage || old)
        s = set_json(r, old ? "zero_optimization" : path, "zero-stage", old ? old : stage);
    json_decref(old);
    return s;
}

/* Weights that come and go take their master and moments with them: updates are made there. */
static void note_together(const reader *r, const char *param) {
    if (!r->notes || oc_config_origin(r->c, "optimizer-home") == OC_FROM_FLAG) return;
    fprintf(r->notes,
            "%s: %s cpu without offload_optimizer: the optimizer's states go to the host "
            "with the weights\n",
            r->file, param);
}

/* Once ZeRO's block is there it says where states live: what is not offloaded is on the device. */
static oc_status read_zero(reader *r) {
    static const char param[] = "zero_optimization.offload_param.device",
                      optim[] = "zero_optimization.offload_optimizer.device";
    const char *weights, *states;
    if (!lookup(r->root, "zero_optimization")) return OC_OK;
    OC_TRY(read_stage(r));
    OC_TRY(offload_home(r, param, "weights-home", 3, &weights));
    OC_TRY(offload_home(r, optim, "optimizer-home", 1, &states));
    OC_TRY(legacy_home(r, "zero_optimization.cpu_offload_param", "zero_optimization.offload_param",
                       "weights-home", 3, &weights));
    OC_TRY(legacy_home(r, "zero_optimization.cpu_offload", "zero_optimization.offload_optimizer",
                       "optimizer-home", 1, &states));
    if (strcmp(weights, "host") == 0 && strcmp(states, "device") == 0) {
        note_together(r, param);
        states = weights;
    }
    OC_TRY(set_text(r, param, "weights-home", weights));
    return set_text(r, optim, "optimizer-home", states);
}

static oc_status read_activations(reader *r) {
    static const char path[] = "activation_checkpointing.cpu_checkpointing";
    bool host;
    OC_TRY(bool_at(r, path, "act-home", false, &host));
    if (!host) return OC_OK;
    return set_text(r, path, "act-home", "host");
}

/* ---- run.json ---- */

static oc_status read_run(reader *r, const json_t *run) {
    const json_t *options = json_object_get(run, "options");
    const char *key, *fixed;
    json_t *v;
    if (!json_is_object(options))
        return oc_fail(r->err, OC_E_FORMAT, "%s: outcore.options is no object", r->file);
    json_object_foreach((json_t *)(uintptr_t)options, key, v) {
        const oc_option *o = oc_options_find(key, strlen(key), &fixed);
        if (!o || fixed) {
            const char *near = oc_options_nearest(key, strlen(key), OC_CMD_TRAIN);
            oc_status s = oc_fail(r->err, OC_E_INVALID, "%s: unknown option %s%s%s", r->file, key,
                                  near ? ": did you mean " : "", near ? near : "");
            OC_TRY(collect(r, key, s));
            continue;
        }
        if (o->commands != OC_FOR_FILES && !(o->commands & OC_FOR(r->c->command)))
            list(r, o->name);
        else
            OC_TRY(collect(r, key, set_json(r, key, o->name, v)));
    }
    return OC_OK;
}

/* Types go first: parameters of one that is not there are not looked at. */
static oc_status read_keys(reader *r) {
    const json_t *run = json_object_get(r->root, "outcore");
    if (!json_is_object(r->root)) return wrong_type(r, "the top level", "an object", r->root);
    if (run) return read_run(r, run);
    static oc_status (*const parts[])(reader *) = {read_dtype, read_optimizer, read_scheduler,
                                                   read_zero, read_activations};
    OC_TRY(collect(r, "optimizer.type", check_optimizer_type(r)));
    OC_TRY(collect(r, "scheduler.type", check_scheduler_type(r)));
    OC_TRY(walk(r, r->root, ""));
    if (r->all.count > 0) return OC_OK; /* what hangs on keys that are wrong would be told twice */
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        OC_TRY(collect(r, "", parts[i](r)));
    return OC_OK;
}

/* What an option that "auto" left alone is now: "" when that is decided later. */
static void value_text(const oc_config *c, const char *name, char *out, size_t n) {
    json_t *v = oc_option_json(c, option(name));
    char *text = v ? oc_json_dump(v, JSON_ENCODE_ANY | JSON_REAL_PRECISION(6)) : NULL;
    if (strcmp(name, "betas") == 0)
        snprintf(out, n, "%g,%g", c->beta1, c->beta2);
    else if (strcmp(name, "dtype") == 0 && !v)
        snprintf(out, n, "the model's");
    else if (strcmp(name, "schedule-steps") == 0 && c->schedule.total_steps == 0)
        snprintf(out, n, "the run's");
    else
        snprintf(out, n, "%s", json_is_string(v) ? json_string_value(v) : text ? text : "");
    free(text);
    json_decref(v);
}

static void note_autos(const reader *r) {
    char value[64];
    for (size_t i = 0; i < r->n_autos; i++) {
        const struct automatic *a = &r->autos[i];
        value_text(r->c, a->option, value, sizeof value);
        fprintf(r->notes, "%s%s%s%s%s", i ? ", " : "", a->path, *value ? " " : "", value,
                oc_config_origin(r->c, a->option) == OC_FROM_FLAG ? " (flag)" : " (default)");
    }
    fputc('\n', r->notes);
}

static void print_notes(const reader *r, int32_t world) {
    if (!r->notes) return;
    if (r->n_autos) {
        fprintf(r->notes, "%s: \"auto\" is what a flag or a default gives: ", r->file);
        note_autos(r);
    }
    if (!r->listed[0]) return;
    if (json_object_get(r->root, "outcore"))
        fprintf(r->notes, "%s: no options of outcore %s: %s\n", r->file,
                oc_command_name(r->c->command), r->listed);
    else
        fprintf(r->notes, "%s: no effect with %d rank(s): %s\n", r->file, world, r->listed);
}

/* Windows editors begin a file with one; JSON has none. */
static oc_status check_no_mark(const char *text, size_t n, const char *path, oc_error *err) {
    static const char *const marks[] = {"\xef\xbb\xbf", "\xff\xfe", "\xfe\xff"};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        size_t length = strlen(marks[i]);
        if (n >= length && memcmp(text, marks[i], length) == 0)
            return oc_fail(
                err, OC_E_FORMAT,
                "%s:1:1: starts with a byte order mark: save it as plain UTF-8 without one", path);
    }
    return OC_OK;
}

static oc_status parse_relaxed(json_t **root, const char *text, size_t n, const char *path,
                               oc_error *err) {
    char *json;
    size_t bytes;
    OC_TRY(oc_relaxed_to_json(&json, &bytes, text, n, err));
    oc_status s = oc_json_parse(root, json, bytes, path, 1, OC_JSON_NO_NUL, err);
    free(json);
    return s;
}

oc_status oc_config_parse_deepspeed(oc_config *c, const char *text, size_t n, const char *path,
                                    int32_t world, FILE *notes, oc_error *err) {
    json_t *root;
    oc_error e = {.status = OC_OK}; /* of one key, when nobody wants to know */
    char lead[512];
    OC_TRY(check_no_mark(text, n, path, err));
    OC_TRY(parse_relaxed(&root, text, n, path, err));
    snprintf(lead, sizeof lead, "%.500s: ", path);
    reader r = {.c = c, .root = root, .file = path, .notes = notes, .err = &e, .all.lead = lead};
    oc_status s = read_keys(&r);
    if (s != OC_OK) s = oc_fail(err, s, "%s", e.message);
    if (s == OC_OK) s = oc_problems_tell(&r.all, "", err);
    if (s == OC_OK) print_notes(&r, world);
    json_decref(root);
    return s;
}

/* Only a regular file: opening a FIFO would wait for its writer for ever. */
oc_status oc_config_read_deepspeed(oc_config *c, const char *path, int32_t world, FILE *notes,
                                   oc_error *err) {
    char *text;
    size_t n;
    struct stat st;
    const char *end = strrchr(path, '.');
    if (end && (strcmp(end, ".yaml") == 0 || strcmp(end, ".yml") == 0))
        return oc_fail(err, OC_E_INVALID,
                       "%s: --config takes DeepSpeed's JSON or a run.json; YAML is not read: write "
                       "its keys as options (docs/from-elsewhere.md)",
                       path);
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return oc_fail(err, OC_E_INVALID, "%s: --config needs a regular file, and this is %s", path,
                       S_ISDIR(st.st_mode)    ? "a directory"
                       : S_ISFIFO(st.st_mode) ? "a FIFO"
                                              : "a device or a socket");
    OC_TRY(oc_fs_read(&text, &n, path, FILE_BYTES, err));
    oc_status s = oc_config_parse_deepspeed(c, text, n, path, world, notes, err);
    free(text);
    return s;
}
