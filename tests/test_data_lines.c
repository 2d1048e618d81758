/* Files read in order: plain, gzip and zstd, by lines, pieces and elements of an array. What is
 * expected is what was compressed, and the rules of JSON. */
#include "base/json.h"
#include "cmocka_all.h"
#include "data/lines.h"
#include "packed.h"
#include "text_util.h"

#include <fcntl.h>
#include <sys/stat.h>

static text_dir here;

static int setup(void **state) {
    (void)state;
    text_dir_init(&here);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    text_dir_release(&here);
    return 0;
}

/* Text that does not compress to nothing, with lines of many lengths. */
static char *make_text(size_t n) {
    char *text = malloc(n + 1);
    uint32_t x = 12345;
    assert_non_null(text);
    for (size_t i = 0; i < n; i++) {
        x = x * 1664525u + 1013904223u;
        text[i] = x >> 24 < 4 ? '\n' : (char)('a' + (x >> 20) % 26);
    }
    text[n] = 0;
    return text;
}

typedef enum packing { PLAIN, GZIP, ZSTD } packing;

static void pack(packed *p, packing how, const char *text, size_t n) {
    if (how == GZIP)
        packed_gzip(p, text, n);
    else if (how == ZSTD)
        packed_zstd(p, text, n);
    else
        packed_add(p, text, n);
}

static void read_whole(const char *path, const char *want, size_t n) {
    oc_lines l;
    oc_error err;
    const char *piece;
    size_t at = 0, got;
    if (oc_lines_open(&l, path, &err) != OC_OK) fail_msg("%s", err.message);
    for (;;) {
        if (oc_lines_piece(&l, 10007, &piece, &got, &err) != OC_OK) fail_msg("%s", err.message);
        if (got == 0) break;
        assert_true(at + got <= n);
        assert_memory_equal(piece, want + at, got);
        at += got;
    }
    assert_int_equal(at, n);
    oc_lines_close(&l);
}

static void read_lines(const char *path, const char *want) {
    oc_lines l;
    oc_error err;
    const char *line;
    size_t n;
    bool more;
    if (oc_lines_open(&l, path, &err) != OC_OK) fail_msg("%s", err.message);
    for (;;) {
        if (oc_lines_next(&l, &line, &n, &more, &err) != OC_OK) fail_msg("%s", err.message);
        if (!more) break;
        size_t k = strcspn(want, "\n");
        assert_int_equal(n, k);
        assert_memory_equal(line, want, n);
        want += k + (want[k] == '\n');
    }
    assert_int_equal(*want, 0);
    oc_lines_close(&l);
}

/* Members of several sizes behind one another, an empty one too; the content tells, not the name.
 */
static void reads_what_compressed_files_hold(void **state) {
    (void)state;
    static const size_t cuts[] = {0, 1, 300000, 300000, 300001, 1000000};
    enum { CUTS = sizeof cuts / sizeof *cuts };
    char *text = make_text(cuts[CUTS - 1]);
    for (packing how = PLAIN; how <= ZSTD; how++) {
        packed one = {0}, many = {0};
        pack(&one, how, text, cuts[CUTS - 1]);
        for (int i = 1; i < CUTS; i++)
            pack(&many, how, text + cuts[i - 1], cuts[i] - cuts[i - 1]);
        const char *path = text_dir_put(&here, "x.txt", one.data, one.n);
        read_whole(path, text, cuts[CUTS - 1]);
        read_lines(path, text);
        here.n--;
        path = text_dir_put(&here, "x.txt", many.data, many.n);
        read_whole(path, text, cuts[CUTS - 1]);
        read_lines(path, text);
        here.n--;
        packed_release(&one);
        packed_release(&many);
    }
    free(text);
}

/* tar and tapes pad gzip with zeros; zstd may begin with a frame to skip. */
static void skips_padding(void **state) {
    (void)state;
    static const char zeros[3000], skip[] = "\x53\x2a\x4d\x18\x03\x00\x00\x00xyz";
    packed p = {0};
    packed_gzip(&p, "one\n", 4);
    packed_add(&p, zeros, sizeof zeros);
    read_whole(text_dir_put(&here, "a.gz", p.data, p.n), "one\n", 4);
    packed_release(&p);
    packed_add(&p, skip, sizeof skip - 1);
    packed_zstd(&p, "two\n", 4);
    read_whole(text_dir_put(&here, "a.zst", p.data, p.n), "two\n", 4);
    packed_release(&p);
}

static oc_status read_all(const char *path, oc_error *err) {
    oc_lines l;
    const char *line;
    size_t n;
    bool more = true;
    oc_status s = oc_lines_open(&l, path, err);
    if (s != OC_OK) return s;
    while (s == OC_OK && more)
        s = oc_lines_next(&l, &line, &n, &more, err);
    oc_lines_close(&l);
    return s;
}

static void expect(const char *path, oc_status want, const char *words) {
    oc_error err = {OC_OK, ""};
    oc_status s = read_all(path, &err);
    if (s != want || strstr(err.message, words) == NULL)
        fail_msg("%s: %d \"%s\", not %d \"%s\"", path, s, err.message, want, words);
    assert_non_null(strstr(err.message, path));
}

