#include "train/deepspeed.h"

#define FIELD(path, option)                                                                        \
    { path, OC_K_FIELD, option, NULL, NULL }
#define LISTED(path)                                                                               \
    { path, OC_K_LISTED, NULL, NULL, NULL }
#define DEFAULT(path, accepted, hint)                                                              \
    { path, OC_K_DEFAULT, NULL, accepted, hint }
#define SPECIAL(path)                                                                              \
    { path, OC_K_SPECIAL, NULL, NULL, NULL }
#define BLOCK(path)                                                                                \
    { path, OC_K_BLOCK, NULL, NULL, NULL }
#define TOGGLED(path)                                                                              \
    { path, OC_K_TOGGLED, NULL, NULL, NULL }
#define REFUSED(path, hint)                                                                        \
    { path, OC_K_REFUSED, NULL, NULL, hint }

#define ZERO "zero_optimization."
#define PARAM ZERO "offload_param."
#define OPTIM ZERO "offload_optimizer."

static const char use_log[] = "use --log FILE.jsonl";
static const char use_trace[] = "use --trace FILE.json";

/* LISTED keys say how DeepSpeed arranges its own work (buckets, prefetch, pinning, collectives).
 * Here the plan decides that, or there is one rank and nothing to communicate. */
/* clang-format off */
static const oc_key table[] = {
    FIELD("train_batch_size", "train-batch"),
    FIELD("train_micro_batch_size_per_gpu", "micro-batch"),
    FIELD("gradient_accumulation_steps", "grad-accum"),
    FIELD("gradient_clipping", "clip-grad-norm"),
    LISTED("prescale_gradients"),
    LISTED("gradient_predivide_factor"),
    LISTED("communication_data_type"),
    LISTED("seq_parallel_communication_data_type"),
    LISTED("steps_per_print"),
    LISTED("memory_breakdown"),
    LISTED("zero_allow_untested_optimizer"),
    LISTED("zero_force_ds_cpu_optimizer"),
    LISTED("disable_allgather"),
    DEFAULT("wall_clock_breakdown", "false", use_trace),
    DEFAULT("dump_state", "false", "run.json holds the resolved run"),
    DEFAULT("sparse_gradients", "false", NULL),

    BLOCK("optimizer"),
    SPECIAL("optimizer.type"),
    DEFAULT("optimizer.legacy_fusion", "false", NULL),
    BLOCK("optimizer.params"),
    FIELD("optimizer.params.lr", "lr"),
    FIELD("optimizer.params.betas", "betas"),
    FIELD("optimizer.params.eps", "eps"),
    FIELD("optimizer.params.weight_decay", "weight-decay"),
    FIELD("optimizer.params.momentum", "momentum"),
    LISTED("optimizer.params.torch_adam"),
    SPECIAL("optimizer.params.adam_w_mode"),
    DEFAULT("optimizer.params.bias_correction", "true", NULL),
    DEFAULT("optimizer.params.amsgrad", "false", NULL),
    DEFAULT("optimizer.params.nesterov", "false", NULL),
    DEFAULT("optimizer.params.dampening", "0", NULL),

    BLOCK("scheduler"),
    SPECIAL("scheduler.type"),
    BLOCK("scheduler.params"),
    FIELD("scheduler.params.warmup_min_lr", "warmup-min-lr"),
    SPECIAL("scheduler.params.warmup_max_lr"),
    FIELD("scheduler.params.warmup_num_steps", "warmup-steps"),
    SPECIAL("scheduler.params.warmup_type"),
    FIELD("scheduler.params.total_num_steps", "schedule-steps"),
    FIELD("scheduler.params.warmup_min_ratio", "warmup-min-ratio"),
    FIELD("scheduler.params.cos_min_ratio", "cos-min-ratio"),
    DEFAULT("scheduler.params.last_batch_iteration", "-1", NULL),

    TOGGLED("fp16"),
    SPECIAL("fp16.enabled"),
    FIELD("fp16.loss_scale", "loss-scale"),
    FIELD("fp16.initial_scale_power", "loss-scale-power"),
    FIELD("fp16.loss_scale_window", "loss-scale-window"),
    FIELD("fp16.hysteresis", "loss-scale-hysteresis"),
    FIELD("fp16.consecutive_hysteresis", "loss-scale-consecutive"),
    FIELD("fp16.min_loss_scale", "loss-scale-min"),
    DEFAULT("fp16.auto_cast", "false", NULL),
    DEFAULT("fp16.fp16_master_weights_and_grads", "false", "master weights are fp32"),
    TOGGLED("bf16"),
    SPECIAL("bf16.enabled"),
    LISTED("bf16.immediate_grad_update"),
    LISTED("bf16.check_grad_overflow"),
    DEFAULT("bf16.bf16_master_weights_and_grads", "false", "master weights are fp32"),
    DEFAULT("bf16.bf16_optimizer_states", "false", "moments are fp32"),

    BLOCK("zero_optimization"),
    SPECIAL(ZERO "stage"),
    LISTED(ZERO "contiguous_gradients"),
    LISTED(ZERO "reduce_scatter"),
    LISTED(ZERO "reduce_bucket_size"),
    LISTED(ZERO "allgather_partitions"),
    LISTED(ZERO "allgather_bucket_size"),
    LISTED(ZERO "overlap_comm"),
    LISTED(ZERO "round_robin_gradients"),
    LISTED(ZERO "sub_group_size"),
    LISTED(ZERO "stage3_prefetch_bucket_size"),
    LISTED(ZERO "stage3_param_persistence_threshold"),
    LISTED(ZERO "stage3_max_live_parameters"),
    LISTED(ZERO "stage3_max_reuse_distance"),
    LISTED(ZERO "stage3_gather_16bit_weights_on_model_save"),
    LISTED(ZERO "stage3_gather_fp16_weights_on_model_save"),
    LISTED(ZERO "prefetch_bucket_size"),
    LISTED(ZERO "param_persistence_threshold"),
    LISTED(ZERO "max_live_parameters"),
    LISTED(ZERO "max_reuse_distance"),
    LISTED(ZERO "gather_16bit_weights_on_model_save"),
    LISTED(ZERO "zero_hpz_partition_size"),
    LISTED(ZERO "memory_efficient_linear"),
    LISTED(ZERO "ignore_unused_parameters"),
    LISTED(ZERO "elastic_checkpoint"),
    LISTED(ZERO "load_from_fp32_weights"),
    DEFAULT(ZERO "zero_quantized_weights", "false", NULL),
    DEFAULT(ZERO "zero_quantized_nontrainable_weights", "false", NULL),
    DEFAULT(ZERO "zero_quantized_gradients", "false", NULL),
    DEFAULT(ZERO "cpu_offload", "false", "use zero_optimization.offload_optimizer"),
    DEFAULT(ZERO "cpu_offload_params", "false", "use zero_optimization.offload_param"),
    REFUSED(ZERO "zenflow", NULL),
    BLOCK(ZERO "offload_param"),
    SPECIAL(PARAM "device"),
    LISTED(PARAM "nvme_path"),
    LISTED(PARAM "buffer_count"),
    LISTED(PARAM "buffer_size"),
    LISTED(PARAM "max_in_cpu"),
    LISTED(PARAM "pin_memory"),
    BLOCK(ZERO "offload_optimizer"),
    SPECIAL(OPTIM "device"),
    LISTED(OPTIM "nvme_path"),
    LISTED(OPTIM "buffer_count"),
    LISTED(OPTIM "pin_memory"),
    LISTED(OPTIM "pipeline_read"),
    LISTED(OPTIM "pipeline_write"),
    LISTED(OPTIM "fast_init"),
    LISTED(OPTIM "cpuadam_cores_perc"),
    DEFAULT(OPTIM "ratio", "1.0", NULL),
    DEFAULT(OPTIM "super_offload", "false", NULL),

    BLOCK("aio"),
    LISTED("aio.block_size"),
    LISTED("aio.queue_depth"),
    LISTED("aio.intra_op_parallelism"),
    LISTED("aio.thread_count"),
    LISTED("aio.single_submit"),
    LISTED("aio.overlap_events"),
    LISTED("aio.use_gds"),

    BLOCK("activation_checkpointing"),
    SPECIAL("activation_checkpointing.cpu_checkpointing"),
    LISTED("activation_checkpointing.partition_activations"),
    LISTED("activation_checkpointing.contiguous_memory_optimization"),
    LISTED("activation_checkpointing.synchronize_checkpoint_boundary"),
    DEFAULT("activation_checkpointing.number_checkpoints", "null", "use --recompute"),
    DEFAULT("activation_checkpointing.profile", "false", use_trace),

    BLOCK("checkpoint"),
    LISTED("checkpoint.tag_validation"),
    LISTED("checkpoint.use_node_local_storage"),
    DEFAULT("checkpoint.load_universal", "false", NULL),

    REFUSED("tensorboard", use_log),
    REFUSED("wandb", use_log),
    REFUSED("csv_monitor", use_log),
    REFUSED("comet", use_log),
    REFUSED("flops_profiler", use_trace),
    REFUSED("comms_logger", use_trace),
    REFUSED("amp", "use bf16 or fp16"),
    REFUSED("autotuning", "outcore plan predicts what a choice needs"),
    REFUSED("elasticity", NULL),
    REFUSED("curriculum_learning", NULL),
    REFUSED("data_efficiency", NULL),
    REFUSED("hybrid_engine", NULL),

    BLOCK("compile"),
    DEFAULT("compile.deepcompile", "false", NULL),
    DEFAULT("compile.offload_opt_states", "false", "use zero_optimization.offload_optimizer"),
    DEFAULT("compile.offload_activation", "false", "use --act-home host"),
    DEFAULT("compile.offload_parameters", "false", "use zero_optimization.offload_param"),
};
/* clang-format on */

size_t oc_keys_count(void) { return sizeof table / sizeof *table; }
const oc_key *oc_keys_at(size_t i) { return &table[i]; }
