/* Training some of a model: losses, gradient norms and final weights as PyTorch has them when
 * requires_grad is off for the rest (tests/data/models/frozen.json, written by
 * tools/make_frozen_curves.py), with weight decay and clipping on; and what is frozen keeps every
 * bit, in every dtype and placement. */
#include "base/json.h"
#include "tensor/safetensors.h"
#include "train/save.h"
#include "train_case.h"

#include <math.h>

#define STREAMED "--slots 2 --slabs 1 --act-home host --recompute full"

static json_t *all; /* frozen.json */

static double number(const json_t *object, const char *key) {
    const json_t *x = json_object_get(object, key);
    assert_true(json_is_number(x));
    return json_number_value(x);
}

static const char *text(const json_t *object, const char *key) {
    return json_string_value(json_object_get(object, key));
}

static double item(const json_t *object, const char *key, size_t i) {
    return json_number_value(json_array_get(json_object_get(object, key), i));
}

static void write_rows(const char *dir) {
    char path[SCRATCH_BYTES];
    FILE *f = fopen(scratch_path(path, dir, "a.jsonl"), "w");
    assert_non_null(f);
    size_t i;
    const json_t *row;
    json_array_foreach(json_object_get(all, "rows"), i, row) {
        char *ids = json_dumps(row, 0);
        fprintf(f, "{\"input_ids\": %s}\n", ids);
        free(ids);
    }
    assert_int_equal(fclose(f), 0);
}

/* What the run freezes, as options. */
static void patterns(char *out, size_t n, const json_t *run) {
    size_t i, at = (size_t)snprintf(out, n, "--%s", text(run, "option"));
    const json_t *p;
    json_array_foreach(json_object_get(run, "patterns"), i, p) {
        at += (size_t)snprintf(out + at, n - at, " %s", json_string_value(p));
        assert_true(at < n);
    }
}

static void command(char *line, const json_t *run, const char *dir, int accum, const char *rest) {
    char frozen[512];
    int batch = (int)number(all, "batch");
    assert_int_equal(batch % accum, 0);
    patterns(frozen, sizeof frozen, run);
    int n = snprintf(
        line, TRAIN_LINE_BYTES,
        "--model %s/models/%s --data %s/a.jsonl --output /nowhere --no-shuffle --micro-batch %d "
        "--grad-accum %d --seq-length %d --max-steps %d --lr %.17g --lr-schedule linear "
        "--warmup-steps %d --betas %.17g,%.17g --eps %.17g --weight-decay %.17g %s %s",
        OC_TEST_DATA, text(run, "model"), dir, batch / accum, accum, (int)number(all, "seq_length"),
        (int)number(all, "max_steps"), number(all, "lr"), (int)number(all, "warmup_steps"),
        item(all, "betas", 0), item(all, "betas", 1), number(all, "eps"),
        number(all, "weight_decay"), frozen, rest);
    assert_true(n > 0 && n < TRAIN_LINE_BYTES);
}

/* ---- against PyTorch ---- */

static void compare_steps(const char *line, const train_result *r, const json_t *run) {
    assert_int_equal(r->n, json_array_size(json_object_get(run, "loss")));
    for (int i = 0; i < r->n; i++) {
        double loss = train_relative(r->step[i].loss, item(run, "loss", (size_t)i));
        double norm = train_relative(r->step[i].grad_norm, item(run, "grad_norm", (size_t)i));
        if (!(loss <= 1e-4 && norm <= 1e-4))
            fail_msg("%s\nstep %d: the loss is off by %.3g, the gradient norm by %.3g", line, i + 1,
                     loss, norm);
    }
}

static float *read_tensor(oc_tensors *t, const char *name, uint64_t *elements) {
    oc_error err = {OC_OK, ""};
    const oc_tensor_info *x = oc_tensors_find(t, name);
    if (!x) fail_msg("%s is not there", name);
    float *p = malloc((size_t)x->elements * sizeof *p);
    assert_non_null(p);
    if (oc_tensors_read(t, x, 0, x->elements, OC_F32, p, &err) != OC_OK)
        fail_msg("%s", err.message);
    *elements = x->elements;
    return p;
}

