/* Rows to sequences: what is expected was worked out by hand from the rules in dataset.h. */
#include "data/dataset.h"
#include "text_util.h"
#include "tokenizer/tokenizer.h"

#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>

#include <cmocka.h>

#define I (-100)

typedef struct fixture {
    text_dir dir;
    oc_tokenizer *tokenizer;
    oc_dataset_spec spec;
    const char *paths[8];
} fixture;

static void start(fixture *f, int64_t seq, bool packing) {
    *f = (fixture){0};
    text_dir_init(&f->dir);
    assert_int_equal(oc_tokenizer_bytes(&f->tokenizer, NULL), OC_OK);
    f->spec = (oc_dataset_spec){.paths = f->paths,
                                .tokenizer = f->tokenizer,
                                .vocab = OC_BYTES_VOCAB,
                                .seq = seq,
                                .packing = packing,
                                .pad_id = OC_BYTES_PAD};
}

static void add_bytes(fixture *f, const char *name, const void *data, size_t n) {
    f->paths[f->spec.n_paths++] = text_dir_put(&f->dir, name, data, n);
}

static void add(fixture *f, const char *name, const char *text) {
    add_bytes(f, name, text, strlen(text));
}

static void stop(fixture *f) {
    oc_tokenizer_close(f->tokenizer);
    text_dir_release(&f->dir);
}

static oc_dataset *open_ok(const fixture *f) {
    oc_dataset *d;
    oc_error err = {0};
    oc_status s = oc_dataset_open(&d, &f->spec, &err);
    if (s != OC_OK) print_error("%s\n", err.message);
    assert_int_equal(s, OC_OK);
    return d;
}

typedef struct sequence {
    int32_t tokens[8], labels[8], positions[8], doc_start[8];
} sequence;

static void check_sequences(oc_dataset *d, const sequence *want, uint64_t n) {
    assert_int_equal(oc_dataset_count(d), n);
    for (uint64_t i = n; i-- > 0;) {
        sequence got;
        assert_int_equal(
            oc_dataset_read(d, i, got.tokens, got.labels, got.positions, got.doc_start, NULL),
            OC_OK);
        for (int t = 0; t < 8; t++) {
            assert_int_equal(got.tokens[t], want[i].tokens[t]);
            assert_int_equal(got.labels[t], want[i].labels[t]);
            assert_int_equal(got.positions[t], want[i].positions[t]);
            assert_int_equal(got.doc_start[t], want[i].doc_start[t]);
        }
    }
}

static void check_report(const oc_dataset *d, oc_dataset_report want) {
    const oc_dataset_report *r = oc_dataset_get_report(d);
    assert_int_equal(r->rows, want.rows);
    assert_int_equal(r->packed, want.packed);
    assert_int_equal(r->split, want.split);
    assert_int_equal(r->truncated, want.truncated);
    assert_int_equal(r->dropped, want.dropped);
    assert_int_equal(r->tokens, want.tokens);
    assert_int_equal(r->targets, want.targets);
}

/* 'a' is token 100. */
static const char rows[] = "{\"text\": \"a\"}\n"            /* 3 tokens */
                           "{\"text\": \"bcd\"}\n"          /* 5: fills sequence 0 */
                           "\r\n"                           /* blank lines do not count */
                           "{\"text\": \"efgh\"}\r\n"       /* 6 */
                           "{\"text\": \"ij\", \"id\":7}\n" /* 4: does not fit behind 6 */
                           "{\"text\": \"klmnopqrstu\"}\n"  /* 13: a sequence of its own, then 5 */
                           "{\"text\": \"v\"}";             /* 3: joins the tail */

