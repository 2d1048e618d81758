/* session.h - a set-up with memory and weights: runs steps and evaluations, and gives weights back.
 *
 * One thread owns a session. */
#ifndef OC_SESSION_H
#define OC_SESSION_H

#include "build/cells.h"
#include "engine/bodies.h"
#include "engine/feed.h"
#include "engine/setup.h"
#include "run/run.h"

#include <signal.h>

typedef struct oc_session oc_session;

/* Allocates the arenas, reads or initialises the weights block by block, starts the lanes. setup is
 * borrowed. total_steps: for schedules that end with the run. */
OC_NODISCARD oc_status oc_session_open(oc_session **out, oc_setup *setup, int64_t total_steps,
                                       oc_error *err);
void oc_session_close(oc_session *s);

/* Training: the first submission of step `step` (from 0) of feed, then its others. Between the two
 * the step before is best finished: its end is near, and the first submission runs beside it. The
 * last submission may still be under way at return. At most two steps are begun and not finished.
 */
OC_NODISCARD oc_status oc_session_begin(oc_session *s, oc_feed *feed, uint64_t step, oc_error *err);
OC_NODISCARD oc_status oc_session_go_on(oc_session *s, oc_error *err);
/* Wait for the oldest step that was begun and not finished; *result and *targets as its norm
 * left them. */
OC_NODISCARD oc_status oc_session_finish(oc_session *s, oc_result_cell *result, uint64_t *targets,
                                         oc_error *err);

/* Summed negative log-likelihood and target count over all of feed's sequences. stop NULL or, once
 * not 0 (a signal handler may set it), the end after the batches under way: *whole tells whether
 * all were seen. */
OC_NODISCARD oc_status oc_session_evaluate(oc_session *s, oc_feed *feed,
                                           const volatile sig_atomic_t *stop, double *nll,
                                           uint64_t *targets, bool *whole, oc_error *err);

/* Evaluation of what a scorer puts into the cells, with build.scores: fill() fills those of a
 * submission, known by its slot 0 or 1, and says whether there is any; take() has what the plan
 * left in its losses cell, before that slot is filled again. */
typedef struct oc_scorer {
    oc_status (*fill)(void *user, uint32_t slot, const oc_feed_cells *cells, bool *some,
                      oc_error *err);
    oc_status (*take)(void *user, uint32_t slot, const void *losses, oc_error *err);
    void *user;
} oc_scorer;
OC_NODISCARD oc_status oc_session_score(oc_session *s, const oc_scorer *x,
                                        const volatile sig_atomic_t *stop, oc_error *err);

/* Generation: who says what passes take; before the first of them. */
void oc_session_next(oc_session *s, oc_pass_next *next, void *user);
/* The cells that the first pass reads, or, when none is under way, the next. */
void oc_session_pass_cells(oc_session *s, oc_pass_cells *out);
/* One more pass; at most two are under way. */
OC_NODISCARD oc_status oc_session_pass(oc_session *s, uint64_t *ticket, oc_error *err);
OC_NODISCARD oc_status oc_session_wait(oc_session *s, uint64_t ticket, oc_error *err);

/* A block's weights as they are now (no step may be under way): fp32 master or compute dtype.
 * Borrowed until the next call. */
OC_NODISCARD oc_status oc_session_weights(oc_session *s, int32_t block, const void **out,
                                          oc_error *err);
oc_dtype oc_session_dtype(const oc_session *s);
const oc_carry_cell *oc_session_carry(const oc_session *s);
void oc_session_stats(const oc_session *s, oc_lane_stats out[OC_LANE_COUNT]);
/* Planned and measured (resident) bytes of a tier's arena. */
uint64_t oc_session_measured(const oc_session *s, oc_tier tier);
/* The same of all tiers, and what of the process is resident, a line each. */
void oc_session_print_measured(const oc_session *s, FILE *to);
OC_NODISCARD oc_status oc_session_drain(oc_session *s, oc_error *err);
OC_NODISCARD oc_status oc_session_write_trace(oc_session *s, oc_error *err);

#endif
