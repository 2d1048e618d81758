#include "config/options.h"

#include "model/program.h" /* oc_saved */

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void *field_of(oc_config *c, const oc_option *o) { return (char *)c + o->offset; }
static const void *field_in(const oc_config *c, const oc_option *o) {
    return (const char *)c + o->offset;
}

static size_t index_of(const oc_option *o) { return (size_t)(o - oc_options_at(0)); }

static oc_status not_a(const oc_option *o, const char *text, const char *what, oc_error *err) {
    return oc_fail(err, OC_E_INVALID, "--%s: \"%s\" is not %s", o->name, text, what);
}

static oc_status parse_real(const oc_option *o, const char *text, double *out, oc_error *err) {
    char *end;
    double x = strtod(text, &end);
    if (end == text || *end || !isfinite(x)) return not_a(o, text, "a number", err);
    if (x < o->least || x > o->most)
        return oc_fail(err, OC_E_INVALID, "--%s: %s is outside %g to %g", o->name, text, o->least,
                       o->most);
    *out = x;
    return OC_OK;
}

static oc_status parse_int(const oc_option *o, const char *text, int64_t *out, oc_error *err) {
    char *end;
    errno = 0;
    long long x = strtoll(text, &end, 10);
    if (end == text || *end || errno) {
        double ratio;
        if (strcmp(o->name, "warmup-steps") == 0 && (ratio = strtod(text, &end)) > 0 && ratio < 1 &&
            !*end)
            return oc_fail(err, OC_E_INVALID, "--warmup-steps %s: write --warmup-ratio %s", text,
                           text);
        return not_a(o, text, "a whole number", err);
    }
    if ((double)x < o->least || (double)x > o->most)
        return oc_fail(err, OC_E_INVALID, "--%s: %s is outside %.0f to %.0f", o->name, text,
                       o->least, o->most);
    *out = x;
    return OC_OK;
}

/* What stands for "auto": no value that can be asked for. */
static int64_t auto_of(const oc_option *o) { return (int64_t)o->least - 1; }

static oc_status set_number(void *field, const oc_option *o, const char *text, oc_error *err) {
    int64_t i = 0;
    if (o->type == OC_T_REAL) {
        double x = 0;
        OC_TRY(parse_real(o, text, &x, err));
        memcpy(field, &x, sizeof x);
        return OC_OK;
    }
    if (o->type == OC_T_INT_AUTO && strcmp(text, "auto") == 0)
        i = auto_of(o);
    else
        OC_TRY(parse_int(o, text, &i, err));
    if (o->type == OC_T_INT32) {
        int32_t narrow = (int32_t)i;
        memcpy(field, &narrow, sizeof narrow);
    } else {
        memcpy(field, &i, sizeof i); /* int64_t, or uint64_t with least 0 */
    }
    return OC_OK;
}

static oc_status set_text(char **field, const char *text, oc_error *err) {
    char *copy = strdup(text);
    if (!copy) return oc_fail(err, OC_E_MEMORY, "no memory for an option's value");
    free(*field);
    *field = copy;
    return OC_OK;
}

