/* chat.h - a conversation as a model sees it: messages through the tokenizer's chat template, and
 * which part of the text the model learns to write.
 *
 * A chat is immutable once open. Messages about a conversation name the place in it; callers put
 * the file before. */
#ifndef OC_CHAT_H
#define OC_CHAT_H

#include "template/template.h"
#include "tokenizer/tokenizer.h"

typedef struct oc_chat oc_chat;

/* A tokenizer without a chat template: OC_E_NOTFOUND, and what to do. */
OC_NODISCARD oc_status oc_chat_open(oc_chat **out, const oc_tokenizer *t, oc_error *err);
void oc_chat_close(oc_chat *c);

/* Values are borrowed; their reference counts change meanwhile. */
typedef struct oc_conversation {
    json_t *messages;  /* array of {"role", "content", ...} */
    json_t *tools;     /* NULL or what "tools" is in the template */
    json_t *variables; /* NULL or an object: more names that the template sees */
    size_t added;      /* of the messages at the front, that stand elsewhere in the row */
    bool drop_lost;    /* a message that the template does not write is counted, not refused */
} oc_conversation;

/* What stands beside messages, or whatever the list is called, in `row`; errors begin with `where`.
 * system, system_prompt: a text that becomes the first message, unless it is that; *added: there is
 * one more. */
OC_NODISCARD oc_status oc_convert_system(const json_t *row, const char *where, json_t *messages,
                                         bool *added, oc_error *err);
/* tools, or functions as tools: a new reference, NULL where it has none. */
OC_NODISCARD oc_status oc_convert_tools(const json_t *row, const char *where, json_t **out,
                                        oc_error *err);

/* Whether its role is assistant. */
bool oc_chat_is_answer(const json_t *message);

/* Each message an object with a role; its content text, a list of text parts, or (beside tool
 * calls) nothing; without keys that are refused. At least one. `what` stands for the list:
 * "messages". */
OC_NODISCARD oc_status oc_chat_check(const json_t *messages, const char *what, oc_error *err);

/* As the reference library: the template sees messages, tools, documents, the special tokens that
 * there are, and add_generation_prompt; with tools it is the one named "tool_use" where there is
 * one. A function_call is the tool call that it stands for. oc_rendered_free() the result. */
OC_NODISCARD oc_status oc_chat_render(const oc_chat *c, const oc_conversation *x,
                                      bool generation_prompt, oc_rendered *out, oc_error *err);

typedef struct oc_chat_span {
    size_t begin, end; /* bytes of the rendered text */
} oc_chat_span;

/* Whether the template writes every message: *lost counts those of whose text, or of one of whose
 * tool calls, what is rendered does not depend on. One of them is refused unless x says otherwise,
 * with its number and role. */
OC_NODISCARD oc_status oc_chat_lost(const oc_chat *c, const oc_conversation *x, size_t *lost,
                                    oc_error *err);

/* The whole conversation, and the spans of it that are trained: in order, not overlapping, none
 * empty; no span where there is no answer. They are what assistant messages from index `first` on
 * wrote, unless they say that they are not trained ("weight": 0 and its like) or are lost: the
 * template's {% generation %} blocks where it has them; otherwise each message's own text but for
 * the header, by which is meant what the template opens an answer with at that place when it is
 * asked for one (add_generation_prompt). A block outside of all messages goes with the one before
 * it. */
typedef struct oc_chat_text {
    oc_rendered rendered;
    oc_chat_span *trained;
    size_t n_trained;
    size_t lost; /* messages, as oc_chat_lost() counts them */
} oc_chat_text;

OC_NODISCARD oc_status oc_chat_mark(const oc_chat *c, const oc_conversation *x, size_t first,
                                    oc_chat_text *out, oc_error *err);
void oc_chat_text_free(oc_chat_text *t);

/* labels[i] = ids[i] where token i covers a byte of a trained span, else -100. */
void oc_chat_label(const oc_chat_text *text, const oc_tokens *tokens, int32_t *labels);

#endif
