/* model.c - a model from its config: the decoder spec, the blocks, and every tensor's place. */
#include "model/model.h"

#include "base/checked.h"
#include "base/fs.h"
#include "base/json.h"
#include "model/family.h"
#include "model/load.h"
#include "tensor/foreign.h"

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
    case OC_WHEN_QKV_BIAS:
        return b->config->qkv_bias;
    case OC_WHEN_OUT_BIAS:
        return b->config->out_bias;
    case OC_WHEN_MLP_BIAS:
        return b->config->mlp_bias;
    case OC_WHEN_QK_NORM:
        return b->config->qk_norm;
    case OC_WHEN_PROJECTED:
        return b->config->embed_dim != b->config->hidden;
    case OC_WHEN_FINAL_NORM:
        return b->config->norm_before && !b->config->final_norm_removed;
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
    case OC_DIM_INTER2:
        return 2 * c->intermediate;
    case OC_DIM_EMBED:
        return c->embed_dim;
    case OC_DIM_HEAD:
        return c->head_dim;
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
    return w == OC_W_NORM1 || w == OC_W_NORM2 || w == OC_W_POST1 || w == OC_W_POST2 ||
           w == OC_W_QNORM || w == OC_W_KNORM || w == OC_W_FINAL_NORM || w == OC_W_EMBED_NORM;
}

static bool is_bias(oc_weight w) {
    return w == OC_W_NORM1_BIAS || w == OC_W_NORM2_BIAS || w == OC_W_FINAL_NORM_BIAS ||
           w == OC_W_EMBED_NORM_BIAS || w == OC_W_QKV_BIAS || w == OC_W_OUT_BIAS ||
           w == OC_W_UP_BIAS || w == OC_W_DOWN_BIAS;
}

/* Norms without weights keep a place of zeros (oc_decoder_spec.norm_bare). */
static bool is_bare(const builder *b, const oc_family_tensor *t) {
    return !b->config->norm_affine && is_norm(t->weight) && present(b, t);
}

/* A tensor of the file. */
static bool stored(const builder *b, const oc_family_tensor *t) {
    bool norm = is_norm(t->weight) || t->weight == OC_W_NORM1_BIAS ||
                t->weight == OC_W_NORM2_BIAS || t->weight == OC_W_FINAL_NORM_BIAS;
    return present(b, t) && (b->config->norm_affine || !norm);
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
        if (t->place != OC_BLOCK_LAYER || (!stored(b, t) && !is_bare(b, t))) continue;
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
    uint64_t table, total, width = oc_max_u64((uint64_t)c->hidden, (uint64_t)c->embed_dim);
    if (!oc_mul_u64((uint64_t)c->vocab + (uint64_t)c->positions, width, &table) ||
        !oc_mul_u64(layer, (uint64_t)c->layers, &total) || table > INT64_MAX / 128 ||
        total > INT64_MAX / 128)
        return too_large(b, "all parameters");
    return OC_OK;
}

static int64_t chunk_rows(const builder *b, uint64_t layer) {
    uint64_t tile = (uint64_t)b->config->embed_dim * OC_HEAD_TILE;
    uint64_t tiles = oc_max_u64(1, layer / tile);
    uint64_t all = oc_ceil_div((uint64_t)b->config->vocab, OC_HEAD_TILE);
    return (int64_t)(oc_min_u64(tiles, all) * OC_HEAD_TILE);
}

/* ---- building ------------------------------------------------------------------------- */