/* Each list's count stands right behind its pointer. */
#define COUNT_FOLLOWS(list)                                                                        \
    _Static_assert(offsetof(oc_config, n_##list) == offsetof(oc_config, list) + sizeof(char **),   \
                   "the count stands behind the list")
COUNT_FOLLOWS(data);
COUNT_FOLLOWS(eval_data);
COUNT_FOLLOWS(freeze);
COUNT_FOLLOWS(train_only);
_Static_assert(offsetof(oc_config, gen.n_prompts) ==
                   offsetof(oc_config, gen.prompts) + sizeof(char **),
               "the count stands behind the list");
_Static_assert(offsetof(oc_config, gen.n_stops) == offsetof(oc_config, gen.stops) + sizeof(char **),
               "the count stands behind the list");

static int32_t *count_of(oc_config *c, const oc_option *o) {
    return (int32_t *)(void *)((char *)c + o->offset + sizeof(char **));
}

static oc_status add_text(oc_config *c, const oc_option *o, const char *text, bool anew,
                          oc_error *err) {
    char ***list = field_of(c, o);
    int32_t *n = count_of(c, o);
    while (anew && *n > 0)
        free((*list)[--*n]);
    char **grown = realloc(*list, ((size_t)*n + 1) * sizeof *grown);
    if (!grown) return oc_fail(err, OC_E_MEMORY, "no memory for an option's value");
    *list = grown;
    grown[*n] = NULL;
    OC_TRY(set_text(&grown[*n], text, err));
    ++*n;
    return OC_OK;
}

static oc_status set_choice(void *field, const oc_option *o, const char *text, oc_error *err) {
    for (const oc_choice *x = o->choices; x->text; x++) {
        if (strcmp(x->text, text) != 0) continue;
        memcpy(field, &x->value, sizeof x->value);
        return OC_OK;
    }
    if (o->choices[0].text && strcmp(text, "nvme") == 0)
        return oc_fail(err, OC_E_UNSUPPORTED,
                       "--%s nvme is not available in this version: use host or device", o->name);
    if (oc_trainer_knows_value(o->name, text))
        return oc_fail(err, OC_E_UNSUPPORTED,
                       "--%s %s is not available in this version: use one of %s", o->name, text,
                       o->argument);
    return oc_fail(err, OC_E_INVALID, "--%s: \"%s\" is none of %s", o->name, text, o->argument);
}

/* recompute takes a list of values too. */
static bool is_recompute(const oc_option *o) { return o->offset == offsetof(oc_config, recompute); }

static const char *recompute_name(int bit) {
    return bit == OC_SAVED_COUNT ? "logits" : oc_saved_name((oc_saved)bit);
}

/* The bit of a name of n bytes; -1: none. */
static int recompute_bit(const char *name, size_t n) {
    for (int i = 0; i <= OC_SAVED_COUNT; i++)
        if (strlen(recompute_name(i)) == n && strncmp(recompute_name(i), name, n) == 0) return i;
    return -1;
}

static oc_status set_recompute(oc_config *c, const oc_option *o, const char *text, oc_error *err) {
    uint32_t list = 0;
    for (const oc_choice *x = o->choices; x->text; x++)
        if (strcmp(x->text, text) == 0) return set_choice(&c->recompute, o, text, err);
    for (const char *at = text; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        int n = (int)strcspn(at, ","), bit = recompute_bit(at, (size_t)n);
        if (bit < 0)
            return oc_fail(err, OC_E_INVALID,
                           "--%s: \"%.*s\" is none of auto, full, none, nor of the values qkv, "
                           "attention, mid, up, mlp, logits, which may be listed with commas",
                           o->name, n, at);
        list |= 1u << bit;
    }
    c->recompute = OC_RECOMPUTE_LIST;
    c->recompute_list = list;
    return OC_OK;
}

static oc_status set_pair(oc_config *c, const oc_option *o, const char *text, oc_origin origin,
                          oc_error *err) {
    const char *comma = strpbrk(text, ", ");
    char first[64], second[64];
    const char *fixed;
    if (!comma || (size_t)(comma - text) >= sizeof first || strlen(comma + 1) >= sizeof second)
        return not_a(o, text, "two numbers, as 0.9,0.999", err);
    memcpy(first, text, (size_t)(comma - text));
    first[comma - text] = 0;
    memcpy(second, comma + 1, strlen(comma + 1) + 1);
    OC_TRY(oc_option_set(c, oc_options_find("beta1", 5, &fixed), first, origin, err));
    return oc_option_set(c, oc_options_find("beta2", 5, &fixed), second, origin, err);
}

static oc_status set_bool(bool *field, const oc_option *o, const char *text, oc_error *err) {
    bool yes;
    if (!oc_truth_parse(text, &yes)) return not_a(o, text, "true or false", err);
    *field = yes == (o->type == OC_T_ON);
    return OC_OK;
}

static oc_status set_device(oc_config *c, const oc_option *o, const char *text, oc_error *err) {
    if (strcmp(text, "cuda") == 0)
        return oc_fail(err, OC_E_UNSUPPORTED,
                       "--device cuda is not available in this version: use --device cpu");
    if (strcmp(text, "cpu") != 0) return not_a(o, text, "cpu or cuda", err);
    c->device_cuda = false;
    c->has_device = true;
    return OC_OK;
}

static oc_status set_size(void *field, const oc_option *o, const char *text, oc_error *err) {
    uint64_t bytes;
    if (!oc_size_parse(text, &bytes))
        return not_a(o, text, "a size, as 1.5GiB, 100MB or plain bytes", err);
    if (bytes < (uint64_t)o->least || bytes > INT64_MAX)
        return oc_fail(err, OC_E_INVALID, "--%s: %s is no usable size", o->name, text);
    memcpy(field, &bytes, sizeof bytes);
    return OC_OK;
}

static oc_status set_value(oc_config *c, const oc_option *o, const char *text, oc_origin origin,
                           oc_error *err) {
    void *field = field_of(c, o);
    oc_lane lane;
    double rate;
    switch (o->type) {
    case OC_T_TEXT:
        return set_text(field, text, err);
    case OC_T_TEXTS:
        return add_text(c, o, text, c->origin[index_of(o)] != (uint8_t)origin, err);
    case OC_T_OPTIONAL: /* --resume_from_checkpoint True is no path */
        c->resume = true;
        return oc_truth_parse(text, &c->resume) || !*text ? OC_OK : set_text(field, text, err);
    case OC_T_ON:
    case OC_T_OFF:
        return set_bool(field, o, text, err);
    case OC_T_PAIR:
        return set_pair(c, o, text, origin, err);
    case OC_T_SIZE:
        return set_size(field, o, text, err);
    case OC_T_CHOICE:
        return is_recompute(o) ? set_recompute(c, o, text, err) : set_choice(field, o, text, err);
    case OC_T_DTYPE:
        if (!oc_dtype_parse(text, &c->dtype)) return not_a(o, text, "bf16, fp16 or fp32", err);
        c->has_dtype = true;
        return OC_OK;
    case OC_T_DEVICE:
        return set_device(c, o, text, err);
    case OC_T_PACE:
        if (!oc_pace_parse(text, &lane, &rate))
            return not_a(o, text, "a lane and a rate, as h2d=4GB/s", err);
        c->pace[lane] = rate;
        return OC_OK;
    default:
        return set_number(field, o, text, err);
    }
}

oc_status oc_option_set(oc_config *c, const oc_option *o, const char *text, oc_origin origin,
                        oc_error *err) {
    if (o->missing)
        return oc_fail(err, OC_E_UNSUPPORTED, "--%s is not available in this version: %s", o->name,
                       o->missing);
    if (o->type == OC_T_DTYPE && strcmp(text, "auto") == 0) return OC_OK; /* the model's */
    OC_TRY(set_value(c, o, text, origin, err));
    c->origin[index_of(o)] = (uint8_t)origin;
    return OC_OK;
}

/* A scalar as the text a flag would carry. false: not a scalar. */
static bool scalar_text(const json_t *v, char *buf, size_t n, const char **text) {
    *text = buf;
    if (json_is_string(v))
        *text = json_string_value(v);
    else if (json_is_boolean(v))
        *text = json_is_true(v) ? "true" : "false";
    else if (json_is_integer(v))
        snprintf(buf, n, "%lld", (long long)json_integer_value(v));
    else if (json_is_real(v) && fabs(json_real_value(v)) < 1e15 &&
             json_real_value(v) == floor(json_real_value(v)))
        snprintf(buf, n, "%.0f", json_real_value(v)); /* 1e3 where an integer is due */
    else if (json_is_real(v))
        snprintf(buf, n, "%.17g", json_real_value(v));
    else
        return false;
    return true;
}

static oc_status pair_from_json(oc_config *c, const json_t *v, const char *where, FILE *notes,
                                oc_error *err) {
    const char *fixed;
    if (json_array_size(v) != 2)
        return oc_fail(err, OC_E_INVALID, "%s: expected two numbers, as [0.9, 0.999]", where);
    OC_TRY(oc_option_set_json(c, oc_options_find("beta1", 5, &fixed), json_array_get(v, 0), where,
                              notes, err));
    return oc_option_set_json(c, oc_options_find("beta2", 5, &fixed), json_array_get(v, 1), where,
                              notes, err);
}

static oc_status set_scalar(oc_config *c, const oc_option *o, const json_t *v, const char *where,
                            oc_error *err) {
    char buf[64];
    const char *text;
    bool number = o->type == OC_T_REAL || o->type == OC_T_INT32 || o->type == OC_T_INT64 ||
                  o->type == OC_T_UINT64 || o->type == OC_T_INT_AUTO;
    bool truth = o->type == OC_T_ON || o->type == OC_T_OFF;
    bool is_auto =
        o->type == OC_T_INT_AUTO && json_is_string(v) && strcmp(json_string_value(v), "auto") == 0;
    if (!scalar_text(v, buf, sizeof buf, &text) || (number && !json_is_number(v) && !is_auto) ||
        truth != json_is_boolean(v))
        return oc_fail(err, OC_E_INVALID, "%s: expected %s, not %s%s%.40s%s", where,
                       number  ? "a number"
                       : truth ? "true or false"
                               : "a string",
                       oc_json_type_name(v),
                       json_is_string(v) && (number || truth) ? ": write " : "",
                       json_is_string(v) && (number || truth) ? json_string_value(v) : "",
                       json_is_string(v) && (number || truth) ? " without quotes" : "");
    oc_status s = oc_option_set(c, o, text, OC_FROM_FILE, err);
    return s == OC_OK ? s : oc_error_prefix(err, s, "%s", where);
}

oc_status oc_option_set_json(oc_config *c, const oc_option *o, const json_t *value,
                             const char *where, FILE *notes, oc_error *err) {
    if (o->type == OC_T_PAIR) return pair_from_json(c, value, where, notes, err);
    if (c->origin[index_of(o)] == OC_FROM_FLAG) {
        if (notes) fprintf(notes, "--%s overrides %s\n", o->name, where);
        return OC_OK;
    }
    if (!json_is_array(value)) return set_scalar(c, o, value, where, err);
    if (o->type != OC_T_TEXTS && o->type != OC_T_PACE)
        return oc_fail(err, OC_E_INVALID, "%s: expected one value, not an array", where);
    size_t i;
    json_t *item;
    json_array_foreach(value, i, item) { OC_TRY(set_scalar(c, o, item, where, err)); }
    return OC_OK;
}

static json_t *texts_json(const void *field) {
    char *const *list;
    int32_t n;
    memcpy(&list, field, sizeof list);
    memcpy(&n, (const char *)field + sizeof list, sizeof n);
    if (n == 0) return NULL;
    json_t *a = json_array();
    for (int32_t i = 0; i < n; i++)
        (void)json_array_append_new(a, json_string(list[i]));
    return a;
}

static json_t *pace_json(const double *pace) {
    json_t *a = NULL;
    char text[64];
    for (int l = 0; l < OC_LANE_COUNT; l++) {
        if (pace[l] <= 0) continue;
        if (!a) a = json_array();
        snprintf(text, sizeof text, "%s=%.0fB/s", oc_lane_name((oc_lane)l), pace[l]);
        (void)json_array_append_new(a, json_string(text));
    }
    return a;
}

static json_t *choice_json(const oc_option *o, const void *field) {
    unsigned value;
    memcpy(&value, field, sizeof value);
    for (const oc_choice *x = o->choices; x->text; x++)
        if (x->value == value) return json_string(x->text);
    return NULL;
}

static json_t *recompute_json(const oc_config *c) {
    char text[64] = "";
    for (int i = 0; i <= OC_SAVED_COUNT; i++) {
        if (!(c->recompute_list >> i & 1u)) continue;
        size_t n = strlen(text);
        (void)snprintf(text + n, sizeof text - n, "%s%s", n ? "," : "", recompute_name(i));
    }
    return json_string(text);
}

static json_t *number_json(const oc_option *o, const void *field) {
    if (o->type == OC_T_REAL) {
        double x;
        memcpy(&x, field, sizeof x);
        return x < o->least || x > o->most ? NULL : json_real(x); /* not set */
    }
    int64_t i;
    int32_t narrow;
    if (o->type == OC_T_INT32) {
        memcpy(&narrow, field, sizeof narrow);
        i = narrow;
    } else {
        memcpy(&i, field, sizeof i);
    }
    if (o->type == OC_T_INT_AUTO && i == auto_of(o)) return json_string("auto");
    if (o->type == OC_T_SIZE && (uint64_t)i == UINT64_MAX) return NULL;
    /* a value out of its range stands for "not set" */
    if (o->type != OC_T_SIZE && ((double)i < o->least || (double)i > o->most)) return NULL;
    return o->type == OC_T_SIZE && i == 0 ? NULL : json_integer(i);
}

json_t *oc_option_json(const oc_config *c, const oc_option *o) {
    const void *field = field_in(c, o);
    if (o->missing) return NULL;
    switch (o->type) {
    case OC_T_TEXT: {
        const char *text = *(char *const *)field;
        return text ? json_string(text) : NULL;
    }
    case OC_T_TEXTS:
        return texts_json(field);
    case OC_T_ON:
        return json_boolean(*(const bool *)field);
    case OC_T_OFF:
        return json_boolean(!*(const bool *)field);
    case OC_T_CHOICE:
        if (is_recompute(o) && c->recompute == OC_RECOMPUTE_LIST) return recompute_json(c);
        return choice_json(o, field);
    case OC_T_DTYPE:
        return c->has_dtype ? json_string(oc_dtype_name(c->dtype)) : NULL;
    case OC_T_DEVICE:
        return c->has_device ? json_string(c->device_cuda ? "cuda" : "cpu") : NULL;
    case OC_T_PACE:
        return pace_json(c->pace);
    case OC_T_OPTIONAL: /* how this run was started, not what it is */
    case OC_T_PAIR:
        return NULL; /* its halves have rows of their own */
    default:
        return number_json(o, field);
    }
}
