/* model.c - a model from its config: the decoder spec, the blocks, and every tensor's place. */
#include "model/model.h"

#include "base/checked.h"
#include "base/fs.h"
#include "base/json.h"
#include "model/family.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { GROUP_ALIGN = 64, CONFIG_MOST_BYTES = 16 << 20, NUMBER_BYTES = 12 };

typedef struct builder {
    oc_model *model;
    const oc_family *family;
    const oc_family_config *config;
    const char *origin;
    size_t name_at;
    oc_error *err;
} builder;

/* ---- what the tables mean ------------------------------------------------------------- */

static bool present(const builder *b, const oc_family_tensor *t) {
    switch (t->when) {
    case OC_WHEN_ALWAYS:
        return true;
    case OC_WHEN_ATTENTION_BIAS:
        return b->config->attention_bias;
    case OC_WHEN_MLP_BIAS:
        return b->config->mlp_bias;
    case OC_WHEN_UNTIED:
        return !b->config->tied;
    }
    return false;
}

static int64_t dim_of(const builder *b, oc_family_dim d) {
    const oc_family_config *c = b->config;
    switch (d) {
    case OC_DIM_ONE:
        return 1;
    case OC_DIM_HIDDEN:
        return c->hidden;
    case OC_DIM_INTER:
        return c->intermediate;
    case OC_DIM_Q:
        return c->heads * c->head_dim;
    case OC_DIM_KV:
        return c->kv_heads * c->head_dim;
    case OC_DIM_QKV:
        return (c->heads + 2 * c->kv_heads) * c->head_dim;
    case OC_DIM_VOCAB:
        return c->vocab;
    case OC_DIM_POSITIONS:
        return c->positions + b->family->position_offset;
    }
    return 0;
}

static bool is_norm(oc_weight w) {
    return w == OC_W_NORM1 || w == OC_W_NORM2 || w == OC_W_FINAL_NORM;
}

static bool is_bias(oc_weight w) {
    return w == OC_W_NORM1_BIAS || w == OC_W_NORM2_BIAS || w == OC_W_FINAL_NORM_BIAS ||
           w == OC_W_QKV_BIAS || w == OC_W_OUT_BIAS || w == OC_W_UP_BIAS || w == OC_W_DOWN_BIAS;
}

static bool has_weight(const builder *b, oc_weight w) {
    for (int32_t i = 0; i < b->family->n_tensors; i++)
        if (b->family->tensors[i].weight == w && present(b, &b->family->tensors[i])) return true;
    return false;
}

/* ---- sizes ---------------------------------------------------------------------------- */

static oc_status too_large(const builder *b, const char *what) {
    return oc_fail(b->err, OC_E_OVERFLOW, "%s: the sizes multiply to more than 64 bits hold (%s)",
                   b->origin, what);
}

/* Elements of one layer's block, padding included: what chunks of the vocabulary are measured by.
 */
static oc_status layer_elements(const builder *b, uint64_t *out) {
    uint64_t at = 0;
    int last = -1;
    for (int32_t i = 0; i < b->family->n_tensors; i++) {
        const oc_family_tensor *t = &b->family->tensors[i];
        if (t->place != OC_BLOCK_LAYER || !present(b, t)) continue;
        if ((int)t->weight != last) at = oc_align_up(at, GROUP_ALIGN);
        last = (int)t->weight;
        uint64_t n;
        if (!oc_mul_u64((uint64_t)dim_of(b, t->rows), (uint64_t)dim_of(b, t->cols), &n) ||
            !oc_add_u64(at, n, &at) || at > INT64_MAX / 64)
            return too_large(b, t->name);
    }
    *out = oc_align_up(at, GROUP_ALIGN);
    return OC_OK;
}

/* Bytes of 16-byte states of the whole model must be countable; the blocks' sums then are too. */
static oc_status check_total(const builder *b, uint64_t layer) {
    const oc_family_config *c = b->config;
    uint64_t table, total;
    if (!oc_mul_u64((uint64_t)c->vocab + (uint64_t)c->positions, (uint64_t)c->hidden, &table) ||
        !oc_mul_u64(layer, (uint64_t)c->layers, &total) || table > INT64_MAX / 128 ||
        total > INT64_MAX / 128)
        return too_large(b, "all parameters");
    return OC_OK;
}

