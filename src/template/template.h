/* template.h - chat templates: a safe interpreter of the Jinja subset that models' templates use.
 *
 * A template is untrusted text: depth, steps and output are bounded, nothing outside the values
 * given can be reached, and what is not known is an error that names it and its line. Values are
 * JSON. Semantics are those of the reference library's environment: trim_blocks and lstrip_blocks
 * on, undefined names render as nothing, and it lends raise_exception, strftime_now, tojson with
 * its own defaults, and the loop controls. */
#ifndef OC_TEMPLATE_H
#define OC_TEMPLATE_H

#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct oc_template oc_template;

/* name stands for the template in messages. The text is copied. */
OC_NODISCARD oc_status oc_template_parse(oc_template **out, const char *text, size_t n,
                                         const char *name, oc_error *err);
void oc_template_close(oc_template *t);

/* A run of the rendered text that one message of the conversation wrote: text written while a loop
 * variable held that element of "messages" (innermost such loop; macros called there count). What
 * an assistant's message quotes of one that is none (a tool's response) is that one's. In order,
 * not overlapping; text between runs belongs to no message. */
typedef struct oc_render_run {
    size_t begin, end; /* bytes */
    size_t message;    /* index in "messages"; OC_RENDER_NOBODY in a generation block outside */
    bool generation;   /* inside {% generation %} */
} oc_render_run;
#define OC_RENDER_NOBODY SIZE_MAX

typedef struct oc_rendered {
    char *text; /* n bytes and a NUL */
    size_t n;
    oc_render_run *runs;
    size_t n_runs;
    bool has_generation; /* the template has {% generation %} blocks */
} oc_rendered;

typedef struct oc_template_limits {
    uint64_t steps; /* evaluations and iterations */
    size_t output;  /* bytes, of the text and of any value on the way */
    int32_t depth;  /* of macros' calls, 1 to 100; ten times as deep may values nest */
} oc_template_limits;

/* 10 million steps, 64 MiB, 100. */
extern const oc_template_limits oc_template_default_limits;

/* variables: an object whose members are the names a template sees: "messages" (array), "tools",
 * "bos_token", "add_generation_prompt", ... Deterministic but for strftime_now, which uses *now
 * (seconds since 1970, UTC; NULL: the clock). raise_exception is OC_E_INVALID with its message. On
 * failure *out is zero. limits NULL: the default. */
OC_NODISCARD oc_status oc_template_render(const oc_template *t, const json_t *variables,
                                          const oc_template_limits *limits, const int64_t *now,
                                          oc_rendered *out, oc_error *err);
void oc_rendered_free(oc_rendered *r);

#endif