/* Every cut of a stream is noticed. */
static void names_a_stream_that_breaks_off(void **state) {
    (void)state;
    char *text = make_text(5000);
    for (packing how = GZIP; how <= ZSTD; how++) {
        packed p = {0};
        pack(&p, how, text, 5000);
        for (size_t n = 5; n < p.n; n += n < 30 || n + 30 > p.n ? 1 : 97) {
            expect(text_dir_put(&here, "cut", p.data, n), OC_E_FORMAT, "breaks off");
            here.n--;
        }
        packed_release(&p);
    }
    unlink(here.path[0]);
    free(text);
}

static void names_damage(void **state) {
    (void)state;
    char *text = make_text(5000);
    for (packing how = GZIP; how <= ZSTD; how++) {
        packed p = {0};
        pack(&p, how, text, 5000);
        for (size_t at = p.n / 2; at < p.n; at += 1 + p.n / 9) {
            p.data[at] ^= 0x40;
            expect(text_dir_put(&here, "bad", p.data, p.n), OC_E_FORMAT,
                   how == GZIP ? "the gzip data is damaged" : "the zstd data is damaged");
            here.n--;
            p.data[at] ^= 0x40;
        }
        packed_add(&p, "garbage", 7);
        expect(text_dir_put(&here, "bad", p.data, p.n), OC_E_FORMAT, "damaged");
        here.n--;
        packed_release(&p);
    }
    packed p = {0};
    packed_gzip(&p, "a", 1);
    packed_add(&p, "\0\0\0x", 4);
    expect(text_dir_put(&here, "bad", p.data, p.n), OC_E_FORMAT, "something else follows");
    packed_release(&p);
    free(text);
}

static void refuses_what_is_no_such_file(void **state) {
    (void)state;
    expect(text_dir_put(&here, "x.txt.gz", "plain", 5), OC_E_FORMAT, "is not gzip");
    expect(text_dir_put(&here, "x.txt.zst", "plain", 5), OC_E_FORMAT, "is not zstd");
    expect(text_dir_put(&here, "y.txt.zstd", "", 0), OC_E_FORMAT, "is not zstd");
    expect(here.dir, OC_E_INVALID, "is not a regular file");
    char path[256];
    snprintf(path, sizeof path, "%s/none", here.dir);
    expect(path, OC_E_NOTFOUND, "cannot open");
    assert_int_equal(mkfifo(path, 0600), 0);
    expect(path, OC_E_INVALID, "is not a regular file");
    unlink(path);
}

/* A pipe is read where a descriptor is given. */
static void reads_a_descriptor(void **state) {
    (void)state;
    int ends[2];
    oc_lines l;
    oc_error err;
    const char *line;
    size_t n;
    bool more;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "one\ntwo", 7), 7);
    close(ends[1]);
    assert_int_equal(oc_lines_open_fd(&l, ends[0], "a pipe", &err), OC_OK);
    assert_int_equal(oc_lines_next(&l, &line, &n, &more, &err), OC_OK);
    assert_int_equal(n, 3);
    assert_int_equal(oc_lines_next(&l, &line, &n, &more, &err), OC_OK);
    assert_memory_equal(line, "two", 3);
    assert_int_equal(l.line, 2);
    assert_int_equal(oc_lines_next(&l, &line, &n, &more, &err), OC_OK);
    assert_false(more);
    oc_lines_close(&l);
    close(ends[0]);
    assert_int_equal(oc_lines_open_fd(&l, ends[0], "a pipe", &err), OC_E_IO);
    assert_non_null(strstr(err.message, "a pipe"));
}

/* ---- arrays ---- */

typedef struct element {
    uint64_t line;
    const char *text;
} element;

static oc_status walk(const char *path, const element *want, size_t *n, oc_error *err) {
    oc_lines l;
    bool array = false, more;
    const char *text;
    size_t bytes;
    uint64_t line;
    oc_status s = oc_lines_open(&l, path, err);
    assert_int_equal(s, OC_OK);
    s = oc_lines_is_array(&l, &array, err);
    assert_int_equal(s, OC_OK);
    assert_true(array);
    for (*n = 0;; ++*n) {
        s = oc_lines_element(&l, &text, &bytes, &line, &more, err);
        if (s != OC_OK || !more) break;
        if (want == NULL) continue;
        assert_int_equal(line, want[*n].line);
        while (bytes > 0 && strchr(" \n", text[bytes - 1]) != NULL)
            bytes--;
        assert_int_equal(bytes, strlen(want[*n].text));
        assert_memory_equal(text, want[*n].text, bytes);
    }
    if (s == OC_OK) { /* the end stays the end */
        assert_int_equal(oc_lines_element(&l, &text, &bytes, &line, &more, err), OC_OK);
        assert_false(more);
    }
    oc_lines_close(&l);
    return s;
}

