/* expr.c - expressions, by recursive descent in the language's order of precedence.
 *
 * Chains (a + b + c, a.b[c]|d) are left-deep; each left operand knows its parent, so that they are
 * evaluated by a loop and their length is no depth. */
#include "template/internal.h"

#include <string.h>

static oc_tpl_node *parse_unary(oc_tpl_parser *p, bool with_filter);

static oc_tpl_node *new_left(oc_tpl_parser *p, oc_tpl_node_kind kind, int32_t line,
                             oc_tpl_node *left) {
    oc_tpl_node *n = oc_tpl_node_new(p, kind, line);
    if (!n) return NULL;
    n->a = left;
    left->up = n;
    return n;
}

static bool accept(oc_tpl_parser *p, oc_tpl_token_kind kind) {
    if (p->token->kind != kind) return false;
    p->token++;
    return true;
}

static bool accept_word(oc_tpl_parser *p, const char *word) {
    if (!oc_tpl_is_word(p->token, word)) return false;
    p->token++;
    return true;
}

/* --- Growing lists of nodes */

typedef struct nodes {
    oc_tpl_node **at;
    size_t n, room;
} nodes;

static bool add(oc_tpl_parser *p, nodes *list, oc_tpl_node *node) {
    if (!node) return false;
    if (list->n == list->room) {
        size_t room = list->room ? 2 * list->room : 4;
        oc_tpl_node **more = oc_tpl_parser_take(p, room, sizeof(oc_tpl_node *));
        if (!more) return false;
        if (list->n) memcpy(more, list->at, list->n * sizeof(oc_tpl_node *));
        list->at = more;
        list->room = room;
    }
    list->at[list->n++] = node;
    return true;
}

static oc_tpl_node *with_items(oc_tpl_node *n, const nodes *list) {
    if (!n) return NULL;
    n->items = list->at;
    n->n = list->n;
    return n;
}

/* --- Primaries */

static oc_tpl_node *constant(oc_tpl_parser *p, oc_tpl_value v, int32_t line) {
    oc_tpl_node *n = oc_tpl_node_new(p, N_CONST, line);
    if (n) n->constant = v;
    return n;
}

/* Neighbouring strings are one. */
static oc_tpl_node *parse_strings(oc_tpl_parser *p) {
    const oc_tpl_token *first = p->token;
    size_t n = 0;
    for (; p->token->kind == T_STRING; p->token++)
        n += p->token->n;
    const char *at = first->at;
    if (p->token - first > 1) {
        char *joined = oc_tpl_parser_take(p, n + 1, 1);
        if (!joined) return NULL;
        size_t used = 0;
        for (const oc_tpl_token *t = first; t < p->token; used += t->n, t++)
            memcpy(joined + used, t->at, t->n);
        at = joined;
    }
    const oc_tpl_str *s = oc_tpl_parser_string(p, at, n);
    if (!s) return NULL;
    return constant(p, (oc_tpl_value){.kind = TV_STRING, .u.string = s}, first->line);
}

static void mark_macros(oc_tpl_parser *p, const oc_tpl_token *name) {
    bool caller = oc_tpl_is_word(name, "caller"), varargs = oc_tpl_is_word(name, "varargs"),
         kwargs = oc_tpl_is_word(name, "kwargs");
    for (int i = 0; i < p->n_macros; i++) {
        p->macros[i]->uses_caller |= caller;
        p->macros[i]->uses_varargs |= varargs;
        p->macros[i]->uses_kwargs |= kwargs;
    }
}

static oc_tpl_node *parse_name(oc_tpl_parser *p, bool with_namespace) {
    const oc_tpl_token *t = p->token++;
    if (oc_tpl_is_word(t, "true") || oc_tpl_is_word(t, "True"))
        return constant(p, oc_tpl_bool(true), t->line);
    if (oc_tpl_is_word(t, "false") || oc_tpl_is_word(t, "False"))
        return constant(p, oc_tpl_bool(false), t->line);
    if (oc_tpl_is_word(t, "none") || oc_tpl_is_word(t, "None"))
        return constant(p, oc_tpl_none(), t->line);
    bool reference = with_namespace && p->token->kind == T_DOT;
    oc_tpl_node *n = oc_tpl_node_new(p, reference ? N_NSREF : N_NAME, t->line);
    if (!n || !oc_tpl_name_id(p, t->at, t->n, &n->name)) return NULL;
    if (!reference) {
        mark_macros(p, t);
        return n;
    }
    p->token++;
    const oc_tpl_token *attribute = p->token;
    if (!oc_tpl_expect(p, T_NAME)) return NULL;
    n->word = oc_tpl_parser_string(p, attribute->at, attribute->n);
    return n->word ? n : NULL;
}

