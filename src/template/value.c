/* value.c - the arena, and making values. */
#include "template/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- Arena */

struct oc_tpl_chunk {
    oc_tpl_chunk *next;
    size_t used, room;
    _Alignas(16) unsigned char bytes[];
};

enum { CHUNK_BYTES = 32 << 10 };

void *oc_tpl_take(oc_tpl_arena *a, size_t bytes) {
    size_t need;
    if (__builtin_add_overflow(bytes, (size_t)15, &need)) return NULL;
    need &= ~(size_t)15;
    if (need > a->most - a->taken) return NULL;
    oc_tpl_chunk *c = a->chunks;
    if (!c || c->room - c->used < need) {
        size_t room = need > CHUNK_BYTES / 4 ? need : CHUNK_BYTES;
        c = calloc(1, sizeof *c + room);
        if (!c) return NULL;
        c->room = room;
        /* A large piece has its chunk alone; the one in use stays in front. */
        if (need > CHUNK_BYTES / 4 && a->chunks) {
            c->next = a->chunks->next;
            a->chunks->next = c;
        } else {
            c->next = a->chunks;
            a->chunks = c;
        }
    }
    void *at = c->bytes + c->used;
    c->used += need;
    a->taken += need;
    return at;
}

void oc_tpl_arena_release(oc_tpl_arena *a) {
    for (oc_tpl_chunk *c = a->chunks; c;) {
        oc_tpl_chunk *next = c->next;
        free(c);
        c = next;
    }
    a->chunks = NULL;
}

void *oc_tpl_new(oc_tpl *x, size_t count, size_t size) {
    size_t bytes;
    void *at = NULL;
    if (!__builtin_mul_overflow(count, size, &bytes)) at = oc_tpl_take(&x->arena, bytes);
    if (at) return at;
    if (bytes > x->arena.most - x->arena.taken)
        oc_tpl_note_failure(x, OC_E_OVERFLOW, "the values of the template need more than %zu bytes",
                            x->arena.most);
    else
        oc_tpl_note_failure(x, OC_E_MEMORY, "no memory for %zu bytes", bytes);
    return NULL;
}

bool oc_tpl_allow(oc_tpl *x, size_t count, size_t size) {
    size_t bytes;
    if (!__builtin_mul_overflow(count, size, &bytes) && bytes <= x->limits.output)
        return oc_tpl_step(x, bytes);
    return oc_tpl_fail(x, OC_E_OVERFLOW, "a value would be longer than the limit of %zu bytes",
                       x->limits.output);
}

/* --- Dicts */

static uint64_t mix(uint64_t h, uint64_t v) {
    h = (h ^ v) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 29;
}

/* Equal keys have equal hashes: 1, 1.0 and true are one key. */
static uint64_t hash_of(const oc_tpl_value *v) {
    uint64_t h = 0;
    int64_t i;
    switch (v->kind) {
    case TV_STRING:
        for (size_t k = 0; k < v->u.string->n; k++)
            h = (h ^ (unsigned char)v->u.string->at[k]) * 0x100000001b3u;
        return mix(h, 1);
    case TV_TUPLE:
        for (size_t k = 0; k < v->u.list->n; k++)
            h = mix(h, hash_of(&v->u.list->at[k]));
        return h;
    case TV_FLOAT:
        if (v->u.real >= -0x1p62 && v->u.real <= 0x1p62 && v->u.real == floor(v->u.real))
            return mix(2, (uint64_t)(int64_t)v->u.real);
        memcpy(&h, &v->u.real, sizeof h);
        return mix(3, h);
    default:
        return oc_tpl_as_int(v, &i) ? mix(2, (uint64_t)i) : mix(4, v->kind);
    }
}

static bool same_key(const oc_tpl_value *a, const oc_tpl_value *b) {
    if (a->kind == TV_STRING && b->kind == TV_STRING)
        return a->u.string->n == b->u.string->n &&
               (a->u.string->n == 0 ||
                memcmp(a->u.string->at, b->u.string->at, a->u.string->n) == 0);
    if (oc_tpl_is_number(a) && oc_tpl_is_number(b)) return oc_tpl_compare_numbers(a, b) == 0;
    if (a->kind == TV_TUPLE && b->kind == TV_TUPLE) {
        if (a->u.list->n != b->u.list->n) return false;
        for (size_t i = 0; i < a->u.list->n; i++)
            if (!same_key(&a->u.list->at[i], &b->u.list->at[i])) return false;
        return true;
    }
    return oc_tpl_same(a, b);
}

oc_tpl_dict *oc_tpl_dict_new(oc_tpl_arena *a) {
    oc_tpl_dict *d = oc_tpl_take(a, sizeof *d);
    if (d) d->message = NO_MESSAGE;
    return d;
}

