/* render.c - statements, scopes, and one render from variables to text. */
#include "template/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const oc_template_limits oc_template_default_limits = {10000000, 64u << 20, 100};

typedef enum flow { FLOW_FAILED, FLOW_NEXT, FLOW_BREAK, FLOW_CONTINUE } flow;

/* --- Errors and limits */

void oc_tpl_note_failure(oc_tpl *x, oc_status s, const char *fmt, ...) {
    char text[OC_ERROR_BYTES];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (x->status == OC_OK)
        x->status = oc_fail(x->err, s, "%s:%ld: %s", x->t->name, (long)x->line, text);
}

bool oc_tpl_step(oc_tpl *x, size_t work) {
    x->steps += 1 + work / 64;
    if (x->steps <= x->limits.steps) return true;
    return oc_tpl_fail(x, OC_E_OVERFLOW, "the template takes more than %llu steps",
                       (unsigned long long)x->limits.steps);
}

/* Calls are limited by `depth`; what is nested in each of them has ten levels on average. */
bool oc_tpl_deeper(oc_tpl *x) {
    if (x->depth++ < 10 * x->limits.depth) return true;
    return oc_tpl_fail(x, OC_E_OVERFLOW, "expressions, calls or values are nested too deep");
}

/* --- Scopes */

static bool bind(oc_tpl *x, int32_t name, oc_tpl_value value) {
    oc_tpl_scope *s = x->scope;
    for (size_t i = 0; i < s->n; i++)
        if (s->bindings[i].name == name) {
            s->bindings[i].value = value;
            return true;
        }
    if (s->n == s->room) {
        size_t room = s->room ? 2 * s->room : 8;
        oc_tpl_binding *more = oc_tpl_new(x, room, sizeof *more);
        if (!more) return false;
        if (s->n) memcpy(more, s->bindings, s->n * sizeof *more);
        s->bindings = more;
        s->room = room;
    }
    s->bindings[s->n++] = (oc_tpl_binding){name, value};
    return true;
}

static bool hide(oc_tpl *x, const oc_tpl_hidden *h) {
    for (size_t i = 0; i < h->n; i++)
        if (!bind(x, h->names[i], (oc_tpl_value){0})) return false;
    return true;
}

/* A scope below parent becomes the current one. */
static bool open_scope(oc_tpl *x, oc_tpl_scope *parent, const oc_tpl_hidden *hidden) {
    oc_tpl_scope *s = oc_tpl_new(x, 1, sizeof *s);
    if (!s) return false;
    s->parent = parent;
    x->scope = s;
    return hide(x, hidden);
}

static void keep_scopes(oc_tpl *x) {
    for (oc_tpl_scope *s = x->scope; s && !s->kept; s = s->parent)
        s->kept = true;
}

static bool assign(oc_tpl *x, const oc_tpl_node *target, const oc_tpl_value *v);

static bool assign_member(oc_tpl *x, const oc_tpl_node *target, const oc_tpl_value *v) {
    const oc_tpl_node name = {.kind = N_NAME, .line = target->line, .name = target->name};
    oc_tpl_value holder, key = {.kind = TV_STRING, .u.string = target->word};
    if (!oc_tpl_eval(x, &name, &holder)) return false;
    if (holder.kind != TV_NAMESPACE)
        return oc_tpl_fail(x, OC_E_INVALID, "only a namespace's attributes can be set, not %s's",
                           oc_tpl_type_name(&holder));
    if (target->word->at[0] == '_')
        return oc_tpl_fail(x, OC_E_INVALID,
                           "names in a namespace may not begin with an underscore");
    return oc_tpl_dict_set(&x->arena, holder.u.dict, &key, *v) ||
           oc_tpl_fail(x, OC_E_MEMORY, "no memory for a namespace");
}

static bool assign_several(oc_tpl *x, const oc_tpl_node *target, const oc_tpl_value *v) {
    const oc_tpl_value *at;
    size_t n;
    if (!oc_tpl_elements(x, v, &at, &n)) return false;
    if (n != target->n)
        return oc_tpl_fail(x, OC_E_INVALID, "%zu values for %zu names", n, target->n);
    for (size_t i = 0; i < n; i++)
        if (!assign(x, target->items[i], &at[i])) return false;
    return true;
}

