/* program.h - runs the program and watches its memory from outside, through /proc. */
#ifndef OC_TEST_PROGRAM_H
#define OC_TEST_PROGRAM_H

#include "cmocka_all.h"
#include "scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* What is measured is then no measure: shadow memory counts as well. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

#define MIB (1024.0 * 1024.0)

enum { PROGRAM_TEXT_BYTES = 64 << 10 };

typedef struct program_result {
    int code, signal;              /* how it ended; code -1 when by a signal */
    uint64_t anonymous;            /* most bytes of RssAnon + RssShmem seen */
    uint64_t high_water;           /* VmHWM as last seen, mapped files included: misses no peak */
    uint64_t mapped;               /* most bytes of RssFile seen */
    unsigned long long looks;      /* how often it was looked at */
    char text[PROGRAM_TEXT_BYTES]; /* its stderr */
} program_result;

typedef struct program_spec {
    const char *line;    /* words after the program's name */
    const char *dir;     /* scratch, for its output */
    const char *cgroup;  /* file that it writes its process id into; NULL: none */
    uint64_t data_limit; /* RLIMIT_DATA; 0: none */
    const char *after;   /* its memory counts once its stderr holds this; NULL: from the start */
} program_spec;

static inline uint64_t program_status_bytes(const char *status, const char *key) {
    const char *at = strstr(status, key);
    return at ? strtoull(at + strlen(key), NULL, 10) * 1024 : 0;
}

/* false when it is gone. */
static inline bool program_look(pid_t pid, program_result *r) {
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0) return false;
    text[n] = 0;
    /* before exec it is a copy of this program */
    if (strncmp(text, "Name:\toutcore\n", 14) != 0) return true;
    uint64_t anonymous =
        program_status_bytes(text, "\nRssAnon:") + program_status_bytes(text, "\nRssShmem:");
    uint64_t mapped = program_status_bytes(text, "\nRssFile:");
    uint64_t high = program_status_bytes(text, "\nVmHWM:");
    if (anonymous > r->anonymous) r->anonymous = anonymous;
    if (mapped > r->mapped) r->mapped = mapped;
    if (high > r->high_water) r->high_water = high;
    r->looks++;
    return true;
}

static inline void program_child(const program_spec *s, const char *output) {
    char words[4096], *argv[128], *save = NULL;
    int argc = 0;
    snprintf(words, sizeof words, "outcore %s", s->line);
    for (char *w = strtok_r(words, " ", &save); w; w = strtok_r(NULL, " ", &save))
        argv[argc++] = w;
    argv[argc] = NULL;
    int fd = open(output, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    int nothing = open("/dev/null", O_WRONLY);
    if (fd < 0 || nothing < 0 || dup2(fd, 2) < 0 || dup2(nothing, 1) < 0) _exit(120);
    if (s->cgroup) {
        char id[32];
        int n = snprintf(id, sizeof id, "%d", (int)getpid());
        int group = open(s->cgroup, O_WRONLY);
        if (group < 0 || write(group, id, (size_t)n) != n) _exit(121);
        close(group);
    }
    if (s->data_limit) {
        struct rlimit limit = {s->data_limit, s->data_limit};
        if (setrlimit(RLIMIT_DATA, &limit)) _exit(122);
    }
    execv(OC_PROGRAM, argv);
    _exit(123);
}

static inline void program_read(const char *path, char *text, size_t bytes) {
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(text, 1, bytes - 1, f) : 0;
    text[n] = 0;
    if (f) fclose(f);
}

static inline void program_run(const program_spec *s, program_result *r) {
    static const struct timespec pause = {0, 500000};
    char output[SCRATCH_BYTES];
    int status = 0;
    memset(r, 0, sizeof *r);
    scratch_path(output, s->dir, "stderr.txt");
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) program_child(s, output);
    bool counts = !s->after;
    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (!counts) program_read(output, r->text, sizeof r->text);
        counts = counts || strstr(r->text, s->after);
        if (counts) (void)program_look(pid, r);
        nanosleep(&pause, NULL);
    }
    r->code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    r->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    program_read(output, r->text, sizeof r->text);
    (void)unlink(output);
}

/* The number after `key` in its stderr. */
static inline uint64_t program_number(const program_result *r, const char *key) {
    const char *at = strstr(r->text, key);
    if (!at) fail_msg("no \"%s\" in:\n%s", key, r->text);
    return strtoull(at + strlen(key), NULL, 10);
}

#endif
