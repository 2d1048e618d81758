/* status.h - how every room reports failure.
 *
 * A call that can fail returns oc_status. A cold call also takes an oc_error as its last argument;
 * the function that detects the failure fills it once, callers only forward the status. err may be
 * NULL. */
#ifndef OC_STATUS_H
#define OC_STATUS_H

#include <stdarg.h>

#define OC_NODISCARD __attribute__((warn_unused_result))
#define OC_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

/* name, value, sentence */
#define OC_STATUS_LIST(X)                                                                          \
    X(OK, 0, "success")                                                                            \
    X(E_INVALID, -1, "a value that was asked for is not acceptable")                               \
    X(E_UNSUPPORTED, -2, "what was asked for is known but not supported")                          \
    X(E_MEMORY, -3, "the memory of a tier or of the host does not suffice")                        \
    X(E_IO, -4, "a file or directory could not be read or written")                                \
    X(E_FORMAT, -5, "a file is not in the format it claims")                                       \
    X(E_NOTFOUND, -6, "a file, tensor or key is missing")                                          \
    X(E_EXISTS, -7, "something is there already and may not be replaced")                          \
    X(E_OVERFLOW, -8, "a size does not fit its type")                                              \
    X(E_PLAN, -9, "a plan is not correct")                                                         \
    X(E_DEVICE, -10, "the device reported a failure")                                              \
    X(E_STOPPED, -11, "stopped on request")                                                        \
    X(E_AGAIN, -12, "not now; retry later")                                                        \
    X(E_SYSTEM, -13, "the operating system refused a request")

typedef enum oc_status {
#define OC_X(name, value, sentence) OC_##name = (value),
    OC_STATUS_LIST(OC_X)
#undef OC_X
} oc_status;

enum { OC_ERROR_BYTES = 1024 };

typedef struct oc_error {
    oc_status status;
    char message[OC_ERROR_BYTES]; /* what failed, on which thing, and what to do; no newline */
} oc_error;

const char *oc_status_name(oc_status s);     /* "OC_E_IO" */
const char *oc_status_sentence(oc_status s); /* never NULL */

/* Fill *err (which may be NULL) and return s, so that "return oc_fail(...)" reads well. */
oc_status oc_fail(oc_error *err, oc_status s, const char *fmt, ...) OC_PRINTF(3, 4);
/* As oc_fail, and appends ": strerror(errno_value)". */
oc_status oc_fail_errno(oc_error *err, oc_status s, int errno_value, const char *fmt, ...)
    OC_PRINTF(4, 5);
/* Put "context: " before the message that is there; returns s. For callers that alone know the
 * file's name. */
oc_status oc_error_prefix(oc_error *err, oc_status s, const char *fmt, ...) OC_PRINTF(3, 4);

/* Tells clang's analyzer, which sees one source file at a time, that these return s. */
#ifdef __clang_analyzer__
#define oc_fail(err, s, ...) (oc_fail(err, s, __VA_ARGS__), (s))
#define oc_fail_errno(err, s, ...) (oc_fail_errno(err, s, __VA_ARGS__), (s))
#define oc_error_prefix(err, s, ...) (oc_error_prefix(err, s, __VA_ARGS__), (s))
#endif

/* Forward a failure. */
#define OC_TRY(expr)                                                                               \
    do {                                                                                           \
        oc_status oc_try_status = (expr);                                                          \
        if (oc_try_status != OC_OK) return oc_try_status;                                          \
    } while (0)

#endif
