#include "base/log.h"
#include "base/nearest.h"
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#ifdef __GLIBC__
#include <malloc.h>
#include <pthread.h>
#endif
#include <string.h>
#include <unistd.h>

/* Ranks of this process's world: one in this version. */
enum { WORLD = 1 };

static int refused(const oc_error *err) {
    oc_log(OC_LOG_ERROR, "%s", err->message);
    return OC_EXIT_REFUSED;
}

static bool find_command(const char *word, oc_command *out) {
    for (int i = 0; i < OC_CMD_COUNT; i++) {
        if (strcmp(word, oc_command_name((oc_command)i)) != 0) continue;
        *out = (oc_command)i;
        return true;
    }
    return false;
}

static int unknown_command(const char *word) {
    const char *names[OC_CMD_COUNT];
    for (int i = 0; i < OC_CMD_COUNT; i++)
        names[i] = oc_command_name((oc_command)i);
    const char *near = oc_nearest(word, names, OC_CMD_COUNT);
    oc_log(OC_LOG_ERROR, "unknown command \"%s\"%s%s; outcore --help lists them", word,
           near ? ": did you mean " : "", near ? near : "");
    return OC_EXIT_REFUSED;
}

static bool has_word(int argc, char **argv, const char *word) {
    for (int i = 0; i < argc; i++)
        if (strcmp(argv[i], word) == 0) return true;
    return false;
}

static oc_status configure(oc_config **out, oc_command command, int argc, char **argv,
                           oc_error *err) {
    oc_config *c = NULL;
    FILE *notes = has_word(argc, argv, "--quiet") ? NULL : stderr;
    OC_TRY(oc_config_parse(&c, command, argc, argv, notes, err));
    oc_status s = OC_OK;
    if (c->config_file) s = oc_config_read_deepspeed(c, c->config_file, WORLD, notes, err);
    if (s == OC_OK) s = oc_config_resolve(c, WORLD, notes, err);
    if (s != OC_OK) {
        oc_config_free(c);
        return s;
    }
    *out = c;
    return OC_OK;
}

static int run(oc_command command, int argc, char **argv) {
    oc_config *c = NULL;
    oc_error err = {OC_OK, ""};
    if (configure(&c, command, argc, argv, &err) != OC_OK) return refused(&err);
    if (c->quiet) oc_log_set_level(OC_LOG_WARN);
    int code;
    switch (c->command) { /* plan generate is known by its second word */
    case OC_CMD_TRAIN:
        code = oc_cmd_train(c);
        break;
    case OC_CMD_EVAL:
        code = oc_cmd_eval(c);
        break;
    case OC_CMD_PLAN:
        code = oc_cmd_plan(c);
        break;
    case OC_CMD_PLAN_GENERATE:
        code = oc_cmd_plan_generate(c);
        break;
    case OC_CMD_GENERATE:
        code = oc_cmd_generate(c);
        break;
    case OC_CMD_TOKENIZE:
        code = oc_cmd_tokenize(c);
        break;
    default:
        code = oc_cmd_inspect(c);
        break;
    }
    oc_config_free(c);
    return code;
}

/* A file opened later must not become a standard stream that the caller had closed. */
static bool open_standard_streams(void) {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) >= 0) continue;
        if (open("/dev/null", O_RDWR) != fd) return false;
    }
    return true;
}

/* A result that did not arrive is a failure, whatever went before. */
static int flushed(int code) {
    if (fflush(stdout) == 0 && !ferror(stdout)) return code;
    oc_log(OC_LOG_ERROR, "standard output could not be written: %s", strerror(errno));
    return code == OC_EXIT_DONE ? OC_EXIT_FAILED : code;
}

/* Of `plan generate` and its help. */
static oc_command of_words(oc_command command, int argc, char **argv) {
    bool generates = command == OC_CMD_PLAN && argc > 0 && strcmp(argv[0], "generate") == 0;
    return generates ? OC_CMD_PLAN_GENERATE : command;
}

static int run_command_line(int argc, char **argv) {
    oc_command command;
    if (argc < 2) {
        oc_cli_usage(stderr);
        return OC_EXIT_REFUSED;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("outcore %s\n", OC_VERSION);
        return OC_EXIT_DONE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        if (argc > 2 && find_command(argv[2], &command))
            oc_cli_help(of_words(command, argc - 3, argv + 3), stdout);
        else
            oc_cli_usage(stdout);
        return OC_EXIT_DONE;
    }
    if (!find_command(argv[1], &command)) return unknown_command(argv[1]);
    if (has_word(argc - 2, argv + 2, "--help") || has_word(argc - 2, argv + 2, "-h")) {
        oc_cli_help(of_words(command, argc - 2, argv + 2), stdout);
        return OC_EXIT_DONE;
    }
    if (command == OC_CMD_BENCH) {
        oc_log(OC_LOG_ERROR, "outcore %s is not available in this version", argv[1]);
        return OC_EXIT_REFUSED;
    }
    return run(command, argc - 2, argv + 2);
}

/* What is freed goes back to the system, so that the bytes of a run are those that are planned:
 * large blocks are mapped each for itself, at a fixed threshold (glibc would raise it with the
 * first that is freed), the heap is cut back, and threads, which allocate nothing in a step, share
 * one. Stacks of less than a huge page never become one. */
static void settle_memory(void) {
#ifdef __GLIBC__
    enum { LARGE_BYTES = 128 << 10, STACK_BYTES = 1 << 20 };
    pthread_attr_t attr;
    (void)mallopt(M_MMAP_THRESHOLD, LARGE_BYTES);
    (void)mallopt(M_TRIM_THRESHOLD, LARGE_BYTES);
    (void)mallopt(M_ARENA_MAX, 1);
    if (pthread_attr_init(&attr)) return;
    (void)pthread_attr_setstacksize(&attr, STACK_BYTES);
    (void)pthread_setattr_default_np(&attr);
    (void)pthread_attr_destroy(&attr);
#endif
}

int main(int argc, char **argv) {
    settle_memory();
    if (!open_standard_streams()) return OC_EXIT_FAILED;
    return flushed(run_command_line(argc, argv));
}
