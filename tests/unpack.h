/* unpack.h - published tokenizers, in a folder that may lie beside the repository. */
#ifndef OC_UNPACK_H
#define OC_UNPACK_H

#include "scratch.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

#define UNPACK_TOKENIZERS OC_TEST_DATA "/../../../shared/data/tokenizers/"

/* from.xz becomes the file `to`; false without xz. */
static inline bool unpack(const char *from, const char *to) {
    char xz[] = "xz", flags[] = "-dc", path[SCRATCH_BYTES];
    snprintf(path, sizeof path, "%s", from);
    char *const argv[] = {xz, flags, path, NULL};
    posix_spawn_file_actions_t a;
    pid_t pid;
    int status = -1;
    posix_spawn_file_actions_init(&a);
    posix_spawn_file_actions_addopen(&a, 1, to, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (posix_spawnp(&pid, "xz", &a, NULL, argv, environ) == 0) waitpid(pid, &status, 0);
    posix_spawn_file_actions_destroy(&a);
    return status == 0;
}

#endif
