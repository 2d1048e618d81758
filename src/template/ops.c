/* ops.c - arithmetic, attributes, items and slices. */
#include "template/internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- Arithmetic */

static const char *const op_names[] = {"+", "-", "*", "/", "//", "%", "**"};

static bool bad_operands(oc_tpl *x, oc_tpl_op op, const oc_tpl_value *a, const oc_tpl_value *b) {
    if (a->kind == TV_UNDEFINED) return oc_tpl_fail_undefined(x, a);
    if (b->kind == TV_UNDEFINED) return oc_tpl_fail_undefined(x, b);
    return oc_tpl_fail(x, OC_E_INVALID, "%s cannot be applied to %s and %s", op_names[op],
                       oc_tpl_type_name(a), oc_tpl_type_name(b));
}

static bool overflow(oc_tpl *x, oc_tpl_op op) {
    return oc_tpl_fail(x, OC_E_OVERFLOW, "the result of %s does not fit 64 bits", op_names[op]);
}

static bool by_zero(oc_tpl *x) { return oc_tpl_fail(x, OC_E_INVALID, "division by zero"); }

static bool int_power(oc_tpl *x, int64_t base, int64_t exponent, oc_tpl_value *out) {
    int64_t result = 1;
    while (exponent > 0) {
        if ((exponent & 1) && __builtin_mul_overflow(result, base, &result))
            return overflow(x, OP_POW);
        exponent >>= 1;
        if (exponent && __builtin_mul_overflow(base, base, &base)) return overflow(x, OP_POW);
    }
    *out = oc_tpl_int(result);
    return true;
}

/* As Python: the remainder has the sign of the divisor. */
static bool int_divide(oc_tpl *x, oc_tpl_op op, int64_t a, int64_t b, oc_tpl_value *out) {
    if (b == 0) return by_zero(x);
    if (b == -1) {
        if (op == OP_MOD)
            a = 0;
        else if (__builtin_sub_overflow((int64_t)0, a, &a))
            return overflow(x, op);
        *out = oc_tpl_int(a);
        return true;
    }
    int64_t quotient = a / b, rest = a % b;
    if (rest != 0 && (rest < 0) != (b < 0)) {
        quotient--;
        rest += b;
    }
    *out = oc_tpl_int(op == OP_MOD ? rest : quotient);
    return true;
}

static bool int_binary(oc_tpl *x, oc_tpl_op op, int64_t a, int64_t b, oc_tpl_value *out) {
    int64_t r;
    bool over;
    switch (op) {
    case OP_ADD:
        over = __builtin_add_overflow(a, b, &r);
        break;
    case OP_SUB:
        over = __builtin_sub_overflow(a, b, &r);
        break;
    case OP_MUL:
        over = __builtin_mul_overflow(a, b, &r);
        break;
    case OP_DIV:
        if (b == 0) return by_zero(x);
        *out = oc_tpl_float((double)((long double)a / (long double)b));
        return true;
    case OP_POW:
        return int_power(x, a, b, out);
    default:
        return int_divide(x, op, a, b, out);
    }
    if (over) return overflow(x, op);
    *out = oc_tpl_int(r);
    return true;
}

static double floor_divide(double a, double b, double *rest) {
    double mod = fmod(a, b), div = (a - mod) / b;
    if (mod != 0) {
        if ((b < 0) != (mod < 0)) {
            mod += b;
            div -= 1;
        }
    } else {
        mod = copysign(0, b);
    }
    *rest = mod;
    if (div == 0) return copysign(0, a / b);
    double whole = floor(div);
    return div - whole > 0.5 ? whole + 1 : whole;
}

static bool float_power(oc_tpl *x, double a, double b, oc_tpl_value *out) {
    if (a == 0 && b < 0) return by_zero(x);
    if (a < 0 && isfinite(b) && b != floor(b))
        return oc_tpl_fail(x, OC_E_INVALID, "a power of a negative number is no real number");
    double r = pow(a, b);
    if (isinf(r) && isfinite(a) && isfinite(b))
        return oc_tpl_fail(x, OC_E_OVERFLOW, "the result of ** is too large");
    *out = oc_tpl_float(r);
    return true;
}

