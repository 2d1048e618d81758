#include "base/json.h"
#include "text/dataset_internal.h"
#include "text/lines.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE_BYTES = 64 * 1024 };

typedef enum row_form { FORM_NONE, FORM_TEXT, FORM_IDS } row_form;

/* One file on its way in. */
typedef struct reader {
    oc_packer *packer;
    const oc_dataset_spec *spec;
    const char *path;
    uint64_t line; /* 0: the file has no lines, messages name it alone */
    row_form form;
    uint64_t rows, kept;
    int32_t *ids, *labels; /* of one row */
    size_t room;
} reader;

static const char *form_name(row_form f) { return f == FORM_TEXT ? "text" : "input_ids"; }

static oc_status reserve(reader *r, size_t n, oc_error *err) {
    if (n <= r->room) return OC_OK;
    if (n > SIZE_MAX / sizeof *r->ids / 2) goto no_memory;
    size_t room = n + n / 2;
    int32_t *ids = realloc(r->ids, room * sizeof *ids);
    if (ids == NULL) goto no_memory;
    r->ids = ids;
    int32_t *labels = realloc(r->labels, room * sizeof *labels);
    if (labels == NULL) goto no_memory;
    r->labels = labels;
    r->room = room;
    return OC_OK;
no_memory:
    return oc_fail(err, OC_E_MEMORY, "%s:%" PRIu64 ": no memory for a row of %zu tokens", r->path,
                   r->line, n);
}

static oc_status outside(const reader *r, const char *key, size_t i, int64_t id, oc_error *err) {
    if (r->line == 0)
        return oc_fail(err, OC_E_INVALID,
                       "%s: token id %" PRId64 " is not in the model's vocabulary [0, %" PRId64 ")",
                       r->path, id, r->spec->vocab);
    return oc_fail(err, OC_E_INVALID,
                   "%s:%" PRIu64 ": %s[%zu] = %" PRId64
                   " is not in the model's vocabulary [0, %" PRId64 ")%s",
                   r->path, r->line, key, i, id, r->spec->vocab,
                   strcmp(key, "labels") == 0 ? " and not -100" : "");
}

static oc_status check_ids(const reader *r, size_t n, oc_error *err) {
    for (size_t i = 0; i < n; i++)
        if (r->ids[i] < 0 || r->ids[i] >= r->spec->vocab)
            return outside(r, form_name(r->form), i, r->ids[i], err);
    return OC_OK;
}

/* A row that trains nothing is left out: the first token is never a target, and without packing
 * neither is what a sequence cuts off. */
static bool trains(const reader *r, size_t n) {
    if (!r->spec->packing && n > (size_t)r->spec->seq) n = (size_t)r->spec->seq;
    for (size_t i = 1; i < n; i++)
        if (r->labels[i] != OC_IGNORE) return true;
    return false;
}

static oc_status take_row(reader *r, size_t n, oc_error *err) {
    r->rows++;
    r->packer->report->rows++;
    if (!trains(r, n)) {
        r->packer->report->dropped++;
        return OC_OK;
    }
    r->kept++;
    OC_TRY(oc_packer_put(r->packer, r->ids, r->labels, (int64_t)n, err));
    return oc_packer_end(r->packer, err);
}

/* ---- text ---- */

static oc_status encode(reader *r, const char *text, size_t n, bool special, size_t *n_ids,
                        oc_error *err) {
    size_t bound = oc_tokenizer_bound(r->spec->tokenizer, n);
    OC_TRY(reserve(r, bound < SIZE_MAX ? bound + 1 : bound, err));
    OC_TRY(oc_tokenizer_encode(r->spec->tokenizer, text, n, special, r->ids, n_ids, err));
    return check_ids(r, *n_ids, err);
}

static oc_status take_text(reader *r, const char *text, size_t n, oc_error *err) {
    size_t n_ids;
    int32_t eos = oc_tokenizer_eos(r->spec->tokenizer);
    OC_TRY(encode(r, text, n, true, &n_ids, err));
    if (eos >= 0 && (n_ids == 0 || r->ids[n_ids - 1] != eos)) r->ids[n_ids++] = eos;
    OC_TRY(check_ids(r, n_ids, err));
    memcpy(r->labels, r->ids, n_ids * sizeof *r->ids);
    return take_row(r, n_ids, err);
}

