/* setup.c - opens the model and the device, sizes the block programs, and builds the plan. */
#include "engine/setup.h"

#include "base/checked.h"
#include "device/async/async.h"
#include "engine/corpus.h"
#include "mem/mem.h"
#include "model/load.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int core_count(const oc_config *c) {
    if (c->threads > 0) return c->threads;
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (int)n : 1;
}

/* Compute and copies are streams of the device, where it has some; the rest is the host's work. */
static oc_status open_lanes(oc_setup *s, oc_error *err) {
    static const oc_lane copies[] = {OC_LANE_H2D, OC_LANE_D2H};
    oc_device *d = s->device;
    for (int l = 0; l < OC_LANE_COUNT; l++)
        s->lanes[l] = s->host;
    s->lanes[OC_LANE_COMPUTE] = d;
    for (int i = 0; i < 2; i++) {
        s->lanes[copies[i]] = d;
        if (d->ops->open_stream) OC_TRY(d->ops->open_stream(d, &s->lanes[copies[i]], err));
    }
    return OC_OK;
}

static oc_status open_device(oc_setup *s, oc_error *err) {
    const oc_config *c = s->config;
    OC_TRY(oc_pool_open(&s->pool, core_count(c), err));
    OC_TRY(oc_device_open_cpu(&s->host, s->pool, OC_ISA_BEST, err));
    s->device = s->host;
    if (c->debug_async)
        OC_TRY(oc_device_open_async(&s->device, s->pool, (uint32_t)c->delay_seed, err));
    return open_lanes(s, err);
}

bool oc_setup_opaque(const oc_setup *s) { return s->device != s->host; }

uint64_t oc_setup_bounce_bytes(const oc_setup *s) {
    if (!oc_setup_opaque(s)) return 0;
    uint64_t each = 4 + oc_dtype_bytes(s->dtype);
    return oc_align_up(s->model->max_block_elements * each, 64);
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
    s->build.micros = (int32_t)accum;
    s->global_batch = micro * accum;
    uint64_t tokens;
    if (!oc_mul_u64((uint64_t)micro, (uint64_t)seq, &tokens) || tokens > INT32_MAX)
        return oc_fail(err, OC_E_INVALID, "a micro-batch of %lld x %lld tokens is too large",
                       (long long)micro, (long long)seq);
    return OC_OK;
}

/* All that depends on the batch. */
static void size_programs(oc_setup *s) {
    oc_program_shape *p = &s->shape;
    *p = (oc_program_shape){s->model,       s->device,    s->dtype,
                            s->build.batch, s->build.seq, s->config->token_tile,
                            OC_GEMM_TILED};
    oc_model_rope(s->model, s->build.seq, s->model->inv_freq);
    s->build.sizes = (oc_build_sizes){
        .act_bytes = oc_program_act_bytes(p),
        .row_bytes = oc_program_row_bytes(p),
        .work_bytes = oc_program_work_bytes(p),
        .head_work_bytes = oc_program_head_work_bytes(p),
        .head_state_bytes = oc_program_head_state_bytes(p),
        .scratch_bytes = s->device->ops->scratch_bytes(s->device),
    };
    for (int v = 0; v < OC_SAVED_COUNT; v++)
        s->build.sizes.saved_bytes[v] = oc_program_saved_bytes(p, (oc_saved)v);
}

static void resolve_dtype(oc_setup *s) {
    const oc_config *c = s->config;
    if (c->has_dtype)
        s->dtype = c->dtype;
    else
        s->dtype = s->model->has_file_dtype ? s->model->file_dtype : OC_F32;
}

/* What is trained is the model's own matter from here on. */
static oc_status choose_trained(oc_setup *s, FILE *notes, oc_error *err) {
    const oc_config *c = s->config;
    bool only = c->n_train_only > 0;
    char *const *list = only ? c->train_only : c->freeze;
    int32_t n = only ? c->n_train_only : c->n_freeze;
    oc_status st = oc_model_freeze(s->model, (const char *const *)list, n, only, err);
    if (st != OC_OK) return oc_error_prefix(err, st, only ? "--train-only" : "--freeze");
    if (notes && n > 0)
        (void)fprintf(notes, "%llu of %llu parameters are trained\n",
                      (unsigned long long)oc_model_trained_parameters(s->model),
                      (unsigned long long)s->model->parameters);
    return OC_OK;
}