static oc_status allocate(builder *b, int32_t n_chunks) {
    int64_t per[OC_BLOCK_KINDS] = {0};
    size_t longest = 0;
    for (int32_t i = 0; i < b->family->n_tensors; i++) {
        if (!present(b, &b->family->tensors[i])) continue;
        per[b->family->tensors[i].place]++;
        longest = oc_max_u64(longest, strlen(b->family->tensors[i].name) + NUMBER_BYTES);
    }
    int64_t layers = b->config->layers;
    int64_t chunked = (per[OC_BLOCK_TABLE] + per[OC_BLOCK_HEAD]) * n_chunks;
    int64_t tensors = chunked + per[OC_BLOCK_POSITION] + per[OC_BLOCK_FRONT] +
                      per[OC_BLOCK_FINAL_NORM] + per[OC_BLOCK_LAYER] * layers;
    int64_t blocks =
        chunked + (per[OC_BLOCK_POSITION] > 0) + (per[OC_BLOCK_FRONT] > 0) + 1 + layers;
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
    if (t->parts > 0) {
        s->file_dims[0] *= t->parts;
        s->file_group = b->config->head_dim;
        s->file_stride = t->parts * b->config->head_dim;
        s->file_row0 = (t->part - 1) * b->config->head_dim;
    }
    s->decay = !is_norm(t->weight) && !is_bias(t->weight);
    s->init = OC_INIT_NORMAL;
    if (is_norm(t->weight)) s->init = b->family->plus_one ? OC_INIT_ZERO : OC_INIT_ONE;
    if (is_bias(t->weight)) s->init = OC_INIT_ZERO;
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
    block->trained = true;
    block->first_tensor = m->n_tensors;
    for (int i = 0; i < OC_W_COUNT; i++)
        block->offset[i] = -1;
    return block;
}

static void end_block(builder *b, oc_block *block) {
    block->elements = oc_align_up(block->elements, GROUP_ALIGN);
    b->model->max_block_elements = oc_max_u64(b->model->max_block_elements, block->elements);
}

/* One block with all the family's tensors of its kind; its number, or -1 when there are none. Parts
 * of one file tensor share the storage of its name. */
static int32_t add_block(builder *b, oc_block_kind kind, int32_t index) {
    int32_t number = b->model->n_blocks;
    oc_block *block = NULL;
    const char *pattern = "", *name = NULL;
    for (int32_t i = 0; i < b->family->n_tensors; i++) {
        const oc_family_tensor *t = &b->family->tensors[i];
        if (t->place != kind || (!stored(b, t) && !is_bare(b, t))) continue;
        int64_t rows = kind == OC_BLOCK_POSITION ? dim_of(b, t->rows) : 0;
        if (!block) block = begin_block(b, kind, index, 0, rows);
        if (is_bare(b, t)) {
            block->elements = oc_align_up(block->elements, GROUP_ALIGN);
            block->offset[t->weight] = (int64_t)block->elements;
            block->elements += (uint64_t)dim_of(b, t->rows);
            continue;
        }
        if (strcmp(pattern, t->name) != 0) name = make_name(b, t->name, index);
        pattern = t->name;
        add_tensor(b, block, t, name);
    }
    if (!block) return -1;
    if (kind == OC_BLOCK_LAYER)
        block->variant = b->config->sliding[index] && b->model->decoder.n_variants > 1;
    end_block(b, block);
    return number;
}

/* There always is one, be it all padding: a plan has a place for it. */
static int32_t add_final(builder *b) {
    int32_t number = add_block(b, OC_BLOCK_FINAL_NORM, 0);
    if (number >= 0) return number;
    oc_block *block = begin_block(b, OC_BLOCK_FINAL_NORM, 0, 0, 0);
    block->elements = GROUP_ALIGN;
    end_block(b, block);
    return b->model->n_blocks - 1;
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
    m->front_block = add_block(b, OC_BLOCK_FRONT, 0);
    m->first_layer = m->n_blocks;
    for (int32_t i = 0; i < m->n_layers; i++)
        add_block(b, OC_BLOCK_LAYER, i);
    m->final_norm_block = add_final(b);
    int32_t head = add_chunks(b, OC_BLOCK_HEAD, rows);
    m->first_head = m->tied ? m->first_table : head;
    m->n_head = n_chunks;
    return OC_OK;
}

static oc_norm_placement placement_of(const builder *b) {
    if (b->family->sandwich) return OC_PLACE_SANDWICH;
    if (b->config->parallel) return OC_PLACE_PARALLEL;
    return b->config->norm_before ? OC_PLACE_PRE : OC_PLACE_POST;
}

