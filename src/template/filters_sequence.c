/* filters_sequence.c - filters of what has elements, and the table of all filters.
 *
 * Where the reference yields elements one by one, a value here is an iterator: true even when
 * empty, without a length, and used up once walked. */
#include "template/internal.h"

#include <string.h>

#define FILTER(name)                                                                               \
    static bool name(oc_tpl *x, const oc_tpl_value *args, const oc_tpl_call *call,                 \
                     oc_tpl_value *out)

/* An array that grows. */
typedef struct gathered {
    oc_tpl *x;
    oc_tpl_value *at;
    size_t n, room;
} gathered;

static bool gather(gathered *g, oc_tpl_value v) {
    if (g->n == g->room) {
        size_t room = g->room ? 2 * g->room : 8;
        oc_tpl_value *more = oc_tpl_new(g->x, room, sizeof *more);
        if (!more) return false;
        if (g->n) memcpy(more, g->at, g->n * sizeof *more);
        g->at = more;
        g->room = room;
    }
    g->at[g->n++] = v;
    return true;
}

static bool gathered_as(gathered *g, oc_tpl_kind kind, oc_tpl_value *out) {
    return oc_tpl_sequence(g->x, kind, g->at, g->n, out);
}

/* --- Attributes: "a.b.0" */

static bool all_digits(const char *at, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (at[i] < '0' || at[i] > '9') return false;
    return n > 0;
}

static bool part_of(oc_tpl *x, const char *at, size_t n, oc_tpl_value *out) {
    int64_t i;
    if (!oc_tpl_string(x, at, n, out)) return false;
    if (all_digits(at, n) && oc_tpl_parse_int(out->u.string, 10, &i)) *out = oc_tpl_int(i);
    return true;
}

/* fallback replaces what is undefined on the way, unless it is missing or none. */
static bool attribute_of(oc_tpl *x, const oc_tpl_value *item, const oc_tpl_value *path,
                         const oc_tpl_value *fallback, oc_tpl_value *out) {
    *out = *item;
    if (path->kind == TV_MISSING || path->kind == TV_NONE) return true;
    bool replace = fallback && fallback->kind != TV_MISSING && fallback->kind != TV_NONE;
    const char *at = path->kind == TV_STRING ? path->u.string->at : "";
    size_t left = path->kind == TV_STRING ? path->u.string->n : 0;
    for (bool more = true; more;) {
        oc_tpl_value part = *path, holder = *out;
        if (path->kind == TV_STRING) {
            const char *dot = left ? memchr(at, '.', left) : NULL;
            size_t n = dot ? (size_t)(dot - at) : left;
            if (!part_of(x, at, n, &part)) return false;
            more = dot != NULL;
            at += n + more;
            left -= n + more;
        } else {
            more = false;
        }
        if (!oc_tpl_get_item(x, &holder, &part, out)) return false;
        if (replace && out->kind == TV_UNDEFINED) *out = *fallback;
    }
    return true;
}

/* The key of an item in sorts: strings without regard to case unless asked. */
static bool key_of(oc_tpl *x, const oc_tpl_value *item, const oc_tpl_value *path,
                   const oc_tpl_value *case_sensitive, oc_tpl_value *out) {
    if (!attribute_of(x, item, path, NULL, out)) return false;
    if (out->kind != TV_STRING || oc_tpl_truthy(case_sensitive)) return true;
    return oc_tpl_recase(x, out->u.string, CASE_LOWER, out);
}

/* --- Length, ends, order */

FILTER(f_length) {
    (void)call;
    size_t n;
    if (!oc_tpl_length(x, &args[0], &n)) return false;
    *out = oc_tpl_int((int64_t)n);
    return true;
}

FILTER(f_first) {
    (void)call;
    const oc_tpl_value *at;
    size_t n;
    if (args[0].kind == TV_ITERATOR) {
        oc_tpl_list *l = args[0].u.list;
        if (l->next < l->n) {
            *out = l->at[l->next++];
            return true;
        }
    } else if (args[0].kind == TV_STRING && args[0].u.string->n) {
        return oc_tpl_get_item(x, &args[0], &(oc_tpl_value){.kind = TV_INT}, out);
    }
    if (!oc_tpl_elements(x, &args[0], &at, &n)) return false;
    if (!n)
        return oc_tpl_undefined(x, ABSENT_HINT, TV_NONE, "there is no first element: it is empty",
                                38, out);
    *out = at[0];
    return true;
}

