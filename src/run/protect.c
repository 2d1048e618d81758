/* protect.c - debug: a home is readable only while an op in flight reads it, writable only while
 * one writes it. A stray access outside is a SIGSEGV at the line that did it.
 *
 * Protection works on whole pages: only pages that lie entirely inside a buffer are covered, the
 * edges it shares with neighbours stay open. Buffers of an alias group are left out, for their
 * pages have several owners. */
#include "run/inner.h"

#include "base/checked.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

static bool protectable(const oc_buffer *b) {
    return b->life == OC_LIFE_CARRIED && b->tier == OC_TIER_HOST && b->alias == 0;
}

void oc_guard_setup(oc_run *r) {
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    for (uint32_t i = 0; i < r->set->n_buffers; i++) {
        const oc_buffer *b = &r->set->buffers[i];
        oc_guard *g = &r->guards[i];
        *g = (oc_guard){.prot = PROT_READ | PROT_WRITE};
        if (!protectable(b)) continue;
        uint8_t *at = oc_run_buffer(r, i, 0);
        uint64_t skip = (page - (uint64_t)(uintptr_t)at % page) % page;
        if (b->bytes < skip + page) continue;
        g->at = at + skip;
        g->bytes = (size_t)((b->bytes - skip) / page * page);
    }
    r->guards_open = true;
}

/* Under guard_lock. */
static int apply(oc_run *r, oc_guard *g) {
    int prot = r->guards_open || g->writers ? PROT_READ | PROT_WRITE
               : g->readers                 ? PROT_READ
                                            : PROT_NONE;
    if (!g->at || prot == g->prot) return 0;
    if (mprotect(g->at, g->bytes, prot) != 0) return errno;
    g->prot = prot;
    return 0;
}

static int count(oc_run *r, oc_buffer_id id, bool write, bool enter) {
    if (id == OC_NO_BUFFER) return 0;
    oc_guard *g = &r->guards[id];
    uint32_t *n = write ? &g->writers : &g->readers;
    if (enter)
        ++*n;
    else
        --*n;
    return apply(r, g);
}

static int count_all(oc_run *r, const oc_task *t, bool enter) {
    pthread_mutex_lock(&r->guard_lock);
    int e = 0, first = 0;
    for (uint32_t i = 0; i < t->op->n_accesses; i++) {
        e = count(r, t->accesses[i].buffer, t->accesses[i].mode != OC_READ, enter);
        if (e && !first) first = e;
    }
    e = count(r, t->op->pred, false, enter);
    if (e && !first) first = e;
    e = count(r, t->op->index, false, enter);
    if (e && !first) first = e;
    pthread_mutex_unlock(&r->guard_lock);
    return first;
}

oc_status oc_guard_enter(oc_run *r, const oc_task *t, oc_error *err) {
    if (!r->guards) return OC_OK;
    int e = count_all(r, t, true);
    if (!e) return OC_OK;
    count_all(r, t, false);
    return oc_fail_errno(err, OC_E_SYSTEM, e,
                         "cannot change the protection of pages (raise vm.max_map_count, or run "
                         "without protection)");
}

/* A failure to take access away again harms nobody: the next change of that buffer retries. */
void oc_guard_leave(oc_run *r, const oc_task *t) {
    if (r->guards) count_all(r, t, false);
}

static int set_open(oc_run *r, bool all_open) {
    if (!r->guards) return 0;
    int first = 0;
    pthread_mutex_lock(&r->guard_lock);
    if (r->guards_open != all_open) {
        r->guards_open = all_open;
        for (uint32_t i = 0; i < r->set->n_buffers; i++) {
            int e = apply(r, &r->guards[i]);
            if (e && !first) first = e;
        }
    }
    pthread_mutex_unlock(&r->guard_lock);
    return first;
}

void oc_guard_open_all(oc_run *r) { (void)set_open(r, true); }

oc_status oc_guard_close_all(oc_run *r, oc_error *err) {
    int e = set_open(r, false);
    if (!e) return OC_OK;
    (void)set_open(r, true);
    return oc_fail_errno(err, OC_E_SYSTEM, e,
                         "cannot protect the pages of homes (raise vm.max_map_count, or run "
                         "without protection)");
}
