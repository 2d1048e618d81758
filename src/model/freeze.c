/* freeze.c - which tensors are trained: chosen by patterns over their names. */
#include "base/nearest.h"
#include "model/model.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_BYTES = 128 };

/* ---- names ---- */

static bool is(const char *pattern, const char *name) { return fnmatch(pattern, name, 0) == 0; }

/* Under the name in the model, or the one of a checkpoint without the prefix. */
static bool is_name(const oc_model *m, const char *pattern, const char *name) {
    if (is(pattern, name)) return true;
    if (!m->prefix || !m->prefix_optional) return false;
    size_t n = strlen(m->prefix);
    return strncmp(name, m->prefix, n) == 0 && is(pattern, name + n);
}

/* A tied table is one parameter with two names, as in PyTorch: either of them speaks of it. */
static bool is_tied_head(const oc_model *m, const oc_tensor_spec *t) {
    const oc_block *table = &m->blocks[m->first_table];
    return m->tied && strcmp(t->name, m->tensors[table->first_tensor].name) == 0;
}

static bool is_tensor(const oc_model *m, const char *pattern, const oc_tensor_spec *t) {
    if (is_name(m, pattern, t->name)) return true;
    if (!is_tied_head(m, t)) return false;
    if (m->head_name && is_name(m, pattern, m->head_name)) return true;
    return m->head_alias && is_name(m, pattern, m->head_alias);
}

/* ---- what was meant ---- */

typedef struct guess {
    char word[TEXT_BYTES]; /* the pattern without its stars */
    char best[TEXT_BYTES]; /* the part of a name that is nearest so far */
    const char *name;      /* that it is a part of */
} guess;

static void begin_guess(guess *g, const char *pattern) {
    size_t n = 0;
    *g = (guess){.name = NULL};
    while (*pattern == '*' || *pattern == '.')
        pattern++;
    for (; *pattern && n + 1 < sizeof g->word; pattern++)
        if (*pattern != '*') g->word[n++] = *pattern;
    while (n > 0 && g->word[n - 1] == '.')
        g->word[--n] = 0;
}

static void consider(guess *g, const char *part, size_t n, const char *name) {
    char text[TEXT_BYTES];
    const char *known[] = {g->best, text};
    if (n >= sizeof text) return;
    memcpy(text, part, n);
    text[n] = 0;
    if (oc_nearest(g->word, known, 2) != text) return;
    memcpy(g->best, text, n + 1);
    g->name = name;
}

static size_t dots(const char *text) {
    size_t n = 0;
    for (; *text; text++)
        n += *text == '.';
    return n;
}

/* Parts of the name that have as many dots as the word: a pattern stands for some of a name. */
static void consider_parts(guess *g, const char *name) {
    size_t wanted = dots(g->word);
    for (const char *p = name; p; p = strchr(p, '.')) {
        if (*p == '.') p++;
        const char *end = p + strcspn(p, ".");
        for (size_t i = 0; i < wanted && *end; i++)
            end += 1 + strcspn(end + 1, ".");
        consider(g, p, (size_t)(end - p), name);
    }
}

static oc_status names_nothing(const oc_model *m, const char *pattern, oc_error *err) {
    guess g;
    begin_guess(&g, pattern);
    for (int32_t i = 0; i < m->n_tensors; i++) {
        bool again = i > 0 && m->tensors[i].name == m->tensors[i - 1].name;
        if (!again) consider_parts(&g, m->tensors[i].name);
    }
    if (m->tied && m->head_name) consider_parts(&g, m->head_name);
    return oc_fail(err, OC_E_INVALID, "\"%s\" is the name of no tensor%s%s%s", pattern,
                   g.name ? ": did you mean \"" : "; the first is ",
                   g.name ? g.name : m->tensors[0].name, g.name ? "\"?" : "");
}

/* ---- choosing ---- */

/* Marks the pattern's tensors; false: it has none. */
static bool mark(oc_model *m, const char *pattern, bool frozen) {
    bool any = false;
    for (int32_t i = 0; i < m->n_tensors; i++) {
        if (!is_tensor(m, pattern, &m->tensors[i])) continue;
        m->tensors[i].frozen = frozen;
        any = true;
    }
    return any;
}

static void settle_blocks(oc_model *m) {
    for (int32_t i = 0; i < m->n_blocks; i++) {
        oc_block *b = &m->blocks[i];
        b->trained = false;
        for (int32_t k = 0; k < b->n_tensors; k++)
            b->trained |= !m->tensors[b->first_tensor + k].frozen;
    }
}

oc_status oc_model_freeze(oc_model *m, const char *const *patterns, int n, bool train_only,
                          oc_error *err) {
    if (n == 0) return OC_OK;
    for (int32_t i = 0; i < m->n_tensors; i++)
        m->tensors[i].frozen = train_only;
    for (int i = 0; i < n; i++)
        if (!mark(m, patterns[i], !train_only)) return names_nothing(m, patterns[i], err);
    settle_blocks(m);
    if (oc_model_trained_parameters(m) > 0) return OC_OK;
    return oc_fail(err, OC_E_INVALID, "every tensor is frozen: nothing is left to train");
}

/* ---- questions ---- */

uint64_t oc_model_trained_parameters(const oc_model *m) {
    uint64_t n = 0;
    for (int32_t i = 0; i < m->n_tensors; i++)
        if (!m->tensors[i].frozen) n += m->tensors[i].elements;
    return n;
}

int32_t oc_model_lowest_trained(const oc_model *m) {
    int32_t layer = 0;
    while (layer < m->n_layers && !m->blocks[m->first_layer + layer].trained)
        layer++;
    return layer;
}

bool oc_model_trains_below(const oc_model *m) {
    bool any = false;
    for (int32_t i = 0; i < m->first_layer; i++)
        any |= m->blocks[i].trained;
    return any;
}

/* ---- gradients ---- */

void oc_model_zero_frozen(const oc_model *m, const oc_block *block, oc_device *d, oc_dtype t,
                          void *grads) {
    size_t width = oc_dtype_bytes(t);
    for (int32_t i = 0; i < block->n_tensors; i++) {
        const oc_tensor_spec *x = &m->tensors[block->first_tensor + i];
        if (x->frozen) d->ops->zero(d, (char *)grads + x->offset * width, x->elements * width);
    }
}
