/* rows.c - files row by row. */
#include "data/internal.h"
#include "data/lines.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE_BYTES = 64 * 1024, PLACE_BYTES = 32 /* ":18446744073709551615" and the like */ };

/* One file on its way in. */
typedef struct reader {
    oc_rows *rows;
    const char *path;
    char *where; /* of the row: path, and its line or place in an array */
    size_t where_bytes;
    oc_row_form form;
    uint64_t count, kept;
} reader;

/* ---- a row that is ready ---- */

/* A row that trains nothing is left out: a token that opens a sequence is never a target (a row
 * that is longer than one begins one, and is cut there), and without packing neither is what a
 * sequence cuts off. */
static bool trains(const oc_encoder *e, const oc_packer *p) {
    size_t n = e->n, seq = (size_t)p->seq;
    if (!p->packing && n > seq) n = seq;
    for (size_t i = 1; i < n; i++)
        if (e->labels[i] != OC_IGNORE && i % seq != 0) return true;
    return false;
}

static oc_status take_row(reader *r, oc_error *err) {
    const oc_encoder *e = &r->rows->encoder;
    oc_packer *p = r->rows->packer;
    r->count++;
    if (p == NULL) {
        const oc_row row = {r->where, oc_row_form_name(r->form), e->ids, e->labels, e->n};
        return r->rows->visit(r->rows->arg, &row, err);
    }
    p->report->rows++;
    if (!trains(e, p)) {
        p->report->dropped++;
        return OC_OK;
    }
    r->kept++;
    OC_TRY(oc_packer_put(p, e->ids, e->labels, (int64_t)e->n, err));
    return oc_packer_end(p, err);
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
    r->form = OC_ROW_TEXT;
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

static oc_status take_json(reader *r, const char *text, size_t n, uint64_t line, oc_error *err) {
    json_t *row;
    oc_row_form form = OC_ROW_NONE;
    OC_TRY(oc_json_parse(&row, text, n, r->path, line, OC_JSON_ALLOW_NUL, err));
    oc_status s = oc_row_form_of(row, r->where, &form, err);
    if (s == OC_OK && r->form != OC_ROW_NONE && r->form != form)
        s = oc_fail(err, OC_E_FORMAT,
                    "%s: this row is %s but the file began with %s; use one file for each",
                    r->where, oc_row_form_name(form), oc_row_form_name(r->form));
    if (s == OC_OK) {
        r->form = form;
        s = oc_encoder_row(&r->rows->encoder, row, form, r->where, err);
    }
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

static oc_status read_file(reader *r, oc_file_kind kind, oc_error *err) {
    oc_lines in;
    OC_TRY(oc_lines_open(&in, r->path, err));
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

oc_status oc_rows_read(oc_rows *rows, const char *path, oc_error *err) {
    oc_file_kind kind = oc_data_file_kind(path);
    size_t n = strlen(path);
    OC_TRY(check_kind(path, err));
    reader r = {.rows = rows, .path = path, .where_bytes = n + PLACE_BYTES};
    r.where = malloc(r.where_bytes);
    if (r.where == NULL) return oc_fail(err, OC_E_MEMORY, "%s: no memory to read it", path);
    memcpy(r.where, path, n + 1);
    oc_status s = read_file(&r, kind, err);
    free(r.where);
    return s;
}

/* ---- the first row ---- */

static bool is_text(const char *text, size_t n) {
    oc_row_form form = OC_ROW_IDS;
    json_t *row = json_loadb(text, n, JSON_ALLOW_NUL, NULL);
    bool known = row != NULL && oc_row_form_of(row, "", &form, NULL) == OC_OK;
    json_decref(row);
    return known && form != OC_ROW_IDS;
}

static bool first_row(oc_lines *in, bool array, const char **text, size_t *n) {
    uint64_t line;
    bool more;
    if (array) return oc_lines_element(in, text, n, &line, &more, NULL) == OC_OK && more;
    while (oc_lines_next(in, text, n, &more, NULL) == OC_OK && more)
        if (!blank(*text, *n)) return true;
    return false;
}

bool oc_dataset_needs_tokenizer(const char *path) {
    oc_file_kind kind = oc_data_file_kind(path);
    oc_lines in;
    const char *text;
    size_t n;
    bool array = false;
    if (kind == OC_FILE_TXT) return true;
    if (kind == OC_FILE_OTHER || oc_lines_open(&in, path, NULL) != OC_OK) return false;
    bool needs = false;
    if (kind == OC_FILE_JSONL || oc_lines_is_array(&in, &array, NULL) == OC_OK)
        needs = first_row(&in, array, &text, &n) && is_text(text, n);
    oc_lines_close(&in);
    return needs;
}
