#include "optim/schedule.h"

#include <math.h>

static const double pi = 3.14159265358979323846;

static double least_one(int64_t x) { return x > 1 ? (double)x : 1.0; }

static int64_t warmup_steps(const oc_schedule_spec *s) {
    if (s->warmup_steps > 0) return s->warmup_steps;
    return (int64_t)ceil(s->warmup_ratio * (double)s->total_steps);
}

/* transformers/optimization.py */
static double hugging_face_factor(const oc_schedule_spec *s, int64_t step) {
    int64_t warm = warmup_steps(s), total = s->total_steps;
    if (step < warm) return (double)step / least_one(warm);
    if (s->kind == OC_LR_CONSTANT) return 1;
    if (s->kind == OC_LR_LINEAR) return fmax(0, (double)(total - step) / least_one(total - warm));
    double progress = (double)(step - warm) / least_one(total - warm);
    return fmax(0, 0.5 * (1 + cos(pi * progress)));
}

static int64_t deepspeed_warmup(const oc_schedule_spec *s) {
    int64_t warm = warmup_steps(s);
    return warm > 2 ? warm : 2;
}

/* From 0 to 1 while last < warm-up; the log form reaches 1 one step before its end. */
static double deepspeed_rise(const oc_schedule_spec *s, int64_t last) {
    double warm = (double)deepspeed_warmup(s);
    return s->warmup_log ? log((double)last + 1) / log(warm) : (double)last / warm;
}

static double deepspeed_gamma(const oc_schedule_spec *s, int64_t last) {
    int64_t warm = deepspeed_warmup(s);
    if (last < warm) return deepspeed_rise(s, last);
    if (s->kind == OC_LR_DS_WARMUP) return 1;
    return fmax(0, (double)(s->total_steps - last) / least_one(s->total_steps - warm));
}

static double deepspeed_cosine(const oc_schedule_spec *s, int64_t last) {
    int64_t warm = deepspeed_warmup(s);
    if (last < warm)
        return s->warmup_min_ratio + deepspeed_rise(s, last) * (1 - s->warmup_min_ratio);
    /* Past its end the ratio stays at cos_min_ratio. */
    double progress = fmin(1, (double)(last - warm + 1) / least_one(s->total_steps - warm));
    return fmax(0, s->cos_min_ratio + (1 - s->cos_min_ratio) * 0.5 * (1 + cos(pi * progress)));
}

/* How far between min and max, `at` steps into the cycle. */
static double cycle_scale(const oc_schedule_spec *s, double first, double second, double at) {
    double total = first + second, ratio = first / total;
    double x = 1 + at / total - floor(1 + at / total);
    bool up = x <= ratio;
    int32_t stairs = s->cycle.stairs_first;
    if (!up && s->cycle.stairs_second >= 0) stairs = s->cycle.stairs_second;
    if (stairs <= 0) return up ? x / ratio : (x - 1) / (ratio - 1);
    double in = fmod(at, total);
    double step = in <= first ? in * stairs / first : (total - in) * stairs / second;
    return floor(step) / stairs;
}

static double one_cycle(const oc_schedule_spec *s, int64_t done) {
    const struct oc_cycle_spec *c = &s->cycle;
    double first = (double)c->first, second = c->second < 0 ? first : (double)c->second;
    double at = (double)done, past = at - (first + second);
    if (past <= 0) return c->min_lr + (c->max_lr - c->min_lr) * cycle_scale(s, first, second, at);
    if (c->decay_steps == 0) return c->min_lr;
    return c->min_lr / (1 + c->decay_rate * (past / (double)c->decay_steps));
}

static double range_test(const oc_schedule_spec *s, int64_t done) {
    double interval = (double)done / (double)s->range.size;
    if (s->range.staircase) interval = floor(interval);
    return s->range.min_lr * (1 + s->range.rate * interval);
}

double oc_schedule_lr(const oc_schedule_spec *s, double base_lr, int64_t done) {
    switch (s->kind) {
    case OC_LR_CONSTANT:
    case OC_LR_LINEAR:
    case OC_LR_COSINE:
        return base_lr * hugging_face_factor(s, done);
    case OC_LR_DS_WARMUP:
    case OC_LR_DS_WARMUP_DECAY: {
        /* DeepSpeed steps its scheduler after the optimizer, from -1: its first step runs at the
         * minimum, and so does the second, which is iteration 0. */
        double most = s->warmup_max_lr < 0 ? base_lr : s->warmup_max_lr;
        if (done == 0) return s->warmup_min_lr;
        return s->warmup_min_lr + (most - s->warmup_min_lr) * deepspeed_gamma(s, done - 1);
    }
    case OC_LR_DS_WARMUP_COSINE:
        return done == 0 ? 0 : base_lr * deepspeed_cosine(s, done - 1);
    case OC_LR_DS_ONE_CYCLE:
        return one_cycle(s, done);
    case OC_LR_DS_RANGE_TEST:
        return range_test(s, done);
    }
    return base_lr;
}

void oc_scaler_init(oc_scaler *s, const oc_scaler_spec *spec) {
    *s = (oc_scaler){.scale = spec->static_scale > 0 ? spec->static_scale
                                                     : ldexp(1, spec->initial_power),
                     .hysteresis_left = spec->hysteresis};
}

static bool lower(oc_scaler *s, const oc_scaler_spec *spec) {
    s->since_overflow = 0;
    if (s->hysteresis_left > 1) {
        s->hysteresis_left--;
        return true;
    }
    if (s->scale == spec->min_scale) return false;
    s->scale = fmax(s->scale / 2, spec->min_scale);
    return true;
}

bool oc_scaler_update(oc_scaler *s, const oc_scaler_spec *spec, bool overflow) {
    if (spec->static_scale > 0) return true;
    if (overflow) return lower(s, spec);
    /* So the first growth comes after window + 1 good iterations, as there. */
    bool grow = s->since_overflow > 0 && s->since_overflow % spec->window == 0;
    if (grow) s->scale *= 2;
    if (grow || spec->consecutive_hysteresis) s->hysteresis_left = spec->hysteresis;
    s->since_overflow++;
    return true;
}
