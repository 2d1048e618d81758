/* AVX2 with FMA and F16C: 6 x 16 micro-tiles, 12 accumulators of the 16 registers. */
#include "device/cpu/gemm_kernels.h"

#include <immintrin.h>
#include <string.h>

typedef __m256 vec;

enum { LANES = 8, MR = 6, NR = 16, FEW_MOST = 12 };
#define KERNELS oc_gemm_avx2
#define KERNELS_NAME "avx2 6x16"
#define ROW_VARIANTS(X) X(1) X(2) X(4) X(6)
#define FEW_VARIANTS(X) X(1) X(2) X(3) X(4) X(5) X(6)

static bool runs_here(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           oc_gemm_cpu_has_f16c();
}

static inline vec v_zero(void) { return _mm256_setzero_ps(); }
static inline vec v_load(const float *p) { return _mm256_loadu_ps(p); }
static inline void v_store(float *p, vec v) { _mm256_storeu_ps(p, v); }
static inline vec v_add(vec a, vec b) { return _mm256_add_ps(a, b); }
static inline vec v_fma(vec a, vec b, vec c) { return _mm256_fmadd_ps(a, b, c); }
static inline vec v_broadcast(const float *p) { return _mm256_broadcast_ss(p); }

static inline vec widen(__m128i h, oc_dtype t) {
    if (t == OC_F16) return _mm256_cvtph_ps(h);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}

static inline __m256i first(int n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

static inline vec v_load_part(const void *p, oc_dtype t, int n) {
    if (t == OC_F32) return n == LANES ? _mm256_loadu_ps(p) : _mm256_maskload_ps(p, first(n));
    if (n == LANES) return widen(_mm_loadu_si128(p), t);
    uint16_t h[LANES] = {0};
    memcpy(h, p, (size_t)n * 2);
    return widen(_mm_loadu_si128((const __m128i *)(const void *)h), t);
}

/* Nearest even; NaN stays NaN: oc_f32_to_bf16() in vectors. */
static inline __m128i to_bf16(vec v) {
    __m256i u = _mm256_castps_si256(v);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    __m256i r = _mm256_add_epi32(u, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    __m256i quiet = _mm256_or_si256(u, _mm256_set1_epi32(0x400000));
    __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    r = _mm256_srli_epi32(_mm256_blendv_epi8(r, quiet, nan), 16);
    return _mm_packus_epi32(_mm256_castsi256_si128(r), _mm256_extracti128_si256(r, 1));
}

static inline void v_store_part(void *p, oc_dtype t, int n, vec v) {
    if (t == OC_F32) {
        if (n == LANES)
            _mm256_storeu_ps(p, v);
        else
            _mm256_maskstore_ps(p, first(n), v);
        return;
    }
    __m128i h = t == OC_BF16 ? to_bf16(v)
                             : _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    memcpy(p, &h, (size_t)n * 2);
}

static inline __m128 load4(const char *p) {
    return _mm_castsi128_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}

/* 128 bits of the rows r and r + 4, one in each half. */
static inline vec v_rows2(const char *const *row, int r, int64_t bytes) {
    return _mm256_insertf128_ps(_mm256_castps128_ps256(load4(row[r] + bytes)),
                                load4(row[r + 4] + bytes), 1);
}

static inline void v_quads(const char *const *row, int64_t bytes, vec *out) {
    vec r0 = v_rows2(row, 0, bytes), r1 = v_rows2(row, 1, bytes);
    vec r2 = v_rows2(row, 2, bytes), r3 = v_rows2(row, 3, bytes);
    __m256d a = _mm256_castps_pd(_mm256_unpacklo_ps(r0, r1));
    __m256d b = _mm256_castps_pd(_mm256_unpackhi_ps(r0, r1));
    __m256d c = _mm256_castps_pd(_mm256_unpacklo_ps(r2, r3));
    __m256d d = _mm256_castps_pd(_mm256_unpackhi_ps(r2, r3));
    out[0] = _mm256_castpd_ps(_mm256_unpacklo_pd(a, c));
    out[1] = _mm256_castpd_ps(_mm256_unpackhi_pd(a, c));
    out[2] = _mm256_castpd_ps(_mm256_unpacklo_pd(b, d));
    out[3] = _mm256_castpd_ps(_mm256_unpackhi_pd(b, d));
}

static inline vec halves(__m256i u) { /* 16-bit values in 32-bit lanes, as fp16 */
    return _mm256_cvtph_ps(
        _mm_packus_epi32(_mm256_castsi256_si128(u), _mm256_extracti128_si256(u, 1)));
}

static inline vec v_low_half(vec v, oc_dtype t) {
    __m256i u = _mm256_castps_si256(v);
    if (t == OC_F16) return halves(_mm256_and_si256(u, _mm256_set1_epi32(0xffff)));
    return _mm256_castsi256_ps(_mm256_slli_epi32(u, 16));
}

static inline vec v_high_half(vec v, oc_dtype t) {
    __m256i u = _mm256_castps_si256(v);
    if (t == OC_F16) return halves(_mm256_srli_epi32(u, 16));
    return _mm256_castsi256_ps(_mm256_and_si256(u, _mm256_set1_epi32((int)0xffff0000u)));
}

#include "device/cpu/gemm_x86.inc"
