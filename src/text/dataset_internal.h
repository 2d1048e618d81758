/* dataset_internal.h - how rows become sequences: rows -> packer -> spool. Not for other rooms.
 *
 *   rows   (dataset_rows.c)  read files, check and tokenize; know nothing of sequences
 *   packer (dataset_pack.c)  places documents; holds at most one sequence of a document
 *   spool  (dataset_spool.c) fixed-size records in an unlinked file */
#ifndef OC_DATASET_INTERNAL_H
#define OC_DATASET_INTERNAL_H

#include "text/dataset.h"
#include "text/tokenizer.h"

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

/* ---- rows ---- */

/* Every row of one file into the packer. */
OC_NODISCARD oc_status oc_rows_read(oc_packer *p, const oc_dataset_spec *spec, const char *path,
                                    oc_error *err);

#endif