static bool float_binary(oc_tpl *x, oc_tpl_op op, double a, double b, oc_tpl_value *out) {
    double rest, r;
    if (op == OP_POW) return float_power(x, a, b, out);
    if (op >= OP_DIV && b == 0) return by_zero(x);
    switch (op) {
    case OP_ADD:
        r = a + b;
        break;
    case OP_SUB:
        r = a - b;
        break;
    case OP_MUL:
        r = a * b;
        break;
    case OP_DIV:
        r = a / b;
        break;
    default:
        r = floor_divide(a, b, &rest);
        if (op == OP_MOD) r = rest;
    }
    *out = oc_tpl_float(r);
    return true;
}

/* What is captured keeps who wrote it when texts are joined with +. */
static bool add_strings(oc_tpl *x, const oc_tpl_value *a, const oc_tpl_value *b,
                        oc_tpl_value *out) {
    oc_tpl_value left = *a, right = *b;
    oc_tpl_buffer to = {0};
    bool safe = a->flag || b->flag;
    if (safe && (!oc_tpl_escape(x, a, &left) || !oc_tpl_escape(x, b, &right))) return false;
    if (!oc_tpl_allow(x, left.u.string->n + right.u.string->n, 1)) return false;
    to.room = left.u.string->n + right.u.string->n;
    to.at = oc_tpl_new(x, to.room, 1);
    if (!to.at) return false;
    if (!oc_tpl_put_marked(x, &to, left.u.string) || !oc_tpl_put_marked(x, &to, right.u.string))
        return false;
    if (!oc_tpl_buffer_value(x, &to, out)) return false;
    out->flag = safe;
    return true;
}

static bool add_lists(oc_tpl *x, const oc_tpl_value *a, const oc_tpl_value *b, oc_tpl_value *out) {
    size_t n = a->u.list->n + b->u.list->n;
    if (!oc_tpl_allow(x, n, sizeof *a)) return false;
    oc_tpl_value *at = oc_tpl_new(x, n, sizeof *at);
    if (!at) return false;
    if (a->u.list->n) memcpy(at, a->u.list->at, a->u.list->n * sizeof *at);
    if (b->u.list->n) memcpy(at + a->u.list->n, b->u.list->at, b->u.list->n * sizeof *at);
    return oc_tpl_sequence(x, (oc_tpl_kind)a->kind, at, n, out);
}

static bool repeat(oc_tpl *x, const oc_tpl_value *v, int64_t times, oc_tpl_value *out) {
    size_t count = times > 0 ? (size_t)times : 0;
    bool text = v->kind == TV_STRING;
    size_t n = text ? v->u.string->n : v->u.list->n * sizeof(oc_tpl_value);
    const void *from = text ? (const void *)v->u.string->at : (const void *)v->u.list->at;
    if (n == 0) count = 0;
    if (!oc_tpl_allow(x, count, n)) return false;
    char *at = oc_tpl_new(x, count, n);
    if (!at) return false;
    for (size_t i = 0; i < count; i++)
        memcpy(at + i * n, from, n);
    if (text) {
        if (!oc_tpl_string(x, at, count * n, out)) return false;
        out->flag = v->flag;
        return true;
    }
    return oc_tpl_sequence(x, (oc_tpl_kind)v->kind, (const oc_tpl_value *)(const void *)at,
                           count * v->u.list->n, out);
}

static bool is_repeatable(const oc_tpl_value *v) {
    return v->kind == TV_STRING || v->kind == TV_LIST || v->kind == TV_TUPLE;
}

bool oc_tpl_binary(oc_tpl *x, oc_tpl_op op, const oc_tpl_value *a, const oc_tpl_value *b,
                   oc_tpl_value *out) {
    int64_t i, j;
    if (oc_tpl_is_number(a) && oc_tpl_is_number(b)) {
        bool a_whole = oc_tpl_as_int(a, &i), b_whole = oc_tpl_as_int(b, &j);
        if (a_whole && b_whole && !(op == OP_POW && j < 0)) return int_binary(x, op, i, j, out);
        return float_binary(x, op, oc_tpl_as_double(a), oc_tpl_as_double(b), out);
    }
    if (op == OP_MOD && a->kind == TV_STRING) return oc_tpl_percent(x, a->u.string, b, out);
    if (op == OP_ADD && a->kind == b->kind) {
        if (a->kind == TV_STRING) return add_strings(x, a, b, out);
        if (a->kind == TV_LIST || a->kind == TV_TUPLE) return add_lists(x, a, b, out);
    }
    if (op == OP_MUL && is_repeatable(a) && oc_tpl_as_int(b, &j)) return repeat(x, a, j, out);
    if (op == OP_MUL && is_repeatable(b) && oc_tpl_as_int(a, &i)) return repeat(x, b, i, out);
    return bad_operands(x, op, a, b);
}

