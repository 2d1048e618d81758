/* compare.c - asking values: truth, equality, order, length, elements. */
#include "template/internal.h"

#include <math.h>
#include <string.h>

bool oc_tpl_truthy(const oc_tpl_value *v) {
    switch (v->kind) {
    case TV_MISSING:
    case TV_UNDEFINED:
    case TV_NONE:
        return false;
    case TV_BOOL:
        return v->u.truth;
    case TV_INT:
        return v->u.integer != 0;
    case TV_FLOAT:
        return v->u.real != 0;
    case TV_STRING:
        return v->u.string->n > 0;
    case TV_LIST:
    case TV_TUPLE:
        return v->u.list->n > 0;
    case TV_DICT:
    case TV_VIEW:
        return v->u.dict->n > 0;
    case TV_RANGE:
        return v->u.range->n > 0;
    default:
        return true; /* iterators too, even empty ones */
    }
}

static const char *const type_names[] = {
    "nothing",     "an undefined value",
    "None",        "a bool",
    "an int",      "a float",
    "a str",       "a list",
    "a tuple",     "a dict",
    "a namespace", "a range",
    "an iterator", "a view of a dict",
    "a loop",      "a macro",
    "a function",  "a method",
    "a joiner",    "a cycler",
};

const char *oc_tpl_type_name(const oc_tpl_value *v) { return type_names[v->kind]; }

bool oc_tpl_fail_undefined(oc_tpl *x, const oc_tpl_value *v) {
    const oc_tpl_str *s = v->u.string;
    int n = s->n < 200 ? (int)s->n : 200;
    switch ((oc_tpl_absence)v->flag) {
    case ABSENT_NAME:
        return oc_tpl_fail(x, OC_E_INVALID, "'%.*s' is undefined", n, s->at);
    case ABSENT_ATTRIBUTE:
        return oc_tpl_fail(x, OC_E_INVALID, "%s has no attribute or element '%.*s'",
                           type_names[v->type], n, s->at);
    case ABSENT_UNSAFE:
        return oc_tpl_fail(x, OC_E_INVALID, "'%.*s' of %s may not be used: templates are sandboxed",
                           n, s->at, type_names[v->type]);
    default:
        return oc_tpl_fail(x, OC_E_INVALID, "%.*s", n, s->at);
    }
}

bool oc_tpl_is_number(const oc_tpl_value *v) {
    return v->kind == TV_INT || v->kind == TV_FLOAT || v->kind == TV_BOOL;
}

bool oc_tpl_as_int(const oc_tpl_value *v, int64_t *out) {
    if (v->kind == TV_INT)
        *out = v->u.integer;
    else if (v->kind == TV_BOOL)
        *out = v->u.truth;
    else
        return false;
    return true;
}

double oc_tpl_as_double(const oc_tpl_value *v) {
    int64_t i;
    return oc_tpl_as_int(v, &i) ? (double)i : v->u.real;
}

bool oc_tpl_is(const oc_tpl_value *v, const char *word) {
    size_t n = strlen(word);
    return v->kind == TV_STRING && v->u.string->n == n && memcmp(v->u.string->at, word, n) == 0;
}

static int order_int(int64_t a, int64_t b) { return a < b ? -1 : a > b; }

/* Exact: a 64-bit integer may have no double of its value. */
static int order_mixed(int64_t i, double d) {
    if (isnan(d)) return 2;
    if (d >= 0x1p63) return -1;
    if (d < -0x1p63) return 1;
    double whole = floor(d);
    int order = order_int(i, (int64_t)whole);
    return order ? order : whole < d ? -1 : 0;
}

int oc_tpl_compare_numbers(const oc_tpl_value *a, const oc_tpl_value *b) {
    int64_t i, j;
    bool ai = oc_tpl_as_int(a, &i), bi = oc_tpl_as_int(b, &j);
    if (ai && bi) return order_int(i, j);
    if (ai) return order_mixed(i, b->u.real);
    if (bi) {
        int order = order_mixed(j, a->u.real);
        return order == 2 ? 2 : -order;
    }
    if (isnan(a->u.real) || isnan(b->u.real)) return 2;
    return a->u.real < b->u.real ? -1 : a->u.real > b->u.real;
}

/* Bytes of UTF-8 are in the order of their characters. */
static int order_strings(const oc_tpl_str *a, const oc_tpl_str *b) {
    size_t n = a->n < b->n ? a->n : b->n;
    int order = n ? memcmp(a->at, b->at, n) : 0;
    return order ? order : order_int((int64_t)a->n, (int64_t)b->n);
}

