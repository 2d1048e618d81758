/* AVX-512 (F, BW, DQ, VL): 14 x 32 micro-tiles, 28 accumulators of the 32 registers. */
#include "device/cpu/gemm_kernels.h"

#include <immintrin.h>

typedef __m512 vec;

enum { LANES = 16, MR = 14, NR = 32 };
#define KERNELS oc_gemm_avx512
#define KERNELS_NAME "avx512 14x32"
#define ROW_VARIANTS(X) X(1) X(2) X(4) X(6) X(8) X(10) X(12) X(14)
#define FEW_VARIANTS(X) X(1) X(2) X(3) X(4) X(6) X(8) X(10) X(12) X(14)

static bool runs_here(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           oc_gemm_cpu_has_f16c();
}

static inline vec v_zero(void) { return _mm512_setzero_ps(); }
static inline vec v_load(const float *p) { return _mm512_loadu_ps(p); }
static inline void v_store(float *p, vec v) { _mm512_storeu_ps(p, v); }
static inline vec v_add(vec a, vec b) { return _mm512_add_ps(a, b); }
static inline vec v_fma(vec a, vec b, vec c) { return _mm512_fmadd_ps(a, b, c); }
static inline vec v_broadcast(const float *p) { return _mm512_set1_ps(*p); }

static inline vec widen(__m256i h, oc_dtype t) {
    if (t == OC_F16) return _mm512_cvtph_ps(h);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}

static inline vec v_load_part(const void *p, oc_dtype t, int n) {
    __mmask16 m = (__mmask16)((1u << n) - 1u);
    if (t == OC_F32) return _mm512_maskz_loadu_ps(m, p);
    return widen(_mm256_maskz_loadu_epi16(m, p), t);
}

/* Nearest even; NaN stays NaN: oc_f32_to_bf16() in vectors. */
static inline __m256i to_bf16(vec v) {
    __m512i u = _mm512_castps_si512(v);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
    __m512i r = _mm512_add_epi32(u, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    r = _mm512_mask_or_epi32(r, nan, u, _mm512_set1_epi32(0x400000));
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(r, 16));
}

static inline void v_store_part(void *p, oc_dtype t, int n, vec v) {
    __mmask16 m = (__mmask16)((1u << n) - 1u);
    if (t == OC_F32)
        _mm512_mask_storeu_ps(p, m, v);
    else if (t == OC_BF16)
        _mm256_mask_storeu_epi16(p, m, to_bf16(v));
    else
        _mm256_mask_storeu_epi16(p, m,
                                 _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

static inline __m128 load4(const char *p) {
    return _mm_castsi128_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}

/* 128 bits of the rows r, r + 4, r + 8, r + 12, one in each quarter. */
static inline vec v_rows4(const char *const *row, int r, int64_t bytes) {
    vec v = _mm512_castps128_ps512(load4(row[r] + bytes));
    v = _mm512_insertf32x4(v, load4(row[r + 4] + bytes), 1);
    v = _mm512_insertf32x4(v, load4(row[r + 8] + bytes), 2);
    return _mm512_insertf32x4(v, load4(row[r + 12] + bytes), 3);
}

static inline void v_quads(const char *const *row, int64_t bytes, vec *out) {
    vec r0 = v_rows4(row, 0, bytes), r1 = v_rows4(row, 1, bytes);
    vec r2 = v_rows4(row, 2, bytes), r3 = v_rows4(row, 3, bytes);
    __m512d a = _mm512_castps_pd(_mm512_unpacklo_ps(r0, r1));
    __m512d b = _mm512_castps_pd(_mm512_unpackhi_ps(r0, r1));
    __m512d c = _mm512_castps_pd(_mm512_unpacklo_ps(r2, r3));
    __m512d d = _mm512_castps_pd(_mm512_unpackhi_ps(r2, r3));
    out[0] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, c));
    out[1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, c));
    out[2] = _mm512_castpd_ps(_mm512_unpacklo_pd(b, d));
    out[3] = _mm512_castpd_ps(_mm512_unpackhi_pd(b, d));
}

static inline vec v_low_half(vec v, oc_dtype t) {
    __m512i u = _mm512_castps_si512(v);
    if (t == OC_F16) return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(u));
    return _mm512_castsi512_ps(_mm512_slli_epi32(u, 16));
}

static inline vec v_high_half(vec v, oc_dtype t) {
    __m512i u = _mm512_castps_si512(v);
    if (t == OC_F16) return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32(u, 16)));
    return _mm512_castsi512_ps(_mm512_and_si512(u, _mm512_set1_epi32((int)0xffff0000u)));
}

#include "device/cpu/gemm_x86.inc"
