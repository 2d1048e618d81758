/* dtype.c - names of dtypes and conversions of values. IEEE 754 binary16 is converted in integer
 * arithmetic, so that the bits are the same on every machine; the device has vector versions. */
#include "base/dtype.h"

static const struct {
    const char *text;
    oc_dtype dtype;
} names[] = {
    {"fp32", OC_F32},      {"float32", OC_F32}, {"f32", OC_F32},     {"bf16", OC_BF16},
    {"bfloat16", OC_BF16}, {"fp16", OC_F16},    {"float16", OC_F16}, {"half", OC_F16},
};

const char *oc_dtype_name(oc_dtype t) {
    switch (t) {
    case OC_F32:
        return "fp32";
    case OC_BF16:
        return "bf16";
    case OC_F16:
        return "fp16";
    case OC_DTYPE_COUNT:
        break;
    }
    return "?";
}

bool oc_dtype_parse(const char *text, oc_dtype *out) {
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(text, names[i].text) == 0) {
            *out = names[i].dtype;
            return true;
        }
    }
    return false;
}

static float from_bits(uint32_t u) {
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

float oc_f16_to_f32(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    uint32_t exponent = (h >> 10) & 0x1fu;
    uint32_t fraction = h & 0x3ffu;
    if (exponent == 0x1f) {
        if (fraction) fraction |= 0x200u; /* a signalling NaN becomes quiet, as hardware has it */
        return from_bits(sign | 0x7f800000u | fraction << 13);
    }
    if (exponent) return from_bits(sign | (exponent + 112) << 23 | fraction << 13);
    if (!fraction) return from_bits(sign);
    /* A subnormal half is a normal float: shift its leading one into the hidden place. */
    uint32_t shift = (uint32_t)__builtin_clz(fraction) - 21;
    return from_bits(sign | (113 - shift) << 23 | ((fraction << shift) & 0x3ffu) << 13);
}

uint16_t oc_f32_to_f16(float f) {
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    uint32_t sign = (u >> 16) & 0x8000u;
    uint32_t a = u & 0x7fffffffu;
    if (a > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | ((a >> 13) & 0x3ffu));
    if (a >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* from 65520 on: infinity */
    if (a >= 0x38800000u)                                    /* from 2^-14 on: normal */
        return (uint16_t)(sign | (a - 0x38000000u + 0xfffu + ((a >> 13) & 1u)) >> 13);
    if (a <= 0x33000000u) return (uint16_t)sign; /* up to 2^-25, half the least: a tie to zero */
    uint32_t shift = 126 - (a >> 23);            /* 14 .. 24: value = m * 2^(shift - 24) ulps */
    uint32_t m = (a & 0x7fffffu) | 0x800000u;
    uint32_t q = m >> shift, rest = m & ((1u << shift) - 1u), half = 1u << (shift - 1);
    return (uint16_t)(sign | (q + (rest > half || (rest == half && (q & 1u)))));
}

static void widen(float *dst, oc_dtype src_dtype, const uint16_t *src, size_t n) {
    if (src_dtype == OC_BF16)
        for (size_t i = 0; i < n; i++)
            dst[i] = oc_bf16_to_f32(src[i]);
    else
        for (size_t i = 0; i < n; i++)
            dst[i] = oc_f16_to_f32(src[i]);
}

static void narrow(uint16_t *dst, oc_dtype dst_dtype, const float *src, size_t n) {
    if (dst_dtype == OC_BF16)
        for (size_t i = 0; i < n; i++)
            dst[i] = oc_f32_to_bf16(src[i]);
    else
        for (size_t i = 0; i < n; i++)
            dst[i] = oc_f32_to_f16(src[i]);
}

void oc_convert(void *dst, oc_dtype dst_dtype, const void *src, oc_dtype src_dtype, size_t n) {
    if (n == 0) return;
    if (dst_dtype == src_dtype) {
        memmove(dst, src, n * oc_dtype_bytes(src_dtype));
    } else if (dst_dtype == OC_F32) {
        widen(dst, src_dtype, src, n);
    } else if (src_dtype == OC_F32) {
        narrow(dst, dst_dtype, src, n);
    } else {
        const uint16_t *s = src;
        uint16_t *d = dst;
        for (size_t i = 0; i < n; i++) {
            float wide;
            widen(&wide, src_dtype, s + i, 1);
            narrow(d + i, dst_dtype, &wide, 1);
        }
    }
}
