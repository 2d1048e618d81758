/* dtype.h - the compute dtypes and their scalar conversions.
 *
 * Lives in base because the device table, below the tensor room, needs it. File dtypes (safetensors
 * has more of them) are in tensor/safetensors.h. bf16 and fp16 values travel as uint16_t bit
 * patterns. */
#ifndef OC_DTYPE_H
#define OC_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef enum oc_dtype { OC_F32, OC_BF16, OC_F16, OC_DTYPE_COUNT } oc_dtype;

static inline size_t oc_dtype_bytes(oc_dtype t) { return t == OC_F32 ? 4 : 2; }
const char *oc_dtype_name(oc_dtype t); /* "fp32", "bf16", "fp16" */
/* Accepts fp32 float32 f32 bf16 bfloat16 fp16 float16 half; false when unknown. */
bool oc_dtype_parse(const char *text, oc_dtype *out);

static inline float oc_bf16_to_f32(uint16_t h) {
    uint32_t u = (uint32_t)h << 16;
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

/* Round to nearest even; NaN stays NaN (quiet). */
static inline uint16_t oc_f32_to_bf16(float f) {
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((u >> 16) | 0x40u);
    return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

float oc_f16_to_f32(uint16_t h);
uint16_t oc_f32_to_f16(float f); /* nearest even, overflow to infinity */

/* n values, single-threaded, any pair of dtypes; src and dst do not overlap unless equal dtypes. */
void oc_convert(void *dst, oc_dtype dst_dtype, const void *src, oc_dtype src_dtype, size_t n);

#endif
