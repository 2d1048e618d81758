/* rows.c - files row by row. */
#include "data/internal.h"
#include "data/lines.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PIECE_BYTES = 64 * 1024,
    FIRST_BYTES = 1 << 20,
    PLACE_BYTES = 32 /* ":18446744073709551615" and the like */
};

/* One file on its way in. */
typedef struct reader {
    oc_rows *rows;
    const char *path;
    const oc_columns *columns;
    char *where; /* of the row: path, and its line or place in an array */
    size_t where_bytes;
    oc_row_form form, this; /* of the file's rows; of this one, which may be empty */
    uint64_t count, kept;
} reader;

/* ---- a row that is ready ---- */

/* A row that trains nothing is left out: a token that opens a sequence is never a target (a row
 * that is longer than one begins one, and is cut there), and without packing neither is what a
 * sequence cuts off. */
static bool trains(const oc_encoder *e, size_t begin, size_t n, const oc_packer *p) {
    size_t seq = (size_t)p->seq;
    if (!p->packing && n > seq) n = seq;
    for (size_t i = 1; i < n; i++)
        if (e->labels[begin + i] != OC_IGNORE && i % seq != 0) return true;
    return false;
}

static oc_status take_document(reader *r, size_t begin, size_t end, oc_error *err) {
    const oc_encoder *e = &r->rows->encoder;
    oc_packer *p = r->rows->packer;
    p->report->rows++;
    if (!trains(e, begin, end - begin, p)) {
        p->report->dropped++;
        return OC_OK;
    }
    r->kept++;
    OC_TRY(oc_packer_put(p, e->ids + begin, e->labels + begin, (int64_t)(end - begin), err));
    return oc_packer_end(p, err);
}

static oc_status take_row(reader *r, oc_error *err) {
    const oc_encoder *e = &r->rows->encoder;
    r->count++;
    if (r->rows->packer == NULL) {
        const oc_row row = {
            r->where, oc_row_form_name(r->this), e->ids, e->labels, e->n, e->starts, e->n_starts};
        return r->rows->visit(r->rows->arg, &row, err);
    }
    if (e->n_starts == 0) return take_document(r, 0, e->n, err);
    for (size_t i = 0; i < e->n_starts; i++)
        OC_TRY(take_document(r, e->starts[i], i + 1 < e->n_starts ? e->starts[i + 1] : e->n, err));
    return OC_OK;
}

/* ---- .txt ---- */

static oc_status put_one(reader *r, int32_t id, oc_error *err) {
    if (id < 0) return OC_OK;
    if (id >= r->rows->encoder.vocab)
        return oc_fail(err, OC_E_INVALID,
                       "%s: token id %" PRId32 " is not in the model's vocabulary [0, %" PRId64 ")",
                       r->where, id, r->rows->encoder.vocab);
    return oc_packer_put(r->rows->packer, &id, &id, 1, err);
}

/* One document of any length in small memory; possible when pieces encode like the whole. */
static oc_status stream_text(reader *r, oc_lines *in, const char *piece, size_t n, oc_error *err) {
    oc_encoder *e = &r->rows->encoder;
    oc_packer *p = r->rows->packer;
    OC_TRY(put_one(r, oc_tokenizer_bos(e->tokenizer), err));
    while (n > 0) {
        OC_TRY(oc_encoder_piece(e, piece, n, r->where, err));
        OC_TRY(oc_packer_put(p, e->ids, e->labels, (int64_t)e->n, err));
        OC_TRY(oc_lines_piece(in, PIECE_BYTES, &piece, &n, err));
    }
    OC_TRY(put_one(r, oc_tokenizer_eos(e->tokenizer), err));
    r->count++;
    r->kept++;
    p->report->rows++;
    return oc_packer_end(p, err);
}