static size_t find_entry(const oc_tpl_dict *d, const oc_tpl_value *key, uint64_t hash) {
    if (!d->index) {
        for (size_t i = 0; i < d->n; i++)
            if (d->entries[i].hash == hash && same_key(&d->entries[i].key, key)) return i;
        return d->n;
    }
    for (size_t slot = hash & (d->index_room - 1); d->index[slot];
         slot = (slot + 1) & (d->index_room - 1)) {
        const oc_tpl_entry *e = &d->entries[d->index[slot] - 1];
        if (e->hash == hash && same_key(&e->key, key)) return d->index[slot] - 1;
    }
    return d->n;
}

static void index_entry(oc_tpl_dict *d, size_t i) {
    size_t slot = d->entries[i].hash & (d->index_room - 1);
    while (d->index[slot])
        slot = (slot + 1) & (d->index_room - 1);
    d->index[slot] = (uint32_t)(i + 1);
}

static bool grow_dict(oc_tpl_arena *a, oc_tpl_dict *d) {
    size_t room = d->room ? 2 * d->room : 4;
    if (room > UINT32_MAX / 4) return false;
    oc_tpl_entry *entries = oc_tpl_take(a, room * sizeof *entries);
    if (!entries) return false;
    if (d->n) memcpy(entries, d->entries, d->n * sizeof *entries);
    d->entries = entries;
    d->room = room;
    if (room <= 8) return true;
    d->index = oc_tpl_take(a, 2 * room * sizeof *d->index);
    if (!d->index) return false;
    d->index_room = 2 * room;
    for (size_t i = 0; i < d->n; i++)
        index_entry(d, i);
    return true;
}

bool oc_tpl_dict_set(oc_tpl_arena *a, oc_tpl_dict *d, const oc_tpl_value *key, oc_tpl_value value) {
    uint64_t hash = hash_of(key);
    size_t i = find_entry(d, key, hash);
    if (i == d->n) {
        if (d->n == d->room && !grow_dict(a, d)) return false;
        d->entries[d->n++] = (oc_tpl_entry){*key, value, hash};
        if (d->index) index_entry(d, i);
    }
    d->entries[i].value = value;
    return true;
}

const oc_tpl_value *oc_tpl_dict_get(const oc_tpl_dict *d, const oc_tpl_value *key) {
    size_t i = find_entry(d, key, hash_of(key));
    return i < d->n ? &d->entries[i].value : NULL;
}

const oc_tpl_value *oc_tpl_dict_find(const oc_tpl_dict *d, const char *key, size_t n) {
    const oc_tpl_str s = {.at = key, .n = n};
    const oc_tpl_value v = {.kind = TV_STRING, .u.string = &s};
    return oc_tpl_dict_get(d, &v);
}

bool oc_tpl_hashable(oc_tpl *x, const oc_tpl_value *key) {
    if (key->kind == TV_LIST || key->kind == TV_DICT || key->kind == TV_VIEW)
        return oc_tpl_fail(x, OC_E_INVALID, "%s cannot be a key", oc_tpl_type_name(key));
    if (key->kind != TV_TUPLE) return true;
    if (!oc_tpl_deeper(x)) return false;
    for (size_t i = 0; i < key->u.list->n; i++)
        if (!oc_tpl_hashable(x, &key->u.list->at[i])) return false;
    x->depth--;
    return true;
}

/* --- Constructors */

static bool is_ascii(const char *at, size_t n) {
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)at[i] >= 0x80) return false;
    return true;
}

bool oc_tpl_string(oc_tpl *x, const char *at, size_t n, oc_tpl_value *out) {
    oc_tpl_str *s = oc_tpl_new(x, 1, sizeof *s);
    if (!s) return false;
    *s = (oc_tpl_str){.at = at, .n = n, .ascii = is_ascii(at, n)};
    *out = (oc_tpl_value){.kind = TV_STRING, .u.string = s};
    return true;
}

bool oc_tpl_part(oc_tpl *x, const oc_tpl_str *s, size_t begin, size_t end, oc_tpl_value *out) {
    if (!oc_tpl_string(x, s->at + begin, end - begin, out)) return false;
    if (!s->n_marks) return true;
    oc_tpl_mark *marks = oc_tpl_new(x, s->n_marks, sizeof *marks);
    oc_tpl_str *part = oc_tpl_new(x, 1, sizeof *part);
    if (!marks || !part) return false;
    *part = *out->u.string;
    for (size_t i = 0; i < s->n_marks; i++) {
        oc_tpl_mark m = s->marks[i];
        if (m.begin < begin) m.begin = begin;
        if (m.end > end) m.end = end;
        if (m.begin >= m.end) continue;
        m.begin -= begin;
        m.end -= begin;
        marks[part->n_marks++] = m;
    }
    part->marks = marks;
    out->u.string = part;
    return true;
}

