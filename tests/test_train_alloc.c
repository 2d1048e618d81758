/* No allocation inside a step: from the second step on no thread of the process - session, lanes,
 * pool workers - calls the allocator or maps memory. The allocator's entry points are counted by
 * definitions of our own. Sanitizers bring allocators of their own, under them nothing is counted.
 */
#include "train/train.h"
#include "train_case.h"

#include <execinfo.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COUNTED 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ||                         \
    __has_feature(memory_sanitizer)
#define COUNTED 0
#endif
#endif
#ifndef COUNTED
#ifdef __GLIBC__
#define COUNTED 1
#else
#define COUNTED 0
#endif
#endif

enum { FRAMES = 24 };

static atomic_bool watching;
static atomic_ullong calls;
static void *frames[FRAMES]; /* of the first call seen */
static int n_frames;

#if COUNTED
static _Thread_local bool inside;

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t each);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);
void __libc_free(void *p);

static void count(void) {
    if (!atomic_load_explicit(&watching, memory_order_relaxed) || inside) return;
    inside = true;
    if (atomic_fetch_add(&calls, 1) == 0) n_frames = backtrace(frames, FRAMES);
    inside = false;
}

void *malloc(size_t n) {
    count();
    return __libc_malloc(n);
}
void *calloc(size_t n, size_t each) {
    count();
    return __libc_calloc(n, each);
}
void *realloc(void *p, size_t n) {
    count();
    return __libc_realloc(p, n);
}
void free(void *p) {
    if (p) count();
    __libc_free(p);
}
void *aligned_alloc(size_t align, size_t n) {
    count();
    return __libc_memalign(align, n);
}
int posix_memalign(void **out, size_t align, size_t n) {
    count();
    *out = __libc_memalign(align, n);
    return *out ? 0 : 12; /* ENOMEM */
}
void *mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset) {
    count();
    return (void *)syscall(SYS_mmap, at, n, protection, flags, fd, offset);
}
int munmap(void *at, size_t n) {
    count();
    return (int)syscall(SYS_munmap, at, n);
}
#endif

static void watch(void) {
    void *warm[2];
    (void)backtrace(warm, 2); /* its first call loads a library */
    atomic_store(&calls, 0);
    atomic_store(&watching, true);
}

static unsigned long long unwatch(void) {
    atomic_store(&watching, false);
    return atomic_load(&calls);
}

static const char llama[] =
    "{\"model_type\":\"llama\",\"architectures\":[\"LlamaForCausalLM\"],\"hidden_size\":40,"
    "\"intermediate_size\":72,\"num_hidden_layers\":3,\"num_attention_heads\":4,"
    "\"num_key_value_heads\":2,\"vocab_size\":1100,\"max_position_embeddings\":64,"
    "\"tie_word_embeddings\":false}";
static const char gpt2[] =
    "{\"model_type\":\"gpt2\",\"architectures\":[\"GPT2LMHeadModel\"],\"n_embd\":36,\"n_head\":3,"
    "\"n_layer\":3,\"n_positions\":32,\"vocab_size\":1067,\"activation_function\":\"gelu_new\","
    "\"tie_word_embeddings\":true}";

static const char *const placements[] = {
    "",
    "--slots 1 --slabs 1 --act-home host --recompute full",
    "--slots 2 --slabs 2 --recompute none",
    "--slots 2 --slabs 2 --micro-order breadth --delay-seed 3",
    "--slots 2 --slabs 2 --debug-memory",
    "--serial-lanes",
    "--pace h2d=1GB/s --slots 2",
};

static void make(char dir[SCRATCH_BYTES], const char *config) {
    static const train_rows rows = {
        .rows = 20, .least = 5, .most = 40, .vocab = 1060, .ignored = 10};
    scratch_make(dir);
    train_write_config(dir, config);
    train_write_rows(dir, "a.jsonl", &rows);
}

static void command(char *line, const char *dir, int steps, const char *dtype, const char *rest) {
    snprintf(line, TRAIN_LINE_BYTES,
             "--init %s --data %s/a.jsonl --output %s/out --overwrite --seq-length 32 "
             "--micro-batch 2 --grad-accum 2 --max-steps %d --lr 1e-3 --dtype %s --quiet %s",
             dir, dir, dir, steps, dtype, rest);
}

static void counting_sees_allocations(void **state) {
    (void)state;
    if (!COUNTED) skip();
    watch();
    char *volatile p = malloc(100);
    free(p);
    char *text = NULL;
    assert_true(asprintf(&text, "%d", 5) > 0); /* from inside the C library */
    unsigned long long seen = unwatch();
    free(text);
    assert_true(seen >= 3);
}

static void no_step_allocates(void **state) {
    static const char *const dtypes[] = {"fp32", "bf16", "fp16"};
    char dir[SCRATCH_BYTES], line[TRAIN_LINE_BYTES];
    (void)state;
    if (!COUNTED) skip();
    for (int k = 0; k < 6; k++) {
        make(dir, k < 3 ? llama : gpt2);
        for (size_t p = 0; p < sizeof placements / sizeof *placements; p++) {
            train_case t;
            train_result r = {0};
            command(line, dir, 8, dtypes[k % 3], placements[p]);
            train_open(&t, line);
            train_steps(&t, 1, &r);
            watch();
            train_steps(&t, 7, &r);
            unsigned long long seen = unwatch();
            if (seen) backtrace_symbols_fd(frames, n_frames, 2);
            if (seen) fail_msg("%s: %llu calls in 7 steps", line, seen);
            train_close(&t);
        }
        train_remove(dir);
    }
}

static unsigned long long calls_of_a_run(const char *dir, int steps, const char *rest) {
    char line[TRAIN_LINE_BYTES], options[SCRATCH_BYTES], out[SCRATCH_BYTES];
    oc_error err = {OC_OK, ""};
    snprintf(options, sizeof options, "--log %.200s/log.jsonl %s", dir, rest);
    command(line, dir, steps, "bf16", options);
    oc_config *c = train_config(OC_CMD_TRAIN, line, &err);
    if (!c) fail_msg("%s", err.message);
    watch();
    oc_outcome got = oc_train(c, &err);
    unsigned long long seen = unwatch();
    if (got.status != OC_OK) fail_msg("%s", err.message);
    oc_config_free(c);
    train_remove(scratch_path(out, dir, "out"));
    return seen;
}

/* Log and progress included: a run of 20 steps allocates exactly as often as one of 4. */
static void a_longer_run_allocates_no_more(void **state) {
    char dir[SCRATCH_BYTES];
    (void)state;
    if (!COUNTED) skip();
    make(dir, llama);
    for (size_t p = 0; p < 3; p++) {
        (void)calls_of_a_run(dir, 4, placements[p]); /* what is done once a process */
        unsigned long long few = calls_of_a_run(dir, 4, placements[p]);
        unsigned long long many = calls_of_a_run(dir, 20, placements[p]);
        assert_true(few > 0);
        if (few != many) fail_msg("%s: %llu calls, then %llu", placements[p], few, many);
    }
    train_remove(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counting_sees_allocations),
        cmocka_unit_test(no_step_allocates),
        cmocka_unit_test(a_longer_run_allocates_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