static oc_status put_one(reader *r, int32_t id, oc_error *err) {
    if (id < 0) return OC_OK;
    if (id >= r->spec->vocab) return outside(r, "text", 0, id, err);
    return oc_packer_put(r->packer, &id, &id, 1, err);
}

/* One document of any length in small memory; possible when pieces encode like the whole. */
static oc_status stream_text(reader *r, oc_lines *in, oc_error *err) {
    const char *piece;
    size_t n, n_ids;
    OC_TRY(put_one(r, oc_tokenizer_bos(r->spec->tokenizer), err));
    for (;;) {
        OC_TRY(oc_lines_piece(in, PIECE_BYTES, &piece, &n, err));
        if (n == 0) break;
        OC_TRY(encode(r, piece, n, false, &n_ids, err));
        OC_TRY(oc_packer_put(r->packer, r->ids, r->ids, (int64_t)n_ids, err));
    }
    OC_TRY(put_one(r, oc_tokenizer_eos(r->spec->tokenizer), err));
    r->rows++;
    r->kept++;
    r->packer->report->rows++;
    return oc_packer_end(r->packer, err);
}

static oc_status read_txt(reader *r, oc_lines *in, oc_error *err) {
    if (oc_lines_bytes(in) == 0)
        return oc_fail(err, OC_E_INVALID, "%s is empty: there is no document in it", r->path);
    r->form = FORM_TEXT;
    if (oc_tokenizer_pieces(r->spec->tokenizer)) return stream_text(r, in, err);
    const char *text;
    size_t n;
    OC_TRY(oc_lines_piece(in, (size_t)oc_lines_bytes(in), &text, &n, err));
    return take_text(r, text, n, err);
}

/* ---- jsonl ---- */

static json_t *member(const json_t *row, const char *key) {
    json_t *v = json_object_get(row, key);
    return json_is_null(v) ? NULL : v; /* exporters write null for an absent column */
}

static oc_status copy_ints(reader *r, const json_t *list, size_t n, const char *key, int32_t *out,
                           oc_error *err) {
    bool labels = strcmp(key, "labels") == 0;
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(list, i);
        if (!json_is_integer(v))
            return oc_fail(err, OC_E_FORMAT, "%s:%" PRIu64 ": %s[%zu] is %s, not an integer",
                           r->path, r->line, key, i, oc_json_type_name(v));
        int64_t id = json_integer_value(v);
        if ((id < 0 || id >= r->spec->vocab) && !(labels && id == OC_IGNORE))
            return outside(r, key, i, id, err);
        out[i] = (int32_t)id;
    }
    return OC_OK;
}

/* The packer decides what is padding; a row that masks its own would be trained on differently. */
static oc_status check_mask(const reader *r, const json_t *row, oc_error *err) {
    const json_t *mask = member(row, "attention_mask");
    for (size_t i = 0; i < json_array_size(mask); i++)
        if (json_integer_value(json_array_get(mask, i)) != 1)
            return oc_fail(err, OC_E_UNSUPPORTED,
                           "%s:%" PRIu64 ": attention_mask[%zu] is not 1; leave padding out of "
                           "input_ids",
                           r->path, r->line, i);
    return OC_OK;
}

static oc_status take_ids(reader *r, const json_t *row, const json_t *ids, oc_error *err) {
    if (!json_is_array(ids))
        return oc_fail(err, OC_E_FORMAT, "%s:%" PRIu64 ": \"input_ids\" is %s, not an array",
                       r->path, r->line, oc_json_type_name(ids));
    size_t n = json_array_size(ids);
    OC_TRY(reserve(r, n, err));
    OC_TRY(copy_ints(r, ids, n, "input_ids", r->ids, err));
    OC_TRY(check_mask(r, row, err));
    const json_t *labels = member(row, "labels");
    if (labels != NULL) {
        if (!json_is_array(labels) || json_array_size(labels) != n)
            return oc_fail(err, OC_E_FORMAT,
                           "%s:%" PRIu64 ": \"labels\" is not an array of %zu, as \"input_ids\" is",
                           r->path, r->line, n);
        OC_TRY(copy_ints(r, labels, n, "labels", r->labels, err));
    } else if (n > 0) {
        memcpy(r->labels, r->ids, n * sizeof *r->ids);
    }
    return take_row(r, n, err);
}

