/* eval.c - the values of expressions. */
#include "template/internal.h"

#include <string.h>

/* NULL where no scope binds the name. *looked counts the bindings passed by. */
static const oc_tpl_value *find_binding(const oc_tpl_scope *s, int32_t name, size_t *looked) {
    for (*looked = 0; s; s = s->parent) {
        for (size_t i = 0; i < s->n; i++)
            if (s->bindings[i].name == name) {
                *looked += i;
                return &s->bindings[i].value;
            }
        *looked += s->n;
    }
    return NULL;
}

static bool eval_name(oc_tpl *x, int32_t name, oc_tpl_value *out) {
    size_t looked;
    const oc_tpl_value *found = find_binding(x->scope, name, &looked);
    if (!found) found = &x->globals[name];
    if (!oc_tpl_step(x, looked)) return false;
    if (found->kind != TV_MISSING) {
        *out = *found;
        return true;
    }
    const oc_tpl_str *s = x->t->names[name];
    return oc_tpl_undefined(x, ABSENT_NAME, TV_NONE, s->at, s->n, out);
}

static bool eval_items(oc_tpl *x, const oc_tpl_node *n, oc_tpl_value *out) {
    oc_tpl_value *at = oc_tpl_new(x, n->n, sizeof *at);
    if (!at) return false;
    for (size_t i = 0; i < n->n; i++)
        if (!oc_tpl_eval(x, n->items[i], &at[i])) return false;
    return oc_tpl_sequence(x, n->kind == N_LIST ? TV_LIST : TV_TUPLE, at, n->n, out);
}

static bool eval_dict(oc_tpl *x, const oc_tpl_node *n, oc_tpl_value *out) {
    oc_tpl_dict *d = oc_tpl_new(x, 1, sizeof *d);
    if (!d) return false;
    d->message = NO_MESSAGE;
    for (size_t i = 0; i < n->n; i += 2) {
        oc_tpl_value key, value;
        if (!oc_tpl_eval(x, n->items[i], &key) || !oc_tpl_eval(x, n->items[i + 1], &value) ||
            !oc_tpl_hashable(x, &key))
            return false;
        if (!oc_tpl_dict_set(&x->arena, d, &key, value))
            return oc_tpl_fail(x, OC_E_MEMORY, "no memory for a dict");
    }
    *out = (oc_tpl_value){.kind = TV_DICT, .u.dict = d};
    return true;
}

static bool eval_sign(oc_tpl *x, const oc_tpl_node *n, oc_tpl_value *out) {
    oc_tpl_value v;
    int64_t i;
    if (!oc_tpl_eval(x, n->a, &v)) return false;
    x->line = n->line;
    if (v.kind == TV_UNDEFINED) return oc_tpl_fail_undefined(x, &v);
    if (!oc_tpl_is_number(&v))
        return oc_tpl_fail(x, OC_E_INVALID, "%s has no sign", oc_tpl_type_name(&v));
    if (!oc_tpl_as_int(&v, &i)) {
        *out = oc_tpl_float(n->kind == N_NEG ? -v.u.real : v.u.real);
        return true;
    }
    if (n->kind == N_NEG && __builtin_sub_overflow((int64_t)0, i, &i))
        return oc_tpl_fail(x, OC_E_OVERFLOW, "the result of - does not fit 64 bits");
    *out = oc_tpl_int(i);
    return true;
}

static bool eval_compare(oc_tpl *x, const oc_tpl_node *n, oc_tpl_value *out) {
    oc_tpl_value left, right;
    bool holds = true;
    if (!oc_tpl_eval(x, n->a, &left)) return false;
    for (size_t i = 0; holds && i < n->n; i++) {
        if (!oc_tpl_eval(x, n->items[i], &right)) return false;
        x->line = n->line;
        if (!oc_tpl_compare(x, (oc_tpl_op)n->ops[i], &left, &right, &holds)) return false;
        left = right;
    }
    *out = oc_tpl_bool(holds);
    return true;
}

static bool eval_concat(oc_tpl *x, const oc_tpl_node *n, oc_tpl_value *out) {
    oc_tpl_buffer b = {0};
    for (size_t i = 0; i < n->n; i++) {
        oc_tpl_value v;
        if (!oc_tpl_eval(x, n->items[i], &v)) return false;
        x->line = n->line;
        if (v.kind == TV_STRING ? !oc_tpl_put_marked(x, &b, v.u.string)
                                : !oc_tpl_put_str(x, &b, &v))
            return false;
    }
    return oc_tpl_buffer_value(x, &b, out);
}

