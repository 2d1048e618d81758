/* device_case.h - running one op on one device with made-up inputs, and comparing outputs.
 *
 * The inputs depend on the seed only, so two runs of a case see the same numbers. Each array lies
 * `skew` elements behind a 64-byte boundary, with a guard after its end. */
#ifndef OC_TEST_DEVICE_CASE_H
#define OC_TEST_DEVICE_CASE_H

#include "device/device.h"

/* Where a device that cannot read the host's arrays has its own. */
typedef struct case_place {
    oc_memory *memory;
    uint64_t marks; /* recorded on the device's queue */
} case_place;

enum { CASE_ARRAYS = 24, CASE_OUTPUTS = 8, CASE_GUARD = 64 };

typedef struct case_array {
    unsigned char *base; /* as allocated */
    unsigned char *data;
    uint64_t bytes; /* from base, guard included */
    uint64_t at;    /* of base in the device's memory */
    oc_dtype dtype;
    int64_t n;
    bool is_output;
    /* |got - want| <= eps(dtype) |want| + eps(fp32) (8 + sqrt(length)) scale */
    double length, scale;
} case_array;

typedef struct case_run {
    oc_device *device;
    case_place *place; /* NULL: the device works on the host's arrays */
    oc_dtype dtype;
    const int64_t *shape;
    int64_t skew;
    uint64_t seed;
    int arrays;
    uint64_t used; /* of the device's memory */
    int sent;      /* arrays that lie there */
    case_array array[CASE_ARRAYS];
    char message[256]; /* what was wrong with it */
} case_run;

double case_random(case_run *r); /* uniform in [-1, 1) */

/* n values in [-scale, scale). */
void *case_input(case_run *r, oc_dtype t, int64_t n, double scale);
/* Poisoned; compared afterwards. length: terms in a sum; scale: the sum of their magnitudes. */
void *case_output(case_run *r, oc_dtype t, int64_t n, double length, double scale);
/* Made like an input, compared like an output. */
void *case_in_place(case_run *r, oc_dtype t, int64_t n, double length, double scale);
void *case_bytes(case_run *r, uint64_t bytes); /* zeros, 64-byte aligned, not compared */

/* What the device calls a place in an array; NULL stays. */
void *case_at(const case_run *r, const void *p);
/* All arrays go to the device / the device has done what was issued, and all arrays come back. */
void case_send(case_run *r);
void case_fetch(case_run *r);

void case_free(case_run *r);
bool case_guards_whole(const case_run *r);
/* NULL when equal; else the message in the first argument. */
const char *case_bits_differ(case_run *a, const case_run *b);
const char *case_values_differ(case_run *got, const case_run *want);

double case_value(const void *data, oc_dtype t, int64_t i);
double case_epsilon(oc_dtype t); /* distance from 1 to the next value */

#endif
