/* claim.h - a file that one run writes and no other: made where it is not there, and locked.
 *
 * The lock is the file's, by whatever name it is reached, and ends with the process. */
#ifndef OC_CLAIM_H
#define OC_CLAIM_H

#include "base/status.h"

#include <stdbool.h>

typedef struct oc_claim {
    int fd;     /* locked; -1: none */
    char *made; /* its path, when it was not there before; else NULL */
} oc_claim;

#define OC_CLAIM_NONE                                                                              \
    { -1, NULL }

typedef enum oc_claim_use { OC_CLAIM_WRITE, OC_CLAIM_READ_WRITE } oc_claim_use;

/* What the file holds stays. OC_E_EXISTS when another run has it. *out stays as it is where path is
 * no regular file, or a standard stream: those are nobody's own. --`option` is named in messages.
 * out: OC_CLAIM_NONE. */
OC_NODISCARD oc_status oc_claim_take(oc_claim *out, const char *option, const char *path,
                                     oc_claim_use use, oc_error *err);
/* keep false: a file that was made for the run goes. */
void oc_claim_release(oc_claim *c, bool keep);

#endif
