/* gemm_avx512.c - AVX-512; see gemm_avx512.inc. */
#include "device/cpu/gemm_avx512.inc"

#define KERNELS oc_gemm_avx512
#define KERNELS_NAME "avx512 14x32"

static bool runs_here(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           oc_gemm_cpu_has_f16c();
}

static bool pairs_here(void) { return __builtin_cpu_supports("avx512bf16"); }
#define PAIRS_HERE pairs_here
#define PAIRS oc_gemm_few_avx512bf16

#include "device/cpu/gemm_x86.inc"
