/* A tokenizer as a whole: opening, questions, encoding and decoding. */
#include "tokenizer/tokenizer.h"

#include "base/fs.h"
#include "base/heap.h"
#include "tensor/foreign.h"
#include "tokenizer/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_MOST = 1 << 29 };

/* --- Life */

/* The id of a token that tokenizer_config.json names, or of the one that its class has. */
static oc_status resolve(const oc_tokenizer *t, int32_t *id, char **text, const char *of_class,
                         const char *key, const char *origin, oc_error *err) {
    *id = -1;
    if (*text == NULL) {
        int32_t found = of_class != NULL ? oc_tokenizer_find(t, of_class, strlen(of_class)) : -1;
        if (found < 0) return OC_OK;
        *text = strdup(of_class);
        if (*text == NULL) return oc_fail(err, OC_E_MEMORY, "%s: no memory to read it", origin);
        *id = found;
        return OC_OK;
    }
    if (**text == 0) return OC_OK;
    *id = oc_tokenizer_find(t, *text, strlen(*text));
    if (*id >= 0) return OC_OK;
    return oc_fail(err, OC_E_NOTFOUND,
                   "%s: tokenizer_config.json or special_tokens_map.json names the %s \"%s\", "
                   "which is no token of tokenizer.json",
                   origin, key, *text);
}

static oc_status parse(oc_tokenizer *t, const char *json, size_t n, const oc_tk_beside *beside,
                       const char *origin, oc_error *err) {
    oc_tk_config *c = &t->config;
    OC_TRY(oc_tk_config_read(c, beside, origin, err));
    t->origin = strdup(origin);
    if (t->origin == NULL) return oc_fail(err, OC_E_MEMORY, "%s: no memory to read it", origin);
    bool bytes;
    OC_TRY(oc_tk_json_is_bytes(json, n, &bytes, err));
    if (bytes) {
        oc_tk_bytes_init(t);
        return OC_OK;
    }
    OC_TRY(oc_tk_json_read(t, json, n, origin, err));
    OC_TRY(resolve(t, &t->bos, &c->bos, c->class_bos, "bos_token", origin, err));
    OC_TRY(resolve(t, &t->eos, &c->eos, c->class_eos, "eos_token", origin, err));
    return resolve(t, &t->pad, &c->pad, c->class_pad, "pad_token", origin, err);
}

static oc_status make(oc_tokenizer **out, const char *json, size_t n, const oc_tk_beside *beside,
                      const char *origin, oc_error *err) {
    *out = NULL;
    oc_tokenizer *t = calloc(1, sizeof *t);
    if (t == NULL) return oc_fail(err, OC_E_MEMORY, "%s: no memory for a tokenizer", origin);
    oc_status s = parse(t, json, n, beside, origin, err);
    if (s == OC_OK)
        *out = t;
    else
        oc_tokenizer_close(t);
    return s;
}

oc_status oc_tokenizer_parse(oc_tokenizer **out, const char *json, size_t n, const char *config,
                             size_t config_n, const char *origin, oc_error *err) {
    const oc_tk_beside beside = {.config = {config, config_n}};
    return make(out, json, n, &beside, origin, err);
}

typedef struct files {
    char *path, *json, *config, *map, *model, *chat, *tools;
    size_t n, config_n, map_n, model_n, chat_n, tools_n;
} files;

static oc_status locate(files *f, const char *dir, const char *name, oc_error *err) {
    free(f->path);
    if (asprintf(&f->path, "%s/%s", dir, name) >= 0) return OC_OK;
    f->path = NULL;
    return oc_fail(err, OC_E_MEMORY, "%s/%s: no memory to open it", dir, name);
}

/* *out stays NULL when there is no such file. */
static oc_status read_optional(files *f, const char *dir, const char *name, char **out, size_t *n,
                               oc_error *err) {
    char told[700];
    OC_TRY(locate(f, dir, name, err));
    if (!oc_fs_exists(f->path)) return OC_OK;
    OC_TRY(oc_fs_read(out, n, f->path, FILE_MOST, err));
    if (!oc_foreign_pointer(f->path, *out, *n, told, sizeof told)) return OC_OK;
    return oc_fail(err, OC_E_FORMAT, "%s %s", f->path, told);
}

static oc_status missing(files *f, const char *dir, oc_error *err) {
    OC_TRY(locate(f, dir, "tokenizer.model", err));
    if (!oc_fs_exists(f->path))
        return oc_fail(err, OC_E_NOTFOUND, "%s: there is no tokenizer.json", dir);
    return oc_fail(err, OC_E_UNSUPPORTED,
                   "%s: there is a tokenizer.model but no tokenizer.json, which is needed; make it "
                   "with Python: transformers.AutoTokenizer.from_pretrained(\"%s\")"
                   ".save_pretrained(\"%s\")",
                   dir, dir, dir);
}

