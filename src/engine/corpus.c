/* corpus.c - which tokenizer a run uses, and its data behind it. */
#include "engine/corpus.h"

#include "base/fs.h"
#include "base/log.h"

#include <stdio.h>
#include <string.h>

enum { PATH_BYTES = 4096 };

/* ---- files ---- */

static oc_status find(oc_data_files *out, char *const *paths, int32_t n, const char *info_dir,
                      oc_error *err) {
    if (n == 0) return OC_OK;
    OC_TRY(oc_data_files_find(out, (const char *const *)paths, n, info_dir, err));
    return oc_data_files_check(out, err);
}

oc_status oc_corpus_find_files(oc_setup *s, oc_error *err) {
    const oc_config *c = s->config;
    OC_TRY(find(&s->files, c->data, c->n_data, c->dataset_dir, err));
    return find(&s->eval_files, c->eval_data, c->n_eval_data, c->dataset_dir, err);
}

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

/* *text: the first of them that needs a tokenizer, or as it was. */
static oc_status first_text(const oc_data_files *f, const char **text, oc_error *err) {
    bool needs = false;
    for (int32_t i = 0; i < f->n && !*text; i++) {
        needs = f->columns[i] != NULL; /* rows of texts, all of them */
        if (!needs) OC_TRY(oc_dataset_needs_tokenizer(f->paths[i], &needs, err));
        if (needs) *text = f->paths[i];
    }
    return OC_OK;
}

static oc_status open_files_of(oc_setup *s, oc_error *err) {
    OC_TRY(oc_tokenizer_open(&s->tokenizer, directory(s->config), err));
    note_eos(s->tokenizer, directory(s->config));
    return OC_OK;
}

/* text: the first file that needs one, or NULL. */
static oc_status refuse_text(const oc_config *c, const char *text, oc_error *err) {
    return oc_fail(
        err, OC_E_NOTFOUND,
        "%s holds text, but %s has no tokenizer.json: give --tokenizer DIR (of a vocab.json or "
        "tokenizer.model, transformers' AutoTokenizer.from_pretrained(...).save_pretrained(DIR) "
        "makes one), --tokenizer bytes for the built-in one, or rows of input_ids",
        text, directory(c));
}

static oc_status check_vocab(const oc_setup *s, oc_error *err) {
    long long vocab = (long long)s->model->vocab;
    if (s->built_in && vocab < OC_BYTES_VOCAB)
        return oc_fail(err, OC_E_INVALID,
                       "the byte tokenizer needs a vocab_size of at least %d, but the model has "
                       "%lld",
                       OC_BYTES_VOCAB, vocab);
    /* a few ids beyond are common (added tokens that no text holds); a row that has one is named */
    if (oc_tokenizer_vocab(s->tokenizer) > vocab)
        oc_log(OC_LOG_INFO,
               "the tokenizer has %d tokens, the model %lld: rows that hold one of "
               "the others are refused",
               (int)oc_tokenizer_vocab(s->tokenizer), vocab);
    return OC_OK;
}

/* Rows of input_ids need none: what they mean is not known here. Text with --init and no
 * tokenizer.json gets the built-in one; otherwise that must be asked for. */
oc_status oc_corpus_open_tokenizer(oc_setup *s, oc_error *err) {
    const oc_config *c = s->config;
    bool found = false, data = s->files.n + s->eval_files.n > 0, asked = asks_for_bytes(c);
    if (!data && !c->tokenizer) return OC_OK;
    const char *text = NULL;
    OC_TRY(first_text(&s->files, &text, err));
    OC_TRY(first_text(&s->eval_files, &text, err));
    if (!asked) OC_TRY(has_tokenizer(c, &found, err));
    if (s->source) found = oc_source_has_tokenizer(s->source);
    if (!asked && data && !text) return OC_OK;
    if (found) {
        OC_TRY(open_files_of(s, err));
    } else {
        if (!asked && c->model_dir) return refuse_text(c, text, err);
        s->built_in = true;
        OC_TRY(oc_tokenizer_bytes(&s->tokenizer, err));
    }
    return check_vocab(s, err);
}

/* ---- the data ---- */

