/* defaults.h - what a model's own files say of generation: which tokens end an answer, and how
 * tokens are drawn where nobody says otherwise. */
#ifndef OC_INFER_DEFAULTS_H
#define OC_INFER_DEFAULTS_H

#include "infer/sample.h"
#include "tokenizer/tokenizer.h"

enum { OC_EOS_MOST = 64 };

typedef struct oc_generation_defaults {
    /* eos ids of generation_config.json, config.json and the tokenizer, each once */
    int32_t eos[OC_EOS_MOST];
    int32_t n_eos;
    oc_sampling sampling;   /* greedy unless do_sample is true */
    int64_t max_new_tokens; /* 0: not said */
    int64_t max_length;     /* of prompt and answer; 0: not said */
    char followed[256]; /* "temperature 0.6, top_p 0.9": what of the file has an effect; "": nothing
                         */
    char ignored[256];  /* keys that would change the text and are not followed */
} oc_generation_defaults;

/* tokenizer may be NULL. A file that is there and cannot be read or understood is an error. */
OC_NODISCARD oc_status oc_generation_defaults_read(oc_generation_defaults *out,
                                                   const char *model_dir,
                                                   const oc_tokenizer *tokenizer, oc_error *err);

#endif
