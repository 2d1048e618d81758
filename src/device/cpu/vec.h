/* vec.h - one SIMD vocabulary for the CPU kernels.
 *
 * A kernel is written once, in NAME.inc, against the types and functions below; NAME_plain.c,
 * NAME_avx2.c and NAME_avx512.c include it and are compiled with different flags, which select the
 * width here. vf holds VF_N floats, vi as many int32, vm is a lane mask. + - * / and, on vi, shifts
 * work on the types directly (GCC and clang vector extensions).
 *
 * Every function is a fixed sequence of IEEE operations on each lane, so a lane's result does not
 * depend on its neighbours. vf_fma rounds once, except in the plain build, where it rounds twice.
 * Rounding to 16 bits is to nearest, ties to even. Tail forms (_n) touch exactly n elements, 0 <= n
 * <= VF_N, and read zeros beyond. */
#ifndef OC_DEVICE_CPU_VEC_H
#define OC_DEVICE_CPU_VEC_H

#include "base/dtype.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define OC_INLINE static inline __attribute__((always_inline))

/* Loops with constant bounds over arrays of vectors must vanish, or the arrays live in memory. */
#if defined(__clang__)
#define OC_UNROLL _Pragma("clang loop unroll(full)")
#else
#define OC_UNROLL _Pragma("GCC unroll 32")
#endif

#if defined(__AVX512F__)

enum { VF_N = 16 };
typedef __m512 vf;
typedef int32_t vi __attribute__((vector_size(64)));
typedef __mmask16 vm;

OC_INLINE __mmask16 vm_first(int n) { return (__mmask16)((1u << n) - 1u); }

OC_INLINE vf vf_set1(float x) { return _mm512_set1_ps(x); }
OC_INLINE vf vf_load(const float *p) { return _mm512_loadu_ps(p); }
OC_INLINE vf vf_load_n(const float *p, int n) { return _mm512_maskz_loadu_ps(vm_first(n), p); }
OC_INLINE void vf_store(float *p, vf a) { _mm512_storeu_ps(p, a); }
OC_INLINE void vf_store_n(float *p, vf a, int n) { _mm512_mask_storeu_ps(p, vm_first(n), a); }

OC_INLINE vf vf_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
OC_INLINE vf vf_fnma(vf a, vf b, vf c) { return _mm512_fnmadd_ps(a, b, c); }
OC_INLINE vf vf_max(vf a, vf b) { return _mm512_max_ps(a, b); }
OC_INLINE vf vf_min(vf a, vf b) { return _mm512_min_ps(a, b); }
OC_INLINE vf vf_sqrt(vf a) { return _mm512_sqrt_ps(a); }

OC_INLINE vm vf_lt(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
OC_INLINE vm vf_le(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ); }
OC_INLINE vm vf_eq(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
OC_INLINE vm vm_and(vm a, vm b) { return (vm)(a & b); }
OC_INLINE vm vm_or(vm a, vm b) { return (vm)(a | b); }
OC_INLINE vf vf_select(vm m, vf yes, vf no) { return _mm512_mask_blend_ps(m, no, yes); }

OC_INLINE float vf_hsum(vf a) {
    __m256 h = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    q = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}

OC_INLINE float vf_hmax(vf a) {
    __m256 h = _mm256_max_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 q = _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    q = _mm_max_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_max_ss(q, _mm_movehdup_ps(q)));
}

OC_INLINE vf vf_widen_bf16(__m256i h) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}
OC_INLINE __m256i vf_narrow_bf16(vf a) {
    __m512i u = _mm512_castps_si512(a), high = _mm512_srli_epi32(u, 16);
    __m512i odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
    __m512i bias = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff));
    __m512i near = _mm512_srli_epi32(_mm512_add_epi32(u, bias), 16);
    __m512i quiet = _mm512_or_si512(high, _mm512_set1_epi32(0x40));
    __mmask16 nan = _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q);
    return _mm512_cvtepi32_epi16(_mm512_mask_blend_epi32(nan, near, quiet));
}
OC_INLINE __m256i vf_narrow_f16(vf a) {
    return _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

OC_INLINE vf vf_load_bf16(const uint16_t *p) {
    return vf_widen_bf16(_mm256_loadu_si256((const __m256i *)(const void *)p));
}
OC_INLINE vf vf_load_bf16_n(const uint16_t *p, int n) {
    return vf_widen_bf16(_mm256_maskz_loadu_epi16(vm_first(n), p));
}
OC_INLINE void vf_store_bf16(uint16_t *p, vf a) {
    _mm256_storeu_si256((__m256i *)(void *)p, vf_narrow_bf16(a));
}
OC_INLINE void vf_store_bf16_n(uint16_t *p, vf a, int n) {
    _mm256_mask_storeu_epi16(p, vm_first(n), vf_narrow_bf16(a));
}
OC_INLINE vf vf_load_f16(const uint16_t *p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}
OC_INLINE vf vf_load_f16_n(const uint16_t *p, int n) {
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(vm_first(n), p));
}
OC_INLINE void vf_store_f16(uint16_t *p, vf a) {
    _mm256_storeu_si256((__m256i *)(void *)p, vf_narrow_f16(a));
}
OC_INLINE void vf_store_f16_n(uint16_t *p, vf a, int n) {
    _mm256_mask_storeu_epi16(p, vm_first(n), vf_narrow_f16(a));
}

