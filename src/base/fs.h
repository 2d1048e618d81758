/* fs.h - the few file-system operations that must be right: directories, small files that appear
 * whole or not at all, removal of what we left behind.
 *
 * Cold calls; any thread may make them on different paths. Bulk data does not go through here. */
#ifndef OC_FS_H
#define OC_FS_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Names that end so are ours, unfinished, and may be removed by any later run. */
#define OC_FS_TEMPORARY ".tmp"

/* --- Query */

bool oc_fs_exists(const char *path);       /* anything, also a dangling link */
bool oc_fs_is_directory(const char *path); /* follows links */
/* Bytes an unprivileged process may still write on the file system that holds path. */
OC_NODISCARD oc_status oc_fs_free_bytes(const char *path, uint64_t *out, oc_error *err);
/* The whole file, at most `most` bytes (longer: OC_E_FORMAT); a NUL follows that is not counted.
 * Free *out. */
OC_NODISCARD oc_status oc_fs_read(char **out, size_t *bytes, const char *path, size_t most,
                                  oc_error *err);

/* --- Work */

/* The directory and its parents; one that is there already is fine. */
OC_NODISCARD oc_status oc_fs_make_directories(const char *path, oc_error *err);
/* Make names created, renamed or removed in this directory survive a power cut. */
OC_NODISCARD oc_status oc_fs_sync_directory(const char *path, oc_error *err);
/* Write path.tmp, sync, rename to path, sync the directory: after a crash path holds the old
 * content or the new one. One writer per path. */
OC_NODISCARD oc_status oc_fs_write_atomic(const char *path, const void *data, size_t bytes,
                                          oc_error *err);
/* The same with the content of another file, in small memory. */
OC_NODISCARD oc_status oc_fs_copy_atomic(const char *path, const char *from, oc_error *err);
/* Rename and make it durable. An existing file is replaced, an existing directory only if empty. */
OC_NODISCARD oc_status oc_fs_rename(const char *from, const char *to, oc_error *err);
/* Remove a file or a whole tree whose own name ends in OC_FS_TEMPORARY; any other name is refused.
 * Links are removed, not followed. One that is not there is fine. */
OC_NODISCARD oc_status oc_fs_remove_temporary(const char *path, oc_error *err);

#endif
