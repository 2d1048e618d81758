/* json.c - see json.h. */
#include "base/json.h"

#include "base/fs.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- memory ----
 *
 * The library takes what it has no memory for as the end of the text, or leaves a member out. So its
 * allocator is watched: a document for which there was not enough is no document. */

static struct {
    pthread_once_t once;
    json_malloc_t malloc;
    json_free_t free;
} allocator = {.once = PTHREAD_ONCE_INIT};
static _Thread_local bool starved; /* since the document at hand was begun */

static void *watched_malloc(size_t n) {
    void *p = allocator.malloc(n);
    if (!p) starved = true;
    return p;
}

static void watched_free(void *p) { allocator.free(p); }

static void watch_allocator(void) {
    json_get_alloc_funcs(&allocator.malloc, &allocator.free);
    json_set_alloc_funcs(watched_malloc, watched_free);
}

static void begin_document(void) {
    (void)pthread_once(&allocator.once, watch_allocator);
    starved = false;
}

static oc_status no_memory(const char *file, oc_error *err) {
    return oc_fail(err, OC_E_MEMORY, "%s: no memory to read this JSON", file);
}

const char *oc_json_type_name(const json_t *value) {
    if (!value) return "nothing";
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
        return "an integer";
    case JSON_REAL:
        return "a number with a fraction or an exponent";
    case JSON_TRUE:
        return "true";
    case JSON_FALSE:
        return "false";
    case JSON_NULL:
        return "null";
    }
    return "an unknown type";
}

static size_t flags(oc_json_text text) {
    size_t f = JSON_REJECT_DUPLICATES | JSON_DECODE_ANY;
    if (text == OC_JSON_INT_AS_REAL) f |= JSON_DECODE_INT_AS_REAL;
    return text == OC_JSON_ALLOW_NUL ? f | JSON_ALLOW_NUL : f;
}

static oc_status parse_failure(const json_error_t *e, const char *file, uint64_t first_line,
                               oc_error *err) {
    if (starved || json_error_code(e) == json_error_out_of_memory) return no_memory(file, err);
    uint64_t line = first_line - 1 + (uint64_t)(e->line > 0 ? e->line : 1);
    return oc_fail(err, OC_E_FORMAT, "%s:%" PRIu64 ":%d: not valid JSON: %s", file, line,
                   e->column > 0 ? e->column : 1, e->text);
}

oc_status oc_json_parse(json_t **out, const char *bytes, size_t n, const char *file, uint64_t line,
                        oc_json_text text, oc_error *err) {
    json_error_t e;
    begin_document();
    *out = json_loadb(bytes, n, flags(text), &e);
    if (*out && !starved) return OC_OK;
    json_decref(*out);
    *out = NULL;
    return parse_failure(&e, file, line, err);
}

/* jansson's callback cannot tell a read error from the end of the file in a way that keeps errno,
 * so it is kept beside. */
typedef struct source {
    FILE *f;
    int errno_value;
} source;

static size_t read_some(void *buffer, size_t size, void *data) {
    source *s = data;
    size_t n = fread(buffer, 1, size, s->f);
    if (n == 0 && ferror(s->f)) {
        s->errno_value = errno ? errno : EIO;
        return (size_t)-1;
    }
    return n;
}

oc_status oc_json_load(json_t **out, const char *file, oc_json_text text, oc_error *err) {
    *out = NULL;
    int fd = -1;
    OC_TRY(oc_fs_open_read(&fd, file, err));
    source s = {fdopen(fd, "r"), 0};
    if (!s.f) {
        oc_status st = oc_fail_errno(err, OC_E_IO, errno, "%s: cannot be opened", file);
        (void)close(fd);
        return st;
    }
    json_error_t e;
    begin_document();
    json_t *root = json_load_callback(read_some, &s, flags(text), &e);
    fclose(s.f);
    if (s.errno_value) {
        json_decref(root);
        return oc_fail_errno(err, OC_E_IO, s.errno_value, "%s: cannot be read", file);
    }
    if (!root || starved) {
        json_decref(root);
        return parse_failure(&e, file, 1, err);
    }
    *out = root;
    return OC_OK;
}

/* The member, or NULL in *value when it is optional and missing. */
static oc_status find(const json_t *object, const char *file, const char *key, oc_json_need need,
                      const char *expected, json_t **value, oc_error *err) {
    if (!json_is_object(object))
        return oc_fail(err, OC_E_FORMAT, "%s: \"%s\" is looked for in %s, not in an object", file,
                       key, oc_json_type_name(object));
    json_t *v = json_object_get(object, key);
    if (need == OC_JSON_OPTIONAL && json_is_null(v)) v = NULL;
    if (!v && need == OC_JSON_REQUIRED)
        return oc_fail(err, OC_E_NOTFOUND, "%s: the key \"%s\" (%s) is missing", file, key,
                       expected);
    *value = v;
    return OC_OK;
}