static int64_t chunk_rows(const builder *b, uint64_t layer) {
    uint64_t tile = (uint64_t)b->config->hidden * OC_HEAD_TILE;
    uint64_t tiles = oc_max_u64(1, layer / tile);
    uint64_t all = oc_ceil_div((uint64_t)b->config->vocab, OC_HEAD_TILE);
    return (int64_t)(oc_min_u64(tiles, all) * OC_HEAD_TILE);
}

/* ---- building ------------------------------------------------------------------------- */

static oc_status allocate(builder *b, int32_t n_chunks) {
    int64_t per[OC_BLOCK_FINAL_NORM + 1] = {0};
    size_t longest = 0;
    for (int32_t i = 0; i < b->family->n_tensors; i++) {
        if (!present(b, &b->family->tensors[i])) continue;
        per[b->family->tensors[i].place]++;
        longest = oc_max_u64(longest, strlen(b->family->tensors[i].name) + NUMBER_BYTES);
    }
    int64_t layers = b->config->layers;
    int64_t chunked = (per[OC_BLOCK_TABLE] + per[OC_BLOCK_HEAD]) * n_chunks;
    int64_t tensors =
        chunked + per[OC_BLOCK_POSITION] + per[OC_BLOCK_FINAL_NORM] + per[OC_BLOCK_LAYER] * layers;
    int64_t blocks = chunked + (per[OC_BLOCK_POSITION] > 0) + 1 + layers;
    oc_model *m = b->model;
    m->blocks = calloc((size_t)blocks, sizeof *m->blocks);
    m->tensors = calloc((size_t)tensors, sizeof *m->tensors);
    m->names = calloc((size_t)(tensors - chunked + 2), longest);
    if (!m->blocks || !m->tensors || !m->names)
        return oc_fail(b->err, OC_E_MEMORY, "%s: no memory to describe %lld tensors", b->origin,
                       (long long)tensors);
    return OC_OK;
}

/* The pattern with '#' replaced; stored in the model. */
static const char *make_name(builder *b, const char *pattern, int32_t layer) {
    char *name = b->model->names + b->name_at;
    const char *hash = strchr(pattern, '#');
    size_t room = strlen(pattern) + NUMBER_BYTES;
    int n = hash ? snprintf(name, room, "%.*s%" PRId32 "%s", (int)(hash - pattern), pattern, layer,
                            hash + 1)
                 : snprintf(name, room, "%s", pattern);
    b->name_at += (size_t)n + 1;
    return name;
}

static void add_tensor(builder *b, oc_block *block, const oc_family_tensor *t, const char *name) {
    oc_model *m = b->model;
    oc_tensor_spec *s = &m->tensors[m->n_tensors++];
    bool new_group = block->offset[t->weight] < 0;
    bool chunk = block->kind == OC_BLOCK_TABLE || block->kind == OC_BLOCK_HEAD;
    int64_t rows = dim_of(b, t->rows), cols = dim_of(b, t->cols);
    if (new_group) block->elements = oc_align_up(block->elements, GROUP_ALIGN);
    s->name = name;
    s->weight = t->weight;
    s->offset = block->elements;
    s->rows = chunk ? block->rows : rows;
    s->cols = cols;
    s->elements = (uint64_t)s->rows * (uint64_t)cols;
    s->file_row0 = chunk ? block->row0 : 0;
    s->file_ndim = t->cols == OC_DIM_ONE ? 1 : 2;
    s->file_dims[0] = t->transposed ? cols : rows;
    s->file_dims[1] = t->transposed ? rows : cols;
    s->transposed = t->transposed;
    s->decay = !is_norm(t->weight) && !is_bias(t->weight);
    s->init = is_bias(t->weight) ? OC_INIT_ZERO : is_norm(t->weight) ? OC_INIT_ONE : OC_INIT_NORMAL;
    double std = b->config->initializer_range;
    if (t->residual) std /= sqrt(2.0 * (double)b->config->layers);
    s->init_std = s->init == OC_INIT_NORMAL ? (float)std : 0.0f;
    if (new_group) block->offset[t->weight] = (int64_t)s->offset;
    block->elements += s->elements;
    block->n_tensors++;
    m->parameters += s->elements;
}

