/* Any bytes as a .jsonl and a .txt data file, packed and not: no crash, no bad access, and the
 * sequences of what is accepted keep their promises. Build with
 * -fsanitize=fuzzer,address,undefined, or run by test_text_corpus. */
#include "text/dataset.h"
#include "text/tokenizer.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { SEQ = 7, VOCAB = 300 };

static void check(oc_dataset *d) {
    const oc_dataset_report *r = oc_dataset_get_report(d);
    uint64_t count = oc_dataset_count(d), targets = 0;
    if (count == 0 || r->tokens > count * SEQ || r->dropped >= r->rows) abort();
    for (uint64_t i = 0; i < count; i++) {
        int32_t tokens[SEQ], labels[SEQ], positions[SEQ], start[SEQ];
        if (oc_dataset_read(d, i, tokens, labels, positions, start, NULL) != OC_OK) abort();
        for (int t = 0; t < SEQ; t++) {
            bool fresh = t == 0 || start[t] == t;
            if (!fresh && start[t] != start[t - 1]) abort();
            if (positions[t] != (fresh ? 0 : positions[t - 1] + 1)) abort();
            if (tokens[t] < 0 || tokens[t] >= VOCAB) abort();
            if (labels[t] != -100 && (labels[t] < 0 || labels[t] >= VOCAB)) abort();
            if (t > 0 && fresh && labels[t - 1] != -100) abort();
            targets += labels[t] != -100;
        }
        if (labels[SEQ - 1] != -100) abort();
    }
    if (targets != r->targets || targets == 0) abort();
}

static void try_file(const char *path, bool packing) {
    static oc_tokenizer *tokenizer;
    if (tokenizer == NULL && oc_tokenizer_bytes(&tokenizer, NULL) != OC_OK) abort();
    const char *paths[] = {path};
    const oc_dataset_spec spec = {.paths = paths,
                                  .n_paths = 1,
                                  .tokenizer = tokenizer,
                                  .vocab = VOCAB,
                                  .seq = SEQ,
                                  .packing = packing};
    oc_dataset *d;
    oc_error err;
    if (oc_dataset_open(&d, &spec, &err) != OC_OK) return;
    check(d);
    oc_dataset_close(d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static const char *const ends[] = {".jsonl", ".txt"};
    for (int e = 0; e < 2; e++) {
        char path[64];
        snprintf(path, sizeof path, "/tmp/oc-fuzz-%ld%s", (long)getpid(), ends[e]);
        FILE *f = fopen(path, "wb");
        if (f == NULL || fwrite(data, 1, n, f) != n || fclose(f) != 0) abort();
        try_file(path, true);
        try_file(path, false);
        unlink(path);
    }
    return 0;
}
