/* log.c - see log.h. */
#include "base/log.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LINE_BYTES = 2048 };

static const char *const labels[] = {"error: ", "warning: ", "", "debug: "};

static struct {
    atomic_int level;
    oc_log_sink *sink;
    void *arg;
} state = {OC_LOG_INFO, NULL, NULL};

void oc_log_set_level(oc_log_level level) { atomic_store(&state.level, (int)level); }

oc_log_level oc_log_get_level(void) { return (oc_log_level)atomic_load(&state.level); }

void oc_log_set_sink(oc_log_sink *sink, void *arg) {
    state.sink = sink;
    state.arg = arg;
}

/* One write() a line, so that lines of several threads and processes do not mix. A log that cannot
 * be written has nobody to tell. */
static void put(char *line, size_t n) {
    line[n++] = '\n';
    while (n > 0) {
        ssize_t done = write(STDERR_FILENO, line, n);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return;
        line += done;
        n -= (size_t)done;
    }
}

void oc_log(oc_log_level level, const char *fmt, ...) {
    if ((int)level > atomic_load_explicit(&state.level, memory_order_relaxed)) return;
    char line[LINE_BYTES];
    size_t used = 0;
    if (!state.sink) {
        used = strlen(labels[level]);
        memcpy(line, labels[level], used + 1);
    }
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(line + used, sizeof line - used - 1, fmt, args);
    va_end(args);
    if (n < 0) return;
    if (state.sink)
        state.sink(state.arg, level, line);
    else
        put(line, strlen(line));
}