static oc_status no_form(const reader *r, const json_t *row, oc_error *err) {
    static const char *const later[] = {"messages", "prompt", "completion", "instruction",
                                        "conversations"};
    for (size_t i = 0; i < sizeof later / sizeof later[0]; i++)
        if (member(row, later[i]) != NULL)
            return oc_fail(err, OC_E_UNSUPPORTED,
                           "%s:%" PRIu64 ": rows of \"%s\" are not supported yet; turn them into "
                           "\"input_ids\" and \"labels\"",
                           r->path, r->line, later[i]);
    return oc_fail(err, OC_E_FORMAT,
                   "%s:%" PRIu64 ": the row has neither \"text\" nor "
                   "\"input_ids\"",
                   r->path, r->line);
}

static oc_status take_object(reader *r, const json_t *row, oc_error *err) {
    if (!json_is_object(row))
        return oc_fail(err, OC_E_FORMAT, "%s:%" PRIu64 ": the row is %s, not an object", r->path,
                       r->line, oc_json_type_name(row));
    const json_t *text = member(row, "text"), *ids = member(row, "input_ids");
    if (text == NULL && ids == NULL) return no_form(r, row, err);
    if (text != NULL && ids != NULL)
        return oc_fail(err, OC_E_FORMAT,
                       "%s:%" PRIu64 ": the row has \"text\" and \"input_ids\"; "
                       "keep one",
                       r->path, r->line);
    row_form form = text != NULL ? FORM_TEXT : FORM_IDS;
    if (r->form != FORM_NONE && r->form != form)
        return oc_fail(err, OC_E_FORMAT,
                       "%s:%" PRIu64
                       ": a row of \"%s\" after rows of \"%s\"; use one file for each",
                       r->path, r->line, form_name(form), form_name(r->form));
    r->form = form;
    if (form == FORM_IDS) return take_ids(r, row, ids, err);
    if (!json_is_string(text))
        return oc_fail(err, OC_E_FORMAT, "%s:%" PRIu64 ": \"text\" is %s, not a string", r->path,
                       r->line, oc_json_type_name(text));
    if (member(row, "labels") != NULL)
        return oc_fail(err, OC_E_FORMAT,
                       "%s:%" PRIu64 ": \"labels\" need \"input_ids\", not "
                       "\"text\"",
                       r->path, r->line);
    return take_text(r, json_string_value(text), json_string_length(text), err);
}

static bool blank(const char *s, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (s[i] != ' ' && s[i] != '\t' && s[i] != '\r') return false;
    return true;
}

static oc_status read_jsonl(reader *r, oc_lines *in, oc_error *err) {
    const char *line;
    size_t n;
    bool more;
    for (;;) {
        OC_TRY(oc_lines_next(in, &line, &n, &more, err));
        if (!more) break;
        r->line++;
        if (blank(line, n)) continue;
        json_t *row;
        OC_TRY(oc_json_parse(&row, line, n, r->path, r->line, OC_JSON_ALLOW_NUL, err));
        oc_status s = take_object(r, row, err);
        json_decref(row);
        OC_TRY(s);
    }
    return OC_OK;
}

/* ---- files ---- */

static oc_status check_kept(const reader *r, oc_error *err) {
    if (r->rows == 0) return oc_fail(err, OC_E_INVALID, "%s is empty: it has no rows", r->path);
    if (r->kept > 0) return OC_OK;
    return oc_fail(err, OC_E_INVALID,
                   "%s: none of its %" PRIu64 " rows has a trainable token (a label other than "
                   "-100 after the first token%s)",
                   r->path, r->rows, r->spec->packing ? "" : ", within a sequence");
}

static bool ends_with(const char *s, const char *tail) {
    size_t n = strlen(s), m = strlen(tail);
    return n > m && strcmp(s + n - m, tail) == 0;
}

oc_status oc_rows_read(oc_packer *p, const oc_dataset_spec *spec, const char *path, oc_error *err) {
    bool txt = ends_with(path, ".txt");
    if (!txt && !ends_with(path, ".jsonl"))
        return oc_fail(err, OC_E_UNSUPPORTED,
                       "%s: data files are .txt (one document) or .jsonl (one row a line)", path);
    oc_lines in;
    OC_TRY(oc_lines_open(&in, path, err));
    reader r = {.packer = p, .spec = spec, .path = path};
    oc_status s = txt ? read_txt(&r, &in, err) : read_jsonl(&r, &in, err);
    if (s == OC_OK) s = check_kept(&r, err);
    free(r.ids);
    free(r.labels);
    oc_lines_close(&in);
    return s;
}