/* No query sees gpt2's key bias: its true gradient is zero, and Adam turns rounding into steps. */
static bool has_gradient(const char *name, uint64_t i, uint64_t n) {
    return !strstr(name, "attn.c_attn.bias") || i < n / 3 || i >= n / 3 * 2;
}

static void compare_trained(const char *name, const json_t *want, const float *now,
                            const float *before, uint64_t n) {
    uint64_t stride = (uint64_t)number(want, "stride");
    double most = 0, worst = 0, change = 0;
    for (uint64_t i = 0; i < n; i += stride) {
        double x = item(want, "values", (size_t)(i / stride));
        most = fmax(most, fabs(x));
        if (has_gradient(name, i, n)) worst = fmax(worst, fabs(x - (double)now[i]));
    }
    for (uint64_t i = 0; i < n; i++)
        change += ((double)now[i] - (double)before[i]) * ((double)now[i] - (double)before[i]);
    if (!(worst <= 1e-4 * most))
        fail_msg("%s differs by %g, its largest value is %g", name, worst, most);
    if (strstr(name, "attn.c_attn.bias")) return;
    if (!(train_relative(sqrt(change), number(want, "change")) <= 1e-3))
        fail_msg("%s has moved by %g, not %g", name, sqrt(change), number(want, "change"));
}

static void compare_tensor(oc_tensors *ours, oc_tensors *start, const char *name,
                           const json_t *trained) {
    uint64_t n, m;
    float *now = read_tensor(ours, name, &n), *before = read_tensor(start, name, &m);
    const json_t *want = json_object_get(trained, name);
    assert_int_equal(n, m);
    if (want)
        compare_trained(name, want, now, before, n);
    else if (memcmp(now, before, n * sizeof *now) != 0)
        fail_msg("%s was to stay as it is", name);
    free(now);
    free(before);
}

/* As saved by the program, so that names and orientation are part of it. */
static void compare_weights(train_case *t, const json_t *run) {
    char model[SCRATCH_BYTES], dir[SCRATCH_BYTES];
    oc_error err = {OC_OK, ""};
    oc_tensors *ours = NULL, *start = NULL;
    snprintf(model, sizeof model, "%s/models/%s", OC_TEST_DATA, text(run, "model"));
    scratch_make(dir);
    if (oc_save_model(t->session, t->setup, dir, &err) != OC_OK ||
        oc_tensors_open(&start, model, &err) != OC_OK || oc_tensors_open(&ours, dir, &err) != OC_OK)
        fail_msg("%s", err.message);
    const json_t *trained = json_object_get(run, "tensors");
    for (int32_t i = 0; i < oc_tensors_count(start); i++)
        compare_tensor(ours, start, oc_tensors_at(start, i)->name, trained);
    oc_tensors_close(ours);
    oc_tensors_close(start);
    train_remove(dir);
}

static void follow(const json_t *run, const char *dir, int accum, const char *rest) {
    char line[TRAIN_LINE_BYTES], options[256];
    train_case t;
    train_result r = {0};
    snprintf(options, sizeof options, "--dtype fp32 --clip-grad-norm %.17g %s",
             number(all, "clip_grad_norm"), rest);
    command(line, run, dir, accum, options);
    train_open(&t, line);
    assert_int_equal(oc_model_trained_parameters(t.setup->model), number(run, "trained"));
    train_steps(&t, (int)number(all, "max_steps"), &r);
    compare_steps(line, &r, run);
    compare_weights(&t, run);
    train_close(&t);
}

static void follow_all(int accum, const char *rest) {
    char dir[SCRATCH_BYTES];
    size_t i;
    const json_t *run;
    scratch_make(dir);
    write_rows(dir);
    json_array_foreach(json_object_get(all, "runs"), i, run) follow(run, dir, accum, rest);
    train_remove(dir);
}

static void models_with_frozen_parts_follow_pytorch(void **state) {
    (void)state;
    follow_all(1, "");
    follow_all(2, "");
}

