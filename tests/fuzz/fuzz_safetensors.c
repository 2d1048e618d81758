/* Any bytes as a safetensors file and as an index: no crash, no bad access, and what is accepted
 * keeps its promises. Build with -fsanitize=fuzzer,address,undefined, or run by
 * test_tensor_corpus. */
#include "tensor/safetensors_internal.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void try_header(const uint8_t *data, size_t n) {
    uint64_t length;
    if (n < sizeof length) return;
    memcpy(&length, data, sizeof length);
    if (length > n - sizeof length) return;
    oc_st_header h;
    oc_error err;
    uint64_t start = sizeof length + length;
    if (oc_st_header_parse(&h, (const char *)data + sizeof length, length, start, n, "fuzz",
                           &err) != OC_OK) {
        if (memchr(err.message, 0, sizeof err.message) == NULL) abort();
        return;
    }
    uint64_t at = start;
    for (int32_t i = 0; i < h.count; i++) {
        const oc_tensor_info *x = &h.tensors[i];
        if (x->offset != at || x->ndim < 0 || x->ndim > OC_TENSOR_MAX_DIMS) abort();
        if (x->elements * oc_file_dtype_bits(x->dtype) != x->bytes * 8) abort();
        if (strlen(x->name) > n) abort();
        at += x->bytes;
    }
    if (at != n) abort();
    oc_st_header_release(&h);
}

static void try_index(const uint8_t *data, size_t n) {
    oc_st_index x;
    if (oc_st_index_parse(&x, (const char *)data, n, "fuzz", NULL) != OC_OK) return;
    for (int32_t i = 0; i < x.count; i++)
        if (strchr(x.entries[i].file, '/') != NULL || strstr(x.entries[i].file, "..") != NULL)
            abort();
    oc_st_index_release(&x);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    try_header(data, n);
    try_index(data, n);
    return 0;
}
