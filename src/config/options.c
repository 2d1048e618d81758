#include "config/options.h"

#include <stdio.h>
#include <string.h>

#define TRAIN OC_FOR(OC_CMD_TRAIN)
#define GENERATE OC_FOR(OC_CMD_GENERATE)
#define EVAL OC_FOR(OC_CMD_EVAL)
#define PLAN OC_FOR(OC_CMD_PLAN)
#define PLAN_GENERATE OC_FOR(OC_CMD_PLAN_GENERATE)
#define TOKENIZE OC_FOR(OC_CMD_TOKENIZE)
#define GENERATES (GENERATE | PLAN_GENERATE)
#define RUNS (TRAIN | EVAL | PLAN)
#define ALL_RUNS (RUNS | GENERATES)
#define STEPS (TRAIN | PLAN)
#define LIMIT 1e15

#define AT(field) offsetof(oc_config, field)

static const oc_choice homes[] = {
    {"auto", OC_HOME_AUTO}, {"device", OC_HOME_DEVICE}, {"host", OC_HOME_HOST}, {NULL, 0}};
static const oc_choice recomputes[] = {{"auto", OC_RECOMPUTE_AUTO},
                                       {"full", OC_RECOMPUTE_FULL},
                                       {"none", OC_RECOMPUTE_NONE},
                                       {NULL, 0}};
static const oc_choice orders[] = {{"auto", OC_ORDER_AUTO},
                                   {"depth", OC_ORDER_DEPTH_FIRST},
                                   {"breadth", OC_ORDER_BREADTH_FIRST},
                                   {"interleave", OC_ORDER_INTERLEAVED},
                                   {NULL, 0}};
static const oc_choice earlies[] = {
    {"auto", OC_EARLY_AUTO}, {"on", OC_EARLY_ON}, {"off", OC_EARLY_OFF}, {NULL, 0}};
static const oc_choice losts[] = {{"refuse", OC_LOST_REFUSE}, {"drop", OC_LOST_DROP}, {NULL, 0}};
static const oc_choice optimizers[] = {{"adamw", OC_ADAMW},
                                       {"adam", OC_ADAM},
                                       {"sgd", OC_SGD},
                                       {"adamw_torch", OC_ADAMW},
                                       {"adamw_torch_fused", OC_ADAMW},
                                       {"adamw_hf", OC_ADAMW},
                                       {NULL, 0}};
static const oc_choice schedules[] = {{"constant", OC_LR_CONSTANT},
                                      {"linear", OC_LR_LINEAR},
                                      {"cosine", OC_LR_COSINE},
                                      {"constant_with_warmup", OC_LR_CONSTANT},
                                      {"WarmupLR", OC_LR_DS_WARMUP},
                                      {"WarmupDecayLR", OC_LR_DS_WARMUP_DECAY},
                                      {"WarmupCosineLR", OC_LR_DS_WARMUP_COSINE},
                                      {"OneCycle", OC_LR_DS_ONE_CYCLE},
                                      {"LRRangeTest", OC_LR_DS_RANGE_TEST},
                                      {NULL, 0}};

static const char model[] = "Model and data", batch[] = "Batch and length", optim[] = "Optimizer",
                  output[] = "Checkpoints and output", memory[] = "Memory and placement",
                  run[] = "Machine and log", debug[] = "Checking", text[] = "What to tokenize",
                  generate[] = "Prompts and answers", sampling[] = "Sampling",
                  cache[] = "Batch and cache";

static const char no_nvme[] = "states at home on disk";

#define ROW(name, aliases, type, field, commands, ...)                                             \
    { name, aliases, NULL, type, AT(field), commands, __VA_ARGS__ }
#define MISSING(name, aliases, type, commands, section, argument, why)                             \
    { name, aliases, why, type, 0, commands, 0, 0, NULL, section, argument, "" }

