/* log.h - the log: lines for people, on standard error unless told otherwise.
 *
 * The one mutable global of the libraries. Any thread may log; lines do not mix. What a program
 * prints as its result is not a log line and does not go here. */
#ifndef OC_LOG_H
#define OC_LOG_H

#include "base/status.h"

typedef enum oc_log_level {
    OC_LOG_ERROR, /* what was asked for did not happen */
    OC_LOG_WARN,  /* it happened, but the user will want to know something */
    OC_LOG_INFO,  /* choices made, progress */
    OC_LOG_DEBUG, /* for those who look for a fault */
} oc_log_level;

/* Lines above this level are dropped. OC_LOG_INFO at start. */
void oc_log_set_level(oc_log_level level);
oc_log_level oc_log_get_level(void);

/* Where lines go: a text without newline. NULL: back to standard error. Set it before other threads
 * log; the sink may be called by several threads at once. */
typedef void oc_log_sink(void *arg, oc_log_level level, const char *line);
void oc_log_set_sink(oc_log_sink *sink, void *arg);

/* One line, without a newline. Longer than 2000 bytes: it is cut. */
void oc_log(oc_log_level level, const char *fmt, ...) OC_PRINTF(2, 3);

#endif