static bool eval_condition(oc_tpl *x, const oc_tpl_node *n, oc_tpl_value *out) {
    oc_tpl_value v;
    if (!oc_tpl_eval(x, n->a, &v)) return false;
    if (oc_tpl_truthy(&v)) return oc_tpl_eval(x, n->b, out);
    if (n->c) return oc_tpl_eval(x, n->c, out);
    static const char hint[] = "the condition of an 'if' without 'else' did not hold";
    return oc_tpl_undefined(x, ABSENT_HINT, TV_NONE, hint, sizeof hint - 1, out);
}

static bool eval_base(oc_tpl *x, const oc_tpl_node *n, oc_tpl_value *out) {
    oc_tpl_value v;
    switch (n->kind) {
    case N_CONST:
        *out = n->constant;
        return true;
    case N_NAME:
        return eval_name(x, n->name, out);
    case N_HOLE:
        *out = x->hole;
        return true;
    case N_LIST:
    case N_TUPLE:
        return eval_items(x, n, out);
    case N_DICT:
        return eval_dict(x, n, out);
    case N_NOT:
        if (!oc_tpl_eval(x, n->a, &v)) return false;
        *out = oc_tpl_bool(!oc_tpl_truthy(&v));
        return true;
    case N_NEG:
    case N_POS:
        return eval_sign(x, n, out);
    case N_COMPARE:
        return eval_compare(x, n, out);
    case N_CONCAT:
        return eval_concat(x, n, out);
    case N_CONDITION:
        return eval_condition(x, n, out);
    default:
        return oc_tpl_fail(x, OC_E_INVALID, "this is no value");
    }
}

/* --- Calls */

static bool add_named(oc_tpl *x, oc_tpl_call *call, const oc_tpl_value *key, oc_tpl_value value) {
    if (!call->named) {
        call->named = oc_tpl_new(x, 1, sizeof *call->named);
        if (!call->named) return false;
        call->named->message = NO_MESSAGE;
    }
    if (oc_tpl_dict_get(call->named, key))
        return oc_tpl_fail(x, OC_E_INVALID, "the argument '%.*s' is given twice",
                           key->u.string->n < 100 ? (int)key->u.string->n : 100, key->u.string->at);
    return oc_tpl_dict_set(&x->arena, call->named, key, value) ||
           oc_tpl_fail(x, OC_E_MEMORY, "no memory for the arguments of a call");
}

static bool add_star_star(oc_tpl *x, const oc_tpl_node *n, oc_tpl_call *call) {
    oc_tpl_value more;
    if (!oc_tpl_eval(x, n, &more)) return false;
    if (more.kind == TV_UNDEFINED) return oc_tpl_fail_undefined(x, &more);
    if (more.kind != TV_DICT)
        return oc_tpl_fail(x, OC_E_INVALID, "** needs a dict, not %s", oc_tpl_type_name(&more));
    for (size_t i = 0; i < more.u.dict->n; i++) {
        const oc_tpl_entry *e = &more.u.dict->entries[i];
        if (e->key.kind != TV_STRING)
            return oc_tpl_fail(x, OC_E_INVALID, "the keys of a dict after ** must be strings");
        if (!add_named(x, call, &e->key, e->value)) return false;
    }
    return oc_tpl_step(x, more.u.dict->n);
}

static bool eval_args(oc_tpl *x, const oc_tpl_args *args, oc_tpl_call *call) {
    static const oc_tpl_value nothing[1];
    *call = (oc_tpl_call){.at = nothing};
    if (!args) return true;
    oc_tpl_value star;
    const oc_tpl_value *more = NULL;
    size_t n_more = 0;
    oc_tpl_value *at = oc_tpl_new(x, args->n + 1, sizeof *at);
    if (!at) return false;
    for (size_t i = 0; i < args->n; i++)
        if (!oc_tpl_eval(x, args->positional[i], &at[i])) return false;
    if (args->star &&
        (!oc_tpl_eval(x, args->star, &star) || !oc_tpl_elements(x, &star, &more, &n_more)))
        return false;
    if (n_more) {
        oc_tpl_value *all = oc_tpl_new(x, args->n + n_more, sizeof *all);
        if (!all) return false;
        memcpy(all, at, args->n * sizeof *all);
        memcpy(all + args->n, more, n_more * sizeof *all);
        at = all;
    }
    call->at = at;
    call->n = args->n + n_more;
    for (size_t i = 0; i < args->n_named; i++) {
        const oc_tpl_value key = {.kind = TV_STRING, .u.string = args->names[i]};
        oc_tpl_value value;
        if (!oc_tpl_eval(x, args->named[i], &value) || !add_named(x, call, &key, value))
            return false;
    }
    return !args->star_star || add_star_star(x, args->star_star, call);
}

