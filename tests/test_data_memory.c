/* What tokenizers and data sets say they hold is what malloc() holds for them: of a tokenizer of
 * 10 MB made here, and of published ones, where a folder of them lies beside the repository. What
 * reading them needed on the way is gone. */
#include "big_tokenizer.h"
#include "data/dataset.h"
#include "tokenizer_case.h"
#include "unpack.h"

#include <inttypes.h>
#include <malloc.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COUNTS 0 /* the sanitizers' allocators do not tell */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ||                         \
    __has_feature(memory_sanitizer)
#define COUNTS 0
#endif
#endif
#ifndef COUNTS
#ifdef __GLIBC__
#define COUNTS 1
#else
#define COUNTS 0
#endif
#endif

static uint64_t held(void) {
#if COUNTS
    struct mallinfo2 m = mallinfo2();
    return m.uordblks + m.hblkhd;
#else
    return 0;
#endif
}

static void compare(const char *what, uint64_t said, uint64_t before) {
    uint64_t holds = held() - before, room = (64u << 10) + holds / 100;
    uint64_t off = said > holds ? said - holds : holds - said;
    print_message("%s: %" PRIu64 " bytes said, %" PRIu64 " held\n", what, said, holds);
    if (off > room)
        fail_msg("%s: %" PRIu64 " bytes said, %" PRIu64 " held: off by more than %" PRIu64, what,
                 said, holds, room);
}

/* Texts of every length, enough to fill the cache of words. */
static void write_rows(const char *dir) {
    char path[SCRATCH_BYTES];
    FILE *f = fopen(scratch_path(path, dir, "rows.jsonl"), "w");
    assert_non_null(f);
    uint32_t x = 1;
    for (int row = 0; row < 400; row++) {
        fprintf(f, "{\"text\": \"");
        for (int k = 0; k < row % 50 * 10 + 1; k++) {
            char word[8];
            x = x * 1664525 + 1013904223;
            (void)big_word((int)(x >> 8) % 300000, word);
            fprintf(f, "%s ", word);
        }
        fprintf(f, "\"}\n");
    }
    assert_int_equal(fclose(f), 0);
}

static void check(const char *what, const char *dir) {
    char path[SCRATCH_BYTES];
    oc_error err = {OC_OK, ""};
    oc_tokenizer *t = NULL;
    oc_dataset *data = NULL;
    write_rows(dir);
    const char *const paths[] = {scratch_path(path, dir, "rows.jsonl")};
    uint64_t before = held();
    if (oc_tokenizer_open(&t, dir, &err) != OC_OK) fail_msg("%s", err.message);
    uint64_t said = oc_tokenizer_host_bytes(t);
    assert_true(said > 1 << 20);
    compare(what, said, before);
    const oc_dataset_spec spec = {.paths = paths,
                                  .n_paths = 1,
                                  .tokenizer = t,
                                  .vocab = oc_tokenizer_vocab(t),
                                  .seq = 64,
                                  .packing = true};
    if (oc_dataset_open(&data, &spec, &err) != OC_OK) fail_msg("%s", err.message);
    compare("with a data set open", said + oc_dataset_host_bytes(NULL), before);
    oc_dataset_close(data);
    oc_tokenizer_close(t);
    compare("closed", 0, before);
}

static void remove_files(const char *dir) {
    static const char *const names[] = {"rows.jsonl", "tokenizer.json", "tokenizer_config.json"};
    char path[SCRATCH_BYTES];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        (void)unlink(scratch_path(path, dir, names[i]));
    (void)rmdir(dir);
}

static void a_tokenizer_of_10_MB_says_what_it_holds(void **state) {
    (void)state;
    char dir[SCRATCH_BYTES];
    if (!COUNTS) skip();
    scratch_make(dir);
    big_tokenizer_write(dir, 420000);
    check("420,000 words", dir);
    remove_files(dir);
}

/* tokenizer.json and tokenizer_config.json into dir; false, and why, when that cannot be. */
static bool fetch(const char *dir, const char *name) {
    char from[SCRATCH_BYTES], to[SCRATCH_BYTES];
    size_t n = 0;
    snprintf(from, sizeof from, UNPACK_TOKENIZERS "%s/tokenizer.json.xz", name);
    if (access(from, R_OK) != 0) {
        print_message("%s is not there\n", from);
        return false;
    }
    if (!unpack(from, scratch_path(to, dir, "tokenizer.json"))) {
        print_message("xz is not there\n");
        return false;
    }
    snprintf(from, sizeof from, UNPACK_TOKENIZERS "%s/tokenizer_config.json", name);
    char *text = case_read(from, &n);
    text[n] = 0; /* there is room: the buffer doubles when it is full */
    scratch_write(dir, "tokenizer_config.json", text);
    free(text);
    return true;
}

static void published_ones_do_too(void **state) {
    static const char *const names[] = {"llama3_1", "qwen3", "sentencepiece_32k"};
    bool there = COUNTS;
    (void)state;
    for (size_t i = 0; there && i < sizeof names / sizeof *names; i++) {
        char dir[SCRATCH_BYTES];
        scratch_make(dir);
        there = fetch(dir, names[i]);
        if (there) check(names[i], dir);
        remove_files(dir);
    }
    if (!there) skip();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tokenizer_of_10_MB_says_what_it_holds),
        cmocka_unit_test(published_ones_do_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
