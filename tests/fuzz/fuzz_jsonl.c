/* Any bytes as a .jsonl, a .json and a .txt data file (gzip and zstd are known by their bytes),
 * packed and not: no crash, no bad access, and the sequences of what is accepted keep their
 * promises. Build with -fsanitize=fuzzer,address,undefined, or run by test_data_corpus. */
#include "data/dataset.h"
#include "tokenizer/tokenizer.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

/* The byte tokenizer with a chat template, by way of its files. */
static oc_tokenizer *make_tokenizer(void) {
    static const char template[] =
        "{% if tools %}{{ tools | tojson }}{% endif %}"
        "{% for m in messages %}{{ '[' + m.role + ']' }}"
        "{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content or [] %}"
        "{{ p.text }}{% endfor %}{% endif %}{% for c in m.tool_calls or [] %}{{ c.function.name }}"
        "{% endfor %}\n{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}";
    static const char *const files[] = {"chat_template.jinja", "tokenizer.json",
                                        "tokenizer_config.json"};
    char dir[] = "/tmp/oc-fuzz-XXXXXX", path[64];
    oc_tokenizer *plain = NULL, *made = NULL;
    if (mkdtemp(dir) == NULL || oc_tokenizer_bytes(&plain, NULL) != OC_OK) abort();
    if (oc_tokenizer_save(plain, dir, NULL) != OC_OK) abort();
    snprintf(path, sizeof path, "%s/%s", dir, files[0]);
    FILE *f = fopen(path, "wb");
    if (f == NULL || fputs(template, f) < 0 || fclose(f) != 0) abort();
    if (oc_tokenizer_open(&made, dir, NULL) != OC_OK) abort();
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, files[i]);
        unlink(path);
    }
    rmdir(dir);
    oc_tokenizer_close(plain);
    return made;
}

static oc_tokenizer *tokenizer; /* of all runs */

static oc_status see(void *arg, const oc_row *row, oc_error *err) {
    uint64_t *rows = arg;
    (void)err;
    ++*rows;
    if (row->n > 0 && (row->ids[0] < 0 || row->ids[row->n - 1] >= VOCAB)) abort();
    for (size_t i = 0; i < row->n; i++)
        if (row->labels[i] < 0 && row->labels[i] != -100) abort();
    return OC_OK;
}

/* A visit sees the rows that training counts. */
static void check_visit(const oc_dataset_spec *spec, const oc_dataset *d) {
    uint64_t rows = 0;
    if (oc_dataset_visit(spec, see, &rows, NULL) != OC_OK) abort();
    if (rows != oc_dataset_get_report(d)->rows) abort();
}

static void try_file(const char *path, bool packing) {
    if (tokenizer == NULL) tokenizer = make_tokenizer();
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
    if (packing) check_visit(&spec, d);
    oc_dataset_close(d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static const char *const ends[] = {".jsonl", ".json", ".txt"};
    for (int e = 0; e < 3; e++) {
        char path[64];
        snprintf(path, sizeof path, "/tmp/oc-fuzz-%ld%s", (long)getpid(), ends[e]);
        FILE *f = fopen(path, "wb");
        if (f == NULL || fwrite(data, 1, n, f) != n || fclose(f) != 0) abort();
        bool needs;
        if (oc_dataset_needs_tokenizer(path, &needs, NULL) != OC_OK) abort();
        try_file(path, true);
        try_file(path, false);
        unlink(path);
    }
    return 0;
}