static bool refuse_iterator(oc_tpl *x, const oc_tpl_value *v, const char *filter) {
    if (v->kind != TV_ITERATOR) return true;
    return oc_tpl_fail(x, OC_E_INVALID, "'%s' cannot be applied to an iterator; use 'list' first",
                       filter);
}

FILTER(f_last) {
    (void)call;
    const oc_tpl_value *at;
    size_t n;
    if (!refuse_iterator(x, &args[0], "last") || !oc_tpl_elements(x, &args[0], &at, &n))
        return false;
    if (!n)
        return oc_tpl_undefined(x, ABSENT_HINT, TV_NONE, "there is no last element: it is empty",
                                37, out);
    *out = at[n - 1];
    return true;
}

FILTER(f_reverse) {
    (void)call;
    const oc_tpl_value *at;
    size_t n;
    if (args[0].kind == TV_STRING) {
        const oc_tpl_value bounds[3] = {oc_tpl_none(), oc_tpl_none(), oc_tpl_int(-1)};
        return oc_tpl_slice(x, &args[0], bounds, out);
    }
    if (!oc_tpl_elements(x, &args[0], &at, &n)) return false;
    oc_tpl_value *to = oc_tpl_new(x, n, sizeof *to);
    if (!to) return false;
    for (size_t i = 0; i < n; i++)
        to[i] = at[n - 1 - i];
    return oc_tpl_sequence(x, args[0].kind == TV_ITERATOR ? TV_LIST : TV_ITERATOR, to, n, out);
}

FILTER(f_list) {
    (void)call;
    const oc_tpl_value *at;
    size_t n;
    return oc_tpl_elements(x, &args[0], &at, &n) && oc_tpl_sequence(x, TV_LIST, at, n, out);
}

FILTER(f_join) {
    (void)call;
    const oc_tpl_value *at;
    size_t n;
    oc_tpl_value between;
    if (args[1].kind == TV_MISSING ? !oc_tpl_string(x, "", 0, &between)
                                   : !oc_tpl_str_of(x, &args[1], &between))
        return false;
    if (!oc_tpl_elements(x, &args[0], &at, &n)) return false;
    oc_tpl_value *items = oc_tpl_new(x, n, sizeof *items);
    if (!items) return false;
    for (size_t i = 0; i < n; i++)
        if (!attribute_of(x, &at[i], &args[2], NULL, &items[i])) return false;
    return oc_tpl_join(x, between.u.string, items, n, true, out);
}

/* Sorted copies of the elements of v. listed: keys are compared as lists of one, in which what is
 * equal needs no order. */
static bool sort_by(oc_tpl *x, const oc_tpl_value *v, const oc_tpl_value *path,
                    const oc_tpl_value *case_sensitive, bool reverse, bool listed,
                    oc_tpl_value **keys, oc_tpl_value **items, size_t *n) {
    const oc_tpl_value *at;
    if (!oc_tpl_elements(x, v, &at, n)) return false;
    *keys = oc_tpl_new(x, *n, sizeof **keys);
    *items = oc_tpl_new(x, *n, sizeof **items);
    if (!*keys || !*items) return false;
    for (size_t i = 0; i < *n; i++) {
        (*items)[i] = at[i];
        if (!key_of(x, &at[i], path, case_sensitive, &(*keys)[i])) return false;
        oc_tpl_value *one = listed ? oc_tpl_new(x, 1, sizeof *one) : NULL;
        if (!listed) continue;
        if (!one) return false;
        *one = (*keys)[i];
        if (!oc_tpl_sequence(x, TV_LIST, one, 1, &(*keys)[i])) return false;
    }
    return oc_tpl_sort(x, *keys, *items, *n, reverse);
}

