/* internal.h - how rows become sequences: rows -> encoder -> packer -> spool. Not for other
 * rooms.
 *
 *   rows    (rows.c)    read files row by row
 *   columns (info.c, columns.c)
 *                               what a file's columns are called, where they have names of their
 * own encoder (encode.c, ids.c, forms.c, keys.c, convert.c) check a row and make it ids and labels;
 * knows nothing of sequences notes   (notes.c)   what is said once of all rows packer  (pack.c)
 * places documents; holds at most one sequence of a document spool   (spool.c)   fixed-size records
 * in an unlinked file */
#ifndef OC_DATA_INTERNAL_H
#define OC_DATA_INTERNAL_H

#include "base/json.h"
#include "data/chat.h"
#include "data/dataset.h"
#include "tokenizer/tokenizer.h"

#include <stddef.h>
#include <string.h>

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

/* The more specific first: a row that fits several is of the first. */
typedef enum oc_row_form {
    OC_ROW_NONE,
    OC_ROW_IDS,
    OC_ROW_COMPLETION,
    OC_ROW_MESSAGES,
    OC_ROW_SHAREGPT,
    OC_ROW_ALPACA,
    OC_ROW_TEXT,
    OC_ROW_FORMS
} oc_row_form;

typedef enum oc_note {
    OC_NOTE_SEVERAL,
    OC_NOTE_NULL,
    OC_NOTE_BOS,
    OC_NOTE_NUMBERS,
    OC_NOTE_LOST,
    OC_NOTES
} oc_note;
enum { OC_NOTED_KEYS = 16, OC_NOTED_KEY = 48 };

/* How many rows there were of each kind, and where the first; keys that were ignored. */
typedef struct oc_row_notes {
    uint64_t count[OC_NOTES];
    char where[OC_NOTES][256];
    struct {
        char key[OC_NOTED_KEY];
        uint64_t rows;
    } ignored[OC_NOTED_KEYS];
    size_t n_ignored;
    bool more;
} oc_row_notes;

void oc_notes_add(oc_row_notes *n, oc_note what, const char *where);
void oc_notes_ignored(oc_row_notes *n, const char *key);
void oc_notes_say(const oc_row_notes *n);

/* Makes ids and labels, n each, of one row after the other. */
typedef struct oc_encoder {
    const oc_tokenizer *tokenizer; /* borrowed */
    int64_t vocab;
    bool drop_lost;
    oc_chat *chat; /* opened by the first conversation */
    oc_tokens tokens;
    int32_t *ids, *labels;
    size_t n, room;
    size_t *starts; /* of the row's documents; n_starts 0: it is one */
    size_t n_starts, starts_room;
    oc_row_notes notes;
} oc_encoder;

void oc_encoder_release(oc_encoder *e);
/* Room for n ids and labels; a document of the row begins at `at`, behind those before. */
OC_NODISCARD oc_status oc_encoder_reserve(oc_encoder *e, size_t n, const char *where,
                                          oc_error *err);
OC_NODISCARD oc_status oc_encoder_begin(oc_encoder *e, size_t at, const char *where, oc_error *err);
const char *oc_row_form_name(oc_row_form form);

/* By the row's keys. A row whose text is null is of its form too, and has nothing to train. */
typedef struct oc_row_kind {
    oc_row_form form;
    bool empty, several;
} oc_row_kind;

/* Errors begin with `where`, here and below. */
OC_NODISCARD oc_status oc_row_kind_of(json_t *row, const char *where, oc_row_kind *out,
                                      oc_error *err);
/* In a file of this form: the question is there, and no key of the answer. */
bool oc_row_lacks_answer(const json_t *row, oc_row_form form);
/* The row, which is of this kind. */
OC_NODISCARD oc_status oc_encoder_row(oc_encoder *e, json_t *row, oc_row_kind kind,
                                      const char *where, oc_error *err);
/* One of input_ids. */
OC_NODISCARD oc_status oc_encoder_ids(oc_encoder *e, const json_t *row, const char *where,
                                      oc_error *err);
/* One document. */
OC_NODISCARD oc_status oc_encoder_text(oc_encoder *e, const char *text, size_t n, const char *where,
                                       oc_error *err);
/* A piece of one, without special tokens; labels equal ids. */
OC_NODISCARD oc_status oc_encoder_piece(oc_encoder *e, const char *text, size_t n,
                                        const char *where, oc_error *err);
/* Whether it is this text: one with U+0000 in it is none. */
static inline bool oc_text_is(const json_t *v, const char *word) {
    size_t n = strlen(word);
    return json_is_string(v) && json_string_length(v) == n &&
           memcmp(json_string_value(v), word, n) == 0;
}
/* A row's member; null is as good as absent: exporters write it for an empty column. */
json_t *oc_row_member(const json_t *row, const char *key);

/* ---- what keys mean (keys.c) ---- */

/* Whether some form reads a column of this name. */
bool oc_key_is_known(const char *name, size_t n);
/* Refuses what has a meaning and no place in this form; notes keys without a meaning. */
OC_NODISCARD oc_status oc_keys_check_row(json_t *row, oc_row_form form, oc_row_notes *notes,
                                         const char *where, oc_error *err);
