/* problems.h - what is wrong with a command line or a file, told all at once.
 *
 * For flags.c and deepspeed.c. The first ones are told in full, those for which a message has no
 * room by name. */
#ifndef OC_PROBLEMS_H
#define OC_PROBLEMS_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

enum { OC_PROBLEM_NAMES = 300 };

typedef struct oc_problems {
    const char *lead; /* that every message begins with, and is told once; "": none */
    oc_status status; /* of all that are told; OC_E_INVALID when they differ */
    int count;
    char text[OC_ERROR_BYTES - OC_PROBLEM_NAMES];
    char names[OC_PROBLEM_NAMES]; /* of those that have no room in text */
} oc_problems;

/* A failure that e describes, of the thing `name`. */
void oc_problems_add(oc_problems *p, const char *name, const oc_error *e);
/* Their status, with all of them in *err; OC_OK: there are none. tail: what is said behind them. */
OC_NODISCARD oc_status oc_problems_tell(const oc_problems *p, const char *tail, oc_error *err);
/* Is it about what was asked for, so that others may be looked for as well? */
bool oc_problems_may_go_on(oc_status s);

#endif