/* Several attributes, "a,b", are sorted by from the last to the first: the sort is stable. */
FILTER(f_sort) {
    (void)call;
    oc_tpl_value *keys, *items, v = args[0];
    size_t n;
    bool reverse = oc_tpl_truthy(&args[1]), several = args[3].kind == TV_STRING;
    const char *at = several ? args[3].u.string->at : "";
    size_t end = several ? args[3].u.string->n : 0;
    if (!several && !sort_by(x, &v, &args[3], &args[2], reverse, true, &keys, &items, &n))
        return false;
    for (bool more = several; more;) {
        size_t begin = end;
        while (begin > 0 && at[begin - 1] != ',')
            begin--;
        oc_tpl_value path;
        if (!oc_tpl_string(x, at + begin, end - begin, &path) ||
            !sort_by(x, &v, &path, &args[2], reverse, true, &keys, &items, &n) ||
            !oc_tpl_sequence(x, TV_LIST, items, n, &v))
            return false;
        more = begin > 0;
        if (more) end = begin - 1;
    }
    return oc_tpl_sequence(x, TV_LIST, items, n, out);
}

FILTER(f_unique) {
    (void)call;
    const oc_tpl_value *at;
    size_t n;
    gathered g = {.x = x};
    oc_tpl_dict *seen = oc_tpl_new(x, 1, sizeof *seen);
    if (!seen || !oc_tpl_elements(x, &args[0], &at, &n)) return false;
    for (size_t i = 0; i < n; i++) {
        oc_tpl_value key;
        if (!key_of(x, &at[i], &args[2], &args[1], &key) || !oc_tpl_hashable(x, &key)) return false;
        if (oc_tpl_dict_get(seen, &key)) continue;
        if (!oc_tpl_dict_set(&x->arena, seen, &key, oc_tpl_none()))
            return oc_tpl_fail(x, OC_E_MEMORY, "no memory for 'unique'");
        if (!gather(&g, at[i])) return false;
    }
    return gathered_as(&g, TV_ITERATOR, out);
}

static bool extreme(oc_tpl *x, const oc_tpl_value *args, bool most, oc_tpl_value *out) {
    const oc_tpl_value *at;
    size_t n;
    oc_tpl_value best = {0}, key;
    if (!oc_tpl_elements(x, &args[0], &at, &n)) return false;
    if (!n)
        return oc_tpl_undefined(x, ABSENT_HINT, TV_NONE, "there is no such element: it is empty",
                                37, out);
    for (size_t i = 0; i < n; i++) {
        bool better = i == 0;
        if (!key_of(x, &at[i], &args[2], &args[1], &key)) return false;
        if (i &&
            !(most ? oc_tpl_less(x, &best, &key, &better) : oc_tpl_less(x, &key, &best, &better)))
            return false;
        if (!better) continue;
        best = key;
        *out = at[i];
    }
    return true;
}

FILTER(f_min) {
    (void)call;
    return extreme(x, args, false, out);
}
FILTER(f_max) {
    (void)call;
    return extreme(x, args, true, out);
}

FILTER(f_sum) {
    (void)call;
    const oc_tpl_value *at;
    size_t n;
    oc_tpl_value total = args[2].kind == TV_MISSING ? oc_tpl_int(0) : args[2];
    if (total.kind == TV_STRING)
        return oc_tpl_fail(x, OC_E_INVALID, "sum: strings are joined with 'join'");
    if (!oc_tpl_elements(x, &args[0], &at, &n)) return false;
    for (size_t i = 0; i < n; i++) {
        oc_tpl_value v, before = total;
        if (!attribute_of(x, &at[i], &args[1], NULL, &v) ||
            !oc_tpl_binary(x, OP_ADD, &before, &v, &total))
            return false;
    }
    *out = total;
    return true;
}

/* --- Dicts */

FILTER(f_items) {
    (void)call;
    const oc_tpl_value *at = NULL;
    size_t n = 0;
    if (args[0].kind != TV_UNDEFINED) {
        if (args[0].kind != TV_DICT)
            return oc_tpl_fail(x, OC_E_INVALID, "items: only a dict has pairs, %s has none",
                               oc_tpl_type_name(&args[0]));
        const oc_tpl_value v = {.kind = TV_VIEW, .flag = VIEW_ITEMS, .u.dict = args[0].u.dict};
        if (!oc_tpl_elements(x, &v, &at, &n)) return false;
    }
    return oc_tpl_sequence(x, TV_ITERATOR, at, n, out);
}