/* clang-format off */
static const oc_option table[] = {
    ROW("model", "model-name-or-path model-name model-path pretrained-model-name-or-path base-model checkpointer.checkpoint-dir", OC_T_TEXT, model_dir, ALL_RUNS | TOKENIZE, 0, 0, NULL, model, "DIR",
        "start from this Hugging Face model: config.json, *.safetensors, tokenizer files"),
    ROW("init", "config-name", OC_T_TEXT, init_dir, STEPS | PLAN_GENERATE, 0, 0, NULL, model, "DIR",
        "start from random weights for this config.json"),
    ROW("data", "train-file data-path dataset-name dataset datasets dataset-path pretraining-dataset dataset.source dataset.data-files", OC_T_TEXTS, data, RUNS | TOKENIZE, 0, 0, NULL, model, "PATH...",
        "files or directories: .jsonl, .json, .txt, also .gz or .zst; docs/data.md has the rows"),
    ROW("dataset-dir", "", OC_T_TEXT, dataset_dir, RUNS | TOKENIZE, 0, 0, NULL, model, "DIR",
        "names of --data are those of DIR/dataset_info.json; default: data, if there is one"),
    ROW("eval-data", "validation-file eval-data-path eval-dataset test-datasets eval-file", OC_T_TEXTS, eval_data, STEPS, 0, 0, NULL, model, "PATH...",
        "data to evaluate on during training"),
    ROW("tokenizer", "tokenizer-name tokenizer-name-or-path tokenizer-path tokenizer-config", OC_T_TEXT, tokenizer, ALL_RUNS | TOKENIZE, 0, 0, NULL, model, "bytes|DIR",
        "another tokenizer than the model's; bytes: the built-in one, 3 + byte"),
    ROW("no-shuffle", "disable-shuffling shuffle!", OC_T_OFF, shuffle, STEPS, 0, 0, NULL, model, "",
        "rows in file order, every epoch"),
    ROW("no-packing", "packing! sample-packing! dataset.packed!", OC_T_OFF, packing, RUNS, 0, 0, NULL, model, "",
        "one row a sequence, padded on the right"),
    ROW("lost-messages", "", OC_T_CHOICE, lost_messages, RUNS | TOKENIZE, 0, 0, losts, model, "refuse|drop",
        "rows with messages that the chat template does not write: an error, or trained without them"),
    ROW("freeze", "", OC_T_TEXTS, freeze, STEPS, 0, 0, NULL, model, "PATTERN...",
        "leave tensors of these names as they are: 'model.layers.0.*', '*embed_tokens*'"),
    ROW("train-only", "", OC_T_TEXTS, train_only, STEPS, 0, 0, NULL, model, "PATTERN...",
        "train tensors of these names and no others: '*.self_attn.*'"),

    ROW("text", "", OC_T_TEXT, text, TOKENIZE, 0, 0, NULL, text, "TEXT", "this text: its ids and the tokens they stand for"),
    ROW("input", "input-file prompts-file", OC_T_TEXT, input, TOKENIZE | GENERATES, 0, 0, NULL, text, "FILE|-",
        "a JSON string a line in, {\"ids\", \"decoded\"} a line out"),
    ROW("messages", "", OC_T_TEXT, messages, TOKENIZE, 0, 0, NULL, text, "FILE|-",
        "a JSON list of messages, or {\"messages\", \"tools\", ...}: {\"rendered\", \"ids\"}"),
    ROW("generation-prompt", "", OC_T_ON, generation_prompt, TOKENIZE, 0, 0, NULL, text, "",
        "of --messages: end with what opens the model's answer"),
    ROW("no-special", "", OC_T_OFF, special, TOKENIZE, 0, 0, NULL, text, "",
        "of --text and --input: add no special tokens"),
    ROW("show-labels", "", OC_T_ON, show_labels, TOKENIZE, 0, 0, NULL, text, "",
        "of --data: which tokens of each row are trained"),

    ROW("prompt", "", OC_T_TEXTS, gen.prompts, GENERATES, 0, 0, NULL, generate, "TEXT...",
        "go on with this text; may be repeated"),
    ROW("chat", "conversation raw!", OC_T_ON, gen.chat, GENERATES, 0, 0, NULL, generate, "",
        "talk to the model through its chat template; with --prompt: each is a user's message"),
    ROW("system", "system-prompt system-message", OC_T_TEXT, gen.system, GENERATES, 0, 0, NULL, generate, "TEXT",
        "of --chat: the system message"),
    ROW("max-new-tokens", "max-tokens max-completion-tokens gen-len output-len n-predict", OC_T_INT64, gen.max_new_tokens, GENERATES, 1, LIMIT, NULL, generate, "N",
        "tokens of an answer at most; default: generation_config's, else 256"),
    ROW("min-new-tokens", "min-tokens", OC_T_INT32, gen.min_new_tokens, GENERATES, 0, 2e9, NULL, generate, "N",
        "no end of sequence before so many; default: generation_config's, else 0"),
    ROW("stop", "stop-strings stop-sequences stop-token?", OC_T_TEXTS, gen.stops, GENERATES, 0, 0, NULL, generate, "TEXT...",
        "an answer ends before this text; may be repeated"),
    ROW("ignore-eos", "", OC_T_ON, gen.ignore_eos, GENERATES, 0, 0, NULL, generate, "",
        "an end of sequence ends no answer"),
    ROW("logprobs", "top-logprobs", OC_T_INT32, gen.logprobs, GENERATES, 0, 20, NULL, generate, "N",
        "log-probabilities of each token and of the N most likely; in rows of --output or --json"),

    ROW("do-sample", "", OC_T_ON, gen.do_sample, GENERATES, 0, 0, NULL, sampling, "",
        "draw, with generation_config's temperature or 1; --do-sample false: the most likely token"),
    ROW("temperature", "temp", OC_T_REAL, gen.temperature, GENERATES, 0, 1e6, NULL, sampling, "X",
        "0: the most likely token; default: generation_config's where it samples, else 0"),
    ROW("top-k", "", OC_T_INT64, gen.top_k, GENERATES, -1, 1e9, NULL, sampling, "N",
        "draw from the N most likely; 0: from all; default: generation_config's, else 0"),
    ROW("top-p", "", OC_T_REAL, gen.top_p, GENERATES, 0, 1, NULL, sampling, "X",
        "draw from the most likely that make up X; default: generation_config's, else 1"),
    ROW("min-p", "", OC_T_REAL, gen.min_p, GENERATES, 0, 1, NULL, sampling, "X",
        "draw from those at least X times as likely as the likeliest; default: generation_config's, else 0"),
    ROW("repetition-penalty", "repeat-penalty", OC_T_REAL, gen.repetition_penalty, GENERATES, 1e-6, 1e6, NULL, sampling, "X",
        "above 1: fewer tokens of prompt and answer again; default: generation_config's, else 1"),
    ROW("presence-penalty", "", OC_T_REAL, gen.presence_penalty, GENERATES, -2, 2, NULL, sampling, "X",
        "off the logit of each token that the answer has; default 0"),
    ROW("frequency-penalty", "", OC_T_REAL, gen.frequency_penalty, GENERATES, -2, 2, NULL, sampling, "X",
        "the same, times how often it has it; default 0"),

    ROW("batch", "max-num-seqs gpu-batch-size batch-size?", OC_T_INT_AUTO, gen.batch, GENERATES, 1, 1e6, NULL, cache, "N|auto",
        "sequences at a time; default auto: what gives most tokens a second"),
    ROW("prefill-chunk", "max-num-batched-tokens", OC_T_INT_AUTO, gen.prefill, GENERATES, 1, LIMIT, NULL, cache, "N|auto",
        "tokens that a pass takes at most, of prompts and answers together"),
    ROW("kv-home", "kv-offload=host", OC_T_CHOICE, gen.kv_home, GENERATES, 0, 0, homes, cache, "auto|device|host",
        "where keys and values of the tokens so far live"),
    ROW("kv-tokens", "", OC_T_INT_AUTO, gen.kv_tokens, GENERATES, 1, LIMIT, NULL, cache, "N|auto",
        "tokens whose keys and values there is room for"),
    ROW("page-tokens", "", OC_T_INT64, gen.page_tokens, GENERATES, 1, 4096, NULL, cache, "N",
        "tokens of a page of them, a multiple of 16; default 32"),
    ROW("row-groups", "num-gpu-batches", OC_T_INT_AUTO, gen.groups, GENERATES, 1, 256, NULL, cache, "N|auto",
        "parts in which a batch goes through each block: activations of one at a time"),
    ROW("batch-invariant", "", OC_T_ON, gen.invariant, GENERATES, 0, 0, NULL, cache, "",
        "a text to the bit the same in any batch: the processor's kernels give that in any case"),
    ROW("prompt-tokens", "prompt-len input-len", OC_T_INT64, gen.prompt_tokens, PLAN_GENERATE, 1, LIMIT, NULL, cache, "N",
        "how long prompts are, where none are given; default 512"),

    ROW("seq-length", "max-length max-seq-length model-max-length block-size max-seq-len cutoff-len sequence-len seq-len tokenizer.max-seq-len max-model-len ctx-size", OC_T_INT64, seq_length, ALL_RUNS, 2, LIMIT, NULL,
        batch, "N", "tokens of a sequence; default min(2048, the model's positions)"),
    ROW("micro-batch", "per-device-train-batch-size per-device-eval-batch-size train-micro-batch-size-per-gpu batch-size? micro-batch-size per-gpu-train-batch-size",
        OC_T_INT_AUTO, micro_batch, RUNS, 1, LIMIT, NULL, batch, "N|auto",
        "sequences that go through the model at once; default 8"),
    ROW("grad-accum", "gradient-accumulation-steps", OC_T_INT64, grad_accum, STEPS, 1, OC_ACCUM_MOST, NULL, batch, "N",
        "micro-batches a step; default 1"),
    ROW("train-batch", "train-batch-size", OC_T_INT64, train_batch, STEPS, 1, LIMIT, NULL, batch, "N",
        "sequences a step = micro-batch x grad-accum x ranks; any two give the third"),
    ROW("token-tile", "", OC_T_INT_AUTO, token_tile, RUNS, 1, LIMIT, NULL, batch, "N|auto",
        "tokens that the mlp and the head take at a time; auto: 4096, or all where that takes no more "
        "room. Another tile adds up weight gradients in other parts: results differ by rounding"),
    ROW("max-steps", "", OC_T_INT64, max_steps, STEPS, -1, LIMIT, NULL, batch, "N",
        "stop after N steps; the data repeats"),
    ROW("epochs", "num-train-epochs num-epochs", OC_T_REAL, epochs, STEPS, 0, 1e9, NULL, batch, "X",
        "passes over the data; default 3"),

    ROW("optimizer", "optim", OC_T_CHOICE, optimizer, STEPS, 0, 0, optimizers, optim, "adamw|adam|sgd",
        "adamw decays the weights, adam and sgd add the decay to the gradient"),
    ROW("lr", "learning-rate optimizer.lr", OC_T_REAL, lr, TRAIN | PLAN, 0, 1e6, NULL, optim, "X", "peak learning rate; default 5e-5"),
    ROW("lr-schedule", "lr-scheduler-type lr-scheduler", OC_T_CHOICE, schedule.kind, STEPS, 0, 0, schedules, optim,
        "constant|linear|cosine", "default linear to 0"),
    ROW("warmup-steps", "num-warmup-steps lr-scheduler.num-warmup-steps", OC_T_INT64, schedule.warmup_steps, STEPS, 0, LIMIT, NULL, optim, "N",
        "steps of linear warm-up; default 0"),
    ROW("warmup-ratio", "", OC_T_REAL, schedule.warmup_ratio, STEPS, 0, 1, NULL, optim, "X",
        "warm-up as a part of all steps, rounded up; --warmup-steps overrides it"),
    ROW("weight-decay", "optimizer.weight-decay", OC_T_REAL, weight_decay, STEPS, 0, 1e6, NULL, optim, "X",
        "default 0; norms and biases are not decayed"),
    ROW("betas", "optimizer.betas", OC_T_PAIR, beta1, STEPS, 0, 1, NULL, optim, "B1,B2", "default 0.9,0.999"),
    ROW("beta1", "adam-beta1", OC_T_REAL, beta1, STEPS, 0, 1, NULL, optim, "B1", "the first of --betas"),
    ROW("beta2", "adam-beta2", OC_T_REAL, beta2, STEPS, 0, 1, NULL, optim, "B2", "the second of --betas"),
    ROW("eps", "adam-epsilon optimizer.eps", OC_T_REAL, eps, STEPS, 0, 1e6, NULL, optim, "X", "default 1e-8"),
    ROW("momentum", "", OC_T_REAL, momentum, STEPS, 0, 1, NULL, optim, "X", "of sgd; default 0"),
    ROW("clip-grad-norm", "max-grad-norm gradient-clipping", OC_T_REAL, clip, STEPS, 0, 1e30, NULL, optim, "X",
        "largest gradient norm; default 1, 0 is off"),

    ROW("output", "output-dir checkpointer.output-dir output-file", OC_T_TEXT, output, STEPS | GENERATES, 0, 0, NULL, output, "DIR",
        "the final model, run.json and checkpoint-N/ go here"),
    ROW("scores", "", OC_T_TEXT, scores, EVAL, 0, 0, NULL, output, "FILE",
        "rows {prompt, completion} of --data: each one's log-likelihood into this .jsonl"),
    ROW("eval-every", "eval-steps", OC_T_INT64, eval_every, STEPS, 0, LIMIT, NULL, output, "N",
        "evaluate each N steps; needs --eval-data"),
    ROW("save-every", "save-steps", OC_T_INT64, save_every, STEPS, 0, LIMIT, NULL, output, "N",
        "write a checkpoint each N steps"),
    ROW("keep", "save-total-limit", OC_T_INT32, keep, STEPS, 1, 1e6, NULL, output, "N",
        "checkpoints to keep; default 2"),
    ROW("save-model-only", "save-only-model", OC_T_ON, save_model_only, STEPS, 0, 0, NULL, output, "",
        "checkpoints hold the model without training state"),
    ROW("resume", "resume-from-checkpoint", OC_T_OPTIONAL, resume_path, STEPS | GENERATES | EVAL, 0, 0, NULL, output, "[PATH]",
        "go on from the newest checkpoint; none there: a fresh start, with a warning. generate, eval --scores: behind the rows that are there"),
    ROW("overwrite", "overwrite-output-dir", OC_T_ON, overwrite, STEPS | GENERATES | EVAL, 0, 0, NULL, output, "",
        "replace what an earlier run left in --output, or in --scores"),

    ROW("config", "deepspeed deepspeed-config deepspeed-config-file deepscale-config", OC_T_TEXT, config_file, ALL_RUNS, 0, 0, NULL, run, "FILE",
        "DeepSpeed JSON, or the run.json of an earlier run; flags override it"),
    ROW("dtype", "torch-dtype bf16=bf16 fp16=fp16 bfloat16=bf16 float16=fp16", OC_T_DTYPE, dtype, ALL_RUNS, 0, 0, NULL, run,
        "bf16|fp16|fp32", "compute dtype; default: the config's; master weights are fp32"),
    ROW("device", "use-cpu=cpu no-cuda=cpu cpu=cpu", OC_T_DEVICE, device_cuda, ALL_RUNS, 0, 0, NULL, run, "cpu", "where blocks are computed"),
    ROW("threads", "num-cpu-threads-per-process", OC_T_INT32, threads, ALL_RUNS, 0, 4096, NULL, run, "N", "cores to use; default all"),
    ROW("seed", "", OC_T_UINT64, seed, ALL_RUNS, 0, 9e15, NULL, run, "N", "default 42"),
    ROW("log", "", OC_T_TEXT, log_path, STEPS, 0, 0, NULL, run, "FILE.jsonl", "one JSON object a step"),
    ROW("trace", "", OC_T_TEXT, trace_path, ALL_RUNS, 0, 0, NULL, run, "FILE.json",
        "what each lane did when; open it in a Chrome trace viewer"),
    ROW("trace-size", "", OC_T_SIZE, trace_bytes, ALL_RUNS, 4096, 0, NULL, run, "SIZE",
        "host memory for the trace's events; the newest are kept; default 16MiB"),
    ROW("json", "", OC_T_ON, json, ALL_RUNS | TOKENIZE | OC_FOR(OC_CMD_INSPECT) | OC_FOR(OC_CMD_BENCH), 0, 0, NULL, run, "",
        "results on stdout as JSON"),
    ROW("quiet", "", OC_T_ON, quiet, OC_FOR_ALL, 0, 0, NULL, run, "", "only warnings and errors"),

    ROW("device-memory", "", OC_T_SIZE, device_memory, ALL_RUNS, 1, 0, NULL, memory, "SIZE",
        "budget of the device (a CPU device too: then blocks stream through it)"),
    ROW("host-memory", "", OC_T_SIZE, host_memory, ALL_RUNS, 1, 0, NULL, memory, "SIZE",
        "budget of the host; default: what is available"),
    ROW("weights-home", "", OC_T_CHOICE, weights_home, ALL_RUNS, 0, 0, homes, memory, "auto|device|host",
        "where weights and gradients live between uses"),
    ROW("optimizer-home", "", OC_T_CHOICE, optimizer_home, STEPS, 0, 0, homes, memory, "auto|device|host",
        "where master weights and moments live"),
    ROW("act-home", "activation-offloading=host enable-activation-offloading=host", OC_T_CHOICE, act_home, STEPS, 0, 0, homes, memory, "auto|device|host",
        "where a layer's input waits for its backward"),
    ROW("saved-home", "", OC_T_CHOICE, saved_home, STEPS, 0, 0, homes, memory, "auto|device|host",
        "where values that layers leave for their backward wait for it"),
    ROW("recompute", "gradient-checkpointing=full activation-checkpointing=full enable-activation-checkpointing=full", OC_T_CHOICE, recompute, STEPS, 0, 0, recomputes, memory, "auto|full|none|LIST",
        "full: each layer's forward runs again in the backward; none: all of it is kept; or which "
        "of qkv,attention,mid,up,mlp,logits are made again, the others being kept"),
    ROW("micro-order", "", OC_T_CHOICE, order, STEPS, 0, 0, orders, memory, "auto|depth|breadth|interleave",
        "breadth: one fetch of a block serves all micro-batches; interleave: a backward takes "
        "turns with the next forward, which fills link and cores together"),
    ROW("early-updates", "optimizer-in-bwd=on", OC_T_CHOICE, early_updates, STEPS, 0, 0, earlies, memory, "auto|on|off",
        "update a block as soon as its gradient is there, which then has no home; needs clip 0, "
        "one micro-batch a step, bf16 or fp32"),
    ROW("slots", "", OC_T_INT32, slots, ALL_RUNS, 0, 4096, NULL, memory, "N", "weight slots of the device; 0 auto"),
    ROW("slabs", "", OC_T_INT32, slabs, STEPS, 0, 4096, NULL, memory, "N", "gradient slabs of the device; 0 auto"),
    ROW("resident-blocks", "", OC_T_INT_AUTO, resident_blocks, ALL_RUNS, 0, 1e6, NULL, memory, "N|auto",
        "blocks that stay on the device, the others stream; default auto: as many as fit"),
    ROW("piece", "", OC_T_SIZE, piece_bytes, ALL_RUNS, 1, 0, NULL, memory, "SIZE", "grain of transfers and updates"),
    ROW("pace", "", OC_T_PACE, pace, ALL_RUNS, 0, 0, NULL, memory, "LANE=RATE",
        "hold a lane to a rate, as h2d=4GB/s; may be repeated"),

    ROW("serial-lanes", "", OC_T_ON, serial_lanes, ALL_RUNS, 0, 0, NULL, debug, "",
        "one operation at a time, for comparison"),
    ROW("ops", "", OC_T_ON, plan_ops, PLAN | PLAN_GENERATE, 0, 0, NULL, debug, "",
        "print every op of the plan: what it reads and writes, and what it waits for"),
    ROW("debug-memory", "", OC_T_ON, verify_debug, ALL_RUNS, 0, 0, NULL, debug, "",
        "destroy values after their last reader, protect homes between uses"),
    ROW("debug-async", "", OC_T_ON, debug_async, ALL_RUNS, 0, 0, NULL, debug, "",
        "compute on a stand-in for an accelerator: its own memory and queues; with --delay-seed, "
        "delays in them"),
    ROW("delay-seed", "", OC_T_UINT64, delay_seed, ALL_RUNS, 0, 4e9, NULL, debug, "N",
        "random delays around operations; results must not change"),

    ROW("warmup-min-lr", "", OC_T_REAL, schedule.warmup_min_lr, OC_FOR_FILES, 0, 1e6, NULL, optim, "", ""),
    ROW("warmup-max-lr", "", OC_T_REAL, schedule.warmup_max_lr, OC_FOR_FILES, 0, 1e6, NULL, optim, "", ""),
    ROW("warmup-log", "", OC_T_ON, schedule.warmup_log, OC_FOR_FILES, 0, 0, NULL, optim, "", ""),
    ROW("schedule-steps", "", OC_T_INT64, schedule.total_steps, OC_FOR_FILES, 0, LIMIT, NULL, optim, "", ""),
    ROW("warmup-min-ratio", "", OC_T_REAL, schedule.warmup_min_ratio, OC_FOR_FILES, 0, 1, NULL, optim, "", ""),
    ROW("cos-min-ratio", "", OC_T_REAL, schedule.cos_min_ratio, OC_FOR_FILES, 0, 1, NULL, optim, "", ""),
    ROW("cycle-min-lr", "", OC_T_REAL, schedule.cycle.min_lr, OC_FOR_FILES, 0, 1e6, NULL, optim, "", ""),
    ROW("cycle-max-lr", "", OC_T_REAL, schedule.cycle.max_lr, OC_FOR_FILES, 0, 1e6, NULL, optim, "", ""),
    ROW("cycle-decay-rate", "", OC_T_REAL, schedule.cycle.decay_rate, OC_FOR_FILES, 0, 1e6, NULL, optim, "", ""),
    ROW("cycle-first-steps", "", OC_T_INT64, schedule.cycle.first, OC_FOR_FILES, 1, LIMIT, NULL, optim, "", ""),
    ROW("cycle-second-steps", "", OC_T_INT64, schedule.cycle.second, OC_FOR_FILES, 0, LIMIT, NULL, optim, "", ""),
    ROW("cycle-first-stairs", "", OC_T_INT32, schedule.cycle.stairs_first, OC_FOR_FILES, 0, 1e9, NULL, optim, "", ""),
    ROW("cycle-second-stairs", "", OC_T_INT32, schedule.cycle.stairs_second, OC_FOR_FILES, 0, 1e9, NULL, optim, "", ""),
    ROW("cycle-decay-steps", "", OC_T_INT64, schedule.cycle.decay_steps, OC_FOR_FILES, 0, LIMIT, NULL, optim, "", ""),
    ROW("range-min-lr", "", OC_T_REAL, schedule.range.min_lr, OC_FOR_FILES, 0, 1e6, NULL, optim, "", ""),
    ROW("range-step-size", "", OC_T_INT64, schedule.range.size, OC_FOR_FILES, 1, LIMIT, NULL, optim, "", ""),
    ROW("range-step-rate", "", OC_T_REAL, schedule.range.rate, OC_FOR_FILES, 0, 1e6, NULL, optim, "", ""),
    ROW("range-staircase", "", OC_T_ON, schedule.range.staircase, OC_FOR_FILES, 0, 0, NULL, optim, "", ""),
    ROW("loss-scale", "", OC_T_REAL, loss_scale.static_scale, OC_FOR_FILES, 0, 1e30, NULL, optim, "", ""),
    ROW("loss-scale-power", "", OC_T_INT32, loss_scale.initial_power, OC_FOR_FILES, 0, 126, NULL, optim, "", ""),
    ROW("loss-scale-window", "", OC_T_INT32, loss_scale.window, OC_FOR_FILES, 1, 2e9, NULL, optim, "", ""),
    ROW("loss-scale-hysteresis", "", OC_T_INT32, loss_scale.hysteresis, OC_FOR_FILES, 1, 2e9, NULL, optim, "", ""),
    ROW("loss-scale-consecutive", "", OC_T_ON, loss_scale.consecutive_hysteresis, OC_FOR_FILES, 0, 0, NULL, optim, "", ""),
    ROW("loss-scale-min", "", OC_T_REAL, loss_scale.min_scale, OC_FOR_FILES, 0, 1e30, NULL, optim, "", ""),
    ROW("optimizer-ratio", "", OC_T_REAL, optimizer_ratio, OC_FOR_FILES, 0, 1, NULL, memory, "", ""),
    ROW("zero-stage", "", OC_T_INT32, zero_stage, OC_FOR_FILES, 0, 3, NULL, memory, "", ""),

    MISSING("nvme-path", "", OC_T_TEXT, ALL_RUNS, memory, "DIR", no_nvme),
    MISSING("io", "", OC_T_TEXT, ALL_RUNS, memory, "auto", no_nvme),
};
/* clang-format on */

