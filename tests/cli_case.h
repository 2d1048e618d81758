/* cli_case.h - runs the real program in a folder of its own: exit status, both outputs, and what it
 * left on disk. */
#ifndef OC_CLI_CASE_H
#define OC_CLI_CASE_H

#include "base/json.h"
#include "cmocka_all.h"
#include "scratch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CLI_TEXT_BYTES = 1 << 18, CLI_WORDS = 96 };

typedef struct cli_result {
    int code;   /* exit status; -1 when a signal ended it */
    int signal; /* that ended it */
    char out[CLI_TEXT_BYTES], err[CLI_TEXT_BYTES];
} cli_result;

static char cli_home[SCRATCH_BYTES]; /* the folder; tests run inside it */
static rlim_t cli_file_limit = RLIM_INFINITY;
static pid_t cli_child;                   /* that runs; 0: none */
static unsigned cli_seconds;              /* then the program is ended; 0: never */
static const char *cli_stdout = "stdout"; /* where it goes; NULL: closed */
static const char *cli_stdin;             /* a file; NULL: the test's own */
static bool cli_no_stderr;                /* closed */
static int cli_ignored;                   /* a signal that the program inherits as ignored */

/* ---- files ---- */

static inline void cli_read(const char *path, char *text) {
    FILE *f = fopen(path, "rb");
    size_t n = f ? fread(text, 1, CLI_TEXT_BYTES - 1, f) : 0;
    text[n] = 0;
    if (f) fclose(f);
}

static inline void cli_write(const char *path, const void *data, size_t n) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static inline void cli_text(const char *path, const char *text) {
    cli_write(path, text, strlen(text));
}

static inline bool cli_exists(const char *path) { return access(path, F_OK) == 0; }

static inline long long cli_bytes(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 ? (long long)st.st_size : -1;
}

static inline void cli_remove(const char *path) { scratch_remove(path); }

static inline int cli_by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names in dir, hidden ones too, sorted, with a blank between. "" for an empty one, "absent"
 * when there is none. */
static inline const char *cli_list(const char *dir) {
    static char text[8192];
    char *names[256];
    size_t n = 0, at = 0;
    DIR *d = opendir(dir);
    if (!d) return "absent";
    for (struct dirent *e; (e = readdir(d)) && n < 256;) {
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            names[n++] = strdup(e->d_name);
    }
    closedir(d);
    qsort(names, n, sizeof *names, cli_by_name);
    text[0] = 0;
    for (size_t i = 0; i < n; i++) {
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%s", i ? " " : "", names[i]);
        free(names[i]);
    }
    return text;
}

/* ---- the program ---- */

