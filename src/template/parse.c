/* parse.c - statements, and the life of a template. */
#include "template/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

/* --- What the parser's files share */

bool oc_tpl_syntax(oc_tpl_parser *p, int32_t line, oc_status s, const char *fmt, ...) {
    char text[OC_ERROR_BYTES];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (p->status == OC_OK)
        p->status = oc_fail(p->err, s, "%s:%ld: %s", p->t->name, (long)line, text);
    return false;
}

bool oc_tpl_syntax_memory(oc_tpl_parser *p) {
    if (p->status == OC_OK)
        p->status = oc_fail(p->err, OC_E_MEMORY, "%s: no memory to read the template", p->t->name);
    return false;
}

void *oc_tpl_parser_take(oc_tpl_parser *p, size_t count, size_t size) {
    size_t bytes;
    void *at =
        __builtin_mul_overflow(count, size, &bytes) ? NULL : oc_tpl_take(&p->t->arena, bytes);
    if (!at) oc_tpl_syntax_memory(p);
    return at;
}

static bool is_ascii(const char *at, size_t n) {
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)at[i] >= 0x80) return false;
    return true;
}

const oc_tpl_str *oc_tpl_parser_string(oc_tpl_parser *p, const char *at, size_t n) {
    oc_tpl_str *s = oc_tpl_parser_take(p, 1, sizeof *s);
    if (s) *s = (oc_tpl_str){.at = at, .n = n, .ascii = is_ascii(at, n)};
    return s;
}

const char *oc_tpl_token_text(const oc_tpl_token *t, char buffer[64]) {
    static const char *const names[] = {
        "text", "{{", "}}", "{%", "%}", "",  "a string", "a number", "a number",
        "+",    "-",  "*",  "/",  "//", "%", "**",       "==",       "!=",
        "<",    "<=", ">",  ">=", "=",  "~", "(",        ")",        "[",
        "]",    "{",  "}",  ",",  ":",  ".", "|",        ";",        "the end of the template"};
    if (t->kind != T_NAME) return names[t->kind];
    snprintf(buffer, 64, "%.*s", t->n < 60 ? (int)t->n : 60, t->at);
    return buffer;
}

bool oc_tpl_enter(oc_tpl_parser *p) {
    if (p->depth == TEMPLATE_DEPTH)
        return oc_tpl_syntax(p, p->token->line, OC_E_OVERFLOW,
                             "the template is nested more than %d deep", TEMPLATE_DEPTH);
    p->depth++;
    return true;
}

bool oc_tpl_name_id(oc_tpl_parser *p, const char *at, size_t n, int32_t *out) {
    const oc_tpl_value *known = oc_tpl_dict_find(p->ids, at, n);
    if (known) {
        *out = (int32_t)known->u.integer;
        return true;
    }
    if (p->t->n_names == TEMPLATE_NAMES)
        return oc_tpl_syntax(p, p->token->line, OC_E_OVERFLOW, "more than %d different names",
                             TEMPLATE_NAMES);
    const oc_tpl_str *s = oc_tpl_parser_string(p, at, n);
    if (!s) return false;
    oc_tpl_value key = {.kind = TV_STRING, .u.string = s};
    if (!oc_tpl_dict_set(&p->t->arena, p->ids, &key, oc_tpl_int((int64_t)p->t->n_names)))
        return oc_tpl_syntax_memory(p);
    *out = (int32_t)p->t->n_names;
    p->t->names[p->t->n_names++] = s;
    return true;
}

bool oc_tpl_expect(oc_tpl_parser *p, oc_tpl_token_kind kind) {
    if (p->token->kind == kind) {
        p->token++;
        return true;
    }
    char shown[64], unused[64];
    const oc_tpl_token wanted = {.kind = (uint8_t)kind};
    return oc_tpl_syntax(p, p->token->line, OC_E_FORMAT, "expected %s%s%s, found '%s'",
                         kind == T_NAME ? "" : "'",
                         kind == T_NAME ? "a name" : oc_tpl_token_text(&wanted, unused),
                         kind == T_NAME ? "" : "'", oc_tpl_token_text(p->token, shown));
}

bool oc_tpl_is_word(const oc_tpl_token *t, const char *word) {
    return t->kind == T_NAME && t->n == strlen(word) && memcmp(t->at, word, t->n) == 0;
}