static bool assign(oc_tpl *x, const oc_tpl_node *target, const oc_tpl_value *v) {
    x->line = target->line;
    if (target->kind == N_NAME) return bind(x, target->name, *v);
    if (target->kind == N_NSREF) return assign_member(x, target, v);
    return assign_several(x, target, v);
}

/* --- Output and who wrote it */

static bool add_mark(oc_tpl *x, oc_tpl_buffer *b, oc_tpl_mark m) {
    if (m.begin == m.end || (m.message == NO_MESSAGE && !m.generation)) return true;
    oc_tpl_mark *last = b->n_marks ? &b->marks[b->n_marks - 1] : NULL;
    if (last && last->end == m.begin && last->message == m.message &&
        last->generation == m.generation && last->quoted == m.quoted) {
        last->end = m.end;
        return true;
    }
    if (!b->marks || b->n_marks == b->marks_room) {
        size_t room = b->marks_room ? 2 * b->marks_room : 8;
        oc_tpl_mark *more = oc_tpl_new(x, room, sizeof *more);
        if (!more) return false;
        if (last) memcpy(more, b->marks, b->n_marks * sizeof *more);
        b->marks = more;
        b->marks_room = room;
    }
    b->marks[b->n_marks++] = m;
    return true;
}

/* Bytes of s, as m says (its places do not matter). */
static bool put_owned(oc_tpl *x, oc_tpl_buffer *b, const char *at, size_t n, oc_tpl_mark m) {
    m.begin = b->n;
    m.end = b->n + n;
    return oc_tpl_put(x, b, at, n) && add_mark(x, b, m);
}

static bool is_answer(const oc_tpl *x, size_t message) {
    return message < x->n_answers && x->answers[message];
}

/* Who a part of a captured text is written by, where `message` writes it. A quotation is its
 * owner's inside an answer, and the writer's elsewhere; an answer's words are the writer's. */
static oc_tpl_mark writer(const oc_tpl *x, const oc_tpl_mark *part, size_t message,
                          bool generation) {
    oc_tpl_mark m = *part;
    m.generation = generation || part->generation;
    if (message == NO_MESSAGE) return m;
    if (m.quoted && (!is_answer(x, message) || is_answer(x, m.message))) m.message = message;
    m.quoted = false;
    return m;
}

/* Text that was captured keeps its writers; the rest of it is `message`'s. */
static bool put_captured(oc_tpl *x, oc_tpl_buffer *b, const oc_tpl_str *s, size_t message,
                         bool generation) {
    const oc_tpl_mark rest = {.message = message, .generation = generation};
    size_t done = 0;
    for (size_t i = 0; i < s->n_marks; i++) {
        const oc_tpl_mark *m = &s->marks[i];
        if (m->message == message) x->own += m->end - m->begin;
        if (!put_owned(x, b, s->at + done, m->begin - done, rest) ||
            !put_owned(x, b, s->at + m->begin, m->end - m->begin,
                       m->message == NO_MESSAGE
                           ? (oc_tpl_mark){.message = message, .generation = true}
                           : writer(x, m, message, generation)))
            return false;
        done = m->end;
    }
    return put_owned(x, b, s->at + done, s->n - done, rest);
}

bool oc_tpl_put_marked(oc_tpl *x, oc_tpl_buffer *b, const oc_tpl_str *s) {
    return put_captured(x, b, s, NO_MESSAGE, false);
}

/* To the output. */
static bool write_value(oc_tpl *x, oc_tpl_value v) {
    size_t begin = x->out->n;
    if (v.kind == TV_STRING) return put_captured(x, x->out, v.u.string, x->message, x->generation);
    return oc_tpl_put_str(x, x->out, &v) &&
           add_mark(x, x->out, (oc_tpl_mark){begin, x->out->n, x->message, x->generation, false});
}

/* --- Statements */

static flow run(oc_tpl *x, const oc_tpl_node *n);

static flow passed(bool ok) { return ok ? FLOW_NEXT : FLOW_FAILED; }

static flow run_output(oc_tpl *x, const oc_tpl_node *n) {
    oc_tpl_value v;
    return passed(oc_tpl_eval(x, n->a, &v) && write_value(x, v));
}

/* What stands in the output from `begin` on is another's, if words of another stand there: an
 * answer that writes a tool's response writes what stands around it as well. */
