/* internal.h - what the files of the template interpreter share.
 *
 * lex -> parse -> scope (which names a scope hides) -> render (statements) -> eval (expressions),
 * with ops, text, value, filters, tests and methods below. Values are immutable but for namespaces
 * and iterators, live in the arena of one render, and borrow the strings of the JSON they come
 * from. Functions return false after they have filled the error. */
#ifndef OC_TEMPLATE_INTERNAL_H
#define OC_TEMPLATE_INTERNAL_H

#include "base/nearest.h"
#include "template/template.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- Memory: grows in chunks, is freed as a whole. */

typedef struct oc_tpl_chunk oc_tpl_chunk;
typedef struct oc_tpl_arena {
    oc_tpl_chunk *chunks;
    size_t taken, most; /* bytes; taking more than most fails */
} oc_tpl_arena;

void *oc_tpl_take(oc_tpl_arena *a, size_t bytes); /* zeroed, aligned to 16; NULL when too much */
void oc_tpl_arena_release(oc_tpl_arena *a);

/* --- Values */

typedef enum oc_tpl_kind {
    TV_MISSING, /* no value: an argument not given, a name not yet bound */
    TV_UNDEFINED,
    TV_NONE,
    TV_BOOL,
    TV_INT,
    TV_FLOAT,
    TV_STRING,
    TV_LIST,
    TV_TUPLE,
    TV_DICT,
    TV_NAMESPACE,
    TV_RANGE,
    TV_ITERATOR,
    TV_VIEW, /* keys(), values(), items() of a dict */
    TV_LOOP,
    TV_MACRO,
    TV_FUNCTION,
    TV_METHOD,
    TV_JOINER,
    TV_CYCLER,
} oc_tpl_kind;

/* How an undefined value came to be, for the message when it is used. */
typedef enum oc_tpl_absence {
    ABSENT_NAME,
    ABSENT_ATTRIBUTE,
    ABSENT_UNSAFE,
    ABSENT_HINT
} oc_tpl_absence;
typedef enum oc_tpl_view { VIEW_KEYS, VIEW_VALUES, VIEW_ITEMS } oc_tpl_view;

typedef struct oc_tpl_str oc_tpl_str;
typedef struct oc_tpl_list oc_tpl_list;
typedef struct oc_tpl_dict oc_tpl_dict;
typedef struct oc_tpl_range oc_tpl_range;
typedef struct oc_tpl_loop oc_tpl_loop;
typedef struct oc_tpl_macro oc_tpl_macro;
typedef struct oc_tpl_method oc_tpl_method;
typedef struct oc_tpl_cycler oc_tpl_cycler;
typedef struct oc_tpl oc_tpl;
typedef struct oc_tpl_node oc_tpl_node;
typedef struct oc_tpl_scope oc_tpl_scope;

typedef struct oc_tpl_value {
    uint8_t kind;  /* oc_tpl_kind */
    uint8_t flag;  /* string: marked safe; undefined: oc_tpl_absence; view: oc_tpl_view */
    uint16_t type; /* undefined: kind of the value that lacks the attribute */
    int32_t id;    /* function: which */
    union {
        bool truth;
        int64_t integer;
        double real;
        const oc_tpl_str *string; /* undefined: the name or the hint */
        oc_tpl_list *list;        /* list, tuple, iterator */
        oc_tpl_dict *dict;        /* dict, namespace, view */
        const oc_tpl_range *range;
        oc_tpl_loop *loop;
        const oc_tpl_macro *macro;
        const oc_tpl_method *method;
        oc_tpl_cycler *cycler; /* joiner too */
    } u;
} oc_tpl_value;

/* Which message wrote bytes [begin, end) of a text; message is NO_MESSAGE for none. quoted: the
 * bytes are that message's own, wherever they are written: what counts there is decided then. */
typedef struct oc_tpl_mark {
    size_t begin, end, message;
    bool generation, quoted;
} oc_tpl_mark;
#define NO_MESSAGE SIZE_MAX
#define CONTEXT_MESSAGE                                                                            \
    (SIZE_MAX - 1) /* what an answer holds of tools' responses: nobody's answer */

struct oc_tpl_str {
    const char *at; /* UTF-8, not terminated */
    size_t n;
    bool ascii;
    const oc_tpl_mark *marks; /* of a captured text; in order, not overlapping */
    size_t n_marks;
};

