/* scratch.h - a folder of its own for a test that writes files. */
#ifndef OC_SCRATCH_H
#define OC_SCRATCH_H

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { SCRATCH_BYTES = 512 };

/* Below TMPDIR or /tmp; its name ends in ".tmp", so that oc_fs_remove_temporary() takes it. */
static inline void scratch_make(char path[SCRATCH_BYTES]) {
    const char *base = getenv("TMPDIR");
    snprintf(path, SCRATCH_BYTES, "%s/outcore-XXXXXX.tmp", base && *base ? base : "/tmp");
    int fd = mkstemps(path, 4);
    if (fd < 0) {
        perror(path);
        exit(1);
    }
    remove(path);
    if (mkdir(path, 0700)) {
        perror(path);
        exit(1);
    }
}

/* path = dir/name */
static inline const char *scratch_path(char path[SCRATCH_BYTES], const char *dir,
                                       const char *name) {
    int n = snprintf(path, SCRATCH_BYTES, "%s/%s", dir, name);
    if (n < 0 || n >= SCRATCH_BYTES) {
        fprintf(stderr, "%s/%s: too long\n", dir, name);
        exit(1);
    }
    return path;
}

static inline void scratch_write(const char *dir, const char *name, const char *text) {
    char path[SCRATCH_BYTES];
    FILE *f = fopen(scratch_path(path, dir, name), "wb");
    if (!f || fwrite(text, 1, strlen(text), f) != strlen(text) || fclose(f)) {
        perror(path);
        exit(1);
    }
}

static inline int scratch_remove_one(const char *path, const struct stat *st, int type,
                                     struct FTW *ftw) {
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

/* A file, or a folder with all that it holds; one that is not there is fine. */
static inline void scratch_remove(const char *path) {
    (void)nftw(path, scratch_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

#endif
