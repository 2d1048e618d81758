/* internal.h - how rows become sequences: rows -> encoder -> packer -> spool. Not for other
 * rooms.
 *
 *   rows    (rows.c)    read files row by row
 *   encoder (encode.c, forms.c, convert.c)
 *                               check a row and make it ids and labels; knows nothing of sequences
 *   packer  (pack.c)    places documents; holds at most one sequence of a document
 *   spool   (spool.c)   fixed-size records in an unlinked file */
#ifndef OC_DATA_INTERNAL_H
#define OC_DATA_INTERNAL_H

#include "base/json.h"
#include "data/chat.h"
#include "data/dataset.h"
#include "tokenizer/tokenizer.h"

#include <stddef.h>

enum { OC_IGNORE = -100 };

/* ---- spool: record = int32 tokens[seq], labels[seq], doc_start[seq] ---- */

typedef struct oc_spool {
    int fd;
    int64_t seq;
    int32_t *buffer;                  /* NULL once sealed */
    uint64_t capacity, used, written; /* records: room in buffer, in buffer, in the file */
    char *dir;
} oc_spool;

/* The directory that is meant: NULL is $TMPDIR, else /tmp. */
const char *oc_spool_dir(const char *dir);
OC_NODISCARD oc_status oc_spool_open(oc_spool *s, const char *dir, int64_t seq, oc_error *err);
/* The record that is to be filled next; 3 x seq entries, zeroed by nobody. */
int32_t *oc_spool_next(oc_spool *s);
/* The record of oc_spool_next() is complete. */
OC_NODISCARD oc_status oc_spool_push(oc_spool *s, oc_error *err);
/* No more records; frees the buffer. */
OC_NODISCARD oc_status oc_spool_seal(oc_spool *s, oc_error *err);
/* Part 0, 1 or 2 of a record. */
OC_NODISCARD oc_status oc_spool_read(const oc_spool *s, uint64_t record, int part, int32_t *out,
                                     oc_error *err);
void oc_spool_close(oc_spool *s);

/* ---- packer ---- */

typedef struct oc_packer {
    oc_spool *spool;
    oc_dataset_report *report;
    int64_t seq;
    bool packing;
    int32_t pad_id;
    int64_t filled;           /* tokens in the open sequence */
    int32_t *tokens, *labels; /* of the open document, seq entries each, until it is placed */
    int64_t held;
    bool split, cut; /* the open document is longer than a sequence; cut: its rest is left out */
} oc_packer;

OC_NODISCARD oc_status oc_packer_init(oc_packer *p, oc_spool *spool, oc_dataset_report *report,
                                      const oc_dataset_spec *spec, oc_error *err);
void oc_packer_release(oc_packer *p);
/* A document is any number of puts, then an end. Labels are not shifted. */
OC_NODISCARD oc_status oc_packer_put(oc_packer *p, const int32_t *tokens, const int32_t *labels,
                                     int64_t n, oc_error *err);
OC_NODISCARD oc_status oc_packer_end(oc_packer *p, oc_error *err);
/* Pads and pushes the last sequence. */
OC_NODISCARD oc_status oc_packer_finish(oc_packer *p, oc_error *err);

/* ---- encoder ---- */

typedef enum oc_row_form {
    OC_ROW_NONE,
    OC_ROW_TEXT,
    OC_ROW_IDS,
    OC_ROW_COMPLETION,
    OC_ROW_MESSAGES,
    OC_ROW_ALPACA,
    OC_ROW_SHAREGPT,
    OC_ROW_FORMS
} oc_row_form;

/* Makes ids and labels, n each, of one row after the other. */
typedef struct oc_encoder {
    const oc_tokenizer *tokenizer; /* borrowed */
    int64_t vocab;
    oc_chat *chat; /* opened by the first conversation */
    oc_tokens tokens;
    int32_t *ids, *labels;
    size_t n, room;
} oc_encoder;

void oc_encoder_release(oc_encoder *e);
const char *oc_row_form_name(oc_row_form form);
/* By the row's keys. Errors begin with `where`, here and below. */
OC_NODISCARD oc_status oc_row_form_of(json_t *row, const char *where, oc_row_form *out,
                                      oc_error *err);
/* The row, which is of this form. */
OC_NODISCARD oc_status oc_encoder_row(oc_encoder *e, const json_t *row, oc_row_form form,
                                      const char *where, oc_error *err);
/* One document. */
OC_NODISCARD oc_status oc_encoder_text(oc_encoder *e, const char *text, size_t n, const char *where,
                                       oc_error *err);
/* A piece of one, without special tokens; labels equal ids. */
OC_NODISCARD oc_status oc_encoder_piece(oc_encoder *e, const char *text, size_t n,
                                        const char *where, oc_error *err);
/* A row's member; null is as good as absent: exporters write it for an empty column. */
json_t *oc_row_member(const json_t *row, const char *key);

/* ---- conversion (convert.c) ---- */

/* Alpaca's prompt and output side by side; free *text. */
OC_NODISCARD oc_status oc_convert_alpaca(const json_t *row, const char *where, char **text,
                                         size_t *n, size_t *n_prompt, oc_error *err);
/* sharegpt's system and conversations as messages, a new reference. */
OC_NODISCARD oc_status oc_convert_sharegpt(const json_t *row, const char *where, json_t **messages,
                                           oc_error *err);

/* ---- files ---- */

typedef enum oc_file_kind { OC_FILE_OTHER, OC_FILE_TXT, OC_FILE_JSONL, OC_FILE_JSON } oc_file_kind;

/* By the name's ending, that of a compressed file left out. */
oc_file_kind oc_data_file_kind(const char *path);

/* ---- rows ---- */

/* Where rows go: the packer or, when that is NULL, visit. */
typedef struct oc_rows {
    oc_encoder encoder;
    oc_packer *packer;
    oc_row_visit *visit;
    void *arg;
} oc_rows;

/* Every row of one file. */
OC_NODISCARD oc_status oc_rows_read(oc_rows *rows, const char *path, oc_error *err);

#endif
