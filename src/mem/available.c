/* available.c - what memory the machine has left for this process, and what the process uses. */
#include "base/checked.h"
#include "mem/cgroup.h"
#include "mem/lines.h"
#include "mem/mem.h"

#include <features.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The sum of lines "Key:   123 kB" of a file of /proc; false when none is there. */
static bool read_kib(const char *path, const char *const *keys, size_t n, uint64_t *out_bytes) {
    oc_mem_lines f;
    if (!oc_mem_lines_open(&f, path)) return false;
    char line[256] = "";
    uint64_t kib = 0;
    bool found = false;
    while (oc_mem_lines_next(&f, line, sizeof line)) {
        for (size_t i = 0; i < n; i++) {
            size_t length = strlen(keys[i]);
            if (strncmp(line, keys[i], length) != 0 || line[length] != ':') continue;
            kib += strtoull(line + length + 1, NULL, 10);
            found = true;
        }
    }
    oc_mem_lines_close(&f);
    if (found) *out_bytes = kib * 1024;
    return found;
}

uint64_t oc_mem_available(void) {
    static const char *const keys[] = {"MemAvailable"};
    uint64_t machine;
    if (!read_kib("/proc/meminfo", keys, 1, &machine))
        machine = (uint64_t)sysconf(_SC_AVPHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    return oc_min_u64(machine, oc_cgroup_room("/proc/self/cgroup", "/proc/self/mountinfo"));
}

uint64_t oc_mem_rss(void) {
    static const char *const keys[] = {"RssAnon", "RssShmem"};
    uint64_t bytes;
    return read_kib("/proc/self/status", keys, 2, &bytes) ? bytes : 0;
}

void oc_mem_trim(void) {
#ifdef __GLIBC__
    (void)malloc_trim(0);
#endif
}
