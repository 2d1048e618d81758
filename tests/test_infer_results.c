/* Answers into a file: rows of every form as OpenAI documents them, input order, what a run may go
 * on with, and files that stay whole through full disks, torn lines and kill -9. */
#include "base/fs.h"
#include "base/json.h"
#include "cmocka_all.h"
#include "infer/results.h"
#include "scratch.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[SCRATCH_BYTES], path[SCRATCH_BYTES], key_path[SCRATCH_BYTES + 8];
static oc_tokenizer *bytes;
static oc_error error;

static oc_results_spec plain(void) {
    return (oc_results_spec){.path = path,
                             .key = "{\"model\":\"m\",\"temperature\":0.5}",
                             .model = "m",
                             .tokenizer = bytes,
                             .created = 1700000000};
}

static oc_results *opened(const oc_results_spec *spec, uint64_t due) {
    oc_results *r = NULL;
    uint64_t done = 99;
    if (oc_results_open(&r, spec, &done, &error) != OC_OK) fail_msg("%s", error.message);
    assert_int_equal(done, due);
    return r;
}

static void refused(const oc_results_spec *spec, oc_status status, const char *message) {
    oc_results *r = NULL;
    uint64_t done;
    assert_int_equal(oc_results_open(&r, spec, &done, &error), status);
    assert_null(r);
    if (!strstr(error.message, message)) fail_msg("\"%s\"", error.message);
}

/* A row whose text and length depend on its number. */
static oc_status put_row(oc_results *r, uint64_t index) {
    char text[300], id[32];
    size_t n = (size_t)snprintf(text, sizeof text, "answer %d \xc3\xa9 ", (int)index);
    memset(text + n, 'a' + (int)(index % 26), index * 7 % 200);
    n += index * 7 % 200;
    snprintf(id, sizeof id, "id-%d", (int)index);
    oc_request q = {.index = index, .custom_id = id, .logprobs = -1, .form = index % 3};
    char bad[] = "in.jsonl:7: it is bad";
    if (index % 5 == 4) q.error = bad;
    const oc_answer a = {.text = text,
                         .n_text = n,
                         .finish_reason = "stop",
                         .prompt_tokens = 3,
                         .completion_tokens = (int32_t)index};
    return oc_results_put(r, &q, q.error ? NULL : &a, &error);
}

static void put(oc_results *r, uint64_t index) {
    if (put_row(r, index) != OC_OK) fail_msg("%s", error.message);
}

static void closed(oc_results *r, bool whole) {
    if (oc_results_close(r, whole, &error) != OC_OK) fail_msg("%s", error.message);
}

static char *content(size_t *n) {
    char *text = NULL;
    if (oc_fs_read(&text, n, path, 1 << 24, &error) != OC_OK) fail_msg("%s", error.message);
    return text;
}

static void remove_files(void) {
    (void)unlink(path);
    (void)unlink(key_path);
}

/* ---- rows ---- */

static void check_row(const oc_request *q, const oc_answer *a, const char *want) {
    oc_results_spec spec = plain();
    size_t n;
    oc_results *r = opened(&spec, 0);
    if (oc_results_put(r, q, a, &error) != OC_OK) fail_msg("%s", error.message);
    closed(r, true);
    char *text = content(&n);
    assert_true(n > 0 && text[n - 1] == '\n' && strchr(text, '\n') == text + n - 1);
    json_t *is = json_loads(text, JSON_ALLOW_NUL, NULL);
    json_t *due = json_loads(want, JSON_ALLOW_NUL, NULL);
    assert_non_null(is);
    assert_non_null(due);
    if (!json_equal(is, due)) fail_msg("%s", text);
    json_decref(is);
    json_decref(due);
    free(text);
    remove_files();
}

static const oc_sampled tokens[] = {{OC_BYTES_FIRST + 'H', -0.5f}, {OC_BYTES_FIRST + 0xc3, -2.0f}};
static const oc_sampled top[] = {{OC_BYTES_FIRST + 'H', -0.5f},
                                 {OC_BYTES_FIRST + 'J', -1.25f},
                                 {OC_BYTES_FIRST + 0xc3, -2.0f},
                                 {OC_BYTES_FIRST + 'i', -(float)INFINITY}};
static const oc_answer answer = {.text = "H\0\xc3\xa9",
                                 .n_text = 4,
                                 .finish_reason = "length",
                                 .prompt_tokens = 5,
                                 .completion_tokens = 2,
                                 .tokens = tokens,
                                 .top = top,
                                 .alternatives = 2};

#define USAGE "\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":2,\"total_tokens\":7}"
#define BATCH(id, status, body)                                                                    \
    "{\"id\":\"batch_req_0\",\"custom_id\":" id ",\"response\":{\"status_code\":" status           \
    ",\"request_id\":\"req_0\",\"body\":" body "},\"error\":null}"
