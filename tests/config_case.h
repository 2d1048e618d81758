/* config_case.h - the configuration as a test meets it: argv as one line, a file as one text, notes
 * and errors as texts. */
#ifndef OC_CONFIG_CASE_H
#define OC_CONFIG_CASE_H

#include "config/config.h"
#include "config/deepspeed.h"
#include "config/options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NOTES_BYTES = 1 << 15 };

static char notes_text[NOTES_BYTES];
static oc_error error;
static char file_path[] = "/tmp/oc_config_XXXXXX";

static inline FILE *notes_open(void) {
    memset(notes_text, 0, sizeof notes_text);
    FILE *f = fmemopen(notes_text, sizeof notes_text - 1, "w");
    assert_non_null(f);
    return f;
}

/* argv as one string of words; c is NULL on failure. */
static inline oc_status parse(oc_config **c, oc_command command, const char *line) {
    static char words[4096];
    char *argv[64], *save = NULL;
    int argc = 0;
    snprintf(words, sizeof words, "%s", line);
    for (char *w = strtok_r(words, " \n", &save); w; w = strtok_r(NULL, " \n", &save))
        argv[argc++] = w;
    *c = NULL;
    error.message[0] = 0;
    FILE *notes = notes_open();
    oc_status s = oc_config_parse(c, command, argc, argv, notes, &error);
    fclose(notes);
    assert_true((s == OC_OK) == (*c != NULL));
    if (s != OC_OK) assert_true(error.message[0]);
    return s;
}

static inline oc_config *parsed(const char *line) {
    oc_config *c;
    if (parse(&c, OC_CMD_TRAIN, line) != OC_OK) fail_msg("%s: %s", line, error.message);
    return c;
}

static inline void write_file(const char *text) {
    FILE *f = fopen(file_path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static inline oc_status read_json(oc_config *c, const char *text) {
    write_file(text);
    error.message[0] = 0;
    FILE *notes = notes_open();
    oc_status s = oc_config_read_deepspeed(c, file_path, 1, notes, &error);
    fclose(notes);
    if (s != OC_OK) assert_true(strstr(error.message, file_path) != NULL);
    return s;
}

static inline oc_status resolve(oc_config *c) {
    FILE *notes = notes_open();
    error.message[0] = 0;
    oc_status s = oc_config_resolve(c, 1, notes, &error);
    fclose(notes);
    return s;
}

static inline bool same_json(const oc_config *a, const oc_config *b) {
    bool same = a->resume == b->resume;
    for (size_t i = 0; i < oc_options_count(); i++) {
        json_t *x = oc_option_json(a, oc_options_at(i)), *y = oc_option_json(b, oc_options_at(i));
        same &= (!x && !y) || json_equal(x, y);
        json_decref(x);
        json_decref(y);
    }
    return same;
}

static inline int make_file(void **state) {
    (void)state;
    int fd = mkstemp(file_path);
    if (fd < 0) return -1;
    return close(fd);
}

static inline int remove_file(void **state) {
    (void)state;
    return unlink(file_path);
}

#endif