/* Nearest integer, ties to even. */
OC_INLINE vf vf_rint(vf a) {
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
/* a * 2^n, n an integer with |n| <= 160, in one rounding. */
OC_INLINE vf vf_ldexp(vf a, vf n) { return _mm512_scalef_ps(a, n); }

#elif defined(__AVX2__)

enum { VF_N = 8 };
typedef __m256 vf;
typedef int32_t vi __attribute__((vector_size(32)));
typedef __m256 vm;

OC_INLINE __m256i vi_first(int n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

OC_INLINE vf vf_set1(float x) { return _mm256_set1_ps(x); }
OC_INLINE vf vf_load(const float *p) { return _mm256_loadu_ps(p); }
OC_INLINE vf vf_load_n(const float *p, int n) { return _mm256_maskload_ps(p, vi_first(n)); }
OC_INLINE void vf_store(float *p, vf a) { _mm256_storeu_ps(p, a); }
OC_INLINE void vf_store_n(float *p, vf a, int n) { _mm256_maskstore_ps(p, vi_first(n), a); }

OC_INLINE vf vf_fma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }
OC_INLINE vf vf_fnma(vf a, vf b, vf c) { return _mm256_fnmadd_ps(a, b, c); }
OC_INLINE vf vf_max(vf a, vf b) { return _mm256_max_ps(a, b); }
OC_INLINE vf vf_min(vf a, vf b) { return _mm256_min_ps(a, b); }
OC_INLINE vf vf_sqrt(vf a) { return _mm256_sqrt_ps(a); }

OC_INLINE vm vf_lt(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
OC_INLINE vm vf_le(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_LE_OQ); }
OC_INLINE vm vf_eq(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_EQ_OQ); }
OC_INLINE vm vm_and(vm a, vm b) { return _mm256_and_ps(a, b); }
OC_INLINE vm vm_or(vm a, vm b) { return _mm256_or_ps(a, b); }
OC_INLINE vf vf_select(vm m, vf yes, vf no) { return _mm256_blendv_ps(no, yes, m); }

OC_INLINE float vf_hsum(vf a) {
    __m128 q = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    q = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}

OC_INLINE float vf_hmax(vf a) {
    __m128 q = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    q = _mm_max_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_max_ss(q, _mm_movehdup_ps(q)));
}

OC_INLINE __m128i vf_narrow_bf16(vf a) {
    __m256i u = _mm256_castps_si256(a), high = _mm256_srli_epi32(u, 16);
    __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
    __m256i bias = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
    __m256i near = _mm256_srli_epi32(_mm256_add_epi32(u, bias), 16);
    __m256i quiet = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
    __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(a, a, _CMP_UNORD_Q));
    __m256i r = _mm256_blendv_epi8(near, quiet, nan);
    r = _mm256_permute4x64_epi64(_mm256_packus_epi32(r, r), 0x08);
    return _mm256_castsi256_si128(r);
}
OC_INLINE __m128i vf_narrow_f16(vf a) {
    return _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
OC_INLINE __m128i vf_load_16_n(const uint16_t *p, int n) {
    uint16_t t[8] = {0};
    memcpy(t, p, (size_t)n * sizeof *p);
    return _mm_loadu_si128((const __m128i *)(const void *)t);
}
OC_INLINE void vf_store_16_n(uint16_t *p, __m128i h, int n) {
    uint16_t t[8];
    _mm_storeu_si128((__m128i *)(void *)t, h);
    memcpy(p, t, (size_t)n * sizeof *p);
}
OC_INLINE vf vf_widen_bf16(__m128i h) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}

