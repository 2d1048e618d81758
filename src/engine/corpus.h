/* corpus.h - a run's data: the tokenizer of all of it; of each part the data set and the feed over
 * it. */
#ifndef OC_CORPUS_H
#define OC_CORPUS_H

#include "data/dataset.h"
#include "engine/feed.h"
#include "engine/setup.h"
#include "tokenizer/tokenizer.h"

typedef struct oc_corpus {
    oc_dataset *data;
    oc_feed *feed;
} oc_corpus;

/* The tokenizer of --tokenizer, else of --model or --init: the built-in one, or that of the
 * directory's tokenizer.json. OC_E_NOTFOUND: there is none. */
OC_NODISCARD oc_status oc_corpus_tokenizer(oc_tokenizer **out, const oc_config *c, oc_error *err);

/* For the set-up: the files of --data and --eval-data, which can be read. */
OC_NODISCARD oc_status oc_corpus_find_files(oc_setup *setup, oc_error *err);
/* For the set-up: its tokenizer, which serves all data, when that has text or, without data, when
 * --tokenizer is given. setup's model and files are there. */
OC_NODISCARD oc_status oc_corpus_open_tokenizer(oc_setup *setup, oc_error *err);
/* Host bytes of the tokenizer, and of the data sets and feeds over
 * setup's files once they are open, by the batch and placement of build. */
uint64_t oc_corpus_bytes(const oc_setup *setup, const oc_build_spec *build);

/* files: those of setup, or others. train: in steps, shuffled where the configuration says so; else
 * in the batches of an evaluation, in order. */
OC_NODISCARD oc_status oc_corpus_open(oc_corpus *out, const oc_setup *setup,
                                      const oc_data_files *files, bool train, oc_error *err);
void oc_corpus_release(oc_corpus *c);

#endif
