/* flags.c - the command line: options, their aliases, and the arguments of other tools. */
#include "config/options.h"
#include "config/problems.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

typedef struct flags {
    oc_config *c;
    int n, next;
    char **v;
    FILE *notes;
    bool unknown; /* a name was not known: the message ends with where names are */
} flags;

/* As it was written: "--name", or "name" of name=value. */
typedef struct flag {
    const char *name;
    size_t n;
    const char *value; /* behind '='; NULL: none */
} flag;

static bool is_flag(const char *a) { return a[0] == '-' && a[1] == '-'; }

static bool more_values(const flags *f) { return f->next < f->n && !is_flag(f->v[f->next]); }

static flag split(const char *text) {
    const char *equals = strchr(text, '=');
    return (flag){text, equals ? (size_t)(equals - text) : strlen(text),
                  equals ? equals + 1 : NULL};
}

static bool generates(const flags *f) {
    return f->c->command == OC_CMD_GENERATE || f->c->command == OC_CMD_PLAN_GENERATE;
}

/* lr=2e-5, as torchtune and LLaMA-Factory have it. Among prompts it would be one of them. */
static bool is_setting(const flags *f, const char *word, flag *a) {
    const char *fixed;
    *a = split(word);
    if (!a->value || a->n == 0 || generates(f)) return false;
    const oc_option *o = oc_options_find(a->name, a->n, &fixed);
    return (o && o->commands != OC_FOR_FILES) || oc_foreign_find(a->name, a->n, f->c->command);
}

/* A word that belongs to a list: the next setting does not. */
static bool more_words(const flags *f) {
    flag unused;
    return more_values(f) && !is_setting(f, f->v[f->next], &unused);
}

bool oc_truth_parse(const char *text, bool *truth) {
    static const char *const words[] = {"true", "1", "false", "0"};
    for (int i = 0; i < 4; i++) {
        if (strcasecmp(text, words[i]) != 0) continue;
        *truth = i < 2;
        return true;
    }
    return false;
}

static bool is_truth(const char *a) {
    bool unused;
    return oc_truth_parse(a, &unused);
}

static bool is_auto(const char *a) { return strcasecmp(a, "auto") == 0; }

/* The truth that follows a flag, which may be left out. */
static const char *take_truth(flags *f, const flag *a) {
    if (a->value) return a->value;
    if (!more_values(f)) return "true";
    return is_truth(f->v[f->next]) || is_auto(f->v[f->next]) ? f->v[f->next++] : "true";
}

/* ---- options ---- */

/* An option of other commands; this one may have what is meant by another name. */
static oc_status refuse_here(const flags *f, const oc_option *o, const flag *a, oc_error *err) {
    const char *near = generates(f) ? oc_options_nearest(a->name, a->n, f->c->command) : NULL;
    return oc_fail(err, OC_E_INVALID, "--%s is not an option of outcore %s%s%s", o->name,
                   oc_command_name(f->c->command), near ? ": did you mean --" : "",
                   near ? near : "");
}

static oc_status find_option(flags *f, const oc_option **out, const flag *a, const char **fixed,
                             oc_error *err) {
    const oc_option *o = oc_options_find(a->name, a->n, fixed);
    if (!o || o->commands == OC_FOR_FILES) {
        const char *near = oc_options_nearest(a->name, a->n, f->c->command);
        f->unknown = true;
        return oc_fail(err, OC_E_INVALID, "unknown option --%.*s%s%s", (int)a->n, a->name,
                       near ? ": did you mean --" : "", near ? near : "");
    }
    if (o->missing)
        return oc_fail(err, OC_E_UNSUPPORTED, "--%s is not available in this version: %s", o->name,
                       o->missing);
    if (!(o->commands & OC_FOR(f->c->command))) return refuse_here(f, o, a, err);
    *out = o;
    return OC_OK;
}

static oc_status set(flags *f, const oc_option *o, const char *text, oc_error *err) {
    return oc_option_set(f->c, o, text, OC_FROM_FLAG, err);
}

/* Two numbers, as one word or two. */
static oc_status take_pair(flags *f, const oc_option *o, const char *text, oc_error *err) {
    char both[128];
    if (strpbrk(text, ", ") || !more_values(f)) return set(f, o, text, err);
    snprintf(both, sizeof both, "%.60s,%.60s", text, f->v[f->next++]);
    return set(f, o, both, err);
}

/* The values behind a flag that had no "=". */
static oc_status take_values(flags *f, const oc_option *o, const flag *a, oc_error *err) {
    if (o->type == OC_T_ON || o->type == OC_T_OFF) return set(f, o, take_truth(f, a), err);
    if (o->type == OC_T_OPTIONAL) return set(f, o, more_values(f) ? f->v[f->next++] : "", err);
    if (!more_values(f))
        return oc_fail(err, OC_E_INVALID, "--%s needs a value: %s", o->name, o->argument);
    const char *text = f->v[f->next++];
    if (o->type == OC_T_PAIR) return take_pair(f, o, text, err);
    OC_TRY(set(f, o, text, err));
    while (o->type == OC_T_TEXTS && more_words(f))
        OC_TRY(set(f, o, f->v[f->next++], err));
    return OC_OK;
}

