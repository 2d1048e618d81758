/* progress.c - see progress.h. */
#include "train/progress.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct oc_progress {
    oc_progress_spec spec;
    FILE *log;
    bool made, started; /* the log was not there before; oc_progress_start() */
    bool terminal;
    int64_t start_ns, last_ns, printed_ns;
    double seconds; /* of training */
    uint64_t steps, tokens;
};

/* --log /dev/stderr, also where that is a file: the stream itself, so that neither output writes
 * over the other. -1: the path is another file. */
static int standard_stream(const char *path) {
    struct stat st, stream;
    if (stat(path, &st) != 0) return -1;
    for (int fd = STDERR_FILENO; fd >= STDOUT_FILENO; fd--)
        if (fstat(fd, &stream) == 0 && stream.st_dev == st.st_dev && stream.st_ino == st.st_ino)
            return fcntl(fd, F_DUPFD_CLOEXEC, 3);
    return -1;
}

/* O_NONBLOCK: a fifo that nobody reads is refused, not waited for. */
static oc_status open_log(oc_progress *p, oc_error *err) {
    const char *path = p->spec.log_path;
    int fd = standard_stream(path);
    p->made = fd < 0 && access(path, F_OK) != 0;
    if (fd < 0) {
        fd = open(path, O_WRONLY | O_CREAT | O_NONBLOCK | O_CLOEXEC, 0666);
        if (fd >= 0) (void)fcntl(fd, F_SETFL, O_WRONLY);
    } else {
        p->started = true; /* what stands there already stays */
    }
    if (fd >= 0) p->log = fdopen(fd, "w");
    if (p->log) return OC_OK;
    oc_status st = oc_fail_errno(err, OC_E_IO, errno, "--log %s cannot be written", path);
    if (fd >= 0) (void)close(fd);
    return st;
}

oc_status oc_progress_open(oc_progress **out, const oc_progress_spec *spec, oc_error *err) {
    oc_progress *p = calloc(1, sizeof *p);
    if (!p) return oc_fail(err, OC_E_MEMORY, "no memory for the progress report");
    p->spec = *spec;
    oc_status st = spec->log_path ? open_log(p, err) : OC_OK;
    if (st != OC_OK) {
        free(p);
        return st;
    }
    p->terminal = isatty(STDERR_FILENO) == 1;
    p->start_ns = p->last_ns = oc_clock_ns();
    *out = p;
    return OC_OK;
}

oc_status oc_progress_start(oc_progress *p, oc_error *err) {
    struct stat st;
    if (p->log && !p->started && fstat(fileno(p->log), &st) == 0 && S_ISREG(st.st_mode) &&
        ftruncate(fileno(p->log), 0) != 0)
        return oc_fail_errno(err, OC_E_IO, errno, "--log %s cannot be written", p->spec.log_path);
    p->started = true;
    p->start_ns = p->last_ns = oc_clock_ns();
    return OC_OK;
}

void oc_progress_close(oc_progress *p) {
    if (!p) return;
    if (p->log) (void)fclose(p->log);
    if (p->log && p->made && !p->started) (void)unlink(p->spec.log_path);
    free(p);
}

/* JSON has no NaN. */
static const char *number(double x, char *buf, size_t n) {
    if (isfinite(x))
        (void)snprintf(buf, n, "%.17g", x);
    else
        (void)snprintf(buf, n, "null");
    return buf;
}