static bool same_bits(double a, double b) {
    uint64_t x, y;
    memcpy(&x, &a, sizeof x);
    memcpy(&y, &b, sizeof y);
    return x == y;
}

bool oc_tpl_same(const oc_tpl_value *a, const oc_tpl_value *b) {
    if (a->kind != b->kind) return false;
    switch (a->kind) {
    case TV_NONE:
    case TV_UNDEFINED:
        return true;
    case TV_BOOL:
        return a->u.truth == b->u.truth;
    case TV_INT:
        return a->u.integer == b->u.integer;
    case TV_FLOAT:
        return same_bits(a->u.real, b->u.real);
    case TV_STRING:
        return a->u.string == b->u.string || order_strings(a->u.string, b->u.string) == 0;
    case TV_FUNCTION:
        return a->id == b->id;
    case TV_LIST:
    case TV_TUPLE:
        return a->u.list == b->u.list || (!a->u.list->n && !b->u.list->n && a->kind == TV_TUPLE);
    default:
        return a->u.dict == b->u.dict;
    }
}

static bool equal_lists(oc_tpl *x, const oc_tpl_list *a, const oc_tpl_list *b, bool *out) {
    *out = a->n == b->n;
    for (size_t i = 0; *out && i < a->n; i++)
        if (!oc_tpl_equal(x, &a->at[i], &b->at[i], out)) return false;
    return true;
}

static bool equal_dicts(oc_tpl *x, const oc_tpl_dict *a, const oc_tpl_dict *b, bool *out) {
    *out = a->n == b->n;
    for (size_t i = 0; *out && i < a->n; i++) {
        const oc_tpl_value *other = oc_tpl_dict_get(b, &a->entries[i].key);
        *out = other != NULL;
        if (other && !oc_tpl_equal(x, &a->entries[i].value, other, out)) return false;
    }
    return true;
}

static bool equal_ranges(const oc_tpl_range *a, const oc_tpl_range *b) {
    return a->n == b->n && (a->n == 0 || a->start == b->start) && (a->n < 2 || a->step == b->step);
}

bool oc_tpl_equal(oc_tpl *x, const oc_tpl_value *a, const oc_tpl_value *b, bool *out) {
    if (!oc_tpl_step(x, a->kind == TV_STRING ? a->u.string->n : 0)) return false;
    if (oc_tpl_is_number(a) && oc_tpl_is_number(b)) {
        *out = oc_tpl_compare_numbers(a, b) == 0;
        return true;
    }
    *out = false;
    if (a->kind != b->kind) return true;
    bool ok = true;
    if (!oc_tpl_deeper(x)) return false;
    switch (a->kind) {
    case TV_LIST:
    case TV_TUPLE:
        ok = equal_lists(x, a->u.list, b->u.list, out);
        break;
    case TV_DICT:
        ok = equal_dicts(x, a->u.dict, b->u.dict, out);
        break;
    case TV_RANGE:
        *out = equal_ranges(a->u.range, b->u.range);
        break;
    default:
        *out = oc_tpl_same(a, b);
    }
    x->depth--;
    return ok;
}

static bool less_lists(oc_tpl *x, const oc_tpl_list *a, const oc_tpl_list *b, bool *out) {
    size_t n = a->n < b->n ? a->n : b->n;
    for (size_t i = 0; i < n; i++) {
        bool equal;
        if (!oc_tpl_equal(x, &a->at[i], &b->at[i], &equal)) return false;
        if (!equal) return oc_tpl_less(x, &a->at[i], &b->at[i], out);
    }
    *out = a->n < b->n;
    return true;
}

bool oc_tpl_less(oc_tpl *x, const oc_tpl_value *a, const oc_tpl_value *b, bool *out) {
    if (!oc_tpl_step(x, a->kind == TV_STRING ? a->u.string->n : 0)) return false;
    if (oc_tpl_is_number(a) && oc_tpl_is_number(b)) {
        *out = oc_tpl_compare_numbers(a, b) == -1;
        return true;
    }
    if (a->kind == TV_UNDEFINED) return oc_tpl_fail_undefined(x, a);
    if (b->kind == TV_UNDEFINED) return oc_tpl_fail_undefined(x, b);
    if (a->kind == TV_STRING && b->kind == TV_STRING) {
        *out = order_strings(a->u.string, b->u.string) < 0;
        return true;
    }
    if (a->kind == b->kind && (a->kind == TV_LIST || a->kind == TV_TUPLE)) {
        if (!oc_tpl_deeper(x)) return false;
        bool ok = less_lists(x, a->u.list, b->u.list, out);
        x->depth--;
        return ok;
    }
    return oc_tpl_fail(x, OC_E_INVALID, "%s and %s have no order", oc_tpl_type_name(a),
                       oc_tpl_type_name(b));
}