static void packs_in_order_and_splits_only_what_is_longer_than_a_sequence(void **state) {
    (void)state;
    static const sequence want[] = {{{1, 100, 2, 1, 101, 102, 103, 2},
                                     {100, 2, I, 101, 102, 103, 2, I},
                                     {0, 1, 2, 0, 1, 2, 3, 4},
                                     {0, 0, 0, 3, 3, 3, 3, 3}},
                                    {{1, 104, 105, 106, 107, 2, 0, 0},
                                     {104, 105, 106, 107, 2, I, I, I},
                                     {0, 1, 2, 3, 4, 5, 0, 1},
                                     {0, 0, 0, 0, 0, 0, 6, 6}},
                                    {{1, 108, 109, 2, 0, 0, 0, 0},
                                     {108, 109, 2, I, I, I, I, I},
                                     {0, 1, 2, 3, 0, 1, 2, 3},
                                     {0, 0, 0, 0, 4, 4, 4, 4}},
                                    {{1, 110, 111, 112, 113, 114, 115, 116},
                                     {110, 111, 112, 113, 114, 115, 116, I},
                                     {0, 1, 2, 3, 4, 5, 6, 7},
                                     {0, 0, 0, 0, 0, 0, 0, 0}},
                                    {{117, 118, 119, 120, 2, 1, 121, 2},
                                     {118, 119, 120, 2, I, 121, 2, I},
                                     {0, 1, 2, 3, 4, 0, 1, 2},
                                     {0, 0, 0, 0, 0, 5, 5, 5}}};
    fixture f;
    start(&f, 8, true);
    add(&f, "rows.jsonl", rows);
    oc_dataset *d = open_ok(&f);
    check_sequences(d, want, 5);
    check_report(
        d, (oc_dataset_report){.rows = 6, .packed = 5, .split = 1, .tokens = 34, .targets = 27});
    oc_error err = {0};
    int32_t x[8];
    assert_int_equal(oc_dataset_read(d, 5, x, x, x, x, &err), OC_E_INVALID);
    oc_dataset_close(d);
    stop(&f);
}

static void pads_and_truncates_without_packing(void **state) {
    (void)state;
    static const sequence want[] = {{{1, 100, 2, 9, 9, 9, 9, 9},
                                     {100, 2, I, I, I, I, I, I},
                                     {0, 1, 2, 0, 1, 2, 3, 4},
                                     {0, 0, 0, 3, 3, 3, 3, 3}},
                                    {{1, 101, 2, 9, 9, 9, 9, 9},
                                     {101, 2, I, I, I, I, I, I},
                                     {0, 1, 2, 0, 1, 2, 3, 4},
                                     {0, 0, 0, 3, 3, 3, 3, 3}},
                                    {{1, 110, 111, 112, 113, 114, 115, 116},
                                     {110, 111, 112, 113, 114, 115, 116, I},
                                     {0, 1, 2, 3, 4, 5, 6, 7},
                                     {0}},
                                    {{1, 101, 102, 103, 104, 105, 106, 2},
                                     {101, 102, 103, 104, 105, 106, 2, I},
                                     {0, 1, 2, 3, 4, 5, 6, 7},
                                     {0}}};
    fixture f;
    start(&f, 8, false);
    f.spec.pad_id = 9;
    add(&f, "rows.jsonl",
        "{\"text\":\"a\"}\n{\"text\":\"b\"}\n{\"text\":\"klmnopqrstu\"}\n{\"text\":\"bcdefg\"}\n");
    oc_dataset *d = open_ok(&f);
    check_sequences(d, want, 4);
    check_report(d, (oc_dataset_report){.rows = 4, .truncated = 1, .tokens = 22, .targets = 18});
    oc_dataset_close(d);
    stop(&f);
}

