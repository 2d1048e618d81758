/* Fifty steps of training as PyTorch does them: AdamW with weight decay, clipping, warm-up and a
 * linear schedule, from the same weights over the same rows. Expected: losses, gradient norms and
 * learning rates of each step, and the final weights, written by transformers and torch
 * (tests/data/models/NAME/curve.json, trained.safetensors). */
#include "base/json.h"
#include "tensor/safetensors.h"
#include "train/save.h"
#include "train_case.h"

#include <math.h>

typedef struct curve {
    const char *name;
    char dir[SCRATCH_BYTES];
    json_t *json;
} curve;

static void open_curve(curve *c, const char *name) {
    char path[SCRATCH_BYTES];
    oc_error err = {OC_OK, ""};
    c->name = name;
    snprintf(c->dir, sizeof c->dir, "%s/models/%s", OC_TEST_DATA, name);
    if (oc_json_load(&c->json, scratch_path(path, c->dir, "curve.json"), 0, &err) != OC_OK)
        fail_msg("%s", err.message);
}

static double number(const json_t *object, const char *key) {
    const json_t *x = json_object_get(object, key);
    assert_true(json_is_number(x));
    return json_number_value(x);
}

static double beta(const curve *c, size_t i) {
    return json_number_value(json_array_get(json_object_get(c->json, "betas"), i));
}

/* accum: micro-batches that the fixture's batch is split into. */
static void command(char *line, const curve *c, int accum, const char *rest) {
    int batch = (int)number(c->json, "micro_batch");
    assert_int_equal(batch % accum, 0);
    assert_string_equal(json_string_value(json_object_get(c->json, "lr_schedule")), "linear");
    snprintf(line, TRAIN_LINE_BYTES,
             "--model %s --data %s/train.jsonl --output /nowhere --no-shuffle --micro-batch %d "
             "--grad-accum %d --seq-length %d --max-steps %d --lr %.17g --lr-schedule linear "
             "--warmup-steps %d --betas %.17g,%.17g --eps %.17g --weight-decay %.17g "
             "--clip-grad-norm %.17g %s",
             c->dir, c->dir, batch / accum, accum, (int)number(c->json, "seq_length"),
             (int)number(c->json, "max_steps"), number(c->json, "lr"),
             (int)number(c->json, "warmup_steps"), beta(c, 0), beta(c, 1), number(c->json, "eps"),
             number(c->json, "weight_decay"), number(c->json, "clip_grad_norm"), rest);
}

/* ---- weights ---- */

/* The attention softmax does not change when one number is added to all scores of a row, and that
 * is all the key part of gpt2's fused bias does: its true gradient is zero. What is left is
 * rounding noise, which Adam divides by its own size, so these entries wander differently in every
 * implementation. With RoPE the bias is turned by each key's position, hence llama's k_proj.bias
 * has a true gradient and is compared. */
static bool has_gradient(const oc_tensor_info *x, uint64_t i) {
    static const char fused[] = "attn.c_attn.bias";
    size_t n = strlen(x->name), k = strlen(fused);
    if (n < k || strcmp(x->name + n - k, fused) != 0) return true;
    return i < x->elements / 3 || i >= x->elements / 3 * 2;
}

static float *read_tensor(oc_tensors *t, const oc_tensor_info *x) {
    oc_error err = {OC_OK, ""};
    float *p = malloc((size_t)x->elements * sizeof *p);
    assert_non_null(p);
    if (oc_tensors_read(t, x, 0, x->elements, OC_F32, p, &err) != OC_OK)
        fail_msg("%s", err.message);
    return p;
}

static const oc_tensor_info *find(oc_tensors *t, const char *name) {
    static const char prefix[] = "transformer.";
    char longer[256];
    const oc_tensor_info *x = oc_tensors_find(t, name);
    if (!x && strncmp(name, prefix, strlen(prefix)) == 0)
        x = oc_tensors_find(t, name + strlen(prefix));
    if (x) return x;
    snprintf(longer, sizeof longer, "%s%s", prefix, name);
    return oc_tensors_find(t, longer);
}

static void compare_tensor(oc_tensors *ours, oc_tensors *theirs, const oc_tensor_info *x,
                           double tolerance) {
    const oc_tensor_info *y = find(ours, x->name);
    if (!y) fail_msg("%s was not saved", x->name);
    assert_int_equal(x->elements, y->elements);
    float *want = read_tensor(theirs, x), *got = read_tensor(ours, y);
    double most = 0, worst = 0;
    for (uint64_t i = 0; i < x->elements; i++) {
        most = fmax(most, fabs((double)want[i]));
        if (has_gradient(x, i)) worst = fmax(worst, fabs((double)want[i] - (double)got[i]));
    }
    if (!(worst <= tolerance * most))
        fail_msg("%s differs by %g, its largest value is %g", x->name, worst, most);
    free(want);
    free(got);
}

