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
/* What a path leads to, whatever the path: links and mounts give a file other names. false: there
 * is nothing. */
typedef struct oc_fs_id {
    uint64_t device, inode;
} oc_fs_id;
bool oc_fs_identify(const char *path, oc_fs_id *out);
bool oc_fs_same(oc_fs_id a, oc_fs_id b);
/* Bytes an unprivileged process may still write on the file system that holds path. */
OC_NODISCARD oc_status oc_fs_free_bytes(const char *path, uint64_t *out, oc_error *err);
/* Every name in dir but "." and ".."; a visit that fails ends it. A directory that cannot be listed
 * to its end is an error, never an empty one. */
typedef oc_status oc_fs_visit(void *arg, const char *name, oc_error *err);
OC_NODISCARD oc_status oc_fs_list(const char *dir, oc_fs_visit *visit, void *arg, oc_error *err);
/* *out: a descriptor of a regular file; anything else (FIFO, device, directory) is refused without
 * waiting. */
OC_NODISCARD oc_status oc_fs_open_read(int *out, const char *path, oc_error *err);
/* The whole file, at most `most` bytes (longer: OC_E_FORMAT); a NUL follows that is not counted.
 * Only of a regular file. Free *out. */
OC_NODISCARD oc_status oc_fs_read(char **out, size_t *bytes, const char *path, size_t most,
                                  oc_error *err);

/* --- Work */

/* The directory and its parents; one that is there already is fine. New ones survive a power cut.
 */
OC_NODISCARD oc_status oc_fs_make_directories(const char *path, oc_error *err);
/* The same; *topmost: how much of path is the topmost directory that was made, also on failure. 0:
 * none was. */
OC_NODISCARD oc_status oc_fs_make_path(const char *path, size_t *topmost, oc_error *err);
/* Make names created, renamed or removed in this directory survive a power cut. */
OC_NODISCARD oc_status oc_fs_sync_directory(const char *path, oc_error *err);
/* Write path.tmp, sync, rename to path, sync the directory: after a crash path holds the old
 * content or the new one. One writer per path. */
OC_NODISCARD oc_status oc_fs_write_atomic(const char *path, const void *data, size_t bytes,
                                          oc_error *err);
/* Write at most so much of a large file at a time, */
enum { OC_FS_WINDOW = 1 << 20 };
/* and then tell that n bytes were written at fd's place: they are sent to the disk, and those of a
 * window before have arrived. Bytes that wait for a disk count as the process's in a container, and
 * the kernel ends it rather than wait for all of them. What fails here fails in fsync() too. */
void oc_fs_hand_over(int fd, uint64_t n);
/* Rename and make it durable. An existing file is replaced, an existing directory only if empty. */
OC_NODISCARD oc_status oc_fs_rename(const char *from, const char *to, oc_error *err);
/* Remove a file or a whole tree whose own name ends in OC_FS_TEMPORARY; any other name is refused.
 * Links are removed, not followed. One that is not there is fine. */
OC_NODISCARD oc_status oc_fs_remove_temporary(const char *path, oc_error *err);

#endif