#define HEAD(kind, object)                                                                         \
    "{\"id\":\"" kind "-0\",\"object\":\"" object "\",\"created\":1700000000,\"model\":\"m\","     \
    "\"system_fingerprint\":null," USAGE ",\"choices\":[{\"index\":0,\"finish_reason\":"           \
    "\"length\","

static void our_rows_have_the_documented_members(void **state) {
    (void)state;
    char id[] = "x", bad[] = "in.jsonl:1: \"n\" is \xff";
    oc_request q = {.logprobs = -1};
    check_row(&q, &answer,
              "{\"index\":0,\"text\":\"H\\u0000\\u00e9\",\"finish_reason\":\"length\"," USAGE "}");
    q.custom_id = id;
    q.logprobs = 2;
    check_row(&q, &answer,
              "{\"custom_id\":\"x\",\"index\":0,\"text\":\"H\\u0000\\u00e9\",\"finish_reason\":"
              "\"length\"," USAGE ",\"logprobs\":{\"content\":["
              "{\"token\":\"H\",\"id\":75,\"logprob\":-0.5,\"bytes\":[72],\"top_logprobs\":["
              "{\"token\":\"H\",\"id\":75,\"logprob\":-0.5,\"bytes\":[72]},"
              "{\"token\":\"J\",\"id\":77,\"logprob\":-1.25,\"bytes\":[74]}]},"
              "{\"token\":\"\\ufffd\",\"id\":198,\"logprob\":-2.0,\"bytes\":null,\"top_logprobs\":["
              "{\"token\":\"\\ufffd\",\"id\":198,\"logprob\":-2.0,\"bytes\":null},"
              "{\"token\":\"i\",\"id\":108,\"logprob\":-9999.0,\"bytes\":[105]}]}]}}");
    q.error = bad;
    check_row(&q, NULL,
              "{\"custom_id\":\"x\",\"index\":0,\"error\":{\"message\":\"in.jsonl:1: \\\"n\\\" is "
              "?\"}}");
}

static void rows_of_a_batch_have_openais_form(void **state) {
    (void)state;
    char id[] = "x", bad[] = "bad";
    oc_request q = {.logprobs = 1, .form = OC_REQUEST_CHAT_COMPLETION, .custom_id = id};
    const oc_answer one = {.text = "H",
                           .n_text = 1,
                           .finish_reason = "length",
                           .prompt_tokens = 5,
                           .completion_tokens = 2};
    check_row(&q, &one,
              BATCH("\"x\"", "200",
                    HEAD("chatcmpl", "chat.completion") "\"logprobs\":null,\"message\":{\"role\":"
                                                        "\"assistant\",\"content\":\"H\","
                                                        "\"refusal\":null}}]}"));
    q.form = OC_REQUEST_COMPLETION;
    check_row(&q, &answer,
              BATCH("\"x\"", "200",
                    HEAD("cmpl", "text_completion") "\"text\":\"H\\u0000\\u00e9\",\"logprobs\":{"
                                                    "\"tokens\":[\"H\",\"\\ufffd\"],"
                                                    "\"token_logprobs\":[-0.5,-2.0],"
                                                    "\"top_logprobs\":[{\"H\":-0.5,\"J\":-1.25},"
                                                    "{\"\\ufffd\":-2.0,\"i\":-9999.0}],"
                                                    "\"text_offset\":[0,1]}}]}"));
    q.error = bad;
    q.custom_id = NULL;
    check_row(&q, NULL,
              BATCH("null", "400",
                    "{\"error\":{\"message\":\"bad\",\"type\":\"invalid_request_error\","
                    "\"param\":null,\"code\":null}}"));
}

/* ---- order ---- */

static void rows_stand_in_input_order_whenever_they_are_done(void **state) {
    (void)state;
    oc_results_spec spec = plain();
    size_t n, m;
    oc_results *r = opened(&spec, 0);
    for (uint64_t i = 0; i < 100; i++)
        put(r, i);
    assert_int_equal(oc_results_waiting(r), 0);
    closed(r, true);
    char *a = content(&n);
    remove_files();
    r = opened(&spec, 0);
    for (uint64_t i = 99; i > 0; i--) /* backwards: all wait for the first */
        put(r, i);
    assert_int_equal(oc_results_written(r), 0);
    assert_true(oc_results_waiting(r) > 0);
    put(r, 0);
    assert_int_equal(oc_results_written(r), 100);
    assert_int_equal(oc_results_waiting(r), 0);
    assert_int_equal(put_row(r, 5), OC_E_INVALID);
    closed(r, true);
    char *b = content(&m);
    assert_int_equal(n, m);
    assert_memory_equal(a, b, n);
    free(a);
    free(b);
    remove_files();
    r = opened(&spec, 0);
    put(r, 2);
    assert_int_equal(put_row(r, 2), OC_E_INVALID);
    assert_non_null(strstr(error.message, "twice"));
    assert_int_equal(oc_results_close(r, true, &error), OC_E_INVALID);
    remove_files();
}

