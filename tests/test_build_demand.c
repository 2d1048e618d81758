/* What a step's ops ask of the machine, summed over its plans, against closed formulas: flops from
 * the shapes of weights and a count of the pairs that attention scores, bytes from parameter counts
 * and widths. (What transfers move, against what lanes count: test_train_demand.c.) */
#include "plan_case.h"

#include "base/checked.h"

#include <math.h>

static const char llama_deep[] =
    "{\"model_type\":\"llama\",\"hidden_size\":64,\"intermediate_size\":160,\"num_hidden_layers\":"
    "4,\"num_attention_heads\":4,\"num_key_value_heads\":2,\"vocab_size\":2500,"
    "\"max_position_embeddings\":64,\"tie_word_embeddings\":false}";
/* Layers see 3 tokens, or all of them. */
static const char qwen2_windows[] =
    "{\"model_type\":\"qwen2\",\"hidden_size\":64,\"intermediate_size\":96,\"num_hidden_layers\":4,"
    "\"num_attention_heads\":4,\"num_key_value_heads\":1,\"vocab_size\":1300,"
    "\"max_position_embeddings\":64,\"tie_word_embeddings\":false,\"use_sliding_window\":true,"
    "\"sliding_window\":3,\"layer_types\":[\"sliding_attention\",\"full_attention\","
    "\"sliding_attention\",\"sliding_attention\"]}";

typedef struct sums {
    double layers, head, front, final;        /* flops */
    uint64_t update, fold, row_fold, retired; /* bytes, cells and partials left out */
    uint64_t fetched[64];                     /* of each block */
    uint64_t cells;                           /* bytes of cells and partials */
} sums;

/* ---- what the plans say ---- */

static uint64_t cell_bytes(const oc_plan_set *set, const oc_plan *p, const oc_op *op) {
    uint64_t bytes = 0;
    for (uint32_t k = 0; k < op->n_accesses; k++) {
        const oc_access *a = &p->accesses[op->first_access + k];
        const oc_buffer *x = &set->buffers[a->buffer];
        bool cell = a->role == OC_ROLE_CELLS_IN || a->role == OC_ROLE_PARTIALS ||
                    (a->role == OC_ROLE_BATCH && op->kind == OC_OP_FOLD);
        if (cell)
            bytes += oc_min_u64(a->count * x->piece_bytes, x->bytes - a->first * x->piece_bytes);
    }
    return bytes;
}

static void add_compute(sums *s, const oc_model *m, const oc_op *op) {
    oc_block_kind kind = m->blocks[op->block].kind;
    if (op->kind != OC_OP_FORWARD && op->kind != OC_OP_BACKWARD) return;
    assert_true(op->demand.flops > 0 && op->demand.bytes > 0);
    if (kind == OC_BLOCK_LAYER) s->layers += op->demand.flops;
    if (kind == OC_BLOCK_HEAD) s->head += op->demand.flops;
    if (kind == OC_BLOCK_FRONT) s->front += op->demand.flops;
    if (kind == OC_BLOCK_FINAL_NORM) s->final += op->demand.flops;
}

static void add_op(sums *s, const oc_model *m, const oc_plan_set *set, const oc_plan *p,
                   const oc_op *op) {
    uint64_t cells = cell_bytes(set, p, op), bytes = op->demand.bytes;
    bool rows = op->body == OC_BODY_FOLD_ROWS || op->body == OC_BODY_FOLD_ROWS_FIRST;
    bool loss = op->body == OC_BODY_FOLD_LOSS || op->body == OC_BODY_FOLD_LOSS_FIRST;
    add_compute(s, m, op);
    if (op->kind == OC_OP_UPDATE) s->update += bytes - cells;
    if (op->kind == OC_OP_FOLD && rows) s->row_fold += bytes - cells;
    if (op->kind == OC_OP_FOLD && !rows && !loss) s->fold += bytes - cells;
    if (op->kind == OC_OP_RETIRE && op->piece != UINT32_MAX) s->retired += bytes;
    if (op->kind == OC_OP_FETCH && op->piece != UINT32_MAX) s->fetched[op->block] += bytes;
    assert_int_equal(op->demand.cores, loss || op->kind == OC_OP_NORM);
}

