/* tokenize.c - outcore tokenize: ids of texts and conversations, and what training data trains. */
#include "base/json.h"
#include "base/log.h"
#include "cli/cli.h"
#include "data/chat.h"
#include "data/lines.h"
#include "engine/corpus.h"
#include "mem/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utf8proc.h>

typedef struct work {
    const oc_config *config;
    oc_tokenizer *tokenizer;
    oc_tokens tokens;
    bool printed; /* some result is out: what fails now failed later */
} work;

/* ---- printing ---- */

static void print_ids(const int32_t *ids, size_t n) {
    (void)putchar('[');
    for (size_t i = 0; i < n; i++)
        (void)printf("%s%" PRId32, i > 0 ? ", " : "", ids[i]);
    (void)putchar(']');
}

/* As a JSON string of ASCII; what is not UTF-8 cannot be one. */
static oc_status print_string(const char *text, size_t n, oc_error *err) {
    json_t *v = json_stringn(text, n);
    char *out = v != NULL ? oc_json_dump(v, JSON_ENCODE_ANY | JSON_ENSURE_ASCII) : NULL;
    json_decref(v);
    if (out == NULL)
        return oc_fail(err, OC_E_MEMORY,
                       "a text of %zu bytes is no JSON string, or there is no "
                       "memory for it",
                       n);
    (void)fputs(out, stdout);
    free(out);
    return OC_OK;
}

/* Bytes of the UTF-8 character at s, 0 when there is none. */
static size_t character(const unsigned char *s, size_t n) {
    utf8proc_int32_t point;
    utf8proc_ssize_t k = utf8proc_iterate(s, n < 4 ? (utf8proc_ssize_t)n : 4, &point);
    return k > 0 ? (size_t)k : 0;
}

/* For people: on one line, in quotes, with what cannot be seen escaped. */
static void print_quoted(const char *text, size_t n) {
    const unsigned char *s = (const unsigned char *)text;
    (void)putchar('"');
    for (size_t i = 0; i < n;) {
        size_t k = character(s + i, n - i);
        if (s[i] == '\n')
            (void)fputs("\\n", stdout);
        else if (s[i] == '\t')
            (void)fputs("\\t", stdout);
        else if (s[i] == '"' || s[i] == '\\')
            (void)printf("\\%c", s[i]);
        else if (s[i] < 0x20 || s[i] == 0x7f || k == 0)
            (void)printf("\\x%02x", s[i]);
        else
            (void)fwrite(s + i, 1, k, stdout);
        i += k > 0 ? k : 1;
    }
    (void)putchar('"');
}

/* ---- --text ---- */

/* The text that token i stands for; a token that stands for none of it, as a special one does, by
 * its own name (free *own). */
static oc_status token_text(const work *w, const char *text, size_t n, size_t i, const char **piece,
                            size_t *bytes, char **own, oc_error *err) {
    const oc_tokens *t = &w->tokens;
    size_t begin = t->starts[i], end = i + 1 < t->n ? t->starts[i + 1] : n;
    *own = NULL;
    *piece = text + begin;
    *bytes = end - begin;
    if (*bytes > 0) return OC_OK;
    OC_TRY(oc_tokenizer_decode(w->tokenizer, &t->ids[i], 1, false, own, bytes, err));
    *piece = *own;
    return OC_OK;
}

static bool is_text(const char *text, size_t n) {
    for (size_t i = 0, k; i < n; i += k)
        if ((k = character((const unsigned char *)text + i, n - i)) == 0) return false;
    return true;
}

