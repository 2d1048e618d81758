/* Conversions: every 16-bit pattern, both ways, against the compiler's own _Float16 where it has
 * one, against the definition by ldexp, and against published values. */
#include "cmocka_all.h"

#include "base/dtype.h"

#include <math.h>
#include <string.h>

static uint32_t bits(float f) {
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static float from_bits(uint32_t u) {
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static void names_parse(void **state) {
    (void)state;
    oc_dtype t = OC_F16;
    for (int i = 0; i < OC_DTYPE_COUNT; i++) {
        assert_true(oc_dtype_parse(oc_dtype_name((oc_dtype)i), &t));
        assert_int_equal(t, i);
    }
    assert_true(oc_dtype_parse("bfloat16", &t) && t == OC_BF16);
    assert_true(oc_dtype_parse("half", &t) && t == OC_F16);
    assert_true(oc_dtype_parse("float32", &t) && t == OC_F32);
    assert_false(oc_dtype_parse("fp8", &t));
    assert_false(oc_dtype_parse("", &t));
    assert_int_equal(t, OC_F32);
    assert_int_equal(oc_dtype_bytes(OC_F32), 4);
    assert_int_equal(oc_dtype_bytes(OC_BF16), 2);
    assert_int_equal(oc_dtype_bytes(OC_F16), 2);
}

/* IEEE 754-2008, binary16: (-1)^s 2^(e-15) (1 + f/1024), subnormals 2^-14 f/1024. */
static void f16_widens_as_defined(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        int exponent = (int)(h >> 10 & 31), fraction = (int)(h & 1023);
        float got = oc_f16_to_f32((uint16_t)h);
        assert_int_equal(signbit(got) != 0, h >> 15);
        if (exponent == 31 && fraction) {
            assert_true(isnan(got));
            assert_true(bits(got) & 0x400000u); /* quiet */
            continue;
        }
        double want = exponent == 31 ? HUGE_VAL
                      : exponent     ? ldexp(1024 + fraction, exponent - 25)
                                     : ldexp(fraction, -24);
        assert_true((double)fabsf(got) == want);
    }
}

static void f16_round_trips(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        float wide = oc_f16_to_f32((uint16_t)h);
        uint16_t back = oc_f32_to_f16(wide);
        if (isnan(wide))
            assert_int_equal(back, h | 0x200u);
        else
            assert_int_equal(back, h);
    }
}

/* Around every pair of neighbouring halves: the midpoint goes to the even one, a hair more or less
 * to its side. */
static void f16_rounds_to_nearest_even(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 0x7c00; h++) {
        double low = (double)oc_f16_to_f32((uint16_t)h);
        double high = h + 1 == 0x7c00 ? 65536.0 : (double)oc_f16_to_f32((uint16_t)(h + 1));
        float middle = (float)((low + high) / 2);
        uint32_t even = h & 1 ? h + 1 : h;
        for (uint32_t sign = 0; sign <= 0x8000; sign += 0x8000) {
            float s = sign ? -1.0f : 1.0f;
            assert_int_equal(oc_f32_to_f16(s * middle), sign | even);
            assert_int_equal(oc_f32_to_f16(s * nextafterf(middle, 0.0f)), sign | h);
            assert_int_equal(oc_f32_to_f16(s * nextafterf(middle, INFINITY)), sign | (h + 1));
        }
    }
}