bool oc_tpl_eval_call(oc_tpl *x, const oc_tpl_node *n, const oc_tpl_value *callee,
                      const oc_tpl_value *caller, oc_tpl_value *out) {
    static const oc_tpl_str word = {.at = "caller", .n = 6, .ascii = true};
    const oc_tpl_value key = {.kind = TV_STRING, .u.string = &word};
    oc_tpl_call call;
    if (!eval_args(x, n->args, &call)) return false;
    x->line = n->line;
    if (caller && !add_named(x, &call, &key, *caller)) return false;
    return oc_tpl_call_value(x, callee, &call, out);
}

static bool apply_filter(oc_tpl *x, const oc_tpl_node *n, const oc_tpl_value *v,
                         oc_tpl_value *out) {
    oc_tpl_call call;
    const oc_tpl_entry_point *e = n->entry;
    const oc_tpl_value name = {.kind = TV_STRING, .u.string = n->word};
    if (!e && !oc_tpl_filter_name(x, &name, &e)) return false;
    if (!eval_args(x, n->args, &call)) return false;
    x->line = n->line;
    return oc_tpl_invoke(x, e, "filter", v, &call, out);
}

static bool apply_test(oc_tpl *x, const oc_tpl_node *n, const oc_tpl_value *v, oc_tpl_value *out) {
    oc_tpl_call call;
    const oc_tpl_entry_point *e = n->entry;
    const oc_tpl_value name = {.kind = TV_STRING, .u.string = n->word};
    if (!e && !oc_tpl_test_name(x, &name, &e)) return false;
    if (!eval_args(x, n->args, &call)) return false;
    x->line = n->line;
    if (!oc_tpl_invoke(x, e, "test", v, &call, out)) return false;
    if (n->negated) *out = oc_tpl_bool(!oc_tpl_truthy(out));
    return true;
}

static bool apply_item(oc_tpl *x, const oc_tpl_node *n, const oc_tpl_value *v, oc_tpl_value *out) {
    oc_tpl_value key, bounds[3];
    if (n->b->kind != N_SLICE) {
        if (!oc_tpl_eval(x, n->b, &key)) return false;
        x->line = n->line;
        return oc_tpl_get_item(x, v, &key, out);
    }
    const oc_tpl_node *parts[3] = {n->b->a, n->b->b, n->b->c};
    for (int i = 0; i < 3; i++) {
        bounds[i] = oc_tpl_none();
        if (parts[i] && !oc_tpl_eval(x, parts[i], &bounds[i])) return false;
    }
    x->line = n->line;
    return oc_tpl_slice(x, v, bounds, out);
}

/* One step up the spine: n applied to the value of its left operand. */
static bool apply(oc_tpl *x, const oc_tpl_node *n, const oc_tpl_value *v, oc_tpl_value *out) {
    oc_tpl_value right;
    x->line = n->line;
    switch (n->kind) {
    case N_AND:
    case N_OR:
        *out = *v;
        return oc_tpl_truthy(v) != (n->kind == N_AND) || oc_tpl_eval(x, n->b, out);
    case N_BINARY:
        if (!oc_tpl_eval(x, n->b, &right)) return false;
        x->line = n->line;
        return oc_tpl_binary(x, (oc_tpl_op)n->op, v, &right, out);
    case N_ATTRIBUTE:
        return oc_tpl_get_attribute(x, v, n->word, out);
    case N_ITEM:
        return apply_item(x, n, v, out);
    case N_CALL:
        return oc_tpl_eval_call(x, n, v, NULL, out);
    case N_FILTER:
        return apply_filter(x, n, v, out);
    default:
        return apply_test(x, n, v, out);
    }
}

static bool on_spine(const oc_tpl_node *n) { return n->kind >= N_BINARY && n->kind <= N_TEST; }

bool oc_tpl_eval(oc_tpl *x, const oc_tpl_node *n, oc_tpl_value *out) {
    const oc_tpl_node *base = n;
    oc_tpl_value v, result;
    x->line = n->line;
    if (!oc_tpl_deeper(x) || !oc_tpl_step(x, 1)) return false;
    while (on_spine(base))
        base = base->a;
    if (!eval_base(x, base, &v)) return false;
    while (base != n) {
        base = base->up;
        if (!oc_tpl_step(x, 1) || !apply(x, base, &v, &result)) return false;
        v = result;
    }
    *out = v;
    x->depth--;
    return true;
}