struct oc_tpl_list {
    const oc_tpl_value *at;
    size_t n;
    size_t next; /* iterator: the first not yet taken */
};

typedef struct oc_tpl_entry {
    oc_tpl_value key, value;
    uint64_t hash;
} oc_tpl_entry;

/* Entries in order of insertion; index holds 1 + entry, 0 for free, room a power of two. */
struct oc_tpl_dict {
    oc_tpl_entry *entries;
    size_t n, room;
    uint32_t *index;
    size_t index_room;
    size_t message; /* index in "messages" of this element, or NO_MESSAGE */
};

struct oc_tpl_range {
    int64_t start, step;
    size_t n;
    int64_t stop; /* as given, to print it */
};

struct oc_tpl_loop {
    const oc_tpl_value *at;
    size_t n, index;
    oc_tpl_value changed; /* what loop.changed() was last called with */
};

struct oc_tpl_macro {
    const oc_tpl_node *node;
    oc_tpl_scope *scope; /* where it was defined */
};

struct oc_tpl_method {
    oc_tpl_value self;
    const char *name;
    const void *entry; /* what to call, or NULL: known and not supported */
};

struct oc_tpl_cycler {
    const oc_tpl_value *at;
    size_t n, pos;
};

/* --- The program */

typedef enum oc_tpl_node_kind {
    /* expressions */
    N_CONST,
    N_NAME,
    N_HOLE, /* the text that a filter of a block gets */
    N_LIST,
    N_TUPLE,
    N_DICT,
    N_NOT,
    N_NEG,
    N_POS,
    N_COMPARE,
    N_CONCAT,
    N_CONDITION, /* a if b else c */
    N_SLICE,
    N_NSREF,
    /* expressions evaluated along their left spine, a -> up */
    N_BINARY,
    N_AND,
    N_OR,
    N_ATTRIBUTE,
    N_ITEM,
    N_CALL,
    N_FILTER,
    N_TEST,
    /* statements */
    S_TEXT,
    S_OUTPUT,
    S_IF,
    S_FOR,
    S_SET,
    S_SET_BLOCK,
    S_MACRO,
    S_CALL,
    S_FILTER,
    S_GENERATION,
    S_WITH,
    S_BREAK,
    S_CONTINUE,
} oc_tpl_node_kind;

typedef enum oc_tpl_op {
    OP_ADD,
    OP_SUB,
    OP_MUL,
    OP_DIV,
    OP_FLOORDIV,
    OP_MOD,
    OP_POW,
    OP_EQ,
    OP_NE,
    OP_LT,
    OP_LE,
    OP_GT,
    OP_GE,
    OP_IN,
    OP_NOT_IN,
} oc_tpl_op;

typedef struct oc_tpl_args {
    oc_tpl_node **positional;
    size_t n;
    const oc_tpl_str **names; /* of the keyword arguments */
    oc_tpl_node **named;
    size_t n_named;
    oc_tpl_node *star, *star_star;
} oc_tpl_args;

/* Names that a scope binds later and no outer scope knows: until then they are undefined, though a
 * variable of the render may have the name. */
typedef struct oc_tpl_hidden {
    const int32_t *names;
    size_t n;
} oc_tpl_hidden;

struct oc_tpl_node {
    uint8_t kind, op;
    bool negated;
    bool uses_caller, uses_varargs, uses_kwargs; /* of a macro's body */
    int32_t line;
    int32_t name; /* id of a variable, or -1 */
    oc_tpl_node *a, *b, *c;
    oc_tpl_node *up;   /* of a left operand */
    oc_tpl_node *next; /* statement */
    oc_tpl_node **items;
    uint8_t *ops; /* of a comparison */
    size_t n;
    oc_tpl_args *args;
    const void *entry; /* filter, test: of the table */
    const oc_tpl_str *word;
    oc_tpl_value constant;
    oc_tpl_node *body, *other;
    oc_tpl_hidden hidden, hidden_other, hidden_test;
};

struct oc_template {
    oc_tpl_arena arena;
    const char *name;
    oc_tpl_node *body;
    oc_tpl_hidden hidden;
    const oc_tpl_str **names; /* by id */
    size_t n_names;
    bool has_generation;
};

enum { TEMPLATE_DEPTH = 100, TEMPLATE_BYTES = 1 << 20, TEMPLATE_NAMES = 4096 };

/* --- Lexing (lex.c) and parsing (parse.c, expr.c) */

