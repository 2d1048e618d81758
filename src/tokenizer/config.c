/* tokenizer_config.json and what stands beside it: names of special tokens and the chat template.
 * What is said of adding tokens (add_bos_token, ...) is what the reference library wrote into the
 * post_processor. */
#include "base/json.h"
#include "tokenizer/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Takes *to. */
static oc_status keep(char **to, const char *text, const char *origin, oc_error *err) {
    char *copy = strdup(text);
    if (copy == NULL) return oc_fail(err, OC_E_MEMORY, "%s: no memory to read it", origin);
    free(*to);
    *to = copy;
    return OC_OK;
}

/* A string, or an object with a "content"; null, which says that there is none, is "". */
static oc_status read_token(char **to, const json_t *root, const char *key, const char *origin,
                            oc_error *err) {
    const json_t *v = json_object_get(root, key);
    if (v == NULL) return OC_OK;
    if (json_is_object(v)) v = json_object_get(v, "content");
    if (v == NULL || json_is_null(v)) return keep(to, "", origin, err);
    if (!json_is_string(v))
        return oc_fail(err, OC_E_FORMAT,
                       "%s: \"%s\" must be a string or an object with \"content\"", origin, key);
    return keep(to, json_string_value(v), origin, err);
}

/* One of several; those of other names are never asked for. */
static oc_status read_named(oc_tk_config *c, const json_t *one, const char *origin, oc_error *err) {
    const char *name = json_string_value(json_object_get(one, "name"));
    const json_t *text = json_object_get(one, "template");
    if (name == NULL || !json_is_string(text))
        return oc_fail(err, OC_E_FORMAT,
                       "%s: an entry of \"chat_template\" needs a \"name\" and a \"template\"",
                       origin);
    char **to = strcmp(name, "default") == 0    ? &c->chat
                : strcmp(name, "tool_use") == 0 ? &c->tool_chat
                                                : NULL;
    return to != NULL ? keep(to, json_string_value(text), origin, err) : OC_OK;
}

/* A string, or a list of {"name", "template"}; null. */
static oc_status read_chat(oc_tk_config *c, const json_t *root, const char *origin, oc_error *err) {
    const json_t *v = json_object_get(root, "chat_template");
    if (v == NULL || json_is_null(v)) return OC_OK;
    if (json_is_string(v)) return keep(&c->chat, json_string_value(v), origin, err);
    if (!json_is_array(v))
        return oc_fail(err, OC_E_FORMAT, "%s: \"chat_template\" must be a string or a list",
                       origin);
    for (size_t i = 0; i < json_array_size(v); i++)
        OC_TRY(read_named(c, json_array_get(v, i), origin, err));
    return OC_OK;
}

/* ---- what a class of the reference library has where nothing is named ---- */

#define TEXT_END "<|endoftext|>"
static const struct {
    const char *class, *models[2];
    const char *bos, *eos, *pad;
} classes[] = {
    {"GPT2Tokenizer", {"gpt2", "opt"}, TEXT_END, TEXT_END, NULL},
    {"Qwen2Tokenizer", {"qwen2", "qwen3"}, NULL, TEXT_END, TEXT_END},
    {"GPTNeoXTokenizer", {"gpt_neox"}, TEXT_END, TEXT_END, "<|padding|>"},
    {"GemmaTokenizer", {"gemma2", "gemma3_text"}, "<bos>", "<eos>", "<pad>"},
    {"CodeGenTokenizer", {NULL}, TEXT_END, TEXT_END, NULL},
};

static bool is_class(size_t i, const char *class, const char *model) {
    size_t n = strlen(classes[i].class);
    if (class != NULL)
        return strncmp(class, classes[i].class, n) == 0 &&
               (class[n] == 0 || strcmp(class + n, "Fast") == 0);
    for (size_t k = 0; k < 2 && model != NULL; k++)
        if (classes[i].models[k] != NULL && strcmp(classes[i].models[k], model) == 0) return true;
    return false;
}

static void choose_class(oc_tk_config *c, const json_t *config, const json_t *model) {
    const char *class = json_string_value(json_object_get(config, "tokenizer_class"));
    const char *type = json_string_value(json_object_get(model, "model_type"));
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        if (!is_class(i, class, type)) continue;
        c->class_bos = classes[i].bos;
        c->class_eos = classes[i].eos;
        c->class_pad = classes[i].pad;
    }
}

/* ---- the files ---- */

static oc_status read_tokens(oc_tk_config *c, const json_t *root, const char *origin,
                             oc_error *err) {
    OC_TRY(read_token(&c->bos, root, "bos_token", origin, err));
    OC_TRY(read_token(&c->eos, root, "eos_token", origin, err));
    return read_token(&c->pad, root, "pad_token", origin, err);
}

static oc_status parse_file(json_t **out, const oc_tk_json_text *text, const char *origin,
                            oc_error *err) {
    if (text->json == NULL) return OC_OK;
    OC_TRY(oc_json_parse(out, text->json, text->n, origin, 1, OC_JSON_INT_AS_REAL, err));
    return json_is_object(*out) ? OC_OK
                                : oc_fail(err, OC_E_FORMAT, "%s: must be an object", origin);
}

oc_status oc_tk_config_read(oc_tk_config *c, const oc_tk_beside *beside, const char *origin,
                            oc_error *err) {
    static const char *const names[3] = {"tokenizer_config.json", "special_tokens_map.json",
                                         "config.json"};
    const oc_tk_json_text *const texts[3] = {&beside->config, &beside->map, &beside->model};
    char where[3][OC_ERROR_BYTES];
    json_t *roots[3] = {NULL, NULL, NULL};
    oc_status s = OC_OK;
    for (size_t i = 0; i < 3 && s == OC_OK; i++) {
        (void)snprintf(where[i], sizeof where[i], "%s: %s", origin, names[i]);
        s = parse_file(&roots[i], texts[i], where[i], err);
    }
    if (s == OC_OK) {
        choose_class(c, roots[0], roots[2]);
        s = read_tokens(c, roots[0], where[0], err);
    }
    if (s == OC_OK) s = read_chat(c, roots[0], where[0], err);
    if (s == OC_OK) s = read_tokens(c, roots[1], where[1], err);
    for (size_t i = 0; i < 3; i++)
        json_decref(roots[i]);
    return s;
}

void oc_tk_config_release(oc_tk_config *c) {
    free(c->bos);
    free(c->eos);
    free(c->pad);
    free(c->chat);
    free(c->tool_chat);
    *c = (oc_tk_config){0};
}
