/* rope.c - the frequencies of rotary positions.
 *
 * Types: default, linear (position interpolation), dynamic (NTK-aware scaling by length), llama3
 * (Llama 3.1), yarn (Peng et al., arXiv 2309.00071) and longrope (Ding et al., arXiv 2402.13753).
 * In fp32 and in the reference's order of operations: angles of distant positions depend on every
 * bit. */
#include "model/family.h"

#include <math.h>
#include <stdlib.h>

static float llama3_freq(const oc_rope_config *c, float freq) {
    float wavelength = 6.2831853071795862f / freq;
    float original = (float)c->original, factor = (float)c->factor;
    if (wavelength > (float)(c->original / c->low_freq)) return freq / factor;
    if (wavelength < (float)(c->original / c->high_freq)) return freq;
    float smooth =
        (original / wavelength - (float)c->low_freq) / (float)(c->high_freq - c->low_freq);
    return (1.0f - smooth) * freq / factor + smooth * freq;
}

/* The dimension whose wavelength fits the original context `rotations` times. */
static double yarn_dim(const oc_rope_config *c, double rotations) {
    return c->dim * log(c->original / (rotations * 2 * 3.14159265358979323846)) /
           (2 * log(c->theta));
}

static float period(const oc_rope_config *c, float theta, int32_t i) {
    return powf(theta, (float)(2 * i) / (float)c->dim);
}

static void yarn_freqs(const oc_rope_config *c, float *inv_freq) {
    double low = yarn_dim(c, c->beta_fast), high = yarn_dim(c, c->beta_slow);
    if (c->truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0);
    high = fmin(high, c->dim - 1);
    if (low == high) high += 0.001;
    for (int32_t i = 0; i < c->dim / 2; i++) {
        float ramp = ((float)i - (float)low) / (float)(high - low);
        float keep = 1.0f - fminf(fmaxf(ramp, 0.0f), 1.0f);
        float stretched = 1.0f / ((float)c->factor * period(c, (float)c->theta, i));
        inv_freq[i] = stretched * (1.0f - keep) + inv_freq[i] * keep;
    }
}

/* The base grows once sequences are longer than the model's positions. */
static float dynamic_theta(const oc_rope_config *c, int64_t seq) {
    double power = c->dim / (c->dim - 2.0);
    if ((double)seq <= c->positions) return (float)c->theta;
    float stretch = (float)c->factor * (float)seq / (float)c->positions - (float)(c->factor - 1);
    return (float)c->theta * powf(stretch, (float)power);
}

void oc_rope_fill(const oc_rope_config *c, int64_t seq, float *inv_freq) {
    bool longer = (double)seq > c->original;
    float theta = c->type == OC_ROPE_DYNAMIC ? dynamic_theta(c, seq) : (float)c->theta;
    const float *stretch = longer ? c->long_factor : c->short_factor;
    for (int32_t i = 0; i < (c->dim + 1) / 2; i++) {
        float freq = 1.0f / period(c, theta, i);
        if (c->type == OC_ROPE_LINEAR) freq /= (float)c->factor;
        if (c->type == OC_ROPE_LLAMA3) freq = llama3_freq(c, freq);
        if (c->type == OC_ROPE_LONGROPE) freq = 1.0f / (stretch[i] * period(c, theta, i));
        inv_freq[i] = freq;
    }
    if (c->type == OC_ROPE_YARN) yarn_freqs(c, inv_freq);
}

bool oc_rope_differs(const oc_rope_config *c, int64_t seq) {
    if (c->type == OC_ROPE_DYNAMIC) return (double)seq > c->positions;
    return c->type == OC_ROPE_LONGROPE && (double)seq > c->original;
}

static double yarn_mscale(double factor, double mscale) {
    return factor <= 1 ? 1.0 : 0.1 * mscale * log(factor) + 1.0;
}

float oc_rope_scaling(const oc_rope_config *c) {
    if (c->type != OC_ROPE_YARN && c->type != OC_ROPE_LONGROPE) return 1.0f;
    if (c->attention_factor != 0) return (float)c->attention_factor;
    if (c->type == OC_ROPE_LONGROPE)
        return c->factor <= 1 ? 1.0f : (float)sqrt(1 + log(c->factor) / log(c->original));
    if (c->mscale != 0 && c->mscale_all != 0)
        return (float)(yarn_mscale(c->factor, c->mscale) / yarn_mscale(c->factor, c->mscale_all));
    return (float)yarn_mscale(c->factor, 1);
}

void oc_rope_release(oc_rope_config *c) {
    free(c->short_factor);
    free(c->long_factor);
    *c = (oc_rope_config){0};
}