static oc_block *begin_block(builder *b, oc_block_kind kind, int32_t index, int64_t row0,
                             int64_t rows) {
    oc_model *m = b->model;
    oc_block *block = &m->blocks[m->n_blocks++];
    block->kind = kind;
    block->index = index;
    block->row0 = row0;
    block->rows = rows;
    block->first_tensor = m->n_tensors;
    for (int i = 0; i < OC_W_COUNT; i++)
        block->offset[i] = -1;
    return block;
}

static void end_block(builder *b, oc_block *block) {
    block->elements = oc_align_up(block->elements, GROUP_ALIGN);
    b->model->max_block_elements = oc_max_u64(b->model->max_block_elements, block->elements);
}

/* One block with all the family's tensors of its kind; its number, or -1 when there are none. */
static int32_t add_block(builder *b, oc_block_kind kind, int32_t index) {
    int32_t number = b->model->n_blocks;
    oc_block *block = NULL;
    for (int32_t i = 0; i < b->family->n_tensors; i++) {
        const oc_family_tensor *t = &b->family->tensors[i];
        if (t->place != kind || !present(b, t)) continue;
        int64_t rows = kind == OC_BLOCK_POSITION ? dim_of(b, t->rows) : 0;
        if (!block) block = begin_block(b, kind, index, 0, rows);
        add_tensor(b, block, t, make_name(b, t->name, index));
    }
    if (!block) return -1;
    end_block(b, block);
    return number;
}

/* The chunks of one vocabulary matrix; the number of the first, or -1 when the model has none. */
static int32_t add_chunks(builder *b, oc_block_kind kind, int64_t rows_each) {
    int32_t first = b->model->n_blocks;
    for (int32_t i = 0; i < b->family->n_tensors; i++) {
        const oc_family_tensor *t = &b->family->tensors[i];
        if (t->place != kind || !present(b, t)) continue;
        const char *name = make_name(b, t->name, 0);
        int64_t vocab = b->config->vocab;
        for (int64_t row0 = 0; row0 < vocab; row0 += rows_each) {
            int64_t rows = vocab - row0 < rows_each ? vocab - row0 : rows_each;
            oc_block *block = begin_block(b, kind, b->model->n_blocks - first, row0, rows);
            add_tensor(b, block, t, name);
            end_block(b, block);
        }
    }
    return b->model->n_blocks > first ? first : -1;
}

static oc_status build_blocks(builder *b) {
    uint64_t layer = 0;
    OC_TRY(layer_elements(b, &layer));
    OC_TRY(check_total(b, layer));
    int64_t rows = chunk_rows(b, layer);
    int32_t n_chunks = (int32_t)oc_ceil_div((uint64_t)b->config->vocab, (uint64_t)rows);
    OC_TRY(allocate(b, n_chunks));

    oc_model *m = b->model;
    m->first_table = add_chunks(b, OC_BLOCK_TABLE, rows);
    m->n_table = m->n_blocks;
    m->position_block = add_block(b, OC_BLOCK_POSITION, 0);
    m->first_layer = m->n_blocks;
    for (int32_t i = 0; i < m->n_layers; i++)
        add_block(b, OC_BLOCK_LAYER, i);
    m->final_norm_block = add_block(b, OC_BLOCK_FINAL_NORM, 0);
    int32_t head = add_chunks(b, OC_BLOCK_HEAD, rows);
    m->first_head = m->tied ? m->first_table : head;
    m->n_head = n_chunks;
    return OC_OK;
}

static void fill_decoder(builder *b) {
    const oc_family_config *c = b->config;
    oc_decoder_spec *d = &b->model->decoder;
    d->hidden = c->hidden;
    d->intermediate = c->intermediate;
    d->heads = (int32_t)c->heads;
    d->kv_heads = (int32_t)c->kv_heads;
    d->head_dim = (int32_t)c->head_dim;
    d->norm = b->family->norm;
    d->norm_eps = (float)c->norm_eps;
    d->position = b->family->position;
    d->rot_dim = d->position == OC_POS_ROPE ? d->head_dim : 0;
    d->rope_theta = (float)c->rope.theta;
    d->rope_scaling = 1.0f;
    d->attention_scale = c->attention_scaled ? 1.0f / sqrtf((float)c->head_dim) : 1.0f;
    d->window = 0;
    d->qkv_bias = has_weight(b, OC_W_QKV_BIAS);
    d->out_bias = has_weight(b, OC_W_OUT_BIAS);
    d->mlp_bias = has_weight(b, OC_W_UP_BIAS);
    d->act = c->act;
    d->gated = b->family->gated;
}