OC_INLINE vf vf_load_bf16(const uint16_t *p) {
    return vf_widen_bf16(_mm_loadu_si128((const __m128i *)(const void *)p));
}
OC_INLINE vf vf_load_bf16_n(const uint16_t *p, int n) { return vf_widen_bf16(vf_load_16_n(p, n)); }
OC_INLINE void vf_store_bf16(uint16_t *p, vf a) {
    _mm_storeu_si128((__m128i *)(void *)p, vf_narrow_bf16(a));
}
OC_INLINE void vf_store_bf16_n(uint16_t *p, vf a, int n) { vf_store_16_n(p, vf_narrow_bf16(a), n); }
OC_INLINE vf vf_load_f16(const uint16_t *p) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}
OC_INLINE vf vf_load_f16_n(const uint16_t *p, int n) { return _mm256_cvtph_ps(vf_load_16_n(p, n)); }
OC_INLINE void vf_store_f16(uint16_t *p, vf a) {
    _mm_storeu_si128((__m128i *)(void *)p, vf_narrow_f16(a));
}
OC_INLINE void vf_store_f16_n(uint16_t *p, vf a, int n) { vf_store_16_n(p, vf_narrow_f16(a), n); }

OC_INLINE vf vf_rint(vf a) {
    return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

#else

enum { VF_N = 4 };
typedef float vf __attribute__((vector_size(16)));
typedef int32_t vi __attribute__((vector_size(16)));
typedef vi vm;

OC_INLINE vf vf_set1(float x) { return (vf){x, x, x, x}; }
OC_INLINE vf vf_load(const float *p) {
    vf a;
    memcpy(&a, p, sizeof a);
    return a;
}
OC_INLINE vf vf_load_n(const float *p, int n) {
    vf a = {0};
    memcpy(&a, p, (size_t)n * sizeof *p);
    return a;
}
OC_INLINE void vf_store(float *p, vf a) { memcpy(p, &a, sizeof a); }
OC_INLINE void vf_store_n(float *p, vf a, int n) { memcpy(p, &a, (size_t)n * sizeof *p); }

OC_INLINE vf vf_fma(vf a, vf b, vf c) { return a * b + c; }
OC_INLINE vf vf_fnma(vf a, vf b, vf c) { return c - a * b; }

OC_INLINE vm vf_lt(vf a, vf b) { return (vm)(a < b); }
OC_INLINE vm vf_le(vf a, vf b) { return (vm)(a <= b); }
OC_INLINE vm vf_eq(vf a, vf b) { return (vm)(a == b); }
OC_INLINE vm vm_and(vm a, vm b) { return a & b; }
OC_INLINE vm vm_or(vm a, vm b) { return a | b; }
OC_INLINE vf vf_select(vm m, vf yes, vf no) { return (vf)((m & (vi)yes) | (~m & (vi)no)); }
OC_INLINE vf vf_max(vf a, vf b) { return vf_select((vm)(a > b), a, b); }
OC_INLINE vf vf_min(vf a, vf b) { return vf_select((vm)(a < b), a, b); }
OC_INLINE vf vf_sqrt(vf a) { return (vf){sqrtf(a[0]), sqrtf(a[1]), sqrtf(a[2]), sqrtf(a[3])}; }

OC_INLINE float vf_hsum(vf a) { return (a[0] + a[2]) + (a[1] + a[3]); }
OC_INLINE float vf_hmax(vf a) {
    float x = a[0] > a[2] ? a[0] : a[2], y = a[1] > a[3] ? a[1] : a[3];
    return x > y ? x : y;
}

OC_INLINE vf vf_load_bf16_n(const uint16_t *p, int n) {
    float t[4] = {0};
    for (int i = 0; i < n; i++)
        t[i] = oc_bf16_to_f32(p[i]);
    return vf_load(t);
}
OC_INLINE void vf_store_bf16_n(uint16_t *p, vf a, int n) {
    for (int i = 0; i < n; i++)
        p[i] = oc_f32_to_bf16(a[i]);
}
OC_INLINE vf vf_load_f16_n(const uint16_t *p, int n) {
    float t[4] = {0};
    for (int i = 0; i < n; i++)
        t[i] = oc_f16_to_f32(p[i]);
    return vf_load(t);
}
OC_INLINE void vf_store_f16_n(uint16_t *p, vf a, int n) {
    for (int i = 0; i < n; i++)
        p[i] = oc_f32_to_f16(a[i]);
}
OC_INLINE vf vf_load_bf16(const uint16_t *p) { return vf_load_bf16_n(p, 4); }
OC_INLINE void vf_store_bf16(uint16_t *p, vf a) { vf_store_bf16_n(p, a, 4); }
OC_INLINE vf vf_load_f16(const uint16_t *p) { return vf_load_f16_n(p, 4); }
OC_INLINE void vf_store_f16(uint16_t *p, vf a) { vf_store_f16_n(p, a, 4); }

/* Adding 1.5 * 2^23 leaves no room for a fraction: exact for |a| < 2^22, identity beyond. */
OC_INLINE vf vf_rint(vf a) {
    vf big = vf_set1(12582912.0f), r = (a + big) - big;
    vf magnitude = (vf)((vi)a & 0x7fffffff);
    return vf_select(vf_lt(magnitude, vf_set1(4194304.0f)), r, a);
}

#endif

/* ---- the same for every width -------------------------------------------------------------- */

#if !defined(__AVX512F__)
/* Two factors, because 2^n alone may leave the range of a normal number. */
OC_INLINE vf vf_ldexp(vf a, vf n) {
    vf big = vf_set1(12582912.0f);
    vi i = (vi)(n + big) - (vi)big, half = i >> 1;
    return a * (vf)((half + 127) << 23) * (vf)((i - half + 127) << 23);
}
#endif

/* max and min return b when either operand is NaN: put the constant first to let NaN through. */

OC_INLINE vf vf_zero(void) { return vf_set1(0.0f); }
OC_INLINE vm vf_gt(vf a, vf b) { return vf_lt(b, a); }
OC_INLINE vm vf_ge(vf a, vf b) { return vf_le(b, a); }
OC_INLINE vf vf_div(vf a, vf b) { return a / b; }
OC_INLINE vf vf_abs(vf a) { return (vf)((vi)a & 0x7fffffff); }
OC_INLINE vf vf_copysign(vf magnitude, vf sign) {
    return (vf)(((vi)magnitude & 0x7fffffff) | ((vi)sign & (int32_t)0x80000000u));
}
/* 0, 1, 2, ... */
OC_INLINE vf vf_iota(void) {
    float t[VF_N];
    OC_UNROLL
    for (int i = 0; i < VF_N; i++)
        t[i] = (float)i;
    return vf_load(t);
}

/* Lane i of a[j] and lane j of a[i] change places. Only moves bits. */
#if defined(__AVX512F__)
OC_INLINE void vf_turn(vf a[VF_N]) {
    vf b[VF_N];
    /* 4 x 4 within 128-bit lanes, in two steps; then the lanes themselves, in two steps */
    OC_UNROLL
    for (int i = 0; i < 16; i += 2) {
        b[i] = _mm512_unpacklo_ps(a[i], a[i + 1]);
        b[i + 1] = _mm512_unpackhi_ps(a[i], a[i + 1]);
    }
    OC_UNROLL
    for (int i = 0; i < 16; i += 4) {
        a[i] = _mm512_shuffle_ps(b[i], b[i + 2], 0x44);
        a[i + 1] = _mm512_shuffle_ps(b[i], b[i + 2], 0xee);
        a[i + 2] = _mm512_shuffle_ps(b[i + 1], b[i + 3], 0x44);
        a[i + 3] = _mm512_shuffle_ps(b[i + 1], b[i + 3], 0xee);
    }
    OC_UNROLL
    for (int i = 0; i < 4; i++) {
        b[i] = _mm512_shuffle_f32x4(a[i], a[i + 4], 0x88);
        b[i + 4] = _mm512_shuffle_f32x4(a[i], a[i + 4], 0xdd);
        b[i + 8] = _mm512_shuffle_f32x4(a[i + 8], a[i + 12], 0x88);
        b[i + 12] = _mm512_shuffle_f32x4(a[i + 8], a[i + 12], 0xdd);
    }
    OC_UNROLL
    for (int i = 0; i < 8; i++) {
        a[i] = _mm512_shuffle_f32x4(b[i], b[i + 8], 0x88);
        a[i + 8] = _mm512_shuffle_f32x4(b[i], b[i + 8], 0xdd);
    }
}
#elif defined(__AVX2__)
OC_INLINE void vf_turn(vf a[VF_N]) {
    vf b[VF_N];
    OC_UNROLL
    for (int i = 0; i < 8; i += 2) {
        b[i] = _mm256_unpacklo_ps(a[i], a[i + 1]);
        b[i + 1] = _mm256_unpackhi_ps(a[i], a[i + 1]);
    }
    OC_UNROLL
    for (int i = 0; i < 8; i += 4) {
        a[i] = _mm256_shuffle_ps(b[i], b[i + 2], 0x44);
        a[i + 1] = _mm256_shuffle_ps(b[i], b[i + 2], 0xee);
        a[i + 2] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0x44);
        a[i + 3] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0xee);
    }
    OC_UNROLL
    for (int i = 0; i < 8; i++)
        b[i] = a[i];
    OC_UNROLL
    for (int i = 0; i < 4; i++) {
        a[i] = _mm256_permute2f128_ps(b[i], b[i + 4], 0x20);
        a[i + 4] = _mm256_permute2f128_ps(b[i], b[i + 4], 0x31);
    }
}
#else
OC_INLINE void vf_turn(vf a[VF_N]) {
    for (int i = 0; i < VF_N; i++)
        for (int j = 0; j < i; j++) {
            float x = a[i][j];
            a[i][j] = a[j][i];
            a[j][i] = x;
        }
}
#endif

