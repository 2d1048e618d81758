#include "tensor/foreign.h"

#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* In what is told and done, DIR stands for the directory and FILE for the name in it. */
#define PYTHON "python -c \"from transformers import AutoModelForCausalLM as M; "

/* ---- a file, by how it begins ---- */

enum { POINTER };
static const struct {
    const char *start, *told;
    size_t n;
} starts[] = {
    [POINTER] = {"version https://git-lfs",
                 "is a git-lfs pointer, not the file itself; fetch it with: git -C DIR lfs pull",
                 23},
    {"GGUF",
     "is a GGUF file, which holds weights for inference; make a model of it with: " PYTHON
     "M.from_pretrained('DIR', gguf_file='FILE').save_pretrained('DIR-hf')\"",
     4},
    {"PK\3\4",
     "is a PyTorch archive, not safetensors; make some of it with: " PYTHON
     "M.from_pretrained('DIR').save_pretrained('DIR-hf')\"",
     4},
    {"<!DOCTYPE", "is a page of the web, not the file itself; get it with: hf download", 9},
    {"<html", "is a page of the web, not the file itself; get it with: hf download", 5},
};

/* told with DIR and FILE in place; what does not fit is cut. */
static void fill_in(const char *told, const char *dir, int dir_length, const char *file, char *out,
                    size_t bytes) {
    size_t at = 0;
    out[0] = 0;
    while (*told && at + 1 < bytes) {
        bool is_dir = strncmp(told, "DIR", 3) == 0, is_file = strncmp(told, "FILE", 4) == 0;
        int n = is_dir    ? snprintf(out + at, bytes - at, "%.*s", dir_length, dir)
                : is_file ? snprintf(out + at, bytes - at, "%s", file)
                          : snprintf(out + at, bytes - at, "%c", *told);
        told += is_dir ? 3 : is_file ? 4 : 1;
        at += n > 0 ? (size_t)n : 0;
    }
}

/* Whether the bytes begin as row i of starts does; then what is told of it. */
static bool begins_as(size_t i, const char *path, const void *bytes, size_t n, char *out,
                      size_t out_bytes) {
    const char *slash = strrchr(path, '/');
    if (n < starts[i].n || memcmp(bytes, starts[i].start, starts[i].n) != 0) return false;
    fill_in(starts[i].told, slash ? path : ".", slash ? (int)(slash - path) : 1,
            slash ? slash + 1 : path, out, out_bytes);
    return true;
}

bool oc_foreign_bytes(const char *path, const void *bytes, size_t n, char *out, size_t out_bytes) {
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        if (begins_as(i, path, bytes, n, out, out_bytes)) return true;
    return false;
}

bool oc_foreign_pointer(const char *path, const void *bytes, size_t n, char *out,
                        size_t out_bytes) {
    return begins_as(POINTER, path, bytes, n, out, out_bytes);
}

bool oc_foreign_file(const char *path, char *out, size_t out_bytes) {
    char start[32];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd >= 0 ? read(fd, start, sizeof start) : -1;
    if (fd >= 0) close(fd);
    return n > 0 && oc_foreign_bytes(path, start, (size_t)n, out, out_bytes);
}

/* ---- a directory, by what it holds ---- */

static const struct {
    const char *name; /* fnmatch(3); the first row that a name of the directory matches counts */
    const char *told;
} layouts[] = {
    {"adapter_config.json",
     "a PEFT adapter, which changes another model (FILE names it); merge the two with: python -c "
     "\"from peft import AutoPeftModelForCausalLM as M; "
     "M.from_pretrained('DIR').merge_and_unload().save_pretrained('DIR-merged')\""},
    {"adapter_model.*",
     "a PEFT adapter (FILE), which changes another model; put its adapter_config.json there and "
     "merge the two with: python -c \"from peft import AutoPeftModelForCausalLM as M; "
     "M.from_pretrained('DIR').merge_and_unload().save_pretrained('DIR-merged')\""},
    {"zero_to_fp32.py",
     "a checkpoint of DeepSpeed; make weights of it with: python DIR/zero_to_fp32.py DIR DIR-hf "
     "--safe_serialization"},
    {"pytorch_model_fsdp_*",
     "a checkpoint of FSDP; make weights of it with: accelerate merge-weights DIR/FILE DIR-hf"},
    {"pytorch_model*.bin",
     "weights as PyTorch archives (FILE), not safetensors; make those of them with: " PYTHON
     "M.from_pretrained('DIR', dtype='auto').save_pretrained('DIR')\""},
    {"consolidated.*",
     "weights in the layout of the model's makers (FILE); get the same model in Hugging Face's "
     "with: hf download ORG/NAME --exclude \"original/*\" --exclude \"consolidated*\" --local-dir "
     "DIR"},
    {"*.gguf",
     "a GGUF file (FILE), which holds weights for inference; make a model of it with: " PYTHON
     "M.from_pretrained('DIR', gguf_file='FILE').save_pretrained('DIR-hf')\""},
    {"model-*-of-*.safetensors",
     "shards (FILE) without their index; get it with: hf download ORG/NAME "
     "model.safetensors.index.json --local-dir DIR"},
    {"*.safetensors",
     "safetensors under another name; if they are the model: mv DIR/FILE DIR/model.safetensors"},
    {"*.pth", "a PyTorch archive (FILE), not safetensors; make a model of it with the program that "
              "wrote it"},
    {"*.pt", "a PyTorch archive (FILE), not safetensors; make a model of it with the program that "
             "wrote it"},
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts, NAME_BYTES = 256 };

/* The first row that the name matches; LAYOUTS: none. */
static size_t layout_of(const char *name) {
    size_t i = 0;
    while (i < LAYOUTS && fnmatch(layouts[i].name, name, 0) != 0)
        i++;
    return i;
}

bool oc_foreign_directory(const char *dir, char *out, size_t out_bytes) {
    char file[NAME_BYTES] = "";
    size_t best = LAYOUTS;
    int n = snprintf(out, out_bytes, "%s holds ", dir);
    DIR *d = n > 0 && (size_t)n < out_bytes ? opendir(dir) : NULL;
    if (!d) return false;
    for (struct dirent *e; (e = readdir(d));) {
        size_t i = layout_of(e->d_name);
        bool before = i < best || (i == best && i < LAYOUTS && strcmp(e->d_name, file) < 0);
        if (!before || strlen(e->d_name) >= sizeof file) continue;
        best = i;
        snprintf(file, sizeof file, "%s", e->d_name);
    }
    closedir(d);
    if (best == LAYOUTS) return false;
    fill_in(layouts[best].told, dir, (int)strlen(dir), file, out + n, out_bytes - (size_t)n);
    return true;
}