/* --- Attributes and items */

static bool loop_attribute(oc_tpl *x, oc_tpl_loop *l, const char *name, bool *found,
                           oc_tpl_value *out) {
    *found = true;
    if (strcmp(name, "index") == 0)
        *out = oc_tpl_int((int64_t)l->index + 1);
    else if (strcmp(name, "index0") == 0)
        *out = oc_tpl_int((int64_t)l->index);
    else if (strcmp(name, "first") == 0)
        *out = oc_tpl_bool(l->index == 0);
    else if (strcmp(name, "last") == 0)
        *out = oc_tpl_bool(l->index + 1 >= l->n);
    else if (strcmp(name, "length") == 0)
        *out = oc_tpl_int((int64_t)l->n);
    else if (strcmp(name, "revindex") == 0)
        *out = oc_tpl_int((int64_t)(l->n - l->index));
    else if (strcmp(name, "revindex0") == 0)
        *out = oc_tpl_int((int64_t)(l->n - l->index) - 1);
    else if (strcmp(name, "depth") == 0)
        *out = oc_tpl_int(1);
    else if (strcmp(name, "depth0") == 0)
        *out = oc_tpl_int(0);
    else if (strcmp(name, "previtem") == 0 && l->index > 0)
        *out = l->at[l->index - 1];
    else if (strcmp(name, "nextitem") == 0 && l->index + 1 < l->n)
        *out = l->at[l->index + 1];
    else if (strcmp(name, "previtem") == 0 || strcmp(name, "nextitem") == 0)
        return oc_tpl_undefined(x, ABSENT_HINT, TV_LOOP, "there is no such item", 21, out);
    else
        *found = false;
    return true;
}

static bool has_unsafe_name(const oc_tpl_value *v, const oc_tpl_str *name) {
    if (v->kind != TV_DICT) return name->n && name->at[0] == '_';
    return name->n > 4 && memcmp(name->at, "__", 2) == 0 &&
           memcmp(name->at + name->n - 2, "__", 2) == 0;
}

/* What Python's getattr() finds, but for the members of a dict. */
static bool own_attribute(oc_tpl *x, const oc_tpl_value *v, const oc_tpl_str *name, bool *found,
                          oc_tpl_value *out) {
    char word[24];
    *found = true;
    if (has_unsafe_name(v, name))
        return oc_tpl_undefined(x, ABSENT_UNSAFE, (oc_tpl_kind)v->kind, name->at, name->n, out);
    if (v->kind == TV_NAMESPACE) {
        const oc_tpl_value *member = oc_tpl_dict_find(v->u.dict, name->at, name->n);
        *found = member != NULL;
        if (member) *out = *member;
        return true;
    }
    if (v->kind == TV_LOOP && name->n < sizeof word) {
        memcpy(word, name->at, name->n);
        word[name->n] = '\0';
        if (!loop_attribute(x, v->u.loop, word, found, out) || *found) return x->status == OC_OK;
    }
    return oc_tpl_find_method(x, v, name, found, out);
}

bool oc_tpl_get_attribute(oc_tpl *x, const oc_tpl_value *v, const oc_tpl_str *name,
                          oc_tpl_value *out) {
    bool found;
    if (v->kind == TV_UNDEFINED) return oc_tpl_fail_undefined(x, v);
    if (!own_attribute(x, v, name, &found, out)) return false;
    if (found) return true;
    if (v->kind == TV_DICT) {
        const oc_tpl_value *member = oc_tpl_dict_find(v->u.dict, name->at, name->n);
        if (member) {
            *out = *member;
            return true;
        }
    }
    return oc_tpl_undefined(x, ABSENT_ATTRIBUTE, (oc_tpl_kind)v->kind, name->at, name->n, out);
}