/* dst[j * dst_ld + i] = src[i * src_ld + j] for i, j < VF_N. */
OC_INLINE void vf_transpose(const float *src, int64_t src_ld, float *dst, int64_t dst_ld) {
    vf a[VF_N];
    OC_UNROLL
    for (int i = 0; i < VF_N; i++)
        a[i] = vf_load(src + i * src_ld);
    vf_turn(a);
    OC_UNROLL
    for (int i = 0; i < VF_N; i++)
        vf_store(dst + i * dst_ld, a[i]);
}

/* Element i .. i + VF_N - 1 of an array of dtype t. */
OC_INLINE vf vf_load_as(const void *p, oc_dtype t, int64_t i) {
    if (t == OC_F32) return vf_load((const float *)p + i);
    if (t == OC_BF16) return vf_load_bf16((const uint16_t *)p + i);
    return vf_load_f16((const uint16_t *)p + i);
}
OC_INLINE vf vf_load_as_n(const void *p, oc_dtype t, int64_t i, int n) {
    if (t == OC_F32) return vf_load_n((const float *)p + i, n);
    if (t == OC_BF16) return vf_load_bf16_n((const uint16_t *)p + i, n);
    return vf_load_f16_n((const uint16_t *)p + i, n);
}
OC_INLINE void vf_store_as(void *p, oc_dtype t, int64_t i, vf a) {
    if (t == OC_F32)
        vf_store((float *)p + i, a);
    else if (t == OC_BF16)
        vf_store_bf16((uint16_t *)p + i, a);
    else
        vf_store_f16((uint16_t *)p + i, a);
}
OC_INLINE void vf_store_as_n(void *p, oc_dtype t, int64_t i, vf a, int n) {
    if (t == OC_F32)
        vf_store_n((float *)p + i, a, n);
    else if (t == OC_BF16)
        vf_store_bf16_n((uint16_t *)p + i, a, n);
    else
        vf_store_f16_n((uint16_t *)p + i, a, n);
}

