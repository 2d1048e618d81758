/* gemm_avx512bf16.c - few rows of pairs of bf16, with AVX-512 BF16; see gemm_few.inc. */
#include "device/cpu/gemm_avx512.inc"

/* c + a's two products with b's, in each lane */
static inline vec v_dot(vec c, vec a, vec b) {
    return _mm512_dpbf16_ps(c, (__m512bh)_mm512_castps_si512(a), (__m512bh)_mm512_castps_si512(b));
}

#define FEW_PAIRS oc_gemm_few_avx512bf16
#include "device/cpu/gemm_few.inc"
