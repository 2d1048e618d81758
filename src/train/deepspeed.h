/* deepspeed.h - the table of DeepSpeed's JSON keys, for deepspeed.c and the table test. */
#ifndef OC_DEEPSPEED_H
#define OC_DEEPSPEED_H

#include "train/config.h"

typedef enum oc_key_kind {
    OC_K_FIELD,   /* sets the option `option`; "auto": as if absent */
    OC_K_LISTED,  /* no effect here: named in one line of the notes */
    OC_K_DEFAULT, /* accepted when it equals `accepted` or is "auto"; else refused by name */
    OC_K_SPECIAL, /* read by deepspeed.c where it belongs */
    OC_K_BLOCK,   /* an object whose keys have rows of their own */
    OC_K_TOGGLED, /* the same, looked into only when its "enabled" is not false */
    OC_K_REFUSED, /* an object of a feature that is not there: passes only with "enabled": false */
} oc_key_kind;

typedef struct oc_key {
    const char *path; /* "zero_optimization.offload_param.device" */
    oc_key_kind kind;
    const char *option;   /* OC_K_FIELD */
    const char *accepted; /* OC_K_DEFAULT: JSON text */
    const char *hint;     /* what to do instead; may be NULL */
} oc_key;

size_t oc_keys_count(void);
const oc_key *oc_keys_at(size_t i);

#endif
