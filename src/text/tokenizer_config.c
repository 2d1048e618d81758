/* tokenizer_config.json: names of special tokens and the chat template. What it says of adding
 * tokens (add_bos_token, ...) is what the reference library wrote into the post_processor. */
#include "base/json.h"
#include "text/tokenizer_internal.h"

#include <stdlib.h>
#include <string.h>

/* Takes *to. */
static oc_status keep(char **to, const json_t *text, const char *origin, oc_error *err) {
    char *copy = malloc(json_string_length(text) + 1);
    if (copy == NULL) return oc_fail(err, OC_E_MEMORY, "%s: no memory to read it", origin);
    memcpy(copy, json_string_value(text), json_string_length(text) + 1);
    free(*to);
    *to = copy;
    return OC_OK;
}

/* A string, or an object with a "content", or null. */
static oc_status read_token(char **to, const json_t *root, const char *key, const char *origin,
                            oc_error *err) {
    const json_t *v = json_object_get(root, key);
    if (json_is_object(v)) v = json_object_get(v, "content");
    if (v == NULL || json_is_null(v)) return OC_OK;
    if (!json_is_string(v))
        return oc_fail(err, OC_E_FORMAT,
                       "%s: \"%s\" must be a string or an object with \"content\"", origin, key);
    return keep(to, v, origin, err);
}

/* A string, or a list of {"name", "template"}, of which the default counts; null. */
static oc_status read_chat(char **to, const json_t *root, const char *origin, oc_error *err) {
    const json_t *v = json_object_get(root, "chat_template"), *one;
    if (v == NULL || json_is_null(v)) return OC_OK;
    if (json_is_string(v)) return keep(to, v, origin, err);
    if (!json_is_array(v))
        return oc_fail(err, OC_E_FORMAT, "%s: \"chat_template\" must be a string or a list",
                       origin);
    for (size_t i = 0; i < json_array_size(v); i++) {
        one = json_array_get(v, i);
        const char *name = json_string_value(json_object_get(one, "name"));
        const json_t *text = json_object_get(one, "template");
        if (name == NULL || !json_is_string(text))
            return oc_fail(err, OC_E_FORMAT,
                           "%s: an entry of \"chat_template\" needs a \"name\" and a \"template\"",
                           origin);
        if (strcmp(name, "default") == 0) return keep(to, text, origin, err);
    }
    return OC_OK;
}

oc_status oc_tk_config_read(oc_tk_config *c, const char *json, size_t n, const char *origin,
                            oc_error *err) {
    json_t *root;
    OC_TRY(oc_json_parse(&root, json, n, origin, 1, OC_JSON_INT_AS_REAL, err));
    oc_status s =
        json_is_object(root) ? OC_OK : oc_fail(err, OC_E_FORMAT, "%s: must be an object", origin);
    if (s == OC_OK) s = read_token(&c->bos, root, "bos_token", origin, err);
    if (s == OC_OK) s = read_token(&c->eos, root, "eos_token", origin, err);
    if (s == OC_OK) s = read_token(&c->pad, root, "pad_token", origin, err);
    if (s == OC_OK) s = read_chat(&c->chat, root, origin, err);
    json_decref(root);
    return s;
}

void oc_tk_config_release(oc_tk_config *c) {
    free(c->bos);
    free(c->eos);
    free(c->pad);
    free(c->chat);
    *c = (oc_tk_config){0};
}