typedef enum oc_tpl_token_kind {
    T_DATA,
    T_VARIABLE_BEGIN,
    T_VARIABLE_END,
    T_BLOCK_BEGIN,
    T_BLOCK_END,
    T_NAME,
    T_STRING,
    T_INT,
    T_FLOAT,
    T_ADD,
    T_SUB,
    T_MUL,
    T_DIV,
    T_FLOORDIV,
    T_MOD,
    T_POW,
    T_EQ,
    T_NE,
    T_LT,
    T_LE,
    T_GT,
    T_GE,
    T_ASSIGN,
    T_TILDE,
    T_LPAREN,
    T_RPAREN,
    T_LBRACKET,
    T_RBRACKET,
    T_LBRACE,
    T_RBRACE,
    T_COMMA,
    T_COLON,
    T_DOT,
    T_PIPE,
    T_SEMICOLON,
    T_EOF,
} oc_tpl_token_kind;

typedef struct oc_tpl_token {
    uint8_t kind;
    int32_t line;
    const char *at; /* data, name, string (decoded) */
    size_t n;
    int64_t integer;
    double real;
} oc_tpl_token;

typedef struct oc_tpl_parser {
    oc_template *t;
    oc_error *err;
    oc_status status;
    const oc_tpl_token *token; /* the current one */
    oc_tpl_dict *ids;          /* of names */
    int depth, loops, ifs, fors;
    oc_tpl_node *macros[TEMPLATE_DEPTH + 1]; /* being parsed */
    int n_macros;
} oc_tpl_parser;

/* Tokens end with T_EOF. text is valid UTF-8 without carriage returns. */
bool oc_tpl_lex(oc_tpl_parser *p, const char *text, size_t n, const oc_tpl_token **out);
bool oc_tpl_syntax(oc_tpl_parser *p, int32_t line, oc_status s, const char *fmt, ...)
    OC_PRINTF(4, 5);
bool oc_tpl_syntax_memory(oc_tpl_parser *p);
void *oc_tpl_parser_take(oc_tpl_parser *p, size_t count, size_t size);
const oc_tpl_str *oc_tpl_parser_string(oc_tpl_parser *p, const char *at, size_t n);
const char *oc_tpl_token_text(const oc_tpl_token *t, char buffer[64]);

bool oc_tpl_enter(oc_tpl_parser *p); /* one level of nesting more; undo with depth-- */
bool oc_tpl_name_id(oc_tpl_parser *p, const char *at, size_t n, int32_t *out);
bool oc_tpl_expect(oc_tpl_parser *p, oc_tpl_token_kind kind);
bool oc_tpl_is_word(const oc_tpl_token *t, const char *word);
oc_tpl_node *oc_tpl_node_new(oc_tpl_parser *p, oc_tpl_node_kind kind, int32_t line);
/* On failure NULL. */
oc_tpl_node *oc_tpl_parse_expression(oc_tpl_parser *p);
oc_tpl_node *oc_tpl_parse_tuple(oc_tpl_parser *p, bool condition, const char *end_word,
                                bool parenthesized);
oc_tpl_node *oc_tpl_parse_target(oc_tpl_parser *p, const char *end_word, bool with_namespace);
oc_tpl_node *oc_tpl_parse_filters(oc_tpl_parser *p, oc_tpl_node *operand, bool inline_first);
/* Fills hidden of every scope. */
bool oc_tpl_find_hidden(oc_tpl_parser *p);

/* --- One render */

typedef struct oc_tpl_binding {
    int32_t name;
    oc_tpl_value value;
} oc_tpl_binding;

struct oc_tpl_scope {
    oc_tpl_scope *parent;
    oc_tpl_binding *bindings;
    size_t n, room;
    bool kept; /* a macro refers to it */
};

typedef struct oc_tpl_buffer {
    char *at;
    size_t n, room;
    oc_tpl_mark *marks;
    size_t n_marks, marks_room;
} oc_tpl_buffer;

