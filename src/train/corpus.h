/* corpus.h - a run's data: the tokenizer, the data set and the feed over it. */
#ifndef OC_CORPUS_H
#define OC_CORPUS_H

#include "text/dataset.h"
#include "text/tokenizer.h"
#include "train/feed.h"
#include "train/setup.h"

typedef struct oc_corpus {
    oc_tokenizer *tokenizer; /* NULL: all data is rows of input_ids */
    oc_dataset *data;
    oc_feed *feed;
    bool built_in; /* the tokenizer has no files of its own: it is asked for, or --init has none */
    bool borrowed; /* the tokenizer is another corpus's */
} oc_corpus;

/* The tokenizer of --tokenizer, else of --model or --init: the built-in one, or that of the
 * directory's tokenizer.json. OC_E_NOTFOUND: there is none. */
OC_NODISCARD oc_status oc_corpus_tokenizer(oc_tokenizer **out, const oc_config *c, oc_error *err);

/* paths: files and directories. other: NULL, or a corpus of the same setup, which is released after
 * this one: a tokenizer that it has serves both. */
OC_NODISCARD oc_status oc_corpus_open(oc_corpus *out, const oc_setup *setup, const oc_corpus *other,
                                      char *const *paths, int32_t n_paths, bool shuffle,
                                      oc_error *err);
void oc_corpus_release(oc_corpus *c);
uint64_t oc_corpus_host_bytes(const oc_corpus *c); /* without a borrowed tokenizer */

#endif