static oc_status print_tokens(const work *w, const char *text, size_t n, oc_error *err) {
    for (size_t i = 0; i < w->tokens.n; i++) {
        const char *piece;
        char *own, *decoded = NULL;
        size_t bytes;
        OC_TRY(token_text(w, text, n, i, &piece, &bytes, &own, err));
        oc_status s = OC_OK;
        if (!w->config->json) {
            (void)printf("%8" PRId32 "  ", w->tokens.ids[i]);
            print_quoted(piece, bytes);
            (void)putchar('\n');
        } else { /* part of a character is no JSON string: as the reference writes it */
            if (!is_text(piece, bytes))
                s = oc_tokenizer_decode(w->tokenizer, &w->tokens.ids[i], 1, false, &decoded, &bytes,
                                        err);
            if (i > 0) (void)fputs(", ", stdout);
            if (s == OC_OK) s = print_string(decoded != NULL ? decoded : piece, bytes, err);
        }
        free(decoded);
        free(own);
        OC_TRY(s);
    }
    return OC_OK;
}

static oc_status encode(work *w, const char *text, size_t n, oc_error *err) {
    return oc_tokenizer_encode(w->tokenizer, text, n,
                               w->config->special ? OC_SPECIAL_ADD : OC_SPECIAL_NONE, &w->tokens,
                               err);
}

static oc_status print_decoded(const work *w, oc_error *err) {
    char *text = NULL;
    size_t n = 0;
    OC_TRY(oc_tokenizer_decode(w->tokenizer, w->tokens.ids, w->tokens.n, true, &text, &n, err));
    oc_status s = print_string(text, n, err);
    free(text);
    return s;
}

static oc_status run_text(work *w, oc_error *err) {
    const char *text = w->config->text;
    OC_TRY(encode(w, text, strlen(text), err));
    w->printed = true;
    if (!w->config->json) {
        print_ids(w->tokens.ids, w->tokens.n);
        (void)putchar('\n');
        return print_tokens(w, text, strlen(text), err);
    }
    (void)fputs("{\"ids\": ", stdout);
    print_ids(w->tokens.ids, w->tokens.n);
    (void)fputs(", \"tokens\": [", stdout);
    OC_TRY(print_tokens(w, text, strlen(text), err));
    (void)fputs("], \"decoded\": ", stdout);
    OC_TRY(print_decoded(w, err));
    (void)fputs("}\n", stdout);
    return OC_OK;
}

/* ---- --input ---- */

static oc_status take_line(work *w, const char *name, uint64_t at, const char *line, size_t n,
                           oc_error *err) {
    json_t *v;
    OC_TRY(oc_json_parse(&v, line, n, name, at, OC_JSON_ALLOW_NUL, err));
    oc_status s = OC_OK;
    if (!json_is_string(v))
        s = oc_fail(err, OC_E_FORMAT, "%s:%" PRIu64 ": the line is %s, not a JSON string", name, at,
                    oc_json_type_name(v));
    if (s == OC_OK) s = encode(w, json_string_value(v), json_string_length(v), err);
    json_decref(v);
    OC_TRY(s);
    w->printed = true;
    (void)fputs("{\"ids\": ", stdout);
    print_ids(w->tokens.ids, w->tokens.n);
    (void)fputs(", \"decoded\": ", stdout);
    OC_TRY(print_decoded(w, err));
    (void)fputs("}\n", stdout);
    return OC_OK;
}

static oc_status take_lines(work *w, oc_lines *in, const char *name, oc_error *err) {
    const char *line;
    size_t n;
    bool more;
    for (uint64_t at = 1;; at++) {
        OC_TRY(oc_lines_next(in, &line, &n, &more, err));
        if (!more) return OC_OK;
        OC_TRY(take_line(w, name, at, line, n, err));
    }
}

/* ---- --messages ---- */

/* As beside a row's messages. */
static oc_status take_beside(json_t *root, const char *name, oc_conversation *x, oc_error *err) {
    bool system = false;
    json_t *tools = NULL;
    OC_TRY(oc_convert_system(root, name, x->messages, &system, err));
    x->added = system;
    if (json_object_get(root, "functions") == NULL) return OC_OK;
    OC_TRY(oc_convert_tools(root, name, &tools, err));
    if (tools != NULL && json_object_set_new(root, "tools", tools) != 0)
        return oc_fail(err, OC_E_MEMORY, "%s: no memory for its tools", name);
    x->tools = json_object_get(root, "tools");
    return OC_OK;
}

