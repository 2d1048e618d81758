/* cgroup.h - how much memory the control groups of this process still grant, v1 and v2.
 *
 * Reads three small files of /proc and /sys; may be called by any thread. */
#ifndef OC_CGROUP_H
#define OC_CGROUP_H

#include <stdint.h>

/* The smallest room of the process's group and all its ancestors, in bytes; UINT64_MAX when no
 * limit is found. Page cache that would be dropped first counts as room. The two arguments are
 * "/proc/self/cgroup" and "/proc/self/mountinfo", or files of that form. */
uint64_t oc_cgroup_room(const char *cgroup_file, const char *mountinfo_file);

#endif
