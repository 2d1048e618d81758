/* Every model fixture trained for a few steps: the losses and gradient norms of transformers and
 * torch (tests/data/models/curves.json, written by tools/make_family_curves.py), and the same bits
 * whatever the placement, in fp32 and bf16, on the CPU and on the asynchronous device. */
#include "base/json.h"
#include "train_case.h"

#include <math.h>

static json_t *curves;

static int integer(const json_t *object, const char *key) {
    return (int)json_integer_value(json_object_get(object, key));
}

/* The rows as the script that made the losses had them. */
static void write_rows(const char *dir, const json_t *model, int vocab) {
    char path[SCRATCH_BYTES];
    FILE *f = fopen(scratch_path(path, dir, "a.jsonl"), "w");
    assert_non_null(f);
    int seq = integer(model, "seq"), pad = integer(model, "pad");
    size_t i;
    const json_t *row;
    json_array_foreach(json_object_get(curves, "raw"), i, row) {
        fprintf(f, "{\"input_ids\": [");
        for (int t = 0; t < seq; t++) {
            int id = (int)json_integer_value(json_array_get(row, (size_t)t)) % vocab;
            if (pad >= 0 && t == 3 + (int)i % 5) id = pad;
            fprintf(f, "%s%d", t ? ", " : "", id);
        }
        fprintf(f, "]}\n");
    }
    assert_int_equal(fclose(f), 0);
}

static int vocab_of(const char *dir) {
    oc_model *m = NULL;
    oc_error err = {OC_OK, ""};
    if (oc_model_open(&m, dir, &err) != OC_OK) fail_msg("%s", err.message);
    int vocab = (int)m->vocab;
    oc_model_close(m);
    return vocab;
}

static void compare(const char *name, const json_t *model, const train_result *r) {
    const json_t *loss = json_object_get(model, "loss"),
                 *norm = json_object_get(model, "grad_norm");
    assert_int_equal(r->n, json_array_size(loss));
    for (int i = 0; i < r->n; i++) {
        double l = json_real_value(json_array_get(loss, (size_t)i));
        double g = json_real_value(json_array_get(norm, (size_t)i));
        if (!(train_relative(r->step[i].loss, l) <= 1e-5))
            fail_msg("%s: loss of step %d is %.9g, not %.9g", name, i + 1, r->step[i].loss, l);
        if (!(train_relative(r->step[i].grad_norm, g) <= 1e-4))
            fail_msg("%s: gradient norm of step %d is %.9g, not %.9g", name, i + 1,
                     r->step[i].grad_norm, g);
    }
}

/* All placements of one model; returns the least device memory it needs. */
static void train_model(const char *name, const json_t *model) {
    static const char *const dtypes[] = {"fp32", "bf16"};
    char folder[SCRATCH_BYTES], data[SCRATCH_BYTES], line[TRAIN_LINE_BYTES], least[64];
    snprintf(folder, sizeof folder, "%s/models/%s", OC_TEST_DATA, name);
    scratch_make(data);
    write_rows(data, model, vocab_of(folder));
    for (int d = 0; d < 2; d++) {
        train_result first = {0};
        const char *placements[] = {
            "",
            "--slots 2 --slabs 2 --weights-home host --optimizer-home host --act-home device "
            "--micro-order interleave",
            "--recompute none --slots 3 --micro-order breadth",
            "--debug-async --delay-seed 3",
            "--debug-async --slots 2 --slabs 2 --micro-order interleave --act-home host",
            least};
        for (size_t p = 0; p < sizeof placements / sizeof *placements; p++) {
            train_case t;
            train_result r = {0};
            snprintf(line, sizeof line,
                     "--model %s --data %s/a.jsonl --output /nowhere --no-shuffle --seq-length %d "
                     "--micro-batch 2 --grad-accum 2 --max-steps %d --lr %.17g --lr-schedule "
                     "constant --dtype %s %s",
                     folder, data, integer(model, "seq"), integer(curves, "steps"),
                     json_real_value(json_object_get(curves, "lr")), dtypes[d], placements[p]);
            train_open(&t, line);
            snprintf(least, sizeof least, "--device-memory %llu",
                     (unsigned long long)t.setup->minimum[OC_TIER_DEVICE]);
            train_steps(&t, integer(curves, "steps"), &r);
            train_snapshot(&t, &r);
            train_close(&t);
            if (d == 0) compare(name, model, &r);
            if (p == 0)
                first = r;
            else
                train_assert_same(&first, &r, line);
            if (p > 0) train_result_release(&r);
        }
        train_result_release(&first);
    }
    train_remove(data);
}

static void every_fixture_trains_as_torch_does(void **state) {
    (void)state;
    char path[SCRATCH_BYTES], dir[SCRATCH_BYTES];
    oc_error err = {OC_OK, ""};
    snprintf(dir, sizeof dir, "%s/models", OC_TEST_DATA);
    if (oc_json_load(&curves, scratch_path(path, dir, "curves.json"), OC_JSON_NO_NUL, &err) !=
        OC_OK)
        fail_msg("%s", err.message);
    const char *name;
    json_t *model;
    json_t *models = json_object_get(curves, "models");
    assert_true(json_object_size(models) >= 40);
    json_object_foreach(models, name, model) train_model(name, model);
    json_decref(curves);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_fixture_trains_as_torch_does)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
