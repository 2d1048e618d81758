#include "tensor/safetensors_internal.h"

static const struct {
    const char *name;
    uint32_t bits;
} dtypes[OC_FD_COUNT] = {
    [OC_FD_BOOL] = {"BOOL", 8},       [OC_FD_F4] = {"F4", 4},
    [OC_FD_F6_E2M3] = {"F6_E2M3", 6}, [OC_FD_F6_E3M2] = {"F6_E3M2", 6},
    [OC_FD_U8] = {"U8", 8},           [OC_FD_I8] = {"I8", 8},
    [OC_FD_F8_E5M2] = {"F8_E5M2", 8}, [OC_FD_F8_E4M3] = {"F8_E4M3", 8},
    [OC_FD_F8_E8M0] = {"F8_E8M0", 8}, [OC_FD_I16] = {"I16", 16},
    [OC_FD_U16] = {"U16", 16},        [OC_FD_F16] = {"F16", 16},
    [OC_FD_BF16] = {"BF16", 16},      [OC_FD_I32] = {"I32", 32},
    [OC_FD_U32] = {"U32", 32},        [OC_FD_F32] = {"F32", 32},
    [OC_FD_C64] = {"C64", 64},        [OC_FD_F64] = {"F64", 64},
    [OC_FD_I64] = {"I64", 64},        [OC_FD_U64] = {"U64", 64},
};

const char *oc_file_dtype_name(oc_file_dtype t) {
    return (unsigned)t < OC_FD_COUNT ? dtypes[t].name : "unknown";
}

uint32_t oc_file_dtype_bits(oc_file_dtype t) {
    return (unsigned)t < OC_FD_COUNT ? dtypes[t].bits : 0;
}

uint32_t oc_st_alignment(oc_file_dtype t) {
    uint32_t bits = oc_file_dtype_bits(t);
    return bits < 8 ? 1 : bits / 8;
}

bool oc_file_dtype_compute(oc_file_dtype t, oc_dtype *out) {
    switch (t) {
    case OC_FD_F32:
        *out = OC_F32;
        return true;
    case OC_FD_BF16:
        *out = OC_BF16;
        return true;
    case OC_FD_F16:
        *out = OC_F16;
        return true;
    default:
        return false;
    }
}
