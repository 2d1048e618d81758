/* dataset.h - training sequences from files: tokenized, packed, shuffled, and read back by index.
 *
 * At open, rows are tokenized and packed once into an unlinked spool file (never held in memory); a
 * sequence is then a fixed-size record read by pread. One thread owns a data set. */
#ifndef OC_DATASET_H
#define OC_DATASET_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* A tokenizer as the data set sees it; text/tokenizer.h makes them. */
typedef struct oc_tokenizer oc_tokenizer;

typedef struct oc_dataset_spec {
    const char *const
        *paths; /* .txt (one document a file), .jsonl rows {"text"} or {"input_ids", "labels"} */
    int32_t n_paths;
    const oc_tokenizer *tokenizer; /* borrowed */
    int64_t vocab;                 /* ids outside [0, vocab) are refused, named by file and line */
    int64_t seq;                   /* tokens a sequence */
    bool packing; /* else one document a sequence, padded right, longer ones truncated */
    int32_t pad_id;
    const char *spool_dir; /* NULL: $TMPDIR, else /tmp */
} oc_dataset_spec;

/* With packing rows = packed + split + dropped. Without, each row that is not dropped is a
 * sequence.
 */
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
uint64_t oc_dataset_host_bytes(const oc_dataset *d); /* memory it holds */

/* A .txt file is one document; it and each "text" row get the tokenizer's special tokens and eos.
 * "input_ids" rows are verbatim; their "labels" are not shifted, -100 does not count, absent ones
 * equal input_ids. One file holds one form. Refused, named by file and line: other forms, an empty
 * file, one without a trainable token, ids outside the vocabulary.
 *
 * Packing fills sequences in row order. A document that does not fit into the rest of a sequence
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

#endif
