/* What choosing a token costs: bench_sample [VOCAB]. Logits as of a model: a few likely tokens, a
 * long tail. Prints microseconds a row, the best of several. */
#include "base/clock.h"
#include "infer/sample.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static float normal(uint64_t *state) {
    double u[2];
    for (int i = 0; i < 2; i++) {
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        u[i] = ((double)(*state >> 11) + 1) * 0x1p-53;
    }
    return (float)(sqrt(-2 * log(u[0])) * cos(6.283185307179586 * u[1]));
}

static void measure(const char *name, oc_sampler *s, const oc_sampling *how, const float *y,
                    bool logprob) {
    static int32_t ids[4000];
    double best = INFINITY;
    for (int i = 0; i < 4000; i++)
        ids[i] = i * 17;
    oc_sample_row row = {.ids = ids, .n_ids = 4000, .n_prompt = 1000};
    for (int i = 0; i < 60; i++) {
        oc_sampled x;
        int64_t t = oc_clock_ns();
        if (oc_sample(s, how, &row, y, logprob, &x, NULL) != OC_OK) exit(1);
        double us = (double)(oc_clock_ns() - t) / 1e3;
        best = us < best ? us : best;
    }
    printf("%-36s %8.0f us\n", name, best);
}

int main(int argc, char **argv) {
    int32_t n = argc > 1 ? atoi(argv[1]) : 151936;
    oc_sampler *s;
    oc_sampling g = oc_sampling_greedy(), x = g;
    uint64_t state = 1;
    if (n < 70000 || oc_sampler_open(&s, n, NULL) != OC_OK) return 1;
    float *y = malloc((size_t)n * sizeof *y), *flat = malloc((size_t)n * sizeof *y);
    for (int32_t i = 0; y && flat && i < n; i++) {
        y[i] = 2.5f * normal(&state);
        flat[i] = 0.01f * normal(&state);
    }
    for (int i = 0; y && i < 12; i++)
        y[i * 1000] = 16 - (float)i * 0.5f;
    measure("greedy", s, &g, y, false);
    measure("greedy, log-probability", s, &g, y, true);
    x.repetition_penalty = 1.1;
    measure("greedy, repetition of 4000", s, &x, y, false);
    x = g;
    x.temperature = 0.7;
    measure("temperature", s, &x, y, false);
    x.top_p = 0.95;
    measure("top-p", s, &x, y, false);
    measure("top-p, all tokens alike", s, &x, flat, false);
    x.top_k = 20;
    measure("top-k 20, top-p", s, &x, y, false);
    x.top_k = 5000;
    measure("top-k 5000, top-p", s, &x, y, false);
    free(y);
    free(flat);
    oc_sampler_close(s);
    return 0;
}
