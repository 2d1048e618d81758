/* results.c - answers into a file that grows row by row. */
#include "infer/results.h"

#include "base/claim.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/log.h"
#include "data/lines.h"
#include "infer/result.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { PATH_BYTES = 4096, KEY_MOST = 1 << 20 };
#define SYNC_NS 2000000000

typedef struct waiting {
    char *row;
    size_t n;
} waiting;

struct oc_results {
    oc_results_spec spec;
    oc_result_style style;
    const char *name; /* for messages */
    char key_path[PATH_BYTES];
    oc_claim claim;    /* of a regular file */
    int fd;            /* where rows go */
    bool regular, own; /* own: fd is closed with it */
    bool failed, wrote_key;
    uint64_t bytes;  /* of whole rows in the file */
    uint64_t next;   /* the row that comes next */
    uint64_t before; /* rows that were there */
    waiting *rows;   /* [room]: of next, next + 1, ...; a ring that begins at `first` */
    size_t room, first;
    uint64_t waits;
    bool dirty;
    int64_t synced; /* oc_clock_ns() */
};

/* ---- the key ---- */

static oc_status parse_key(json_t **out, const char *text, size_t n, const char *from,
                           oc_error *err) {
    OC_TRY(oc_json_parse(out, text, n, from, 1, OC_JSON_NO_NUL, err));
    if (json_is_object(*out)) return OC_OK;
    json_decref(*out);
    *out = NULL;
    return oc_fail(err, OC_E_FORMAT, "%s is no record of a run", from);
}

/* NULL: there is none. */
static oc_status read_key(const oc_results *r, json_t **out, oc_error *err) {
    char *text = NULL;
    size_t n = 0;
    *out = NULL;
    if (!oc_fs_exists(r->key_path)) return OC_OK;
    OC_TRY(oc_fs_read(&text, &n, r->key_path, KEY_MOST, err));
    oc_status s = parse_key(out, text, n, r->key_path, err);
    free(text);
    if (s == OC_OK && json_object_get(*out, "outcore_generate") == NULL) {
        json_decref(*out);
        *out = NULL;
        return oc_fail(err, OC_E_EXISTS,
                       "%s is no record of outcore generate, and would be overwritten: give "
                       "another --%s",
                       r->key_path, r->spec.option);
    }
    return s;
}

static char *shown(const json_t *v) {
    return v != NULL ? oc_json_dump(v, JSON_ENCODE_ANY | JSON_COMPACT) : strdup("not there");
}

static oc_status differs(const oc_results *r, const char *name, const json_t *was, const json_t *is,
                         oc_error *err) {
    char *a = shown(was), *b = shown(is);
    oc_status s = oc_fail(err, OC_E_INVALID,
                          "--resume: %s was begun with another %s: %.200s there, %.200s now; give "
                          "what it was begun with, or --overwrite to begin anew",
                          r->name, name, a != NULL ? a : "?", b != NULL ? b : "?");
    free(a);
    free(b);
    return s;
}

static oc_status compare_keys(const oc_results *r, json_t *was, json_t *is, oc_error *err) {
    const char *name;
    json_t *v;
    json_object_foreach(is, name, v) {
        if (!json_equal(v, json_object_get(was, name)))
            return differs(r, name, json_object_get(was, name), v, err);
    }
    json_object_foreach(was, name, v) {
        if (json_object_get(is, name) == NULL) return differs(r, name, v, NULL, err);
    }
    return OC_OK;
}

static oc_status check_key(const oc_results *r, json_t *was, oc_error *err) {
    json_t *is = NULL;
    OC_TRY(parse_key(&is, r->spec.key, strlen(r->spec.key), "the key of the run", err));
    oc_status s = compare_keys(r, json_object_get(was, "outcore_generate"), is, err);
    json_decref(is);
    return s;
}

static oc_status write_key(oc_results *r, oc_error *err) {
    json_t *is = NULL;
    OC_TRY(parse_key(&is, r->spec.key, strlen(r->spec.key), "the key of the run", err));
    json_t *all = oc_json_with(json_object(), "outcore_generate", is);
    char *text = all != NULL ? oc_json_dump(all, JSON_INDENT(2) | JSON_REAL_PRECISION(17)) : NULL;
    json_decref(all);
    if (text == NULL) return oc_fail(err, OC_E_MEMORY, "no memory for %s", r->key_path);
    oc_status s = oc_fs_write_atomic(r->key_path, text, strlen(text), err);
    free(text);
    r->wrote_key = s == OC_OK;
    return s;
}