static bool contains(oc_tpl *x, const oc_tpl_value *haystack, const oc_tpl_value *needle,
                     bool *out) {
    *out = false;
    if (haystack->kind == TV_STRING) {
        const oc_tpl_str *h = haystack->u.string;
        if (needle->kind == TV_UNDEFINED) return oc_tpl_fail_undefined(x, needle);
        if (needle->kind != TV_STRING)
            return oc_tpl_fail(x, OC_E_INVALID, "%s cannot be looked for in a string",
                               oc_tpl_type_name(needle));
        *out = oc_tpl_find(h->at, h->n, needle->u.string->at, needle->u.string->n, 0) != SIZE_MAX;
        return oc_tpl_step(x, h->n);
    }
    if (haystack->kind == TV_DICT || (haystack->kind == TV_VIEW && haystack->flag == VIEW_KEYS)) {
        if (!oc_tpl_hashable(x, needle)) return false;
        *out = oc_tpl_dict_get(haystack->u.dict, needle) != NULL;
        return true;
    }
    if (!oc_tpl_iterable(haystack))
        return oc_tpl_fail(x, OC_E_INVALID, "'in' needs something to look in; %s is not",
                           oc_tpl_type_name(haystack));
    const oc_tpl_value *at;
    size_t n;
    if (!oc_tpl_elements(x, haystack, &at, &n)) return false;
    for (size_t i = 0; i < n && !*out; i++) {
        *out = oc_tpl_same(&at[i], needle);
        if (!*out && !oc_tpl_equal(x, &at[i], needle, out)) return false;
    }
    return true;
}

bool oc_tpl_compare(oc_tpl *x, oc_tpl_op op, const oc_tpl_value *a, const oc_tpl_value *b,
                    bool *out) {
    bool ok, or_equal = op == OP_LE || op == OP_GE;
    switch (op) {
    case OP_IN:
    case OP_NOT_IN:
        ok = contains(x, b, a, out);
        break;
    case OP_EQ:
    case OP_NE:
        ok = oc_tpl_equal(x, a, b, out);
        break;
    default:
        /* a > b is b < a; with unordered numbers every order is false. */
        ok = op == OP_LT || op == OP_LE ? oc_tpl_less(x, a, b, out) : oc_tpl_less(x, b, a, out);
        if (ok && or_equal && !*out) ok = oc_tpl_equal(x, a, b, out);
    }
    if (op == OP_NE || op == OP_NOT_IN) *out = !*out;
    return ok;
}

/* --- Length and elements */

bool oc_tpl_length(oc_tpl *x, const oc_tpl_value *v, size_t *out) {
    switch (v->kind) {
    case TV_UNDEFINED:
        *out = 0;
        return true;
    case TV_STRING:
        *out = oc_tpl_characters(v->u.string);
        return true;
    case TV_LIST:
    case TV_TUPLE:
        *out = v->u.list->n;
        return true;
    case TV_DICT:
    case TV_VIEW:
        *out = v->u.dict->n;
        return true;
    case TV_RANGE:
        *out = v->u.range->n;
        return true;
    case TV_LOOP:
        *out = v->u.loop->n;
        return true;
    default:
        return oc_tpl_fail(x, OC_E_INVALID, "%s has no length", oc_tpl_type_name(v));
    }
}

bool oc_tpl_iterable(const oc_tpl_value *v) {
    switch (v->kind) {
    case TV_UNDEFINED:
    case TV_STRING:
    case TV_LIST:
    case TV_TUPLE:
    case TV_DICT:
    case TV_VIEW:
    case TV_RANGE:
    case TV_ITERATOR:
        return true;
    default:
        return false;
    }
}

static bool characters_of(oc_tpl *x, const oc_tpl_str *s, const oc_tpl_value **at, size_t *n) {
    *n = oc_tpl_characters(s);
    oc_tpl_value *to = oc_tpl_new(x, *n, sizeof *to);
    if (!to) return false;
    for (size_t i = 0, pos = 0; i < *n; i++) {
        uint32_t c;
        size_t step = oc_tpl_decode(s->at + pos, s->n - pos, &c);
        if (!oc_tpl_string(x, s->at + pos, step, &to[i])) return false;
        pos += step;
    }
    *at = to;
    return true;
}

