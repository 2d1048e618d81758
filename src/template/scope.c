/* scope.c - which names a scope hides.
 *
 * The reference decides before the render what a name refers to. A name that a scope binds before
 * it reads it, and that no outer scope mentions, belongs to that scope from its beginning: inner
 * scopes and macros that read it too early find it undefined, even where a variable of the render
 * has that name. All other names may be looked up as they are met. */
#include "template/internal.h"

#include <stdlib.h>
#include <string.h>

enum { NAME_NONE, NAME_READ, NAME_OUTER, NAME_HIDDEN, NAME_PARAMETER, NAME_STORED = 8 };

/* What a scope knows of each name, by id: one of the above, and whether it stores it. */
typedef struct symbols {
    const struct symbols *parent;
    uint8_t *names;
} symbols;

typedef struct finder {
    oc_tpl_parser *p;
    size_t n;
} finder;

static bool known(const symbols *s, int32_t name) {
    for (; s; s = s->parent)
        if (s->names[name] & 7) return true;
    return false;
}

static void set_kind(symbols *s, int32_t name, uint8_t kind) {
    s->names[name] = (uint8_t)((s->names[name] & NAME_STORED) | kind);
}

static void note_read(symbols *s, int32_t name) {
    if (!known(s, name)) set_kind(s, name, NAME_READ);
}

static void note_store(symbols *s, int32_t name) {
    if (!(s->names[name] & 7)) set_kind(s, name, known(s->parent, name) ? NAME_OUTER : NAME_HIDDEN);
    s->names[name] |= NAME_STORED;
}

static void note_parameter(symbols *s, int32_t name) {
    s->names[name] = NAME_STORED | NAME_PARAMETER;
}

static void read_expression(symbols *s, const oc_tpl_node *n);

static void read_args(symbols *s, const oc_tpl_args *args) {
    if (!args) return;
    for (size_t i = 0; i < args->n; i++)
        read_expression(s, args->positional[i]);
    for (size_t i = 0; i < args->n_named; i++)
        read_expression(s, args->named[i]);
    read_expression(s, args->star);
    read_expression(s, args->star_star);
}

/* Chains are long on one side, which is walked by the loop. */
static void read_expression(symbols *s, const oc_tpl_node *n) {
    while (n) {
        if (n->kind == N_NAME) note_read(s, n->name);
        for (size_t i = 0; i < n->n; i++)
            read_expression(s, n->items[i]);
        read_args(s, n->args);
        read_expression(s, n->c);
        if (n->kind == N_CONDITION) {
            read_expression(s, n->a);
            n = n->b;
        } else {
            read_expression(s, n->b);
            n = n->a;
        }
    }
}

static void note_target(symbols *s, const oc_tpl_node *n, bool parameter) {
    if (n->kind == N_NSREF) {
        note_read(s, n->name);
    } else if (n->kind == N_NAME) {
        if (parameter)
            note_parameter(s, n->name);
        else
            note_store(s, n->name);
    } else {
        for (size_t i = 0; i < n->n; i++)
            note_target(s, n->items[i], parameter);
    }
}

static bool note_body(finder *f, symbols *s, const oc_tpl_node *n);

/* Branches are read apart; what any of them stores is the scope's, and falls back to what the name
 * means outside. An elif is in the middle branch, with what follows it. */
static bool note_if(finder *f, symbols *s, const oc_tpl_node *n) {
    const oc_tpl_node *last = n;
    while (last->c)
        last = last->c;
    symbols branch[3];
    bool ok = true;
    read_expression(s, n->a);
    for (int b = 0; b < 3; b++) {
        branch[b] = (symbols){s->parent, malloc(f->n)};
        if (branch[b].names) memcpy(branch[b].names, s->names, f->n);
        ok = ok && branch[b].names;
    }
    ok = ok && note_body(f, &branch[0], n->body);
    for (const oc_tpl_node *e = n->c; ok && e; e = e->c) {
        oc_tpl_node alone = *e;
        alone.c = NULL;
        alone.other = NULL;
        ok = note_if(f, &branch[1], &alone);
    }
    ok = ok && note_body(f, &branch[2], last->other);
    for (size_t i = 0; ok && i < f->n; i++) {
        bool stored = s->names[i] & NAME_STORED, more = false;
        for (int b = 0; b < 3; b++) {
            if (branch[b].names[i] & 7) set_kind(s, (int32_t)i, branch[b].names[i] & 7);
            more = more || (branch[b].names[i] & NAME_STORED);
        }
        if (!more || stored) continue;
        s->names[i] = NAME_STORED | (known(s->parent, (int32_t)i) ? NAME_OUTER : NAME_READ);
    }
    for (int b = 0; b < 3; b++)
        free(branch[b].names);
    return ok || oc_tpl_syntax_memory(f->p);
}