/* Over the plans of a step, as often as it submits them. */
static sums sum_step(const oc_build_spec *spec) {
    oc_plan_set *set = NULL;
    oc_build_ids ids;
    oc_error err = {0};
    sums s = {0};
    if (oc_build(spec, &set, &ids, &err) != OC_OK) fail_msg("%s", err.message);
    for (int32_t k = 0; k < oc_build_turns(spec, spec->micros); k++) {
        const oc_plan *p = &set->plans[oc_build_turn(spec, set, spec->micros, k).plan];
        for (uint32_t i = 0; i < p->n_ops; i++)
            add_op(&s, spec->model, set, p, &p->ops[i]);
    }
    oc_build_ids_release(&ids);
    oc_plan_set_free(set);
    return s;
}

/* ---- what it must be ---- */

/* Two for each weight of a matrix and token; four for each pair and channel of the heads. */
static double layer_flops(const oc_build_spec *s, const oc_block *x) {
    const oc_decoder_spec *d = &s->model->decoder;
    int64_t window = d->variants[x->variant].window;
    double weights = 0, pairs = 0;
    for (int32_t i = 0; i < x->n_tensors; i++) {
        const oc_tensor_spec *t = &s->model->tensors[x->first_tensor + i];
        if (t->cols > 1) weights += (double)t->elements;
    }
    for (int64_t t = 0; t < s->seq; t++)
        for (int64_t other = 0; other <= t; other++)
            pairs += window == 0 || t - other < window;
    double tokens = (double)(s->batch * s->seq);
    return 2 * tokens * weights + 4 * (double)s->batch * pairs * d->heads * d->head_dim;
}

/* The mlp's second product: nothing saved depends on it, so it is never made again. */
static double down_flops(const oc_build_spec *s) {
    const oc_decoder_spec *d = &s->model->decoder;
    return 2 * (double)(s->batch * s->seq) * (double)(d->intermediate * d->hidden);
}

/* Forward once, backward twice, and what is not kept once again. */
static double all_layers(const oc_build_spec *s) {
    const oc_model *m = s->model;
    double sum = 0;
    for (int32_t l = 0; l < m->n_layers; l++) {
        bool kept = l >= m->n_layers - s->place.kept[OC_SAVED_QKV];
        double once = layer_flops(s, &m->blocks[m->first_layer + l]);
        sum += 3 * once + (kept ? 0 : once - down_flops(s));
    }
    return sum * s->micros;
}

static void check_flops(const oc_build_spec *s, const char *what) {
    sums got = sum_step(s);
    double tokens = (double)(s->batch * s->seq) * s->micros;
    double head = 4 * 2 * tokens * (double)(s->model->vocab * s->model->embed_dim);
    if (!(fabs(got.layers - all_layers(s)) <= 1e-9 * got.layers))
        fail_msg("%s: layers ask for %.17g flops, not %.17g", what, got.layers, all_layers(s));
    if (!(fabs(got.head - head) <= 1e-9 * head))
        fail_msg("%s: the head asks for %.17g flops, not %.17g", what, got.head, head);
}

static void flops_of_a_step_are_those_of_its_products(void **state) {
    static const char *const models[] = {llama_deep, qwen2_windows};
    (void)state;
    for (int i = 0; i < 2; i++) {
        oc_model *m = case_model(models[i]);
        for (int32_t kept = 0; kept <= 4; kept += 2) {
            oc_build_spec s = case_spec(m);
            s.micros = 5;
            for (int v = 0; v < OC_SAVED_COUNT; v++)
                s.place.kept[v] = kept;
            check_flops(&s, "depth");
            s.place.group = 2;
            s.micros = 4;
            check_flops(&s, "breadth");
            s.place.group = 1;
            s.place.interleave = true;
            check_flops(&s, "interleaved");
            s.place.interleave = false;
            s.place.resident = true;
            s.micros = 1;
            check_flops(&s, "resident");
        }
        oc_model_close(m);
    }
}

