/* json.c - see json.h. */
#include "base/json.h"

#include "base/fs.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- memory ----
 *
 * Where the library has no memory inside a document it takes the text for ended, leaves a member
 * out, or crashes. So its allocator is watched, and has a reserve to end on: the text ends soon
 * after the first failure, and a document for which there was not enough is no document. */

enum { RESERVE_BYTES = 256 << 10, CHUNK_BYTES = 256 };

static struct {
    pthread_once_t once;
    pthread_mutex_t lock; /* one thread at a time lives on the reserve */
    json_malloc_t malloc;
    json_free_t free;
    _Alignas(16) char reserve[RESERVE_BYTES];
    size_t used;
} allocator = {.once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER};
static _Thread_local bool reading, starved; /* a document; and there was no memory for it */

static void *from_reserve(size_t n) {
    size_t size = (n + 15) / 16 * 16;
    if (!starved) (void)pthread_mutex_lock(&allocator.lock);
    starved = true;
    if (size > RESERVE_BYTES - allocator.used) return NULL;
    void *p = allocator.reserve + allocator.used;
    allocator.used += size;
    return p;
}

static void *watched_malloc(size_t n) {
    void *p = allocator.malloc(n);
    return p || !reading ? p : from_reserve(n);
}

static void watched_free(void *p) {
    const char *at = p, *first = allocator.reserve;
    if (at < first || at >= first + RESERVE_BYTES) allocator.free(p);
}

static void watch_allocator(void) {
    json_get_alloc_funcs(&allocator.malloc, &allocator.free);
    json_set_alloc_funcs(watched_malloc, watched_free);
}

typedef struct source {
    size_t (*read)(void *to, size_t n, void *data);
    void *data;
} source;

/* A little at a time, so that little is asked of the reserve. */
static size_t read_watched(void *to, size_t n, void *data) {
    const source *s = data;
    if (starved) return (size_t)-1;
    return s->read(to, n < CHUNK_BYTES ? n : CHUNK_BYTES, s->data);
}

static void begin_watch(void) {
    (void)pthread_once(&allocator.once, watch_allocator);
    reading = true;
}

/* Whether there was memory for all since the beginning. What lies in the reserve is gone. */
static bool end_watch(void) {
    reading = false;
    if (!starved) return true;
    allocator.used = 0;
    starved = false;
    (void)pthread_mutex_unlock(&allocator.lock);
    return false;
}

static json_t *read_document(source s, size_t flags, json_error_t *e) {
    begin_watch();
    json_t *root = json_load_callback(read_watched, &s, flags, e);
    reading = false;
    if (starved) json_decref(root);
    if (end_watch()) return root;
    e->text[JSON_ERROR_TEXT_LENGTH - 1] = json_error_out_of_memory;
    return NULL;
}

char *oc_json_dump(const json_t *value, size_t flags) {
    begin_watch();
    char *text = json_dumps(value, flags);
    reading = false;
    if (starved) watched_free(text);
    return end_watch() ? text : NULL;
}

typedef struct text_left {
    const char *at;
    size_t n;
} text_left;

static size_t read_text(void *to, size_t n, void *data) {
    text_left *t = data;
    size_t some = n < t->n ? n : t->n;
    memcpy(to, t->at, some);
    t->at += some;
    t->n -= some;
    return some;
}

json_t *oc_json_of(const char *bytes, size_t n, size_t flags, bool *no_memory) {
    json_error_t e;
    json_t *root = oc_json_read(bytes, n, flags, &e);
    if (no_memory) *no_memory = !root && json_error_code(&e) == json_error_out_of_memory;
    return root;
}

json_t *oc_json_read(const char *bytes, size_t n, size_t flags, json_error_t *e) {
    text_left t = {n > 0 ? bytes : "", n};
    return read_document((source){read_text, &t}, flags, e);
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
    if (json_error_code(e) == json_error_out_of_memory) return no_memory(file, err);
    uint64_t line = first_line - 1 + (uint64_t)(e->line > 0 ? e->line : 1);
    return oc_fail(err, OC_E_FORMAT, "%s:%" PRIu64 ":%d: not valid JSON: %s", file, line,
                   e->column > 0 ? e->column : 1, e->text);
}

oc_status oc_json_parse(json_t **out, const char *bytes, size_t n, const char *file, uint64_t line,
                        oc_json_text text, oc_error *err) {
    json_error_t e;
    *out = oc_json_read(bytes, n, flags(text), &e);
    return *out ? OC_OK : parse_failure(&e, file, line, err);
}

/* jansson's callback cannot tell a read error from the end of the file in a way that keeps errno,
 * so it is kept beside. */
typedef struct file_source {
    FILE *f;
    int errno_value;
} file_source;

static size_t read_some(void *buffer, size_t size, void *data) {
    file_source *s = data;
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
    file_source s = {fdopen(fd, "r"), 0};
    if (!s.f) {
        oc_status st = oc_fail_errno(err, OC_E_IO, errno, "%s: cannot be opened", file);
        (void)close(fd);
        return st;
    }
    json_error_t e;
    json_t *root = read_document((source){read_some, &s}, flags(text), &e);
    fclose(s.f);
    if (s.errno_value) {
        json_decref(root);
        return oc_fail_errno(err, OC_E_IO, s.errno_value, "%s: cannot be read", file);
    }
    if (!root) return parse_failure(&e, file, 1, err);
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

oc_status oc_json_print(const json_t *value, size_t flags, FILE *to, oc_error *err) {
    char *text = oc_json_dump(value, flags);
    if (!text) return oc_fail(err, OC_E_MEMORY, "no memory to write a result");
    bool done = fputs(text, to) >= 0 && fputc('\n', to) != EOF;
    free(text);
    if (done) return OC_OK;
    return oc_fail(err, OC_E_IO, "the result could not be written to standard output");
}

/* Bytes that follow the first of a character; -1: none begins so. */
static int bytes_behind(unsigned char c) {
    return c < 0x80                ? 0
           : c >= 0xc2 && c < 0xe0 ? 1
           : c >= 0xe0 && c < 0xf0 ? 2
           : c >= 0xf0 && c < 0xf5 ? 3
                                   : -1;
}

/* The least and the largest second byte: neither longer than need be, nor a half of a pair, nor
 * beyond the last character. */
static bool second_fits(unsigned char first, unsigned char second) {
    unsigned char least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    unsigned char most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    return second >= least && second <= most;
}

bool oc_json_is_text(const char *text) {
    const unsigned char *p = (const unsigned char *)text;
    while (*p) {
        int n = bytes_behind(*p);
        if (n < 0 || (n > 0 && !second_fits(p[0], p[1]))) return false;
        for (int i = 2; i <= n; i++)
            if ((p[i] & 0xc0) != 0x80) return false;
        p += n + 1;
    }
    return true;
}
