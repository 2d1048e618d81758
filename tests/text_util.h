/* text_util.h - small files for the tests of the text room. */
#ifndef OC_TESTS_TEXT_UTIL_H
#define OC_TESTS_TEXT_UTIL_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct text_dir {
    char dir[200];
    char path[8][256]; /* files made so far */
    int n;
} text_dir;

static inline void text_dir_init(text_dir *d) {
    const char *base = getenv("TMPDIR");
    snprintf(d->dir, sizeof d->dir, "%s/oc-text-XXXXXX", base != NULL ? base : "/tmp");
    if (mkdtemp(d->dir) == NULL) abort();
    d->n = 0;
}

static inline const char *text_dir_put(text_dir *d, const char *name, const void *data, size_t n) {
    if (d->n == 8) abort();
    char path[256];
    if (snprintf(path, sizeof path, "%s/%s", d->dir, name) >= (int)sizeof path) abort();
    FILE *f = fopen(path, "wb");
    if (f == NULL || fwrite(data, 1, n, f) != n || fclose(f) != 0) abort();
    return memcpy(d->path[d->n++], path, sizeof path);
}

static inline void text_dir_release(text_dir *d) {
    for (int i = 0; i < d->n; i++)
        unlink(d->path[i]);
    rmdir(d->dir);
}

#endif