struct oc_tpl {
    const oc_template *t;
    oc_tpl_arena arena;
    oc_template_limits limits;
    const int64_t *now;
    oc_error *err;
    oc_status status;
    int32_t line;
    uint64_t steps;
    int32_t depth, calls;
    oc_tpl_scope *scope;
    oc_tpl_value *globals; /* by name */
    oc_tpl_buffer *out;
    size_t message;      /* that is being written, or NO_MESSAGE */
    bool by_number;      /* in a turn of a loop over numbers, which may name its message yet */
    uint64_t own;        /* bytes that messages wrote of their own words, so far; */
    uint64_t own_before; /* and up to where this message began */
    bool *answers;       /* by message: its role is assistant */
    size_t n_answers;
    int32_t loop, caller, varargs, kwargs; /* ids of these names, or -1 */
    bool generation;
    oc_tpl_value hole;
};

typedef struct oc_tpl_call {
    const oc_tpl_value *at; /* never NULL */
    size_t n;
    oc_tpl_dict *named; /* NULL for none */
} oc_tpl_call;

void oc_tpl_note_failure(oc_tpl *x, oc_status s, const char *fmt, ...) OC_PRINTF(3, 4);
/* false; a macro, so that compilers see that no result is read after it */
#define oc_tpl_fail(...) (oc_tpl_note_failure(__VA_ARGS__), false)
bool oc_tpl_step(oc_tpl *x, size_t work); /* work: about a byte or element each */
bool oc_tpl_deeper(oc_tpl *x);            /* undo with depth-- */
void *oc_tpl_new(oc_tpl *x, size_t count, size_t size);
/* Fails when a value of so many bytes may not be. */
bool oc_tpl_allow(oc_tpl *x, size_t count, size_t size);

bool oc_tpl_eval(oc_tpl *x, const oc_tpl_node *n, oc_tpl_value *out);
bool oc_tpl_call_macro(oc_tpl *x, const oc_tpl_macro *m, const oc_tpl_call *call,
                       oc_tpl_value *out);
/* caller: of a call block, or NULL. */
bool oc_tpl_eval_call(oc_tpl *x, const oc_tpl_node *n, const oc_tpl_value *callee,
                      const oc_tpl_value *caller, oc_tpl_value *out);

bool oc_tpl_put(oc_tpl *x, oc_tpl_buffer *b, const char *at, size_t n); /* no marks */
/* With the marks of a captured text, as they are. */
bool oc_tpl_put_marked(oc_tpl *x, oc_tpl_buffer *b, const oc_tpl_str *s);
bool oc_tpl_buffer_value(oc_tpl *x, const oc_tpl_buffer *b, oc_tpl_value *out);
/* Notes whose words "messages" are made of. */
bool oc_tpl_number_messages(oc_tpl *x, const oc_tpl_value *messages);
/* What was made of a quoted text is a quotation too. */
bool oc_tpl_quote_result(oc_tpl *x, const oc_tpl_value *of, oc_tpl_value *made);

/* --- Making values */

static inline oc_tpl_value oc_tpl_none(void) { return (oc_tpl_value){.kind = TV_NONE}; }
static inline oc_tpl_value oc_tpl_bool(bool b) {
    return (oc_tpl_value){.kind = TV_BOOL, .u.truth = b};
}
static inline oc_tpl_value oc_tpl_int(int64_t i) {
    return (oc_tpl_value){.kind = TV_INT, .u.integer = i};
}
static inline oc_tpl_value oc_tpl_float(double d) {
    return (oc_tpl_value){.kind = TV_FLOAT, .u.real = d};
}
bool oc_tpl_string(oc_tpl *x, const char *at, size_t n, oc_tpl_value *out); /* borrows at */
/* Bytes [begin, end) of s, with who wrote them. */
bool oc_tpl_part(oc_tpl *x, const oc_tpl_str *s, size_t begin, size_t end, oc_tpl_value *out);
bool oc_tpl_copy(oc_tpl *x, const char *at, size_t n, oc_tpl_value *out);
bool oc_tpl_undefined(oc_tpl *x, oc_tpl_absence how, oc_tpl_kind type, const char *name, size_t n,
                      oc_tpl_value *out);
/* at belongs to the render's arena. */
bool oc_tpl_sequence(oc_tpl *x, oc_tpl_kind kind, const oc_tpl_value *at, size_t n,
                     oc_tpl_value *out);
bool oc_tpl_range_new(oc_tpl *x, int64_t start, int64_t stop, int64_t step, oc_tpl_value *out);
bool oc_tpl_from_json(oc_tpl *x, const json_t *json, oc_tpl_value *out);

oc_tpl_dict *oc_tpl_dict_new(oc_tpl_arena *a);
bool oc_tpl_dict_set(oc_tpl_arena *a, oc_tpl_dict *d, const oc_tpl_value *key,
                     oc_tpl_value value); /* false: out of memory */
