/* save.c - see save.h. Streams block by block from the weights' homes. */
#include "train/save.h"

#include "base/checked.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/log.h"
#include "config/output_names.h"
#include "model/load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES = 4096 };

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
    *dtype = oc_session_dtype(arg);
    return oc_session_weights(arg, block, out, err);
}

static oc_status write_weights(oc_session *s, const oc_setup *setup, const char *dir,
                               oc_error *err) {
    oc_tensor_decl *decls = NULL;
    oc_writer *w = NULL;
    int32_t n = 0;
    uint64_t scratch_bytes =
        oc_align_up(oc_max_u64(oc_model_scratch_bytes(setup->model), OC_MODEL_ROOMY_SCRATCH), 64);
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

/* Under each key that the config used; "dtype" when it had none. */
static bool set_dtype(json_t *root, const char *dtype) {
    bool old = json_object_get(root, "torch_dtype") != NULL, done = true;
    if (old) done = json_object_set_new(root, "torch_dtype", json_string(dtype)) == 0;
    if (!old || json_object_get(root, "dtype"))
        done = json_object_set_new(root, "dtype", json_string(dtype)) == 0 && done;
    return done;
}

/* Nothing but the tensors tells, where it ties a head that is its own. */
static bool set_tied(json_t *root, const oc_model *m) {
    return !m->said_tied || json_object_set_new(root, "tie_word_embeddings", json_false()) == 0;
}

/* The config as it was, but for the dtype and a tie that is none. */
static oc_status write_config(const oc_setup *setup, const char *dir, oc_error *err) {
    char path[PATH_BYTES];
    const oc_source_file *f = oc_source_config(setup->source);
    json_t *root = NULL;
    OC_TRY(join(path, dir, "config.json", err));
    OC_TRY(oc_json_parse(&root, f->data, f->bytes, oc_source_config_path(setup->source), 1,
                         OC_JSON_NO_NUL, err));
    char *text = set_dtype(root, torch_name(setup->dtype)) && set_tied(root, setup->model)
                     ? oc_json_dump(root, JSON_INDENT(2) | JSON_PRESERVE_ORDER)
                     : NULL;
    json_decref(root);
    if (!text) return oc_fail(err, OC_E_MEMORY, "no memory for config.json");
    oc_status st = oc_fs_write_atomic(path, text, strlen(text), err);
    free(text);
    return st;
}

/* generation_config.json speaks of the model's own tokens: with another tokenizer it would stop at
 * the wrong ones. */
static bool is_saved(const oc_setup *setup, const char *name) {
    return !setup->built_in || strcmp(name, "generation_config.json") == 0;
}

/* name may have a directory before it. */
static oc_status write_beside(const char *dir, const char *name, const oc_source_file *f,
                              oc_error *err) {
    char path[PATH_BYTES];
    const char *slash = strrchr(name, '/');
    OC_TRY(join(path, dir, name, err));
    if (slash) {
        path[strlen(path) - strlen(slash)] = 0;
        OC_TRY(oc_fs_make_directories(path, err));
        OC_TRY(join(path, dir, name, err));
    }
    return oc_fs_write_atomic(path, f->data, f->bytes, err);
}

/* The files of the tokenizer as they were; the built-in one, which may have none, is written out.
 */
static oc_status write_tokenizer(const oc_setup *setup, const char *dir, oc_error *err) {
    const char *name;
    const oc_source_file *f;
    if (setup->built_in) OC_TRY(oc_tokenizer_save(setup->tokenizer, dir, err));
    for (size_t i = 0; (f = oc_source_beside(setup->source, i, &name)); i++) {
        if (f->data && is_saved(setup, name)) OC_TRY(write_beside(dir, name, f, err));
    }
    return OC_OK;
}

oc_status oc_save_model(oc_session *s, const oc_setup *setup, const char *dir, oc_error *err) {
    uint64_t room = 0, need = oc_save_bytes(setup);
    OC_TRY(oc_fs_free_bytes(dir, &room, err));
    if (room < need)
        return oc_fail(
            err, OC_E_IO,
            "%s has %llu bytes free, but the model needs %llu; free some space or choose "
            "another --output",
            dir, (unsigned long long)room, (unsigned long long)need);
    OC_TRY(oc_session_drain(s, err));
    OC_TRY(write_config(setup, dir, err));
    OC_TRY(write_tokenizer(setup, dir, err));
    return write_weights(s, setup, dir, err);
}

/* ---- the final model ----
 *
 * It is written into DIR/model.tmp. Renamed to model.ready.tmp it is whole and durable: from here
 * on it replaces the earlier model, now or, after a crash, at the start of the next run. First what
 * the earlier model has and the new one lacks is dropped; then, renamed to model.moving.tmp, its
 * files are linked into DIR one by one, and only then does it go. So at any moment the earlier
 * model is whole, or the new one is. (Without hard links the files are moved: then the next run
 * completes the model from both places.) Each phase may be done again from its start. */

static const char building[] = "model" OC_FS_TEMPORARY, ready[] = OC_MODEL_READY,
                  moving[] = OC_MODEL_MOVING, stale[] = ".stale" OC_FS_TEMPORARY,
                  placing[] = ".placing" OC_FS_TEMPORARY;

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

/* The file stays in `from` as well, where the file system can link. */
static oc_status place_file(const char *from, const char *dir, const char *name, oc_error *err) {
    char old[PATH_BYTES], new[PATH_BYTES], link_name[PATH_BYTES];
    OC_TRY(join(old, from, name, err));
    OC_TRY(join(new, dir, name, err));
    OC_TRY(join(link_name, dir, placing, err));
    OC_TRY(oc_fs_remove_temporary(link_name, err));
    if (link(old, link_name) != 0) return oc_fs_rename(old, new, err);
    OC_TRY(oc_fs_rename(link_name, new, err));
    /* both names were the same file already: then rename() left both */
    return oc_fs_remove_temporary(link_name, err);
}

/* What a directory is gone through for. */
typedef struct replacement {
    const char *from, *dir;
    bool weights;
} replacement;

static oc_status place_files(const char *from, const char *dir, bool weights, oc_error *err);

static oc_status place_one(void *arg, const char *name, oc_error *err) {
    const replacement *r = arg;
    char from[PATH_BYTES], to[PATH_BYTES];
    if (name[0] == '.' || is_weights(name) != r->weights) return OC_OK;
    OC_TRY(join(from, r->from, name, err));
    if (!oc_fs_is_directory(from)) return place_file(r->from, r->dir, name, err);
    OC_TRY(join(to, r->dir, name, err));
    OC_TRY(oc_fs_make_directories(to, err));
    return place_files(from, to, false, err);
}

/* Every file of `from` into dir, those of its directories too: weights in the second pass, so that
 * a new config never stands beside weights that are missing. */
static oc_status place_files(const char *from, const char *dir, bool weights, oc_error *err) {
    replacement r = {from, dir, weights};
    return oc_fs_list(from, place_one, &r, err);
}

static oc_status drop_one(void *arg, const char *name, oc_error *err) {
    const replacement *r = arg;
    char path[PATH_BYTES], gone[PATH_BYTES];
    if (r->weights ? !is_weights(name) : !oc_source_is_beside(name)) return OC_OK;
    OC_TRY(join(path, r->from, name, err));
    if (oc_fs_exists(path) && !oc_fs_is_directory(path)) return OC_OK;
    OC_TRY(join(path, r->dir, name, err));
    OC_TRY(join(gone, r->dir, stale, err));
    OC_TRY(oc_fs_rename(path, gone, err));
    return oc_fs_remove_temporary(gone, err);
}

/* What an earlier model in dir has and `from` does not replace as a file: shards by another number,
 * or (weights false) a tokenizer. */
static oc_status drop_old(const char *from, const char *dir, bool weights, oc_error *err) {
    replacement r = {from, dir, weights};
    return oc_fs_list(dir, drop_one, &r, err);
}

typedef struct search {
    bool (*is)(const char *name);
    bool found;
} search;

static oc_status look_at(void *arg, const char *name, oc_error *err) {
    search *s = arg;
    (void)err;
    s->found |= s->is(name);
    return OC_OK;
}

static oc_status holds(bool *found, const char *dir, bool (*is)(const char *name), oc_error *err) {
    search s = {is, false};
    OC_TRY(oc_fs_list(dir, look_at, &s, err));
    *found = s.found;
    return OC_OK;
}

/* A model that is ready takes its place; one that is not there is fine. */
static oc_status finish_final(const char *dir, oc_error *err) {
    char from[PATH_BYTES], to[PATH_BYTES];
    OC_TRY(join(from, dir, ready, err));
    OC_TRY(join(to, dir, moving, err));
    if (oc_fs_exists(from)) {
        bool model = false;
        OC_TRY(holds(&model, dir, is_weights, err));
        /* without an earlier model, tokenizer files there are the user's; weights go last, since
         * they tell that there is one */
        if (model) OC_TRY(drop_old(from, dir, false, err));
        OC_TRY(drop_old(from, dir, true, err));
        OC_TRY(oc_fs_rename(from, to, err));
    }
    if (!oc_fs_exists(to)) return OC_OK;
    OC_TRY(place_files(to, dir, false, err));
    OC_TRY(place_files(to, dir, true, err));
    return oc_fs_remove_temporary(to, err);
}

/* run.json beside the model it led to. */
static oc_status write_run(const oc_setup *setup, const char *dir, oc_error *err) {
    char path[PATH_BYTES];
    OC_TRY(join(path, dir, "run.json", err));
    oc_run_facts facts = {setup->model->parameters, oc_model_trained_parameters(setup->model),
                          oc_program_tile(&setup->shape)};
    return oc_config_write(setup->config, &facts, path, err);
}

oc_status oc_save_run(const oc_setup *setup, const char *dir, oc_error *err) {
    char temporary[PATH_BYTES];
    bool model = false;
    OC_TRY(holds(&model, dir, is_weights, err));
    if (!model) return write_run(setup, dir, err);
    OC_TRY(join(temporary, dir, building, err));
    OC_TRY(oc_fs_make_directories(temporary, err));
    return write_run(setup, temporary, err);
}

void oc_save_discard(const char *dir) {
    char temporary[PATH_BYTES];
    oc_error ignored;
    if (join(temporary, dir, building, &ignored) == OC_OK)
        (void)!oc_fs_remove_temporary(temporary, &ignored);
}

oc_status oc_save_final(oc_session *s, const oc_setup *setup, const char *dir, oc_error *err) {
    char temporary[PATH_BYTES], whole[PATH_BYTES];
    OC_TRY(join(temporary, dir, building, err));
    OC_TRY(join(whole, dir, ready, err));
    OC_TRY(oc_fs_remove_temporary(temporary, err));
    OC_TRY(oc_fs_make_directories(temporary, err));
    oc_status st = oc_save_model(s, setup, temporary, err);
    if (st == OC_OK) st = write_run(setup, temporary, err);
    if (st == OC_OK) st = oc_fs_rename(temporary, whole, err);
    if (st != OC_OK) {
        oc_save_discard(dir);
        return st;
    }
    return finish_final(dir, err);
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

typedef struct steps {
    int32_t count;
    uint64_t least;
} steps;

static oc_status count_step(void *arg, const char *name, oc_error *err) {
    steps *s = arg;
    uint64_t step;
    (void)err;
    if (!checkpoint_step(name, &step)) return OC_OK;
    s->count++;
    s->least = oc_min_u64(s->least, step);
    return OC_OK;
}

/* The checkpoints of DIR and the least step among them. */
static oc_status oldest(const char *dir, int32_t *count, uint64_t *least, oc_error *err) {
    steps s = {0, UINT64_MAX};
    OC_TRY(oc_fs_list(dir, count_step, &s, err));
    *count = s.count;
    *least = s.least;
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

oc_status oc_save_checkpoint(oc_session *s, const oc_setup *setup, const char *dir, uint64_t step,
                             int32_t keep, oc_error *err) {
    char path[PATH_BYTES], temporary[PATH_BYTES], name[64];
    (void)snprintf(name, sizeof name, "checkpoint-%llu", (unsigned long long)step);
    OC_TRY(join(path, dir, name, err));
    (void)snprintf(name, sizeof name, "checkpoint-%llu%s", (unsigned long long)step,
                   OC_FS_TEMPORARY);
    OC_TRY(join(temporary, dir, name, err));
    OC_TRY(oc_fs_remove_temporary(temporary, err));
    OC_TRY(oc_fs_make_directories(temporary, err));
    oc_status st = oc_save_model(s, setup, temporary, err);
    if (st == OC_OK && oc_fs_exists(path)) st = remove_checkpoint(dir, step, err);
    if (st == OC_OK) st = oc_fs_rename(temporary, path, err);
    if (st != OC_OK) {
        oc_error ignored;
        (void)!oc_fs_remove_temporary(temporary, &ignored);
        return st;
    }
    return prune(dir, keep, err);
}

static bool is_checkpoint(const char *name) {
    uint64_t step;
    return checkpoint_step(name, &step);
}

static bool is_model(const char *name) {
    return strcmp(name, "model.safetensors") == 0 ||
           strcmp(name, "model.safetensors.index.json") == 0 || oc_output_is_unfinished(name);
}

oc_status oc_save_check_free(const oc_config *c, oc_error *err) {
    bool model = false, checkpoint = false;
    if (c->overwrite) return OC_OK;
    OC_TRY(holds(&model, c->output, is_model, err));
    OC_TRY(holds(&checkpoint, c->output, is_checkpoint, err));
    if (!checkpoint && (!model || c->resume)) return OC_OK;
    return oc_fail(err, OC_E_EXISTS,
                   "%s already holds %s: give another --output, or --overwrite, or --resume",
                   c->output, model ? "a model" : "checkpoints");
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

/* checkpoint-N.tmp */
static bool is_half_checkpoint(const char *name) {
    char text[64];
    uint64_t step;
    size_t n = strlen(name), m = sizeof OC_FS_TEMPORARY - 1;
    if (n <= m || n >= sizeof text || strcmp(name + n - m, OC_FS_TEMPORARY) != 0) return false;
    memcpy(text, name, n - m);
    text[n - m] = 0;
    return checkpoint_step(text, &step);
}

/* Names of ours that no finished run leaves; anything else in DIR is the user's. */
static bool is_stale(const char *name) {
    const char *const names[] = {building, stale, placing, "run.json" OC_FS_TEMPORARY};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0) return true;
    return is_half_checkpoint(name);
}

bool oc_save_is_ours(const char *name) {
    char first[256];
    uint64_t step;
    size_t n = strcspn(name, "/");
    if (n >= sizeof first) return false;
    memcpy(first, name, n);
    first[n] = 0;
    return strcmp(first, "run.json") == 0 || strcmp(first, "config.json") == 0 ||
           is_weights(first) || oc_source_is_beside(first) || checkpoint_step(first, &step) ||
           oc_output_is_unfinished(first) || is_stale(first);
}

static oc_status remove_stale(void *arg, const char *name, oc_error *err) {
    const replacement *r = arg;
    char path[PATH_BYTES];
    if (!is_stale(name)) return OC_OK;
    OC_TRY(join(path, r->dir, name, err));
    return oc_fs_remove_temporary(path, err);
}

oc_status oc_save_clean(const char *dir, oc_error *err) {
    replacement r = {.dir = dir};
    bool unfinished = false;
    OC_TRY(holds(&unfinished, dir, oc_output_is_unfinished, err));
    if (unfinished)
        oc_log(OC_LOG_INFO, "%s: completing the model that an interrupted run had ready", dir);
    OC_TRY(finish_final(dir, err));
    return oc_fs_list(dir, remove_stale, &r, err);
}
