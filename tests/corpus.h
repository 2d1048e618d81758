/* corpus.h - runs a fuzz target over a corpus as a test: every input whole, cut short, and with
 * bytes changed. Include the target (fuzz/fuzz_<noun>.c) first. */
#ifndef OC_TEST_CORPUS_H
#define OC_TEST_CORPUS_H

#include "cmocka_all.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CORPUS_MOST_BYTES = 1 << 16 };

/* An exact copy on the heap, so that a sanitizer sees a read past the end. */
static inline void corpus_feed(const char *data, size_t n) {
    uint8_t *copy = malloc(n > 0 ? n : 1);
    assert_non_null(copy);
    if (n > 0) memcpy(copy, data, n);
    (void)LLVMFuzzerTestOneInput(copy, n);
    free(copy);
}

/* Every `stride`-th of the first `most` places is cut at and changed. */
static inline void corpus_disturb(const char *bytes, size_t n, size_t most, size_t stride) {
    static const char changes[4] = {1, 0x10, 0x40, (char)0x80};
    char *data = malloc(n + 1);
    assert_non_null(data);
    memcpy(data, bytes, n);
    corpus_feed(data, n);
    for (size_t i = 0; i < n && i < most; i += stride) {
        char was = data[i];
        corpus_feed(data, i);
        data[i] = (char)(was ^ changes[i % 4]);
        corpus_feed(data, n);
        data[i] = was;
    }
    free(data);
}

/* All files of a folder; returns how many. */
static inline int corpus_folder(const char *folder, size_t most, size_t stride) {
    static char data[CORPUS_MOST_BYTES];
    char path[1024];
    int files = 0;
    DIR *d = opendir(folder);
    if (!d) fail_msg("%s cannot be opened", folder);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        if (e->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        FILE *f = fopen(path, "rb");
        assert_non_null(f);
        size_t n = fread(data, 1, sizeof data, f);
        (void)fclose(f);
        if (n == sizeof data) fail_msg("%s is too long for a corpus", path);
        corpus_disturb(data, n, most, stride);
        files++;
    }
    closedir(d);
    return files;
}

#endif