static bool view_of(oc_tpl *x, const oc_tpl_dict *d, oc_tpl_view view, const oc_tpl_value **at,
                    size_t *n) {
    *n = d->n;
    oc_tpl_value *to = oc_tpl_new(x, d->n, sizeof *to);
    oc_tpl_value *pairs = view == VIEW_ITEMS ? oc_tpl_new(x, 2 * d->n, sizeof *pairs) : to;
    if (!to || !pairs) return false;
    for (size_t i = 0; i < d->n; i++) {
        const oc_tpl_entry *e = &d->entries[i];
        if (view != VIEW_ITEMS) {
            to[i] = view == VIEW_KEYS ? e->key : e->value;
            continue;
        }
        pairs[2 * i] = e->key;
        pairs[2 * i + 1] = e->value;
        if (!oc_tpl_sequence(x, TV_TUPLE, &pairs[2 * i], 2, &to[i])) return false;
    }
    *at = to;
    return true;
}

static bool numbers_of(oc_tpl *x, const oc_tpl_range *r, const oc_tpl_value **at, size_t *n) {
    *n = r->n;
    oc_tpl_value *to = oc_tpl_new(x, r->n, sizeof *to);
    if (!to) return false;
    for (size_t i = 0; i < r->n; i++)
        to[i] = oc_tpl_int((int64_t)((uint64_t)r->start + (uint64_t)r->step * i));
    *at = to;
    return true;
}

bool oc_tpl_elements(oc_tpl *x, const oc_tpl_value *v, const oc_tpl_value **at, size_t *n) {
    bool ok = true;
    *at = NULL;
    *n = 0;
    switch (v->kind) {
    case TV_UNDEFINED:
        break;
    case TV_STRING:
        ok = characters_of(x, v->u.string, at, n);
        break;
    case TV_LIST:
    case TV_TUPLE:
        *at = v->u.list->at;
        *n = v->u.list->n;
        break;
    case TV_ITERATOR:
        *at = v->u.list->at + v->u.list->next;
        *n = v->u.list->n - v->u.list->next;
        v->u.list->next = v->u.list->n;
        break;
    case TV_DICT:
    case TV_VIEW:
        ok = view_of(x, v->u.dict, v->kind == TV_DICT ? VIEW_KEYS : (oc_tpl_view)v->flag, at, n);
        break;
    case TV_RANGE:
        ok = numbers_of(x, v->u.range, at, n);
        break;
    default:
        return oc_tpl_fail(x, OC_E_INVALID, "%s has no elements to walk", oc_tpl_type_name(v));
    }
    return ok && oc_tpl_step(x, *n);
}

/* --- Sorting */

typedef struct sorter {
    oc_tpl *x;
    oc_tpl_value *keys, *items, *more_keys, *more_items;
    bool reverse;
} sorter;

/* Merges [begin, middle) and [middle, end); of equals the left comes first, reversed or not. */
static bool merge(sorter *s, size_t begin, size_t middle, size_t end) {
    size_t l = begin, r = middle;
    for (size_t to = begin; to < end; to++) {
        bool take_right = l == middle;
        if (l < middle && r < end &&
            !(s->reverse ? oc_tpl_less(s->x, &s->keys[l], &s->keys[r], &take_right)
                         : oc_tpl_less(s->x, &s->keys[r], &s->keys[l], &take_right)))
            return false;
        size_t from = take_right ? r++ : l++;
        s->more_keys[to] = s->keys[from];
        s->more_items[to] = s->items[from];
    }
    memcpy(s->keys + begin, s->more_keys + begin, (end - begin) * sizeof *s->keys);
    memcpy(s->items + begin, s->more_items + begin, (end - begin) * sizeof *s->items);
    return true;
}

bool oc_tpl_sort(oc_tpl *x, oc_tpl_value *keys, oc_tpl_value *items, size_t n, bool reverse) {
    sorter s = {x, keys, items, NULL, NULL, reverse};
    if (n < 2) return true;
    s.more_keys = oc_tpl_new(x, n, sizeof *keys);
    s.more_items = oc_tpl_new(x, n, sizeof *items);
    if (!s.more_keys || !s.more_items) return false;
    for (size_t width = 1; width < n; width *= 2)
        for (size_t begin = 0; begin + width < n; begin += 2 * width)
            if (!merge(&s, begin, begin + width, begin + 2 * width < n ? begin + 2 * width : n))
                return false;
    return true;
}