/* Layers without a window first; one variant when all layers are alike. */
static void fill_variants(builder *b) {
    const oc_family_config *c = b->config;
    oc_decoder_spec *d = &b->model->decoder;
    int32_t sliding = 0;
    for (int64_t i = 0; i < c->layers; i++)
        sliding += c->sliding[i];
    oc_layer_variant full = {0, 0, 1, (int32_t)c->layers - sliding};
    oc_layer_variant narrow = {c->window, c->n_ropes > 1, 1, sliding};
    d->variants[0] = full.layers > 0 ? full : narrow;
    d->variants[1] = narrow;
    d->n_variants = full.layers > 0 && narrow.layers > 0 ? 2 : 1;
    for (int32_t i = 0; i < OC_VARIANTS; i++)
        if (c->n_ropes > 0)
            d->variants[i].rope_scaling = oc_rope_scaling(&c->ropes[d->variants[i].rope]);
}

static float attention_scale(const oc_family_config *c) {
    if (!c->attention_scaled) return 1.0f;
    if (c->query_scalar > 0) return (float)(1 / sqrt(c->query_scalar));
    return 1.0f / sqrtf((float)c->head_dim);
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
    d->norm_bare = !c->norm_affine;
    d->norm_plus_one = b->family->plus_one || d->norm_bare;
    d->placement = placement_of(b);
    d->qk_norm = c->qk_norm;
    d->position = b->family->position;
    d->rot_dim = d->position == OC_POS_ROPE ? (c->ropes[0].dim + 1) / 2 * 2 : 0;
    d->attention_scale = attention_scale(c);
    d->attention_cap = (float)c->attention_cap;
    d->logit_cap = (float)c->logit_cap;
    d->act = c->act;
    d->gated = b->family->gated;
    fill_variants(b);
}

static void fill_model(builder *b) {
    const oc_family_config *c = b->config;
    oc_model *m = b->model;
    m->n_ropes = c->n_ropes;
    fill_decoder(b);
    m->n_layers = (int32_t)c->layers;
    m->vocab = c->vocab;
    m->hidden = c->hidden;
    m->embed_dim = c->embed_dim;
    m->max_positions = c->positions;
    m->position_offset = b->family->position_offset;
    m->tied = c->tied;
    m->embedding_scale = b->family->scaled_embedding ? (float)sqrt((double)c->hidden) : 1.0f;
    m->initializer_range = (float)c->initializer_range;
    m->prefix = b->family->prefix;
    m->prefix_optional = b->family->prefix_optional;
    m->ignored = b->family->ignored;
    m->head_alias = b->family->head_alias;
    for (int32_t i = 0; i < b->family->n_tensors; i++)
        if (b->family->tensors[i].place == OC_BLOCK_HEAD) m->head_name = b->family->tensors[i].name;
}

/* Slopes of attention with linear biases (Press et al., arXiv 2108.12409): a geometric series for a
 * power of two heads; the heads beyond it take every other value of the next one's series. */
static void fill_slopes(int32_t heads, float *slopes) {
    int32_t power = 1;
    while (power * 2 <= heads)
        power *= 2;
    float base = (float)exp2(-exp2(3 - log2(power)));
    float between = (float)exp2(-exp2(2 - log2(power)));
    for (int32_t i = 0; i < heads; i++)
        slopes[i] =
            i < power ? powf(base, (float)(i + 1)) : powf(between, (float)(2 * (i - power) + 1));
}

static oc_status fill_positions(builder *b) {
    oc_model *m = b->model;
    const oc_decoder_spec *d = &m->decoder;
    m->n_inv_freq = d->position == OC_POS_ALIBI ? d->heads : m->n_ropes * (d->rot_dim / 2);
    if (m->n_inv_freq == 0) return OC_OK;
    m->inv_freq = malloc((size_t)m->n_inv_freq * sizeof(float));
    if (!m->inv_freq)
        return oc_fail(b->err, OC_E_MEMORY, "%s: no memory for the table of positions", b->origin);
    oc_model_rope(m, 1, m->inv_freq);
    return OC_OK;
}

