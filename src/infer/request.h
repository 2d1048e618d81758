/* request.h - a row of a batch file as a request: what requests.c and request_keys.c share. Nobody
 * else includes it. */
#ifndef OC_INFER_REQUEST_H
#define OC_INFER_REQUEST_H

#include "base/json.h"
#include "data/chat.h"
#include "infer/requests.h"

/* Where a key may stand. */
typedef enum oc_request_place {
    OC_PLACE_PLAIN = 1,
    OC_PLACE_CHAT = 2,      /* the body of a chat completion */
    OC_PLACE_COMPLETION = 4 /* the body of a completion */
} oc_request_place;

/* Keys without a meaning here. */
typedef struct oc_unknown_keys {
    uint64_t count;
    char first[64];
} oc_unknown_keys;

/* What the keys of a row or body ask for, beside the prompt itself. out holds what is asked for
 * where the row says nothing. `where` begins messages. */
OC_NODISCARD oc_status oc_request_take_keys(oc_request *out, const json_t *row,
                                            oc_request_place place, oc_unknown_keys *unknown,
                                            const char *where, oc_error *err);
/* Replaces the stops. */
OC_NODISCARD oc_status oc_request_set_stops(oc_request *r, const char *const *stops, int32_t n,
                                            oc_error *err);

#endif
