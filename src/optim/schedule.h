/* schedule.h - learning-rate schedules, and fp16 loss scaling. Pure functions of their own
 * counters.
 *
 * Hugging Face names: constant, linear, cosine with W warm-up steps; factor at step s (from 1) is
 * (s - 1) / W while s - 1 < W, then as transformers.get_*_schedule_with_warmup with step index s
 * - 1. DeepSpeed: WarmupLR, WarmupDecayLR, WarmupCosineLR, OneCycle (its rate; betas do not move),
 * LRRangeTest as deepspeed/runtime/lr_schedules.py. */
#ifndef OC_SCHEDULE_H
#define OC_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

typedef enum oc_schedule_kind {
    OC_LR_CONSTANT,
    OC_LR_LINEAR,
    OC_LR_COSINE,
    OC_LR_DS_WARMUP,
    OC_LR_DS_WARMUP_DECAY,
    OC_LR_DS_WARMUP_COSINE,
    OC_LR_DS_ONE_CYCLE,
    OC_LR_DS_RANGE_TEST
} oc_schedule_kind;

typedef struct oc_schedule_spec {
    oc_schedule_kind kind;
    int64_t warmup_steps, total_steps;   /* total 0: fill in from the run's steps */
    double warmup_min_lr, warmup_max_lr; /* DeepSpeed; max < 0: the optimizer's lr */
    bool warmup_log;                     /* DeepSpeed warmup_type "log" */
    double warmup_min_ratio, cos_min_ratio;
    double warmup_ratio; /* without warmup_steps: of the total, rounded up */
    struct oc_cycle_spec {
        double min_lr, max_lr; /* max < 0: not given */
        double decay_rate;     /* after the cycle, lr = min / (1 + rate x steps / decay_steps) */
        int64_t first, second; /* steps up and down; second < 0: as many as up */
        int32_t stairs_first, stairs_second; /* 0: no stairs; second < 0: as first */
        int64_t decay_steps;                 /* 0: no decay */
    } cycle;
    struct oc_range_spec { /* lr = min x (1 + rate x steps / size) */
        double min_lr, rate;
        int64_t size;
        bool staircase;
    } range;
} oc_schedule_spec;

/* lr of the step after `done` successful steps (done = 0: the first). base_lr: the optimizer's. */
double oc_schedule_lr(const oc_schedule_spec *s, double base_lr, int64_t done);

/* DeepSpeed's DynamicLossScaler. A power of two or a static value. */
typedef struct oc_scaler {
    double scale;
    int64_t since_overflow; /* good iterations since the last overflow, or the start */
    int32_t hysteresis_left;
} oc_scaler;

typedef struct oc_scaler_spec {
    double static_scale; /* > 0: never changes */
    int32_t initial_power, window, hysteresis;
    bool consecutive_hysteresis;
    double min_scale;
} oc_scaler_spec;

void oc_scaler_init(oc_scaler *s, const oc_scaler_spec *spec);
/* After a step: overflow tells whether gradients were not finite. Returns false when an overflow
 * happened at min_scale already (DeepSpeed raises an error there). */
bool oc_scaler_update(oc_scaler *s, const oc_scaler_spec *spec, bool overflow);

#endif