oc_tpl_node *oc_tpl_node_new(oc_tpl_parser *p, oc_tpl_node_kind kind, int32_t line) {
    oc_tpl_node *n = oc_tpl_parser_take(p, 1, sizeof *n);
    if (!n) return NULL;
    n->kind = (uint8_t)kind;
    n->line = line;
    n->name = -1;
    return n;
}

/* --- Bodies */

static bool parse_body(oc_tpl_parser *p, oc_tpl_node **out, const char *const *ends, int32_t line);
static bool parse_statement(oc_tpl_parser *p, oc_tpl_node **out);

static bool ends_here(const oc_tpl_parser *p, const char *const *ends) {
    for (; ends && *ends; ends++)
        if (oc_tpl_is_word(p->token, *ends)) return true;
    return false;
}

static bool parse_piece(oc_tpl_parser *p, oc_tpl_node **out) {
    const oc_tpl_token *t = p->token;
    if (t->kind == T_DATA) {
        p->token++;
        *out = oc_tpl_node_new(p, S_TEXT, t->line);
        if (!*out) return false;
        (*out)->word = oc_tpl_parser_string(p, t->at, t->n);
        return (*out)->word != NULL;
    }
    if (t->kind == T_VARIABLE_BEGIN) {
        p->token++;
        oc_tpl_node *n = oc_tpl_node_new(p, S_OUTPUT, t->line);
        if (!n || !(n->a = oc_tpl_parse_tuple(p, true, NULL, false))) return false;
        *out = n;
        return oc_tpl_expect(p, T_VARIABLE_END);
    }
    return parse_statement(p, out) && oc_tpl_expect(p, T_BLOCK_END);
}

/* Statements up to a tag among ends, which becomes the current token; NULL: up to the end. line: of
 * the tag that opens the body. */
static bool parse_body(oc_tpl_parser *p, oc_tpl_node **out, const char *const *ends, int32_t line) {
    oc_tpl_node **tail = out;
    *out = NULL;
    if (!oc_tpl_enter(p)) return false;
    while (p->token->kind != T_EOF) {
        if (p->token->kind == T_BLOCK_BEGIN) {
            p->token++;
            if (ends_here(p, ends)) {
                p->depth--;
                return true;
            }
        }
        oc_tpl_node *n = NULL;
        if (!parse_piece(p, &n)) return false;
        *tail = n;
        while (*tail)
            tail = &(*tail)->next;
    }
    p->depth--;
    if (!ends) return true;
    return oc_tpl_syntax(p, line, OC_E_FORMAT, "the block that begins here lacks its {%% %s %%}",
                         ends[0]);
}

/* The body after a tag's own words; the end tag's name is consumed where it is alone. */
static bool parse_block(oc_tpl_parser *p, oc_tpl_node **out, const char *const *ends) {
    int32_t line = p->token->line;
    if (p->token->kind == T_COLON) p->token++;
    if (!oc_tpl_expect(p, T_BLOCK_END) || !parse_body(p, out, ends, line)) return false;
    if (!ends[1]) p->token++;
    return true;
}

/* --- Statements. Each is entered after its name. */

static bool parse_if(oc_tpl_parser *p, oc_tpl_node *n) {
    static const char *const ends[] = {"endif", "elif", "else", NULL}, *const last[] = {"endif",
                                                                                        NULL};
    p->ifs++;
    for (;;) {
        if (!(n->a = oc_tpl_parse_tuple(p, false, NULL, false)) || !parse_block(p, &n->body, ends))
            return false;
        const oc_tpl_token *t = p->token++;
        if (oc_tpl_is_word(t, "elif")) {
            oc_tpl_node *more = oc_tpl_node_new(p, S_IF, t->line);
            if (!more) return false;
            n->c = more;
            n = more;
            continue;
        }
        if (oc_tpl_is_word(t, "else") && !parse_block(p, &n->other, last)) return false;
        break;
    }
    p->ifs--;
    return true;
}

