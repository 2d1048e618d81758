/* save.c - see save.h. Streams block by block from the weights' homes. */
#include "train/save.h"

#include "base/checked.h"
#include "base/fs.h"
#include "base/json.h"
#include "model/load.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 4096, SMALL_FILE_BYTES = 256 << 20 };

static oc_status join(char *out, const char *dir, const char *name, oc_error *err) {
    int n = snprintf(out, PATH_BYTES, "%s/%s", dir, name);
    if (n < 0 || n >= PATH_BYTES) return oc_fail(err, OC_E_INVALID, "the path %s is too long", dir);
    return OC_OK;
}

uint64_t oc_save_bytes(const oc_setup *setup) {
    return setup->model->parameters * oc_dtype_bytes(setup->dtype) + (1u << 20);
}

/* ---- weights ---- */

static oc_status values(void *arg, int32_t block, const void **out, oc_dtype *dtype,
                        oc_error *err) {
    (void)err;
    *out = oc_session_weights(arg, block);
    *dtype = oc_session_dtype(arg);
    return OC_OK;
}

static oc_status write_weights(oc_session *s, const oc_setup *setup, const char *dir,
                               oc_error *err) {
    oc_tensor_decl *decls = NULL;
    oc_writer *w = NULL;
    int32_t n = 0;
    uint64_t scratch_bytes =
        oc_align_up(oc_max_u64(oc_model_scratch_bytes(setup->model), 1u << 20), 64);
    OC_TRY(oc_model_decls(setup->model, setup->dtype, &decls, &n, err));
    void *scratch = aligned_alloc(64, scratch_bytes);
    oc_status st = scratch ? oc_writer_open(&w, dir, decls, n, 0, err)
                           : oc_fail(err, OC_E_MEMORY, "no memory to save the model");
    if (st == OC_OK) st = oc_model_write(setup->model, w, values, s, scratch, scratch_bytes, err);
    if (st == OC_OK) st = oc_writer_commit(w, err);
    oc_writer_close(w);
    free(scratch);
    free(decls);
    return st;
}

/* ---- small files ---- */

static const char *torch_name(oc_dtype t) {
    return t == OC_F32 ? "float32" : t == OC_BF16 ? "bfloat16" : "float16";
}