static bool hashable_quietly(const oc_tpl_value *key) {
    if (key->kind == TV_TUPLE) {
        for (size_t i = 0; i < key->u.list->n; i++)
            if (key->u.list->at[i].kind == TV_TUPLE || !hashable_quietly(&key->u.list->at[i]))
                return false;
        return true;
    }
    return key->kind != TV_LIST && key->kind != TV_DICT && key->kind != TV_VIEW;
}

static bool character_at(oc_tpl *x, const oc_tpl_str *s, size_t i, oc_tpl_value *out) {
    uint32_t c;
    size_t at = oc_tpl_offset(s, i);
    return oc_tpl_step(x, s->ascii ? 0 : s->n) &&
           oc_tpl_string(x, s->at + at, oc_tpl_decode(s->at + at, s->n - at, &c), out);
}

static bool element_at(oc_tpl *x, const oc_tpl_value *v, int64_t i, bool *found,
                       oc_tpl_value *out) {
    size_t n;
    *found = false;
    if (v->kind != TV_STRING && v->kind != TV_LIST && v->kind != TV_TUPLE && v->kind != TV_RANGE)
        return true;
    if (!oc_tpl_length(x, v, &n)) return false;
    if (i < 0) i += (int64_t)n;
    if (i < 0 || i >= (int64_t)n) return true;
    *found = true;
    if (v->kind == TV_STRING) {
        if (!character_at(x, v->u.string, (size_t)i, out)) return false;
        out->flag = v->flag;
    } else if (v->kind == TV_RANGE) {
        *out = oc_tpl_int(v->u.range->start + v->u.range->step * i);
    } else {
        *out = v->u.list->at[i];
    }
    return true;
}

bool oc_tpl_get_item(oc_tpl *x, const oc_tpl_value *v, const oc_tpl_value *key, oc_tpl_value *out) {
    int64_t i;
    bool found = false;
    if (v->kind == TV_UNDEFINED) return oc_tpl_fail_undefined(x, v);
    if (v->kind == TV_DICT && hashable_quietly(key)) {
        const oc_tpl_value *member = oc_tpl_dict_get(v->u.dict, key);
        if (member) {
            *out = *member;
            return true;
        }
    } else if (oc_tpl_as_int(key, &i)) {
        if (!element_at(x, v, i, &found, out)) return false;
        if (found) return true;
    }
    if (key->kind == TV_STRING) {
        if (!own_attribute(x, v, key->u.string, &found, out)) return false;
        if (found) return true;
    }
    oc_tpl_buffer b = {0};
    oc_tpl_value name = {.kind = TV_STRING};
    if (key->kind == TV_STRING || key->kind == TV_INT) {
        if (!oc_tpl_put_str(x, &b, key) || !oc_tpl_buffer_value(x, &b, &name)) return false;
    } else if (!oc_tpl_string(x, oc_tpl_type_name(key), strlen(oc_tpl_type_name(key)), &name)) {
        return false;
    }
    return oc_tpl_undefined(x, ABSENT_ATTRIBUTE, (oc_tpl_kind)v->kind, name.u.string->at,
                            name.u.string->n, out);
}

/* --- Slices */

typedef struct cut {
    int64_t start, stop, step;
    size_t n;
} cut;

static bool bound_of(oc_tpl *x, const oc_tpl_value *v, int64_t n, int64_t least, int64_t most,
                     int64_t otherwise, int64_t *out) {
    if (v->kind == TV_NONE) {
        *out = otherwise;
        return true;
    }
    if (v->kind == TV_UNDEFINED) return oc_tpl_fail_undefined(x, v);
    if (!oc_tpl_as_int(v, out))
        return oc_tpl_fail(x, OC_E_INVALID, "the bounds of a slice must be integers, not %s",
                           oc_tpl_type_name(v));
    if (*out < 0) *out += n;
    if (*out < least) *out = least;
    if (*out > most) *out = most;
    return true;
}

