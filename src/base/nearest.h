/* nearest.h - "did you mean". For the messages about unknown keys and flags. */
#ifndef OC_NEAREST_H
#define OC_NEAREST_H

#include <stddef.h>

/* The known word with the smallest edit distance (insert, delete, replace, swap of neighbours;
 * case and the choice of '-' or '_' count nothing), or NULL when none is near enough to be meant.
 * The first of equals. */
const char *oc_nearest(const char *word, const char *const *known, size_t n);

#endif
