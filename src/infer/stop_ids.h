/* stop_ids.h - the ids that end an answer: all that the model's files name.
 *
 * generation_config.json's eos_token_id (one or a list), config.json's, that of its text_config,
 * and the tokenizer's own end: each of them is trained as an end by somebody, none as text. */
#ifndef OC_STOP_IDS_H
#define OC_STOP_IDS_H

#include "base/status.h"
#include "tokenizer/tokenizer.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct oc_stop_ids oc_stop_ids;

/* Files that are not there say nothing. tokenizer NULL: none; borrowed for the call. */
OC_NODISCARD oc_status oc_stop_ids_open(oc_stop_ids **out, const char *model_dir,
                                        const oc_tokenizer *tokenizer, oc_error *err);
void oc_stop_ids_close(oc_stop_ids *s);

bool oc_stop_ids_has(const oc_stop_ids *s, int32_t id);
/* Ascending, each once; owned by s. *n may be 0: only a limit ends an answer then. */
const int32_t *oc_stop_ids_list(const oc_stop_ids *s, int32_t *n);

#endif