/* A file below a directory of --data, which the command line does not name. */
static oc_status check_written(const oc_config *c, const oc_data_files *f, oc_error *err) {
    const char *const names[] = {"log", "trace"}, *const paths[] = {c->log_path, c->trace_path};
    oc_fs_id ours, data;
    for (int k = 0; k < 2; k++) {
        if (!paths[k] || !oc_fs_identify(paths[k], &ours)) continue;
        for (int32_t i = 0; i < f->n; i++)
            if (oc_fs_identify(f->paths[i], &data) && oc_fs_same(data, ours))
                return oc_fail(err, OC_E_INVALID,
                               "--%s %s would overwrite a file of the data: give another file",
                               names[k], paths[k]);
    }
    return OC_OK;
}

/* Padding has no label: any id of the vocabulary will do where the tokenizer's is beyond it. */
static int32_t pad_id(const oc_setup *s) {
    int32_t pad = s->tokenizer ? oc_tokenizer_pad(s->tokenizer) : s->model->pad_id;
    return pad < 0 || pad >= s->model->vocab ? 0 : pad;
}

/* Of a training run's steps, or of the submissions of an evaluation. */
static oc_feed_spec feed_spec(const oc_setup *s, const oc_build_spec *b, oc_dataset *data,
                              bool train) {
    int32_t eval = oc_build_eval_micros(b);
    return (oc_feed_spec){.data = data,
                          .batch = b->batch,
                          .seq = b->seq,
                          .micros = train ? b->micros : eval,
                          .sets = train ? oc_build_sets(b) : eval,
                          .order_micros = train ? oc_build_order_micros(b) : 0,
                          .order_late = train && oc_build_rows_late(b),
                          .seed = s->config->seed,
                          .shuffle = train && s->config->shuffle,
                          .pad_id = pad_id(s),
                          .padding_idx = s->model->padding_idx};
}

uint64_t oc_corpus_bytes(const oc_setup *s, const oc_build_spec *build) {
    oc_feed_spec feed = feed_spec(s, build, NULL, s->train);
    oc_feed_spec eval = feed_spec(s, build, NULL, false);
    uint64_t bytes = s->tokenizer ? oc_tokenizer_host_bytes(s->tokenizer) : 0;
    uint64_t data = oc_dataset_host_bytes(NULL);
    if (s->files.n > 0) bytes += data + oc_feed_bytes(&feed);
    if (s->eval_files.n > 0) bytes += data + oc_feed_bytes(&eval);
    return bytes;
}

static void report(const oc_dataset *data) {
    const oc_dataset_report *r = oc_dataset_get_report(data);
    oc_log(
        OC_LOG_INFO,
        "data: %llu rows; %llu packed, %llu split, %llu truncated, %llu dropped; %llu sequences, "
        "%llu tokens, %llu targets",
        (unsigned long long)r->rows, (unsigned long long)r->packed, (unsigned long long)r->split,
        (unsigned long long)r->truncated, (unsigned long long)r->dropped,
        (unsigned long long)oc_dataset_count(data), (unsigned long long)r->tokens,
        (unsigned long long)r->targets);
}

/* Rows are read before the arenas are there: what is left of the budget beside tokenizer and plans.
 */
static uint64_t row_memory(const oc_setup *s) {
    uint64_t budget = s->budget[OC_TIER_HOST], held = s->plan_bytes;
    if (budget == UINT64_MAX) return 0;
    if (s->tokenizer) held += oc_tokenizer_host_bytes(s->tokenizer);
    return budget > held ? budget - held : 1;
}

static oc_status open_all(oc_corpus *c, const oc_setup *s, const oc_data_files *files, bool train,
                          oc_error *err) {
    const oc_dataset_spec spec = {.paths = (const char *const *)files->paths,
                                  .columns = files->columns,
                                  .n_paths = files->n,
                                  .tokenizer = s->tokenizer,
                                  .vocab = s->model->vocab,
                                  .seq = s->build.seq,
                                  .packing = s->config->packing,
                                  .pad_id = pad_id(s),
                                  .drop_lost = s->config->lost_messages == OC_LOST_DROP,
                                  .memory = row_memory(s)};
    OC_TRY(check_written(s->config, files, err));
    OC_TRY(oc_dataset_open(&c->data, &spec, err));
    report(c->data);
    oc_feed_spec feed = feed_spec(s, &s->build, c->data, train);
    return oc_feed_open(&c->feed, &feed, err);
}

oc_status oc_corpus_open(oc_corpus *out, const oc_setup *setup, const oc_data_files *files,
                         bool train, oc_error *err) {
    oc_corpus c = {NULL, NULL};
    oc_status st = open_all(&c, setup, files, train, err);
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
    memset(c, 0, sizeof *c);
}