static oc_status open_model(oc_setup *s, FILE *notes, oc_error *err) {
    const oc_config *c = s->config;
    const char *dir = c->model_dir ? c->model_dir : c->init_dir;
    if (!dir) return oc_fail(err, OC_E_INVALID, "--model DIR or --init DIR is needed");
    if (s->train) OC_TRY(oc_source_open(&s->source, c, err));
    if (c->model_dir)
        OC_TRY(oc_model_open_trained(&s->model, dir, err));
    else
        OC_TRY(oc_model_open(&s->model, dir, err));
    if (notes && s->model->notes[0]) (void)fprintf(notes, "%s\n", s->model->notes);
    return choose_trained(s, notes, err);
}

/* ---- bytes outside the arenas ---- */

/* Libraries, code and stacks as they are now, plus what they may still grow by: threads to come (a
 * lane has two at most) with what a stack has touched, 12 KiB as measured, and, once for all,
 * tables of libraries that are written when they are first called, buffers of streams, gaps in the
 * heap: 100 to 400 KiB as measured. In steps, so that `plan` says what `train` says. */
static uint64_t measure_foreign(const oc_setup *s) {
    enum { STACK_BYTES = 16 << 10, ONCE_BYTES = 768 << 10, STEP_BYTES = 256 << 10 };
    uint64_t threads = (uint64_t)oc_pool_cores(s->pool) + 2 * OC_LANE_COUNT;
    uint64_t here = oc_mem_rss(), kept = oc_source_bytes(s->source); /* which is planned */
    return oc_align_up(here - oc_min_u64(kept, here) + threads * STACK_BYTES + ONCE_BYTES,
                       STEP_BYTES);
}

/* Before anything planned is there, so that none of it is counted as foreign; what is measured as
 * available then lacks the process as it is. */
static void measure_host(oc_setup *s) {
    const oc_config *c = s->config;
    oc_mem_trim();
    s->foreign_bytes = measure_foreign(s);
    s->budget[OC_TIER_DEVICE] = c->device_memory;
    s->budget[OC_TIER_HOST] =
        c->host_memory != UINT64_MAX ? c->host_memory : oc_mem_available() + oc_mem_rss();
    s->budget[OC_TIER_NVME] = 0;
    s->staging_bytes =
        oc_model_staging_bytes(s->model) + oc_setup_bounce_bytes(s) + oc_source_bytes(s->source);
}

oc_run_spec oc_setup_run_spec(const oc_setup *s) {
    const oc_config *c = s->config;
    oc_run_spec spec = {.set = s->set,
                        .serial = c->serial_lanes,
                        .protect = c->verify_debug,
                        .trace_path = c->trace_path,
                        .trace_bytes = c->trace_bytes,
                        .delay_seed = (uint32_t)c->delay_seed};
    memcpy(spec.pace_bytes_per_second, c->pace, sizeof c->pace);
    for (int l = 0; l < OC_LANE_COUNT; l++)
        if (s->lanes[l]->ops->queue) spec.queues[l] = s->lanes[l]->ops->queue(s->lanes[l]);
    return spec;
}

uint64_t oc_setup_text_bytes(const oc_setup *s, const oc_build_spec *b) {
    const oc_generator *g = s->generator;
    if (!g) return oc_corpus_bytes(s, b);
    uint64_t tokenizer = s->tokenizer ? oc_tokenizer_host_bytes(s->tokenizer) : 0;
    return tokenizer + g->beside(g->user, s, b);
}

static oc_status build(oc_setup *s, oc_error *err) {
    if (s->no_memory) return oc_fail(err, OC_E_MEMORY, "no memory to plan the run in");
    OC_TRY(oc_build(&s->build, &s->set, &s->ids, err));
    if (s->config->verify_debug) OC_TRY(oc_plan_add_poison(s->set, OC_BODY_POISON, err));
    oc_run_spec spec = oc_setup_run_spec(s);
    s->text_bytes = oc_setup_text_bytes(s, &s->build);
    s->plan_bytes = oc_plan_host_bytes(s->set) + oc_run_measure(&spec);
    return oc_plan_verify(s->set, err);
}

