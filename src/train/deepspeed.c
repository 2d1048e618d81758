#include "train/deepspeed.h"

#include "train/options.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { PATH_BYTES = 192, LISTED_BYTES = 4096 };

typedef struct reader {
    oc_config *c;
    const json_t *root;
    const char *file;
    FILE *notes;
    oc_error *err;
    char listed[LISTED_BYTES]; /* comma separated paths of keys without effect */
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

static oc_status refuse(reader *r, const char *path, const char *value, const char *hint) {
    return oc_fail(r->err, OC_E_UNSUPPORTED, "%s: %s%s%s is not available in this version%s%s",
                   r->file, path, value ? " " : "", value ? value : "", hint ? ": " : "",
                   hint ? hint : "");
}

static oc_status wrong_type(reader *r, const char *path, const char *expected, const json_t *v) {
    return oc_fail(r->err, OC_E_INVALID, "%s: %s must be %s, not %s", r->file, path, expected,
                   oc_json_type_name(v));
}

/* ---- the walk: every key of the file meets its row ---- */

static oc_status unknown(reader *r, const char *path, size_t parent) {
    const char *known[256];
    size_t n = 0;
    for (size_t i = 0; i < oc_keys_count() && n < sizeof known / sizeof *known; i++) {
        const char *k = oc_keys_at(i)->path;
        if (strncmp(k, path, parent) == 0 && !strchr(k + parent, '.')) known[n++] = k + parent;
    }
    const char *near = oc_nearest(path + parent, known, n);
    return oc_fail(r->err, OC_E_INVALID, "%s: unknown key %s%s%s%s", r->file, path,
                   near ? ": did you mean \"" : "", near ? near : "", near ? "\"?" : "");
}

static oc_status equals_accepted(reader *r, const oc_key *k, const json_t *v) {
    json_t *accepted = json_loads(k->accepted, JSON_DECODE_ANY, NULL);
    bool same = json_equal(accepted, v) || (json_is_number(accepted) && json_is_number(v) &&
                                            json_number_value(accepted) == json_number_value(v));
    json_decref(accepted);
    if (same || is_auto(v) || json_is_null(v)) return OC_OK;
    char *text = json_dumps(v, JSON_ENCODE_ANY);
    oc_status s = refuse(r, k->path, text, k->hint);
    free(text);
    return s;
}

/* A toggled block counts as off when "enabled" is absent: that is DeepSpeed's default. */
static bool enabled(const json_t *block) {
    const json_t *e = json_object_get(block, "enabled");
    return e && !json_is_false(e);
}

static oc_status walk(reader *r, const json_t *object, const char *prefix);

static oc_status walk_key(reader *r, const char *path, size_t parent, const json_t *v) {
    const oc_key *k = NULL;
    for (size_t i = 0; i < oc_keys_count(); i++)
        if (strcmp(oc_keys_at(i)->path, path) == 0) k = oc_keys_at(i);
    if (!k) return unknown(r, path, parent);
    bool block = k->kind == OC_K_BLOCK || k->kind == OC_K_TOGGLED || k->kind == OC_K_REFUSED;
    if (json_is_null(v) && k->kind != OC_K_DEFAULT) return OC_OK;
    if (block && !json_is_object(v)) return wrong_type(r, path, "an object", v);
    switch (k->kind) {
    case OC_K_FIELD:
        return is_auto(v) ? OC_OK : set_json(r, path, k->option, v);
    case OC_K_LISTED:
        list(r, path);
        return OC_OK;
    case OC_K_DEFAULT:
        return equals_accepted(r, k, v);
    case OC_K_SPECIAL:
        return OC_OK;
    case OC_K_BLOCK:
        return walk(r, v, path);
    case OC_K_TOGGLED:
        return enabled(v) ? walk(r, v, path) : OC_OK;
    case OC_K_REFUSED:
        if (json_is_false(json_object_get(v, "enabled"))) return OC_OK;
        return refuse(r, path, NULL, k->hint);
    }
    return OC_OK;
}

static oc_status walk(reader *r, const json_t *object, const char *prefix) {
    char path[PATH_BYTES];
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)object, key, v) {
        snprintf(path, sizeof path, "%s%s%.64s", prefix, *prefix ? "." : "", key);
        OC_TRY(walk_key(r, path, strlen(prefix) + (*prefix != 0), v));
    }
    return OC_OK;
}

/* ---- keys whose meaning hangs on others ---- */

/* *out: the string at path, NULL when absent or "auto". */
static oc_status string_at(reader *r, const char *path, const char **out) {
    const json_t *v = lookup(r->root, path);
    *out = NULL;
    if (!v || is_auto(v)) return OC_OK;
    if (!json_is_string(v)) return wrong_type(r, path, "a string", v);
    *out = json_string_value(v);
    return OC_OK;
}