OC_NODISCARD oc_status oc_keys_check_turn(const json_t *turn, const char *what, size_t i,
                                          oc_error *err);
/* The i-th key that is a mask over input_ids; NULL: there are no more. */
const char *oc_keys_mask(size_t i);
/* false and 0 are 0, true and 1 are 1, anything else is -1. */
int oc_keys_bit(const json_t *v);

typedef struct oc_trained {
    bool trained;
    const char *by;   /* the key that says so; NULL: none does */
    bool of_any_role; /* that key is axolotl's, for any message */
} oc_trained;

/* What a message's flags say; where none does it is trained. */
OC_NODISCARD oc_status oc_keys_trained(const json_t *turn, const char *what, size_t i,
                                       oc_trained *out, oc_error *err);

/* ---- numbers (numbers.c) ---- */

/* A row that JSON refuses, with NaN, Infinity and huge numbers of columns that no form reads as
 * null, and NaN as null in those that are; free *out. NULL: nothing of that is in it. */
OC_NODISCARD oc_status oc_numbers_repair(const char *text, size_t n, char **out, size_t *m,
                                         oc_error *err);

/* ---- conversion (convert.c) ---- */

/* Alpaca's prompt and output side by side; free *text. */
OC_NODISCARD oc_status oc_convert_alpaca(const json_t *row, const char *where, char **text,
                                         size_t *n, size_t *n_prompt, oc_error *err);
/* A list of messages, of role and content or of from and value. */
typedef struct oc_turns {
    json_t *messages; /* a new reference */
    bool empty;       /* an answer is null: there is nothing to train on */
} oc_turns;

OC_NODISCARD oc_status oc_convert_turns(const json_t *row, const char *key, const char *where,
                                        oc_turns *out, oc_error *err);

/* ---- columns (columns.c) ---- */

typedef enum oc_column {
    OC_COLUMN_PROMPT,
    OC_COLUMN_QUERY,
    OC_COLUMN_RESPONSE,
    OC_COLUMN_HISTORY,
    OC_COLUMN_MESSAGES,
    OC_COLUMN_SYSTEM,
    OC_COLUMN_TOOLS,
    OC_COLUMNS
} oc_column;

/* Keys of a turn, then speakers. */
typedef enum oc_tag {
    OC_TAG_ROLE,
    OC_TAG_CONTENT,
    OC_TAG_USER,
    OC_TAG_ASSISTANT,
    OC_TAG_OBSERVATION,
    OC_TAG_FUNCTION,
    OC_TAG_SYSTEM,
    OC_TAGS
} oc_tag;

/* What a file's columns are called. */
struct oc_columns {
    struct oc_columns *next;                       /* of a list of those that are owned */
    json_t *entry;                                 /* names are borrowed from it */
    bool chat;                                     /* messages; else prompts and responses */
    const char *column[OC_COLUMNS], *tag[OC_TAGS]; /* NULL: there is none */
};

/* Of the entry `name` of a dataset_info.json. */
OC_NODISCARD oc_status oc_columns_new(oc_columns **out, json_t *entry, const char *file,
                                      const char *name, oc_error *err);
void oc_columns_free(oc_columns *c);
/* The row as one of messages, conversations or text; a new reference. */
OC_NODISCARD oc_status oc_columns_row(const oc_columns *c, const json_t *row, const char *where,
                                      json_t **out, oc_error *err);

/* ---- names of data sets (info.c) ---- */

typedef struct oc_data_info {
    const char *dir; /* borrowed */
    char *file;
    json_t *root; /* NULL: there is no such file */
    bool asked;   /* for the directory */
} oc_data_info;

/* dir NULL: "data", if there is a dataset_info.json. */
OC_NODISCARD oc_status oc_info_open(oc_data_info *out, const char *dir, oc_error *err);
void oc_info_close(oc_data_info *info);
/* Whether the text stands for names of data sets rather than for a path. */
bool oc_info_means(const oc_data_info *info, const char *text);
/* The file or directory of a name, and its columns: free() and oc_columns_free(). */
OC_NODISCARD oc_status oc_info_find(const oc_data_info *info, const char *name, size_t n,
                                    char **path, oc_columns **columns, oc_error *err);

/* ---- files ---- */

typedef enum oc_file_kind { OC_FILE_OTHER, OC_FILE_TXT, OC_FILE_JSONL, OC_FILE_JSON } oc_file_kind;

/* As oc_data_files_find(), of one path that is no name. */
OC_NODISCARD oc_status oc_data_files_list(oc_data_files *out, const char *path, oc_error *err);
/* By the name's ending, that of a compressed file left out. */
oc_file_kind oc_data_file_kind(const char *path);

/* ---- rows ---- */

/* Where rows go: the packer or, when that is NULL, visit. */
typedef struct oc_rows {
    oc_encoder encoder;
    oc_packer *packer;
    oc_row_visit *visit;
    void *arg;
    uint64_t memory; /* that reading one row may take; 0: any */
} oc_rows;

/* Every row of one file; columns NULL: keys are those of the forms. */
OC_NODISCARD oc_status oc_rows_read(oc_rows *rows, const char *path, const oc_columns *columns,
                                    oc_error *err);

#endif
