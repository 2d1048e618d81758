/* chat.c - a conversation at a terminal, or through a pipe: a line in, an answer out as it comes.
 *
 * Each turn the whole conversation goes through the chat template; what of it was computed before
 * lies in pages that are known by their tokens, so that only what is new is computed. */
#include "infer/internal.h"

#include "base/json.h"
#include "base/log.h"
#include "data/chat.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEXT_BYTES = 4096 };

typedef struct conversation {
    const oc_generate_setup *s;
    oc_runner *runner;
    volatile sig_atomic_t *stop;
    FILE *in;
    bool terminal;
    oc_chat *chat;
    json_t *messages;
    oc_tokens tokens;
    uint64_t turns;
} conversation;

static const char help[] =
    "/reset   forget what was said\n"
    "/exit    leave (or Ctrl-D)\n"
    "\"\"\"      alone on a line: several lines follow, up to the next such line\n"
    "Ctrl-C   stops an answer\n";

/* ---- what was said ---- */

static bool say(conversation *x, const char *role, const char *text, size_t n) {
    json_t *m = json_object();
    m = oc_json_with(m, "role", json_string(role));
    m = oc_json_with(m, "content", json_stringn(text, n));
    return m && json_array_append_new(x->messages, m) == 0;
}

static oc_status no_memory(oc_error *err) {
    return oc_fail(err, OC_E_MEMORY, "no memory for the conversation");
}

static oc_status reset(conversation *x, oc_error *err) {
    const char *system = x->s->setup->config->gen.system;
    json_decref(x->messages);
    x->messages = json_array();
    if (!x->messages || (system && !say(x, "system", system, strlen(system))))
        return no_memory(err);
    return OC_OK;
}

static oc_status encode(conversation *x, oc_error *err) {
    oc_conversation c = {.messages = x->messages};
    oc_rendered text;
    OC_TRY(oc_chat_render(x->chat, &c, true, &text, err));
    oc_status st = oc_tokenizer_encode(x->s->setup->tokenizer, text.text, text.n, OC_SPECIAL_NONE,
                                       &x->tokens, err);
    oc_rendered_free(&text);
    return st;
}

/* ---- an answer ---- */

static void show(conversation *x, oc_job *j) {
    char text[TEXT_BYTES];
    for (size_t n; (n = oc_runner_text(x->runner, j, text, sizeof text)) > 0;)
        (void)fwrite(text, 1, n, x->s->asked->out);
    (void)fflush(x->s->asked->out);
}

/* Until it is over; an interrupt ends it with what it has. */
static oc_status wait_for(conversation *x, oc_job *j, oc_error *err) {
    bool idle = false;
    while (!oc_runner_is_over(x->runner, j)) {
        if (*x->stop == SIGINT) {
            *x->stop = 0;
            oc_runner_cancel(x->runner, j);
        }
        OC_TRY(oc_runner_turn(x->runner, &idle, err));
        show(x, j);
        if (*x->stop) break;
    }
    return OC_OK;
}

static oc_status answer(conversation *x, oc_error *err) {
    const oc_asked *a = x->s->asked;
    oc_job *j;
    OC_TRY(encode(x, err));
    int64_t room = a->positions - (int64_t)x->tokens.n;
    if (room < 1)
        return oc_fail(err, OC_E_INVALID,
                       "the conversation has %zu tokens of at most %lld: /reset begins anew, "
                       "--seq-length makes room for more",
                       x->tokens.n, (long long)a->positions);
    int32_t most = room < a->answer ? (int32_t)room : a->answer;
    OC_TRY(oc_job_new(&j, x->tokens.ids, (int32_t)x->tokens.n, most, err));
    oc_generate_ask(x->s, j, x->turns++);
    oc_runner_queue(x->runner, j);
    OC_TRY(wait_for(x, j, err));
    if (*x->stop) return OC_OK;
    j = oc_runner_done(x->runner);
    show(x, j);
    (void)fputc('\n', x->s->asked->out);
    oc_status st = OC_OK;
    if (j->finish == OC_FINISH_ERROR)
        st = oc_fail(err, j->error.status, "%s", j->error.message);
    else if (!say(x, "assistant", j->text, j->n_text))
        st = no_memory(err);
    oc_job_free(j);
    return st;
}