/* a: target, b: what is walked, c: condition, other: else. */
static bool parse_for(oc_tpl_parser *p, oc_tpl_node *n) {
    static const char *const ends[] = {"endfor", "else", NULL}, *const last[] = {"endfor", NULL};
    p->fors++;
    if (!(n->a = oc_tpl_parse_target(p, "in", false))) return false;
    if (!oc_tpl_is_word(p->token, "in"))
        return oc_tpl_syntax(p, p->token->line, OC_E_FORMAT, "expected 'in' after a loop's names");
    p->token++;
    if (!(n->b = oc_tpl_parse_tuple(p, false, "recursive", false))) return false;
    if (oc_tpl_is_word(p->token, "if")) {
        p->token++;
        if (!(n->c = oc_tpl_parse_expression(p))) return false;
    }
    if (oc_tpl_is_word(p->token, "recursive"))
        return oc_tpl_syntax(p, p->token->line, OC_E_UNSUPPORTED,
                             "recursive loops are not supported; use a macro that calls itself");
    p->loops++;
    if (!parse_block(p, &n->body, ends)) return false;
    p->loops--;
    p->fors--;
    if (oc_tpl_is_word(p->token++, "endfor")) return true;
    return parse_block(p, &n->other, last);
}

static bool parse_set(oc_tpl_parser *p, oc_tpl_node *n) {
    static const char *const ends[] = {"endset", NULL};
    if (!(n->a = oc_tpl_parse_target(p, NULL, true))) return false;
    if (p->token->kind == T_ASSIGN) {
        p->token++;
        n->b = oc_tpl_parse_tuple(p, true, NULL, false);
        return n->b != NULL;
    }
    n->kind = S_SET_BLOCK;
    if (p->token->kind == T_PIPE) {
        oc_tpl_node *hole = oc_tpl_node_new(p, N_HOLE, n->line);
        if (!hole || !(n->b = oc_tpl_parse_filters(p, hole, false))) return false;
    }
    return parse_block(p, &n->body, ends);
}

/* items: the parameters, then their defaults, of which there are `op_count`. */
static bool parse_signature(oc_tpl_parser *p, oc_tpl_node *n) {
    oc_tpl_node *names[TEMPLATE_DEPTH], *defaults[TEMPLATE_DEPTH];
    size_t count = 0, n_defaults = 0;
    if (!oc_tpl_expect(p, T_LPAREN)) return false;
    while (p->token->kind != T_RPAREN) {
        if (count && !oc_tpl_expect(p, T_COMMA)) return false;
        const oc_tpl_token *t = p->token;
        if (count == TEMPLATE_DEPTH)
            return oc_tpl_syntax(p, t->line, OC_E_OVERFLOW, "more than %d parameters",
                                 TEMPLATE_DEPTH);
        if (!oc_tpl_expect(p, T_NAME)) return false;
        oc_tpl_node *name = names[count] = oc_tpl_node_new(p, N_NAME, t->line);
        if (!name || !oc_tpl_name_id(p, t->at, t->n, &name->name)) return false;
        for (size_t i = 0; i < count; i++)
            if (names[i]->name == name->name)
                return oc_tpl_syntax(p, t->line, OC_E_FORMAT, "the parameter %.*s occurs twice",
                                     (int)t->n, t->at);
        if (p->token->kind == T_ASSIGN) {
            p->token++;
            if (!(defaults[n_defaults++] = oc_tpl_parse_expression(p))) return false;
        } else if (n_defaults) {
            return oc_tpl_syntax(p, t->line, OC_E_FORMAT,
                                 "a parameter without a default follows one that has it");
        }
        count++;
    }
    p->token++;
    n->n = count;
    n->items = oc_tpl_parser_take(p, 2 * count + 1, sizeof(oc_tpl_node *));
    if (!n->items) return false;
    /* A parameter and its default stand at i and count + i. */
    for (size_t i = 0; i < count; i++)
        n->items[i] = names[i];
    for (size_t i = 0; i < n_defaults; i++)
        n->items[2 * count - n_defaults + i] = defaults[i];
    return true;
}

/* break and continue do not reach out of a function. */
static bool parse_function(oc_tpl_parser *p, oc_tpl_node *n, const char *const *ends) {
    int loops = p->loops;
    if (p->n_macros == TEMPLATE_DEPTH) return oc_tpl_enter(p);
    p->macros[p->n_macros++] = n;
    p->loops = 0;
    if (!parse_block(p, &n->body, ends)) return false;
    p->loops = loops;
    p->n_macros--;
    return true;
}

static bool parse_macro(oc_tpl_parser *p, oc_tpl_node *n) {
    static const char *const ends[] = {"endmacro", NULL};
    const oc_tpl_token *t = p->token;
    if (!oc_tpl_expect(p, T_NAME) || !oc_tpl_name_id(p, t->at, t->n, &n->name)) return false;
    return parse_signature(p, n) && parse_function(p, n, ends);
}