bool oc_tpl_copy(oc_tpl *x, const char *at, size_t n, oc_tpl_value *out) {
    if (!oc_tpl_allow(x, n, 1)) return false;
    char *copy = oc_tpl_new(x, n, 1);
    if (!copy) return false;
    if (n) memcpy(copy, at, n);
    return oc_tpl_string(x, copy, n, out);
}

bool oc_tpl_undefined(oc_tpl *x, oc_tpl_absence how, oc_tpl_kind type, const char *name, size_t n,
                      oc_tpl_value *out) {
    oc_tpl_value s;
    if (!oc_tpl_string(x, name, n, &s)) return false;
    *out = (oc_tpl_value){
        .kind = TV_UNDEFINED, .flag = (uint8_t)how, .type = (uint16_t)type, .u.string = s.u.string};
    return true;
}

bool oc_tpl_sequence(oc_tpl *x, oc_tpl_kind kind, const oc_tpl_value *at, size_t n,
                     oc_tpl_value *out) {
    static const oc_tpl_value nothing[1];
    oc_tpl_list *l = oc_tpl_new(x, 1, sizeof *l);
    if (!l) return false;
    *l = (oc_tpl_list){.at = at ? at : nothing, .n = n};
    *out = (oc_tpl_value){.kind = (uint8_t)kind, .u.list = l};
    return true;
}

bool oc_tpl_range_new(oc_tpl *x, int64_t start, int64_t stop, int64_t step, oc_tpl_value *out) {
    if (step == 0) return oc_tpl_fail(x, OC_E_INVALID, "the step of range() is zero");
    __extension__ typedef __int128 wide;
    wide distance = step > 0 ? (wide)stop - start : (wide)start - stop;
    wide stride = step > 0 ? (wide)step : -(wide)step;
    wide n = distance > 0 ? (distance + stride - 1) / stride : 0;
    if (n > 100000)
        return oc_tpl_fail(x, OC_E_OVERFLOW, "range() would have more than 100000 elements");
    oc_tpl_range *r = oc_tpl_new(x, 1, sizeof *r);
    if (!r) return false;
    *r = (oc_tpl_range){start, step, (size_t)n, stop};
    *out = (oc_tpl_value){.kind = TV_RANGE, .u.range = r};
    return true;
}

static bool list_from_json(oc_tpl *x, const json_t *json, oc_tpl_value *out) {
    size_t n = json_array_size(json);
    oc_tpl_value *at = oc_tpl_new(x, n, sizeof *at);
    if (!at) return false;
    for (size_t i = 0; i < n; i++)
        if (!oc_tpl_from_json(x, json_array_get(json, i), &at[i])) return false;
    return oc_tpl_sequence(x, TV_LIST, at, n, out);
}

static bool dict_from_json(oc_tpl *x, const json_t *json, oc_tpl_value *out) {
    oc_tpl_dict *d = oc_tpl_dict_new(&x->arena);
    const char *name;
    size_t name_n;
    json_t *member;
    if (!d) return oc_tpl_fail(x, OC_E_MEMORY, "no memory for the variables");
    json_object_keylen_foreach((json_t *)(uintptr_t)json, name, name_n, member) {
        oc_tpl_value key, value;
        if (!oc_tpl_string(x, name, name_n, &key) || !oc_tpl_from_json(x, member, &value))
            return false;
        if (!oc_tpl_dict_set(&x->arena, d, &key, value))
            return oc_tpl_fail(x, OC_E_MEMORY, "no memory for the variables");
    }
    *out = (oc_tpl_value){.kind = TV_DICT, .u.dict = d};
    return true;
}

static bool nested_from_json(oc_tpl *x, const json_t *json, oc_tpl_value *out) {
    if (!oc_tpl_deeper(x)) return false;
    if (!(json_is_array(json) ? list_from_json : dict_from_json)(x, json, out)) return false;
    x->depth--;
    return true;
}

bool oc_tpl_from_json(oc_tpl *x, const json_t *json, oc_tpl_value *out) {
    switch (json_typeof(json)) {
    case JSON_OBJECT:
    case JSON_ARRAY:
        return nested_from_json(x, json, out);
    case JSON_STRING:
        return oc_tpl_string(x, json_string_value(json), json_string_length(json), out);
    case JSON_INTEGER:
        *out = oc_tpl_int(json_integer_value(json));
        return true;
    case JSON_REAL:
        *out = oc_tpl_float(json_real_value(json));
        return true;
    case JSON_TRUE:
    case JSON_FALSE:
        *out = oc_tpl_bool(json_is_true(json));
        return true;
    default:
        *out = oc_tpl_none();
        return true;
    }
}