/* Zeros in the mask are padding, at both ends, with whatever label. */
static void leaves_masked_padding_out(void **state) {
    (void)state;
    static const sequence want[] = {{{5, 6, 7, 8, 9, 0, 0, 0},
                                     {6, I, 8, 29, I, I, I, I},
                                     {0, 1, 0, 1, 2, 0, 1, 2},
                                     {0, 0, 2, 2, 2, 5, 5, 5}}};
    fixture f;
    start(&f, 8, true);
    add(&f, "ids.jsonl",
        "{\"input_ids\":[5,6,0,0],\"attention_mask\":[1,1,0,0]}\n"
        "{\"input_ids\":[0,0,7,8,9,0],\"labels\":[0,0,-100,8,29,-100],"
        "\"attention_mask\":[0,0,1,1,1,0]}\n"
        "{\"input_ids\":[1,1],\"attention_mask\":[0,0]}\n");
    oc_dataset *d = open_ok(&f);
    check_sequences(d, want, 1);
    check_report(
        d, (oc_dataset_report){.rows = 3, .packed = 2, .dropped = 1, .tokens = 5, .targets = 3});
    oc_dataset_close(d);
    stop(&f);
}

/* Labels are not shifted in the file: row t's target is labels[t + 1]. */
static void takes_input_ids_verbatim_and_drops_rows_that_train_nothing(void **state) {
    (void)state;
    static const sequence want[] = {{{5, 6, 7, 8, 9, 10, 11, 0},
                                     {6, 7, I, I, 20, 21, I, I},
                                     {0, 1, 2, 0, 1, 2, 3, 0},
                                     {0, 0, 0, 3, 3, 3, 3, 7}}};
    fixture f;
    start(&f, 8, true);
    add(&f, "ids.jsonl",
        "{\"input_ids\":[5,6,7]}\n"
        "{\"input_ids\":[3,4],\"labels\":[3,-100]}\n"
        "{\"input_ids\":[],\"labels\":null}\n"
        "{\"input_ids\":[12]}\n"
        "{\"input_ids\":[13,14],\"labels\":[-100,-100]}\n"
        "{\"input_ids\":[8,9,10,11],\"labels\":[19,-100,20,21],\"attention_mask\":[1,1,1,1]}\n");
    oc_dataset *d = open_ok(&f);
    check_sequences(d, want, 1);
    check_report(
        d, (oc_dataset_report){.rows = 6, .packed = 2, .dropped = 4, .tokens = 7, .targets = 4});
    oc_dataset_close(d);
    /* What truncation takes away trains nothing either. */
    f.spec.packing = false;
    f.spec.seq = 2;
    d = open_ok(&f);
    assert_int_equal(oc_dataset_count(d), 1);
    check_report(
        d, (oc_dataset_report){.rows = 6, .truncated = 1, .dropped = 5, .tokens = 2, .targets = 1});
    oc_dataset_close(d);
    stop(&f);
}

/* A label on the first token of the second sequence that a row is cut into is no target. */
static void drops_a_row_whose_only_label_opens_a_sequence(void **state) {
    (void)state;
    fixture f;
    start(&f, 8, true);
    add(&f, "ids.jsonl",
        "{\"input_ids\":[5,6]}\n"
        "{\"input_ids\":[1,1,1,1,1,1,1,1,9,1],\"labels\":[1,-100,-100,-100,-100,-100,-100,-100,9,"
        "-100]}\n");
    oc_dataset *d = open_ok(&f);
    check_report(
        d, (oc_dataset_report){.rows = 2, .packed = 1, .dropped = 1, .tokens = 2, .targets = 1});
    oc_dataset_close(d);
    stop(&f);
}

static void joins_files_in_order_and_keeps_nul(void **state) {
    (void)state;
    static const sequence want[] = {{{1, 107, 108, 2, 1, 3, 111, 2},
                                     {107, 108, 2, I, 3, 111, 2, I},
                                     {0, 1, 2, 3, 0, 1, 2, 3},
                                     {0, 0, 0, 0, 4, 4, 4, 4}},
                                    {{1, 13, 3, 258, 2, 0, 0, 0},
                                     {13, 3, 258, 2, I, I, I, I},
                                     {0, 1, 2, 3, 4, 0, 1, 2},
                                     {0, 0, 0, 0, 0, 5, 5, 5}}};
    fixture f;
    start(&f, 8, true);
    add(&f, "a.txt", "hi");
    add(&f, "b.jsonl", "\xef\xbb\xbf{\"text\":\"\\u0000l\"}\n");
    add_bytes(&f, "c.txt", "\n\0\xff", 3);
    oc_dataset *d = open_ok(&f);
    check_sequences(d, want, 2);
    check_report(d, (oc_dataset_report){.rows = 3, .packed = 3, .tokens = 13, .targets = 10});
    oc_dataset_close(d);
    stop(&f);
}