/* ---- what is there ---- */

static void a_file_is_gone_on_with_by_the_same_run_only(void **state) {
    (void)state;
    oc_results_spec spec = plain(), again = plain(), other = plain(), fresh = plain();
    again.resume = other.resume = fresh.overwrite = true;
    other.key = "{\"model\":\"m\",\"temperature\":0.75}";
    oc_results *r = opened(&spec, 0);
    put(r, 0);
    put(r, 1);
    closed(r, false);
    assert_true(oc_fs_exists(key_path));
    refused(&spec, OC_E_EXISTS, "--resume goes on with it, --overwrite begins it anew");
    refused(&other, OC_E_INVALID, "another temperature: 0.5 there, 0.75 now");
    other.key = "{\"model\":\"m\",\"temperature\":0.5,\"top_k\":3}";
    refused(&other, OC_E_INVALID, "another top_k: not there there, 3 now");
    r = opened(&again, 2);
    put(r, 2);
    closed(r, true);
    assert_false(oc_fs_exists(key_path));
    refused(&again, OC_E_EXISTS, "is finished");
    r = opened(&fresh, 0);
    put(r, 0);
    closed(r, false);
    r = opened(&again, 1);
    closed(r, true);
    remove_files();
    r = opened(&again, 0); /* nothing there: begun */
    closed(r, false);
    assert_false(oc_fs_exists(path) || oc_fs_exists(key_path)); /* and nothing left */
}

static void append(const char *text) {
    FILE *f = fopen(path, "ab");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static void a_torn_line_is_cut_and_a_changed_file_refused(void **state) {
    (void)state;
    static const char *const torn[] = {"{\"index\":3,\"te", "{", "x\n", "{\"index\":3}\n",
                                       "{\"index\":3,\"text\":\"a\"}"};
    oc_results_spec spec = plain(), again = plain();
    again.resume = true;
    size_t n, m;
    for (size_t i = 0; i < sizeof torn / sizeof *torn; i++) {
        oc_results *r = opened(&spec, 0);
        for (uint64_t k = 0; k < 3; k++)
            put(r, k);
        closed(r, false);
        char *a = content(&n);
        append(torn[i]);
        closed(opened(&again, 3), false);
        char *b = content(&m);
        assert_int_equal(n, m);
        assert_memory_equal(a, b, n);
        append("{\"index\":7,\"text\":\"a\"}\n");
        refused(&again, OC_E_FORMAT, ":4: the answer to row 3 is due");
        free(a);
        free(b);
        remove_files();
    }
}

static void two_runs_and_the_input_do_not_share_a_file(void **state) {
    (void)state;
    char link_path[SCRATCH_BYTES];
    oc_results_spec spec = plain(), other = plain();
    oc_results *r = opened(&spec, 0);
    put(r, 0);
    assert_int_equal(link(path, scratch_path(link_path, dir, "link.jsonl")), 0);
    other.path = link_path;
    other.overwrite = true;
    refused(&other, OC_E_EXISTS, "another run writes this file now");
    put(r, 1);
    closed(r, false);
    other.input = path;
    refused(&other, OC_E_INVALID, "is the file of --input");
    (void)unlink(link_path);
    r = (spec.resume = true, opened(&spec, 2)); /* what was refused changed nothing */
    closed(r, true);
    remove_files();
    scratch_write(dir, "out.jsonl.run", "{\"mine\": 1}");
    spec.resume = false;
    refused(&spec, OC_E_EXISTS, "is no record of outcore generate");
    assert_false(oc_fs_exists(path));
    remove_files();
}

/* ---- what fails ---- */

/* In a process of its own: a file may have so many bytes, and then a write is cut short. */
static int fill(rlim_t most) {
    oc_results_spec spec = plain();
    const struct rlimit limit = {most, most};
    oc_results *r = NULL;
    uint64_t done, i = 0;
    (void)signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
    if (oc_results_open(&r, &spec, &done, &error) != OC_OK) return 2;
    while (put_row(r, i) == OC_OK)
        i++;
    if (!strstr(error.message, "out.jsonl") || !strstr(error.message, "cannot be written"))
        return 3;
    if (put_row(r, i) == OC_OK || oc_results_written(r) != i) return 4;
    return oc_results_close(r, false, &error) == OC_OK ? 0 : 5;
}

static void a_full_disk_leaves_whole_rows_that_are_gone_on_with(void **state) {
    (void)state;
    oc_results_spec again = plain();
    again.resume = true;
    for (rlim_t most = 2000; most < 2300; most += 37) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) _exit(fill(most));
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        size_t n;
        char *text = content(&n);
        assert_true(n > 1000 && n <= most && text[n - 1] == '\n');
        uint64_t rows = 0;
        for (size_t i = 0; i < n; i++)
            rows += text[i] == '\n';
        free(text);
        closed(opened(&again, rows), true);
        remove_files();
    }
    oc_results_spec full = plain();
    full.path = "/dev/full";
    oc_results *r = opened(&full, 0);
    assert_int_equal(put_row(r, 0), OC_E_IO);
    assert_non_null(strstr(error.message, "/dev/full"));
    closed(r, false);
    full.resume = true;
    refused(&full, OC_E_INVALID, "--resume needs a file");
}