const oc_tpl_value *oc_tpl_dict_get(const oc_tpl_dict *d, const oc_tpl_value *key);
const oc_tpl_value *oc_tpl_dict_find(const oc_tpl_dict *d, const char *key, size_t n);
bool oc_tpl_hashable(oc_tpl *x, const oc_tpl_value *key);

/* --- Asking values */

bool oc_tpl_truthy(const oc_tpl_value *v);
const char *oc_tpl_type_name(const oc_tpl_value *v);
/* Describes an undefined value as an error, with its name. */
bool oc_tpl_fail_undefined(oc_tpl *x, const oc_tpl_value *v);
bool oc_tpl_is_number(const oc_tpl_value *v); /* int, float, bool */
bool oc_tpl_as_int(const oc_tpl_value *v, int64_t *out);
double oc_tpl_as_double(const oc_tpl_value *v);
bool oc_tpl_is(const oc_tpl_value *v, const char *word); /* the string equals word */
bool oc_tpl_equal(oc_tpl *x, const oc_tpl_value *a, const oc_tpl_value *b, bool *out);
bool oc_tpl_same(const oc_tpl_value *a, const oc_tpl_value *b);
bool oc_tpl_less(oc_tpl *x, const oc_tpl_value *a, const oc_tpl_value *b, bool *out);
int oc_tpl_compare_numbers(const oc_tpl_value *a, const oc_tpl_value *b); /* 2: unordered */
bool oc_tpl_length(oc_tpl *x, const oc_tpl_value *v, size_t *out);
/* The elements as an array; takes the rest of an iterator. */
bool oc_tpl_elements(oc_tpl *x, const oc_tpl_value *v, const oc_tpl_value **at, size_t *n);
bool oc_tpl_iterable(const oc_tpl_value *v);
bool oc_tpl_get_attribute(oc_tpl *x, const oc_tpl_value *v, const oc_tpl_str *name,
                          oc_tpl_value *out);
bool oc_tpl_get_item(oc_tpl *x, const oc_tpl_value *v, const oc_tpl_value *key, oc_tpl_value *out);
bool oc_tpl_slice(oc_tpl *x, const oc_tpl_value *v, const oc_tpl_value bounds[3],
                  oc_tpl_value *out);
bool oc_tpl_binary(oc_tpl *x, oc_tpl_op op, const oc_tpl_value *a, const oc_tpl_value *b,
                   oc_tpl_value *out);
bool oc_tpl_compare(oc_tpl *x, oc_tpl_op op, const oc_tpl_value *a, const oc_tpl_value *b,
                    bool *out);
/* Stable, by keys[i]; both arrays are sorted. */
bool oc_tpl_sort(oc_tpl *x, oc_tpl_value *keys, oc_tpl_value *items, size_t n, bool reverse);

/* --- Text */

/* The character at s, of n > 0 bytes of valid UTF-8; its length in bytes. */
size_t oc_tpl_decode(const char *s, size_t n, uint32_t *out);
size_t oc_tpl_encode(uint32_t c, char out[4]);
bool oc_tpl_is_space(uint32_t c);
size_t oc_tpl_characters(const oc_tpl_str *s);
size_t oc_tpl_offset(const oc_tpl_str *s, size_t character); /* byte where it begins */
size_t oc_tpl_find(const char *at, size_t n, const char *what, size_t m, size_t from);
/* As str(): of a string itself. */
bool oc_tpl_str_of(oc_tpl *x, const oc_tpl_value *v, oc_tpl_value *out);
bool oc_tpl_put_str(oc_tpl *x, oc_tpl_buffer *b, const oc_tpl_value *v);
bool oc_tpl_put_repr(oc_tpl *x, oc_tpl_buffer *b, const oc_tpl_value *v);
void oc_tpl_format_float(double d, char out[40]);
bool oc_tpl_tojson(oc_tpl *x, const oc_tpl_value *args, oc_tpl_value *out);
/* printf-style; args: a tuple, a dict, or one value. */
bool oc_tpl_percent(oc_tpl *x, const oc_tpl_str *format, const oc_tpl_value *args,
                    oc_tpl_value *out);