/* Longer than every buffer on the way; the expected tokens follow from the text's formula. */
static void streams_a_long_document(void **state) {
    (void)state;
    enum { N = 700001, SEQ = 1000 };
    char *text = malloc(N);
    assert_non_null(text);
    for (int i = 0; i < N; i++)
        text[i] = (char)(i * 7 % 251);
    fixture f;
    start(&f, SEQ, true);
    add_bytes(&f, "long.txt", text, N);
    oc_dataset *d = open_ok(&f);
    assert_int_equal(oc_dataset_count(d), 701); /* 700003 tokens */
    check_report(
        d, (oc_dataset_report){.rows = 1, .split = 1, .tokens = N + 2, .targets = N + 2 - 701});
    static int32_t tokens[SEQ], labels[SEQ], positions[SEQ], start_of[SEQ];
    for (uint64_t s = 0; s < 701; s++) {
        assert_int_equal(oc_dataset_read(d, s, tokens, labels, positions, start_of, NULL), OC_OK);
        for (int t = 0; t < SEQ; t++) {
            int at = (int)s * SEQ + t;
            int want = at == 0 ? 1 : at <= N ? 3 + (at - 1) * 7 % 251 : at == N + 1 ? 2 : 0;
            assert_int_equal(tokens[t], want);
            if (at < N + 1 && t + 1 < SEQ)
                assert_int_equal(labels[t], at < N ? 3 + at * 7 % 251 : 2);
            else
                assert_int_equal(labels[t], I);
        }
    }
    assert_true(oc_dataset_host_bytes(f.spec.spool_dir) < 1024);
    oc_dataset_close(d);
    stop(&f);
    free(text);
}

static void reads_a_line_longer_than_the_buffer(void **state) {
    (void)state;
    enum { N = 600000 };
    char *text = malloc(N + 64);
    assert_non_null(text);
    int n = snprintf(text, N + 64, "{\"text\":\"");
    memset(text + n, 'x', N);
    n += N;
    n += snprintf(text + n, (size_t)(N + 64 - n), "\"}\n{\"text\":\"y\"}");
    fixture f;
    start(&f, 4096, true);
    add_bytes(&f, "wide.jsonl", text, (size_t)n);
    oc_dataset *d = open_ok(&f);
    check_report(
        d, (oc_dataset_report){
               .rows = 2, .packed = 1, .split = 1, .tokens = N + 5, .targets = N + 5 - 147 - 1});
    oc_dataset_close(d);
    stop(&f);
    free(text);
}