static oc_status read_txt(reader *r, oc_lines *in, oc_error *err) {
    const oc_tokenizer *t = r->rows->encoder.tokenizer;
    bool stream = r->rows->packer != NULL && t != NULL && oc_tokenizer_pieces(t);
    const char *text;
    size_t n;
    if (r->columns != NULL)
        return oc_fail(err, OC_E_UNSUPPORTED,
                       "%s: a text file is one document and has no columns, which its "
                       "dataset_info.json names: give it to --data itself, or its lines as rows of "
                       ".jsonl",
                       r->path);
    r->form = r->this = OC_ROW_TEXT;
    OC_TRY(oc_lines_piece(in, stream ? PIECE_BYTES : SIZE_MAX, &text, &n, err));
    if (n == 0)
        return oc_fail(err, OC_E_INVALID, "%s is empty: there is no document in it", r->path);
    if (stream) return stream_text(r, in, text, n, err);
    OC_TRY(oc_encoder_text(&r->rows->encoder, text, n, r->where, err));
    return take_row(r, err);
}

/* ---- rows of JSON ---- */

static void place(reader *r, bool array, uint64_t at) {
    size_t n = strlen(r->path);
    (void)snprintf(r->where + n, r->where_bytes - n, "%s%" PRIu64, array ? ": row " : ":", at);
}

/* What JSON refuses may still be a row of Python's. */
static oc_status parse(reader *r, const char *text, size_t n, uint64_t line, json_t **row,
                       oc_error *err) {
    char *repaired;
    size_t m;
    oc_status s = oc_json_parse(row, text, n, r->path, line, OC_JSON_ALLOW_NUL, err);
    if (s != OC_E_FORMAT) return s;
    OC_TRY(oc_numbers_repair(text, n, &repaired, &m, err));
    if (repaired == NULL) return s;
    oc_status again = oc_json_parse(row, repaired, m, r->path, line, OC_JSON_ALLOW_NUL, NULL);
    free(repaired);
    if (again == OC_OK) oc_notes_add(&r->rows->encoder.notes, OC_NOTE_NUMBERS, r->where);
    return again == OC_OK ? OC_OK : s;
}

/* A row that is empty is of any form. */
static oc_status check_form(reader *r, oc_row_kind *kind, oc_error *err) {
    if (kind->empty && r->form != OC_ROW_NONE) kind->form = r->form;
    if (r->form != OC_ROW_NONE && r->form != kind->form)
        return oc_fail(err, OC_E_FORMAT,
                       "%s: this row is %s but the file began with %s; use one file for each",
                       r->where, oc_row_form_name(kind->form), oc_row_form_name(r->form));
    r->this = kind->form;
    if (!kind->empty) r->form = kind->form;
    return OC_OK;
}

/* As a row of ours. */
static oc_status rename_columns(const reader *r, json_t **row, oc_error *err) {
    json_t *ours = NULL;
    if (r->columns == NULL) return OC_OK;
    OC_TRY(oc_columns_row(r->columns, *row, r->where, &ours, err));
    json_decref(*row);
    *row = ours;
    return OC_OK;
}

static oc_status tell_kind(reader *r, json_t *row, oc_row_kind *kind, oc_error *err) {
    *kind = (oc_row_kind){r->form, true, false};
    if (r->form == OC_ROW_NONE || !oc_row_lacks_answer(row, r->form))
        OC_TRY(oc_row_kind_of(row, r->where, kind, err));
    return check_form(r, kind, err);
}

static oc_status take_json(reader *r, const char *text, size_t n, uint64_t line, oc_error *err) {
    json_t *row;
    oc_row_kind kind;
    OC_TRY(parse(r, text, n, line, &row, err));
    oc_status s = rename_columns(r, &row, err);
    if (s == OC_OK) s = tell_kind(r, row, &kind, err);
    if (s == OC_OK) s = oc_encoder_row(&r->rows->encoder, row, kind, r->where, err);
    json_decref(row);
    return s == OC_OK ? take_row(r, err) : s;
}

