/* init.c - first values of a block from a seed. */
#include "model/load.h"
#include "model/philox.h"

#include <math.h>
#include <string.h>

typedef struct stream {
    uint32_t key0, key1;
    double std;
} stream;

/* FNV-1a of the name, then a splitmix64 finish, so that neighbouring seeds share nothing. */
static stream open_stream(uint64_t seed, const char *name, double std) {
    uint64_t h = 0xcbf29ce484222325u;
    for (const unsigned char *p = (const unsigned char *)name; *p; p++)
        h = (h ^ *p) * 0x100000001b3u;
    h += seed * 0x9e3779b97f4a7c15u;
    h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9u;
    h = (h ^ (h >> 27)) * 0x94d049bb133111ebu;
    h ^= h >> 31;
    return (stream){(uint32_t)h, (uint32_t)(h >> 32), std};
}

/* Values 4 * quad .. 4 * quad + 3 of the stream. */
static void normal_quad(const stream *s, uint64_t quad, float out[4]) {
    oc_philox_block c = {{(uint32_t)quad, (uint32_t)(quad >> 32), 0, 0}};
    c = oc_philox(c, s->key0, s->key1);
    for (int i = 0; i < 4; i += 2) {
        double u = ((double)c.v[i] + 1.0) * 0x1p-32; /* (0, 1]: its logarithm is finite */
        double angle = (double)c.v[i + 1] * (0x1p-32 * 6.283185307179586);
        double radius = s->std * sqrt(-2.0 * log(u));
        out[i] = (float)(radius * cos(angle));
        out[i + 1] = (float)(radius * sin(angle));
    }
}

static void fill_normal(const stream *s, uint64_t first, uint64_t n, float *dst) {
    float quad[4];
    for (uint64_t i = 0; i < n; i++) {
        uint64_t at = first + i;
        if (i == 0 || at % 4 == 0) normal_quad(s, at / 4, quad);
        dst[i] = quad[at % 4];
    }
}

void oc_model_init_block(const oc_model *m, int32_t block, uint64_t seed, float *dst) {
    const oc_block *b = &m->blocks[block];
    memset(dst, 0, b->elements * sizeof(float));
    for (int32_t i = 0; i < b->n_tensors; i++) {
        const oc_tensor_spec *t = &m->tensors[b->first_tensor + i];
        float *at = dst + t->offset;
        if (t->init == OC_INIT_ONE) {
            for (uint64_t k = 0; k < t->elements; k++)
                at[k] = 1.0f;
        } else if (t->init == OC_INIT_NORMAL && t->init_std > 0) {
            stream s = open_stream(seed, t->name, t->init_std);
            uint64_t cols = (uint64_t)t->cols, row = (uint64_t)t->file_row0;
            uint64_t group = (uint64_t)(t->file_group > 0 ? t->file_group : t->rows) * cols;
            for (uint64_t k = 0; k < t->elements; k += group, row += (uint64_t)t->file_stride)
                fill_normal(&s, row * cols, group, at + k);
        }
    }
}