/* ---- what is there ---- */

static oc_status file_size(const oc_results *r, uint64_t *out, oc_error *err) {
    struct stat st;
    if (fstat(r->fd, &st) != 0)
        return oc_fail_errno(err, OC_E_IO, errno, "%s cannot be looked at", r->name);
    *out = (uint64_t)st.st_size;
    return OC_OK;
}

static oc_status cut(const oc_results *r, uint64_t bytes, oc_error *err) {
    int failed;
    do
        failed = ftruncate(r->fd, (off_t)bytes);
    while (failed && errno == EINTR);
    if (!failed) return OC_OK;
    return oc_fail_errno(err, OC_E_IO, errno, "%s: what follows its last whole row cannot be cut",
                         r->name);
}

/* A last line without its newline, or one that a power cut left without its bytes, is torn. */
static oc_status count_rows(oc_results *r, oc_lines *in, uint64_t size, oc_error *err) {
    const char *line;
    size_t n;
    bool more;
    for (;;) {
        uint64_t index = 0;
        OC_TRY(oc_lines_next(in, &line, &n, &more, err));
        if (!more || r->bytes + n + 1 > size) return OC_OK;
        bool known = oc_result_index(line, n, &index);
        if (!known && r->bytes + n + 1 == size) return OC_OK;
        if (!known || index != r->next)
            return oc_fail(err, OC_E_FORMAT,
                           "%s:%" PRIu64 ": the answer to row %" PRIu64 " is due and does not "
                           "stand there: the file was changed; --overwrite begins it anew",
                           r->name, r->next + 1, r->next);
        r->bytes += n + 1;
        r->next++;
    }
}

static oc_status find_rows(oc_results *r, uint64_t size, oc_error *err) {
    oc_lines in;
    if (lseek(r->fd, 0, SEEK_SET) != 0)
        return oc_fail_errno(err, OC_E_IO, errno, "%s cannot be read", r->name);
    OC_TRY(oc_lines_open_fd(&in, r->fd, r->name, err));
    oc_status s = count_rows(r, &in, size, err);
    oc_lines_close(&in);
    return s;
}

static oc_status go_on(oc_results *r, json_t *was, uint64_t size, oc_error *err) {
    if (was == NULL && size > 0)
        return oc_fail(err, OC_E_EXISTS,
                       "--resume: %s is finished, or is none of outcore generate (%s does not lie "
                       "beside it): there is nothing to go on with; --overwrite begins it anew",
                       r->name, r->key_path);
    if (was == NULL) {
        oc_log(OC_LOG_INFO, "--resume: %s is not there yet: it is begun", r->name);
        return write_key(r, err);
    }
    OC_TRY(check_key(r, was, err));
    OC_TRY(find_rows(r, size, err));
    return size > r->bytes ? cut(r, r->bytes, err) : OC_OK;
}

static oc_status start_anew(oc_results *r, uint64_t size, oc_error *err) {
    if (size > 0 && !r->spec.overwrite)
        return oc_fail(err, OC_E_EXISTS,
                       "%s is there already: --resume goes on with it, --overwrite begins it anew",
                       r->name);
    if (size > 0) OC_TRY(cut(r, 0, err)); /* before the key: no row of another run may be taken */
    return write_key(r, err);
}

static oc_status settle_file(oc_results *r, oc_error *err) {
    json_t *was = NULL;
    uint64_t size = 0;
    OC_TRY(file_size(r, &size, err));
    OC_TRY(read_key(r, &was, err));
    oc_status s = r->spec.resume ? go_on(r, was, size, err) : start_anew(r, size, err);
    json_decref(was);
    r->before = r->next;
    return s;
}

/* ---- life ---- */

static oc_status open_stream(oc_results *r, oc_error *err) {
    bool standard = strcmp(r->spec.path, "-") == 0;
    if (r->spec.resume || r->spec.overwrite)
        return oc_fail(err, OC_E_INVALID, "--%s needs a file, and %s is none",
                       r->spec.resume ? "resume" : "overwrite", r->name);
    r->fd = standard ? STDOUT_FILENO : open(r->spec.path, O_WRONLY | O_CLOEXEC);
    r->own = !standard;
    if (r->fd >= 0) return OC_OK;
    return oc_fail_errno(err, OC_E_IO, errno, "--%s %s cannot be written", r->spec.option, r->name);
}