static bool blank(const char *s, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (s[i] != ' ' && s[i] != '\t' && s[i] != '\r') return false;
    return true;
}

static oc_status read_lines(reader *r, oc_lines *in, oc_error *err) {
    const char *line;
    size_t n;
    bool more;
    for (uint64_t at = 1;; at++) {
        OC_TRY(oc_lines_next(in, &line, &n, &more, err));
        if (!more) return OC_OK;
        if (blank(line, n)) continue;
        place(r, false, at);
        OC_TRY(take_json(r, line, n, at, err));
    }
}

static oc_status read_array(reader *r, oc_lines *in, oc_error *err) {
    const char *text;
    size_t n;
    uint64_t line;
    bool more;
    for (uint64_t at = 1;; at++) {
        OC_TRY(oc_lines_element(in, &text, &n, &line, &more, err));
        if (!more) return OC_OK;
        place(r, true, at);
        OC_TRY(take_json(r, text, n, line, err));
    }
}

/* An array of rows, or (which many call .json too) a row a line. */
static oc_status read_json(reader *r, oc_lines *in, oc_error *err) {
    bool array;
    OC_TRY(oc_lines_is_array(in, &array, err));
    if (array) return read_array(r, in, err);
    oc_status s = read_lines(r, in, err);
    if (s == OC_E_FORMAT && r->count == 0)
        return oc_error_prefix(err, s,
                               "a .json file is one array of rows or, as .jsonl, a row a line");
    return s;
}

/* ---- files ---- */

static oc_status check_kept(const reader *r, oc_error *err) {
    if (r->count == 0) return oc_fail(err, OC_E_INVALID, "%s is empty: it has no rows", r->path);
    if (r->rows->packer == NULL || r->kept > 0) return OC_OK;
    return oc_fail(err, OC_E_INVALID,
                   "%s: none of its %" PRIu64 " rows has a trainable token (a label other than "
                   "-100, or text of an assistant's message, after the first token of a sequence)",
                   r->path, r->count);
}

/* Text, JSON, words, ids and labels of a row take at most so much a byte of it (measured: 10 to
 * 45), and a small row is always read. */
static size_t row_most(uint64_t memory) {
    enum { COST = 64, LEAST = 64 * 1024 };
    if (memory == 0) return 0;
    return memory / COST > LEAST ? (size_t)(memory / COST) : LEAST;
}

static oc_status read_file(reader *r, oc_file_kind kind, oc_error *err) {
    oc_lines in;
    OC_TRY(oc_lines_open(&in, r->path, err));
    oc_lines_limit(&in, row_most(r->rows->memory));
    oc_status s = kind == OC_FILE_TXT    ? read_txt(r, &in, err)
                  : kind == OC_FILE_JSON ? read_json(r, &in, err)
                                         : read_lines(r, &in, err);
    oc_lines_close(&in);
    return s == OC_OK ? check_kept(r, err) : s;
}

static oc_status check_kind(const char *path, oc_error *err) {
    if (oc_data_file_kind(path) != OC_FILE_OTHER) return OC_OK;
    return oc_fail(err, OC_E_UNSUPPORTED,
                   "%s: data files are .txt (one document), .jsonl (one row a line) or .json "
                   "(an array of rows), plain or .gz or .zst",
                   path);
}

oc_status oc_data_files_check(const oc_data_files *f, oc_error *err) {
    for (int32_t i = 0; i < f->n; i++) {
        oc_lines in;
        OC_TRY(check_kind(f->paths[i], err));
        OC_TRY(oc_lines_open(&in, f->paths[i], err));
        oc_lines_close(&in);
    }
    return OC_OK;
}

