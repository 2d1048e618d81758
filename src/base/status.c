/* status.c - names of statuses and the filling of errors. */
#include "base/status.h"

#include <stdio.h>
#include <string.h>

#undef oc_fail
#undef oc_fail_errno
#undef oc_error_prefix

const char *oc_status_name(oc_status s) {
    switch (s) {
#define OC_X(name, value, sentence)                                                                \
    case OC_##name:                                                                                \
        return "OC_" #name;
        OC_STATUS_LIST(OC_X)
#undef OC_X
    }
    return "OC_?";
}

const char *oc_status_sentence(oc_status s) {
    switch (s) {
#define OC_X(name, value, sentence)                                                                \
    case OC_##name:                                                                                \
        return sentence;
        OC_STATUS_LIST(OC_X)
#undef OC_X
    }
    return "an unknown status";
}

/* A message is one line: what came from a file or a user may hold newlines and control bytes. */
static void flatten(char *text) {
    for (unsigned char *c = (unsigned char *)text; *c; c++)
        if (*c < 0x20 || *c == 0x7f) *c = ' ';
}

/* A multi-byte UTF-8 character must not be cut in half by the end of the buffer. */
static void trim_utf8(char *text, size_t length) {
    size_t i = length, back = 0;
    while (i > 0 && back < 4 && ((unsigned char)text[i - 1] & 0xc0u) == 0x80u)
        i--, back++;
    if (i == 0 || (unsigned char)text[i - 1] < 0xc0u) return;
    unsigned lead = (unsigned char)text[i - 1];
    size_t want = lead >= 0xf0u ? 3 : lead >= 0xe0u ? 2 : 1;
    if (back < want) text[i - 1] = '\0';
}

static void finish(char *text, int wanted) {
    if (wanted >= OC_ERROR_BYTES) trim_utf8(text, OC_ERROR_BYTES - 1);
    flatten(text);
}

OC_PRINTF(3, 0)
static void vfill(oc_error *err, oc_status s, const char *fmt, va_list args) {
    err->status = s;
    int wanted = vsnprintf(err->message, sizeof err->message, fmt, args);
    if (wanted < 0) err->message[0] = '\0';
    finish(err->message, wanted);
}

oc_status oc_fail(oc_error *err, oc_status s, const char *fmt, ...) {
    if (!err) return s;
    va_list args;
    va_start(args, fmt);
    vfill(err, s, fmt, args);
    va_end(args);
    return s;
}

oc_status oc_fail_errno(oc_error *err, oc_status s, int errno_value, const char *fmt, ...) {
    if (!err) return s;
    va_list args;
    va_start(args, fmt);
    vfill(err, s, fmt, args);
    va_end(args);
    char buffer[128];
    const char *reason = strerror_r(errno_value, buffer, sizeof buffer);
    size_t used = strlen(err->message);
    int wanted = snprintf(err->message + used, sizeof err->message - used, ": %s", reason);
    if (wanted > 0) finish(err->message, (int)used + wanted);
    return s;
}

oc_status oc_error_prefix(oc_error *err, oc_status s, const char *fmt, ...) {
    if (!err) return s;
    char old[OC_ERROR_BYTES];
    memcpy(old, err->message, sizeof old);
    old[sizeof old - 1] = '\0';
    va_list args;
    va_start(args, fmt);
    vfill(err, s, fmt, args);
    va_end(args);
    size_t used = strlen(err->message);
    int wanted = snprintf(err->message + used, sizeof err->message - used, ": %s", old);
    if (wanted > 0) finish(err->message, (int)used + wanted);
    return s;
}
