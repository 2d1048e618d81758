/* transpose.h - bounded transposes between a file's [in, out] and a block's [out, in].
 *
 * Private to src/model (load.c, save.c). */
#ifndef OC_TRANSPOSE_H
#define OC_TRANSPOSE_H

#include <stddef.h>
#include <stdint.h>

/* File rows turned at a time: a run this long fills whole cache lines of the other side. */
enum { OC_TRANSPOSE_ROWS = 64 };

#define OC_TRANSPOSE_LOOP(type)                                                                    \
    do {                                                                                           \
        const type *from = src;                                                                    \
        type *to = dst;                                                                            \
        for (uint64_t r0 = 0; r0 < rows; r0 += 32)                                                 \
            for (uint64_t c = 0; c < cols; c++)                                                    \
                for (uint64_t r = r0; r < rows && r < r0 + 32; r++)                                \
                    to[c * dst_ld + r] = from[r * src_ld + c];                                     \
    } while (0)

/* dst[c, r] = src[r, c] for rows x cols elements of 2 or 4 bytes. */
static inline void oc_transpose(const void *src, uint64_t src_ld, void *dst, uint64_t dst_ld,
                                uint64_t rows, uint64_t cols, size_t element_bytes) {
    if (element_bytes == 2)
        OC_TRANSPOSE_LOOP(uint16_t);
    else
        OC_TRANSPOSE_LOOP(uint32_t);
}

#endif
