/* corpus.c - which tokenizer a run uses, and its data behind it. */
#include "train/corpus.h"

#include "base/fs.h"
#include "base/log.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { PATH_BYTES = 4096 };

/* ---- the tokenizer ---- */

static const char *directory(const oc_config *c) {
    return c->tokenizer ? c->tokenizer : c->model_dir ? c->model_dir : c->init_dir;
}

static bool asks_for_bytes(const oc_config *c) {
    return c->tokenizer && strcmp(c->tokenizer, "bytes") == 0;
}

static oc_status has_tokenizer(const oc_config *c, bool *out, oc_error *err) {
    char path[PATH_BYTES];
    const char *dir = directory(c);
    if (snprintf(path, sizeof path, "%s/tokenizer.json", dir) >= (int)sizeof path)
        return oc_fail(err, OC_E_INVALID, "the path %s is too long", dir);
    *out = oc_fs_exists(path);
    if (c->tokenizer && !*out)
        return oc_fail(err, OC_E_NOTFOUND, "--tokenizer %s: there is no tokenizer.json", dir);
    return OC_OK;
}

oc_status oc_corpus_tokenizer(oc_tokenizer **out, const oc_config *c, oc_error *err) {
    bool found = false;
    *out = NULL;
    if (asks_for_bytes(c)) return oc_tokenizer_bytes(out, err);
    OC_TRY(has_tokenizer(c, &found, err));
    if (found) return oc_tokenizer_open(out, directory(c), err);
    return oc_fail(err, OC_E_NOTFOUND,
                   "%s has no tokenizer.json: give --tokenizer DIR, or bytes for the built-in one",
                   directory(c));
}

static void note_eos(const oc_tokenizer *t, const char *dir) {
    if (oc_tokenizer_eos(t) < 0)
        oc_log(OC_LOG_INFO,
               "%s: the tokenizer names no eos_token: texts and completions end without one (name "
               "it in tokenizer_config.json)",
               dir);
}

/* Rows of input_ids need none: what they mean is not known here. Text with --init and no
 * tokenizer.json gets the built-in one; otherwise that must be asked for. `text`: the first file
 * that needs one, or NULL. */
static oc_status open_tokenizer(oc_corpus *c, const oc_setup *setup, const char *text,
                                oc_error *err) {
    const oc_config *cfg = setup->config;
    bool found = false;
    c->built_in = asks_for_bytes(cfg);
    if (!c->built_in) OC_TRY(has_tokenizer(cfg, &found, err));
    if (!c->built_in && !text) return OC_OK;
    if (found) {
        OC_TRY(oc_tokenizer_open(&c->tokenizer, directory(cfg), err));
        note_eos(c->tokenizer, directory(cfg));
        return OC_OK;
    }
    if (!c->built_in && cfg->model_dir)
        return oc_fail(
            err, OC_E_NOTFOUND,
            "%s holds text, but %s has no tokenizer.json: give --tokenizer DIR (of a vocab.json or "
            "tokenizer.model, transformers' "
            "AutoTokenizer.from_pretrained(...).save_pretrained(DIR) "
            "makes one), --tokenizer bytes for the built-in one, or rows of input_ids",
            text, directory(cfg));
    c->built_in = true;
    return oc_tokenizer_bytes(&c->tokenizer, err);
}

static oc_status check_vocab(const oc_corpus *c, const oc_setup *setup, oc_error *err) {
    long long vocab = (long long)setup->model->vocab;
    if (!c->tokenizer) return OC_OK;
    if (c->built_in && vocab < OC_BYTES_VOCAB)
        return oc_fail(err, OC_E_INVALID,
                       "the byte tokenizer needs a vocab_size of at least %d, but the model has "
                       "%lld",
                       OC_BYTES_VOCAB, vocab);
    /* a few ids beyond are common (added tokens that no text holds); a row that has one is named */
    if (oc_tokenizer_vocab(c->tokenizer) > vocab)
        oc_log(OC_LOG_INFO,
               "the tokenizer has %d tokens, the model %lld: rows that hold one of "
               "the others are refused",
               (int)oc_tokenizer_vocab(c->tokenizer), vocab);
    return OC_OK;
}