static void models_with_frozen_parts_follow_pytorch_streamed(void **state) {
    (void)state;
    follow_all(1, STREAMED);
    follow_all(2, STREAMED " --micro-order breadth");
}

static void models_with_frozen_parts_follow_pytorch_on_the_asynchronous_device(void **state) {
    (void)state;
    follow_all(1, "--debug-async --delay-seed 4");
    follow_all(2, "--debug-async --micro-order interleave " STREAMED);
}

/* ---- bits ---- */

/* Frozen tensors as they were, each trained one with a change somewhere. */
static void assert_only_trained_moved(const oc_model *m, const train_result *before,
                                      const train_result *after, const char *line) {
    size_t at = 0, elements = 0;
    for (int32_t i = 0; i < m->n_blocks; i++)
        elements += (size_t)m->blocks[i].elements;
    size_t width = before->bytes / elements;
    for (int32_t i = 0; i < m->n_blocks; at += (size_t)m->blocks[i].elements * width, i++) {
        for (int32_t k = 0; k < m->blocks[i].n_tensors; k++) {
            const oc_tensor_spec *x = &m->tensors[m->blocks[i].first_tensor + k];
            size_t from = at + (size_t)x->offset * width, n = (size_t)x->elements * width;
            bool moved = memcmp(before->weights + from, after->weights + from, n) != 0;
            if (moved == x->frozen)
                fail_msg("%s\n%s %s", line, x->name, moved ? "has moved" : "has not moved");
        }
    }
}

static void run_placements(const json_t *run, const char *dir, const char *rest, bool early) {
    static const char *const placements[] = {
        "--early-updates off",
        "--early-updates off --slots 1 --slabs 1 --act-home host --recompute full --debug-memory",
        "--early-updates off --debug-async --delay-seed 3",
        "--early-updates on",
        ("--early-updates on --debug-async --debug-memory " STREAMED),
    };
    char line[TRAIN_LINE_BYTES], options[256];
    train_result first = {0};
    size_t n = early ? 5 : 3;
    for (size_t p = 0; p < n; p++) {
        train_case t;
        train_result r = {0}, start = {0};
        snprintf(options, sizeof options, "%s %s", rest, placements[p]);
        command(line, run, dir, 1, options);
        train_open(&t, line);
        train_snapshot(&t, &start);
        train_steps(&t, (int)number(all, "max_steps"), &r);
        train_snapshot(&t, &r);
        assert_only_trained_moved(t.setup->model, &start, &r, line);
        train_close(&t);
        if (p == 0)
            first = r;
        else
            train_assert_same(&first, &r, line);
        if (p > 0) train_result_release(&r);
        train_result_release(&start);
    }
    train_result_release(&first);
}

static void what_is_frozen_keeps_every_bit_in_every_placement(void **state) {
    char dir[SCRATCH_BYTES];
    size_t i;
    const json_t *run;
    (void)state;
    scratch_make(dir);
    write_rows(dir);
    json_array_foreach(json_object_get(all, "runs"), i, run) {
        run_placements(run, dir, "--dtype bf16 --clip-grad-norm 0", true);
        run_placements(run, dir, "--dtype fp32 --optimizer sgd --momentum 0.9 --clip-grad-norm 0",
                       true);
        run_placements(run, dir, "--dtype fp16 --optimizer adam --clip-grad-norm 0.1", false);
    }
    train_remove(dir);
}

static int load(void **state) {
    char path[SCRATCH_BYTES];
    oc_error err = {OC_OK, ""};
    (void)state;
    scratch_path(path, OC_TEST_DATA "/models", "frozen.json");
    return oc_json_load(&all, path, OC_JSON_NO_NUL, &err) == OC_OK ? 0 : -1;
}

static int unload(void **state) {
    (void)state;
    json_decref(all);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_with_frozen_parts_follow_pytorch),
        cmocka_unit_test(models_with_frozen_parts_follow_pytorch_streamed),
        cmocka_unit_test(models_with_frozen_parts_follow_pytorch_on_the_asynchronous_device),
        cmocka_unit_test(what_is_frozen_keeps_every_bit_in_every_placement),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
