/* What PATH holds: the tensors of a safetensors file or model, what the model is, and the
 * checkpoints of an output directory. */
#include "base/fs.h"
#include "base/json.h"
#include "base/log.h"
#include "cli/cli.h"
#include "model/model.h"
#include "tensor/foreign.h"
#include "tensor/safetensors.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static oc_status no_memory(oc_error *err) {
    return oc_fail(err, OC_E_MEMORY, "no memory to tell what there is");
}

static char *path_join(const char *dir, const char *name) {
    size_t n = strlen(dir) + strlen(name) + 2;
    char *path = malloc(n);
    if (path) snprintf(path, n, "%s/%s", dir, name);
    return path;
}

static bool has_file(const char *dir, const char *name) {
    char *path = path_join(dir, name);
    bool there = path && oc_fs_exists(path);
    free(path);
    return there;
}

static json_t *tensor_json(const oc_tensors *t, const oc_tensor_info *x) {
    json_t *shape = json_array();
    for (int32_t i = 0; i < x->ndim; i++)
        shape = oc_json_append(shape, json_integer((json_int_t)x->dims[i]));
    return json_pack("{s:s, s:s, s:o, s:I, s:s}", "name", x->name, "dtype",
                     oc_file_dtype_name(x->dtype), "shape", shape, "bytes", (json_int_t)x->bytes,
                     "file", oc_tensors_file(t, x->file));
}

static json_t *tensors_json(const oc_tensors *t) {
    json_t *list = json_array();
    uint64_t elements = 0, bytes = 0;
    for (int32_t i = 0; i < oc_tensors_count(t); i++) {
        const oc_tensor_info *x = oc_tensors_at(t, i);
        elements += x->elements;
        bytes += x->bytes;
        list = oc_json_append(list, tensor_json(t, x));
    }
    return json_pack("{s:o, s:I, s:I, s:i}", "tensors", list, "elements", (json_int_t)elements,
                     "bytes", (json_int_t)bytes, "files", (int)oc_tensors_file_count(t));
}

static json_t *model_json(const oc_model *m) {
    return json_pack("{s:s, s:s, s:I, s:i, s:I, s:I, s:i, s:i, s:i, s:I, s:b}", "family", m->family,
                     "architecture", m->architecture, "parameters", (json_int_t)m->parameters,
                     "layers", (int)m->n_layers, "hidden", (json_int_t)m->hidden, "intermediate",
                     (json_int_t)m->decoder.intermediate, "heads", (int)m->decoder.heads,
                     "kv_heads", (int)m->decoder.kv_heads, "head_dim", (int)m->decoder.head_dim,
                     "vocab", (json_int_t)m->vocab, "tied", (int)m->tied);
}

static bool checkpoint_step(const char *name, long long *step) {
    static const char prefix[] = "checkpoint-";
    const char *digits = name + sizeof prefix - 1;
    if (strncmp(name, prefix, sizeof prefix - 1) != 0 || !*digits) return false;
    if (digits[strspn(digits, "0123456789")]) return false;
    *step = strtoll(digits, NULL, 10);
    return true;
}

typedef struct folder {
    const char *dir;
    uint64_t bytes;
    json_t *list; /* of checkpoints, by step */
} folder;

static oc_status add_bytes(void *arg, const char *name, oc_error *err) {
    folder *f = arg;
    struct stat st;
    char *path = path_join(f->dir, name);
    if (!path) return no_memory(err);
    if (stat(path, &st) == 0 && S_ISREG(st.st_mode)) f->bytes += (uint64_t)st.st_size;
    free(path);
    return OC_OK;
}

static size_t place_of(const json_t *list, long long step) {
    size_t at = 0;
    while (at < json_array_size(list) &&
           json_integer_value(json_object_get(json_array_get(list, at), "step")) < step)
        at++;
    return at;
}

static oc_status put_checkpoint(folder *f, const char *name, const char *path, oc_error *err) {
    folder inside = {.dir = path};
    long long step = 0;
    (void)checkpoint_step(name, &step);
    OC_TRY(oc_fs_list(path, add_bytes, &inside, err));
    bool model =
        has_file(path, "model.safetensors") || has_file(path, "model.safetensors.index.json");
    json_t *x = json_pack("{s:s, s:I, s:I, s:b}", "name", name, "step", (json_int_t)step, "bytes",
                          (json_int_t)inside.bytes, "model", model);
    if (!f->list) f->list = json_array();
    return json_array_insert_new(f->list, place_of(f->list, step), x) == 0 ? OC_OK : no_memory(err);
}

static oc_status add_checkpoint(void *arg, const char *name, oc_error *err) {
    folder *f = arg;
    long long step;
    if (!checkpoint_step(name, &step)) return OC_OK;
    char *path = path_join(f->dir, name);
    if (!path) return no_memory(err);
    oc_status st = oc_fs_is_directory(path) ? put_checkpoint(f, name, path, err) : OC_OK;
    free(path);
    return st;
}

/* Sorted by step. *out NULL: dir holds none. */
static oc_status checkpoints_json(json_t **out, const char *dir, oc_error *err) {
    folder f = {.dir = dir};
    oc_status st = oc_fs_list(dir, add_checkpoint, &f, err);
    if (st != OC_OK) json_decref(f.list);
    *out = st == OC_OK ? f.list : NULL;
    return st;
}