oc_status oc_setup_place_as(oc_setup *s, const oc_placement *place, oc_error *err) {
    oc_plan_set_free(s->set);
    oc_build_ids_release(&s->ids);
    s->set = NULL;
    s->build.place = *place;
    return build(s, err);
}

/* --micro-batch auto with a batch size given: the largest equal split that fits. */
static oc_status place_auto(oc_setup *s, oc_error *err) {
    int64_t total = s->global_batch;
    bool automatic = s->config->micro_batch == 0 && s->train;
    oc_status st = oc_setup_place(s, err);
    if (s->config->early_updates == OC_EARLY_ON) automatic = false; /* one micro-batch a step */
    for (int64_t n = 2; automatic && st == OC_E_MEMORY && n <= total && n <= OC_ACCUM_MOST; n++) {
        if (total % n) continue;
        s->build.micros = (int32_t)n;
        s->build.batch = total / n;
        size_programs(s);
        st = oc_setup_place(s, err);
    }
    return st;
}

static oc_status open_homes(oc_setup *s, oc_error *err) {
    s->homes = calloc((size_t)s->model->n_blocks, sizeof *s->homes);
    if (!s->homes) return oc_fail(err, OC_E_MEMORY, "no memory for the table of homes");
    s->build.model = s->model;
    s->build.dtype = s->dtype;
    return OC_OK;
}

static oc_status check_longest(const oc_setup *s, oc_error *err) {
    long long longest = s->wish.longest, positions = s->model->max_positions;
    bool learned = s->model->decoder.position == OC_POS_LEARNED;
    if (longest < 1 || longest > INT32_MAX / 2)
        return oc_fail(err, OC_E_INVALID, "a sequence of %lld tokens is not possible", longest);
    if (!learned || longest <= positions) return OC_OK;
    return oc_fail(err, OC_E_INVALID,
                   "a sequence of %lld tokens exceeds the model's %lld learned positions; use a "
                   "smaller --seq-length or --max-new-tokens",
                   longest, positions);
}

/* Without a tokenizer only ids can be gone on from: whoever asks for more says so. */
static oc_status open_generation_tokenizer(oc_setup *s, oc_error *err) {
    oc_status st = oc_corpus_tokenizer(&s->tokenizer, s->config, err);
    return st == OC_E_NOTFOUND && !s->config->tokenizer ? OC_OK : st;
}

/* Rotary positions of some types go by the longest sequence, which others beside it may be. */
static void say_rope(const oc_setup *s, FILE *notes) {
    if (!notes || s->config->seq_length > 0 || !oc_model_rope_differs(s->model, s->wish.longest))
        return;
    (void)fprintf(notes,
                  "rotary positions are those of sequences of %lld tokens, the longest, for every "
                  "one: the model has others for short ones. --seq-length fixes them\n",
                  (long long)s->wish.longest);
}

static oc_status open_generation(oc_setup *s, FILE *notes, oc_error *err) {
    OC_TRY(open_model(s, notes, err));
    OC_TRY(open_device(s, err));
    resolve_dtype(s);
    OC_TRY(open_homes(s, err));
    s->build.micros = s->config->gen.groups > 0 ? (int32_t)s->config->gen.groups : 1;
    measure_host(s);
    OC_TRY(open_generation_tokenizer(s, err));
    OC_TRY(s->generator->wish(s->generator->user, s, &s->wish, err));
    OC_TRY(check_longest(s, err));
    oc_model_rope(s->model, s->wish.longest, s->model->inv_freq);
    say_rope(s, notes);
    OC_TRY(oc_setup_place_pass(s, err));
    return build(s, err);
}

enum { SCORED_TOKENS = 4096, SCORED_LEAST = 1024 };

static void size_scores(oc_setup *s, int64_t batch) {
    s->build.batch = batch;
    size_programs(s);
    oc_model_rope(s->model, s->wish.longest, s->model->inv_freq);
}