static void gives_the_elements_of_an_array(void **state) {
    (void)state;
    static const char text[] = "\xef\xbb\xbf \n [ {\"a\": \"x]},[\\\"\\\\\"},\n\n[1, [2], {}] ,\n"
                               "\"s\\\\\" , 12,\nnull ] \n";
    static const element want[] = {{2, "{\"a\": \"x]},[\\\"\\\\\"}"},
                                   {4, "[1, [2], {}]"},
                                   {5, "\"s\\\\\""},
                                   {5, "12"},
                                   {6, "null"}};
    oc_error err;
    size_t n;
    assert_int_equal(walk(text_dir_put(&here, "a.json", text, sizeof text - 1), want, &n, &err),
                     OC_OK);
    assert_int_equal(n, 5);
    assert_int_equal(walk(text_dir_put(&here, "b.json", "[ ]", 3), NULL, &n, &err), OC_OK);
    assert_int_equal(n, 0);
}

/* Elements that are larger than any buffer, in a compressed file. */
static void streams_a_large_array(void **state) {
    (void)state;
    enum { ROWS = 40, BYTES = 50000 };
    packed plain = {0}, p = {0};
    char *row = malloc(BYTES + 1), name[32];
    assert_non_null(row);
    memset(row, '[', BYTES);
    for (int i = 0; i < ROWS; i++) {
        packed_add(&plain, i == 0 ? "[\n" : ",\n", 2);
        snprintf(name, sizeof name, "{\"n\":%d,\"t\":\"", i);
        packed_add(&plain, name, strlen(name));
        packed_add(&plain, row, i == 7 ? 20 * BYTES / 20 : BYTES);
        packed_add(&plain, "\"}", 2);
    }
    packed_add(&plain, "]", 1);
    packed_gzip(&p, plain.data, plain.n);
    oc_error err;
    size_t n;
    assert_int_equal(walk(text_dir_put(&here, "a.json", p.data, p.n), NULL, &n, &err), OC_OK);
    assert_int_equal(n, ROWS);
    packed_release(&p);
    packed_release(&plain);
    free(row);
}

static void names_what_is_wrong_with_an_array(void **state) {
    (void)state;
    static const struct {
        const char *text, *words;
        size_t n;
    } bad[] = {
        {"[", ":1: not valid JSON: the array does not end", 0},
        {"[\n{}", ":2: not valid JSON: the array does not end", 0},
        {"[{},\n", ":2: not valid JSON: the array does not end", 1},
        {"[{}\n,,{}]", ":2: not valid JSON: an element of the array is missing", 1},
        {"[,{}]", "an element of the array is missing", 0},
        {"[{},]", "an element of the array is missing", 1},
        {"[{}]\nx", ":2: not valid JSON: something follows the array", 1},
        {"[{}]]", "something follows the array", 1},
        {"[\"", "the array does not end", 0},
        {"[\"\\", "the array does not end", 0},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        oc_error err = {OC_OK, ""};
        size_t n;
        const char *path = text_dir_put(&here, "a.json", bad[i].text, strlen(bad[i].text));
        assert_int_equal(walk(path, NULL, &n, &err), OC_E_FORMAT);
        if (strstr(err.message, bad[i].words) == NULL) fail_msg("%zu: %s", i, err.message);
        assert_int_equal(n, bad[i].n);
        here.n = 0;
    }
    here.n = 1;
}

static void tells_an_array_from_lines(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool array;
    } rows[] = {{"", false},  {" \n\n", false},        {"{}", false}, {"\n [", true},
                {"[]", true}, {"\xef\xbb\xbf[", true}, {"x[", false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        oc_lines l;
        bool array = !rows[i].array, more;
        const char *line, *path = text_dir_put(&here, "a.json", rows[i].text, strlen(rows[i].text));
        size_t n;
        assert_int_equal(oc_lines_open(&l, path, NULL), OC_OK);
        assert_int_equal(oc_lines_is_array(&l, &array, NULL), OC_OK);
        assert_int_equal(array, rows[i].array);
        if (!array) { /* nothing is used up: lines keep their numbers */
            assert_int_equal(oc_lines_next(&l, &line, &n, &more, NULL), OC_OK);
            assert_int_equal(more, rows[i].text[0] != 0);
            if (more) assert_int_equal(n, strcspn(rows[i].text, "\n"));
        }
        oc_lines_close(&l);
        here.n = 0;
    }
    here.n = 1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(reads_what_compressed_files_hold, setup, teardown),
        cmocka_unit_test_setup_teardown(skips_padding, setup, teardown),
        cmocka_unit_test_setup_teardown(names_a_stream_that_breaks_off, setup, teardown),
        cmocka_unit_test_setup_teardown(names_damage, setup, teardown),
        cmocka_unit_test_setup_teardown(refuses_what_is_no_such_file, setup, teardown),
        cmocka_unit_test_setup_teardown(reads_a_descriptor, setup, teardown),
        cmocka_unit_test_setup_teardown(gives_the_elements_of_an_array, setup, teardown),
        cmocka_unit_test_setup_teardown(streams_a_large_array, setup, teardown),
        cmocka_unit_test_setup_teardown(names_what_is_wrong_with_an_array, setup, teardown),
        cmocka_unit_test_setup_teardown(tells_an_array_from_lines, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
