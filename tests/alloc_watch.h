/* alloc_watch.h - counts calls of the allocator and of mmap(), by definitions of our own, for the
 * one source file of a program that includes it. Sanitizers bring allocators of their own: under
 * them, and without glibc, nothing is counted and ALLOC_WATCHED is 0. */
#ifndef OC_ALLOC_WATCH_H
#define OC_ALLOC_WATCH_H

#include <execinfo.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ALLOC_WATCHED 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ||                         \
    __has_feature(memory_sanitizer)
#define ALLOC_WATCHED 0
#endif
#endif
#ifndef ALLOC_WATCHED
#ifdef __GLIBC__
#define ALLOC_WATCHED 1
#else
#define ALLOC_WATCHED 0
#endif
#endif

enum { ALLOC_FRAMES = 24 };

static atomic_bool alloc_watching;
static atomic_ullong alloc_calls;
static void *alloc_frames[ALLOC_FRAMES]; /* of the first call seen */
static int alloc_n_frames;

#if ALLOC_WATCHED
static _Thread_local bool alloc_inside;

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t each);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);
void __libc_free(void *p);

static void alloc_count(void) {
    if (!atomic_load_explicit(&alloc_watching, memory_order_relaxed) || alloc_inside) return;
    alloc_inside = true;
    if (atomic_fetch_add(&alloc_calls, 1) == 0)
        alloc_n_frames = backtrace(alloc_frames, ALLOC_FRAMES);
    alloc_inside = false;
}

void *malloc(size_t n) {
    alloc_count();
    return __libc_malloc(n);
}
void *calloc(size_t n, size_t each) {
    alloc_count();
    return __libc_calloc(n, each);
}
void *realloc(void *p, size_t n) {
    alloc_count();
    return __libc_realloc(p, n);
}
void free(void *p) {
    if (p) alloc_count();
    __libc_free(p);
}
void *aligned_alloc(size_t align, size_t n) {
    alloc_count();
    return __libc_memalign(align, n);
}
void *mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset) {
    alloc_count();
    return (void *)syscall(SYS_mmap, at, n, protection, flags, fd, offset);
}
#endif

static void alloc_watch(void) {
    void *warm[2];
    (void)backtrace(warm, 2); /* its first call loads a library */
    atomic_store(&alloc_calls, 0);
    atomic_store(&alloc_watching, true);
}

/* Returns the calls seen. */
static unsigned long long alloc_unwatch(void) {
    atomic_store(&alloc_watching, false);
    return atomic_load(&alloc_calls);
}

static void alloc_print_first(void) {
    if (alloc_n_frames) backtrace_symbols_fd(alloc_frames, alloc_n_frames, 2);
}

#endif
