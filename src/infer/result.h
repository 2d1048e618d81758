/* result.h - a row of results as text: what results.c and result_rows.c share. Nobody else includes
 * it. */
#ifndef OC_INFER_RESULT_H
#define OC_INFER_RESULT_H

#include "infer/results.h"

typedef struct oc_result_style {
    const char *model;
    const oc_tokenizer *tokenizer;
    int64_t created;
} oc_result_style;

/* The row of a request, a newline and a NUL behind it: free *out. */
OC_NODISCARD oc_status oc_result_row(char **out, size_t *n, const oc_result_style *style,
                                     const oc_request *q, const oc_answer *a, oc_error *err);

/* The index of a row that oc_result_row() made. false: it is none. */
bool oc_result_index(const char *row, size_t n, uint64_t *index);

#endif