/* The polynomials are minimax fits of the remainder after the leading Taylor terms; errors stated
 * are of the whole function, measured against libm in double. */

/* exp for -104 <= x <= 89. */
OC_INLINE vf vf_exp_within(vf x) {
    vf n = vf_rint(x * vf_set1(1.44269504f));
    vf r = vf_fnma(n, vf_set1(0.693359375f), x); /* ln 2 in two parts, the first exact times n */
    r = vf_fnma(n, vf_set1(-2.12194440e-4f), r);
    vf p = vf_set1(0.0013813149f);
    p = vf_fma(p, r, vf_set1(0.0083694193f));
    p = vf_fma(p, r, vf_set1(0.0416684567f));
    p = vf_fma(p, r, vf_set1(0.1666651479f));
    p = vf_fma(p, r, vf_set1(0.4999999305f));
    p = vf_fma(p, r * r, r) + vf_set1(1.0f);
    return vf_ldexp(p, n);
}

/* Below 1 ulp; 0 below -104, inf above 88.73, NaN for NaN. */
OC_INLINE vf vf_exp(vf x) {
    return vf_exp_within(vf_min(vf_set1(89.0f), vf_max(vf_set1(-104.0f), x)));
}

/* Below 1 ulp; -inf at 0, NaN below. */
OC_INLINE vf vf_log(vf x) {
    vm tiny = vf_lt(x, vf_set1(1.17549435e-38f));
    vf y = vf_select(tiny, x * vf_set1(8388608.0f), x);
    vi e = ((vi)y - 0x3f3504f3) >> 23; /* so that the mantissa is in [sqrt(1/2), sqrt(2)) */
    vf f = (vf)((vi)y - (e << 23)) - vf_set1(1.0f);
    vf k = __builtin_convertvector(e, vf) + vf_select(tiny, vf_set1(-23.0f), vf_zero());
    vf p = vf_set1(0.067465459f);
    p = vf_fma(p, f, vf_set1(-0.1167561734f));
    p = vf_fma(p, f, vf_set1(0.1188818733f));
    p = vf_fma(p, f, vf_set1(-0.1240559654f));
    p = vf_fma(p, f, vf_set1(0.1421954979f));
    p = vf_fma(p, f, vf_set1(-0.1666799531f));
    p = vf_fma(p, f, vf_set1(0.2000211878f));
    p = vf_fma(p, f, vf_set1(-0.2500000961f));
    p = vf_fma(p, f, vf_set1(0.333333126f));
    vf f2 = f * f, r = vf_fma(p, f2 * f, k * vf_set1(-2.12194440e-4f));
    r = vf_fnma(f2, vf_set1(0.5f), r) + f;
    r = vf_fma(k, vf_set1(0.693359375f), r);
    r = vf_select(vf_eq(x, vf_set1(INFINITY)), x, r);
    r = vf_select(vf_eq(x, vf_zero()), vf_set1(-INFINITY), r);
    return vf_select(vf_ge(x, vf_zero()), r, vf_set1(NAN));
}