static void fill_model(builder *b) {
    const oc_family_config *c = b->config;
    oc_model *m = b->model;
    fill_decoder(b);
    m->n_layers = (int32_t)c->layers;
    m->vocab = c->vocab;
    m->hidden = c->hidden;
    m->max_positions = c->positions;
    m->position_offset = b->family->position_offset;
    m->tied = c->tied;
    m->embedding_scale = 1.0f;
    m->initializer_range = (float)c->initializer_range;
    m->prefix = b->family->prefix;
    m->prefix_optional = b->family->prefix_optional;
    m->ignored = b->family->ignored;
    for (int32_t i = 0; i < b->family->n_tensors; i++)
        if (b->family->tensors[i].place == OC_BLOCK_HEAD) m->head_name = b->family->tensors[i].name;
}

static oc_status fill_rope(builder *b) {
    oc_decoder_spec *d = &b->model->decoder;
    if (d->rot_dim == 0) return OC_OK;
    b->model->inv_freq = malloc((size_t)(d->rot_dim / 2) * sizeof(float));
    if (!b->model->inv_freq)
        return oc_fail(b->err, OC_E_MEMORY, "%s: no memory for the rotary table", b->origin);
    d->rope_scaling = oc_rope_fill(&b->config->rope, d->rot_dim, b->model->inv_freq);
    return OC_OK;
}

static oc_status build(oc_model *m, const json_t *root, const char *origin, oc_error *err) {
    oc_family_config config;
    builder b = {m, NULL, &config, origin, 0, err};
    OC_TRY(oc_family_read(root, origin, m, &config, &b.family, err));
    fill_model(&b);
    OC_TRY(fill_rope(&b));
    return build_blocks(&b);
}

/* ---- life ----------------------------------------------------------------------------- */

static oc_status parse(oc_model **out, const char *json, size_t bytes, const char *origin,
                       oc_error *err) {
    *out = NULL;
    json_t *root = NULL;
    OC_TRY(oc_json_parse(&root, json, bytes, origin, 1, OC_JSON_NO_NUL, err));
    oc_status s;
    oc_model *m = NULL;
    if (!json_is_object(root)) {
        s = oc_fail(err, OC_E_FORMAT, "%s: the file does not hold a JSON object", origin);
    } else if (!(m = calloc(1, sizeof *m))) {
        s = oc_fail(err, OC_E_MEMORY, "%s: no memory for a model", origin);
    } else {
        s = build(m, root, origin, err);
    }
    json_decref(root);
    if (s != OC_OK) {
        oc_model_close(m);
        return s;
    }
    *out = m;
    return OC_OK;
}

oc_status oc_model_parse(oc_model **out, const char *json, const char *origin, oc_error *err) {
    return parse(out, json, strlen(json), origin, err);
}

oc_status oc_model_open(oc_model **out, const char *dir_or_config, oc_error *err) {
    *out = NULL;
    struct stat st;
    if (stat(dir_or_config, &st) != 0)
        return oc_fail_errno(err, OC_E_NOTFOUND, errno,
                             "%s: no such model; give a directory that holds config.json and "
                             "model.safetensors, or a config.json",
                             dir_or_config);
    char path[4096];
    int n = snprintf(path, sizeof path, "%s%s", dir_or_config,
                     S_ISDIR(st.st_mode) ? "/config.json" : "");
    if (n < 0 || (size_t)n >= sizeof path)
        return oc_fail(err, OC_E_INVALID, "%.64s...: the path is too long", dir_or_config);
    if (S_ISDIR(st.st_mode) && stat(path, &st) != 0)
        return oc_fail_errno(err, OC_E_NOTFOUND, errno,
                             "%s: missing; a model directory holds config.json (it comes with the "
                             "model's download, beside its safetensors)",
                             path);
    if (!S_ISREG(st.st_mode)) return oc_fail(err, OC_E_INVALID, "%s: is not a regular file", path);
    char *text = NULL;
    size_t bytes;
    OC_TRY(oc_fs_read(&text, &bytes, path, CONFIG_MOST_BYTES, err));
    oc_status s = parse(out, text, bytes, path, err);
    free(text);
    return s;
}

void oc_model_close(oc_model *m) {
    if (!m) return;
    free(m->blocks);
    free(m->tensors);
    free(m->names);
    free(m->inv_freq);
    free(m);
}
