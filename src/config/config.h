/* config.h - what a run was asked to do: flags, DeepSpeed JSON and defaults resolved into one
 * struct.
 *
 * Precedence: flag > --config file > config.json (dtype only) > default. Every option and key has
 * one row in a table (options.c, deepspeed.c): it sets a field here, or is listed as without
 * effect, or is refused by name. Exact semantics: the command-line contract in
 * docs/command-line.md. */
#ifndef OC_CONFIG_H
#define OC_CONFIG_H

#include "base/dtype.h"
#include "base/status.h"
#include "device/device.h"
#include "optim/schedule.h"
#include "plan/plan.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef enum oc_command {
    OC_CMD_TRAIN,
    OC_CMD_GENERATE,
    OC_CMD_EVAL,
    OC_CMD_PLAN,
    OC_CMD_BENCH,
    OC_CMD_INSPECT,
    OC_CMD_TOKENIZE,
    OC_CMD_PLAN_GENERATE, /* two words on the command line */
    OC_CMD_COUNT
} oc_command;

typedef enum oc_home { OC_HOME_AUTO, OC_HOME_DEVICE, OC_HOME_HOST, OC_HOME_NVME } oc_home;
typedef enum oc_recompute {
    OC_RECOMPUTE_AUTO,
    OC_RECOMPUTE_FULL,
    OC_RECOMPUTE_NONE,
    OC_RECOMPUTE_LIST /* recompute_list, and nothing else */
} oc_recompute;
typedef enum oc_order {
    OC_ORDER_AUTO,
    OC_ORDER_DEPTH_FIRST,
    OC_ORDER_BREADTH_FIRST,
    OC_ORDER_INTERLEAVED
} oc_order;

/* Whether a block may be updated during the backward, its gradient living in slabs alone. */
typedef enum oc_early { OC_EARLY_AUTO, OC_EARLY_ON, OC_EARLY_OFF } oc_early;

/* What is done with rows that hold messages which the chat template does not write. */
typedef enum oc_lost { OC_LOST_REFUSE, OC_LOST_DROP } oc_lost;

const char *oc_command_name(oc_command c); /* "train" */

/* Who set an option. A flag is never replaced by the --config file. */
typedef enum oc_origin { OC_FROM_DEFAULT, OC_FROM_FILE, OC_FROM_FLAG } oc_origin;

enum { OC_OPTIONS_MAX = 160 };
enum { OC_ACCUM_MOST = 1 << 20 }; /* micro-batches of a step */

/* Fields hold their defaults until something sets them; origin[] tells whether something did. */
typedef struct oc_config {
    oc_command command;
    uint8_t origin[OC_OPTIONS_MAX]; /* oc_origin of each row of the option table */
    char *path;                     /* inspect: what to look at */
    char *text, *input, *messages; /* tokenize: exactly one of them, or data; input: generate too */
    bool special;                  /* tokenize: add the tokenizer's special tokens */
    bool generation_prompt, show_labels;
    char *model_dir; /* --model */
    char *init_dir;  /* --init */
    char **data;     /* lists: the count stands right behind */
    int32_t n_data;
    char **eval_data;
    int32_t n_eval_data;
    char **freeze; /* patterns over tensors' names; at most one of the two lists */
    int32_t n_freeze;
    char **train_only;
    int32_t n_train_only;
    char *dataset_dir; /* data and eval_data may be names of its dataset_info.json */
    char *output;
    char *scores;    /* eval: a file of each row's log-likelihood */
    char *tokenizer; /* "bytes" or a directory; NULL: the model's */
    char *config_file;
    char *log_path, *trace_path;
    uint64_t trace_bytes; /* for events of the trace */
    bool json, quiet, overwrite, save_model_only;
    bool resume;
    char *resume_path;

    oc_dtype dtype;
    bool has_dtype;
    bool device_cuda, has_device;
    uint64_t device_memory, host_memory; /* bytes; UINT64_MAX: not given */
    char *nvme_path;
    int32_t threads; /* 0: all cores */
    uint64_t seed;
    bool serial_lanes;
    double pace[OC_LANE_COUNT]; /* bytes/s; 0 none */
    bool plan_ops;              /* plan --ops: print the plan op by op */
    bool verify_debug;          /* --debug-memory: poison and protect */
    bool debug_async; /* compute on a stand-in for an accelerator, with queues of its own */

    /* After oc_config_resolve(): train_batch = micro_batch x grad_accum x world. micro_batch 0: the
     * planner's choice; then train_batch is given (grad_accum 0), or grad_accum (train_batch 0). */
    int64_t seq_length; /* 0: min(2048, the model's positions) */
    int64_t micro_batch;
    int64_t grad_accum;
    int64_t train_batch;
    int64_t token_tile; /* rows of the mlp and the head at a time; 0: auto. Part of the numerics */
    int64_t max_steps;  /* -1: epochs decide */
    double epochs;      /* not looked at when max_steps > 0 */
    bool shuffle, packing;
    oc_lost lost_messages;
    int64_t eval_every, save_every; /* 0: never */
    int32_t keep;

    oc_optimizer_kind optimizer;
    double lr, beta1, beta2, eps, weight_decay, momentum, clip;
    oc_schedule_spec schedule;
    struct oc_loss_scale_spec {
        bool enabled;        /* fp16 */
        double static_scale; /* 0: dynamic */
        int32_t initial_power, window, hysteresis;
        bool consecutive_hysteresis;
        double min_scale;
    } loss_scale;
    int32_t zero_stage;
    double optimizer_ratio; /* of the optimizer's states, that offload_optimizer is for; 1: all */

    /* outcore generate. What is not given is generation_config.json's or the planner's; origin[]
     * tells */
    struct oc_generate_config {
        char **prompts;
        int32_t n_prompts;
        char **stops;
        int32_t n_stops;
        char *system; /* --chat: the first message */
        bool chat, invariant, ignore_eos;
        int64_t max_new_tokens;
        int64_t batch, groups, prefill, page_tokens; /* 0: auto */
        int64_t prompt_tokens;                       /* plan generate: of a prompt */
        double temperature, top_p, min_p, repetition_penalty, presence_penalty, frequency_penalty;
        int64_t top_k;
        int32_t logprobs; /* alternatives a token; -1: none are asked for */
        /* given: the temperature is 0, or generation_config's or 1 */
        bool do_sample;
        int32_t min_new_tokens;
        oc_home kv_home;   /* of keys and values */
        int64_t kv_tokens; /* that there is room for; 0: auto */
    } gen;

    /* placement; AUTO and 0 are decided by the planner and logged */
    oc_home weights_home, optimizer_home, act_home, saved_home;
    oc_recompute recompute;
    uint32_t recompute_list; /* bits 1 << oc_saved, bit OC_SAVED_COUNT: logits */
    oc_order order;
    oc_early early_updates;
    int32_t slots, slabs;    /* weight slots, gradient slabs */
    int64_t resident_blocks; /* whose states stay on the device; -1: the planner's choice */
    uint64_t piece_bytes;    /* of the compute dtype */
    uint64_t delay_seed;     /* tests: random delays around ops; 0 none */
} oc_config;