static oc_status wrong_type(const json_t *value, const char *file, const char *key,
                            const char *expected, oc_error *err) {
    return oc_fail(err, OC_E_FORMAT, "%s: \"%s\" must be %s, not %s", file, key, expected,
                   oc_json_type_name(value));
}

oc_status oc_json_get_bool(const json_t *object, const char *file, const char *key,
                           oc_json_need need, bool *out, oc_error *err) {
    static const char expected[] = "true or false";
    json_t *v;
    OC_TRY(find(object, file, key, need, expected, &v, err));
    if (!v) return OC_OK;
    if (!json_is_boolean(v)) return wrong_type(v, file, key, expected, err);
    *out = json_is_true(v);
    return OC_OK;
}

oc_status oc_json_get_int(const json_t *object, const char *file, const char *key,
                          oc_json_need need, int64_t least, int64_t most, int64_t *out,
                          oc_error *err) {
    static const char expected[] = "an integer";
    json_t *v;
    OC_TRY(find(object, file, key, need, expected, &v, err));
    if (!v) return OC_OK;
    if (!json_is_integer(v)) return wrong_type(v, file, key, expected, err);
    int64_t value = json_integer_value(v);
    if (value < least || value > most)
        return oc_fail(err, OC_E_INVALID,
                       "%s: \"%s\" is %" PRId64 ", but must lie in %" PRId64 " .. %" PRId64, file,
                       key, value, least, most);
    *out = value;
    return OC_OK;
}

oc_status oc_json_get_double(const json_t *object, const char *file, const char *key,
                             oc_json_need need, double *out, oc_error *err) {
    static const char expected[] = "a number";
    json_t *v;
    OC_TRY(find(object, file, key, need, expected, &v, err));
    if (!v) return OC_OK;
    if (!json_is_number(v)) return wrong_type(v, file, key, expected, err);
    *out = json_number_value(v);
    return OC_OK;
}

oc_status oc_json_get_string(const json_t *object, const char *file, const char *key,
                             oc_json_need need, const char **out, oc_error *err) {
    static const char expected[] = "a string";
    json_t *v;
    OC_TRY(find(object, file, key, need, expected, &v, err));
    if (!v) return OC_OK;
    if (!json_is_string(v)) return wrong_type(v, file, key, expected, err);
    if (strlen(json_string_value(v)) != json_string_length(v))
        return oc_fail(err, OC_E_FORMAT, "%s: \"%s\" has U+0000 in it", file, key);
    *out = json_string_value(v);
    return OC_OK;
}

oc_status oc_json_get_object(const json_t *object, const char *file, const char *key,
                             oc_json_need need, json_t **out, oc_error *err) {
    static const char expected[] = "an object";
    json_t *v;
    OC_TRY(find(object, file, key, need, expected, &v, err));
    if (!v) return OC_OK;
    if (!json_is_object(v)) return wrong_type(v, file, key, expected, err);
    *out = v;
    return OC_OK;
}

oc_status oc_json_get_array(const json_t *object, const char *file, const char *key,
                            oc_json_need need, json_t **out, oc_error *err) {
    static const char expected[] = "an array";
    json_t *v;
    OC_TRY(find(object, file, key, need, expected, &v, err));
    if (!v) return OC_OK;
    if (!json_is_array(v)) return wrong_type(v, file, key, expected, err);
    *out = v;
    return OC_OK;
}

static bool is_known(const char *key, const char *const *known, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (strcmp(key, known[i]) == 0) return true;
    return false;
}

oc_status oc_json_check_keys(const json_t *object, const char *file, const char *what,
                             const char *const *known, size_t n, oc_error *err) {
    const char *in = what ? " in " : "";
    if (!what) what = "";
    /* jansson's iterators take a non-const object, but change nothing. */
    json_t *o = json_incref((json_t *)(uintptr_t)object);
    oc_status s = OC_OK;
    for (void *i = json_object_iter(o); i && s == OC_OK; i = json_object_iter_next(o, i)) {
        const char *key = json_object_iter_key(i);
        if (is_known(key, known, n)) continue;
        const char *near = oc_nearest(key, known, n);
        s = near ? oc_fail(err, OC_E_INVALID, "%s: unknown key \"%s\"%s%s; did you mean \"%s\"?",
                           file, key, in, what, near)
                 : oc_fail(err, OC_E_INVALID, "%s: unknown key \"%s\"%s%s", file, key, in, what);
    }
    json_decref(o);
    return s;
}

/* Of a container that could not take a value nothing remains. */
static json_t *whole(json_t *container, bool failed) {
    if (!failed) return container;
    json_decref(container);
    return NULL;
}

json_t *oc_json_with(json_t *object, const char *key, json_t *value) {
    return whole(object, json_object_set_new(object, key, value) != 0);
}

json_t *oc_json_append(json_t *array, json_t *value) {
    return whole(array, json_array_append_new(array, value) != 0);
}