static bool note_statement(finder *f, symbols *s, const oc_tpl_node *n) {
    switch (n->kind) {
    case S_IF:
        return note_if(f, s, n);
    case S_FOR:
        read_expression(s, n->b);
        break;
    case S_SET:
        read_expression(s, n->b);
        note_target(s, n->a, false);
        break;
    case S_SET_BLOCK:
        note_target(s, n->a, false);
        break;
    case S_MACRO:
        note_store(s, n->name);
        break;
    case S_WITH:
        for (size_t i = 1; i < n->n; i += 2)
            read_expression(s, n->items[i]);
        break;
    default:
        read_expression(s, n->a);
    }
    return true;
}

static bool note_body(finder *f, symbols *s, const oc_tpl_node *n) {
    for (; n; n = n->next)
        if (!note_statement(f, s, n)) return false;
    return true;
}

static bool keep_hidden(finder *f, const symbols *s, oc_tpl_hidden *out) {
    size_t n = 0;
    for (size_t i = 0; i < f->n; i++)
        n += (s->names[i] & 7) == NAME_HIDDEN;
    if (!n) return true;
    int32_t *names = oc_tpl_parser_take(f->p, n, sizeof *names);
    if (!names) return false;
    for (size_t i = 0, to = 0; i < f->n; i++)
        if ((s->names[i] & 7) == NAME_HIDDEN) names[to++] = (int32_t)i;
    *out = (oc_tpl_hidden){names, n};
    return true;
}

static bool scopes_of(finder *f, const symbols *s, oc_tpl_node *n);

/* A scope below `parent`: its parameters are in s already. */
static bool finish_scope(finder *f, symbols *s, oc_tpl_node *body, oc_tpl_hidden *out) {
    bool ok = note_body(f, s, body) && keep_hidden(f, s, out) && scopes_of(f, s, body);
    free(s->names);
    return ok;
}

static bool open_scope(finder *f, const symbols *parent, symbols *s) {
    *s = (symbols){parent, calloc(f->n + 1, 1)};
    return s->names || oc_tpl_syntax_memory(f->p);
}

static bool scopes_of_for(finder *f, const symbols *parent, oc_tpl_node *n) {
    symbols s;
    if (!open_scope(f, parent, &s)) return false;
    note_target(&s, n->a, true);
    if (!finish_scope(f, &s, n->body, &n->hidden)) return false;
    if (!open_scope(f, parent, &s)) return false;
    return finish_scope(f, &s, n->other, &n->hidden_other);
}

static bool scopes_of_function(finder *f, const symbols *parent, oc_tpl_node *n) {
    static const char *const special[] = {"caller", "varargs", "kwargs"};
    symbols s;
    if (!open_scope(f, parent, &s)) return false;
    bool has_names = n->kind == S_MACRO || n->kind == S_CALL;
    for (size_t i = 0; has_names && i < n->n; i++)
        note_parameter(&s, n->items[i]->name);
    for (size_t i = 0; has_names && i < n->n; i++)
        read_expression(&s, n->items[n->n + i]);
    for (int i = 0; i < 3; i++) {
        const oc_tpl_value *id = oc_tpl_dict_find(f->p->ids, special[i], strlen(special[i]));
        if (id) note_parameter(&s, (int32_t)id->u.integer);
    }
    return finish_scope(f, &s, n->body, &n->hidden);
}

static bool scopes_of_block(finder *f, const symbols *parent, oc_tpl_node *n) {
    symbols s;
    if (!open_scope(f, parent, &s)) return false;
    if (n->kind == S_WITH)
        for (size_t i = 0; i < n->n; i += 2)
            note_target(&s, n->items[i], true);
    return finish_scope(f, &s, n->body, &n->hidden);
}

static bool scopes_of(finder *f, const symbols *s, oc_tpl_node *n) {
    bool ok = true;
    for (; ok && n; n = n->next) {
        switch (n->kind) {
        case S_IF:
            for (oc_tpl_node *e = n; ok && e; e = e->c)
                ok = scopes_of(f, s, e->body) && scopes_of(f, s, e->other);
            break;
        case S_FOR:
            ok = scopes_of_for(f, s, n);
            break;
        case S_MACRO:
        case S_CALL:
        case S_GENERATION:
            ok = scopes_of_function(f, s, n);
            break;
        case S_SET_BLOCK:
        case S_FILTER:
        case S_WITH:
            ok = scopes_of_block(f, s, n);
            break;
        default:
            break;
        }
    }
    return ok;
}

bool oc_tpl_find_hidden(oc_tpl_parser *p) {
    finder f = {p, p->t->n_names};
    symbols root;
    return open_scope(&f, NULL, &root) && finish_scope(&f, &root, p->t->body, &p->t->hidden);
}