static oc_tpl_node *parse_list(oc_tpl_parser *p) {
    int32_t line = p->token->line;
    nodes list = {0};
    p->token++;
    while (p->token->kind != T_RBRACKET) {
        if (list.n && !oc_tpl_expect(p, T_COMMA)) return NULL;
        if (p->token->kind == T_RBRACKET) break;
        if (!add(p, &list, oc_tpl_parse_expression(p))) return NULL;
    }
    p->token++;
    return with_items(oc_tpl_node_new(p, N_LIST, line), &list);
}

/* Items are key, value, key, value ... */
static oc_tpl_node *parse_dict(oc_tpl_parser *p) {
    int32_t line = p->token->line;
    nodes list = {0};
    p->token++;
    while (p->token->kind != T_RBRACE) {
        if (list.n && !oc_tpl_expect(p, T_COMMA)) return NULL;
        if (p->token->kind == T_RBRACE) break;
        if (!add(p, &list, oc_tpl_parse_expression(p)) || !oc_tpl_expect(p, T_COLON) ||
            !add(p, &list, oc_tpl_parse_expression(p)))
            return NULL;
    }
    p->token++;
    return with_items(oc_tpl_node_new(p, N_DICT, line), &list);
}

static oc_tpl_node *parse_primary_inside(oc_tpl_parser *p, bool with_namespace) {
    const oc_tpl_token *t = p->token;
    oc_tpl_node *n;
    char shown[64];
    switch (t->kind) {
    case T_NAME:
        return parse_name(p, with_namespace);
    case T_STRING:
        return parse_strings(p);
    case T_INT:
        p->token++;
        return constant(p, oc_tpl_int(t->integer), t->line);
    case T_FLOAT:
        p->token++;
        return constant(p, oc_tpl_float(t->real), t->line);
    case T_LPAREN:
        p->token++;
        n = oc_tpl_parse_tuple(p, true, NULL, true);
        return n && oc_tpl_expect(p, T_RPAREN) ? n : NULL;
    case T_LBRACKET:
        return parse_list(p);
    case T_LBRACE:
        return parse_dict(p);
    default:
        oc_tpl_syntax(p, t->line, OC_E_FORMAT, "expected an expression, found '%s'",
                      oc_tpl_token_text(t, shown));
        return NULL;
    }
}

static oc_tpl_node *parse_primary(oc_tpl_parser *p, bool with_namespace) {
    if (!oc_tpl_enter(p)) return NULL;
    oc_tpl_node *n = parse_primary_inside(p, with_namespace);
    p->depth--;
    return n;
}

/* --- Calls, attributes, items, filters, tests */

static bool parse_argument(oc_tpl_parser *p, oc_tpl_args *args, nodes *positional, nodes *named,
                           nodes *names) {
    bool star = p->token->kind == T_MUL, star_star = p->token->kind == T_POW;
    bool keyword = p->token->kind == T_NAME && p->token[1].kind == T_ASSIGN;
    bool misplaced = star        ? args->star || args->star_star
                     : star_star ? args->star_star != NULL
                     : keyword   ? args->star_star != NULL
                                 : args->star || args->star_star || named->n;
    if (misplaced)
        return oc_tpl_syntax(p, p->token->line, OC_E_FORMAT,
                             "an argument stands after others that must come last");
    if (star || star_star) {
        p->token++;
        oc_tpl_node **to = star ? &args->star : &args->star_star;
        *to = oc_tpl_parse_expression(p);
        return *to != NULL;
    }
    if (!keyword) return add(p, positional, oc_tpl_parse_expression(p));
    /* The names travel as constants until all are known. */
    const oc_tpl_str *name = oc_tpl_parser_string(p, p->token->at, p->token->n);
    if (!name) return false;
    for (size_t i = 0; i < names->n; i++)
        if (names->at[i]->word->n == name->n &&
            memcmp(names->at[i]->word->at, name->at, name->n) == 0)
            return oc_tpl_syntax(p, p->token->line, OC_E_FORMAT, "the argument %.*s is given twice",
                                 (int)name->n, name->at);
    oc_tpl_node *holder = oc_tpl_node_new(p, N_CONST, p->token->line);
    if (!add(p, names, holder)) return false;
    holder->word = name;
    p->token += 2;
    return add(p, named, oc_tpl_parse_expression(p));
}