static oc_status add_tensors(json_t *out, const char *path, oc_error *err) {
    oc_tensors *t = NULL;
    OC_TRY(oc_tensors_open(&t, path, err));
    json_t *all = tensors_json(t);
    oc_tensors_close(t);
    return json_object_update_new(out, all) == 0 ? OC_OK : no_memory(err);
}

static oc_status add_model(json_t *out, const char *path, oc_error *err) {
    oc_model *m = NULL;
    OC_TRY(oc_model_open_trained(&m, path, err));
    json_t *model = model_json(m);
    oc_model_close(m);
    return json_object_set_new(out, "model", model) == 0 ? OC_OK : no_memory(err);
}

static oc_status inspect(json_t *out, const char *path, oc_error *err) {
    bool found = false;
    if (!oc_fs_exists(path)) return oc_fail(err, OC_E_NOTFOUND, "%s: no such file", path);
    if (!oc_fs_is_directory(path)) {
        size_t n = strlen(path);
        bool config = n >= 11 && strcmp(path + n - 11, "config.json") == 0;
        return config ? add_model(out, path, err) : add_tensors(out, path, err);
    }
    if (has_file(path, "config.json")) {
        found = true;
        OC_TRY(add_model(out, path, err));
    }
    if (has_file(path, "model.safetensors") || has_file(path, "model.safetensors.index.json")) {
        found = true;
        OC_TRY(add_tensors(out, path, err));
    }
    json_t *checkpoints = NULL;
    OC_TRY(checkpoints_json(&checkpoints, path, err));
    if (checkpoints && json_object_set_new(out, "checkpoints", checkpoints) != 0)
        return no_memory(err);
    found |= checkpoints != NULL;
    if (found) return OC_OK;
    char told[900];
    if (oc_foreign_directory(path, told, sizeof told))
        return oc_fail(err, OC_E_NOTFOUND, "%s", told);
    return oc_fail(err, OC_E_NOTFOUND,
                   "%s holds no config.json, no model.safetensors (or its index) and no "
                   "checkpoint-N directory",
                   path);
}

static long long integer(const json_t *object, const char *key) {
    return (long long)json_integer_value(json_object_get(object, key));
}

static const char *string(const json_t *object, const char *key) {
    return json_string_value(json_object_get(object, key));
}

static void print_model(const json_t *m) {
    printf("%s (%s): %lld parameters\n", string(m, "family"), string(m, "architecture"),
           integer(m, "parameters"));
    printf("  %lld layers, hidden %lld, intermediate %lld, %lld heads of %lld (%lld kv), "
           "vocabulary %lld%s\n",
           integer(m, "layers"), integer(m, "hidden"), integer(m, "intermediate"),
           integer(m, "heads"), integer(m, "head_dim"), integer(m, "kv_heads"), integer(m, "vocab"),
           json_is_true(json_object_get(m, "tied")) ? ", head tied to the embedding" : "");
}

static void print_tensors(const json_t *out) {
    size_t i, j;
    json_t *x, *dim;
    char size[32], shape[128];
    json_array_foreach(json_object_get(out, "tensors"), i, x) {
        size_t n = 0;
        shape[0] = 0;
        json_array_foreach(json_object_get(x, "shape"), j, dim) {
            if (n < sizeof shape - 24)
                n += (size_t)snprintf(shape + n, sizeof shape - n, "%s%lld", j ? " x " : "",
                                      (long long)json_integer_value(dim));
        }
        printf("%-60s %-8s %-20s %12s\n", string(x, "name"), string(x, "dtype"), shape,
               oc_size_format((uint64_t)integer(x, "bytes"), size, sizeof size));
    }
    printf("%zu tensors, %lld elements, %s in %lld file(s)\n",
           json_array_size(json_object_get(out, "tensors")), integer(out, "elements"),
           oc_size_format((uint64_t)integer(out, "bytes"), size, sizeof size),
           integer(out, "files"));
}

static void print_checkpoints(const json_t *list) {
    size_t i;
    json_t *x;
    char size[32];
    json_array_foreach(list, i, x) {
        printf("%-24s %12s  %s\n", string(x, "name"),
               oc_size_format((uint64_t)integer(x, "bytes"), size, sizeof size),
               json_is_true(json_object_get(x, "model")) ? "with a model" : "without a model");
    }
}

int oc_cmd_inspect(oc_config *c) {
    oc_error err = {OC_OK, ""};
    int code = OC_EXIT_DONE;
    json_t *out = json_pack("{s:s}", "path", c->path);
    if (!out) {
        oc_log(OC_LOG_ERROR,
               oc_json_is_text(c->path) ? "%s: no memory to look at it"
                                        : "%s: the path is not valid UTF-8",
               c->path);
        return OC_EXIT_REFUSED;
    }
    if (inspect(out, c->path, &err) != OC_OK) {
        json_decref(out);
        oc_log(OC_LOG_ERROR, "%s", err.message);
        return OC_EXIT_REFUSED;
    }
    if (c->json) {
        bool done = oc_json_print(out, JSON_INDENT(2), stdout, &err) == OC_OK;
        if (!done) oc_log(OC_LOG_ERROR, "%s", err.message);
        code = done ? OC_EXIT_DONE : OC_EXIT_FAILED;
    } else {
        if (json_object_get(out, "model")) print_model(json_object_get(out, "model"));
        if (json_object_get(out, "tensors")) print_tensors(out);
        print_checkpoints(json_object_get(out, "checkpoints"));
    }
    json_decref(out);
    return code;
}