/* ---- lines ---- */

static void ask(const conversation *x, const char *sign) {
    if (!x->terminal) return;
    (void)fprintf(stderr, "%s ", sign);
    (void)fflush(stderr);
}

/* Without its end; false: no more, or an interrupt. */
static bool read_line(conversation *x, char **line, size_t *room, size_t *n) {
    ssize_t got = getline(line, room, x->in);
    if (got < 0) return false;
    while (got > 0 && ((*line)[got - 1] == '\n' || (*line)[got - 1] == '\r'))
        got--;
    (*line)[got] = 0;
    *n = (size_t)got;
    return true;
}

static bool is_quote(const char *line, size_t n) {
    return n == 3 && memcmp(line, "\"\"\"", 3) == 0;
}

/* Lines up to the next that is three quotes, in *line. */
static bool read_block(conversation *x, char **line, size_t *room, size_t *n) {
    char *all = NULL, *next = NULL;
    size_t all_n = 0, next_room = 0, next_n;
    bool ok = true;
    for (;;) {
        ask(x, ".");
        ok = read_line(x, &next, &next_room, &next_n);
        if (!ok || is_quote(next, next_n)) break;
        char *more = realloc(all, all_n + next_n + 2);
        ok = more != NULL;
        if (!ok) break;
        all = more;
        memcpy(all + all_n, next, next_n);
        all_n += next_n;
        all[all_n++] = '\n';
        all[all_n] = 0;
    }
    free(next);
    if (!ok || !all) {
        free(all);
        *n = 0;
        return ok;
    }
    free(*line);
    *line = all;
    *room = all_n + 1;
    *n = all_n - 1;
    return true;
}

/* A line that is no message. */
static bool is_command(conversation *x, const char *line, bool *leave, oc_error *err) {
    *leave = strcmp(line, "/exit") == 0 || strcmp(line, "/quit") == 0;
    if (*leave) return true;
    if (strcmp(line, "/reset") == 0) {
        if (reset(x, err) == OC_OK) (void)fputs("forgotten\n", stderr);
        return true;
    }
    if (line[0] != '/' || strchr(line, ' ')) return false;
    (void)fputs(help, stderr);
    return true;
}

/* What is wrong with a turn does not end the conversation: what was said last is taken back. */
static void take_turn(conversation *x, const char *line, size_t n) {
    oc_error err = {OC_OK, ""};
    size_t before = json_array_size(x->messages);
    oc_status st = say(x, "user", line, n) ? answer(x, &err) : no_memory(&err);
    if (st == OC_OK) return;
    oc_log(OC_LOG_ERROR, "%s", err.message);
    while (json_array_size(x->messages) > before)
        (void)json_array_remove(x->messages, json_array_size(x->messages) - 1);
}

static void talk(conversation *x) {
    char *line = NULL;
    size_t room = 0, n;
    bool leave = false;
    oc_error err = {OC_OK, ""};
    while (!leave && !*x->stop) {
        ask(x, ">");
        if (!read_line(x, &line, &room, &n)) break;
        if (is_quote(line, n) && !read_block(x, &line, &room, &n)) break;
        if (n == 0 || is_command(x, line, &leave, &err)) continue;
        take_turn(x, line, n);
    }
    if (x->terminal) (void)fputc('\n', stderr);
    free(line);
}

oc_status oc_generate_chat(const oc_generate_setup *s, oc_runner *r, FILE *in,
                           volatile sig_atomic_t *stop, oc_error *err) {
    conversation x = {.s = s, .runner = r, .stop = stop, .in = in};
    x.terminal = isatty(fileno(in));
    oc_status st = oc_chat_open(&x.chat, s->setup->tokenizer, err);
    if (st == OC_OK) st = reset(&x, err);
    if (st == OC_OK) talk(&x);
    oc_chat_close(x.chat);
    json_decref(x.messages);
    oc_tokens_free(&x.tokens);
    return st;
}