/* An object's other members are names that the template sees. */
static oc_status conversation_of(json_t *root, const char *name, oc_conversation *x, bool *prompt,
                                 oc_error *err) {
    *x = (oc_conversation){.messages = root};
    if (json_is_object(root)) {
        x->messages = json_object_get(root, "messages");
        x->tools = json_object_get(root, "tools");
        x->variables = root;
        *prompt = *prompt || json_is_true(json_object_get(root, "add_generation_prompt"));
        if (x->messages == NULL)
            return oc_fail(err, OC_E_FORMAT, "%s: the object has no \"messages\"", name);
    }
    oc_status s = oc_chat_check(x->messages, "messages", err);
    if (s != OC_OK) return oc_error_prefix(err, s, "%s", name);
    return json_is_object(root) ? take_beside(root, name, x, err) : OC_OK;
}

static oc_status print_rendered(work *w, const oc_rendered *r, oc_error *err) {
    OC_TRY(oc_tokenizer_encode(w->tokenizer, r->text, r->n, OC_SPECIAL_NONE, &w->tokens, err));
    w->printed = true;
    (void)fputs("{\"rendered\": ", stdout);
    OC_TRY(print_string(r->text, r->n, err));
    (void)fputs(", \"ids\": ", stdout);
    print_ids(w->tokens.ids, w->tokens.n);
    (void)fputs("}\n", stdout);
    return OC_OK;
}

static oc_status check_lost(const work *w, const oc_chat *chat, oc_conversation *x,
                            const char *name, oc_error *err) {
    size_t lost = 0;
    x->drop_lost = w->config->lost_messages == OC_LOST_DROP;
    oc_status s = oc_chat_lost(chat, x, &lost, err);
    if (s != OC_OK) return oc_error_prefix(err, s, "%s", name);
    if (lost > 0)
        oc_log(OC_LOG_INFO, "%s: the chat template does not write %zu of the messages", name, lost);
    return OC_OK;
}

static oc_status render(work *w, json_t *root, const char *name, oc_error *err) {
    oc_conversation x;
    oc_chat *chat;
    oc_rendered r = {.text = NULL};
    bool prompt = w->config->generation_prompt;
    OC_TRY(conversation_of(root, name, &x, &prompt, err));
    OC_TRY(oc_chat_open(&chat, w->tokenizer, err));
    oc_status s = check_lost(w, chat, &x, name, err);
    if (s == OC_OK) s = oc_chat_render(chat, &x, prompt, &r, err);
    if (s == OC_OK) s = print_rendered(w, &r, err);
    oc_rendered_free(&r);
    oc_chat_close(chat);
    return s;
}

static oc_status take_messages(work *w, oc_lines *in, const char *name, oc_error *err) {
    const char *text;
    size_t n;
    json_t *root;
    OC_TRY(oc_lines_piece(in, SIZE_MAX, &text, &n, err));
    OC_TRY(oc_json_parse(&root, text, n, name, 1, OC_JSON_ALLOW_NUL, err));
    oc_status s = render(w, root, name, err);
    json_decref(root);
    return s;
}

/* ---- a file or standard input ---- */

typedef oc_status reading(work *w, oc_lines *in, const char *name, oc_error *err);

static oc_status read_input(work *w, const char *path, reading *take, oc_error *err) {
    bool standard = strcmp(path, "-") == 0;
    const char *name = standard ? "standard input" : path;
    int fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return oc_fail_errno(err, errno == ENOENT ? OC_E_NOTFOUND : OC_E_IO, errno,
                             "cannot open %s", path);
    oc_lines in;
    oc_status s = oc_lines_open_fd(&in, fd, name, err);
    if (s == OC_OK) {
        s = take(w, &in, name, err);
        oc_lines_close(&in);
    }
    if (!standard) (void)close(fd);
    return s;
}

