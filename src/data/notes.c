/* notes.c - what is said once of a data set's rows, with how many it was. */
#include "base/log.h"
#include "data/internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const lines[OC_NOTES] = {
    [OC_NOTE_SEVERAL] = "fit several forms: the first of input_ids, prompt and completion, "
                        "messages, conversations, alpaca and text counts",
    [OC_NOTE_NULL] = "hold null where their text should be, and are dropped",
    [OC_NOTE_BOS] = "begin with the bos token themselves and get no second one",
    [OC_NOTE_NUMBERS] = "hold NaN, Infinity or a number that is too large in a column that is not "
                        "read",
    [OC_NOTE_LOST] = "hold messages that the chat template does not write, and are trained without "
                     "them",
};

void oc_notes_add(oc_row_notes *n, oc_note what, const char *where) {
    if (n->count[what]++ == 0) (void)snprintf(n->where[what], sizeof n->where[what], "%s", where);
}

void oc_notes_ignored(oc_row_notes *n, const char *key) {
    size_t i = 0;
    while (i < n->n_ignored && strncmp(n->ignored[i].key, key, OC_NOTED_KEY - 1) != 0)
        i++;
    if (i == OC_NOTED_KEYS) {
        n->more = true;
        return;
    }
    if (i == n->n_ignored) {
        (void)snprintf(n->ignored[i].key, OC_NOTED_KEY, "%s", key);
        n->n_ignored++;
    }
    n->ignored[i].rows++;
}

static void say_ignored(const oc_row_notes *n) {
    char text[OC_NOTED_KEYS * (OC_NOTED_KEY + 32)] = "";
    size_t at = 0;
    for (size_t i = 0; i < n->n_ignored && at < sizeof text; i++) {
        int put = snprintf(text + at, sizeof text - at, "%s\"%s\" (%" PRIu64 " rows)",
                           i > 0 ? ", " : "", n->ignored[i].key, n->ignored[i].rows);
        at += put > 0 ? (size_t)put : 0;
    }
    if (n->n_ignored > 0)
        oc_log(OC_LOG_INFO, "data: keys that mean nothing here are ignored: %s%s", text,
               n->more ? ", ..." : "");
}

void oc_notes_say(const oc_row_notes *n) {
    for (int i = 0; i < OC_NOTES; i++)
        if (n->count[i] > 0)
            oc_log(OC_LOG_INFO, "data: %" PRIu64 " rows (first %s) %s", n->count[i], n->where[i],
                   lines[i]);
    say_ignored(n);
}