/* --packing, which is the opposite of --no-packing. */
static oc_status take_opposite(flags *f, const oc_option *o, const flag *a, const char *text,
                               oc_error *err) {
    bool truth;
    if (!oc_truth_parse(text, &truth))
        return oc_fail(err, OC_E_INVALID, "--%.*s: \"%s\" is not true or false", (int)a->n, a->name,
                       text);
    if (f->notes)
        fprintf(f->notes, "--%.*s is --%s %s%s\n", (int)a->n, a->name, o->name,
                truth ? "false" : "true", truth ? ", the default" : "");
    return set(f, o, truth ? "false" : "true", err);
}

/* --bf16, which stands for a value of another option; --fp16 False asks for nothing. Two that
 * disagree are no later flag that corrects an earlier one. */
static oc_status take_fixed(flags *f, const oc_option *o, const flag *a, const char *fixed,
                            const char *text, oc_error *err) {
    bool truth;
    if (strcmp(fixed, OC_OPPOSITE) == 0) return take_opposite(f, o, a, text, err);
    if (is_auto(text) && strcmp(fixed, "bf16") == 0)
        text = "true"; /* where it is there: here it is */
    if (!oc_truth_parse(text, &truth))
        return oc_fail(err, OC_E_INVALID, "--%.*s: \"%s\" is not true or false", (int)a->n, a->name,
                       text);
    if (!truth) {
        if (f->notes)
            fprintf(f->notes, "--%.*s is --%s; \"%s\" asks for nothing\n", (int)a->n, a->name,
                    o->name, text);
        return OC_OK;
    }
    if (f->notes) fprintf(f->notes, "--%.*s is --%s %s\n", (int)a->n, a->name, o->name, fixed);
    oc_dtype before = f->c->dtype;
    bool given = oc_config_origin(f->c, o->name) == OC_FROM_FLAG;
    OC_TRY(set(f, o, fixed, err));
    if (o->type == OC_T_DTYPE && given && f->c->dtype != before)
        return oc_fail(err, OC_E_INVALID, "--%.*s and --dtype %s contradict each other; give one",
                       (int)a->n, a->name, oc_dtype_name(before));
    return OC_OK;
}

static void note_alias(const flags *f, const oc_option *o, const flag *a) {
    if (f->notes && (strlen(o->name) != a->n || strncmp(o->name, a->name, a->n) != 0))
        fprintf(f->notes, "--%.*s is --%s\n", (int)a->n, a->name, o->name);
}

static oc_status take_option(flags *f, const flag *a, oc_error *err) {
    const oc_option *o = NULL;
    const char *fixed;
    OC_TRY(find_option(f, &o, a, &fixed, err));
    if (fixed) return take_fixed(f, o, a, fixed, take_truth(f, a), err);
    note_alias(f, o, a);
    return a->value ? set(f, o, a->value, err) : take_values(f, o, a, err);
}

/* ---- arguments of other tools ---- */

/* The row's name, or what was written when the row is for many. */
static flag shown(const oc_foreign_arg *x, const flag *a) {
    return strchr(x->name, '*') ? *a : (flag){x->name, strlen(x->name), NULL};
}

static oc_status foreign_value(flags *f, const oc_foreign_arg *x, const flag *a, const char *value,
                               bool *idle, oc_error *err) {
    const char *fixed;
    flag name = shown(x, a);
    if (oc_foreign_accepts(x, value)) return OC_OK;
    *idle = false;
    if (!x->option)
        return oc_fail(err, OC_E_UNSUPPORTED, "--%.*s %s is not available in this version: %s",
                       (int)name.n, name.name, value, x->why);
    const oc_option *o = oc_options_find(x->option, strlen(x->option), &fixed);
    note_alias(f, o, a);
    return set(f, o, value, err);
}

/* Its values are looked at and passed over. */
static oc_status take_foreign(flags *f, const oc_foreign_arg *x, const flag *a, oc_error *err) {
    bool idle = true;
    flag name = shown(x, a);
    if (a->value || !more_words(f))
        OC_TRY(foreign_value(f, x, a, a->value ? a->value : "true", &idle, err));
    while (!a->value && more_words(f))
        OC_TRY(foreign_value(f, x, a, f->v[f->next++], &idle, err));
    if (!f->notes || !idle) return OC_OK;
    if (x->accepted)
        fprintf(f->notes, "--%.*s asks for what happens anyway\n", (int)name.n, name.name);
    else
        fprintf(f->notes, "--%.*s has no effect here: %s\n", (int)name.n, name.name, x->why);
    return OC_OK;
}

/* --no-sample-packing, --no_dataloader_pin_memory: the flag behind "no-", as false. */
static bool is_negated(const flags *f, const flag *a, flag *inner) {
    const char *fixed = NULL;
    if (a->n <= 3 || a->value || !oc_options_same_name(a->name, 3, "no-", 3)) return false;
    if (oc_options_find(a->name, a->n, &fixed)) return false;
    *inner = (flag){a->name + 3, a->n - 3, "false"};
    if (oc_foreign_find(inner->name, inner->n, f->c->command)) return true;
    const oc_option *o = oc_options_find(inner->name, inner->n, &fixed);
    return o && (fixed || o->type == OC_T_ON);
}

