/* dataset.h - training sequences from files: tokenized, packed, shuffled, and read back by index.
 *
 * At open, rows are tokenized and packed once into an unlinked spool file (never held in memory); a
 * sequence is then a fixed-size record read by pread. One thread owns a data set.
 *
 * Files: .txt (one document), .jsonl (one JSON object a line), .json (one array of objects, or one
 * object a line), each also compressed by gzip or zstd (.gz, .zst, .zstd). The keys of a row tell
 * its form, and a file holds one form:
 *   {"text"}                          all is trained; special tokens and eos are added
 *   {"input_ids", "labels"?}          verbatim; labels are not shifted, -100 does not count, absent
 *                                     ones equal input_ids; "attention_mask": 0 marks padding
 *   {"prompt", "completion"}          two texts: the completion and eos are trained;
 *                                     or two lists of messages: the answers of the second are
 *   {"messages", "tools"?}            through the chat template; the assistant's turns are trained
 *   {"conversations": [{from, value}]}            the same, as sharegpt writes it
 *   {"instruction", "input"?, "output"}           alpaca's prompt; the output and eos are trained
 * A row of several forms is of the first of input_ids, prompt, messages, conversations, alpaca and
 * text. Keys with a known meaning (keys.c) are followed or refused, all others ignored; null is as
 * good as absent, and a row whose text is null is dropped. Refused, named by file and line (of an
 * array: row): rows of no form, another form than the file's first row has, ids outside the
 * vocabulary, messages that the chat template does not write. A file without a row, or without a
 * trainable token, is refused too. */
#ifndef OC_DATASET_H
#define OC_DATASET_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A tokenizer as the data set sees it; text/tokenizer.h makes them. */
typedef struct oc_tokenizer oc_tokenizer;

/* What a file's columns are called, where they have names of their own. */
typedef struct oc_columns oc_columns;

typedef struct oc_dataset_spec {
    const char *const *paths;         /* files and directories, see oc_data_files_find() */
    const oc_columns *const *columns; /* of each path; NULL, or one that is: keys as above */
    int32_t n_paths;
    const oc_tokenizer *tokenizer; /* borrowed; NULL: rows of input_ids only */
    int64_t vocab;                 /* ids outside [0, vocab) are refused, named by file and line */
    int64_t seq;                   /* tokens a sequence */
    bool packing; /* else one document a sequence, padded right, longer ones truncated */
    int32_t pad_id;
    const char *spool_dir; /* NULL: $TMPDIR, else /tmp */
    bool drop_lost;        /* train without messages that the template does not write */
    uint64_t memory;       /* that reading a row may take, larger ones are refused; 0: any */
} oc_dataset_spec;

/* With packing rows = packed + split + dropped. Without, each row that is not dropped is a
 * sequence. Each document of a row of input_ids that holds several counts as a row. */
typedef struct oc_dataset_report {
    uint64_t rows;
    uint64_t packed;          /* placed whole into a packed sequence */
    uint64_t split;           /* longer than a sequence, cut (packing) */
    uint64_t truncated;       /* longer than a sequence, their end left out (no packing) */
    uint64_t dropped;         /* without a trainable token */
    uint64_t tokens, targets; /* in the sequences, padding excluded; targets: labels that count */
} oc_dataset_report;

typedef struct oc_dataset oc_dataset;

OC_NODISCARD oc_status oc_dataset_open(oc_dataset **out, const oc_dataset_spec *spec,
                                       oc_error *err);
void oc_dataset_close(oc_dataset *d);

uint64_t oc_dataset_count(const oc_dataset *d); /* sequences; at least 1 */
const oc_dataset_report *oc_dataset_get_report(const oc_dataset *d);
/* Memory that any data set with this spool_dir holds once it is open, whatever its rows. */
uint64_t oc_dataset_host_bytes(const char *spool_dir);

/* Packing fills sequences in row order. A document that does not fit into the rest of a sequence
 * starts the next one; one longer than a sequence starts a sequence of its own, is cut every seq
 * tokens, and what follows joins its tail. */

/* Sequence `index`: each array has seq entries. labels[t] is the target of row t, already shifted:
 * the label of token t + 1 when that is in the same document, else -100 (so is the last row).
 * doc_start[t] is the first token of t's document in this sequence, positions[t] = t - doc_start[t]
 * (padding: a document of its own). A document cut by a sequence's end goes on as a new document in
 * the next. */
OC_NODISCARD oc_status oc_dataset_read(oc_dataset *d, uint64_t index, int32_t *tokens,
                                       int32_t *labels, int32_t *positions, int32_t *doc_start,
                                       oc_error *err);

/* The sequence at place `i` of epoch `epoch`: a permutation of [0, n) that depends on (seed, epoch,
 * n) only and needs no memory; the identity when shuffle is false. */
uint64_t oc_dataset_order(uint64_t seed, uint64_t epoch, uint64_t i, uint64_t n, bool shuffle);

/* ---- files and rows, for those who look at them before or without training ---- */

/* The files that paths stand for: a file itself, a directory all data files below it, sorted by
 * path; hidden ones are left out, other endings and what describes data (dataset_info.json, README)
 * are named in one log line. A directory without a data file is refused. What is no path, and with
 * info_dir given what is both, are names of INFO_DIR/dataset_info.json with ',' between
 * (LLaMA-Factory's); info_dir NULL: of data/dataset_info.json, where there is one. */
typedef struct oc_data_files {
    char **paths;
    const oc_columns **columns; /* of each path, NULL: keys as above */
    int32_t n;
    oc_columns *owned;
} oc_data_files;

OC_NODISCARD oc_status oc_data_files_find(oc_data_files *out, const char *const *paths, int32_t n,
                                          const char *info_dir, oc_error *err);
/* Whether all are of a kind that is read, and can be opened. */
OC_NODISCARD oc_status oc_data_files_check(const oc_data_files *f, oc_error *err);
void oc_data_files_release(oc_data_files *f);

/* Whether the file's rows, by its first one, need a tokenizer. A file that cannot be read does not:
 * opening it says why. */
OC_NODISCARD oc_status oc_dataset_needs_tokenizer(const char *path, bool *needs, oc_error *err);

/* A row as ids and labels, before packing. Valid during the visit. */
typedef struct oc_row {
    const char *where; /* "data.jsonl:7" */
    const char *form;  /* "messages" */
    const int32_t *ids, *labels;
    size_t n;
    const size_t *starts; /* of its documents; n_starts 0: it is one */
    size_t n_starts;
} oc_row;

typedef oc_status oc_row_visit(void *arg, const oc_row *row, oc_error *err);

/* Every row in order, those without a trainable token too. Of spec it looks at paths, tokenizer,
 * vocab, drop_lost and memory. Ends at the first failure. */
OC_NODISCARD oc_status oc_dataset_visit(const oc_dataset_spec *spec, oc_row_visit *visit, void *arg,
                                        oc_error *err);

#endif
