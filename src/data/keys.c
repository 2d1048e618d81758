/* keys.c - what keys of rows and of messages mean, for those who come from other trainers. */
#include "data/internal.h"

#include <stdio.h>
#include <string.h>

typedef enum place {
    TEXT = 1,
    IDS = 2,
    PAIR = 4, /* prompt and completion as texts */
    CHAT = 8, /* messages, conversations, prompt and completion as messages */
    ALPACA = 16,
    TURN = 32 /* a message */
} place;

typedef enum use {
    READ,   /* by the form's reader, or by the template */
    MASK,   /* a number a token, 0: not trained */
    FLAG,   /* of a message: is it trained */
    NO_IDS, /* says something of tokens, and there are none */
    REFUSED /* unless it is null or empty */
} use;

#define PROMPTS (PAIR | ALPACA)
#define WORDS (TEXT | PAIR | CHAT | ALPACA)

static const char to_messages[] = "turn the row into \"messages\", which may have it";
static const char no_pictures[] = "only text is trained here; leave it out";
static const char no_parts[] =
    "parts of a message cannot be left out here; give a \"train\" a message";
static const char which_way[] = "some mean trained by true and some the opposite; say \"train\"";
static const char by_message[] = "give a \"train\" to each message";

/* Keys with a known meaning are followed or refused; all others are ignored, and named once. */
static const struct key {
    const char *name;
    unsigned places;
    use use;
    const char *source;
    const char *advice; /* of REFUSED */
} keys[] = {
    {"text", TEXT, READ, "TRL", NULL},
    {"input_ids", IDS, READ, "transformers", NULL},
    {"prompt", PAIR | CHAT, READ, "TRL", NULL},
    {"completion", PAIR | CHAT, READ, "TRL", NULL},
    {"messages", CHAT, READ, "TRL, OpenAI", NULL},
    {"conversations", CHAT, READ, "sharegpt", NULL},
    {"instruction", ALPACA, READ, "alpaca", NULL},
    {"input", ALPACA, READ, "alpaca", NULL},
    {"output", ALPACA, READ, "alpaca", NULL},

    {"labels", IDS, READ, "transformers", NULL},
    {"attention_mask", IDS, READ, "transformers", NULL},
    {"position_ids", IDS, READ, "transformers: 0 begins a document", NULL},
    {"seq_lengths", IDS, READ, "TRL: tokens of each document", NULL},
    {"assistant_masks", IDS, MASK, "TRL", NULL},
    {"completion_mask", IDS, MASK, "TRL", NULL},
    {"loss_mask", IDS, MASK, "verl, Megatron", NULL},
    {"loss_scale", IDS, MASK, "ms-swift", NULL},
    {"token_type_ids", IDS, REFUSED, "transformers", "these models know one type; leave it out"},
    {"pixel_values", IDS, REFUSED, "transformers", no_pictures},

    {"labels", WORDS, NO_IDS, "", NULL},
    {"attention_mask", WORDS, NO_IDS, "", NULL},
    {"position_ids", WORDS, NO_IDS, "", NULL},
    {"seq_lengths", WORDS, NO_IDS, "", NULL},
    {"assistant_masks", WORDS, NO_IDS, "", NULL},
    {"completion_mask", WORDS, NO_IDS, "", NULL},
    {"token_type_ids", WORDS, NO_IDS, "", NULL},
    {"loss_mask", TEXT | PAIR | ALPACA, NO_IDS, "", NULL},
    {"loss_mask", CHAT, REFUSED, "verl", by_message},
    {"loss_scale", CHAT, REFUSED, "ms-swift", by_message},
    {"mask", CHAT, REFUSED, "NeMo", by_message},

    {"system", CHAT, READ, "LLaMA-Factory, ms-swift: the first message", NULL},
    {"system_prompt", CHAT, READ, "ms-swift: the first message", NULL},
    {"tools", CHAT, READ, "TRL, LLaMA-Factory, ms-swift", NULL},
    {"functions", CHAT, READ, "OpenAI: tools", NULL},
    {"chat_template_kwargs", CHAT, READ, "TRL", NULL},
    {"system", PROMPTS, REFUSED, "LLaMA-Factory, ms-swift", to_messages},
    {"system_prompt", PROMPTS, REFUSED, "ms-swift", to_messages},
    {"history", PROMPTS, REFUSED, "LLaMA-Factory, ms-swift", to_messages},
    {"tools", PROMPTS, REFUSED, "LLaMA-Factory, ms-swift", to_messages},
    {"functions", PROMPTS, REFUSED, "OpenAI", to_messages},
    {"image", CHAT | PROMPTS, REFUSED, "TRL", no_pictures},
    {"images", CHAT | PROMPTS, REFUSED, "TRL, LLaMA-Factory, ms-swift", no_pictures},
    {"video", CHAT | PROMPTS, REFUSED, "TRL", no_pictures},
    {"videos", CHAT | PROMPTS, REFUSED, "LLaMA-Factory, ms-swift", no_pictures},
    {"audio", CHAT | PROMPTS, REFUSED, "TRL", no_pictures},
    {"audios", CHAT | PROMPTS, REFUSED, "LLaMA-Factory, ms-swift", no_pictures},

    {"weight", TURN, FLAG, "OpenAI", NULL},
    {"train", TURN, FLAG, "axolotl", NULL},
    {"training", TURN, FLAG, "axolotl", NULL},
    {"trainable", TURN, FLAG, "", NULL},
    {"loss", TURN, FLAG, "ms-swift", NULL},
    {"loss_mask", TURN, FLAG, "verl", NULL},
    {"loss_scale", TURN, FLAG, "ms-swift", NULL},
    {"loss_weight", TURN, FLAG, "LLaMA-Factory", NULL},
    {"mask", TURN, REFUSED, "in several trainers", which_way},
    {"masked", TURN, REFUSED, "torchtune", which_way},
    {"train_detail", TURN, REFUSED, "axolotl", no_parts},
    {"training_detail", TURN, REFUSED, "axolotl", no_parts},
    {"images", TURN, REFUSED, "ms-swift", no_pictures},
    {"function_call", TURN, READ, "OpenAI: a tool call", NULL},
};
enum { KEYS = sizeof keys / sizeof *keys };

