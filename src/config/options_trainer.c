/* options_trainer.c - the fields of Hugging Face's TrainingArguments that are no options here:
 * without effect, or accepted as long as they ask for what happens anyway. Those that are options
 * are aliases in options.c. */
#include "config/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char off[] = "false|0|none|no";
static const char no_torch[] = "it arranges work of PyTorch";
static const char no_loader[] = "rows are read and tokenized before step 1";
static const char no_ranks[] = "there is one rank";
static const char no_hub[] = "nothing is uploaded";
static const char no_metrics[] = "evaluation gives loss and perplexity";
static const char every_step[] = "--log FILE.jsonl has every step";
static const char moments[] = "another optimizer has to be there first";

/* clang-format off */
static const oc_trainer_arg table[] = {
    /* without effect */
    {"accelerator-config", off, "of the library accelerate; remove it"},
    {"average-tokens-across-devices", NULL, "the loss is always the mean over all targets"},
    {"batch-eval-metrics", NULL, no_metrics},
    {"dataloader-in-order", "true|1", no_loader},
    {"dataloader-multiprocessing-context", NULL, no_loader},
    {"dataloader-num-workers", NULL, no_loader},
    {"dataloader-persistent-workers", NULL, no_loader},
    {"dataloader-pin-memory", NULL, no_loader},
    {"dataloader-prefetch-factor", NULL, no_loader},
    {"ddp-backend", NULL, no_ranks},
    {"ddp-broadcast-buffers", NULL, no_ranks},
    {"ddp-bucket-cap-mb", NULL, no_ranks},
    {"ddp-find-unused-parameters", NULL, no_ranks},
    {"ddp-static-graph", NULL, no_ranks},
    {"ddp-timeout", NULL, no_ranks},
    {"disable-tqdm", NULL, "--quiet leaves out progress"},
    {"do-eval", NULL, "--eval-data evaluates"},
    {"do-train", NULL, "outcore train trains, outcore eval evaluates"},
    {"eval-accumulation-steps", NULL, no_metrics},
    {"eval-do-concat-batches", NULL, no_metrics},
    {"eval-use-gather-object", NULL, no_metrics},
    {"full-determinism", NULL, "runs repeat bit by bit"},
    {"activation-checkpointing-kwargs", NULL, no_torch},
    {"gradient-checkpointing-kwargs", NULL, no_torch},
    {"greater-is-better", NULL, no_metrics},
    {"half-precision-backend", NULL, no_torch},
    {"hub-always-push", NULL, no_hub},
    {"hub-model-id", NULL, no_hub},
    {"hub-private-repo", NULL, no_hub},
    {"hub-revision", NULL, no_hub},
    {"hub-strategy", NULL, no_hub},
    {"hub-token", NULL, no_hub},
    {"include-for-metrics", NULL, no_metrics},
    {"include-num-input-tokens-seen", NULL, every_step},
    {"label-names", NULL, "rows of input_ids have labels or are their own"},
    {"length-column-name", NULL, "lengths are counted"},
    {"liger-kernel-config", NULL, no_torch},
    {"local-rank", NULL, no_ranks},
    {"log-level", NULL, "--quiet leaves warnings and errors"},
    {"log-level-replica", NULL, no_ranks},
    {"log-on-each-node", NULL, no_ranks},
    {"logging-dir", NULL, every_step},
    {"logging-first-step", NULL, every_step},
    {"logging-nan-inf-filter", NULL, every_step},
    {"logging-steps", NULL, every_step},
    {"logging-strategy", NULL, every_step},
    {"metric-for-best-model", NULL, no_metrics},
    {"per-device-eval-batch-size", NULL, "evaluation runs with the training's --micro-batch"},
    {"prediction-loss-only", NULL, no_metrics},
    {"project", NULL, every_step},
    {"remove-unused-columns", NULL, "columns that are not used are passed over"},
    {"restore-callback-states-from-checkpoint", NULL, "there are no callbacks"},
    {"run-name", NULL, every_step},
    {"save-on-each-node", NULL, no_ranks},
    {"save-safetensors", "true|1", "models are written as safetensors"},
    {"skip-memory-metrics", NULL, "memory is planned and printed"},
    {"tf32", NULL, no_torch},
    {"torch-compile", NULL, no_torch},
    {"torch-compile-backend", NULL, no_torch},
    {"torch-compile-mode", NULL, no_torch},
    {"torch-empty-cache-steps", NULL, no_torch},
    {"trackio-bucket-id", NULL, every_step},
    {"trackio-space-id", NULL, every_step},
    {"trackio-static-space-id", NULL, every_step},
    {"use-cache", NULL, "training has no cache"},
    {"use-liger-kernel", NULL, no_torch},
    /* accepted when it asks for what happens */
    {"auto-find-batch-size", off, "use --micro-batch auto"},
    {"bf16-full-eval", off, "evaluation has the dtype of --dtype"},
    {"fp16-full-eval", off, "evaluation has the dtype of --dtype"},
    {"data-seed", "none", "--seed decides the order too"},
    {"dataloader-drop-last", off, "an epoch's last batch is short, never dropped"},
    {"debug", "none|", "use --debug-memory"},
    {"do-predict", off, "there is no prediction"},
    {"enable-jit-checkpoint", off, "a signal saves a checkpoint anyway"},
    {"eval-delay", "0|none", "use --eval-every"},
    {"eval-on-start", off, "use outcore eval"},
    {"eval-strategy", "no|steps", "--eval-every N decides; without it evaluation is at the end"},
    {"evaluation-strategy", "no|steps", "--eval-every N decides; without it evaluation is at the end"},
    {"fsdp", "false|none|", no_ranks},
    {"fsdp-config", "none|", no_ranks},
    {"group-by-length", off, "rows are packed"},
    {"ignore-data-skip", off, "a resumed run goes on where it was"},
    {"label-smoothing-factor", "0", "the loss is the plain negative log-likelihood"},
    {"load-best-model-at-end", off, "the final model is the last one"},
    {"lr-scheduler-kwargs", "none|{}", "use a --config file's scheduler.params"},
    {"neftune-noise-alpha", "none|0", "embeddings get no noise"},
    {"optim-args", "none|", moments},
    {"optim-target-modules", "none|", moments},
    {"parallelism-config", "none", no_ranks},
    {"push-to-hub", off, no_hub},
    {"report-to", "none|[]", "use --log FILE.jsonl"},
    {"save-strategy", "no|steps", "--save-every N decides; without it only the final model is saved"},
    {"train-sampling-strategy", "random", "use --no-shuffle for the order of the file"},
};
/* clang-format on */