static bool cut_of(oc_tpl *x, const oc_tpl_value bounds[3], size_t length, cut *out) {
    int64_t n = (int64_t)length, start = 0, stop = 0, step = 1;
    if (bounds[2].kind != TV_NONE && !oc_tpl_as_int(&bounds[2], &step))
        return oc_tpl_fail(x, OC_E_INVALID, "the step of a slice must be an integer");
    if (step == 0) return oc_tpl_fail(x, OC_E_INVALID, "the step of a slice is zero");
    int64_t least = step < 0 ? -1 : 0, most = step < 0 ? n - 1 : n;
    if (!bound_of(x, &bounds[0], n, least, most, step < 0 ? most : 0, &start) ||
        !bound_of(x, &bounds[1], n, least, most, step < 0 ? -1 : n, &stop))
        return false;
    uint64_t distance = step > 0 ? (stop > start ? (uint64_t)(stop - start) : 0)
                                 : (start > stop ? (uint64_t)(start - stop) : 0);
    uint64_t stride = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
    *out = (cut){start, stop, step, distance ? (size_t)((distance - 1) / stride + 1) : 0};
    return true;
}

static bool slice_range(oc_tpl *x, const oc_tpl_range *r, const cut *c, oc_tpl_value *out) {
    oc_tpl_range *part = oc_tpl_new(x, 1, sizeof *part);
    int64_t step;
    if (!part) return false;
    if (__builtin_mul_overflow(r->step, c->step, &step)) return overflow(x, OP_MUL);
    /* A bound beyond 64 bits wraps; no element does. */
    uint64_t base = (uint64_t)r->start, stride = (uint64_t)r->step;
    *part = (oc_tpl_range){(int64_t)(base + stride * (uint64_t)c->start), step, c->n,
                           (int64_t)(base + stride * (uint64_t)c->stop)};
    *out = (oc_tpl_value){.kind = TV_RANGE, .u.range = part};
    return true;
}

static bool slice_string(oc_tpl *x, const oc_tpl_str *s, const cut *c, oc_tpl_value *out) {
    if (c->n == 0) return oc_tpl_string(x, "", 0, out);
    if (!oc_tpl_step(x, s->n)) return false;
    if (c->step == 1) {
        size_t begin = oc_tpl_offset(s, (size_t)c->start);
        const oc_tpl_str rest = {.at = s->at + begin, .n = s->n - begin, .ascii = s->ascii};
        return oc_tpl_part(x, s, begin, begin + oc_tpl_offset(&rest, c->n), out);
    }
    oc_tpl_value whole = {.kind = TV_STRING, .u.string = s};
    const oc_tpl_value *at;
    oc_tpl_buffer b = {0};
    size_t n;
    if (!oc_tpl_elements(x, &whole, &at, &n)) return false;
    for (size_t i = 0; i < c->n; i++) {
        const oc_tpl_str *one = at[c->start + c->step * (int64_t)i].u.string;
        if (!oc_tpl_put(x, &b, one->at, one->n)) return false;
    }
    return oc_tpl_buffer_value(x, &b, out);
}

bool oc_tpl_slice(oc_tpl *x, const oc_tpl_value *v, const oc_tpl_value bounds[3],
                  oc_tpl_value *out) {
    size_t n;
    cut c = {0};
    if (v->kind == TV_UNDEFINED) return oc_tpl_fail_undefined(x, v);
    if (v->kind != TV_STRING && v->kind != TV_LIST && v->kind != TV_TUPLE && v->kind != TV_RANGE)
        return oc_tpl_fail(x, OC_E_INVALID, "%s cannot be sliced", oc_tpl_type_name(v));
    if (!oc_tpl_length(x, v, &n) || !cut_of(x, bounds, n, &c)) return false;
    if (v->kind == TV_STRING) {
        if (!slice_string(x, v->u.string, &c, out)) return false;
        out->flag = v->flag;
        return true;
    }
    if (v->kind == TV_RANGE) return slice_range(x, v->u.range, &c, out);
    if (c.step == 1 || c.n == 0)
        return oc_tpl_sequence(x, (oc_tpl_kind)v->kind, c.n ? v->u.list->at + c.start : NULL, c.n,
                               out);
    oc_tpl_value *at = oc_tpl_new(x, c.n, sizeof *at);
    if (!at) return false;
    for (size_t i = 0; i < c.n; i++)
        at[i] = v->u.list->at[c.start + c.step * (int64_t)i];
    return oc_tpl_step(x, c.n) && oc_tpl_sequence(x, (oc_tpl_kind)v->kind, at, c.n, out);
}
