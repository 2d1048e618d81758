/* trace.c - what ran when, in the Chrome trace format (chrome://tracing, ui.perfetto.dev). */
#include "run/inner.h"

#include "base/checked.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

/* Opened before the first step, so that a path that cannot be written is refused there; what it
 * holds is replaced only when there is something to write. */
oc_status oc_trace_open(oc_run *r, oc_error *err) {
    r->trace_fd = open(r->spec.trace_path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (r->trace_fd < 0)
        return oc_fail_errno(err, OC_E_IO, errno,
                             "cannot create the trace file %s (choose another --trace path)",
                             r->spec.trace_path);
    return OC_OK;
}

void oc_trace_put(oc_trace_ring *ring, const oc_trace_event *e) {
    uint64_t n = atomic_load_explicit(&ring->n, memory_order_relaxed);
    ring->events[n % ring->capacity] = *e;
    atomic_store_explicit(&ring->n, n + 1, memory_order_relaxed);
}

uint64_t oc_trace_left_out(const oc_trace_ring *ring) {
    uint64_t n = atomic_load_explicit(&ring->n, memory_order_relaxed);
    return n > ring->capacity ? n - ring->capacity : 0;
}

/* Plan names are the builder's, but JSON must hold whatever they are. */
static void put_name(FILE *f, const char *name, size_t most) {
    for (size_t i = 0; i < most && name[i]; i++) {
        unsigned char c = (unsigned char)name[i];
        fputc(c < 0x20 || c > 0x7e || c == '"' || c == '\\' ? '_' : c, f);
    }
}

static void put_event(FILE *f, const oc_run *r, int lane, const oc_trace_event *e) {
    const oc_plan *plan = &r->set->plans[e->plan];
    const oc_op *o = &plan->ops[e->op];
    /* A queue's clock may be a little behind the host's. */
    uint64_t at = oc_max_u64(e->start_ns, r->opened_ns) - r->opened_ns;
    uint64_t took = e->end_ns - e->start_ns;
    fprintf(f, ",\n{\"ph\":\"X\",\"pid\":1,\"tid\":%d,\"name\":\"%s b%" PRIu32, lane + 1,
            oc_op_kind_name((oc_op_kind)o->kind), o->block);
    if (o->piece != UINT32_MAX) fprintf(f, ".p%" PRIu32, o->piece);
    fprintf(f, "\",\"ts\":%" PRIu64 ".%03u,\"dur\":%" PRIu64 ".%03u,\"args\":{\"plan\":\"",
            at / 1000, (unsigned)(at % 1000), took / 1000, (unsigned)(took % 1000));
    put_name(f, plan->name, sizeof plan->name);
    fprintf(f,
            "\",\"op\":%" PRIu32 ",\"step\":%" PRIu64 ",\"micro\":%u,\"bytes\":%" PRIu64
            ",\"skipped\":%s}}",
            e->op, e->step, (unsigned)o->micro, o->demand.bytes, e->skipped ? "true" : "false");
}

static void put_track(FILE *f, const oc_run *r, int lane) {
    const oc_trace_ring *ring = &r->lanes[lane].ring;
    fprintf(f,
            ",\n{\"ph\":\"M\",\"pid\":1,\"tid\":%d,\"name\":\"thread_name\","
            "\"args\":{\"name\":\"%s\"}}",
            lane + 1, oc_lane_name((oc_lane)lane));
    fprintf(f,
            ",\n{\"ph\":\"M\",\"pid\":1,\"tid\":%d,\"name\":\"thread_sort_index\","
            "\"args\":{\"sort_index\":%d}}",
            lane + 1, lane);
    uint64_t n = atomic_load_explicit(&ring->n, memory_order_relaxed);
    for (uint64_t i = oc_trace_left_out(ring); i < n; i++)
        put_event(f, r, lane, &ring->events[i % ring->capacity]);
}

static void put_all(FILE *f, const oc_run *r) {
    fprintf(f, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n{\"ph\":\"M\",\"pid\":1,\"tid\":0,"
               "\"name\":\"process_name\",\"args\":{\"name\":\"outcore\"}}");
    for (int lane = 0; lane < OC_LANE_COUNT; lane++)
        if (r->lanes[lane].ring.events) put_track(f, r, lane);
    fprintf(f, "\n],\"otherData\":{\"dropped_events\":%" PRIu64 "}}\n", oc_run_trace_left_out(r));
}

oc_status oc_trace_write(oc_run *r, oc_error *err) {
    if (r->trace_fd < 0) return OC_OK;
    int fd = r->trace_fd;
    r->trace_fd = -1;                                      /* whatever happens: written once */
    bool empty = ftruncate(fd, 0) == 0 || errno == EINVAL; /* a pipe has no length */
    FILE *f = empty ? fdopen(fd, "w") : NULL;
    if (!f) {
        int e = errno;
        close(fd);
        return oc_fail_errno(err, OC_E_IO, e, "cannot write the trace file %s", r->spec.trace_path);
    }
    put_all(f, r);
    int bad = ferror(f), e = errno;
    if (fclose(f) != 0) {
        if (!bad) e = errno;
        bad = 1;
    }
    if (bad)
        return oc_fail_errno(err, OC_E_IO, e, "cannot write the trace file %s (is the disk full?)",
                             r->spec.trace_path);
    return OC_OK;
}