/* ---- --data ---- */

static oc_status print_run(const work *w, const oc_row *row, size_t begin, size_t end, bool trained,
                           oc_error *err) {
    char *text = NULL;
    size_t n = 0;
    OC_TRY(oc_tokenizer_decode(w->tokenizer, row->ids + begin, end - begin, false, &text, &n, err));
    (void)fputs(trained ? "  + " : "  - ", stdout);
    print_quoted(text, n);
    (void)putchar('\n');
    free(text);
    return OC_OK;
}

/* The first token is nobody's target. */
static bool is_trained(const oc_row *row, size_t i) { return i > 0 && row->labels[i] >= 0; }

/* As the column that packed them would say. */
static void print_documents(const oc_row *row) {
    if (row->n_starts < 2) return;
    (void)fputs(", \"seq_lengths\": [", stdout);
    for (size_t i = 0; i < row->n_starts; i++) {
        size_t end = i + 1 < row->n_starts ? row->starts[i + 1] : row->n;
        (void)printf("%s%zu", i > 0 ? ", " : "", end - row->starts[i]);
    }
    (void)putchar(']');
}

static oc_status print_labels(void *arg, const oc_row *row, oc_error *err) {
    work *w = arg;
    size_t trained = 0;
    w->printed = true;
    if (w->config->json) {
        (void)fputs("{\"ids\": ", stdout);
        print_ids(row->ids, row->n);
        (void)fputs(", \"labels\": ", stdout);
        print_ids(row->labels, row->n);
        print_documents(row);
        (void)fputs("}\n", stdout);
        return OC_OK;
    }
    for (size_t i = 0; i < row->n; i++)
        trained += is_trained(row, i);
    (void)printf("%s  %s, %zu tokens, %zu trained", row->where, row->form, row->n, trained);
    if (row->n_starts > 1) (void)printf(", %zu documents", row->n_starts);
    (void)putchar('\n');
    for (size_t i = 0, end; i < row->n; i = end) {
        end = i + 1;
        while (end < row->n && is_trained(row, end) == is_trained(row, i))
            end++;
        OC_TRY(print_run(w, row, i, end, is_trained(row, i), err));
    }
    return OC_OK;
}

static oc_status run_data(work *w, oc_error *err) {
    const oc_config *c = w->config;
    oc_data_files files;
    OC_TRY(
        oc_data_files_find(&files, (const char *const *)c->data, c->n_data, c->dataset_dir, err));
    const oc_dataset_spec spec = {.paths = (const char *const *)files.paths,
                                  .columns = files.columns,
                                  .n_paths = files.n,
                                  .tokenizer = w->tokenizer,
                                  .vocab = oc_tokenizer_vocab(w->tokenizer),
                                  .drop_lost = w->config->lost_messages == OC_LOST_DROP,
                                  .memory = oc_mem_available()};
    oc_status s = oc_dataset_visit(&spec, print_labels, w, err);
    oc_data_files_release(&files);
    return s;
}

static oc_status run(work *w, oc_error *err) {
    const oc_config *c = w->config;
    OC_TRY(oc_corpus_tokenizer(&w->tokenizer, c, err));
    if (c->text) return run_text(w, err);
    if (c->input) return read_input(w, c->input, take_lines, err);
    if (c->messages) return read_input(w, c->messages, take_messages, err);
    return run_data(w, err);
}

int oc_cmd_tokenize(oc_config *c) {
    oc_error err = {OC_OK, ""};
    work w = {.config = c};
    oc_status s = run(&w, &err);
    oc_tokens_free(&w.tokens);
    oc_tokenizer_close(w.tokenizer);
    if (s == OC_OK) return OC_EXIT_DONE;
    oc_log(OC_LOG_ERROR, "%s", err.message);
    return w.printed ? OC_EXIT_FAILED : OC_EXIT_REFUSED;
}