static inline pid_t cli_start(const char *line) {
    char words[4096], *argv[CLI_WORDS + 2], *save = NULL;
    static char program[] = OC_PROGRAM;
    int argc = 0;
    snprintf(words, sizeof words, "%s", line);
    argv[argc++] = program;
    for (char *w = strtok_r(words, " ", &save); w && argc < CLI_WORDS;
         w = strtok_r(NULL, " ", &save))
        argv[argc++] = w;
    argv[argc] = NULL;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid > 0) return cli_child = pid;
    int out =
        open(cli_stdout ? cli_stdout : "stdout", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    int err = open("stderr", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    if (!cli_stdout) close(STDOUT_FILENO);
    if (cli_stdin) dup2(open(cli_stdin, O_RDONLY | O_CLOEXEC), STDIN_FILENO);
    if (cli_no_stderr) close(STDERR_FILENO);
    (void)alarm(cli_seconds);               /* it outlives exec */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failed test leaves nothing running */
    static const int stops[] = {SIGINT, SIGTERM, SIGHUP};
    for (int i = 0; i < 3; i++) /* whatever the tests run under */
        (void)signal(stops[i], stops[i] == cli_ignored ? SIG_IGN : SIG_DFL);
    struct rlimit limit = {cli_file_limit, cli_file_limit};
    (void)setrlimit(RLIMIT_FSIZE, &limit);
    execv(program, argv);
    _exit(127);
}

static inline void cli_wait(cli_result *r, pid_t pid) {
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    cli_child = 0;
    r->code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    r->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    cli_read("stdout", r->out);
    cli_read("stderr", r->err);
}

static inline cli_result *cli_run(const char *line) {
    static cli_result r;
    cli_wait(&r, cli_start(line));
    return &r;
}

/* What cmocka has room to print. */
static inline const char *cli_tail(const char *text) {
    size_t n = strlen(text);
    return n > 600 ? text + n - 600 : text;
}

/* It ends with this status, and standard error holds each of the words, which are separated by '|'.
 */
static inline void cli_expect(const char *line, int code, const char *words) {
    cli_result *r = cli_run(line);
    if (r->code != code)
        fail_msg("outcore %s\nended with %d (signal %d), not %d:\n%s", line, r->code, r->signal,
                 code, cli_tail(r->err));
    char copy[512], *save = NULL;
    snprintf(copy, sizeof copy, "%s", words);
    for (char *w = strtok_r(copy, "|", &save); w; w = strtok_r(NULL, "|", &save)) {
        if (!strstr(r->err, w))
            fail_msg("outcore %s\ndoes not say \"%s\":\n%s", line, w, cli_tail(r->err));
    }
}

static inline void cli_sleep_ms(long ms) {
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    (void)nanosleep(&t, NULL);
}

/* Until dir holds the name, or another that begins so, `n` times; a minute, then the test fails. */
static inline void cli_await(const char *dir, const char *name, int n) {
    int found = 0;
    for (int i = 0; i < 6000 && found < n; i++) {
        found = 0;
        for (const char *p = cli_list(dir); (p = strstr(p, name)); p++)
            found++;
        if (found < n) cli_sleep_ms(10);
    }
    if (found < n) fail_msg("%s: %d times %s did not appear: %s", dir, n, name, cli_list(dir));
}

/* ---- what runs start from ---- */

#define CLI_MODEL_FILES "config.json model.safetensors tokenizer.json tokenizer_config.json"

static const char cli_config[] =
    "{\"model_type\": \"llama\", \"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": 32,\n"
    " \"intermediate_size\": 48, \"num_hidden_layers\": 2, \"num_attention_heads\": 4,\n"
    " \"num_key_value_heads\": 2, \"vocab_size\": 259, \"max_position_embeddings\": 64,\n"
    " \"rms_norm_eps\": 1e-05, \"tie_word_embeddings\": false, \"torch_dtype\": \"float32\"}\n";

/* m/config.json, d.txt (about 60 sequences of 32) and e.txt (about 6). */
static inline int cli_setup(void **state) {
    (void)state;
    scratch_make(cli_home);
    if (chdir(cli_home) || mkdir("m", 0700)) return -1;
    cli_text("m/config.json", cli_config);
    FILE *d = fopen("d.txt", "w"), *e = fopen("e.txt", "w");
    for (int i = 0; i < 44; i++)
        fprintf(i < 40 ? d : e, "the quick brown fox jumps over dog number %d\n", i * 7919 % 1000);
    fclose(d);
    fclose(e);
    return 0;
}

static inline int cli_teardown(void **state) {
    (void)state;
    if (cli_child > 0) (void)kill(cli_child, SIGKILL); /* a test failed while it ran */
    if (chdir("/")) return -1;
    cli_remove(cli_home);
    return 0;
}

#define CLI_TRAIN "train --init m --data d.txt --seq-length 32 --micro-batch 2 --threads 1 "

/* A model in dir, trained for a step. */
static inline void cli_make_model(const char *dir) {
    char line[512];
    snprintf(line, sizeof line, CLI_TRAIN "--max-steps 1 --quiet --output %s", dir);
    cli_expect(line, 0, "");
}

#endif