/* ---- kill -9 ---- */

enum { ROWS = 300, WINDOW = 8, ROUNDS = 50 };

static uint64_t random_state;

static uint64_t draw(uint64_t below) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % below;
}

/* Windows of rows backwards, as answers come in any order. Dies after `life` rows. */
static int run(uint64_t life, bool slow) {
    oc_results_spec spec = plain();
    oc_results *r = NULL;
    uint64_t done = 0, puts = 0;
    spec.resume = true;
    if (oc_results_open(&r, &spec, &done, &error) != OC_OK) return 1;
    for (uint64_t from = done; from < ROWS; from += WINDOW) {
        uint64_t end = from + WINDOW < ROWS ? from + WINDOW : ROWS;
        for (uint64_t i = end; i-- > from;) {
            if (puts++ == life) (void)raise(SIGKILL);
            if (put_row(r, i) != OC_OK) return 2;
            if (slow) (void)usleep(100);
        }
    }
    return oc_results_close(r, true, &error) == OC_OK ? 0 : 3;
}

/* Half of the rounds from within, half from without, at any moment; some tear the last row. */
static bool round_of(int i) {
    struct stat st;
    bool within = i % 2 == 0;
    uint64_t life = within ? draw(ROWS / 20) : UINT64_MAX;
    useconds_t wait = (useconds_t)draw(3000);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) _exit(run(life, !within));
    if (!within) {
        (void)usleep(wait);
        (void)kill(child, SIGKILL);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status)) {
        assert_int_equal(WEXITSTATUS(status), 0);
        return true;
    }
    off_t torn = (off_t)draw(60);
    if (i % 3 == 0 && stat(path, &st) == 0 && st.st_size > torn)
        assert_int_equal(truncate(path, st.st_size - torn), 0);
    return false;
}

static void runs_killed_at_any_moment_end_as_one_that_was_not(void **state) {
    (void)state;
    oc_results_spec spec = plain();
    size_t n, m;
    oc_results *r = opened(&spec, 0);
    for (uint64_t i = 0; i < ROWS; i++)
        put(r, i);
    closed(r, true);
    char *a = content(&n);
    remove_files();
    random_state = 88172645463325252u;
    for (int i = 0; i < ROUNDS; i++) {
        if (!round_of(i)) continue;
        char *early = content(&m);
        assert_int_equal(n, m);
        assert_memory_equal(a, early, n);
        free(early);
        remove_files(); /* and once more from the start */
    }
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) _exit(run(UINT64_MAX, false));
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    char *b = content(&m);
    assert_int_equal(n, m);
    assert_memory_equal(a, b, n);
    assert_false(oc_fs_exists(key_path));
    free(a);
    free(b);
    remove_files();
}

static int make(void **state) {
    (void)state;
    scratch_make(dir);
    scratch_path(path, dir, "out.jsonl");
    snprintf(key_path, sizeof key_path, "%s.run", path);
    return oc_tokenizer_bytes(&bytes, &error) == OC_OK ? 0 : -1;
}

static int clear(void **state) {
    (void)state;
    oc_tokenizer_close(bytes);
    return oc_fs_remove_temporary(dir, &error) == OC_OK ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(our_rows_have_the_documented_members),
        cmocka_unit_test(rows_of_a_batch_have_openais_form),
        cmocka_unit_test(rows_stand_in_input_order_whenever_they_are_done),
        cmocka_unit_test(a_file_is_gone_on_with_by_the_same_run_only),
        cmocka_unit_test(a_torn_line_is_cut_and_a_changed_file_refused),
        cmocka_unit_test(two_runs_and_the_input_do_not_share_a_file),
        cmocka_unit_test(a_full_disk_leaves_whole_rows_that_are_gone_on_with),
        cmocka_unit_test(runs_killed_at_any_moment_end_as_one_that_was_not),
    };
    return cmocka_run_group_tests(tests, make, clear);
}