/* Parse argv after the command word. Refusals name the option and the nearest known. notes, when
 * not NULL, receives one line per thing worth saying (aliases, keys without effect, overrides). */
OC_NODISCARD oc_status oc_config_parse(oc_config **out, oc_command command, int argc, char **argv,
                                       FILE *notes, oc_error *err);
/* A --config file's keys into c: DeepSpeed's, or an earlier run's run.json. Fields that a flag gave
 * are not replaced, and that is noted. world: ranks; some keys have an effect only with several. */
OC_NODISCARD oc_status oc_config_read_deepspeed(oc_config *c, const char *path, int32_t world,
                                                FILE *notes, oc_error *err);
/* The same of n bytes that came from `path`. */
OC_NODISCARD oc_status oc_config_parse_deepspeed(oc_config *c, const char *text, size_t n,
                                                 const char *path, int32_t world, FILE *notes,
                                                 oc_error *err);
/* What is asked for is generation, or its plan. */
bool oc_config_generates(const oc_config *c);
/* Defaults, the batch equation, cross-checks. */
OC_NODISCARD oc_status oc_config_resolve(oc_config *c, int32_t world, FILE *notes, oc_error *err);
/* Whether updates may run during the backward: nothing looks at all gradients first, and one
 * micro-batch makes a step. OC_E_UNSUPPORTED names all that is in the way. */
OC_NODISCARD oc_status oc_config_check_early(const oc_config *c, oc_dtype dtype, int64_t micros,
                                             oc_error *err);
/* What oc_config_resolve() does of generate and plan generate. */
OC_NODISCARD oc_status oc_config_resolve_generate(oc_config *c, FILE *notes, oc_error *err);
void oc_config_free(oc_config *c);

/* What a run's configuration alone does not say of it. */
typedef struct oc_run_facts {
    uint64_t parameters, trained_parameters;
    int64_t token_tile; /* oc_program_tile() */
} oc_run_facts;

/* The resolved run as JSON (run.json); read back by --config. facts may be NULL. */
OC_NODISCARD oc_status oc_config_write(const oc_config *c, const oc_run_facts *facts,
                                       const char *path, oc_error *err);

/* Was the option set by a flag or a file? option: its canonical name without "--". */
oc_origin oc_config_origin(const oc_config *c, const char *option);
/* Contract 15 and 16: what DIR may hold. Without --resume or --overwrite no model and no
 * checkpoint; with --resume no training state, which this version cannot restore (a warning says
 * that the start is fresh). */
OC_NODISCARD oc_status oc_config_check_output(const oc_config *c, FILE *notes, oc_error *err);

/* "1.5GiB", "100MB", "123". false: not a size. */
bool oc_size_parse(const char *text, uint64_t *bytes);
/* "h2d=4GB/s" */
bool oc_pace_parse(const char *text, oc_lane *lane, double *bytes_per_second);
/* "1.50 GiB" into buf; returns buf. */
const char *oc_size_format(uint64_t bytes, char *buf, size_t n);

#endif