static void f16_published_values(void **state) {
    (void)state;
    static const struct {
        double value;
        uint16_t half;
    } known[] = {
        {1.0, 0x3c00},
        {-2.0, 0xc000},
        {65504.0, 0x7bff},  /* the largest */
        {65519.99, 0x7bff}, /* below the midpoint to 2^16 */
        {65520.0, 0x7c00},  /* at it: infinity */
        {1e30, 0x7c00},
        {6.103515625e-05, 0x0400},       /* the least normal */
        {6.097555160522461e-05, 0x03ff}, /* the largest subnormal */
        {5.960464477539063e-08, 0x0001}, /* the least */
        {2.980232238769531e-08, 0x0000}, /* half of it: to even */
        {3e-08, 0x0001},
        {0.333251953125, 0x3555},
        {1.0 / 3, 0x3555},
        {3.14159265358979, 0x4248},
        {-0.0, 0x8000},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        assert_int_equal(oc_f32_to_f16((float)known[i].value), known[i].half);
    assert_int_equal(oc_f32_to_f16(INFINITY), 0x7c00);
    assert_int_equal(oc_f32_to_f16(-INFINITY), 0xfc00);
    /* A NaN whose payload lies in the low bits must not become infinity. */
    assert_int_equal(oc_f32_to_f16(from_bits(0x7f800001)) & 0x7fff, 0x7e00);
}

#if defined(__FLT16_MAX__) && defined(__x86_64__)
static void f16_agrees_with_the_compiler(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        uint16_t half = (uint16_t)h;
        __extension__ _Float16 theirs;
        memcpy(&theirs, &half, sizeof half);
        float ours = oc_f16_to_f32(half);
        if (isnan(ours))
            assert_true(isnan((float)theirs));
        else
            assert_int_equal(bits(ours), bits((float)theirs));
    }
    /* Steps of a prime through all floats. */
    for (uint64_t u = 0; u < UINT64_C(1) << 32; u += 65521 / 7) {
        float f = from_bits((uint32_t)u);
        __extension__ _Float16 theirs = (_Float16)f;
        uint16_t want;
        memcpy(&want, &theirs, sizeof want);
        if (isnan(f))
            assert_true((oc_f32_to_f16(f) & 0x7fff) > 0x7c00);
        else
            assert_int_equal(oc_f32_to_f16(f), want);
    }
}
#endif

static void bf16_round_trips(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        float wide = oc_bf16_to_f32((uint16_t)h);
        assert_int_equal(bits(wide), h << 16);
        uint16_t back = oc_f32_to_bf16(wide);
        if (isnan(wide))
            assert_int_equal(back, h | 0x40u);
        else
            assert_int_equal(back, h);
    }
}

/* The midpoint of two bf16 is exact in fp32, one bit below the last. */
static void bf16_rounds_to_nearest_even(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        if ((h & 0x7f80) == 0x7f80) continue;
        uint32_t even = h & 1 ? h + 1 : h;
        assert_int_equal(oc_f32_to_bf16(from_bits(h << 16 | 0x8000)), even);
        assert_int_equal(oc_f32_to_bf16(from_bits(h << 16 | 0x7fff)), h);
        assert_int_equal(oc_f32_to_bf16(from_bits(h << 16 | 0x8001)), h + 1);
    }
    assert_int_equal(oc_f32_to_bf16(3.4028234663852886e38f), 0x7f80); /* FLT_MAX: infinity */
    assert_int_equal(oc_f32_to_bf16(3.14159265f), 0x4049);
    assert_int_equal(oc_f32_to_bf16(from_bits(0x7f800001)) & 0x7fff, 0x7fc0);
    assert_int_equal(oc_f32_to_bf16(from_bits(0xffffffff)), 0xffff);
}

static void convert_takes_every_pair(void **state) {
    (void)state;
    static const float values[] = {0.0f, -1.5f, 3.140625f, 1024.0f, -0.0078125f};
    enum { N = sizeof values / sizeof values[0] };
    unsigned char from[4 * N], to[4 * N], wide[4 * N];
    for (int a = 0; a < OC_DTYPE_COUNT; a++) {
        for (int b = 0; b < OC_DTYPE_COUNT; b++) {
            memset(to, 0xee, sizeof to);
            oc_convert(from, (oc_dtype)a, values, OC_F32, N);
            oc_convert(to, (oc_dtype)b, from, (oc_dtype)a, N - 1);
            /* No byte behind the last value. */
            assert_int_equal(to[(N - 1) * oc_dtype_bytes((oc_dtype)b)], 0xee);
            oc_convert(wide, OC_F32, to, (oc_dtype)b, N - 1);
            assert_memory_equal(wide, values, (N - 1) * sizeof(float));
        }
    }
    /* bf16 to fp16 must round and overflow, not copy. */
    uint16_t big = oc_f32_to_bf16(1e6f), half = 0;
    oc_convert(&half, OC_F16, &big, OC_BF16, 1);
    assert_int_equal(half, 0x7c00);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_parse),
        cmocka_unit_test(f16_widens_as_defined),
        cmocka_unit_test(f16_round_trips),
        cmocka_unit_test(f16_rounds_to_nearest_even),
        cmocka_unit_test(f16_published_values),
#if defined(__FLT16_MAX__) && defined(__x86_64__)
        cmocka_unit_test(f16_agrees_with_the_compiler),
#endif
        cmocka_unit_test(bf16_round_trips),
        cmocka_unit_test(bf16_rounds_to_nearest_even),
        cmocka_unit_test(convert_takes_every_pair),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