static oc_status build(oc_model *m, const json_t *root, const char *origin, bool untied,
                       oc_error *err) {
    oc_family_config config;
    builder b = {m, NULL, &config, origin, 0, err};
    m->ropes = calloc(OC_VARIANTS, sizeof *m->ropes);
    if (!m->ropes) return oc_fail(err, OC_E_MEMORY, "%s: no memory for a model", origin);
    OC_TRY(oc_family_read(root, origin, m, &config, &b.family, err));
    config.tied &= !untied;
    fill_model(&b);
    OC_TRY(fill_positions(&b));
    return build_blocks(&b);
}

/* ---- life ----------------------------------------------------------------------------- */

static oc_status parse(oc_model **out, const char *json, size_t bytes, const char *origin,
                       bool untied, oc_error *err) {
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
        s = build(m, root, origin, untied, err);
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
    return parse(out, json, strlen(json), origin, false, err);
}

/* What stands there instead, when it is known. */
static oc_status refuse_missing(const char *dir, const char *path, oc_error *err) {
    char told[900];
    if (oc_foreign_directory(dir, told, sizeof told))
        return oc_fail(err, OC_E_NOTFOUND, "%s (and no config.json)", told);
    return oc_fail(
        err, OC_E_NOTFOUND,
        "%s: missing: No such file or directory; a model directory holds config.json (it "
        "comes with the model's download, beside its safetensors)",
        path);
}

static oc_status open_as(oc_model **out, const char *dir_or_config, bool untied, oc_error *err) {
    *out = NULL;
    char told[700];
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
        return refuse_missing(dir_or_config, path, err);
    if (!S_ISREG(st.st_mode)) return oc_fail(err, OC_E_INVALID, "%s: is not a regular file", path);
    if (oc_foreign_file(path, told, sizeof told))
        return oc_fail(err, OC_E_FORMAT, "%s %s", path, told);
    char *text = NULL;
    size_t bytes;
    OC_TRY(oc_fs_read(&text, &bytes, path, CONFIG_MOST_BYTES, err));
    oc_status s = parse(out, text, bytes, path, untied, err);
    free(text);
    return s;
}

oc_status oc_model_open(oc_model **out, const char *dir_or_config, oc_error *err) {
    return open_as(out, dir_or_config, false, err);
}

oc_status oc_model_open_trained(oc_model **out, const char *dir, oc_error *err) {
    oc_model *untied;
    OC_TRY(open_as(out, dir, false, err));
    if (!(*out)->tied || !oc_model_holds_other_head(*out, dir)) return OC_OK;
    oc_status s = open_as(&untied, dir, true, err);
    oc_model_close(*out);
    *out = s == OC_OK ? untied : NULL;
    if (s != OC_OK) return s;
    untied->said_tied = true;
    oc_model_note(untied,
                  "%s: config.json ties the head to the embedding, but the checkpoint holds "
                  "both, with different values: they are not tied, as in the reference; set "
                  "\"tie_word_embeddings\": false",
                  dir);
    return OC_OK;
}

void oc_model_close(oc_model *m) {
    if (!m) return;
    free(m->blocks);
    free(m->tensors);
    free(m->names);
    free(m->inv_freq);
    for (int32_t i = 0; m->ropes && i < OC_VARIANTS; i++)
        oc_rope_release(&m->ropes[i]);
    free(m->ropes);
    free(m);
}

void oc_model_rope(const oc_model *m, int64_t seq, float *inv_freq) {
    if (m->decoder.position == OC_POS_ALIBI) fill_slopes(m->decoder.heads, inv_freq);
    for (int32_t i = 0; i < m->n_ropes; i++)
        oc_rope_fill(&m->ropes[i], seq, inv_freq + i * (m->decoder.rot_dim / 2));
}

bool oc_model_rope_differs(const oc_model *m, int64_t seq) {
    for (int32_t i = 0; i < m->n_ropes; i++)
        if (oc_rope_differs(&m->ropes[i], seq)) return true;
    return false;
}