enum { ROWS = sizeof table / sizeof *table };
_Static_assert(sizeof table / sizeof *table <= (size_t)OC_OPTIONS_MAX,
               "origin[] has a place for every row");

size_t oc_options_count(void) { return ROWS; }
const oc_option *oc_options_at(size_t i) { return &table[i]; }

bool oc_options_same_name(const char *a, size_t n, const char *b, size_t m) {
    if (n != m) return false;
    for (size_t i = 0; i < n; i++) {
        if ((a[i] == '_' ? '-' : a[i]) != (b[i] == '_' ? '-' : b[i])) return false;
    }
    return true;
}

static bool has_alias(const oc_option *o, const char *name, size_t n, const char **fixed) {
    static const char *const values[] = {"bf16", "fp16", "full", "cpu", "host", "on"};
    for (const char *a = o->aliases; *a;) {
        size_t m = strcspn(a, " "), word = strcspn(a, " =?!");
        if (a[word] != '?' && oc_options_same_name(name, n, a, word)) {
            if (a[word] == '!') *fixed = OC_OPPOSITE;
            for (size_t i = 0; a[word] == '=' && i < sizeof values / sizeof *values; i++) {
                if (strncmp(a + word + 1, values[i], m - word - 1) == 0) *fixed = values[i];
            }
            return true;
        }
        a += m + (a[m] == ' ');
    }
    return false;
}

