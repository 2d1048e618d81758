/* The log: levels are kept, lines are whole, also of several threads. */
#include "cmocka_all.h"

#include "base/log.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

typedef struct caught {
    char last[4096];
    oc_log_level level;
    int count;
} caught;

static void catch_line(void *arg, oc_log_level level, const char *line) {
    caught *c = arg;
    snprintf(c->last, sizeof c->last, "%s", line);
    c->level = level;
    c->count++;
}

static void levels_filter(void **state) {
    (void)state;
    caught c = {0};
    oc_log_set_sink(catch_line, &c);
    assert_int_equal(oc_log_get_level(), OC_LOG_INFO);
    oc_log(OC_LOG_DEBUG, "hidden");
    assert_int_equal(c.count, 0);
    oc_log(OC_LOG_INFO, "seen %d", 3);
    assert_string_equal(c.last, "seen 3");
    oc_log_set_level(OC_LOG_ERROR);
    oc_log(OC_LOG_WARN, "hidden");
    assert_int_equal(c.count, 1);
    oc_log(OC_LOG_ERROR, "bad");
    assert_int_equal(c.level, OC_LOG_ERROR);
    oc_log_set_level(OC_LOG_INFO);
    oc_log_set_sink(NULL, NULL);
}

static void long_lines_are_cut(void **state) {
    (void)state;
    caught c = {0};
    char text[5000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    oc_log_set_sink(catch_line, &c);
    oc_log(OC_LOG_INFO, "%s", text);
    oc_log_set_sink(NULL, NULL);
    assert_true(strlen(c.last) >= 2000 && strlen(c.last) < 2048);
}

enum { LINES = 2000, THREADS = 4 };

typedef struct speaker {
    char letter;
    pthread_barrier_t *start;
} speaker;

static void *chatter(void *arg) {
    const speaker *s = arg;
    char text[61];
    memset(text, s->letter, 60);
    text[60] = '\0';
    pthread_barrier_wait(s->start);
    for (int i = 0; i < LINES; i++)
        oc_log(OC_LOG_WARN, "%s", text);
    return NULL;
}

/* Standard error is a file for the while; every line in it must be of one letter. */
static void lines_of_threads_do_not_mix(void **state) {
    (void)state;
    FILE *f = tmpfile();
    assert_non_null(f);
    int saved = dup(STDERR_FILENO);
    dup2(fileno(f), STDERR_FILENO);
    pthread_t threads[THREADS];
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, THREADS);
    speaker speakers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        speakers[i] = (speaker){(char)('a' + i), &start};
        pthread_create(&threads[i], NULL, chatter, &speakers[i]);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&start);
    dup2(saved, STDERR_FILENO);
    close(saved);
    rewind(f);
    char line[256];
    int count = 0;
    while (fgets(line, sizeof line, f)) {
        count++;
        assert_int_equal(strlen(line), 9 + 60 + 1);
        assert_memory_equal(line, "warning: ", 9);
        for (int i = 10; i < 69; i++)
            assert_int_equal(line[i], line[9]);
    }
    fclose(f);
    assert_int_equal(count, LINES * THREADS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_filter),
        cmocka_unit_test(long_lines_are_cut),
        cmocka_unit_test(lines_of_threads_do_not_mix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
