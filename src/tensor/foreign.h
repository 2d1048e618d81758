/* foreign.h - what stands where safetensors or a tokenizer's files are looked for, and the command
 * that makes some of it.
 *
 * For messages only: git-lfs pointers, PyTorch's archives, adapters, GGUF, other layouts. */
#ifndef OC_FOREIGN_H
#define OC_FOREIGN_H

#include <stdbool.h>
#include <stddef.h>

/* The first bytes of the file at path, n of them: "is a git-lfs pointer ...: fetch it with: ..."
 * into out. false: nothing that is known. */
bool oc_foreign_bytes(const char *path, const void *bytes, size_t n, char *out, size_t out_bytes);
/* The same, of a git-lfs pointer alone: of files that may be anything else. */
bool oc_foreign_pointer(const char *path, const void *bytes, size_t n, char *out, size_t out_bytes);
/* As oc_foreign_bytes(), of the file itself. */
bool oc_foreign_file(const char *path, char *out, size_t out_bytes);
/* Of a directory without safetensors in Hugging Face's layout: "DIR holds a PEFT adapter ...". */
bool oc_foreign_directory(const char *dir, char *out, size_t out_bytes);

#endif