oc_status oc_rows_read(oc_rows *rows, const char *path, const oc_columns *columns, oc_error *err) {
    oc_file_kind kind = oc_data_file_kind(path);
    size_t n = strlen(path);
    OC_TRY(check_kind(path, err));
    reader r = {.rows = rows, .path = path, .columns = columns, .where_bytes = n + PLACE_BYTES};
    r.where = malloc(r.where_bytes);
    if (r.where == NULL) return oc_fail(err, OC_E_MEMORY, "%s: no memory to read it", path);
    memcpy(r.where, path, n + 1);
    oc_status s = read_file(&r, kind, err);
    free(r.where);
    return s;
}

/* ---- the first row ---- */

static oc_status no_memory(const char *path, oc_error *err) {
    return oc_fail(err, OC_E_MEMORY, "%s: no memory to look at its first row", path);
}

/* What cannot be read as a row is no text: whoever reads it says why. Memory is another matter. */
static oc_status is_text(const char *text, size_t n, const char *path, bool *yes, oc_error *err) {
    oc_row_kind kind = {OC_ROW_IDS, false, false};
    char *repaired = NULL;
    size_t m = 0;
    bool starved = false;
    oc_status s = OC_OK;
    json_t *row = oc_json_of(text, n, JSON_ALLOW_NUL, &starved);
    if (row == NULL && !starved) s = oc_numbers_repair(text, n, &repaired, &m, NULL);
    if (row == NULL && s == OC_OK && repaired != NULL)
        row = oc_json_of(repaired, m, JSON_ALLOW_NUL, &starved);
    *yes = false;
    if (row != NULL) s = oc_row_kind_of(row, "", &kind, NULL);
    if (row != NULL && s == OC_OK) *yes = kind.form != OC_ROW_IDS;
    json_decref(row);
    free(repaired);
    return starved || s == OC_E_MEMORY ? no_memory(path, err) : OC_OK;
}

/* *more false: there is none that can be read. */
static oc_status first_row(oc_lines *in, bool array, const char **text, size_t *n, bool *more) {
    uint64_t line;
    oc_status s;
    *more = false;
    if (array) return oc_lines_element(in, text, n, &line, more, NULL);
    while ((s = oc_lines_next(in, text, n, more, NULL)) == OC_OK && *more)
        if (!blank(*text, *n)) return OC_OK;
    return s;
}

/* A row that is too long to be looked at whole: by what of it was read. */
static bool is_long_text(const oc_lines *in) {
    static const char ids[] = "\"input_ids\"";
    size_t n = in->end - in->begin;
    return n > FIRST_BYTES && memmem(in->buffer + in->begin, n, ids, sizeof ids - 1) == NULL;
}

static oc_status look_at(oc_lines *in, oc_file_kind kind, const char *path, bool *needs,
                         oc_error *err) {
    const char *text;
    size_t n;
    bool array = false, more = false;
    oc_lines_limit(in, FIRST_BYTES);
    oc_status s = kind == OC_FILE_JSONL ? OC_OK : oc_lines_is_array(in, &array, NULL);
    if (s == OC_OK) s = first_row(in, array, &text, &n, &more);
    bool beyond = in->end - in->begin > FIRST_BYTES; /* the limit speaks of memory, too */
    if (s == OC_E_MEMORY && !beyond) return no_memory(path, err);
    if (s == OC_OK && more) return is_text(text, n, path, needs, err);
    *needs = is_long_text(in);
    return OC_OK;
}

oc_status oc_dataset_needs_tokenizer(const char *path, bool *needs, oc_error *err) {
    oc_file_kind kind = oc_data_file_kind(path);
    oc_lines in;
    *needs = kind == OC_FILE_TXT;
    if (kind == OC_FILE_TXT || kind == OC_FILE_OTHER) return OC_OK;
    oc_status s = oc_lines_open(&in, path, NULL);
    if (s != OC_OK) return s == OC_E_MEMORY ? no_memory(path, err) : OC_OK;
    s = look_at(&in, kind, path, needs, err);
    oc_lines_close(&in);
    return s;
}