/* The config as it was, but for the dtype under the key it used ("dtype" when it had none). */
static oc_status write_config(const oc_setup *setup, const char *from, const char *dir,
                              oc_error *err) {
    char path[PATH_BYTES];
    if (oc_fs_is_directory(from))
        OC_TRY(join(path, from, "config.json", err));
    else if (snprintf(path, sizeof path, "%s", from) >= (int)sizeof path)
        return oc_fail(err, OC_E_INVALID, "the path %s is too long", from);
    json_t *root = NULL;
    OC_TRY(oc_json_load(&root, path, OC_JSON_NO_NUL, err));
    const char *key = json_object_get(root, "torch_dtype") ? "torch_dtype" : "dtype";
    (void)json_object_set_new(root, key, json_string(torch_name(setup->dtype)));
    char *text = json_dumps(root, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
    json_decref(root);
    if (!text) return oc_fail(err, OC_E_MEMORY, "no memory for config.json");
    oc_status st = join(path, dir, "config.json", err);
    if (st == OC_OK) st = oc_fs_write_atomic(path, text, strlen(text), err);
    free(text);
    return st;
}

static oc_status copy_file(const char *from_dir, const char *name, const char *dir, oc_error *err) {
    char from[PATH_BYTES], to[PATH_BYTES];
    OC_TRY(join(from, from_dir, name, err));
    OC_TRY(join(to, dir, name, err));
    if (!oc_fs_exists(from)) return OC_OK;
    char *data = NULL;
    size_t bytes = 0;
    OC_TRY(oc_fs_read(&data, &bytes, from, SMALL_FILE_BYTES, err));
    oc_status st = oc_fs_write_atomic(to, data, bytes, err);
    free(data);
    return st;
}

static oc_status write_tokenizer(const oc_setup *setup, const oc_save_source *source,
                                 const char *dir, oc_error *err) {
    static const char *const names[] = {"tokenizer.json",
                                        "tokenizer_config.json",
                                        "special_tokens_map.json",
                                        "added_tokens.json",
                                        "vocab.json",
                                        "merges.txt",
                                        "tokenizer.model",
                                        "chat_template.jinja",
                                        "generation_config.json"};
    if (source->tokenizer) return oc_tokenizer_save(source->tokenizer, dir, err);
    const char *from = setup->config->tokenizer;
    if (!from) from = source->model_dir;
    if (!oc_fs_is_directory(from)) return OC_OK;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        OC_TRY(copy_file(from, names[i], dir, err));
    return OC_OK;
}

oc_status oc_save_model(oc_session *s, const oc_setup *setup, const oc_save_source *source,
                        const char *dir, oc_error *err) {
    uint64_t room = 0, need = oc_save_bytes(setup);
    OC_TRY(oc_fs_free_bytes(dir, &room, err));
    if (room < need)
        return oc_fail(
            err, OC_E_IO,
            "%s has %llu bytes free, but the model needs %llu; free some space or choose "
            "another --output",
            dir, (unsigned long long)room, (unsigned long long)need);
    OC_TRY(oc_session_drain(s, err));
    OC_TRY(write_config(setup, source->model_dir, dir, err));
    OC_TRY(write_tokenizer(setup, source, dir, err));
    return write_weights(s, setup, dir, err);
}

/* ---- the final model ---- */

/* Weights of a Hugging Face model: model.safetensors, model-00001-of-00003.safetensors, the index.
 */
static bool is_weights(const char *name) {
    static const char prefix[] = "model", suffix[] = ".safetensors";
    size_t n = strlen(name), m = sizeof suffix - 1;
    if (strcmp(name, "model.safetensors.index.json") == 0) return true;
    if (n < m + 5 || strncmp(name, prefix, 5) != 0 || strcmp(name + n - m, suffix) != 0)
        return false;
    const char *middle = name + 5;
    size_t left = n - m - 5;
    if (left == 0) return true;
    return *middle == '-' && strspn(middle, "-of0123456789") == left;
}

/* Every file of `from` into dir: weights in the second pass, so that a new config never stands
 * beside weights that are missing. */
static oc_status move_files(const char *from, const char *dir, bool weights, oc_error *err) {
    char old[PATH_BYTES], new[PATH_BYTES];
    DIR *d = opendir(from);
    if (!d) return oc_fail_errno(err, OC_E_IO, errno, "%s cannot be listed", from);
    oc_status st = OC_OK;
    for (struct dirent *e = readdir(d); e && st == OC_OK; e = readdir(d)) {
        if (e->d_name[0] == '.' || is_weights(e->d_name) != weights) continue;
        st = join(old, from, e->d_name, err);
        if (st == OC_OK) st = join(new, dir, e->d_name, err);
        if (st == OC_OK) st = oc_fs_rename(old, new, err);
    }
    (void)closedir(d);
    return st;
}

/* Weights in dir that `from` does not replace: another number of shards. */
static oc_status drop_old_weights(const char *from, const char *dir, oc_error *err) {
    char path[PATH_BYTES], gone[PATH_BYTES];
    DIR *d = opendir(dir);
    if (!d) return oc_fail_errno(err, OC_E_IO, errno, "%s cannot be listed", dir);
    oc_status st = join(gone, dir, ".stale" OC_FS_TEMPORARY, err);
    for (struct dirent *e = readdir(d); e && st == OC_OK; e = readdir(d)) {
        if (!is_weights(e->d_name)) continue;
        st = join(path, from, e->d_name, err);
        if (st != OC_OK || oc_fs_exists(path)) continue;
        st = join(path, dir, e->d_name, err);
        if (st == OC_OK) st = oc_fs_rename(path, gone, err);
        if (st == OC_OK) st = oc_fs_remove_temporary(gone, err);
    }
    (void)closedir(d);
    return st;
}

oc_status oc_save_final(oc_session *s, const oc_setup *setup, const oc_save_source *source,
                        const char *dir, oc_error *err) {
    char temporary[PATH_BYTES];
    oc_error ignored;
    OC_TRY(join(temporary, dir, "model" OC_FS_TEMPORARY, err));
    OC_TRY(oc_fs_remove_temporary(temporary, err));
    OC_TRY(oc_fs_make_directories(temporary, err));
    oc_status st = oc_save_model(s, setup, source, temporary, err);
    if (st == OC_OK) st = drop_old_weights(temporary, dir, err);
    if (st == OC_OK) st = move_files(temporary, dir, false, err);
    if (st == OC_OK) st = move_files(temporary, dir, true, err);
    if (st == OC_OK) return oc_fs_remove_temporary(temporary, err);
    (void)!oc_fs_remove_temporary(temporary, &ignored);
    return st;
}

/* ---- checkpoints ---- */

/* The step of a name "checkpoint-N" exactly; false otherwise. */
static bool checkpoint_step(const char *name, uint64_t *step) {
    static const char prefix[] = "checkpoint-";
    if (strncmp(name, prefix, sizeof prefix - 1) != 0) return false;
    const char *digits = name + sizeof prefix - 1;
    if (*digits == 0 || strspn(digits, "0123456789") != strlen(digits)) return false;
    *step = strtoull(digits, NULL, 10);
    return true;
}

/* Remove a checkpoint: rename it to a temporary first, so that it never looks whole while it is
 * not. */
static oc_status remove_checkpoint(const char *dir, uint64_t step, oc_error *err) {
    char path[PATH_BYTES], gone[PATH_BYTES], name[64];
    (void)snprintf(name, sizeof name, "checkpoint-%llu", (unsigned long long)step);
    OC_TRY(join(path, dir, name, err));
    (void)snprintf(name, sizeof name, "checkpoint-%llu%s", (unsigned long long)step,
                   OC_FS_TEMPORARY);
    OC_TRY(join(gone, dir, name, err));
    OC_TRY(oc_fs_remove_temporary(gone, err));
    OC_TRY(oc_fs_rename(path, gone, err));
    return oc_fs_remove_temporary(gone, err);
}

/* The checkpoints of DIR and the least step among them. */
static oc_status oldest(const char *dir, int32_t *count, uint64_t *least, oc_error *err) {
    DIR *d = opendir(dir);
    if (!d) return oc_fail_errno(err, OC_E_IO, errno, "%s cannot be listed", dir);
    *count = 0;
    *least = UINT64_MAX;
    for (struct dirent *e = readdir(d); e; e = readdir(d)) {
        uint64_t step;
        if (!checkpoint_step(e->d_name, &step)) continue;
        ++*count;
        *least = oc_min_u64(*least, step);
    }
    (void)closedir(d);
    return OC_OK;
}

static oc_status prune(const char *dir, int32_t keep, oc_error *err) {
    int32_t count = 0;
    uint64_t least = 0;
    OC_TRY(oldest(dir, &count, &least, err));
    while (keep > 0 && count > keep) {
        OC_TRY(remove_checkpoint(dir, least, err));
        OC_TRY(oldest(dir, &count, &least, err));
    }
    return OC_OK;
}

oc_status oc_save_checkpoint(oc_session *s, const oc_setup *setup, const oc_save_source *source,
                             const char *dir, uint64_t step, int32_t keep, oc_error *err) {
    char path[PATH_BYTES], temporary[PATH_BYTES], name[64];
    (void)snprintf(name, sizeof name, "checkpoint-%llu", (unsigned long long)step);
    OC_TRY(join(path, dir, name, err));
    (void)snprintf(name, sizeof name, "checkpoint-%llu%s", (unsigned long long)step,
                   OC_FS_TEMPORARY);
    OC_TRY(join(temporary, dir, name, err));
    OC_TRY(oc_fs_remove_temporary(temporary, err));
    OC_TRY(oc_fs_make_directories(temporary, err));
    oc_status st = oc_save_model(s, setup, source, temporary, err);
    if (st == OC_OK && oc_fs_exists(path)) st = remove_checkpoint(dir, step, err);
    if (st == OC_OK) st = oc_fs_rename(temporary, path, err);
    if (st != OC_OK) {
        oc_error ignored;
        (void)!oc_fs_remove_temporary(temporary, &ignored);
        return st;
    }
    return prune(dir, keep, err);
}

oc_status oc_save_forget(const char *dir, oc_error *err) {
    int32_t count = 0;
    uint64_t least = 0;
    OC_TRY(oldest(dir, &count, &least, err));
    while (count > 0) {
        OC_TRY(remove_checkpoint(dir, least, err));
        OC_TRY(oldest(dir, &count, &least, err));
    }
    return OC_OK;
}

/* Names of ours that no finished run leaves; anything else in DIR is the user's. */
static bool stale_name(const char *name) {
    size_t n = strlen(name);
    bool json = n > 9 && strcmp(name + n - 9, ".json" OC_FS_TEMPORARY) == 0;
    bool tree = n > 15 && strncmp(name, "checkpoint-", 11) == 0 &&
                strcmp(name + n - 4, OC_FS_TEMPORARY) == 0;
    return json || tree || strcmp(name, "model" OC_FS_TEMPORARY) == 0 ||
           strcmp(name, ".stale" OC_FS_TEMPORARY) == 0;
}

static oc_status remove_stale(const char *dir, const char *name, oc_error *err) {
    char path[PATH_BYTES], renamed[PATH_BYTES];
    OC_TRY(join(path, dir, name, err));
    if (stale_name(name)) return oc_fs_remove_temporary(path, err);
    if (strncmp(name, ".tmp-", 5) != 0) return OC_OK; /* of the safetensors writer */
    OC_TRY(join(renamed, dir, ".stale" OC_FS_TEMPORARY, err));
    OC_TRY(oc_fs_rename(path, renamed, err));
    return oc_fs_remove_temporary(renamed, err);
}

oc_status oc_save_clean(const char *dir, oc_error *err) {
    DIR *d = opendir(dir);
    if (!d) return oc_fail_errno(err, OC_E_IO, errno, "%s cannot be listed", dir);
    oc_status st = OC_OK;
    for (struct dirent *e = readdir(d); e && st == OC_OK; e = readdir(d))
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            st = remove_stale(dir, e->d_name, err);
    (void)closedir(d);
    return st;
}