static oc_status bool_at(reader *r, const char *path, bool otherwise, bool *out) {
    const json_t *v = lookup(r->root, path);
    *out = otherwise;
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

static oc_status read_optimizer(reader *r) {
    static const char *const others[] = {"AdamW",      "Adam",       "SGD",         "Lamb",
                                         "Lion",       "Adagrad",    "Muon",        "RMSprop",
                                         "OneBitAdam", "OneBitLamb", "ZeroOneAdam", "MuAdam",
                                         "MuAdamW",    "MuSGD",      "CPUAdam",     "FusedAdam"};
    static const char path[] = "optimizer.type";
    const char *type;
    bool decoupled;
    OC_TRY(string_at(r, path, &type));
    OC_TRY(bool_at(r, "optimizer.params.adam_w_mode", true, &decoupled));
    if (!type && lookup(r->root, "optimizer.params.adam_w_mode"))
        list(r, "optimizer.params.adam_w_mode");
    if (!type) return OC_OK;
    if (strcasecmp(type, "AdamW") == 0) return set_text(r, path, "optimizer", "adamw");
    if (strcasecmp(type, "Adam") == 0)
        return set_text(r, path, "optimizer", decoupled ? "adamw" : "adam");
    if (strcasecmp(type, "SGD") == 0) return set_text(r, path, "optimizer", "sgd");
    return none_of(r, path, type, others, sizeof others / sizeof *others);
}

/* Which parameters a scheduler takes; DeepSpeed raises an error on others. */
static oc_status check_scheduler_params(reader *r, const char *type) {
    static const struct {
        const char *key, *types;
    } rows[] = {
        {"warmup_min_lr", "WarmupLR WarmupDecayLR"},
        {"warmup_max_lr", "WarmupLR WarmupDecayLR"},
        {"total_num_steps", "WarmupDecayLR WarmupCosineLR"},
        {"warmup_min_ratio", "WarmupCosineLR"},
        {"cos_min_ratio", "WarmupCosineLR"},
    };
    const json_t *params = lookup(r->root, "scheduler.params");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (json_object_get(params, rows[i].key) && !strstr(rows[i].types, type))
            return oc_fail(r->err, OC_E_INVALID, "%s: scheduler.params.%s is no parameter of %s",
                           r->file, rows[i].key, type);
    }
    return OC_OK;
}

static oc_status read_warmup(reader *r, bool has_steps) {
    static const char max_path[] = "scheduler.params.warmup_max_lr";
    const json_t *max_lr = lookup(r->root, max_path);
    const char *type;
    OC_TRY(string_at(r, "scheduler.params.warmup_type", &type));
    if (type && strcmp(type, "log") != 0 && strcmp(type, "linear") != 0)
        return oc_fail(r->err, OC_E_INVALID,
                       "%s: scheduler.params.warmup_type \"%s\" is neither log nor linear", r->file,
                       type);
    json_t *log = json_boolean(!type || strcmp(type, "log") == 0);
    oc_status s = set_json(r, "scheduler.params.warmup_type", "warmup-log", log);
    json_decref(log);
    OC_TRY(s);
    if (max_lr && !is_auto(max_lr)) {
        if (oc_config_origin(r->c, "lr") == OC_FROM_FLAG) {
            if (r->notes) fprintf(r->notes, "--lr overrides %s: %s\n", r->file, max_path);
        } else {
            OC_TRY(set_json(r, max_path, "warmup-max-lr", max_lr));
        }
    }
    if (has_steps || oc_config_origin(r->c, "warmup-steps") == OC_FROM_FLAG) return OC_OK;
    json_t *steps = json_integer(1000);
    s = set_json(r, "scheduler.params.warmup_num_steps", "warmup-steps", steps);
    json_decref(steps);
    return s;
}

static oc_status read_scheduler(reader *r) {
    static const char *const known[] = {"WarmupLR", "WarmupDecayLR", "WarmupCosineLR"};
    static const char *const others[] = {"OneCycle", "LRRangeTest", "WarmupLR", "WarmupDecayLR",
                                         "WarmupCosineLR"};
    static const char path[] = "scheduler.type";
    const char *type;
    OC_TRY(string_at(r, path, &type));
    if (!type && lookup(r->root, "scheduler.params"))
        return oc_fail(r->err, OC_E_INVALID, "%s: scheduler.params without scheduler.type",
                       r->file);
    if (!type) return OC_OK;
    bool ours = false;
    for (size_t i = 0; i < 3; i++)
        ours |= strcmp(type, known[i]) == 0;
    if (!ours) return none_of(r, path, type, others, sizeof others / sizeof *others);
    OC_TRY(check_scheduler_params(r, type));
    OC_TRY(set_text(r, path, "lr-schedule", type));
    if (oc_config_origin(r->c, "lr-schedule") == OC_FROM_FLAG) return OC_OK; /* another schedule */
    /* null and "auto" differ: Hugging Face fills "auto" from its own warm-up, our flag's value */
    return read_warmup(r, lookup(r->root, "scheduler.params.warmup_num_steps") != NULL);
}

