/* request.h - a row of a batch file as a request: what requests.c, request_keys.c and
 * request_pairs.c share. Nobody else includes it. */
#ifndef OC_INFER_REQUEST_H
#define OC_INFER_REQUEST_H

#include "base/json.h"
#include "data/chat.h"
#include "data/lines.h"
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

/* A file on its way. */
struct oc_requests {
    oc_requests_spec spec;
    const char *name; /* for messages */
    bool open, array;
    oc_lines in;
    uint64_t index; /* of the next row */
    uint64_t at;    /* line, or place in the array, of the row at hand */
    char *where;
    size_t where_bytes;
    oc_chat *chat; /* opened by the first row with messages */
    oc_tokens tokens;
    oc_request_form form; /* of the last row that had one */
    oc_unknown_keys unknown;
};

/* Whether the row has the key, and not null. */
bool oc_request_has(const json_t *row, const char *key);
OC_NODISCARD oc_status oc_request_need_tokenizer(const oc_requests *r, oc_error *err);
/* Ids in the model's vocabulary. */
OC_NODISCARD oc_status oc_request_check_ids(const oc_requests *r, const int32_t *ids, size_t n,
                                            oc_error *err);
/* The row's messages, with what stands beside them, through the chat template, as a prompt. */
OC_NODISCARD oc_status oc_request_render(oc_requests *r, const json_t *row, const char *key,
                                         oc_rendered *out, oc_error *err);
/* {"prompt" | "messages", "completion"}: see oc_requests_spec.pairs. */
OC_NODISCARD oc_status oc_request_take_pair(oc_requests *r, const json_t *row, oc_request *out,
                                            oc_error *err);
void oc_request_note_unknown(oc_unknown_keys *u, const char *name);
/* What the keys of a row or body ask for, beside the prompt itself. out holds what is asked for
 * where the row says nothing. `where` begins messages. */
OC_NODISCARD oc_status oc_request_take_keys(oc_request *out, const json_t *row,
                                            oc_request_place place, oc_unknown_keys *unknown,
                                            const char *where, oc_error *err);
/* Replaces the stops. */
OC_NODISCARD oc_status oc_request_set_stops(oc_request *r, const char *const *stops, int32_t n,
                                            oc_error *err);

#endif