/* DeepSpeed's own scripts have --deepspeed as a switch beside --deepspeed_config FILE. */
static bool is_bare_deepspeed(const flags *f, const flag *a) {
    static const char name[] = "deepspeed";
    bool given = a->value ? is_truth(a->value) : !more_values(f) || is_truth(f->v[f->next]);
    return given && oc_options_same_name(a->name, a->n, name, strlen(name));
}

static oc_status take_bare_deepspeed(flags *f, const flag *a) {
    (void)take_truth(f, a);
    if (f->notes)
        fprintf(f->notes, "--deepspeed names no file and has no effect: --config FILE does\n");
    return OC_OK;
}

static oc_status take(flags *f, const flag *a, oc_error *err) {
    flag inner;
    if (is_bare_deepspeed(f, a)) return take_bare_deepspeed(f, a);
    const oc_foreign_arg *x = oc_foreign_find(a->name, a->n, f->c->command);
    if (x) return take_foreign(f, x, a, err);
    return is_negated(f, a, &inner) ? take(f, &inner, err) : take_option(f, a, err);
}

/* ---- words ---- */

static bool ends_with(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static oc_status refuse_word(const char *word, oc_error *err) {
    const char *why = "options start with --";
    if (ends_with(word, ".py")) why = "leave out the script, its arguments are taken";
    if (ends_with(word, ".yaml") || ends_with(word, ".yml"))
        why = "YAML is not read; write its keys as options (docs/from-elsewhere.md)";
    return oc_fail(err, OC_E_INVALID, "unexpected argument \"%s\": %s", word, why);
}

/* null is as if it were absent. */
static oc_status take_setting(flags *f, const flag *a, oc_error *err) {
    if (strcasecmp(a->value, "null") != 0 && strcasecmp(a->value, "none") != 0)
        return take(f, a, err);
    if (f->notes)
        fprintf(f->notes, "%.*s=%s is as if it were absent\n", (int)a->n, a->name, a->value);
    return OC_OK;
}

static oc_status take_word(flags *f, const char *word, bool first, oc_error *err) {
    oc_config *c = f->c;
    flag a;
    if (c->command == OC_CMD_INSPECT && !c->path) {
        c->path = strdup(word);
        return c->path ? OC_OK : oc_fail(err, OC_E_MEMORY, "no memory for the command line");
    }
    if (c->command == OC_CMD_PLAN && first && strcmp(word, "train") == 0) return OC_OK;
    if (c->command == OC_CMD_PLAN && first && strcmp(word, "generate") == 0) {
        c->command = OC_CMD_PLAN_GENERATE;
        return OC_OK;
    }
    return is_setting(f, word, &a) ? take_setting(f, &a, err) : refuse_word(word, err);
}

/* ---- the whole line ---- */

static oc_status take_next(flags *f, oc_problems *all, oc_error *err) {
    const char *word = f->v[f->next++];
    char name[64];
    oc_error e = {.status = OC_OK};
    flag a = split(is_flag(word) ? word + 2 : word);
    oc_status s = is_flag(word) ? take(f, &a, &e) : take_word(f, word, f->next == 1, &e);
    if (s == OC_OK) return OC_OK;
    if (!oc_problems_may_go_on(s)) return oc_fail(err, s, "%s", e.message);
    snprintf(name, sizeof name, "%s%.*s", is_flag(word) ? "--" : "", (int)a.n, a.name);
    oc_problems_add(all, name, &e);
    while (is_flag(word) && more_values(f)) /* what its values mean is not known */
        f->next++;
    return OC_OK;
}

/* What is wrong with the file that the line names is told with it. */
static void add_file(oc_config *c, oc_problems *all) {
    oc_error e = {.status = OC_OK};
    if (!c->config_file) return;
    oc_status s = oc_config_read_deepspeed(c, c->config_file, 1, NULL, &e);
    if (s != OC_OK && oc_problems_may_go_on(s)) oc_problems_add(all, c->config_file, &e);
}

static oc_status take_all(flags *f, oc_error *err) {
    oc_problems all = {.lead = ""};
    char tail[64] = "";
    while (f->next < f->n)
        OC_TRY(take_next(f, &all, err));
    if (f->unknown)
        snprintf(tail, sizeof tail, "; outcore %s --help lists them",
                 oc_command_name(f->c->command));
    if (all.count > 0) add_file(f->c, &all);
    return oc_problems_tell(&all, tail, err);
}

oc_status oc_config_parse(oc_config **out, oc_command command, int argc, char **argv, FILE *notes,
                          oc_error *err) {
    oc_config *c = calloc(1, sizeof *c);
    if (!c) return oc_fail(err, OC_E_MEMORY, "no memory for the configuration");
    c->command = command;
    oc_config_defaults(c);
    flags f = {c, argc, 0, argv, notes, false};
    oc_status s = take_all(&f, err);
    if (s != OC_OK) {
        oc_config_free(c);
        return s;
    }
    *out = c;
    return OC_OK;
}