static bool claim_frame(oc_tpl *x, size_t begin) {
    oc_tpl_buffer *b = x->out;
    size_t other = x->message, k = b->n_marks;
    if (x->t->has_generation || !is_answer(x, x->message)) return true;
    for (; k > 0 && b->marks[k - 1].end > begin; k--)
        if (!is_answer(x, b->marks[k - 1].message)) other = b->marks[k - 1].message;
    if (other == x->message) return true;
    if (b->marks[k].begin < begin) b->marks[k++].end = begin;
    b->n_marks = k;
    return add_mark(x, b, (oc_tpl_mark){begin, b->n, other, false, false});
}

/* A branch behind words of an answer that writes another's and none of its own. */
static flow run_branch(oc_tpl *x, const oc_tpl_node *body) {
    size_t begin = x->out->n, own = x->own;
    flow f = run(x, body);
    bool apart = x->own == own && own > x->own_before;
    return f != FLOW_FAILED && apart && !claim_frame(x, begin) ? FLOW_FAILED : f;
}

static flow run_if(oc_tpl *x, const oc_tpl_node *n) {
    for (; n; n = n->c) {
        oc_tpl_value v;
        if (!oc_tpl_eval(x, n->a, &v)) return FLOW_FAILED;
        if (oc_tpl_truthy(&v)) return run_branch(x, n->body);
        if (!n->c) return run_branch(x, n->other);
    }
    return FLOW_NEXT;
}

/* The elements for which the loop's condition holds. */
static bool select_elements(oc_tpl *x, const oc_tpl_node *n, const oc_tpl_value **at,
                            size_t *count) {
    oc_tpl_value *kept = oc_tpl_new(x, *count, sizeof *kept), v;
    oc_tpl_scope *outer = x->scope;
    size_t k = 0;
    if (!kept || !open_scope(x, outer, &n->hidden_test)) return false;
    for (size_t i = 0; i < *count; i++) {
        if (!assign(x, n->a, &(*at)[i]) || !oc_tpl_eval(x, n->c, &v)) return false;
        if (oc_tpl_truthy(&v)) kept[k++] = (*at)[i];
    }
    x->scope = outer;
    *at = kept;
    *count = k;
    return true;
}

static size_t message_of(const oc_tpl_value *v) {
    return v->kind == TV_DICT ? v->u.dict->message : NO_MESSAGE;
}

/* The message that a loop's target holds, or what it was. */
static size_t message_held(const oc_tpl_node *target, const oc_tpl_value *v, size_t otherwise) {
    size_t message = message_of(v);
    if (target->kind == N_TUPLE && (v->kind == TV_TUPLE || v->kind == TV_LIST))
        for (size_t i = 0; i < v->u.list->n && message == NO_MESSAGE; i++)
            message = message_of(&v->u.list->at[i]);
    return message == NO_MESSAGE ? otherwise : message;
}

static bool begin_iteration(oc_tpl *x, const oc_tpl_node *n, oc_tpl_scope *outer, oc_tpl_loop *l) {
    if (x->scope == outer || x->scope->kept) {
        if (!open_scope(x, outer, &n->hidden)) return false;
    } else {
        x->scope->n = 0;
        if (!hide(x, &n->hidden)) return false;
    }
    const oc_tpl_value loop = {.kind = TV_LOOP, .u.loop = l};
    return (x->loop < 0 || bind(x, x->loop, loop)) && assign(x, n->a, &l->at[l->index]) &&
           oc_tpl_step(x, 1);
}

/* A turn of a loop over numbers finds another's text, a tool's response, by its place. */
static bool claim_turn(oc_tpl *x, const oc_tpl_value *turn, size_t begin) {
    return turn->kind != TV_INT || claim_frame(x, begin);
}

/* *completed: some iteration came to the end of the body. */
static flow run_iterations(oc_tpl *x, const oc_tpl_node *n, oc_tpl_loop *l, bool *completed) {
    oc_tpl_scope *outer = x->scope;
    size_t message = x->message, before = x->own_before;
    bool by_number = x->by_number;
    flow f = FLOW_NEXT;
    for (l->index = 0; l->index < l->n && f != FLOW_BREAK; l->index++) {
        if (!begin_iteration(x, n, outer, l)) return FLOW_FAILED;
        oc_tpl_scope *mine = x->scope;
        x->message = message_held(n->a, &l->at[l->index], message);
        if (x->message != message) x->own_before = x->own;
        x->by_number = l->at[l->index].kind == TV_INT && x->message == NO_MESSAGE;
        size_t begin = x->out->n;
        f = run(x, n->body);
        if (f == FLOW_FAILED || !claim_turn(x, &l->at[l->index], begin)) return FLOW_FAILED;
        *completed |= f == FLOW_NEXT;
        x->scope = mine;
    }
    x->scope = outer;
    x->message = message;
    x->own_before = before;
    x->by_number = by_number;
    return FLOW_NEXT;
}