static bool parse_call_block(oc_tpl_parser *p, oc_tpl_node *n) {
    static const char *const ends[] = {"endcall", NULL};
    if (p->token->kind == T_LPAREN && !parse_signature(p, n)) return false;
    if (!(n->a = oc_tpl_parse_expression(p))) return false;
    if (n->a->kind != N_CALL)
        return oc_tpl_syntax(p, n->line, OC_E_FORMAT, "a call block must call a macro");
    return parse_function(p, n, ends);
}

static bool parse_filter_block(oc_tpl_parser *p, oc_tpl_node *n) {
    static const char *const ends[] = {"endfilter", NULL};
    oc_tpl_node *hole = oc_tpl_node_new(p, N_HOLE, n->line);
    if (!hole || !(n->a = oc_tpl_parse_filters(p, hole, true))) return false;
    return parse_block(p, &n->body, ends);
}

static bool parse_generation(oc_tpl_parser *p, oc_tpl_node *n) {
    static const char *const ends[] = {"endgeneration", NULL};
    p->t->has_generation = true;
    return parse_function(p, n, ends);
}

/* items: targets and values in turn. */
static bool parse_with(oc_tpl_parser *p, oc_tpl_node *n) {
    static const char *const ends[] = {"endwith", NULL};
    oc_tpl_node *pairs[2 * TEMPLATE_DEPTH];
    while (p->token->kind != T_BLOCK_END) {
        if (n->n && !oc_tpl_expect(p, T_COMMA)) return false;
        if (n->n == 2 * TEMPLATE_DEPTH)
            return oc_tpl_syntax(p, n->line, OC_E_OVERFLOW, "more than %d names", TEMPLATE_DEPTH);
        if (!(pairs[n->n] = oc_tpl_parse_target(p, NULL, false)) || !oc_tpl_expect(p, T_ASSIGN) ||
            !(pairs[n->n + 1] = oc_tpl_parse_expression(p)))
            return false;
        n->n += 2;
    }
    n->items = oc_tpl_parser_take(p, n->n + 1, sizeof(oc_tpl_node *));
    if (!n->items) return false;
    if (n->n) memcpy(n->items, pairs, n->n * sizeof(oc_tpl_node *));
    return parse_block(p, &n->body, ends);
}

static bool parse_loop_control(oc_tpl_parser *p, oc_tpl_node *n) {
    if (p->loops) return true;
    return oc_tpl_syntax(p, n->line, OC_E_FORMAT, "'%s' outside of a loop",
                         n->kind == S_BREAK ? "break" : "continue");
}

/* Several outputs; the caller expects the tag's end. */
static bool parse_print(oc_tpl_parser *p, oc_tpl_node *n) {
    bool first = true;
    while (p->token->kind != T_BLOCK_END) {
        if (!first) {
            if (!oc_tpl_expect(p, T_COMMA)) return false;
            oc_tpl_node *more = oc_tpl_node_new(p, S_OUTPUT, n->line);
            if (!more) return false;
            n->next = more;
            n = more;
        }
        if (!(n->a = oc_tpl_parse_expression(p))) return false;
        first = false;
    }
    return !first || oc_tpl_expect(p, T_NAME);
}

static const struct tag {
    const char *name;
    uint8_t kind;
    bool (*parse)(oc_tpl_parser *p, oc_tpl_node *n);
} tags[] = {
    {"if", S_IF, parse_if},
    {"for", S_FOR, parse_for},
    {"set", S_SET, parse_set},
    {"macro", S_MACRO, parse_macro},
    {"call", S_CALL, parse_call_block},
    {"filter", S_FILTER, parse_filter_block},
    {"generation", S_GENERATION, parse_generation},
    {"with", S_WITH, parse_with},
    {"break", S_BREAK, parse_loop_control},
    {"continue", S_CONTINUE, parse_loop_control},
    {"print", S_OUTPUT, parse_print},
};

