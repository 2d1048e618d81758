/* progress.h - what a training run tells while it runs: the JSON log and the line on stderr. */
#ifndef OC_PROGRESS_H
#define OC_PROGRESS_H

#include "build/cells.h"
#include "run/run.h"

#include <stdbool.h>

typedef struct oc_progress oc_progress;

typedef struct oc_progress_spec {
    const char *log_path; /* NULL: none */
    bool quiet;
    uint64_t total_steps;
    uint64_t peak_bytes[OC_TIER_COUNT];
} oc_progress_spec;

/* Opens the log and leaves its content. */
OC_NODISCARD oc_status oc_progress_open(oc_progress **out, const oc_progress_spec *spec,
                                        oc_error *err);
/* The run begins: what the log held goes. */
OC_NODISCARD oc_status oc_progress_start(oc_progress *p, oc_error *err);
/* Says how many rows the log lacks. */
void oc_progress_close(oc_progress *p);
/* One step is done; stats: the lanes' totals since start. A row that cannot be written is missing
 * from the log, which is said, and the run goes on. */
void oc_progress_step(oc_progress *p, uint64_t step, const oc_result_cell *r, uint64_t tokens,
                      const oc_lane_stats stats[OC_LANE_COUNT]);
/* Time that is not training (evaluation, saving) does not count for the next step. */
void oc_progress_skip_time(oc_progress *p);
/* A line of its own, between progress lines. */
void oc_progress_note(oc_progress *p, const char *fmt, ...) OC_PRINTF(2, 3);

#endif