/* As the reference: else is run, too, when no iteration reached the end of the body. */
static flow run_for(oc_tpl *x, const oc_tpl_node *n) {
    oc_tpl_value v;
    bool completed = false;
    oc_tpl_loop *l = oc_tpl_new(x, 1, sizeof *l);
    if (!l || !oc_tpl_eval(x, n->b, &v) || !oc_tpl_elements(x, &v, &l->at, &l->n))
        return FLOW_FAILED;
    if (n->c && !select_elements(x, n, &l->at, &l->n)) return FLOW_FAILED;
    if (run_iterations(x, n, l, &completed) == FLOW_FAILED) return FLOW_FAILED;
    if (completed || !n->other) return FLOW_NEXT;
    oc_tpl_scope *outer = x->scope;
    if (!open_scope(x, outer, &n->hidden_other)) return FLOW_FAILED;
    flow f = run(x, n->other);
    x->scope = outer;
    return f;
}

/* {% set m = messages[i] %} in a turn of a loop over numbers makes it that message's turn. */
static flow run_set(oc_tpl *x, const oc_tpl_node *n) {
    oc_tpl_value v;
    if (!oc_tpl_eval(x, n->b, &v) || !assign(x, n->a, &v)) return FLOW_FAILED;
    if (!x->by_number || n->a->kind != N_NAME || message_of(&v) == NO_MESSAGE) return FLOW_NEXT;
    x->message = message_of(&v);
    x->own_before = x->own;
    x->by_number = false;
    return FLOW_NEXT;
}

/* Runs the body in a scope of its own into a text. */
static flow capture(oc_tpl *x, const oc_tpl_node *n, const oc_tpl_node *filters,
                    oc_tpl_value *out) {
    oc_tpl_buffer b = {0}, *outer_out = x->out;
    oc_tpl_scope *outer = x->scope;
    if (!open_scope(x, outer, &n->hidden)) return FLOW_FAILED;
    x->out = &b;
    flow f = run(x, n->body);
    x->out = outer_out;
    if (f == FLOW_NEXT && !oc_tpl_buffer_value(x, &b, out)) f = FLOW_FAILED;
    if (f == FLOW_NEXT && filters) {
        oc_tpl_value before = x->hole;
        x->hole = *out;
        if (!oc_tpl_eval(x, filters, out)) f = FLOW_FAILED;
        x->hole = before;
    }
    x->scope = outer;
    return f;
}

static flow run_set_block(oc_tpl *x, const oc_tpl_node *n) {
    oc_tpl_value v;
    flow f = capture(x, n, n->b, &v);
    return f == FLOW_NEXT ? passed(assign(x, n->a, &v)) : f;
}

static flow run_filter(oc_tpl *x, const oc_tpl_node *n) {
    oc_tpl_value v;
    flow f = capture(x, n, n->a, &v);
    if (f != FLOW_NEXT) return f;
    x->line = n->line;
    if (v.kind != TV_STRING)
        return passed(oc_tpl_fail(x, OC_E_INVALID,
                                  "the filters of a filter block must give a str, not %s",
                                  oc_tpl_type_name(&v)));
    return passed(write_value(x, v));
}

static bool new_macro(oc_tpl *x, const oc_tpl_node *n, oc_tpl_value *out) {
    oc_tpl_macro *m = oc_tpl_new(x, 1, sizeof *m);
    if (!m) return false;
    keep_scopes(x);
    *m = (oc_tpl_macro){n, x->scope};
    *out = (oc_tpl_value){.kind = TV_MACRO, .u.macro = m};
    return true;
}

static flow run_macro(oc_tpl *x, const oc_tpl_node *n) {
    oc_tpl_value v;
    return passed(new_macro(x, n, &v) && bind(x, n->name, v));
}

