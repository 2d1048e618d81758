/* json.h - strict JSON files, and typed reads that say which file and key is wrong.
 *
 * Thin over jansson: values are json_t, and jansson's own queries may be used beside these. Every
 * call that reads a value takes the file's name for its messages. The format is RFC 8259; a key
 * that occurs twice in an object is an error. Any thread may call them on its own values. */
#ifndef OC_JSON_H
#define OC_JSON_H

#include "base/nearest.h"
#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* What a missing key means. A null counts as missing when the key is optional. */
typedef enum oc_json_need { OC_JSON_OPTIONAL, OC_JSON_REQUIRED } oc_json_need;

typedef enum oc_json_text {
    OC_JSON_NO_NUL,      /* \u0000 inside a string is an error: for names, paths, configs */
    OC_JSON_ALLOW_NUL,   /* for tokenizers and data; take lengths by json_string_length() */
    OC_JSON_INT_AS_REAL, /* as OC_JSON_NO_NUL; every number is a real, so that none is too big:
                            tokenizer_config.json files hold 10^30 written out */
} oc_json_text;

/* --- Whole documents. *out belongs to the caller: json_decref(). On failure it is NULL. */

/* The file must hold exactly one value. The error names file, line and column. */
OC_NODISCARD oc_status oc_json_load(json_t **out, const char *file, oc_json_text text,
                                    oc_error *err);
/* Of n bytes that came from `file`; the first line of the text is `line` of it (for JSON Lines). */
OC_NODISCARD oc_status oc_json_parse(json_t **out, const char *bytes, size_t n, const char *file,
                                     uint64_t line, oc_json_text text, oc_error *err);

/* As jansson's json_loadb(), which must not be called: where memory fails inside a document that
 * may give another one, or crash. Here it gives NULL, and e has json_error_out_of_memory. */
json_t *oc_json_read(const char *bytes, size_t n, size_t flags, json_error_t *e);
/* The same for whoever wants to know no more than that. no_memory may be NULL. */
json_t *oc_json_of(const char *bytes, size_t n, size_t flags, bool *no_memory);

/* --- Members of an object. A missing optional key leaves *out as it is, so set the default there
 * first. A value of another type is an error that names file, key and the type expected. Strings,
 * arrays and objects are borrowed from the document. */

OC_NODISCARD oc_status oc_json_get_bool(const json_t *object, const char *file, const char *key,
                                        oc_json_need need, bool *out, oc_error *err);
/* An integer in [least, most]; 2.0 is not one. */
OC_NODISCARD oc_status oc_json_get_int(const json_t *object, const char *file, const char *key,
                                       oc_json_need need, int64_t least, int64_t most, int64_t *out,
                                       oc_error *err);
/* Any finite number. */
OC_NODISCARD oc_status oc_json_get_double(const json_t *object, const char *file, const char *key,
                                          oc_json_need need, double *out, oc_error *err);
/* One that holds U+0000 is refused: callers take it for a C string. */
OC_NODISCARD oc_status oc_json_get_string(const json_t *object, const char *file, const char *key,
                                          oc_json_need need, const char **out, oc_error *err);
OC_NODISCARD oc_status oc_json_get_object(const json_t *object, const char *file, const char *key,
                                          oc_json_need need, json_t **out, oc_error *err);
OC_NODISCARD oc_status oc_json_get_array(const json_t *object, const char *file, const char *key,
                                         oc_json_need need, json_t **out, oc_error *err);

/* --- Keys */

/* Fails on the first key of object that is not among the n known ones, and names the nearest. what:
 * where the object stands, as "optimizer.params", or NULL for the top of the file. */
OC_NODISCARD oc_status oc_json_check_keys(const json_t *object, const char *file, const char *what,
                                          const char *const *known, size_t n, oc_error *err);

/* --- Building. NULL stands for a value that there was no memory for: what it is put into becomes
 * NULL in turn, so that only the whole has to be looked at. Both arguments are taken over. */

json_t *oc_json_with(json_t *object, const char *key, json_t *value);
json_t *oc_json_append(json_t *array, json_t *value);

/* As jansson's json_dumps(), which must not be called: where memory fails it leaves a piece out.
 * NULL: no memory. free() it. */
char *oc_json_dump(const json_t *value, size_t flags);
/* The value and a line end; flags as json_dumps() has them. */
OC_NODISCARD oc_status oc_json_print(const json_t *value, size_t flags, FILE *to, oc_error *err);
/* Whether a text may be a JSON string: valid UTF-8. */
bool oc_json_is_text(const char *text);

/* "an object", "a string", ... for messages. */
const char *oc_json_type_name(const json_t *value);

#endif