FILTER(f_dictsort) {
    (void)call;
    oc_tpl_value *keys, *items, path = oc_tpl_int(0);
    size_t n;
    if (args[0].kind == TV_UNDEFINED) return oc_tpl_fail_undefined(x, &args[0]);
    if (args[0].kind != TV_DICT)
        return oc_tpl_fail(x, OC_E_INVALID, "dictsort: %s is no dict", oc_tpl_type_name(&args[0]));
    if (oc_tpl_is(&args[2], "value"))
        path = oc_tpl_int(1);
    else if (args[2].kind != TV_MISSING && !oc_tpl_is(&args[2], "key"))
        return oc_tpl_fail(x, OC_E_INVALID, "dictsort: by must be 'key' or 'value'");
    const oc_tpl_value v = {.kind = TV_VIEW, .flag = VIEW_ITEMS, .u.dict = args[0].u.dict};
    return sort_by(x, &v, &path, &args[1], oc_tpl_truthy(&args[3]), false, &keys, &items, &n) &&
           oc_tpl_sequence(x, TV_LIST, items, n, out);
}

FILTER(f_attr) {
    (void)call;
    const oc_tpl_str *name;
    if (!oc_tpl_need_string(x, &args[1], "attr: the name", &name)) return false;
    /* A dict's members are no attributes. */
    if (args[0].kind != TV_DICT) return oc_tpl_get_attribute(x, &args[0], name, out);
    oc_tpl_value empty = {.kind = TV_DICT, .u.dict = oc_tpl_new(x, 1, sizeof(oc_tpl_dict))};
    if (!empty.u.dict || !oc_tpl_get_attribute(x, &empty, name, out)) return false;
    return out->kind == TV_UNDEFINED || oc_tpl_get_attribute(x, &args[0], name, out);
}

/* --- Groups */

FILTER(f_batch) {
    (void)call;
    const oc_tpl_value *at;
    size_t n;
    int64_t count;
    gathered g = {.x = x};
    if (!oc_tpl_need_int(x, &args[1], "batch: the count", 0, &count)) return false;
    if (count < 1) return oc_tpl_fail(x, OC_E_INVALID, "batch: the count must be at least 1");
    if (!oc_tpl_elements(x, &args[0], &at, &n)) return false;
    bool fill = args[2].kind != TV_MISSING && args[2].kind != TV_NONE;
    for (size_t i = 0; i < n; i += (size_t)count) {
        size_t have = n - i < (size_t)count ? n - i : (size_t)count,
               want = fill ? (size_t)count : have;
        oc_tpl_value row;
        if (!oc_tpl_allow(x, want, sizeof row)) return false;
        oc_tpl_value *to = oc_tpl_new(x, want, sizeof *to);
        if (!to) return false;
        for (size_t k = 0; k < want; k++)
            to[k] = k < have ? at[i + k] : args[2];
        if (!oc_tpl_sequence(x, TV_LIST, to, want, &row) || !gather(&g, row)) return false;
        if (n - i <= (size_t)count) break;
    }
    return gathered_as(&g, TV_ITERATOR, out);
}

FILTER(f_slice) {
    (void)call;
    const oc_tpl_value *at;
    size_t n, offset = 0;
    int64_t slices;
    gathered g = {.x = x};
    if (!oc_tpl_need_int(x, &args[1], "slice: the count", 0, &slices)) return false;
    if (slices < 1) return oc_tpl_fail(x, OC_E_INVALID, "slice: the count must be at least 1");
    if (!oc_tpl_elements(x, &args[0], &at, &n)) return false;
    size_t each = n / (size_t)slices, extra = n % (size_t)slices;
    bool fill = args[2].kind != TV_MISSING && args[2].kind != TV_NONE;
    for (size_t i = 0; i < (size_t)slices; i++) {
        size_t have = each + (i < extra), want = have + (fill && i >= extra);
        oc_tpl_value row, *to = oc_tpl_new(x, want, sizeof *to);
        if (!to || !oc_tpl_step(x, want)) return false;
        for (size_t k = 0; k < want; k++)
            to[k] = k < have ? at[offset + k] : args[2];
        offset += have;
        if (!oc_tpl_sequence(x, TV_LIST, to, want, &row) || !gather(&g, row)) return false;
    }
    return gathered_as(&g, TV_ITERATOR, out);
}

