/* forms.c - which form a row has. */
#include "data/internal.h"

#include <stdio.h>
#include <string.h>

/* A form is there when all of its keys are. */
static const struct {
    const char *name, *key, *second;
} forms[OC_ROW_FORMS] = {
    [OC_ROW_NONE] = {"none", NULL, NULL},
    [OC_ROW_IDS] = {"input_ids", "input_ids", NULL},
    [OC_ROW_COMPLETION] = {"prompt and completion", "prompt", "completion"},
    [OC_ROW_MESSAGES] = {"messages", "messages", NULL},
    [OC_ROW_SHAREGPT] = {"sharegpt (conversations)", "conversations", NULL},
    [OC_ROW_ALPACA] = {"alpaca (instruction and output)", "instruction", "output"},
    [OC_ROW_TEXT] = {"text", "text", NULL},
};

const char *oc_row_form_name(oc_row_form form) { return forms[form].name; }

json_t *oc_row_member(const json_t *row, const char *key) {
    json_t *v = json_object_get(row, key);
    return json_is_null(v) ? NULL : v;
}

static bool has(const json_t *row, const char *key) {
    return key == NULL || oc_row_member(row, key) != NULL;
}

static oc_status no_form(json_t *row, const char *where, oc_error *err) {
    char keys[200] = "";
    size_t n = 0;
    const char *key;
    json_t *value;
    for (int f = OC_ROW_IDS; f < OC_ROW_FORMS; f++) {
        const char *one = forms[f].key, *two = forms[f].second;
        if (two == NULL || has(row, one) == has(row, two)) continue;
        /* an "output" alone may be anything's */
        if (f == OC_ROW_ALPACA && !has(row, one)) continue;
        return oc_fail(err, OC_E_FORMAT, "%s: the row has \"%s\" but no \"%s\"", where,
                       has(row, one) ? one : two, has(row, one) ? two : one);
    }
    json_object_foreach(row, key, value) {
        int put = snprintf(keys + n, sizeof keys - n, "%s\"%.40s\"", n > 0 ? ", " : "", key);
        if (put < 0 || n + (size_t)put >= sizeof keys) break;
        n += (size_t)put;
    }
    return oc_fail(err, OC_E_FORMAT,
                   "%s: the row is of no known form: text; input_ids; prompt and completion; "
                   "messages; instruction and output; conversations. Its keys: %s",
                   where, n > 0 ? keys : "none");
}

/* Null or not, as far as a form is meant. */
static bool names(const json_t *row, const char *key) {
    return key == NULL || json_object_get(row, key) != NULL;
}

bool oc_row_lacks_answer(const json_t *row, oc_row_form form) {
    return forms[form].second != NULL && has(row, forms[form].key) &&
           !names(row, forms[form].second);
}

oc_status oc_row_kind_of(json_t *row, const char *where, oc_row_kind *out, oc_error *err) {
    oc_row_kind kind = {OC_ROW_NONE, false, false};
    if (!json_is_object(row))
        return oc_fail(err, OC_E_FORMAT, "%s: the row is %s, not an object", where,
                       oc_json_type_name(row));
    for (int f = OC_ROW_IDS; f < OC_ROW_FORMS; f++) {
        if (!has(row, forms[f].key) || !has(row, forms[f].second)) continue;
        kind.several = kind.form != OC_ROW_NONE;
        if (kind.form == OC_ROW_NONE) kind.form = (oc_row_form)f;
    }
    for (int f = OC_ROW_IDS; f < OC_ROW_FORMS && kind.form == OC_ROW_NONE; f++)
        if (names(row, forms[f].key) && names(row, forms[f].second))
            kind = (oc_row_kind){(oc_row_form)f, true, false};
    if (kind.form == OC_ROW_NONE) return no_form(row, where, err);
    *out = kind;
    return OC_OK;
}