static const struct {
    const char *name, *text;
    oc_status status;
    const char *words[3];
} bad[] = {
    {"x.txt", "", OC_E_INVALID, {"x.txt is empty"}},
    {"x.jsonl", "", OC_E_INVALID, {"x.jsonl is empty"}},
    {"x.jsonl", "\n \n", OC_E_INVALID, {"x.jsonl is empty"}},
    {"x.csv", "a,b", OC_E_UNSUPPORTED, {"x.csv", ".jsonl"}},
    {"x", "{\"text\":\"a\"}", OC_E_UNSUPPORTED, {"x:"}},
    {"x.gz", "{\"text\":\"a\"}", OC_E_UNSUPPORTED, {"x.gz:"}},
    {"x.jsonl", "{\"text\":\"a\"}\n{\"text\":", OC_E_FORMAT, {"x.jsonl:2:", "JSON"}},
    {"x.jsonl", "{\"text\":\"a\"}{}", OC_E_FORMAT, {"x.jsonl:1:", "JSON"}},
    {"x.jsonl", "{\"text\":\"\xff\"}", OC_E_FORMAT, {"x.jsonl:1:"}},
    {"x.jsonl", "{\"text\":\"a\",\"text\":\"b\"}", OC_E_FORMAT, {"x.jsonl:1:", "text"}},
    {"x.jsonl", "[1,2]", OC_E_FORMAT, {"x.jsonl:1: the row is an array"}},
    {"x.jsonl", "{\"body\":\"a\"}", OC_E_FORMAT, {"x.jsonl:1: the row is of no known form"}},
    {"x.jsonl", "{\"text\":null}", OC_E_INVALID, {"none of its 1 rows has a trainable token"}},
    {"x.jsonl", "{\"text\":3}", OC_E_FORMAT, {"x.jsonl:1: \"text\" is an integer"}},
    {"x.jsonl", "{\"text\":\"a\",\"labels\":[1]}", OC_E_FORMAT, {"\"labels\" need"}},
    {"x.jsonl",
     "{\"text\":\"a\"}\n{\"input_ids\":[1,2]}",
     OC_E_FORMAT,
     {"x.jsonl:2: this row is input_ids but the file began with text"}},
    {"x.jsonl",
     "{\"input_ids\":[1,2]}\n{\"text\":\"a\"}",
     OC_E_FORMAT,
     {"x.jsonl:2: this row is text but the file began with input_ids"}},
    {"x.jsonl", "{\"input_ids\":\"1\"}", OC_E_FORMAT, {"\"input_ids\" is a string"}},
    {"x.jsonl", "{\"input_ids\":[1,2.0]}", OC_E_FORMAT, {"x.jsonl:1: input_ids[1]"}},
    {"x.jsonl",
     "{\"input_ids\":[1,259]}",
     OC_E_INVALID,
     {"x.jsonl:1: input_ids[1] = 259", "[0, 259)"}},
    {"x.jsonl", "{\"input_ids\":[1,-100]}", OC_E_INVALID, {"input_ids[1] = -100"}},
    {"x.jsonl", "{\"input_ids\":[4294967297,1]}", OC_E_INVALID, {"input_ids[0] = 4294967297"}},
    {"x.jsonl", "{\"input_ids\":[1,2],\"labels\":[1]}", OC_E_FORMAT, {"array of 2"}},
    {"x.jsonl", "{\"input_ids\":[1,2],\"labels\":3}", OC_E_FORMAT, {"array of 2"}},
    {"x.jsonl",
     "{\"input_ids\":[1,2],\"labels\":[1,-1]}",
     OC_E_INVALID,
     {"labels[1] = -1", "not -100"}},
    {"x.jsonl", "{\"input_ids\":[1,2],\"labels\":[1,259]}", OC_E_INVALID, {"labels[1] = 259"}},
    {"x.jsonl",
     "{\"input_ids\":[1,2,3],\"attention_mask\":[1,0,1]}",
     OC_E_UNSUPPORTED,
     {"x.jsonl:1: attention_mask[1] is 0 between tokens"}},
    {"x.jsonl",
     "{\"input_ids\":[1,2],\"attention_mask\":[1,2]}",
     OC_E_FORMAT,
     {"x.jsonl:1: attention_mask[1]"}},
    {"x.jsonl",
     "{\"input_ids\":[1,2],\"attention_mask\":[1,1.0]}",
     OC_E_FORMAT,
     {"x.jsonl:1: attention_mask[1]"}},
    {"x.jsonl", "{\"input_ids\":[1,2],\"attention_mask\":[1]}", OC_E_FORMAT, {"array of 2"}},
    {"x.jsonl",
     "{\"input_ids\":[1]}\n{\"input_ids\":[1,2],\"labels\":[1,-100]}",
     OC_E_INVALID,
     {"x.jsonl: none of its 2 rows has a trainable token"}},
};