static bool unknown_tag(oc_tpl_parser *p, const oc_tpl_token *t) {
    static const char *const refused[] = {"include",    "import", "from",  "extends", "block",
                                          "autoescape", "do",     "trans", "debug"};
    static const char *const known[] = {
        "if",     "elif",      "else",  "endif",    "for",        "endfor",
        "set",    "endset",    "macro", "endmacro", "call",       "endcall",
        "filter", "endfilter", "break", "continue", "generation", "endgeneration",
        "with",   "endwith",   "print", "raw"};
    char shown[64];
    const char *word = oc_tpl_token_text(t, shown);
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        if (oc_tpl_is_word(t, refused[i]))
            return oc_tpl_syntax(p, t->line, OC_E_UNSUPPORTED,
                                 "the tag '%s' is not supported in chat templates", word);
    const char *near = oc_nearest(word, known, sizeof known / sizeof known[0]);
    if (near && strcmp(near, word) == 0)
        return oc_tpl_syntax(p, t->line, OC_E_FORMAT, "the tag '%s' does not belong here", word);
    return oc_tpl_syntax(p, t->line, OC_E_FORMAT, "unknown tag '%s'%s%s%s", word,
                         near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

static bool parse_statement(oc_tpl_parser *p, oc_tpl_node **out) {
    const oc_tpl_token *t = p->token;
    if (!oc_tpl_expect(p, T_NAME)) return false;
    for (size_t i = 0; i < sizeof tags / sizeof tags[0]; i++) {
        if (!oc_tpl_is_word(t, tags[i].name)) continue;
        oc_tpl_node *n = oc_tpl_node_new(p, tags[i].kind, t->line);
        *out = n;
        return n && tags[i].parse(p, n);
    }
    return unknown_tag(p, t);
}

/* --- The template */

/* A copy without carriage returns and without one newline at the end. */
static bool normalize(oc_tpl_parser *p, const char *text, size_t *n, const char **out) {
    char *copy = oc_tpl_parser_take(p, *n + 1, 1);
    if (!copy) return false;
    size_t used = 0;
    int32_t line = 1;
    for (size_t i = 0; i < *n;) {
        utf8proc_int32_t c;
        utf8proc_ssize_t step =
            utf8proc_iterate((const utf8proc_uint8_t *)text + i, (utf8proc_ssize_t)(*n - i), &c);
        if (step <= 0)
            return oc_tpl_syntax(p, line, OC_E_FORMAT, "the template is not valid UTF-8");
        if (c == '\r') {
            copy[used++] = '\n';
            i += i + 1 < *n && text[i + 1] == '\n' ? 2 : 1;
        } else {
            memcpy(copy + used, text + i, (size_t)step);
            used += (size_t)step;
            i += (size_t)step;
        }
        line += copy[used - 1] == '\n';
    }
    if (used && copy[used - 1] == '\n') used--;
    *n = used;
    *out = copy;
    return true;
}

static bool parse_all(oc_tpl_parser *p, const char *text, size_t n, const char *name) {
    oc_template *t = p->t;
    size_t name_n = strlen(name);
    char *copy = oc_tpl_parser_take(p, name_n + 1, 1);
    if (!copy) return false;
    memcpy(copy, name, name_n);
    t->name = copy;
    if (n > TEMPLATE_BYTES)
        return oc_tpl_syntax(p, 1, OC_E_OVERFLOW, "the template is longer than %d bytes",
                             TEMPLATE_BYTES);
    t->names = oc_tpl_parser_take(p, TEMPLATE_NAMES, sizeof *t->names);
    p->ids = oc_tpl_dict_new(&t->arena);
    if (!t->names || !p->ids) return oc_tpl_syntax_memory(p);
    return normalize(p, text, &n, &text) && oc_tpl_lex(p, text, n, &p->token) &&
           parse_body(p, &t->body, NULL, 1) && oc_tpl_find_hidden(p);
}

oc_status oc_template_parse(oc_template **out, const char *text, size_t n, const char *name,
                            oc_error *err) {
    *out = NULL;
    oc_template *t = calloc(1, sizeof *t);
    if (!t) return oc_fail(err, OC_E_MEMORY, "%s: no memory to read the template", name);
    t->arena.most = SIZE_MAX;
    t->name = name;
    oc_tpl_parser p = {.t = t, .err = err};
    if (!parse_all(&p, text, n, name)) {
        oc_template_close(t);
        return p.status != OC_OK ? p.status
                                 : oc_fail(err, OC_E_MEMORY, "%s: no memory to read it", name);
    }
    *out = t;
    return OC_OK;
}

void oc_template_close(oc_template *t) {
    if (!t) return;
    oc_tpl_arena_release(&t->arena);
    free(t);
}