static oc_status write_row(oc_progress *p, uint64_t step, const oc_result_cell *r, uint64_t tokens,
                           double seconds, oc_error *err) {
    char loss[32], norm[32], lr[32], time[32], rate[32];
    const uint64_t *peak = p->spec.peak_bytes;
    int n = fprintf(
        p->log,
        "{\"step\": %llu, \"loss\": %s, \"grad_norm\": %s, \"lr\": %s, \"tokens\": %llu, "
        "\"step_seconds\": %s, \"tokens_per_second\": %s, \"skipped\": %s, "
        "\"peak_bytes\": {\"device\": %llu, \"host\": %llu, \"nvme\": %llu}, \"read_bytes\": 0, "
        "\"written_bytes\": 0}\n",
        (unsigned long long)step, number(r->loss, loss, sizeof loss),
        number(r->grad_norm, norm, sizeof norm), number(r->lr_used, lr, sizeof lr),
        (unsigned long long)tokens, number(seconds, time, sizeof time),
        number((double)tokens / seconds, rate, sizeof rate), r->finite ? "false" : "true",
        (unsigned long long)peak[OC_TIER_DEVICE], (unsigned long long)peak[OC_TIER_HOST],
        (unsigned long long)peak[OC_TIER_NVME]);
    if (n < 0 || fflush(p->log) != 0)
        return oc_fail_errno(err, OC_E_IO, errno, "--log %s could not be written",
                             p->spec.log_path);
    return OC_OK;
}

static void print_lanes(const oc_lane_stats *stats, double seconds) {
    for (int l = 0; l < OC_LANE_COUNT; l++) {
        if (stats[l].ops == 0) continue;
        double busy = (double)stats[l].busy_ns * 1e-9 / seconds;
        (void)fprintf(stderr, " %s %.0f%%", oc_lane_name((oc_lane)l), 100 * fmin(busy, 1));
    }
}

static void print_line(oc_progress *p, uint64_t step, const oc_result_cell *r,
                       const oc_lane_stats *stats) {
    double rate = (double)p->tokens / p->seconds;
    uint64_t left = p->spec.total_steps > step ? p->spec.total_steps - step : 0;
    uint64_t eta = (uint64_t)((double)left * p->seconds / (double)p->steps);
    (void)fprintf(stderr,
                  "%sstep %llu/%llu loss %.4f grad_norm %.3g lr %.3g%s %.0f tok/s ETA "
                  "%llu:%02llu:%02llu |",
                  p->terminal ? "\r\033[K" : "", (unsigned long long)step,
                  (unsigned long long)p->spec.total_steps, r->loss, r->grad_norm, r->lr_used,
                  r->finite ? "" : " SKIPPED", rate, (unsigned long long)(eta / 3600),
                  (unsigned long long)(eta / 60 % 60), (unsigned long long)(eta % 60));
    print_lanes(stats, (double)(p->last_ns - p->start_ns) * 1e-9);
    if (!p->terminal || step == p->spec.total_steps) (void)fputc('\n', stderr);
    (void)fflush(stderr);
}

oc_status oc_progress_step(oc_progress *p, uint64_t step, const oc_result_cell *r, uint64_t tokens,
                           const oc_lane_stats stats[OC_LANE_COUNT], oc_error *err) {
    int64_t now = oc_clock_ns();
    double seconds = (double)(now - p->last_ns) * 1e-9;
    if (seconds <= 0) seconds = 1e-9;
    p->last_ns = now;
    p->seconds += seconds;
    p->tokens += tokens;
    p->steps++;
    if (p->log) OC_TRY(write_row(p, step, r, tokens, seconds, err));
    if (p->spec.quiet) return OC_OK;
    const int64_t every_ns = p->terminal ? 100000000 : 30000000000;
    bool edge = p->steps == 1 || step == p->spec.total_steps;
    if (!edge && now - p->printed_ns < every_ns) return OC_OK;
    p->printed_ns = now;
    print_line(p, step, r, stats);
    return OC_OK;
}

void oc_progress_skip_time(oc_progress *p) { p->last_ns = oc_clock_ns(); }

void oc_progress_note(oc_progress *p, const char *fmt, ...) {
    if (p->spec.quiet) return;
    va_list ap;
    va_start(ap, fmt);
    if (p->terminal) (void)fputs("\r\033[K", stderr);
    (void)vfprintf(stderr, fmt, ap);
    (void)fputc('\n', stderr);
    va_end(ap);
}