static oc_status check_input(const oc_results *r, oc_error *err) {
    oc_fs_id in, out;
    if (r->spec.input == NULL || !oc_fs_identify(r->spec.input, &in) ||
        !oc_fs_identify(r->spec.path, &out) || !oc_fs_same(in, out))
        return OC_OK;
    return oc_fail(err, OC_E_INVALID, "--%s %s is the file of --%s: give another file",
                   r->spec.option, r->name, r->spec.input_option);
}

static oc_status open_file(oc_results *r, oc_error *err) {
    int n = snprintf(r->key_path, sizeof r->key_path, "%s.run", r->spec.path);
    if (n < 0 || n + (int)sizeof OC_FS_TEMPORARY >= PATH_BYTES)
        return oc_fail(err, OC_E_INVALID, "--%s: the path is longer than %d bytes", r->spec.option,
                       PATH_BYTES);
    OC_TRY(check_input(r, err));
    OC_TRY(oc_claim_take(&r->claim, r->spec.option, r->spec.path, OC_CLAIM_READ_WRITE, err));
    r->fd = r->claim.fd;
    r->regular = r->fd >= 0;
    return r->regular ? settle_file(r, err) : open_stream(r, err);
}

static void drop(oc_results *r, bool keep) {
    for (size_t i = 0; i < r->room; i++)
        free(r->rows[i].row);
    free(r->rows);
    if (r->own && r->fd >= 0) (void)close(r->fd);
    oc_claim_release(&r->claim, keep);
    free(r);
}

oc_status oc_results_open(oc_results **out, const oc_results_spec *spec, uint64_t *done,
                          oc_error *err) {
    bool standard = strcmp(spec->path, "-") == 0;
    oc_results *r = calloc(1, sizeof *r);
    *out = NULL;
    if (r == NULL) return oc_fail(err, OC_E_MEMORY, "no memory for results");
    r->spec = *spec;
    if (!r->spec.option) r->spec.option = "output";
    if (!r->spec.input_option) r->spec.input_option = "input";
    r->name = standard ? "standard output" : spec->path;
    r->claim = (oc_claim)OC_CLAIM_NONE;
    r->fd = -1;
    r->style = (oc_result_style){spec->model != NULL ? spec->model : "", spec->tokenizer,
                                 spec->created != 0 ? spec->created : (int64_t)time(NULL)};
    r->synced = oc_clock_ns();
    oc_status s = standard ? open_stream(r, err) : open_file(r, err);
    if (s != OC_OK) {
        drop(r, false);
        return s;
    }
    *out = r;
    *done = r->next;
    return OC_OK;
}

uint64_t oc_results_written(const oc_results *r) { return r->next; }

uint64_t oc_results_waiting(const oc_results *r) { return r->waits; }

/* ---- writing ---- */

static oc_status write_all(oc_results *r, const char *row, size_t n, oc_error *err) {
    for (size_t done = 0; done < n;) {
        ssize_t got = r->regular ? pwrite(r->fd, row + done, n - done, (off_t)(r->bytes + done))
                                 : write(r->fd, row + done, n - done);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0)
            return oc_fail_errno(err, OC_E_IO, got < 0 ? errno : ENOSPC,
                                 "%s: the answer to row %" PRIu64 " cannot be written", r->name,
                                 r->next);
        done += (size_t)got;
    }
    return OC_OK;
}

/* What is there stays whole: what of the row was written is cut off again. */
static oc_status append(oc_results *r, const char *row, size_t n, oc_error *err) {
    oc_status s = write_all(r, row, n, err);
    if (s != OC_OK) {
        r->failed = true;
        if (r->regular) (void)!ftruncate(r->fd, (off_t)r->bytes);
        return s;
    }
    r->bytes += n;
    r->next++;
    r->dirty = r->regular;
    return OC_OK;
}