/* args: value, attribute, default, case_sensitive */
FILTER(f_groupby) {
    (void)call;
    oc_tpl_value *keys, *items;
    const oc_tpl_value *at;
    size_t n;
    gathered g = {.x = x};
    if (!oc_tpl_elements(x, &args[0], &at, &n)) return false;
    keys = oc_tpl_new(x, n, sizeof *keys);
    items = oc_tpl_new(x, n, sizeof *items);
    if (!keys || !items) return false;
    for (size_t i = 0; i < n; i++) {
        oc_tpl_value none = {0}, real;
        items[i] = at[i];
        if (!attribute_of(x, &at[i], &args[1], &args[2], &real) ||
            !key_of(x, &real, &none, &args[3], &keys[i]))
            return false;
    }
    if (!oc_tpl_sort(x, keys, items, n, false)) return false;
    for (size_t i = 0, end; i < n; i = end) {
        oc_tpl_value *pair = oc_tpl_new(x, 2, sizeof *pair), group;
        bool equal = true;
        if (!pair) return false;
        for (end = i + 1; end < n; end++) {
            if (!oc_tpl_equal(x, &keys[i], &keys[end], &equal)) return false;
            if (!equal) break;
        }
        /* The key as the first of the group has it. */
        if (!attribute_of(x, &items[i], &args[1], &args[2], &pair[0]) ||
            !oc_tpl_sequence(x, TV_LIST, &items[i], end - i, &pair[1]) ||
            !oc_tpl_sequence(x, TV_TUPLE, pair, 2, &group))
            return false;
        group.flag = 1;
        if (!gather(&g, group)) return false;
    }
    return gathered_as(&g, TV_LIST, out);
}

/* --- map, select, reject */

static bool map_attribute(oc_tpl *x, const oc_tpl_value *args, const oc_tpl_call *call,
                          oc_tpl_value *out) {
    const oc_tpl_value *path = oc_tpl_dict_find(call->named, "attribute", 9);
    const oc_tpl_value *fallback = oc_tpl_dict_find(call->named, "default", 7), *at;
    size_t n;
    gathered g = {.x = x};
    if (call->named->n > 1 + (size_t)(fallback != NULL))
        return oc_tpl_fail(x, OC_E_INVALID, "map takes attribute and default, nothing else");
    if (!oc_tpl_elements(x, &args[0], &at, &n)) return false;
    for (size_t i = 0; i < n; i++) {
        oc_tpl_value v;
        if (!attribute_of(x, &at[i], path, fallback, &v) || !gather(&g, v)) return false;
    }
    return gathered_as(&g, TV_ITERATOR, out);
}

FILTER(f_map) {
    const oc_tpl_value *at;
    size_t n;
    gathered g = {.x = x};
    const oc_tpl_entry_point *filter;
    if (!oc_tpl_truthy(&args[0])) return gathered_as(&g, TV_ITERATOR, out);
    if (!call->n && call->named && oc_tpl_dict_find(call->named, "attribute", 9))
        return map_attribute(x, args, call, out);
    if (!call->n) return oc_tpl_fail(x, OC_E_INVALID, "map needs a filter or attribute=");
    if (!oc_tpl_filter_name(x, &call->at[0], &filter) || !oc_tpl_elements(x, &args[0], &at, &n))
        return false;
    const oc_tpl_call rest = {call->at + 1, call->n - 1, call->named};
    for (size_t i = 0; i < n; i++) {
        oc_tpl_value v;
        if (!oc_tpl_invoke(x, filter, "filter", &at[i], &rest, &v) || !gather(&g, v)) return false;
    }
    return gathered_as(&g, TV_ITERATOR, out);
}

