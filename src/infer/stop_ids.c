/* The ids that end an answer. */
#include "infer/stop_ids.h"

#include "infer/id_list.h"
#include "infer/model_json.h"

#include <limits.h>
#include <stdlib.h>

struct oc_stop_ids {
    oc_id_list list;
};

static oc_status add_file(oc_id_list *l, const char *dir, const char *name, oc_error *err) {
    char path[PATH_MAX];
    json_t *root;
    OC_TRY(oc_model_json(&root, dir, name, path, sizeof path, err));
    oc_status s = oc_id_list_read(l, root, "eos_token_id", path, err);
    if (s == OC_OK)
        s = oc_id_list_read(l, json_object_get(root, "text_config"), "eos_token_id", path, err);
    json_decref(root);
    return s;
}

static oc_status fill(oc_stop_ids *s, const char *dir, const oc_tokenizer *t, oc_error *err) {
    OC_TRY(add_file(&s->list, dir, "generation_config.json", err));
    OC_TRY(add_file(&s->list, dir, "config.json", err));
    if (t == NULL || oc_tokenizer_eos(t) < 0) return OC_OK;
    return oc_id_list_add(&s->list, oc_tokenizer_eos(t), err);
}

oc_status oc_stop_ids_open(oc_stop_ids **out, const char *model_dir, const oc_tokenizer *tokenizer,
                           oc_error *err) {
    *out = NULL;
    oc_stop_ids *s = calloc(1, sizeof *s);
    if (s == NULL) return oc_fail(err, OC_E_MEMORY, "no memory for the ids that end an answer");
    oc_status status = fill(s, model_dir, tokenizer, err);
    if (status == OC_OK)
        *out = s;
    else
        oc_stop_ids_close(s);
    return status;
}

void oc_stop_ids_close(oc_stop_ids *s) {
    if (s == NULL) return;
    oc_id_list_release(&s->list);
    free(s);
}

bool oc_stop_ids_has(const oc_stop_ids *s, int32_t id) {
    for (int32_t i = 0; i < s->list.n; i++)
        if (s->list.ids[i] == id) return true;
    return false;
}

const int32_t *oc_stop_ids_list(const oc_stop_ids *s, int32_t *n) {
    *n = s->list.n;
    return s->list.ids;
}
