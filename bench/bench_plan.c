/* bench_plan.c - what planning costs: layers x accumulation, for shapes that no machine here could
 * run. Time to build, derive and verify the set; its ops, and its bytes.
 *
 *   bench_plan            one line a row: layers hidden accumulation seconds ops bytes */
#include "bench_util.h"
#include "build/build.h"
#include "model/model.h"

#include <stdio.h>

typedef struct shape {
    int layers, hidden, intermediate, heads;
} shape;

static const shape shapes[] = {
    {20, 8192, 28672, 64}, {40, 8192, 28672, 64}, {80, 8192, 28672, 64}, {126, 16384, 53248, 128}};
static const int accumulations[] = {1, 4, 64, 256, 65536};

static oc_build_spec spec_of(const oc_model *m, int micros) {
    uint64_t act = 2048 * 2 * (uint64_t)m->hidden;
    oc_build_spec s = {.model = m,
                       .dtype = OC_BF16,
                       .batch = 1,
                       .seq = 2048,
                       .micros = micros,
                       .has_m = true,
                       .has_v = true,
                       .train = true,
                       .with_eval = true};
    s.sizes = (oc_build_sizes){.act_bytes = act,
                               .row_bytes = act,
                               .work_bytes = 8 * act,
                               .head_work_bytes = 1u << 30,
                               .head_state_bytes = 3 * act,
                               .scratch_bytes = 1u << 20,
                               .saved_bytes = {2 * act, act, act, 8 * act}};
    s.place = (oc_placement){.compute = OC_TIER_DEVICE,
                             .slots = 8,
                             .slabs = 2,
                             .act_slots = 3,
                             .group = 1,
                             .piece_elements = 4u << 20};
    return s;
}

static double plan(const oc_build_spec *s, uint64_t *ops, uint64_t *bytes) {
    oc_plan_set *set = NULL;
    oc_build_ids ids;
    oc_error err;
    double start = bench_now();
    if (oc_build(s, &set, &ids, &err) != OC_OK || oc_plan_verify(set, &err) != OC_OK) {
        fprintf(stderr, "bench_plan: %s\n", err.message);
        exit(1);
    }
    double took = bench_now() - start;
    *ops = 0;
    for (uint32_t p = 0; p < set->n_plans; p++)
        *ops += set->plans[p].n_ops;
    *bytes = oc_plan_host_bytes(set);
    oc_build_ids_release(&ids);
    oc_plan_set_free(set);
    return took;
}

int main(void) {
    enum { ROUNDS = 3 };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        char json[512];
        oc_model *m = NULL;
        oc_error err;
        (void)snprintf(json, sizeof json,
                       "{\"model_type\":\"llama\",\"hidden_size\":%d,\"intermediate_size\":%d,"
                       "\"num_hidden_layers\":%d,\"num_attention_heads\":%d,"
                       "\"num_key_value_heads\":8,\"vocab_size\":128256,"
                       "\"max_position_embeddings\":8192,\"tie_word_embeddings\":false}",
                       shapes[i].hidden, shapes[i].intermediate, shapes[i].layers, shapes[i].heads);
        if (oc_model_parse(&m, json, "shape", &err) != OC_OK) return 1;
        for (size_t a = 0; a < sizeof accumulations / sizeof *accumulations; a++) {
            oc_build_spec s = spec_of(m, accumulations[a]);
            double took[ROUNDS];
            uint64_t ops = 0, bytes = 0;
            for (int r = 0; r < ROUNDS; r++)
                took[r] = plan(&s, &ops, &bytes);
            printf("%d %d %d %.4f %llu %llu\n", shapes[i].layers, shapes[i].hidden,
                   accumulations[a], bench_median(took, ROUNDS), (unsigned long long)ops,
                   (unsigned long long)bytes);
        }
        oc_model_close(m);
    }
    return 0;
}