/* As saved by the program, so that names and orientation are part of it. */
static void compare_weights(train_case *t, const curve *c, double tolerance) {
    char path[SCRATCH_BYTES], dir[SCRATCH_BYTES];
    oc_error err = {OC_OK, ""};
    oc_tensors *ours = NULL, *theirs = NULL;
    scratch_make(dir);
    if (oc_save_model(t->session, t->setup, dir, &err) != OC_OK) fail_msg("%s", err.message);
    scratch_path(path, c->dir, "trained.safetensors");
    if (oc_tensors_open(&theirs, path, &err) != OC_OK) fail_msg("%s", err.message);
    if (oc_tensors_open(&ours, dir, &err) != OC_OK) fail_msg("%s", err.message);
    assert_int_equal(oc_tensors_count(ours), oc_tensors_count(theirs));
    for (int32_t i = 0; i < oc_tensors_count(theirs); i++)
        compare_tensor(ours, theirs, oc_tensors_at(theirs, i), tolerance);
    oc_tensors_close(ours);
    oc_tensors_close(theirs);
    train_remove(dir);
}

/* ---- curves ---- */

static void compare_steps(const train_result *r, const curve *c, double tolerance) {
    const json_t *steps = json_object_get(c->json, "steps");
    assert_int_equal(r->n, json_array_size(steps));
    for (int i = 0; i < r->n; i++) {
        const json_t *want = json_array_get(steps, (size_t)i);
        double loss = train_relative(r->step[i].loss, number(want, "loss"));
        double norm = train_relative(r->step[i].grad_norm, number(want, "grad_norm"));
        double lr = fabs(r->step[i].lr_used - number(want, "lr"));
        if (!(loss <= tolerance && norm <= tolerance && lr <= 1e-15))
            fail_msg("step %d: the loss is off by %.3g, the gradient norm by %.3g, lr by %.3g",
                     i + 1, loss, norm, lr);
    }
}

static void follow_fp32(const char *name, int accum, const char *rest) {
    curve c;
    char line[TRAIN_LINE_BYTES], options[256];
    train_case t;
    train_result r = {0};
    open_curve(&c, name);
    snprintf(options, sizeof options, "--dtype fp32 %s", rest);
    command(line, &c, accum, options);
    train_open(&t, line);
    train_steps(&t, (int)number(c.json, "max_steps"), &r);
    compare_steps(&r, &c, 1e-4);
    compare_weights(&t, &c, 1e-4);
    train_close(&t);
    json_decref(c.json);
}

/* Rounding to bf16 in other places than torch's autocast does: only the losses are comparable. */
static void follow_bf16(const char *name, const char *rest) {
    curve c;
    char line[TRAIN_LINE_BYTES], options[256];
    train_result r;
    open_curve(&c, name);
    snprintf(options, sizeof options, "--dtype bf16 %s", rest);
    command(line, &c, 1, options);
    train_run(line, &r);
    const json_t *want = json_object_get(c.json, "bf16_losses");
    assert_int_equal(r.n, json_array_size(want));
    for (int i = 0; i < r.n; i++) {
        double x = json_number_value(json_array_get(want, (size_t)i));
        double off = train_relative(r.step[i].loss, x);
        if (!(off <= 1e-2)) fail_msg("step %d: the loss is off by %.3g", i + 1, off);
    }
    train_result_release(&r);
    json_decref(c.json);
}

#define STREAMED "--slots 2 --slabs 1 --act-home host --recompute full"

static const char *const models[] = {"llama-bias", "gpt2", "qwen3-tied", "gpt_neox"};
enum { MODELS = sizeof models / sizeof *models };

static void every_model_follows_pytorch_in_fp32(void **state) {
    (void)state;
    for (int i = 0; i < MODELS; i++)
        follow_fp32(models[i], 1, "");
}

static void every_model_follows_pytorch_with_the_batch_split(void **state) {
    (void)state;
    for (int i = 0; i < MODELS; i++)
        follow_fp32(models[i], 2, "");
}

static void every_model_follows_pytorch_streamed(void **state) {
    (void)state;
    for (int i = 0; i < MODELS; i++) {
        follow_fp32(models[i], 1, STREAMED);
        follow_fp32(models[i], 2, STREAMED " --micro-order breadth");
    }
}

/* Rows of the mlp and the head in tiles, resident and streamed: of 8, and of 7, so that the last of
 * a micro-batch is a part of one. */
static void llama_follows_pytorch_tile_by_tile(void **state) {
    (void)state;
    follow_fp32("llama-bias", 1, "--token-tile 8");
    follow_fp32("llama-bias", 1, "--token-tile 7 " STREAMED);
    follow_fp32("llama-bias", 2, "--token-tile 8 " STREAMED);
    follow_bf16("llama-bias", "--token-tile 7 " STREAMED);
}

static void every_model_follows_pytorch_in_bf16(void **state) {
    (void)state;
    for (int i = 0; i < MODELS; i++) {
        follow_bf16(models[i], "");
        follow_bf16(models[i], STREAMED);
    }
}

/* Saving reads the weights back from it. */
static void every_model_follows_pytorch_on_the_asynchronous_device(void **state) {
    (void)state;
    for (int i = 0; i < MODELS; i++) {
        follow_fp32(models[i], 1, "--debug-async --delay-seed 4");
        follow_fp32(models[i], 2, "--debug-async --micro-order interleave " STREAMED);
        follow_bf16(models[i], "--debug-async");
        follow_bf16(models[i], "--debug-async " STREAMED);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_model_follows_pytorch_in_fp32),
        cmocka_unit_test(every_model_follows_pytorch_with_the_batch_split),
        cmocka_unit_test(every_model_follows_pytorch_streamed),
        cmocka_unit_test(llama_follows_pytorch_tile_by_tile),
        cmocka_unit_test(every_model_follows_pytorch_in_bf16),
        cmocka_unit_test(every_model_follows_pytorch_on_the_asynchronous_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