static const struct key *find(const char *name, unsigned places) {
    for (size_t i = 0; i < KEYS; i++)
        if ((keys[i].places & places) && strcmp(keys[i].name, name) == 0) return &keys[i];
    return NULL;
}

static place place_of(const json_t *row, oc_row_form form) {
    switch (form) {
    case OC_ROW_TEXT:
        return TEXT;
    case OC_ROW_IDS:
        return IDS;
    case OC_ROW_ALPACA:
        return ALPACA;
    case OC_ROW_COMPLETION:
        return json_is_array(oc_row_member(row, "prompt")) ? CHAT : PAIR;
    default:
        return CHAT;
    }
}

/* Whether a row's column of this name is read by some form. */
bool oc_key_is_known(const char *name, size_t n) {
    for (size_t i = 0; i < KEYS; i++)
        if (keys[i].places != TURN && strlen(keys[i].name) == n &&
            memcmp(keys[i].name, name, n) == 0)
            return true;
    return false;
}

static bool all_zero(const json_t *list) {
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *v = json_array_get(list, i);
        if (!json_is_integer(v) || json_integer_value(v) != 0) return false;
    }
    return true;
}

static bool says_nothing(const char *name, const json_t *v) {
    if (json_is_null(v)) return true;
    if (json_is_array(v) && strcmp(name, "token_type_ids") == 0) return all_zero(v);
    return (json_is_string(v) && json_string_length(v) == 0) ||
           (json_is_array(v) && json_array_size(v) == 0) ||
           (json_is_object(v) && json_object_size(v) == 0);
}

static oc_status check_row_key(const struct key *k, const char *where, oc_row_form form,
                               oc_error *err) {
    if (k->use == NO_IDS)
        return oc_fail(err, OC_E_FORMAT, "%s: \"%s\" need \"input_ids\", not %s", where, k->name,
                       oc_row_form_name(form));
    return oc_fail(err, OC_E_UNSUPPORTED, "%s: rows of %s have no place for \"%s\" (%s): %s", where,
                   oc_row_form_name(form), k->name, k->source, k->advice);
}

oc_status oc_keys_check_row(json_t *row, oc_row_form form, oc_row_notes *notes, const char *where,
                            oc_error *err) {
    place at = place_of(row, form);
    const char *name;
    json_t *value;
    json_object_foreach(row, name, value) {
        const struct key *k = find(name, at);
        if (json_is_null(value)) continue;
        if (k == NULL)
            oc_notes_ignored(notes, name);
        else if (k->use >= NO_IDS && !says_nothing(name, value))
            return check_row_key(k, where, form, err);
    }
    return OC_OK;
}

oc_status oc_keys_check_turn(const json_t *turn, const char *what, size_t i, oc_error *err) {
    for (size_t k = 0; k < KEYS; k++) {
        const json_t *v = json_object_get(turn, keys[k].name);
        if (keys[k].places != TURN || keys[k].use != REFUSED || v == NULL) continue;
        if (!says_nothing(keys[k].name, v))
            return oc_fail(err, OC_E_UNSUPPORTED, "%s[%zu].%s (%s): %s", what, i, keys[k].name,
                           keys[k].source, keys[k].advice);
    }
    return OC_OK;
}

const char *oc_keys_mask(size_t i) {
    for (size_t k = 0; k < KEYS; k++)
        if (keys[k].use == MASK && i-- == 0) return keys[k].name;
    return NULL;
}

/* 0 or false, 1 or true; otherwise -1. */
int oc_keys_bit(const json_t *v) {
    if (json_is_boolean(v)) return json_is_true(v);
    if (!json_is_number(v)) return -1;
    double x = json_number_value(v);
    return x == 0 ? 0 : x == 1 ? 1 : -1;
}

oc_status oc_keys_trained(const json_t *turn, const char *what, size_t i, oc_trained *out,
                          oc_error *err) {
    const char *by = NULL;
    *out = (oc_trained){.trained = true};
    for (size_t k = 0; k < KEYS; k++) {
        const json_t *v = json_object_get(turn, keys[k].name);
        if (keys[k].use != FLAG || v == NULL || json_is_null(v)) continue;
        int bit = oc_keys_bit(v);
        if (bit < 0)
            return oc_fail(err, OC_E_INVALID,
                           "%s[%zu].%s must be 0 (not trained) or 1 (trained), or false or true",
                           what, i, keys[k].name);
        if (by != NULL && out->trained != (bit == 1))
            return oc_fail(err, OC_E_INVALID, "%s[%zu].%s says the opposite of its %s", what, i,
                           keys[k].name, by);
        out->trained = bit == 1;
        out->by = by = keys[k].name;
        out->of_any_role |= strcmp(keys[k].source, "axolotl") == 0;
    }
    return OC_OK;
}