static flow run_call(oc_tpl *x, const oc_tpl_node *n) {
    oc_tpl_value caller, callee, v;
    return passed(new_macro(x, n, &caller) && oc_tpl_eval(x, n->a->a, &callee) &&
                  oc_tpl_eval_call(x, n->a, &callee, &caller, &v) && write_value(x, v));
}

static flow run_generation(oc_tpl *x, const oc_tpl_node *n) {
    oc_tpl_scope *outer = x->scope;
    bool before = x->generation;
    if (!open_scope(x, outer, &n->hidden)) return FLOW_FAILED;
    x->generation = true;
    flow f = run(x, n->body);
    x->generation = before;
    x->scope = outer;
    return f;
}

static flow run_with(oc_tpl *x, const oc_tpl_node *n) {
    oc_tpl_scope *outer = x->scope, *inner;
    if (!open_scope(x, outer, &n->hidden)) return FLOW_FAILED;
    inner = x->scope;
    for (size_t i = 0; i < n->n; i += 2) {
        oc_tpl_value v;
        x->scope = outer;
        if (!oc_tpl_eval(x, n->items[i + 1], &v)) return FLOW_FAILED;
        x->scope = inner;
        if (!assign(x, n->items[i], &v)) return FLOW_FAILED;
    }
    x->scope = inner;
    flow f = run(x, n->body);
    x->scope = outer;
    return f;
}

static flow run_text(oc_tpl *x, const oc_tpl_node *n) {
    return passed(put_captured(x, x->out, n->word, x->message, x->generation));
}

static flow run_break(oc_tpl *x, const oc_tpl_node *n) {
    (void)x;
    return n->kind == S_BREAK ? FLOW_BREAK : FLOW_CONTINUE;
}

static flow run(oc_tpl *x, const oc_tpl_node *n) {
    static flow (*const runners[])(oc_tpl *, const oc_tpl_node *) = {
        [S_TEXT] = run_text,
        [S_OUTPUT] = run_output,
        [S_IF] = run_if,
        [S_FOR] = run_for,
        [S_SET] = run_set,
        [S_SET_BLOCK] = run_set_block,
        [S_MACRO] = run_macro,
        [S_CALL] = run_call,
        [S_FILTER] = run_filter,
        [S_WITH] = run_with,
        [S_GENERATION] = run_generation,
        [S_BREAK] = run_break,
        [S_CONTINUE] = run_break,
    };
    flow f = FLOW_NEXT;
    if (!oc_tpl_deeper(x)) return FLOW_FAILED;
    for (; n && f == FLOW_NEXT; n = n->next) {
        x->line = n->line;
        if (!oc_tpl_step(x, 1)) return FLOW_FAILED;
        f = runners[n->kind](x, n);
    }
    x->depth--;
    return f;
}

/* --- Macros */

static bool missing_parameter(oc_tpl *x, const oc_tpl_str *name, oc_tpl_value *out) {
    char text[160];
    int n = snprintf(text, sizeof text, "the parameter '%.*s' was not given",
                     name->n < 100 ? (int)name->n : 100, name->at);
    oc_tpl_value copy;
    return oc_tpl_copy(x, text, (size_t)n, &copy) &&
           oc_tpl_undefined(x, ABSENT_HINT, TV_MACRO, copy.u.string->at, copy.u.string->n, out);
}

/* Gives each parameter its value; *taken counts the named arguments that were used. */
static bool bind_parameters(oc_tpl *x, const oc_tpl_node *n, const oc_tpl_call *call,
                            size_t *taken) {
    oc_tpl_value *at = oc_tpl_new(x, n->n, sizeof *at);
    if (!at) return false;
    for (size_t i = 0; i < n->n; i++) {
        const oc_tpl_str *name = x->t->names[n->items[i]->name];
        const oc_tpl_value *named =
            call->named && i >= call->n ? oc_tpl_dict_find(call->named, name->at, name->n) : NULL;
        if (i < call->n) at[i] = call->at[i];
        if (named) {
            at[i] = *named;
            ++*taken;
        }
        if (!bind(x, n->items[i]->name, at[i])) return false;
    }
    for (size_t i = 0; i < n->n; i++) {
        const oc_tpl_node *fallback = n->items[n->n + i];
        if (at[i].kind != TV_MISSING) continue;
        if (fallback ? !oc_tpl_eval(x, fallback, &at[i])
                     : !missing_parameter(x, x->t->names[n->items[i]->name], &at[i]))
            return false;
        if (!bind(x, n->items[i]->name, at[i])) return false;
    }
    return true;
}