/* As many sequences as were asked for; else as many as fit. */
static oc_status place_scores(oc_setup *s, oc_error *err) {
    bool said = oc_config_origin(s->config, "micro-batch") != OC_FROM_DEFAULT;
    int64_t asked = said ? s->config->micro_batch : 0, n = SCORED_TOKENS / s->build.seq;
    size_scores(s, asked > 0 ? asked : n > 0 ? n : 1);
    oc_status st = oc_setup_place(s, err);
    while (st == OC_E_MEMORY && asked == 0 && s->build.batch > 1) {
        size_scores(s, s->build.batch / 2);
        st = oc_setup_place(s, err);
    }
    return st;
}

static oc_status open_scores(oc_setup *s, FILE *notes, oc_error *err) {
    OC_TRY(open_model(s, notes, err));
    OC_TRY(open_device(s, err));
    resolve_dtype(s);
    OC_TRY(open_homes(s, err));
    s->build.scores = true;
    s->build.micros = 1;
    s->global_batch = 1;
    measure_host(s);
    OC_TRY(open_generation_tokenizer(s, err));
    OC_TRY(s->generator->wish(s->generator->user, s, &s->wish, err));
    OC_TRY(check_longest(s, err));
    say_rope(s, notes);
    s->build.seq = s->wish.longest > SCORED_LEAST ? s->wish.longest : SCORED_LEAST;
    OC_TRY(place_scores(s, err));
    return build(s, err);
}

static oc_status open_all(oc_setup *s, FILE *notes, oc_error *err) {
    const oc_config *c = s->config;
    if (s->generator && s->generator->scores) return open_scores(s, notes, err);
    if (s->generator) return open_generation(s, notes, err);
    s->train = c->command != OC_CMD_EVAL;
    OC_TRY(open_model(s, notes, err));
    OC_TRY(open_device(s, err));
    resolve_dtype(s);
    OC_TRY(resolve_batch(s, err));
    if (s->train && c->early_updates == OC_EARLY_ON)
        OC_TRY(oc_config_check_early(c, s->dtype, s->build.micros, err));
    OC_TRY(open_homes(s, err));
    s->build.train = s->train;
    s->build.with_eval = s->train;
    s->build.has_m = c->optimizer != OC_SGD || c->momentum > 0;
    s->build.has_v = c->optimizer != OC_SGD;
    OC_TRY(oc_corpus_find_files(s, err));
    measure_host(s);
    OC_TRY(oc_corpus_open_tokenizer(s, err));
    if (s->source) OC_TRY(oc_source_check(s->source, err));
    size_programs(s);
    OC_TRY(place_auto(s, err));
    return build(s, err);
}

oc_status oc_setup_open(oc_setup **out, const oc_config *config, FILE *notes, oc_error *err) {
    return oc_setup_open_generate(out, config, NULL, notes, err);
}

oc_status oc_setup_open_generate(oc_setup **out, const oc_config *config, const oc_generator *g,
                                 FILE *notes, oc_error *err) {
    oc_setup *s = calloc(1, sizeof *s);
    if (!s) return oc_fail(err, OC_E_MEMORY, "no memory for the set-up");
    s->config = config;
    s->generator = g;
    s->starved = &s->no_memory;
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
    free(s->homes);
    oc_tokenizer_close(s->tokenizer);
    oc_data_files_release(&s->files);
    oc_data_files_release(&s->eval_files);
    if (s->device != s->host) oc_device_close(s->device);
    oc_device_close(s->host);
    oc_pool_close(s->pool);
    oc_model_close(s->model);
    oc_source_close(s->source);
    free(s);
}

uint64_t oc_setup_use_bytes(const oc_setup *s, oc_tier tier, oc_use use) {
    uint64_t bytes = oc_plan_bytes(s->set, tier, use);
    if (tier != OC_TIER_HOST) return bytes;
    if (use == OC_USE_TEXT) bytes += s->text_bytes;
    if (use == OC_USE_PLAN) bytes += s->plan_bytes;
    if (use == OC_USE_STAGING) bytes += s->staging_bytes;
    return bytes;
}

uint64_t oc_setup_outside_bytes(const oc_setup *s) {
    return s->text_bytes + s->plan_bytes + s->staging_bytes;
}

uint64_t oc_setup_tier_bytes(const oc_setup *s, oc_tier tier) {
    return s->set->arena_bytes[tier] + (tier == OC_TIER_HOST ? oc_setup_outside_bytes(s) : 0);
}