static oc_status read_template(files *f, const char *dir, const char *name, char **out, size_t *n,
                               oc_error *err) {
    OC_TRY(read_optional(f, dir, name, out, n, err));
    if (*out == NULL || strlen(*out) == *n) return OC_OK;
    return oc_fail(err, OC_E_FORMAT, "%s: U+0000 in a chat template", f->path);
}

static oc_status read_files(files *f, const char *dir, oc_error *err) {
    OC_TRY(read_optional(f, dir, "tokenizer.json", &f->json, &f->n, err));
    if (f->json == NULL) return missing(f, dir, err);
    OC_TRY(read_optional(f, dir, "tokenizer_config.json", &f->config, &f->config_n, err));
    OC_TRY(read_optional(f, dir, "special_tokens_map.json", &f->map, &f->map_n, err));
    OC_TRY(read_optional(f, dir, "config.json", &f->model, &f->model_n, err));
    OC_TRY(read_template(f, dir, "chat_template.jinja", &f->chat, &f->chat_n, err));
    return read_template(f, dir, "additional_chat_templates/tool_use.jinja", &f->tools, &f->tools_n,
                         err);
}

/* Files of templates take the place of all that tokenizer_config.json has. */
static void take_templates(oc_tk_config *c, files *f) {
    if (f->chat == NULL && f->tools == NULL) return;
    free(c->chat);
    free(c->tool_chat);
    c->chat = f->chat;
    c->tool_chat = f->tools;
    f->chat = f->tools = NULL;
}

oc_status oc_tokenizer_open(oc_tokenizer **out, const char *dir, oc_error *err) {
    *out = NULL;
    files f = {0};
    oc_status s = read_files(&f, dir, err);
    char *origin = NULL;
    if (s == OC_OK && asprintf(&origin, "%s/tokenizer.json", dir) < 0) {
        origin = NULL;
        s = oc_fail(err, OC_E_MEMORY, "%s: no memory to open it", dir);
    }
    const oc_tk_beside beside = {{f.config, f.config_n}, {f.map, f.map_n}, {f.model, f.model_n}};
    if (s == OC_OK) s = make(out, f.json, f.n, &beside, origin, err);
    if (s == OC_OK) take_templates(&(*out)->config, &f);
    free(origin);
    free(f.path);
    free(f.json);
    free(f.config);
    free(f.map);
    free(f.model);
    free(f.chat);
    free(f.tools);
    return s;
}

void oc_tokenizer_close(oc_tokenizer *t) {
    if (t == NULL) return;
    oc_tk_config_release(&t->config);
    oc_tk_normalizer_free(t->normalizer);
    oc_tk_splitter_free(t->splitter);
    oc_tk_model_release(&t->model);
    oc_tk_added_release(&t->added);
    oc_tk_post_release(&t->post);
    oc_tk_decoder_free(t->decoder);
    free(t->origin);
    free(t);
}

/* --- Questions */

int32_t oc_tokenizer_vocab(const oc_tokenizer *t) { return t->vocab; }
int32_t oc_tokenizer_bos(const oc_tokenizer *t) { return t->bos; }
int32_t oc_tokenizer_eos(const oc_tokenizer *t) { return t->eos; }
int32_t oc_tokenizer_pad(const oc_tokenizer *t) { return t->pad; }

/* The byte tokenizer has no text that stands for a special token. */
const char *oc_tokenizer_bos_text(const oc_tokenizer *t) {
    return t->bytes || t->config.bos == NULL ? "" : t->config.bos;
}

const char *oc_tokenizer_eos_text(const oc_tokenizer *t) {
    return t->bytes || t->config.eos == NULL ? "" : t->config.eos;
}

const char *oc_tokenizer_chat_template(const oc_tokenizer *t, bool tools) {
    const oc_tk_config *c = &t->config;
    return tools && c->tool_chat != NULL ? c->tool_chat : c->chat;
}
bool oc_tokenizer_pieces(const oc_tokenizer *t) { return t->bytes; }

uint64_t oc_tokenizer_host_bytes(const oc_tokenizer *t) {
    const char *const texts[] = {t->config.bos,  t->config.eos,       t->config.pad,
                                 t->config.chat, t->config.tool_chat, t->origin};
    uint64_t n = oc_heap_bytes(sizeof *t);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i] != NULL) n += oc_heap_bytes(strlen(texts[i]) + 1);
    return n + oc_tk_normalizer_bytes(t->normalizer) + oc_tk_splitter_bytes(t->splitter) +
           oc_tk_model_bytes(&t->model) + oc_tk_added_bytes(&t->added) +
           oc_tk_decoder_bytes(t->decoder) + oc_tk_post_bytes(&t->post);
}

int32_t oc_tokenizer_find(const oc_tokenizer *t, const char *text, size_t n) {
    if (t->bytes) return oc_tk_bytes_find(text, n);
    const oc_tk_added *a = oc_tk_added_by_text(&t->added, text, n);
    return a != NULL ? a->id : oc_tk_vocab_find(&t->model.vocab, text, n);
}