bool oc_tpl_escape(oc_tpl *x, const oc_tpl_value *v, oc_tpl_value *out);
typedef enum oc_tpl_casing {
    CASE_UPPER,
    CASE_LOWER,
    CASE_TITLE,
    CASE_CAPITALIZE,
    CASE_SWAP
} oc_tpl_casing;
bool oc_tpl_recase(oc_tpl *x, const oc_tpl_str *s, oc_tpl_casing how, oc_tpl_value *out);
/* side: 1 left, 2 right, 3 both; chars MISSING or None: white space. */
bool oc_tpl_strip(oc_tpl *x, const oc_tpl_str *s, const oc_tpl_value *chars, int side,
                  oc_tpl_value *out);
bool oc_tpl_replace(oc_tpl *x, const oc_tpl_str *s, const oc_tpl_str *old, const oc_tpl_str *fresh,
                    int64_t count, oc_tpl_value *out);
bool oc_tpl_join(oc_tpl *x, const oc_tpl_str *between, const oc_tpl_value *at, size_t n,
                 bool convert, oc_tpl_value *out);
bool oc_tpl_split_lines(oc_tpl *x, const oc_tpl_str *s, bool keep_ends, oc_tpl_value *out);
bool oc_tpl_has_case(const oc_tpl_str *s, bool upper); /* islower(), isupper() */
bool oc_tpl_parse_int(const oc_tpl_str *s, int64_t base, int64_t *out);
bool oc_tpl_parse_float(const oc_tpl_str *s, double *out);
bool oc_tpl_is_word_character(uint32_t c);

/* --- Calls */

enum { OC_TPL_MOST_ARGS = 8 };

/* What a filter, test, function or method takes: names of its parameters in order, the first
 * `required` of which must be given; rest: any number more, which it reads from the call. */
typedef struct oc_tpl_entry_point {
    const char *name;
    bool (*run)(oc_tpl *x, const oc_tpl_value *args, const oc_tpl_call *call, oc_tpl_value *out);
    const char *parameters; /* "value,width,first" */
    int required;
    bool rest;
} oc_tpl_entry_point;

/* Sorts the arguments of a call into args (MISSING where not given), then runs it. self, unless
 * NULL, is the first argument. what: "filter", "method" ... */
bool oc_tpl_invoke(oc_tpl *x, const oc_tpl_entry_point *e, const char *what,
                   const oc_tpl_value *self, const oc_tpl_call *call, oc_tpl_value *out);
const oc_tpl_entry_point *oc_tpl_find_entry(const oc_tpl_entry_point *const *tables,
                                            const char *name, size_t n);
/* The nearest known name, or NULL. */
const char *oc_tpl_nearest_entry(const oc_tpl_entry_point *const *tables, const char *name,
                                 size_t n);
const oc_tpl_entry_point *oc_tpl_find_filter(const char *name, size_t n);
const oc_tpl_entry_point *oc_tpl_find_test(const char *name, size_t n);
const char *oc_tpl_nearest_filter(const char *name, size_t n);
const char *oc_tpl_nearest_test(const char *name, size_t n);
bool oc_tpl_refused_filter(const char *name, size_t n); /* of the language, not supported here */
extern const oc_tpl_entry_point *const oc_tpl_filter_tables[];
extern const oc_tpl_entry_point oc_tpl_filters_text[];
extern const oc_tpl_entry_point oc_tpl_filters_sequence[];
extern const oc_tpl_entry_point oc_tpl_tests[];
extern const oc_tpl_entry_point oc_tpl_functions[];

bool oc_tpl_call_value(oc_tpl *x, const oc_tpl_value *f, const oc_tpl_call *call,
                       oc_tpl_value *out);
/* The method or other attribute that values of v's kind have; *found false: none. */
bool oc_tpl_find_method(oc_tpl *x, const oc_tpl_value *v, const oc_tpl_str *name, bool *found,
                        oc_tpl_value *out);
bool oc_tpl_test_name(oc_tpl *x, const oc_tpl_value *name, const oc_tpl_entry_point **out);
bool oc_tpl_filter_name(oc_tpl *x, const oc_tpl_value *name, const oc_tpl_entry_point **out);

/* Arguments that must be of a kind. */
bool oc_tpl_need_string(oc_tpl *x, const oc_tpl_value *v, const char *what, const oc_tpl_str **out);
bool oc_tpl_need_int(oc_tpl *x, const oc_tpl_value *v, const char *what, int64_t otherwise,
                     int64_t *out);

#endif