enum { ROWS = sizeof table / sizeof *table };

size_t oc_trainer_count(void) { return ROWS; }
const oc_trainer_arg *oc_trainer_at(size_t i) { return &table[i]; }

static bool takes_them(oc_command command) {
    return command == OC_CMD_TRAIN || command == OC_CMD_EVAL || command == OC_CMD_PLAN;
}

const oc_trainer_arg *oc_trainer_find(const char *name, size_t n, oc_command command) {
    static const char eval_batch[] = "per-device-eval-batch-size"; /* eval's own micro-batch */
    if (!takes_them(command)) return NULL;
    for (size_t i = 0; i < ROWS; i++) {
        if (!oc_options_same_name(table[i].name, strlen(table[i].name), name, n)) continue;
        return command == OC_CMD_EVAL && strcmp(table[i].name, eval_batch) == 0 ? NULL : &table[i];
    }
    return NULL;
}

const char *oc_trainer_nearest(const char *word, oc_command command) {
    const char *known[ROWS];
    for (size_t i = 0; i < ROWS; i++)
        known[i] = table[i].name;
    return takes_them(command) ? oc_nearest(word, known, ROWS) : NULL;
}

/* "0.0" is "0". */
static bool same_value(const char *accepted, size_t n, const char *value) {
    char one[32], *end, *end_value;
    if (n >= sizeof one) return false;
    memcpy(one, accepted, n);
    one[n] = 0;
    if (strcasecmp(one, value) == 0) return true;
    double a = strtod(one, &end), b = strtod(value, &end_value);
    return n > 0 && *value && !*end && !*end_value && !(a < b) && !(a > b);
}

oc_status oc_trainer_check(const oc_trainer_arg *a, const char *value, oc_error *err) {
    if (!a->accepted) return OC_OK;
    for (const char *p = a->accepted;;) {
        size_t n = strcspn(p, "|");
        if (same_value(p, n, value)) return OC_OK;
        if (!p[n]) break;
        p += n + 1;
    }
    return oc_fail(err, OC_E_UNSUPPORTED, "--%s %s is not available in this version: %s", a->name,
                   value, a->why);
}

bool oc_trainer_knows_value(const char *option, const char *value) {
    static const char *const schedules[] = {"cosine_with_restarts", "polynomial",
                                            "inverse_sqrt",         "reduce_lr_on_plateau",
                                            "cosine_with_min_lr",   "cosine_warmup_with_min_lr",
                                            "warmup_stable_decay",  "greedy"};
    static const char *const optimizers[] = {"adafactor", "adagrad", "lion",    "lamb",     "muon",
                                             "rmsprop",   "lomo",    "adalomo", "grokadamw"};
    /* families with many members: adamw_8bit, paged_adamw_32bit, galore_adafactor, ... */
    static const char *const leads[] = {"adamw_",   "paged_",         "galore_",
                                        "apollo_",  "ademamix",       "lion_",
                                        "rmsprop_", "schedule_free_", "stable_"};
    if (strcmp(option, "lr-schedule") == 0) {
        for (size_t i = 0; i < sizeof schedules / sizeof *schedules; i++)
            if (strcmp(value, schedules[i]) == 0) return true;
    }
    if (strcmp(option, "optimizer") != 0) return false;
    for (size_t i = 0; i < sizeof optimizers / sizeof *optimizers; i++)
        if (strcmp(value, optimizers[i]) == 0) return true;
    for (size_t i = 0; i < sizeof leads / sizeof *leads; i++)
        if (strncmp(value, leads[i], strlen(leads[i])) == 0) return true;
    return false;
}