static void refuses_bad_rows_by_file_and_line(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        fixture f;
        start(&f, 8, i % 2 == 0);
        add(&f, bad[i].name, bad[i].text);
        oc_dataset *d = (oc_dataset *)&f;
        oc_error err = {0};
        oc_status s = oc_dataset_open(&d, &f.spec, &err);
        if (s != bad[i].status) print_error("%zu: %s\n", i, err.message);
        assert_int_equal(s, bad[i].status);
        assert_null(d);
        for (int k = 0; k < 3 && bad[i].words[k] != NULL; k++) {
            if (strstr(err.message, bad[i].words[k]) == NULL) print_error("%s\n", err.message);
            assert_non_null(strstr(err.message, bad[i].words[k]));
        }
        stop(&f);
    }
}

static void refuses_bad_specs(void **state) {
    (void)state;
    fixture f;
    oc_dataset *d;
    oc_error err = {0};
    start(&f, 8, true);
    assert_int_equal(oc_dataset_open(&d, &f.spec, &err), OC_E_INVALID); /* no file */
    add(&f, "a.txt", "hello");
    f.spec.seq = 1;
    assert_int_equal(oc_dataset_open(&d, &f.spec, &err), OC_E_INVALID);
    f.spec.seq = 8;
    f.spec.pad_id = 259;
    assert_int_equal(oc_dataset_open(&d, &f.spec, &err), OC_E_INVALID);
    f.spec.pad_id = 0;
    f.spec.vocab = 100; /* 'h' is 107 */
    assert_int_equal(oc_dataset_open(&d, &f.spec, &err), OC_E_INVALID);
    assert_non_null(strstr(err.message, "a.txt: token id 107"));
    f.spec.vocab = OC_BYTES_VOCAB;
    f.spec.spool_dir = "/nowhere";
    assert_int_equal(oc_dataset_open(&d, &f.spec, &err), OC_E_IO);
    assert_non_null(strstr(err.message, "/nowhere"));
    f.spec.spool_dir = NULL;
    f.paths[0] = "/nowhere/a.txt";
    assert_int_equal(oc_dataset_open(&d, &f.spec, &err), OC_E_NOTFOUND);
    assert_non_null(strstr(err.message, "/nowhere/a.txt"));
    stop(&f);
}

static int entries(const char *dir) {
    int n = 0;
    DIR *d = opendir(dir);
    while (readdir(d) != NULL)
        n++;
    closedir(d);
    return n - 2;
}

static void leaves_no_spool_file_behind_and_reports_a_full_one(void **state) {
    (void)state;
    fixture f;
    start(&f, 8, true);
    add(&f, "rows.jsonl", rows);
    f.spec.spool_dir = f.dir.dir;
    oc_dataset *d = open_ok(&f);
    assert_int_equal(entries(f.dir.dir), 1); /* rows.jsonl */
    oc_dataset_close(d);
    struct rlimit was, now;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    now = was;
    now.rlim_cur = 100;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &now), 0);
    oc_error err = {0};
    oc_status s = oc_dataset_open(&d, &f.spec, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
    signal(SIGXFSZ, handler);
    assert_int_equal(s, OC_E_IO);
    assert_non_null(strstr(err.message, "spool file"));
    assert_non_null(strstr(err.message, "File too large"));
    assert_int_equal(entries(f.dir.dir), 1);
    stop(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packs_in_order_and_splits_only_what_is_longer_than_a_sequence),
        cmocka_unit_test(pads_and_truncates_without_packing),
        cmocka_unit_test(takes_input_ids_verbatim_and_drops_rows_that_train_nothing),
        cmocka_unit_test(leaves_masked_padding_out),
        cmocka_unit_test(drops_a_row_whose_only_label_opens_a_sequence),
        cmocka_unit_test(joins_files_in_order_and_keeps_nul),
        cmocka_unit_test(streams_a_long_document),
        cmocka_unit_test(reads_a_line_longer_than_the_buffer),
        cmocka_unit_test(refuses_bad_rows_by_file_and_line),
        cmocka_unit_test(refuses_bad_specs),
        cmocka_unit_test(leaves_no_spool_file_behind_and_reports_a_full_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
