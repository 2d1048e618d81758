/* tensor_util.h - temporary directories and small files for the tests of the tensor room. */
#ifndef OC_TESTS_TENSOR_UTIL_H
#define OC_TESTS_TENSOR_UTIL_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DATA OC_TEST_DATA "/safetensors/"

/* A fresh directory in $TMPDIR or /tmp. */
static inline void make_dir(char path[256]) {
    const char *base = getenv("TMPDIR");
    snprintf(path, 256, "%s/oc-tensor-XXXXXX", base != NULL ? base : "/tmp");
    if (mkdtemp(path) == NULL) abort();
}

static inline int count_files(const char *dir) {
    int n = 0;
    DIR *d = opendir(dir);
    if (d == NULL) return -1;
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(d);
    return n;
}

/* Removes the files of dir, then dir unless keep. */
static inline void clear_dir(const char *dir, int keep) {
    char path[1024];
    DIR *d = opendir(dir);
    if (d == NULL) return;
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        unlink(path);
    }
    closedir(d);
    if (!keep) rmdir(dir);
}

static inline void put_file(const char *dir, const char *name, const void *data, size_t n) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "wb");
    if (f == NULL || fwrite(data, 1, n, f) != n || fclose(f) != 0) abort();
}

static inline void put_text(const char *dir, const char *name, const char *text) {
    put_file(dir, name, text, strlen(text));
}

/* The whole file; the caller frees it. */
static inline char *get_file(const char *dir, const char *name, size_t *n) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    *n = 0;
    FILE *f = fopen(path, "rb");
    if (f == NULL) return NULL;
    char *buf = malloc(1 << 20);
    if (buf == NULL) abort();
    *n = fread(buf, 1, 1 << 20, f);
    fclose(f);
    return buf;
}

static inline int has_file(const char *dir, const char *name) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return access(path, F_OK) == 0;
}

#endif