static oc_status read_dtype(reader *r) {
    bool fp16, bf16;
    OC_TRY(bool_at(r, "fp16.enabled", false, &fp16));
    OC_TRY(bool_at(r, "bf16.enabled", false, &bf16));
    if (fp16 && bf16)
        return oc_fail(r->err, OC_E_INVALID, "%s: fp16 and bf16 are both enabled: choose one",
                       r->file);
    if (fp16) return set_text(r, "fp16.enabled", "dtype", "fp16");
    if (bf16) return set_text(r, "bf16.enabled", "dtype", "bf16");
    return OC_OK;
}

/* *home: "host" or "device", by the block's device key. */
static oc_status offload_home(reader *r, const char *path, const char **home) {
    const char *device;
    OC_TRY(string_at(r, path, &device));
    *home = "device";
    if (!device || strcmp(device, "none") == 0) return OC_OK;
    *home = "host";
    if (strcmp(device, "cpu") == 0) return OC_OK;
    if (strcmp(device, "nvme") == 0) return refuse(r, path, "nvme", "use cpu");
    return oc_fail(r->err, OC_E_INVALID, "%s: %s \"%s\" is none of none, cpu, nvme", r->file, path,
                   device);
}

/* Once ZeRO's block is there it says where states live: what is not offloaded is on the device. */
static oc_status read_zero(reader *r) {
    static const char param[] = "zero_optimization.offload_param.device",
                      optim[] = "zero_optimization.offload_optimizer.device";
    const json_t *stage = lookup(r->root, "zero_optimization.stage");
    const char *weights, *states;
    if (!lookup(r->root, "zero_optimization")) return OC_OK;
    if (stage && !is_auto(stage))
        OC_TRY(set_json(r, "zero_optimization.stage", "zero-stage", stage));
    OC_TRY(offload_home(r, param, &weights));
    OC_TRY(offload_home(r, optim, &states));
    if (strcmp(weights, "host") == 0 && r->c->zero_stage != 3)
        return oc_fail(
            r->err, OC_E_INVALID,
            "%s: %s cpu needs zero_optimization.stage 3, not %d (or --weights-home host)", r->file,
            param, r->c->zero_stage);
    if (strcmp(states, "host") == 0 && r->c->zero_stage == 0)
        return oc_fail(
            r->err, OC_E_INVALID,
            "%s: %s cpu needs zero_optimization.stage 1, 2 or 3 (or --optimizer-home host)",
            r->file, optim);
    OC_TRY(set_text(r, param, "weights-home", weights));
    return set_text(r, optim, "optimizer-home", states);
}

static oc_status read_activations(reader *r) {
    static const char path[] = "activation_checkpointing.cpu_checkpointing";
    bool host;
    OC_TRY(bool_at(r, path, false, &host));
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
            return oc_fail(r->err, OC_E_INVALID, "%s: unknown option %s%s%s", r->file, key,
                           near ? ": did you mean " : "", near ? near : "");
        }
        if (o->commands != OC_FOR_FILES && !(o->commands & OC_FOR(r->c->command)))
            list(r, o->name);
        else
            OC_TRY(set_json(r, key, o->name, v));
    }
    return OC_OK;
}

static oc_status read_keys(reader *r) {
    const json_t *run = json_object_get(r->root, "outcore");
    if (!json_is_object(r->root)) return wrong_type(r, "the top level", "an object", r->root);
    if (run) return read_run(r, run);
    OC_TRY(walk(r, r->root, ""));
    OC_TRY(read_dtype(r));
    OC_TRY(read_optimizer(r));
    OC_TRY(read_scheduler(r));
    OC_TRY(read_zero(r));
    return read_activations(r);
}

oc_status oc_config_read_deepspeed(oc_config *c, const char *path, int32_t world, FILE *notes,
                                   oc_error *err) {
    json_t *root;
    OC_TRY(oc_json_load(&root, path, OC_JSON_NO_NUL, err));
    reader r = {.c = c, .root = root, .file = path, .notes = notes, .err = err};
    oc_status s = read_keys(&r);
    if (s == OC_OK && notes && r.listed[0] && json_object_get(root, "outcore"))
        fprintf(notes, "%s: no options of outcore %s: %s\n", path, oc_command_name(c->command),
                r.listed);
    else if (s == OC_OK && notes && r.listed[0])
        fprintf(notes, "%s: no effect with %d rank(s): %s\n", path, world, r.listed);
    json_decref(root);
    return s;
}