static void narrow_layers_ask_for_less_than_wide_ones(void **state) {
    (void)state;
    oc_model *m = case_model(qwen2_windows);
    oc_build_spec s = case_spec(m);
    oc_plan_set *set = NULL;
    oc_build_ids ids;
    oc_error err = {0};
    double flops[4] = {0};
    assert_int_equal(oc_build(&s, &set, &ids, &err), OC_OK);
    const oc_plan *p = &set->plans[oc_build_find(set, "eval")];
    for (uint32_t i = 0; i < p->n_ops; i++)
        if (m->blocks[p->ops[i].block].kind == OC_BLOCK_LAYER && p->ops[i].kind == OC_OP_FORWARD)
            flops[p->ops[i].block - (uint32_t)m->first_layer] += p->ops[i].demand.flops;
    /* of 8 tokens each sees 1, 2, 3, 3, ..., or 1, 2, 3, 4, ...: 21 pairs and 36 */
    assert_true(flops[1] - flops[0] == 4.0 * (36 - 21) * 2 * 4 * 16);
    assert_true(flops[0] == flops[2] && flops[0] == flops[3]);
    oc_build_ids_release(&ids);
    oc_plan_set_free(set);
    oc_model_close(m);
}

static void projections_around_the_layers_count(void **state) {
    (void)state;
    oc_model *m = case_model(opt_projected);
    oc_build_spec s = case_spec(m);
    sums got = sum_step(&s);
    double each = 2.0 * 2 * 8 * 64 * 48 * s.micros;
    assert_true(got.front == 3 * each && got.final == 3 * each);
    oc_model_close(m);
}

/* ---- bytes ---- */

static bool has_rows(const oc_block *x) {
    return x->kind == OC_BLOCK_TABLE || x->kind == OC_BLOCK_POSITION;
}

static void check_bytes(const oc_build_spec *s) {
    uint64_t dense = 0, all = 0, table = 0, a = (uint64_t)s->micros;
    uint64_t width = oc_dtype_bytes(s->dtype), grad = a > 1 ? 4 : width;
    uint64_t states = 2 * 4 * (1u + s->has_m + s->has_v) + (s->dtype == OC_F32 ? 0 : width);
    sums got = sum_step(s);
    for (int32_t i = 0; i < s->model->n_blocks; i++) {
        const oc_block *x = &s->model->blocks[i];
        all += x->elements;
        if (has_rows(x)) table += x->elements;
        if (!has_rows(x)) dense += x->elements;
    }
    assert_int_equal(got.update, all * states + dense * grad + table * 4);
    assert_int_equal(got.retired, a * dense * width);
    if (a == 1) /* the retired gradient is only measured */
        assert_int_equal(got.fold, dense * width);
    else if (grad == width) /* the first is retired to where it is wanted */
        assert_int_equal(got.fold, (a - 1) * dense * (width + 2 * grad));
    else
        assert_int_equal(got.fold, dense * (a * width + grad + (a - 1) * 2 * grad));
    /* zeroed once, measured once; each row read and added once a micro-batch */
    double rows = (double)(s->batch * s->seq * s->model->embed_dim) * (double)a;
    double wanted = (double)table * 8 + rows * (double)(width + 8);
    if (!(fabs((double)got.row_fold - wanted) <= 1e-3 * wanted))
        fail_msg("folding rows takes %.17g bytes, not %.17g", (double)got.row_fold, wanted);
}

static void updates_and_folds_move_their_parameters_widths(void **state) {
    (void)state;
    oc_model *m = case_model(llama_deep);
    static const oc_dtype dtypes[] = {OC_F32, OC_BF16};
    for (int d = 0; d < 2; d++)
        for (int32_t micros = 1; micros <= 4; micros++)
            for (int moments = 0; moments <= 2; moments++) {
                oc_build_spec s = case_spec(m);
                s.dtype = dtypes[d];
                s.micros = micros;
                s.has_m = moments > 0;
                s.has_v = moments > 1;
                check_bytes(&s);
            }
    oc_model_close(m);
}

/* Weights that pass through slots come whole, in whatever runs. */
static void what_is_fetched_of_a_block_is_a_multiple_of_it(void **state) {
    (void)state;
    oc_model *m = case_model(llama_deep);
    oc_build_spec s = case_spec(m);
    sums got = sum_step(&s);
    for (int32_t i = 0; i < m->n_blocks; i++) {
        const oc_block *x = &m->blocks[i];
        assert_int_equal(got.fetched[i] % (x->elements * 2), 0);
        assert_true(has_rows(x) == (got.fetched[i] == 0));
    }
    oc_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flops_of_a_step_are_those_of_its_products),
        cmocka_unit_test(narrow_layers_ask_for_less_than_wide_ones),
        cmocka_unit_test(projections_around_the_layers_count),
        cmocka_unit_test(updates_and_folds_move_their_parameters_widths),
        cmocka_unit_test(what_is_fetched_of_a_block_is_a_multiple_of_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