static bool is_parameter(const oc_tpl_node *n, int32_t name) {
    for (size_t i = 0; i < n->n; i++)
        if (n->items[i]->name == name) return true;
    return false;
}

static bool bind_caller(oc_tpl *x, const oc_tpl_call *call, size_t *taken) {
    const oc_tpl_value *given = call->named ? oc_tpl_dict_find(call->named, "caller", 6) : NULL;
    oc_tpl_value v;
    if (given) {
        ++*taken;
        return bind(x, x->caller, *given);
    }
    return oc_tpl_undefined(x, ABSENT_HINT, TV_MACRO, "the macro was not called by a call block",
                            40, &v) &&
           bind(x, x->caller, v);
}

/* The named arguments that are neither parameters nor the caller. */
static bool rest_of_named(oc_tpl *x, const oc_tpl_node *n, const oc_tpl_call *call, bool caller,
                          oc_tpl_value *out) {
    oc_tpl_dict *d = oc_tpl_new(x, 1, sizeof *d);
    if (!d) return false;
    d->message = NO_MESSAGE;
    for (size_t i = 0; call->named && i < call->named->n; i++) {
        const oc_tpl_entry *e = &call->named->entries[i];
        bool used = caller && oc_tpl_is(&e->key, "caller");
        for (size_t k = call->n; k < n->n && !used; k++) {
            const oc_tpl_str *name = x->t->names[n->items[k]->name];
            used = name->n == e->key.u.string->n &&
                   memcmp(name->at, e->key.u.string->at, name->n) == 0;
        }
        if (!used && !oc_tpl_dict_set(&x->arena, d, &e->key, e->value))
            return oc_tpl_fail(x, OC_E_MEMORY, "no memory for the arguments of a macro");
    }
    *out = (oc_tpl_value){.kind = TV_DICT, .u.dict = d};
    return true;
}

static bool bind_arguments(oc_tpl *x, const oc_tpl_node *n, const oc_tpl_call *call) {
    size_t taken = 0;
    oc_tpl_value v;
    bool caller = n->uses_caller && !is_parameter(n, x->caller);
    if (!bind_parameters(x, n, call, &taken)) return false;
    if (caller && !bind_caller(x, call, &taken)) return false;
    if (n->uses_kwargs && !is_parameter(n, x->kwargs)) {
        if (!rest_of_named(x, n, call, caller, &v) || !bind(x, x->kwargs, v)) return false;
    } else if (call->named && taken < call->named->n) {
        return oc_tpl_fail(x, OC_E_INVALID, "a macro is called with an argument it does not have");
    }
    size_t extra = call->n > n->n ? call->n - n->n : 0;
    if (n->uses_varargs && !is_parameter(n, x->varargs))
        return oc_tpl_sequence(x, TV_TUPLE, extra ? call->at + n->n : NULL, extra, &v) &&
               bind(x, x->varargs, v);
    if (extra)
        return oc_tpl_fail(x, OC_E_INVALID, "a macro takes %zu arguments and is given %zu", n->n,
                           call->n);
    return true;
}

bool oc_tpl_call_macro(oc_tpl *x, const oc_tpl_macro *m, const oc_tpl_call *call,
                       oc_tpl_value *out) {
    oc_tpl_buffer b = {0}, *outer_out = x->out;
    oc_tpl_scope *outer = x->scope;
    bool generation = x->generation;
    if (x->calls++ == x->limits.depth)
        return oc_tpl_fail(x, OC_E_OVERFLOW, "macros call each other more than %d deep",
                           (int)x->limits.depth);
    if (!open_scope(x, m->scope, &m->node->hidden) || !bind_arguments(x, m->node, call))
        return false;
    x->out = &b;
    if (run(x, m->node->body) == FLOW_FAILED) return false;
    x->out = outer_out;
    x->scope = outer;
    x->generation = generation;
    x->calls--;
    return oc_tpl_buffer_value(x, &b, out);
}

/* --- One render */

