/* fail_alloc.c - a library that makes one allocation of a program fail, or all from one on: loaded
 * before the others by test_cli_memory.c.
 *
 * OC_FAIL_AT=N: number N, from 0; OC_FAIL_SPAN: so many. OC_FAIL_COUNT=FILE: how many there were.
 */
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t each);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);

static atomic_long calls;
static long at = -1, span = 1;
static bool ready, trace;

__attribute__((constructor)) static void start(void) {
    const char *text = getenv("OC_FAIL_AT");
    if (text) at = strtol(text, NULL, 10);
    text = getenv("OC_FAIL_SPAN");
    if (text) span = strtol(text, NULL, 10);
    trace = getenv("OC_FAIL_TRACE") != NULL;
    ready = true;
}

__attribute__((destructor)) static void end(void) {
    const char *path = getenv("OC_FAIL_COUNT");
    char text[32];
    if (!path) return;
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    int n = snprintf(text, sizeof text, "%ld", atomic_load(&calls));
    if (fd >= 0 && write(fd, text, (size_t)n) == n) close(fd);
}

static void tell(void) {
    void *frames[24];
    ready = false;
    backtrace_symbols_fd(frames, backtrace(frames, 24), STDERR_FILENO);
    ready = true;
}

static bool fails(void) {
    if (!ready) return false;
    long k = atomic_fetch_add(&calls, 1);
    if (at < 0 || k < at || k - at >= span) return false;
    if (k == at && trace) tell();
    errno = ENOMEM;
    return true;
}

void *malloc(size_t n) { return fails() ? NULL : __libc_malloc(n); }
void *calloc(size_t n, size_t each) { return fails() ? NULL : __libc_calloc(n, each); }
void *realloc(void *p, size_t n) { return fails() ? NULL : __libc_realloc(p, n); }
void *aligned_alloc(size_t align, size_t n) { return fails() ? NULL : __libc_memalign(align, n); }
int posix_memalign(void **p, size_t align, size_t n) {
    if (fails()) return ENOMEM;
    *p = __libc_memalign(align, n);
    return *p ? 0 : ENOMEM;
}
