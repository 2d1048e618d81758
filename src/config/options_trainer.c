/* options_trainer.c - the fields of Hugging Face's TrainingArguments that are no options here:
 * without effect, or accepted as long as they ask for what happens anyway. Those that are options
 * are aliases in options.c. */
#include "config/options.h"

#include <string.h>

static const char off[] = "false|0|none|no";
static const char no_torch[] = "it arranges work of PyTorch";
static const char no_loader[] = "rows are read and tokenized before step 1";
static const char no_ranks[] = "there is one rank";
static const char no_hub[] = "nothing is uploaded";
static const char no_metrics[] = "evaluation gives loss and perplexity";
static const char every_step[] = "--log FILE.jsonl has every step";
static const char moments[] = "another optimizer has to be there first";

/* clang-format off */
static const oc_foreign_arg table[] = {
    /* without effect */
    {"accelerator-config", off, "of the library accelerate; remove it", NULL},
    {"average-tokens-across-devices", NULL, "the loss is always the mean over all targets", NULL},
    {"batch-eval-metrics", NULL, no_metrics, NULL},
    {"dataloader-in-order", "true|1", no_loader, NULL},
    {"dataloader-multiprocessing-context", NULL, no_loader, NULL},
    {"dataloader-num-workers", NULL, no_loader, NULL},
    {"dataloader-persistent-workers", NULL, no_loader, NULL},
    {"dataloader-pin-memory", NULL, no_loader, NULL},
    {"dataloader-prefetch-factor", NULL, no_loader, NULL},
    {"ddp-backend", NULL, no_ranks, NULL},
    {"ddp-broadcast-buffers", NULL, no_ranks, NULL},
    {"ddp-bucket-cap-mb", NULL, no_ranks, NULL},
    {"ddp-find-unused-parameters", NULL, no_ranks, NULL},
    {"ddp-static-graph", NULL, no_ranks, NULL},
    {"ddp-timeout", NULL, no_ranks, NULL},
    {"disable-tqdm", NULL, "--quiet leaves out progress", NULL},
    {"do-eval", NULL, "--eval-data evaluates", NULL},
    {"do-train", NULL, "outcore train trains, outcore eval evaluates", NULL},
    {"eval-accumulation-steps", NULL, no_metrics, NULL},
    {"eval-do-concat-batches", NULL, no_metrics, NULL},
    {"eval-use-gather-object", NULL, no_metrics, NULL},
    {"full-determinism", NULL, "runs repeat bit by bit", NULL},
    {"activation-checkpointing-kwargs", NULL, no_torch, NULL},
    {"gradient-checkpointing-kwargs", NULL, no_torch, NULL},
    {"greater-is-better", NULL, no_metrics, NULL},
    {"half-precision-backend", NULL, no_torch, NULL},
    {"hub-always-push", NULL, no_hub, NULL},
    {"hub-model-id", NULL, no_hub, NULL},
    {"hub-private-repo", NULL, no_hub, NULL},
    {"hub-revision", NULL, no_hub, NULL},
    {"hub-strategy", NULL, no_hub, NULL},
    {"hub-token", NULL, no_hub, NULL},
    {"include-for-metrics", NULL, no_metrics, NULL},
    {"include-num-input-tokens-seen", NULL, every_step, NULL},
    {"label-names", NULL, "rows of input_ids have labels or are their own", NULL},
    {"length-column-name", NULL, "lengths are counted", NULL},
    {"liger-kernel-config", NULL, no_torch, NULL},
    {"local-rank", NULL, no_ranks, NULL},
    {"log-level", NULL, "--quiet leaves warnings and errors", NULL},
    {"log-level-replica", NULL, no_ranks, NULL},
    {"log-on-each-node", NULL, no_ranks, NULL},
    {"logging-dir", NULL, every_step, NULL},
    {"logging-first-step", NULL, every_step, NULL},
    {"logging-nan-inf-filter", NULL, every_step, NULL},
    {"logging-steps", NULL, every_step, NULL},
    {"logging-strategy", NULL, every_step, NULL},
    {"metric-for-best-model", NULL, no_metrics, NULL},
    {"per-device-eval-batch-size", NULL, "evaluation runs with the training's --micro-batch", NULL},
    {"prediction-loss-only", NULL, no_metrics, NULL},
    {"project", NULL, every_step, NULL},
    {"remove-unused-columns", NULL, "columns that are not used are passed over", NULL},
    {"restore-callback-states-from-checkpoint", NULL, "there are no callbacks", NULL},
    {"run-name", NULL, every_step, NULL},
    {"save-on-each-node", NULL, no_ranks, NULL},
    {"save-safetensors", "true|1", "models are written as safetensors", NULL},
    {"skip-memory-metrics", NULL, "memory is planned and printed", NULL},
    {"tf32", NULL, no_torch, NULL},
    {"torch-compile", NULL, no_torch, NULL},
    {"torch-compile-backend", NULL, no_torch, NULL},
    {"torch-compile-mode", NULL, no_torch, NULL},
    {"torch-empty-cache-steps", NULL, no_torch, NULL},
    {"trackio-bucket-id", NULL, every_step, NULL},
    {"trackio-space-id", NULL, every_step, NULL},
    {"trackio-static-space-id", NULL, every_step, NULL},
    {"use-cache", NULL, "training has no cache", NULL},
    {"use-liger-kernel", NULL, no_torch, NULL},
    /* accepted when it asks for what happens */
    {"auto-find-batch-size", off, "use --micro-batch auto", NULL},
    {"bf16-full-eval", off, "evaluation has the dtype of --dtype", NULL},
    {"fp16-full-eval", off, "evaluation has the dtype of --dtype", NULL},
    {"data-seed", "none", "--seed decides the order too", NULL},
    {"dataloader-drop-last", off, "an epoch's last batch is short, never dropped", NULL},
    {"debug", "none|", "use --debug-memory", NULL},
    {"do-predict", off, "there is no prediction", NULL},
    {"enable-jit-checkpoint", off, "a signal saves a checkpoint anyway", NULL},
    {"eval-delay", "0|none", "use --eval-every", NULL},
    {"eval-on-start", off, "use outcore eval", NULL},
    {"eval-strategy", "no|none|steps", "--eval-every N decides; without it evaluation is at the end", NULL},
    {"evaluation-strategy", "no|none|steps", "--eval-every N decides; without it evaluation is at the end", NULL},
    {"fsdp", "false|none|", no_ranks, NULL},
    {"fsdp-config", "none|", no_ranks, NULL},
    {"group-by-length", off, "rows are packed", NULL},
    {"ignore-data-skip", off, "a resumed run goes on where it was", NULL},
    {"label-smoothing-factor", "0", "the loss is the plain negative log-likelihood", NULL},
    {"load-best-model-at-end", off, "the final model is the last one", NULL},
    {"lr-scheduler-kwargs", "none|{}", "use a --config file's scheduler.params", NULL},
    {"neftune-noise-alpha", "none|0", "embeddings get no noise", NULL},
    {"optim-args", "none|", moments, NULL},
    {"optim-target-modules", "none|", moments, NULL},
    {"parallelism-config", "none", no_ranks, NULL},
    {"push-to-hub", off, no_hub, NULL},
    {"report-to", "none|[]", "use --log FILE.jsonl", NULL},
    {"save-strategy", "no|steps", "--save-every N decides; without it only the final model is saved", NULL},
    {"train-sampling-strategy", "random", "use --no-shuffle for the order of the file", NULL},
};
/* clang-format on */

enum { ROWS = sizeof table / sizeof *table };

size_t oc_trainer_count(void) { return ROWS; }
const oc_foreign_arg *oc_trainer_at(size_t i) { return &table[i]; }

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