static bool function_named(const oc_tpl_str *name, oc_tpl_value *out) {
    for (int32_t i = 0; oc_tpl_functions[i].name; i++)
        if (strlen(oc_tpl_functions[i].name) == name->n &&
            memcmp(oc_tpl_functions[i].name, name->at, name->n) == 0) {
            *out = (oc_tpl_value){.kind = TV_FUNCTION, .id = i};
            return true;
        }
    return false;
}

static bool is_name(const oc_tpl_str *s, const char *word) {
    return s->n == strlen(word) && memcmp(s->at, word, s->n) == 0;
}

/* Only what the template names is read. */
static bool load_variables(oc_tpl *x, const json_t *variables) {
    x->globals = oc_tpl_new(x, x->t->n_names + 1, sizeof *x->globals);
    if (!x->globals) return false;
    x->loop = x->caller = x->varargs = x->kwargs = -1;
    for (size_t i = 0; i < x->t->n_names; i++) {
        const oc_tpl_str *name = x->t->names[i];
        const json_t *v = json_object_getn(variables, name->at, name->n);
        if (is_name(name, "loop")) x->loop = (int32_t)i;
        if (is_name(name, "caller")) x->caller = (int32_t)i;
        if (is_name(name, "varargs")) x->varargs = (int32_t)i;
        if (is_name(name, "kwargs")) x->kwargs = (int32_t)i;
        if (!v) {
            function_named(name, &x->globals[i]);
            continue;
        }
        if (!oc_tpl_from_json(x, v, &x->globals[i])) return false;
        if (is_name(name, "messages") && !oc_tpl_number_messages(x, &x->globals[i])) return false;
    }
    return true;
}

/* The text and its runs, in memory of their own. */
static bool finish(oc_tpl *x, const oc_tpl_buffer *b, oc_rendered *out) {
    char *text = malloc(b->n + 1);
    oc_render_run *runs = malloc((b->n_marks + 1) * sizeof *runs);
    size_t n = 0;
    if (!text || !runs) {
        free(text);
        free(runs);
        return oc_tpl_fail(x, OC_E_MEMORY, "no memory for the text");
    }
    if (b->n) memcpy(text, b->at, b->n);
    text[b->n] = '\0';
    for (size_t i = 0; i < b->n_marks; i++) {
        const oc_tpl_mark *m = &b->marks[i];
        bool of_one = m->message < CONTEXT_MESSAGE && !m->quoted;
        if (of_one || m->generation)
            runs[n++] = (oc_render_run){m->begin, m->end, of_one ? m->message : OC_RENDER_NOBODY,
                                        m->generation};
    }
    *out = (oc_rendered){text, b->n, runs, n, x->t->has_generation};
    return true;
}

static bool render(oc_tpl *x, const json_t *variables, oc_rendered *out) {
    oc_tpl_buffer b = {0};
    x->line = 1;
    if (!json_is_object(variables))
        return oc_tpl_fail(x, OC_E_INVALID, "the variables of a template must be an object");
    x->out = &b;
    return load_variables(x, variables) && open_scope(x, NULL, &x->t->hidden) &&
           run(x, x->t->body) != FLOW_FAILED && finish(x, &b, out);
}

oc_status oc_template_render(const oc_template *t, const json_t *variables,
                             const oc_template_limits *limits, const int64_t *now, oc_rendered *out,
                             oc_error *err) {
    oc_tpl x = {.t = t,
                .limits = limits ? *limits : oc_template_default_limits,
                .now = now,
                .err = err,
                .message = NO_MESSAGE};
    memset(out, 0, sizeof *out);
    if (x.limits.depth < 1 || x.limits.depth > TEMPLATE_DEPTH)
        return oc_fail(err, OC_E_INVALID, "%s: the limit of depth must be 1 to %d", t->name,
                       TEMPLATE_DEPTH);
    /* What is dropped on the way stays until the end. */
    if (__builtin_mul_overflow(x.limits.output, (size_t)16, &x.arena.most) ||
        __builtin_add_overflow(x.arena.most, (size_t)16 << 20, &x.arena.most))
        x.arena.most = SIZE_MAX;
    if (!render(&x, variables, out) && x.status == OC_OK)
        x.status = oc_fail(err, OC_E_MEMORY, "%s: no memory to render it", t->name);
    oc_tpl_arena_release(&x.arena);
    return x.status;
}

void oc_rendered_free(oc_rendered *r) {
    if (!r) return;
    free(r->text);
    free(r->runs);
    memset(r, 0, sizeof *r);
}