const oc_option *oc_options_find(const char *name, size_t n, const char **fixed) {
    *fixed = NULL;
    for (size_t i = 0; i < ROWS; i++) {
        if (oc_options_same_name(name, n, table[i].name, strlen(table[i].name))) return &table[i];
        if (has_alias(&table[i], name, n, fixed)) return &table[i];
    }
    return NULL;
}

/* The row whose alias is near the word, when no canonical name is: "learning-rte". */
static const char *nearest_by_alias(const char *word, oc_command command) {
    const char *best = NULL, *known[2] = {NULL, NULL}; /* the nearest so far, a candidate */
    char spelled[2][64] = {"", ""};
    for (size_t i = 0; i < ROWS; i++) {
        if (!(table[i].commands & OC_FOR(command)) || table[i].missing) continue;
        for (const char *a = table[i].aliases; *a; a += *a == ' ') {
            size_t m = strcspn(a, " "), k = strcspn(a, " =?!");
            snprintf(spelled[1], sizeof spelled[1], "%.*s", (int)k, a);
            known[0] = spelled[0];
            known[1] = spelled[1];
            a += m;
            if (oc_nearest(word, known, 2) != known[1]) continue;
            memcpy(spelled[0], spelled[1], sizeof spelled[0]);
            best = table[i].name;
        }
    }
    return best;
}

const char *oc_options_nearest(const char *name, size_t n, oc_command command) {
    const char *known[ROWS];
    char word[64];
    size_t count = 0;
    if (n >= sizeof word) return NULL;
    memcpy(word, name, n);
    word[n] = 0;
    for (size_t i = 0; i < ROWS; i++) {
        if (table[i].commands & OC_FOR(command) && !table[i].missing)
            known[count++] = table[i].name;
    }
    const char *near = oc_nearest(word, known, count);
    if (!near) near = nearest_by_alias(word, command);
    return near ? near : oc_foreign_nearest(word, command);
}
