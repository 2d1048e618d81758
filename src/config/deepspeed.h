/* deepspeed.h - the table of DeepSpeed's JSON keys, for deepspeed.c and the table test. */
#ifndef OC_DEEPSPEED_H
#define OC_DEEPSPEED_H

#include "config/config.h"

typedef enum oc_key_kind {
    OC_K_FIELD,    /* sets the option `option`; "auto": as if absent */
    OC_K_LISTED,   /* no effect here: named in one line of the notes; must be what `expects` says */
    OC_K_DEFAULT,  /* accepted when it is one of `accepted`, null or "auto"; else refused by name */
    OC_K_SPECIAL,  /* read by deepspeed.c where it belongs */
    OC_K_BLOCK,    /* an object whose keys have rows of their own */
    OC_K_TOGGLED,  /* the same, looked into only when its "enabled" is not false */
    OC_K_SWITCHED, /* a feature that is not there, off unless "enabled" is true: then refused */
    OC_K_REFUSED,  /* a feature that is not there: passes only as false, or with "enabled": false */
} oc_key_kind;

typedef struct oc_key {
    const char *path; /* "zero_optimization.offload_param.device" */
    oc_key_kind kind;
    const char *option;   /* OC_K_FIELD */
    const char *accepted; /* OC_K_DEFAULT: JSON texts, with '|' between */
    const char *expects;  /* OC_K_LISTED: OC_EXPECTS_..., or "one of A, B, C" in any case */
    const char *hint;     /* what to do instead; may be NULL */
} oc_key;

#define OC_EXPECTS_TRUTH "true or false"
#define OC_EXPECTS_WHOLE "a whole number of at least 0" /* 5e8 too */
#define OC_EXPECTS_REAL "a number"
#define OC_EXPECTS_TEXT "a string"
#define OC_EXPECTS_LIST "an array"
#define OC_EXPECTS_OBJECT "an object"

size_t oc_keys_count(void);
const oc_key *oc_keys_at(size_t i);

#endif
