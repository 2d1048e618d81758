/* cgroup.c - see cgroup.h. The formats: proc(5), cgroups(7), and the kernel's cgroup-v2 document.
 */
#include "mem/cgroup.h"
#include "mem/lines.h"

#include "base/checked.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The memory hierarchy this process is in. */
typedef struct hierarchy {
    bool found;
    bool v2;
    char mount[PATH_MAX]; /* where it is mounted */
    char root[PATH_MAX];  /* which of its groups is the top of that mount */
    char group[PATH_MAX]; /* the process's group, from the hierarchy's own top */
} hierarchy;

static bool copy_text(char *dst, size_t size, const char *src) {
    int n = snprintf(dst, size, "%s", src);
    return n >= 0 && (size_t)n < size;
}

/* Is `word` one of the comma-separated words of list? */
static bool has_word(const char *list, const char *word) {
    size_t n = strlen(word);
    for (const char *p = list; *p;) {
        size_t length = strcspn(p, ",");
        if (length == n && memcmp(p, word, n) == 0) return true;
        p += length;
        if (*p) p++;
    }
    return false;
}

/* "4:memory:/a/b" is v1, "0::/a/b" is v2. A process can be in both; memory is managed by the v1
 * hierarchy when it is listed there. */
static bool find_group(const char *cgroup_file, hierarchy *h) {
    oc_mem_lines f;
    if (!oc_mem_lines_open(&f, cgroup_file)) return false;
    char line[PATH_MAX + 64];
    while (oc_mem_lines_next(&f, line, sizeof line)) {
        char *controllers = strchr(line, ':');
        char *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path) continue;
        *controllers++ = '\0';
        *path++ = '\0';
        bool v1 = has_word(controllers, "memory");
        bool v2 = *controllers == '\0' && strcmp(line, "0") == 0;
        if (!v1 && (!v2 || h->found)) continue;
        if (!copy_text(h->group, sizeof h->group, path)) continue;
        h->found = true;
        h->v2 = !v1;
        if (v1) break;
    }
    oc_mem_lines_close(&f);
    return h->found;
}

/* A line of mountinfo: id parent major:minor root mount options [tags] - type source superoptions.
 * Paths have blanks as \040; control groups with blanks are not looked for. */
static bool parse_mount(char *line, bool v2, hierarchy *h) {
    char *dash = strstr(line, " - ");
    if (!dash) return false;
    *dash = '\0';
    char type[32], source[PATH_MAX], super[1024];
    if (sscanf(dash + 3, "%31s %4095s %1023s", type, source, super) != 3) return false;
    if (strcmp(type, v2 ? "cgroup2" : "cgroup") != 0) return false;
    if (!v2 && !has_word(super, "memory")) return false;
    return sscanf(line, "%*s %*s %*s %4095s %4095s", h->root, h->mount) == 2;
}

static bool find_mount(const char *mountinfo_file, hierarchy *h) {
    oc_mem_lines f;
    if (!oc_mem_lines_open(&f, mountinfo_file)) return false;
    char line[2 * PATH_MAX + 2048];
    bool found = false;
    while (!found && oc_mem_lines_next(&f, line, sizeof line)) {
        found = parse_mount(line, h->v2, h);
    }
    oc_mem_lines_close(&f);
    return found;
}

/* "max" and files that are not there are no limit: false. */
static bool read_number(const char *dir, const char *name, uint64_t *out) {
    char path[2 * PATH_MAX + 64], text[64];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    oc_mem_lines f;
    if (!oc_mem_lines_open(&f, path)) return false;
    bool ok = oc_mem_lines_next(&f, text, sizeof text);
    oc_mem_lines_close(&f);
    if (!ok || text[0] < '0' || text[0] > '9') return false;
    errno = 0;
    unsigned long long value = strtoull(text, NULL, 10);
    if (errno) return false;
    *out = value;
    return true;
}

/* A line "key value" of memory.stat; 0 when it is not there. */
static uint64_t read_stat(const char *dir, const char *key) {
    char path[2 * PATH_MAX + 64], line[128] = "";
    snprintf(path, sizeof path, "%s/memory.stat", dir);
    oc_mem_lines f;
    if (!oc_mem_lines_open(&f, path)) return 0;
    uint64_t value = 0;
    size_t n = strlen(key);
    while (oc_mem_lines_next(&f, line, sizeof line)) {
        if (strncmp(line, key, n) != 0 || line[n] != ' ') continue;
        value = strtoull(line + n + 1, NULL, 10);
        break;
    }
    oc_mem_lines_close(&f);
    return value;
}

static uint64_t group_room(const char *dir, bool v2) {
    uint64_t limit, usage;
    if (!read_number(dir, v2 ? "memory.max" : "memory.limit_in_bytes", &limit)) return UINT64_MAX;
    /* v1 writes "no limit" as a number near 2^63. */
    if (!v2 && limit >= (uint64_t)INT64_MAX / 2) return UINT64_MAX;
    if (!read_number(dir, v2 ? "memory.current" : "memory.usage_in_bytes", &usage))
        return UINT64_MAX;
    uint64_t cache = read_stat(dir, v2 ? "inactive_file" : "total_inactive_file");
    uint64_t used = usage - oc_min_u64(usage, cache);
    return limit - oc_min_u64(limit, used);
}

/* Where the group's folder lies below the mount: its path without the mount's root. Inside a
 * container the path may point outside of what is mounted; then the mount's top is the group. */
static const char *relative_group(const hierarchy *h) {
    const char *group = h->group;
    size_t n = strlen(h->root);
    if (n > 1) {
        if (strncmp(group, h->root, n) != 0 || (group[n] && group[n] != '/')) return "";
        group += n;
    }
    if (strstr(group, "/..")) return "";
    return strcmp(group, "/") == 0 ? "" : group;
}

uint64_t oc_cgroup_room(const char *cgroup_file, const char *mountinfo_file) {
    hierarchy h = {0};
    if (!find_group(cgroup_file, &h) || !find_mount(mountinfo_file, &h)) return UINT64_MAX;
    char dir[2 * PATH_MAX];
    snprintf(dir, sizeof dir, "%s%s", h.mount, relative_group(&h));
    size_t top = strlen(h.mount);
    uint64_t room = UINT64_MAX;
    for (;;) {
        room = oc_min_u64(room, group_room(dir, h.v2));
        char *slash = strrchr(dir, '/');
        if (!slash || strlen(dir) <= top) return room;
        *slash = '\0';
    }
}