/* Below 1.5 ulp. */
OC_INLINE vf vf_tanh(vf x) {
    vf a = vf_abs(x), z = x * x;
    vf p = vf_set1(-0.0057049703f);
    p = vf_fma(p, z, vf_set1(0.0206390708f));
    p = vf_fma(p, z, vf_set1(-0.0537397094f));
    p = vf_fma(p, z, vf_set1(0.1333144212f));
    p = vf_fma(p, z, vf_set1(-0.3333328194f));
    vf small = vf_fma(p * z, x, x);
    vf one = vf_set1(1.0f), large = one - vf_set1(2.0f) / (vf_exp(a + a) + one);
    return vf_copysign(vf_select(vf_lt(a, vf_set1(0.625f)), small, large), x);
}

/* Below 3 ulp. Beyond 1: 1 - exp(polynomial), a fit of log(erfc) on [1, 4]. */
OC_INLINE vf vf_erf(vf x) {
    vf a = vf_min(vf_set1(4.0f), vf_abs(x)), z = a * a;
    vf p = vf_set1(7.8538545188e-05f);
    p = vf_fma(p, z, vf_set1(-8.0101915563e-04f));
    p = vf_fma(p, z, vf_set1(5.1883274504e-03f));
    p = vf_fma(p, z, vf_set1(-2.6853811812e-02f));
    p = vf_fma(p, z, vf_set1(1.1283585146e-01f));
    p = vf_fma(p, z, vf_set1(-3.7612625824e-01f));
    p = vf_fma(p, z, vf_set1(1.1283791657e+00f));
    vf q = vf_set1(-2.1697722898e-05f);
    q = vf_fma(q, a, vf_set1(4.4147395852e-04f));
    q = vf_fma(q, a, vf_set1(-4.2052913346e-03f));
    q = vf_fma(q, a, vf_set1(2.5210357765e-02f));
    q = vf_fma(q, a, vf_set1(-1.0842212855e-01f));
    q = vf_fma(q, a, vf_set1(-6.3321636943e-01f));
    q = vf_fma(q, a, vf_set1(-1.1295803256e+00f));
    q = vf_fma(q, a, vf_set1(1.8847089736e-04f));
    vf large = vf_set1(1.0f) - vf_exp(q);
    return vf_copysign(vf_select(vf_lt(a, vf_set1(1.0f)), p * a, large), x);
}

#endif
