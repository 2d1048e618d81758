/* corpus.c - which tokenizer a run uses, and its data behind it. */
#include "train/corpus.h"

#include "base/fs.h"
#include "base/json.h"
#include "base/log.h"
#include "text/lines.h"

#include <stdio.h>
#include <string.h>

/* The built-in one when asked for; and for text when a model directory carries it, or when --init
 * has none. Rows of input_ids need none: what they mean is not known here. */
static oc_status open_tokenizer(oc_corpus *c, const oc_setup *setup, bool text, oc_error *err) {
    const oc_config *cfg = setup->config;
    const char *dir = cfg->tokenizer   ? cfg->tokenizer
                      : cfg->model_dir ? cfg->model_dir
                                       : cfg->init_dir;
    char path[4096];
    bool bytes = strcmp(dir, "bytes") == 0;
    if (!bytes) {
        if (snprintf(path, sizeof path, "%s/tokenizer.json", dir) >= (int)sizeof path)
            return oc_fail(err, OC_E_INVALID, "the path %s is too long", dir);
        c->foreign = oc_fs_exists(path);
        if (cfg->tokenizer && !c->foreign)
            return oc_fail(err, OC_E_NOTFOUND, "--tokenizer %s: there is no tokenizer.json", dir);
        bytes = text && (c->foreign ? oc_tokenizer_is_bytes(path) : cfg->init_dir != NULL);
    }
    if (!bytes) return OC_OK; /* then rows of text are refused, see refuse_text() */
    if (setup->model->vocab < OC_BYTES_VOCAB)
        return oc_fail(
            err, OC_E_INVALID,
            "the byte tokenizer needs a vocab_size of at least %d, but the model has %lld",
            OC_BYTES_VOCAB, (long long)setup->model->vocab);
    return oc_tokenizer_bytes(&c->tokenizer, err);
}

/* One file holds one form, so its first row tells. What cannot be read here is left to the data
 * set, which says why. */
static bool holds_text(const char *path) {
    size_t n = strlen(path);
    if (n >= 4 && strcmp(path + n - 4, ".txt") == 0) return true;
    oc_lines lines;
    const char *line;
    bool text = false, more = true;
    if (oc_lines_open(&lines, path, NULL) != OC_OK) return false;
    while (oc_lines_next(&lines, &line, &n, &more, NULL) == OC_OK && more) {
        size_t blank = 0;
        while (blank < n && strchr(" \t\r", line[blank]) && line[blank])
            blank++;
        if (blank == n) continue;
        json_t *row = json_loadb(line, n, 0, NULL);
        text = json_is_object(row) && !json_object_get(row, "input_ids");
        json_decref(row);
        break;
    }
    oc_lines_close(&lines);
    return text;
}

static oc_status refuse_text(const oc_corpus *c, const oc_setup *setup, char *const *paths,
                             int32_t n, oc_error *err) {
    const oc_config *cfg = setup->config;
    const char *dir = cfg->tokenizer   ? cfg->tokenizer
                      : cfg->model_dir ? cfg->model_dir
                                       : cfg->init_dir;
    for (int32_t i = 0; i < n; i++) {
        if (!holds_text(paths[i])) continue;
        if (c->foreign)
            return oc_fail(err, OC_E_UNSUPPORTED,
                           "%s holds text, and the tokenizer.json of %s is not available in this "
                           "version: give rows of input_ids",
                           paths[i], dir);
        return oc_fail(
            err, OC_E_NOTFOUND,
            "%s holds text, but %s has no tokenizer.json: give --tokenizer bytes for the "
            "built-in one, or rows of input_ids",
            paths[i], dir);
    }
    return OC_OK;
}

static oc_status open_data(oc_corpus *c, const oc_setup *setup, char *const *paths, int32_t n,
                           bool shuffle, oc_error *err) {
    int32_t pad = c->tokenizer ? oc_tokenizer_pad(c->tokenizer) : setup->model->pad_id;
    oc_dataset_spec spec = {.paths = (const char *const *)paths,
                            .n_paths = n,
                            .tokenizer = c->tokenizer,
                            .vocab = setup->model->vocab,
                            .seq = setup->build.seq,
                            .packing = setup->config->packing,
                            .pad_id = pad < 0 ? 0 : pad};
    OC_TRY(oc_dataset_open(&c->data, &spec, err));
    const oc_dataset_report *r = oc_dataset_get_report(c->data);
    oc_log(
        OC_LOG_INFO,
        "data: %llu rows; %llu packed, %llu split, %llu truncated, %llu dropped; %llu sequences, "
        "%llu tokens, %llu targets",
        (unsigned long long)r->rows, (unsigned long long)r->packed, (unsigned long long)r->split,
        (unsigned long long)r->truncated, (unsigned long long)r->dropped,
        (unsigned long long)oc_dataset_count(c->data), (unsigned long long)r->tokens,
        (unsigned long long)r->targets);
    oc_feed_spec feed = {.data = c->data,
                         .batch = setup->build.batch,
                         .seq = setup->build.seq,
                         .micros = setup->build.micros,
                         .seed = setup->config->seed,
                         .shuffle = shuffle,
                         .pad_id = spec.pad_id};
    return oc_feed_open(&c->feed, &feed, err);
}

oc_status oc_corpus_open(oc_corpus *out, const oc_setup *setup, char *const *paths, int32_t n_paths,
                         bool shuffle, oc_error *err) {
    oc_corpus c = {NULL, NULL, NULL, false};
    bool text = false;
    for (int32_t i = 0; i < n_paths && !text; i++)
        text = holds_text(paths[i]);
    oc_status st = open_tokenizer(&c, setup, text, err);
    if (st == OC_OK && !c.tokenizer) st = refuse_text(&c, setup, paths, n_paths, err);
    if (st == OC_OK) st = open_data(&c, setup, paths, n_paths, shuffle, err);
    if (st != OC_OK) {
        oc_corpus_release(&c);
        return st;
    }
    *out = c;
    return OC_OK;
}

void oc_corpus_release(oc_corpus *c) {
    if (!c) return;
    oc_feed_close(c->feed);
    oc_dataset_close(c->data);
    oc_tokenizer_close(c->tokenizer);
    memset(c, 0, sizeof *c);
}

uint64_t oc_corpus_host_bytes(const oc_corpus *c) {
    uint64_t bytes = c->tokenizer ? oc_tokenizer_host_bytes(c->tokenizer) : 0;
    if (c->data) bytes += oc_dataset_host_bytes(c->data);
    if (c->feed) bytes += oc_feed_host_bytes(c->feed);
    return bytes;
}