static oc_status sync_now(oc_results *r, oc_error *err) {
    int failed;
    if (!r->dirty) return OC_OK;
    do
        failed = fsync(r->fd);
    while (failed && errno == EINTR);
    r->synced = oc_clock_ns();
    r->dirty = false;
    if (!failed) return OC_OK;
    r->failed = true;
    return oc_fail_errno(err, OC_E_IO, errno, "%s: rows cannot be synced", r->name);
}

oc_status oc_results_sync(oc_results *r, oc_error *err) {
    return oc_clock_ns() - r->synced >= SYNC_NS ? sync_now(r, err) : OC_OK;
}

static oc_status grow(oc_results *r, size_t least, oc_error *err) {
    size_t room = r->room > 0 ? r->room : 16;
    while (room < least)
        room *= 2;
    waiting *rows = calloc(room, sizeof *rows);
    if (rows == NULL) return oc_fail(err, OC_E_MEMORY, "no memory for answers that wait");
    for (size_t i = 0; i < r->room; i++)
        rows[i] = r->rows[(r->first + i) % r->room];
    free(r->rows);
    r->rows = rows;
    r->room = room;
    r->first = 0;
    return OC_OK;
}

/* The row is r's then. */
static oc_status keep(oc_results *r, uint64_t index, char *row, size_t n, oc_error *err) {
    enum { FURTHEST = 1 << 24 };
    uint64_t ahead = index - r->next;
    if (index < r->next || ahead >= FURTHEST) {
        free(row);
        return oc_fail(err, OC_E_INVALID, "row %" PRIu64 " is answered, and row %" PRIu64 " is due",
                       index, r->next);
    }
    oc_status s = ahead < r->room ? OC_OK : grow(r, (size_t)ahead + 1, err);
    waiting *w = s == OC_OK ? &r->rows[(r->first + (size_t)ahead) % r->room] : NULL;
    if (s == OC_OK && w->row != NULL)
        s = oc_fail(err, OC_E_INVALID, "row %" PRIu64 " is answered twice", index);
    if (s != OC_OK) {
        free(row);
        return s;
    }
    *w = (waiting){row, n};
    r->waits += n;
    return OC_OK;
}

static oc_status write_due(oc_results *r, oc_error *err) {
    while (r->room > 0 && r->rows[r->first].row != NULL) {
        waiting w = r->rows[r->first];
        OC_TRY(append(r, w.row, w.n, err));
        free(w.row);
        r->rows[r->first] = (waiting){NULL, 0};
        r->first = (r->first + 1) % r->room;
        r->waits -= w.n;
    }
    return OC_OK;
}

oc_status oc_results_put(oc_results *r, const oc_request *request, const oc_answer *answer,
                         oc_error *err) {
    char *row;
    size_t n;
    if (r->failed)
        return oc_fail(err, OC_E_IO, "%s could not be written before: it ends with row %" PRIu64,
                       r->name, r->next);
    OC_TRY(oc_result_row(&row, &n, &r->style, request, answer, err));
    OC_TRY(keep(r, request->index, row, n, err));
    OC_TRY(write_due(r, err));
    return oc_results_sync(r, err);
}

/* ---- the end ---- */

static oc_status remove_key(const oc_results *r, oc_error *err) {
    char dir[PATH_BYTES];
    const char *slash = strrchr(r->key_path, '/');
    if (unlink(r->key_path) != 0 && errno != ENOENT)
        return oc_fail_errno(err, OC_E_IO, errno, "%s cannot be removed", r->key_path);
    (void)snprintf(dir, sizeof dir, "%.*s", slash != NULL ? (int)(slash - r->key_path) : 1,
                   slash != NULL ? r->key_path : ".");
    return oc_fs_sync_directory(*dir ? dir : "/", err);
}

static oc_status finish(oc_results *r, bool whole, oc_error *err) {
    if (r->waits > 0 && whole)
        return oc_fail(err, OC_E_INVALID, "row %" PRIu64 " has no answer", r->next);
    OC_TRY(sync_now(r, err));
    return whole && r->regular ? remove_key(r, err) : OC_OK;
}

oc_status oc_results_close(oc_results *r, bool whole, oc_error *err) {
    if (r == NULL) return OC_OK;
    oc_status s = finish(r, whole, err);
    bool empty = !whole && r->next == 0 && r->regular;
    if (empty && r->wrote_key) (void)unlink(r->key_path);
    drop(r, !empty);
    return s;
}