static oc_tpl_args *parse_arguments(oc_tpl_parser *p) {
    oc_tpl_args *args = oc_tpl_parser_take(p, 1, sizeof *args);
    nodes positional = {0}, named = {0}, names = {0};
    bool more = false;
    if (!args) return NULL;
    p->token++;
    while (p->token->kind != T_RPAREN) {
        if (more && !oc_tpl_expect(p, T_COMMA)) return NULL;
        if (more && p->token->kind == T_RPAREN) break;
        if (!parse_argument(p, args, &positional, &named, &names)) return NULL;
        more = true;
    }
    p->token++;
    args->positional = positional.at;
    args->n = positional.n;
    args->named = named.at;
    args->n_named = named.n;
    if (named.n) {
        args->names = oc_tpl_parser_take(p, named.n, sizeof *args->names);
        if (!args->names) return NULL;
        for (size_t i = 0; i < named.n; i++)
            args->names[i] = names.at[i]->word;
    }
    return args;
}

static oc_tpl_node *parse_call(oc_tpl_parser *p, oc_tpl_node *operand) {
    oc_tpl_node *n = new_left(p, N_CALL, p->token->line, operand);
    if (!n) return NULL;
    n->args = parse_arguments(p);
    return n->args ? n : NULL;
}

/* One bound of a slice, or NULL with *ok where it is left out. */
static oc_tpl_node *parse_bound(oc_tpl_parser *p, bool *ok) {
    *ok = true;
    if (p->token->kind == T_COLON || p->token->kind == T_RBRACKET || p->token->kind == T_COMMA)
        return NULL;
    oc_tpl_node *n = oc_tpl_parse_expression(p);
    *ok = n != NULL;
    return n;
}

static oc_tpl_node *parse_subscribed(oc_tpl_parser *p) {
    int32_t line = p->token->line;
    bool ok;
    oc_tpl_node *first = NULL;
    if (p->token->kind != T_COLON) {
        first = oc_tpl_parse_expression(p);
        if (!first || p->token->kind != T_COLON) return first;
    }
    p->token++;
    oc_tpl_node *n = oc_tpl_node_new(p, N_SLICE, line);
    if (!n) return NULL;
    n->a = first;
    n->b = parse_bound(p, &ok);
    if (!ok) return NULL;
    if (accept(p, T_COLON)) n->c = parse_bound(p, &ok);
    return ok ? n : NULL;
}

static oc_tpl_node *parse_brackets(oc_tpl_parser *p, oc_tpl_node *n) {
    nodes list = {0};
    int32_t line = p->token->line;
    p->token++;
    while (p->token->kind != T_RBRACKET) {
        if (list.n && !oc_tpl_expect(p, T_COMMA)) return NULL;
        if (!add(p, &list, parse_subscribed(p))) return NULL;
    }
    p->token++;
    if (list.n == 1) {
        n->b = list.at[0];
        return n;
    }
    for (size_t i = 0; i < list.n; i++)
        if (list.at[i]->kind == N_SLICE) {
            oc_tpl_syntax(p, line, OC_E_UNSUPPORTED, "a slice among several subscripts");
            return NULL;
        }
    n->b = with_items(oc_tpl_node_new(p, N_TUPLE, line), &list);
    return n->b ? n : NULL;
}

static oc_tpl_node *parse_subscript(oc_tpl_parser *p, oc_tpl_node *operand) {
    int32_t line = p->token->line;
    if (p->token->kind == T_LBRACKET) {
        oc_tpl_node *n = new_left(p, N_ITEM, line, operand);
        return n ? parse_brackets(p, n) : NULL;
    }
    p->token++;
    const oc_tpl_token *t = p->token++;
    if (t->kind == T_NAME) {
        oc_tpl_node *n = new_left(p, N_ATTRIBUTE, line, operand);
        if (!n) return NULL;
        n->word = oc_tpl_parser_string(p, t->at, t->n);
        return n->word ? n : NULL;
    }
    if (t->kind != T_INT) {
        p->token--;
        oc_tpl_syntax(p, t->line, OC_E_FORMAT, "expected a name or a number after '.'");
        return NULL;
    }
    oc_tpl_node *n = new_left(p, N_ITEM, line, operand);
    if (!n) return NULL;
    n->b = constant(p, oc_tpl_int(t->integer), t->line);
    return n->b ? n : NULL;
}