/* ---- the data ---- */

static const char *first_text(const oc_data_files *f) {
    for (int32_t i = 0; i < f->n; i++)
        if (oc_dataset_needs_tokenizer(f->paths[i])) return f->paths[i];
    return NULL;
}

/* A file below a directory of --data, which the command line does not name. */
static oc_status check_written(const oc_config *c, const oc_data_files *f, oc_error *err) {
    const char *const names[] = {"log", "trace"}, *const paths[] = {c->log_path, c->trace_path};
    struct stat ours, data;
    for (int k = 0; k < 2; k++) {
        if (!paths[k] || stat(paths[k], &ours) != 0) continue;
        for (int32_t i = 0; i < f->n; i++)
            if (stat(f->paths[i], &data) == 0 && data.st_dev == ours.st_dev &&
                data.st_ino == ours.st_ino)
                return oc_fail(err, OC_E_INVALID,
                               "--%s %s would overwrite a file of the data: give another file",
                               names[k], paths[k]);
    }
    return OC_OK;
}

/* Padding has no label: any id of the vocabulary will do where the tokenizer's is beyond it. */
static int32_t pad_id(const oc_corpus *c, const oc_setup *setup) {
    int32_t pad = c->tokenizer ? oc_tokenizer_pad(c->tokenizer) : setup->model->pad_id;
    return pad < 0 || pad >= setup->model->vocab ? 0 : pad;
}

static oc_status open_data(oc_corpus *c, const oc_setup *setup, const oc_data_files *files,
                           bool shuffle, oc_error *err) {
    oc_dataset_spec spec = {.paths = (const char *const *)files->paths,
                            .n_paths = files->n,
                            .tokenizer = c->tokenizer,
                            .vocab = setup->model->vocab,
                            .seq = setup->build.seq,
                            .packing = setup->config->packing,
                            .pad_id = pad_id(c, setup)};
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
                         .pad_id = spec.pad_id,
                         .padding_idx = setup->model->padding_idx};
    return oc_feed_open(&c->feed, &feed, err);
}

static oc_status open_files(oc_corpus *c, const oc_setup *setup, const oc_data_files *files,
                            bool shuffle, oc_error *err) {
    OC_TRY(check_written(setup->config, files, err));
    if (!c->borrowed) {
        OC_TRY(open_tokenizer(c, setup, first_text(files), err));
        OC_TRY(check_vocab(c, setup, err));
    }
    return open_data(c, setup, files, shuffle, err);
}

oc_status oc_corpus_open(oc_corpus *out, const oc_setup *setup, const oc_corpus *other,
                         char *const *paths, int32_t n_paths, bool shuffle, oc_error *err) {
    oc_corpus c = {.tokenizer = NULL};
    if (other && other->tokenizer)
        c = (oc_corpus){
            .tokenizer = other->tokenizer, .built_in = other->built_in, .borrowed = true};
    oc_data_files files = {NULL, 0};
    OC_TRY(oc_data_files_find(&files, (const char *const *)paths, n_paths, err));
    oc_status st = open_files(&c, setup, &files, shuffle, err);
    oc_data_files_release(&files);
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
    if (!c->borrowed) oc_tokenizer_close(c->tokenizer);
    memset(c, 0, sizeof *c);
}

uint64_t oc_corpus_host_bytes(const oc_corpus *c) {
    bool own = c->tokenizer && !c->borrowed;
    uint64_t bytes = own ? oc_tokenizer_host_bytes(c->tokenizer) : 0;
    if (c->data) bytes += oc_dataset_host_bytes(c->data);
    if (c->feed) bytes += oc_feed_host_bytes(c->feed);
    return bytes;
}
