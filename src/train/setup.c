/* setup.c - opens the model and the device, sizes the block programs, and builds the plan. */
#include "train/setup.h"

#include "base/checked.h"
#include "mem/mem.h"
#include "plan/cells.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int core_count(const oc_config *c) {
    if (c->threads > 0) return c->threads;
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (int)n : 1;
}

static oc_status open_device(oc_setup *s, oc_error *err) {
    OC_TRY(oc_pool_open(&s->pool, core_count(s->config), err));
    return oc_device_open_cpu(&s->device, s->pool, OC_ISA_BEST, err);
}

/* Sequence length and batch, once the model is known. */
static oc_status resolve_batch(oc_setup *s, oc_error *err) {
    const oc_config *c = s->config;
    int64_t seq = c->seq_length;
    if (seq == 0) seq = s->model->max_positions < 2048 ? s->model->max_positions : 2048;
    if (s->model->decoder.position == OC_POS_LEARNED && seq > s->model->max_positions)
        return oc_fail(err, OC_E_INVALID,
                       "--seq-length %lld exceeds the model's %lld learned positions; use at most "
                       "that",
                       (long long)seq, (long long)s->model->max_positions);
    int64_t micro = c->micro_batch, accum = c->grad_accum, total = c->train_batch;
    if (micro == 0 && total > 0) { /* auto: the planner divides the batch */
        micro = total;
        accum = 1;
    } else if (micro == 0) {
        micro = 1;
    }
    if (accum <= 0) accum = total > 0 ? total / micro : 1;
    s->build.batch = micro;
    s->build.seq = seq;
    if (!s->train) accum = 1;
    if (accum > OC_MAX_MICROS)
        return oc_fail(err, OC_E_INVALID, "--grad-accum %lld exceeds %d", (long long)accum,
                       OC_MAX_MICROS);
    s->build.micros = (int32_t)accum;
    s->global_batch = micro * accum;
    uint64_t tokens;
    if (!oc_mul_u64((uint64_t)micro, (uint64_t)seq, &tokens) || tokens > INT32_MAX)
        return oc_fail(err, OC_E_INVALID, "a micro-batch of %lld x %lld tokens is too large",
                       (long long)micro, (long long)seq);
    return OC_OK;
}

static void size_programs(oc_setup *s) {
    oc_program_shape *p = &s->shape;
    *p = (oc_program_shape){s->model, s->device, s->dtype, s->build.batch, s->build.seq};
    oc_model_rope(s->model, s->build.seq, s->model->inv_freq);
    s->build.sizes = (oc_build_sizes){
        .act_bytes = oc_program_act_bytes(p),
        .row_bytes = oc_program_row_bytes(p),
        .save_bytes = oc_program_save_bytes(p),
        .work_bytes = oc_program_work_bytes(p),
        .head_work_bytes = oc_program_head_work_bytes(p),
        .head_state_bytes = oc_program_head_state_bytes(p),
        .scratch_bytes = s->device->ops->scratch_bytes(s->device),
        .layer_flops = oc_program_layer_flops(p),
        .head_row_flops = oc_program_chunk_flops(p, 1),
    };
}

static void resolve_dtype(oc_setup *s) {
    const oc_config *c = s->config;
    if (c->has_dtype)
        s->dtype = c->dtype;
    else
        s->dtype = s->model->has_file_dtype ? s->model->file_dtype : OC_F32;
}

static oc_status open_model(oc_setup *s, FILE *notes, oc_error *err) {
    const oc_config *c = s->config;
    const char *dir = c->model_dir ? c->model_dir : c->init_dir;
    if (!dir) return oc_fail(err, OC_E_INVALID, "--model DIR or --init DIR is needed");
    OC_TRY(oc_model_open(&s->model, dir, err));
    if (notes && s->model->notes[0]) (void)fprintf(notes, "%s\n", s->model->notes);
    return OC_OK;
}

static oc_status build(oc_setup *s, oc_error *err) {
    OC_TRY(oc_build(&s->build, &s->set, &s->ids, err));
    if (s->config->verify_debug) OC_TRY(oc_plan_add_poison(s->set, OC_BODY_POISON, err));
    return oc_plan_verify(s->set, err);
}

/* --micro-batch auto with a batch size given: the largest equal split that fits. */
static oc_status place_auto(oc_setup *s, oc_error *err) {
    int64_t total = s->global_batch;
    bool automatic = s->config->micro_batch == 0 && s->train;
    oc_status st = oc_setup_place(s, err);
    for (int64_t n = 2; automatic && st == OC_E_MEMORY && n <= total && n <= OC_MAX_MICROS; n++) {
        if (total % n) continue;
        s->build.micros = (int32_t)n;
        s->build.batch = total / n;
        size_programs(s);
        st = oc_setup_place(s, err);
    }
    return st;
}

static oc_status open_all(oc_setup *s, FILE *notes, oc_error *err) {
    const oc_config *c = s->config;
    OC_TRY(open_model(s, notes, err));
    OC_TRY(open_device(s, err));
    resolve_dtype(s);
    s->train = c->command != OC_CMD_EVAL;
    OC_TRY(resolve_batch(s, err));
    s->build.model = s->model;
    s->build.dtype = s->dtype;
    s->build.train = s->train;
    s->build.with_eval = s->train;
    s->build.has_m = c->optimizer != OC_SGD || c->momentum > 0;
    s->build.has_v = c->optimizer != OC_SGD;
    s->budget[OC_TIER_DEVICE] = c->device_memory;
    s->budget[OC_TIER_HOST] = c->host_memory != UINT64_MAX ? c->host_memory : oc_mem_available();
    s->budget[OC_TIER_NVME] = 0;
    size_programs(s);
    /* libraries, code and stacks as they are now, plus what they may still grow by */
    s->foreign_bytes = oc_mem_rss() + (32u << 20);
    OC_TRY(place_auto(s, err));
    return build(s, err);
}

oc_status oc_setup_open(oc_setup **out, const oc_config *config, FILE *notes, oc_error *err) {
    oc_setup *s = calloc(1, sizeof *s);
    if (!s) return oc_fail(err, OC_E_MEMORY, "no memory for the set-up");
    s->config = config;
    oc_status st = open_all(s, notes, err);
    if (st != OC_OK) {
        oc_setup_close(s);
        return st;
    }
    *out = s;
    return OC_OK;
}

void oc_setup_close(oc_setup *s) {
    if (!s) return;
    oc_plan_set_free(s->set);
    oc_build_ids_release(&s->ids);
    oc_device_close(s->device);
    oc_pool_close(s->pool);
    oc_model_close(s->model);
    free(s);
}

uint64_t oc_setup_use_bytes(const oc_setup *s, oc_tier tier, oc_use use) {
    uint64_t bytes = oc_plan_bytes(s->set, tier, use);
    return tier == OC_TIER_HOST && use == OC_USE_TEXT ? bytes + s->text_bytes : bytes;
}

uint64_t oc_setup_tier_bytes(const oc_setup *s, oc_tier tier) {
    return s->set->arena_bytes[tier] + (tier == OC_TIER_HOST ? s->text_bytes : 0);
}