static oc_tpl_node *parse_postfix(oc_tpl_parser *p, oc_tpl_node *n) {
    while (n) {
        if (p->token->kind == T_DOT || p->token->kind == T_LBRACKET)
            n = parse_subscript(p, n);
        else if (p->token->kind == T_LPAREN)
            n = parse_call(p, n);
        else
            break;
    }
    return n;
}

/* Looks a filter or a test up. Inside an if, where it may be guarded, an unknown one is an error
 * only when it is used. */
static bool resolve(oc_tpl_parser *p, oc_tpl_node *n, const oc_tpl_token *t, bool filter) {
    n->word = oc_tpl_parser_string(p, t->at, t->n);
    if (!n->word) return false;
    n->entry = filter ? oc_tpl_find_filter(t->at, t->n) : oc_tpl_find_test(t->at, t->n);
    if (n->entry || p->ifs) return true;
    if (filter && oc_tpl_refused_filter(t->at, t->n))
        return oc_tpl_syntax(p, t->line, OC_E_UNSUPPORTED, "the filter '%.*s' is not supported",
                             (int)t->n, t->at);
    const char *near =
        filter ? oc_tpl_nearest_filter(t->at, t->n) : oc_tpl_nearest_test(t->at, t->n);
    char shown[64];
    return oc_tpl_syntax(p, t->line, OC_E_INVALID, "no %s is named '%s'%s%s%s",
                         filter ? "filter" : "test", oc_tpl_token_text(t, shown),
                         near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

oc_tpl_node *oc_tpl_parse_filters(oc_tpl_parser *p, oc_tpl_node *n, bool inline_first) {
    while (n && (p->token->kind == T_PIPE || inline_first)) {
        if (!inline_first) p->token++;
        inline_first = false;
        const oc_tpl_token *t = p->token;
        if (!oc_tpl_expect(p, T_NAME)) return NULL;
        n = new_left(p, N_FILTER, t->line, n);
        if (!n || !resolve(p, n, t, true)) return NULL;
        if (p->token->kind == T_LPAREN && !(n->args = parse_arguments(p))) return NULL;
    }
    return n;
}

static bool starts_test_argument(const oc_tpl_token *t) {
    switch (t->kind) {
    case T_NAME:
        return !oc_tpl_is_word(t, "else") && !oc_tpl_is_word(t, "or") && !oc_tpl_is_word(t, "and");
    case T_STRING:
    case T_INT:
    case T_FLOAT:
    case T_LBRACKET:
    case T_LBRACE:
        return true;
    default:
        return false;
    }
}

static oc_tpl_node *parse_test(oc_tpl_parser *p, oc_tpl_node *operand) {
    int32_t line = p->token->line;
    p->token++;
    oc_tpl_node *n = new_left(p, N_TEST, line, operand);
    if (!n) return NULL;
    n->negated = accept_word(p, "not");
    const oc_tpl_token *t = p->token;
    if (!oc_tpl_expect(p, T_NAME) || !resolve(p, n, t, false)) return NULL;
    if (p->token->kind == T_LPAREN) {
        n->args = parse_arguments(p);
        return n->args ? n : NULL;
    }
    if (!starts_test_argument(p->token)) return n;
    if (oc_tpl_is_word(p->token, "is")) {
        oc_tpl_syntax(p, p->token->line, OC_E_FORMAT, "tests with 'is' cannot be chained");
        return NULL;
    }
    nodes one = {0};
    n->args = oc_tpl_parser_take(p, 1, sizeof *n->args);
    if (!n->args || !add(p, &one, parse_postfix(p, parse_primary(p, false)))) return NULL;
    n->args->positional = one.at;
    n->args->n = 1;
    return n;
}

/* --- Operators */

static oc_tpl_node *parse_unary_inside(oc_tpl_parser *p, bool with_filter) {
    const oc_tpl_token *t = p->token;
    oc_tpl_node *n;
    if (t->kind == T_SUB || t->kind == T_ADD) {
        p->token++;
        oc_tpl_node *operand = parse_unary(p, false);
        n = operand ? oc_tpl_node_new(p, t->kind == T_SUB ? N_NEG : N_POS, t->line) : NULL;
        if (n) n->a = operand;
    } else {
        n = parse_primary(p, false);
    }
    n = parse_postfix(p, n);
    while (n && with_filter) {
        if (p->token->kind == T_PIPE)
            n = oc_tpl_parse_filters(p, n, false);
        else if (oc_tpl_is_word(p->token, "is"))
            n = parse_test(p, n);
        else if (p->token->kind == T_LPAREN)
            n = parse_call(p, n);
        else
            break;
    }
    return n;
}

static oc_tpl_node *parse_unary(oc_tpl_parser *p, bool with_filter) {
    if (!oc_tpl_enter(p)) return NULL;
    oc_tpl_node *n = parse_unary_inside(p, with_filter);
    p->depth--;
    return n;
}

static oc_tpl_node *binary(oc_tpl_parser *p, oc_tpl_node *left, oc_tpl_op op, oc_tpl_node *right,
                           int32_t line) {
    if (!left || !right) return NULL;
    oc_tpl_node *n = new_left(p, N_BINARY, line, left);
    if (!n) return NULL;
    n->op = (uint8_t)op;
    n->b = right;
    return n;
}

static oc_tpl_node *parse_power(oc_tpl_parser *p) {
    oc_tpl_node *n = parse_unary(p, true);
    while (n && p->token->kind == T_POW) {
        int32_t line = p->token++->line;
        n = binary(p, n, OP_POW, parse_unary(p, true), line);
    }
    return n;
}

static oc_tpl_node *parse_product(oc_tpl_parser *p) {
    oc_tpl_node *n = parse_power(p);
    while (n && p->token->kind >= T_MUL && p->token->kind <= T_MOD) {
        oc_tpl_op op = (oc_tpl_op)(p->token->kind - T_MUL + OP_MUL);
        int32_t line = p->token++->line;
        n = binary(p, n, op, parse_power(p), line);
    }
    return n;
}

static oc_tpl_node *parse_concat(oc_tpl_parser *p) {
    nodes list = {0};
    int32_t line = p->token->line;
    do {
        if (!add(p, &list, parse_product(p))) return NULL;
    } while (accept(p, T_TILDE));
    return list.n == 1 ? list.at[0] : with_items(oc_tpl_node_new(p, N_CONCAT, line), &list);
}

static oc_tpl_node *parse_sum(oc_tpl_parser *p) {
    oc_tpl_node *n = parse_concat(p);
    while (n && (p->token->kind == T_ADD || p->token->kind == T_SUB)) {
        oc_tpl_op op = p->token->kind == T_ADD ? OP_ADD : OP_SUB;
        int32_t line = p->token++->line;
        n = binary(p, n, op, parse_concat(p), line);
    }
    return n;
}

static bool accept_comparison(oc_tpl_parser *p, uint8_t *op) {
    const oc_tpl_token *t = p->token;
    if (t->kind >= T_EQ && t->kind <= T_GE) {
        *op = (uint8_t)(t->kind - T_EQ + OP_EQ);
    } else if (oc_tpl_is_word(t, "in")) {
        *op = OP_IN;
    } else if (oc_tpl_is_word(t, "not") && oc_tpl_is_word(t + 1, "in")) {
        *op = OP_NOT_IN;
        p->token++;
    } else {
        return false;
    }
    p->token++;
    return true;
}

static oc_tpl_node *parse_comparison(oc_tpl_parser *p) {
    int32_t line = p->token->line;
    oc_tpl_node *first = parse_sum(p);
    nodes list = {0};
    uint8_t op, *ops = NULL;
    size_t room = 0;
    while (first && accept_comparison(p, &op)) {
        if (list.n == room) {
            room = room ? 2 * room : 4;
            uint8_t *more = oc_tpl_parser_take(p, room, 1);
            if (!more) return NULL;
            if (list.n) memcpy(more, ops, list.n);
            ops = more;
        }
        ops[list.n] = op;
        if (!add(p, &list, parse_sum(p))) return NULL;
    }
    if (!list.n) return first;
    oc_tpl_node *n = with_items(oc_tpl_node_new(p, N_COMPARE, line), &list);
    if (!n) return NULL;
    n->a = first;
    n->ops = ops;
    return n;
}

static oc_tpl_node *parse_not(oc_tpl_parser *p) {
    if (!oc_tpl_is_word(p->token, "not")) return parse_comparison(p);
    if (!oc_tpl_enter(p)) return NULL;
    int32_t line = p->token++->line;
    oc_tpl_node *operand = parse_not(p);
    oc_tpl_node *n = operand ? oc_tpl_node_new(p, N_NOT, line) : NULL;
    if (n) n->a = operand;
    p->depth--;
    return n;
}

static oc_tpl_node *parse_and(oc_tpl_parser *p) {
    oc_tpl_node *n = parse_not(p);
    while (n && oc_tpl_is_word(p->token, "and")) {
        int32_t line = p->token++->line;
        oc_tpl_node *right = parse_not(p);
        n = right ? new_left(p, N_AND, line, n) : NULL;
        if (n) n->b = right;
    }
    return n;
}

static oc_tpl_node *parse_or(oc_tpl_parser *p) {
    oc_tpl_node *n = parse_and(p);
    while (n && oc_tpl_is_word(p->token, "or")) {
        int32_t line = p->token++->line;
        oc_tpl_node *right = parse_and(p);
        n = right ? new_left(p, N_OR, line, n) : NULL;
        if (n) n->b = right;
    }
    return n;
}

/* a: the condition, b: if it holds, c: if not. */
static oc_tpl_node *parse_condition(oc_tpl_parser *p) {
    oc_tpl_node *value = parse_or(p);
    p->ifs++;
    while (value && oc_tpl_is_word(p->token, "if")) {
        int32_t line = p->token++->line;
        oc_tpl_node *n = oc_tpl_node_new(p, N_CONDITION, line);
        if (!n) return NULL;
        n->b = value;
        n->a = parse_or(p);
        if (!n->a) return NULL;
        if (accept_word(p, "else") && !(n->c = oc_tpl_parse_expression(p))) return NULL;
        value = n;
    }
    p->ifs--;
    return value;
}

oc_tpl_node *oc_tpl_parse_expression(oc_tpl_parser *p) {
    if (!oc_tpl_enter(p)) return NULL;
    oc_tpl_node *n = parse_condition(p);
    p->depth--;
    return n;
}

static bool tuple_ends(const oc_tpl_parser *p, const char *end_word) {
    uint8_t kind = p->token->kind;
    if (kind == T_VARIABLE_END || kind == T_BLOCK_END || kind == T_RPAREN) return true;
    return end_word && oc_tpl_is_word(p->token, end_word);
}

static oc_tpl_node *parse_several(oc_tpl_parser *p, bool target, bool flag, const char *end_word,
                                  bool parenthesized) {
    nodes list = {0};
    bool is_tuple = false;
    int32_t line = p->token->line;
    for (;;) {
        if (list.n && !oc_tpl_expect(p, T_COMMA)) return NULL;
        if (tuple_ends(p, end_word)) break;
        oc_tpl_node *n = target ? parse_primary(p, flag)
                         : flag ? oc_tpl_parse_expression(p)
                                : parse_or(p);
        if (!add(p, &list, n)) return NULL;
        if (p->token->kind != T_COMMA) break;
        is_tuple = true;
    }
    if (!is_tuple && list.n) return list.at[0];
    if (!is_tuple && !parenthesized) {
        char shown[64];
        oc_tpl_syntax(p, p->token->line, OC_E_FORMAT, "expected an expression, found '%s'",
                      oc_tpl_token_text(p->token, shown));
        return NULL;
    }
    return with_items(oc_tpl_node_new(p, N_TUPLE, line), &list);
}

oc_tpl_node *oc_tpl_parse_tuple(oc_tpl_parser *p, bool condition, const char *end_word,
                                bool parenthesized) {
    return parse_several(p, false, condition, end_word, parenthesized);
}

static bool check_target(oc_tpl_parser *p, const oc_tpl_node *n) {
    if (n->kind == N_NSREF) return true;
    if (n->kind == N_NAME) {
        const oc_tpl_str *name = p->t->names[n->name];
        if (p->fors && name->n == 4 && memcmp(name->at, "loop", 4) == 0)
            return oc_tpl_syntax(p, n->line, OC_E_FORMAT,
                                 "'loop' cannot be assigned to in a for loop");
        return true;
    }
    if (n->kind != N_TUPLE)
        return oc_tpl_syntax(p, n->line, OC_E_FORMAT, "this cannot be assigned to");
    for (size_t i = 0; i < n->n; i++)
        if (!check_target(p, n->items[i])) return false;
    return true;
}

oc_tpl_node *oc_tpl_parse_target(oc_tpl_parser *p, const char *end_word, bool with_namespace) {
    oc_tpl_node *n = parse_several(p, true, with_namespace, end_word, false);
    return n && check_target(p, n) ? n : NULL;
}
