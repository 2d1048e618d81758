/* progress.c - see progress.h. */
#include "train/progress.h"

#include "base/clock.h"
#include "base/log.h"

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
    int log;     /* -1: none, or one that cannot be written any more */
    bool own;    /* a file that nothing else is written to: a row that fails is taken back */
    off_t bytes; /* of the rows in it */
    uint64_t rows, lost;
    int reason;   /* errno of the first that was lost */
    bool started; /* oc_progress_start() */
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
    struct stat st;
    p->log = standard_stream(path);
    p->started = p->log >= 0; /* what stands there already stays */
    if (p->log < 0) {
        p->log = open(path, O_WRONLY | O_CREAT | O_NONBLOCK | O_CLOEXEC, 0666);
        if (p->log >= 0) (void)fcntl(p->log, F_SETFL, O_WRONLY);
        p->own = p->log >= 0 && fstat(p->log, &st) == 0 && S_ISREG(st.st_mode);
    }
    if (p->log >= 0) return OC_OK;
    return oc_fail_errno(err, OC_E_IO, errno, "--log %s cannot be written", path);
}

oc_status oc_progress_open(oc_progress **out, const oc_progress_spec *spec, oc_error *err) {
    oc_progress *p = calloc(1, sizeof *p);
    if (!p) return oc_fail(err, OC_E_MEMORY, "no memory for the progress report");
    p->spec = *spec;
    p->log = -1;
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
    if (p->own && ftruncate(p->log, 0) != 0)
        return oc_fail_errno(err, OC_E_IO, errno, "--log %s cannot be written", p->spec.log_path);
    p->started = true;
    p->start_ns = p->last_ns = oc_clock_ns();
    return OC_OK;
}

static void tell_lost(const oc_progress *p) {
    oc_log(OC_LOG_WARN, "--log %s lacks %llu of the run's %llu rows: %s", p->spec.log_path,
           (unsigned long long)p->lost, (unsigned long long)p->rows, strerror(p->reason));
}

void oc_progress_close(oc_progress *p) {
    if (!p) return;
    if (p->log >= 0 && close(p->log) != 0 && p->started)
        oc_log(OC_LOG_WARN, "--log %s may not be whole: %s", p->spec.log_path, strerror(errno));
    if (p->lost) tell_lost(p);
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

static int write_all(int fd, const char *data, size_t bytes) {
    while (bytes > 0) {
        ssize_t n = write(fd, data, bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return n < 0 ? errno : ENOSPC;
        data += n;
        bytes -= (size_t)n;
    }
    return 0;
}

/* A log is not worth a run: what it lacks is said once, and at the end. In a file of its own a row
 * is whole or not there, and later ones may find room; a pipe that has torn one gets no more. */
static void lose_row(oc_progress *p, int reason) {
    if (p->lost++ == 0) {
        p->reason = reason;
        oc_log(OC_LOG_WARN, "--log %s could not be written: %s; the run goes on", p->spec.log_path,
               strerror(reason));
    }
    if (p->own && ftruncate(p->log, p->bytes) == 0 && lseek(p->log, p->bytes, SEEK_SET) >= 0)
        return;
    (void)close(p->log);
    p->log = -1;
}

static void put_row(oc_progress *p, const char *row, size_t n) {
    int e = p->log >= 0 ? write_all(p->log, row, n) : p->reason;
    p->rows++;
    if (!e)
        p->bytes += (off_t)n;
    else if (p->log >= 0)
        lose_row(p, e);
    else
        p->lost++;
}

static void write_row(oc_progress *p, uint64_t step, const oc_result_cell *r, uint64_t tokens,
                      double seconds) {
    char row[1024], loss[32], norm[32], lr[32], time[32], rate[32];
    const uint64_t *peak = p->spec.peak_bytes;
    int n = snprintf(
        row, sizeof row,
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
    put_row(p, row, (size_t)n);
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

void oc_progress_step(oc_progress *p, uint64_t step, const oc_result_cell *r, uint64_t tokens,
                      const oc_lane_stats stats[OC_LANE_COUNT]) {
    int64_t now = oc_clock_ns();
    double seconds = (double)(now - p->last_ns) * 1e-9;
    if (seconds <= 0) seconds = 1e-9;
    p->last_ns = now;
    p->seconds += seconds;
    p->tokens += tokens;
    p->steps++;
    if (p->spec.log_path) write_row(p, step, r, tokens, seconds);
    if (p->spec.quiet) return;
    const int64_t every_ns = p->terminal ? 100000000 : 30000000000;
    bool edge = p->steps == 1 || step == p->spec.total_steps;
    if (!edge && now - p->printed_ns < every_ns) return;
    p->printed_ns = now;
    print_line(p, step, r, stats);
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
