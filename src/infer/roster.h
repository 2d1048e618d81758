/* roster.h - which tokens the next pass takes: sequences in places, their pages, prompts in
 * chunks.
 *
 * A pass has a fixed number of groups, and a group of places, of tokens and of pages. A sequence is
 * let in when there is a place for it and pages for all that it may come to, so that none ever
 * waits for memory. Each pass takes the next token of every sequence that is being answered, and
 * fills what room there is with prompts, oldest first.
 *
 * Sequences that begin alike share whole pages: a page is known by its tokens and the page before
 * it. Whoever lets a page in fills it, before those that share it; if it goes, the oldest of them
 * does. Pages that nobody uses any more are remembered until their memory is wanted.
 *
 * No logits, no text, no files here: pure bookkeeping, of one thread. */
#ifndef OC_ROSTER_H
#define OC_ROSTER_H

#include "base/status.h"
#include "build/cells.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct oc_roster oc_roster;

typedef struct oc_roster_spec {
    int32_t groups, rows, tokens; /* rows and tokens: of a group; tokens >= rows */
    int32_t page_tokens, pages;   /* pages: of a group */
    int32_t row_pages;            /* of a sequence, at most */
    bool share;                   /* pages of common beginnings */
    int32_t listed; /* pages that each list of the pages cell has room for; 0: there are no lists */
} oc_roster_spec;

/* A place. ids is the caller's: the prompt, and room for the answer. */
typedef struct oc_sequence {
    int32_t *ids;
    int32_t n_prompt, n_ids, most; /* tokens now; at most, the answer's last one too */
    int32_t done;                  /* tokens whose keys and values are in pages */
    int32_t shared;                /* of these, found in pages that were there */
    int32_t taken;                 /* tokens of the pass under way */
    int32_t sample; /* of its group in that pass; -1: it is not asked for a token yet */
    int32_t group, place;
    void *user;
} oc_sequence;

/* What a schedule of this spec allocates. */
uint64_t oc_roster_bytes(const oc_roster_spec *spec);
OC_NODISCARD oc_status oc_roster_open(oc_roster **out, const oc_roster_spec *spec, oc_error *err);
void oc_roster_close(oc_roster *s);

/* Whether a sequence of so many tokens (answer included) could ever be let in. */
bool oc_roster_holds(const oc_roster_spec *spec, int32_t most);
/* NULL: no place or no pages now. */
oc_sequence *oc_roster_admit(oc_roster *s, int32_t *ids, int32_t n_prompt, int32_t most,
                             void *user);
/* It is over: its place and pages are free. Not while a pass is under way that takes it, but from
 * its oc_roster_passed() on. */
void oc_roster_remove(oc_roster *s, oc_sequence *x);

/* Say what the next pass takes, in cells of `groups` pieces (build/cells.h). Returns its tokens; 0:
 * there is nothing to do. */
int64_t oc_roster_fill(oc_roster *s, oc_control_cell *control, int32_t *batch,
                       uint64_t batch_piece_bytes, void *pages, uint64_t pages_piece_bytes);
/* The pass is done: what it took is in pages. Then, of sequences with a sample >= 0, the caller
 * appends the next token to ids (n_ids++), or removes them. */
void oc_roster_passed(oc_roster *s);

/* Sequence k of those that have a place, in order of places; NULL: no more. */
oc_sequence *oc_roster_at(oc_roster *s, int32_t k);
int32_t oc_roster_count(const oc_roster *s);
/* Pages in use, of all. */
int32_t oc_roster_pages(const oc_roster *s);

#endif