static bool choose(oc_tpl *x, const oc_tpl_value *args, const oc_tpl_call *call, bool attribute,
                   bool wanted, oc_tpl_value *out) {
    const oc_tpl_value *at, path = attribute && call->n ? call->at[0] : (oc_tpl_value){0};
    size_t n, skip = attribute;
    gathered g = {.x = x};
    const oc_tpl_entry_point *test = NULL;
    if (!oc_tpl_truthy(&args[0])) return gathered_as(&g, TV_ITERATOR, out);
    if (call->n < skip) return oc_tpl_fail(x, OC_E_INVALID, "the name of an attribute is missing");
    if (call->n > skip && !oc_tpl_test_name(x, &call->at[skip], &test)) return false;
    size_t used = call->n < skip + 1 ? call->n : skip + 1;
    const oc_tpl_call rest = {call->at + used, call->n - used, call->named};
    if (!oc_tpl_elements(x, &args[0], &at, &n)) return false;
    for (size_t i = 0; i < n; i++) {
        oc_tpl_value v, result;
        if (!attribute_of(x, &at[i], &path, NULL, &v)) return false;
        result = v;
        if (test && !oc_tpl_invoke(x, test, "test", &v, &rest, &result)) return false;
        if (oc_tpl_truthy(&result) == wanted && !gather(&g, at[i])) return false;
    }
    return gathered_as(&g, TV_ITERATOR, out);
}

FILTER(f_select) { return choose(x, args, call, false, true, out); }
FILTER(f_reject) { return choose(x, args, call, false, false, out); }
FILTER(f_selectattr) { return choose(x, args, call, true, true, out); }
FILTER(f_rejectattr) { return choose(x, args, call, true, false, out); }

const oc_tpl_entry_point oc_tpl_filters_sequence[] = {
    {"length", f_length, "obj", 1, false},
    {"count", f_length, "obj", 1, false},
    {"first", f_first, "seq", 1, false},
    {"last", f_last, "seq", 1, false},
    {"reverse", f_reverse, "value", 1, false},
    {"list", f_list, "value", 1, false},
    {"join", f_join, "value,d,attribute", 1, false},
    {"sort", f_sort, "value,reverse,case_sensitive,attribute", 1, false},
    {"unique", f_unique, "value,case_sensitive,attribute", 1, false},
    {"min", f_min, "value,case_sensitive,attribute", 1, false},
    {"max", f_max, "value,case_sensitive,attribute", 1, false},
    {"sum", f_sum, "iterable,attribute,start", 1, false},
    {"items", f_items, "value", 1, false},
    {"dictsort", f_dictsort, "value,case_sensitive,by,reverse", 1, false},
    {"attr", f_attr, "obj,name", 2, false},
    {"batch", f_batch, "value,linecount,fill_with", 2, false},
    {"slice", f_slice, "value,slices,fill_with", 2, false},
    {"groupby", f_groupby, "value,attribute,default,case_sensitive", 2, false},
    {"map", f_map, "value", 1, true},
    {"select", f_select, "value", 1, true},
    {"reject", f_reject, "value", 1, true},
    {"selectattr", f_selectattr, "value", 1, true},
    {"rejectattr", f_rejectattr, "value", 1, true},
    {0},
};

/* --- Looking filters up */

const oc_tpl_entry_point *const oc_tpl_filter_tables[] = {oc_tpl_filters_text,
                                                          oc_tpl_filters_sequence, NULL};

const oc_tpl_entry_point *oc_tpl_find_filter(const char *name, size_t n) {
    return oc_tpl_find_entry(oc_tpl_filter_tables, name, n);
}

const char *oc_tpl_nearest_filter(const char *name, size_t n) {
    return oc_tpl_nearest_entry(oc_tpl_filter_tables, name, n);
}

bool oc_tpl_refused_filter(const char *name, size_t n) {
    static const char *const refused[] = {"filesizeformat", "pprint", "random",   "striptags",
                                          "urlencode",      "urlize", "wordwrap", "xmlattr"};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        if (strlen(refused[i]) == n && memcmp(refused[i], name, n) == 0) return true;
    return false;
}

bool oc_tpl_filter_name(oc_tpl *x, const oc_tpl_value *name, const oc_tpl_entry_point **out) {
    const oc_tpl_str *s;
    if (!oc_tpl_need_string(x, name, "the name of a filter", &s)) return false;
    *out = oc_tpl_find_filter(s->at, s->n);
    if (*out) return true;
    int n = s->n < 100 ? (int)s->n : 100;
    if (oc_tpl_refused_filter(s->at, s->n))
        return oc_tpl_fail(x, OC_E_UNSUPPORTED, "the filter '%.*s' is not supported", n, s->at);
    const char *near = oc_tpl_nearest_filter(s->at, s->n);
    return oc_tpl_fail(x, OC_E_INVALID, "no filter is named '%.*s'%s%s%s", n, s->at,
                       near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}
