#include "base/checked.h"
#include "base/heap.h"
#include "data/internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct oc_dataset {
    oc_spool spool;
    oc_dataset_report report;
};

static oc_status check_spec(const oc_dataset_spec *spec, oc_error *err) {
    if (spec->n_paths < 1) return oc_fail(err, OC_E_INVALID, "no data file is given");
    if (spec->seq < 2 || spec->seq > INT32_MAX / 12)
        return oc_fail(err, OC_E_INVALID,
                       "a sequence length of %" PRId64 " is not in [2, %d]: a target needs a token "
                       "before it",
                       spec->seq, INT32_MAX / 12);
    if (spec->vocab < 1 || spec->vocab > INT32_MAX)
        return oc_fail(err, OC_E_INVALID, "a vocabulary of %" PRId64 " is not in [1, %d]",
                       spec->vocab, INT32_MAX);
    if (spec->pad_id < 0 || spec->pad_id >= spec->vocab)
        return oc_fail(err, OC_E_INVALID, "padding id %d is not in the vocabulary [0, %" PRId64 ")",
                       spec->pad_id, spec->vocab);
    return OC_OK;
}

static oc_status read_path(oc_rows *rows, const char *path, const oc_columns *columns,
                           oc_error *err) {
    oc_data_files files = {.n = 0};
    oc_status s = oc_data_files_list(&files, path, err);
    for (int32_t i = 0; s == OC_OK && i < files.n; i++)
        s = oc_rows_read(rows, files.paths[i], columns, err);
    oc_data_files_release(&files);
    return s;
}

static oc_status read_all(oc_rows *rows, const oc_dataset_spec *spec, oc_error *err) {
    oc_status s = OC_OK;
    rows->encoder.tokenizer = spec->tokenizer;
    rows->encoder.vocab = spec->vocab;
    rows->encoder.drop_lost = spec->drop_lost;
    rows->memory = spec->memory;
    for (int32_t i = 0; s == OC_OK && i < spec->n_paths; i++)
        s = read_path(rows, spec->paths[i], spec->columns ? spec->columns[i] : NULL, err);
    if (s == OC_OK) oc_notes_say(&rows->encoder.notes);
    oc_encoder_release(&rows->encoder);
    return s;
}

static oc_status fill_spool(oc_dataset *d, const oc_dataset_spec *spec, oc_error *err) {
    oc_packer p;
    oc_rows rows = {.packer = &p};
    oc_status s = oc_packer_init(&p, &d->spool, &d->report, spec, err);
    if (s == OC_OK) s = read_all(&rows, spec, err);
    if (s == OC_OK) s = oc_packer_finish(&p, err);
    if (s == OC_OK) s = oc_spool_seal(&d->spool, err);
    oc_packer_release(&p);
    return s;
}

oc_status oc_dataset_visit(const oc_dataset_spec *spec, oc_row_visit *visit, void *arg,
                           oc_error *err) {
    oc_rows rows = {.visit = visit, .arg = arg};
    return read_all(&rows, spec, err);
}

oc_status oc_dataset_open(oc_dataset **out, const oc_dataset_spec *spec, oc_error *err) {
    *out = NULL;
    OC_TRY(check_spec(spec, err));
    oc_dataset *d = calloc(1, sizeof *d);
    if (d == NULL) return oc_fail(err, OC_E_MEMORY, "no memory for a data set");
    oc_status s = oc_spool_open(&d->spool, spec->spool_dir, spec->seq, err);
    if (s == OC_OK) s = fill_spool(d, spec, err);
    if (s != OC_OK) {
        oc_dataset_close(d);
        return s;
    }
    *out = d;
    return OC_OK;
}

void oc_dataset_close(oc_dataset *d) {
    if (d == NULL) return;
    oc_spool_close(&d->spool);
    free(d);
}

uint64_t oc_dataset_count(const oc_dataset *d) { return d->spool.written; }
const oc_dataset_report *oc_dataset_get_report(const oc_dataset *d) { return &d->report; }

/* Rows are read, encoded and gone before a data set is open: its sequences are in the spool. */
uint64_t oc_dataset_host_bytes(const char *spool_dir) {
    return oc_heap_bytes(sizeof(oc_dataset)) + oc_heap_bytes(strlen(oc_spool_dir(spool_dir)) + 1);
}

oc_status oc_dataset_read(oc_dataset *d, uint64_t index, int32_t *tokens, int32_t *labels,
                          int32_t *positions, int32_t *doc_start, oc_error *err) {
    if (index >= d->spool.written)
        return oc_fail(err, OC_E_INVALID, "sequence %" PRIu64 " of a data set that has %" PRIu64,
                       index, d->spool.written);
    OC_TRY(oc_spool_read(&d->spool, index, 0, tokens, err));
    OC_TRY(oc_spool_read(&d->spool, index, 1, labels, err));
    OC_TRY(oc_spool_read(&d->spool, index, 2, doc_start, err));
    for (int64_t t = 0; t < d->spool.seq; t++)
        positions[t] = (int32_t)t - doc_start[t];
    return OC_OK;
}
