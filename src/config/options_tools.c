/* options_tools.c - what the command lines take that people come from: transformers' run_clm.py,
 * TRL, Stanford Alpaca, FastChat, LLaMA-Factory, axolotl, torchtune, and the launchers torchrun,
 * accelerate and deepspeed. Arguments that are options here are aliases in options.c; what is left
 * has no effect, or is accepted as long as it asks for what happens anyway. */
#include "config/options.h"

#include "base/nearest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char off[] = "false|0|none|null|no||{}|[]";
static const char one[] = "1|1:1|none|null|-1";
static const char no_torch[] = "it arranges work of PyTorch";
static const char no_loader[] = "rows are read and tokenized before step 1";
static const char no_ranks[] = "there is one rank";
static const char more_ranks[] =
    "this version runs one rank: raise --grad-accum by this factor, and a step is the same";
static const char no_download[] = "nothing is downloaded";
static const char no_code[] =
    "config.json selects one of the built-in families, no other code is run";
static const char no_images[] = "there are no images, sounds or videos";
static const char no_adapters[] =
    "adapters (LoRA and its like) are not there, all parameters are trained, or whole tensors by "
    "--train-only; leave it out";
static const char no_quant[] =
    "quantized weights are not there; --device-memory streams what does not fit, in bf16";
static const char no_losses[] = "the loss is the negative log-likelihood of the next token";
static const char no_optimizer[] = "its optimizer has to be there first; use adamw";
static const char no_experts[] = "no family here has experts";
static const char no_inference[] = "it is for inference";
static const char no_kernel[] = "attention is computed by one kernel, exactly";
static const char no_cut[] = "all rows are used: cut the file, as with head -n";
static const char no_split[] = "give a file of its own with --eval-data";
static const char no_tokens[] =
    "tokenizer_config.json of the model says so: change it there, or give --tokenizer DIR";
static const char use_tokenizer[] = "use --tokenizer DIR, with its tokenizer.json";
static const char no_template[] =
    "a chat goes through the template of the model's tokenizer_config.json: put it there";
static const char use_log[] = "--log FILE.jsonl has every step";
static const char show_rows[] = "outcore tokenize --data FILE --show-labels shows what is trained";
static const char use_trace[] = "use --trace FILE.json";
static const char use_config[] = "change it in config.json";
static const char use_files[] = "--data takes the files themselves";
static const char use_zero[] = "use zero_optimization of a --config file, or --weights-home and "
                               "--optimizer-home";
static const char decides[] = "the plan decides what lies where, results are the same";
static const char ids_differ[] = "use --freeze or --train-only with names of tensors";
static const char packed[] =
    "rows that are packed never see each other, and nothing is padded then";
static const char padded[] = "padding is masked";
static const char completions[] = "the loss is over completions and assistant turns";

#define IDLE(name, why)                                                                            \
    { name, NULL, why, NULL }
#define ONLY(name, accepted, why)                                                                  \
    { name, accepted, why, NULL }
#define NONE(name, why)                                                                            \
    { name, off, why, NULL }

/* clang-format off */
static const oc_foreign_arg table[] = {
    /* ---- the model and its files ---- */
    IDLE("model-type", no_code),
    IDLE("type-of-model", no_code),
    IDLE("trust-remote-code", no_code),
    IDLE("is-*-derived-model", no_code),
    IDLE("cache-dir", "the Hugging Face cache is where HF_HOME or HF_HUB_CACHE says"),
    IDLE("token", no_download),
    IDLE("use-auth-token", no_download),
    IDLE("hf-use-auth-token", no_download),
    IDLE("*-hub-token", no_download),
    IDLE("low-cpu-mem-usage", "weights are read block by block"),
    IDLE("use-fast-tokenizer", "tokenizer.json is read, which is the fast one"),
    IDLE("tokenizer-use-fast", "tokenizer.json is read, which is the fast one"),
    IDLE("tokenizer-legacy", "tokenizer.json says how text is cut"),
    IDLE("tokenizer-type", "tokenizer.json says how text is cut"),
    IDLE("tokenizer-save-jinja-files", "tokenizer files are copied as they are"),
    NONE("tokenizer-use-mistral-common", "tokenizer.json is read"),
    ONLY("tokenizer.path", off, use_tokenizer),
    ONLY("tokenizer.vocab-path", off, use_tokenizer),
    ONLY("tokenizer.merges-*", off, use_tokenizer),
    ONLY("model-revision", "main|none|null|", "give the directory of that snapshot with --model"),
    ONLY("revision-of-model", "main|none|null|", "give the directory of that snapshot with --model"),
    NONE("base-model-config", "config.json stands in the directory of --model"),
    NONE("cls-model-config", no_code),
    NONE("trainer-cls", no_code),
    NONE("plugins", no_code),
    NONE("config-overrides", use_config),
    NONE("overrides-of-model-*", use_config),
    NONE("model-init-kwargs", use_config),
    NONE("rope-scaling", use_config),
    NONE("train-from-scratch", "use --init DIR"),
    NONE("mixture-of-depths", no_code),
    NONE("reinit-weights", "use --init DIR for random weights"),
    NONE("num-labels", no_losses),
    NONE("axolotl-config-path", "use its keys as options, docs/from-elsewhere.md has them"),
    NONE("config-file", "a file of the library accelerate: its deepspeed_config_file is --config"),
    IDLE("attn-implementation", no_kernel),
    IDLE("flash-attn", no_kernel),
    IDLE("*-attention", no_kernel), /* sdp, flash, xformers, eager, ...; but not the next two */
    NONE("s2-attention", "every token sees all before it"),
    NONE("shift-attn", "every token sees all before it"),
    NONE("scaling-softmax*", "every family has its own scale of scores"),
    IDLE("pretrain-multipack-attn", packed),
    IDLE("flash-attn-*", no_kernel),
    IDLE("flash-optimum", no_kernel),
    IDLE("flex-attn-compile-kwargs", no_kernel),
    IDLE("gemma4-hybrid-attn-impl", no_kernel),
    IDLE("sdpa-varlen", no_kernel),
    IDLE("fused-attn-kernel", no_kernel),
    IDLE("*-kernel", no_torch),
    IDLE("experts-implementation", no_experts),
    IDLE("llama4-linearized-experts", no_experts),
    IDLE("quantize-moe-experts", no_experts),
    IDLE("router-aux-loss-coef", no_experts),
    IDLE("moe-aux-loss-coef", no_experts),
    NONE("upcast-layernorm", "norms are computed in fp32 within, whatever the dtype"),
    NONE("upcast-lmhead-output", "the loss is computed in fp32 within, whatever the dtype"),
    NONE("fp32-norm*", "norms are computed in fp32 within, whatever the dtype"),
    IDLE("embeddings-skip-upcast", "master weights are fp32, all of them"),
    IDLE("float32", "the dtype is the model's, or --dtype's"),
    NONE("pure-bf16", "use --dtype bf16, with master weights in fp32"),
    {"mixed-precision", "no|none|null|", "the dtype is the model's, or --dtype's", "dtype"},
    {"compute-dtype", "none|null|auto|", "the dtype is the model's, or --dtype's", "dtype"},
    IDLE("infer-dtype", no_inference),
    IDLE("downcast-bf16", no_torch),

    /* ---- data ---- */
    IDLE("streaming", no_loader),
    IDLE("dataset-streaming", no_loader),
    IDLE("lazy-preprocess", no_loader),
    IDLE("overwrite-cache", no_loader),
    IDLE("preprocessing-num-workers", no_loader),
    IDLE("preprocessing-batch-size", no_loader),
    IDLE("preprocess-iterable", no_loader),
    IDLE("is-preprocess", no_loader),
    IDLE("skip-prepare-dataset", no_loader),
    IDLE("dataset-num-proc", no_loader),
    IDLE("dataset-processes", no_loader),
    IDLE("dataset-prepared-path", no_loader),
    IDLE("dataset-keep-in-memory", no_loader),
    IDLE("num-dataset-shards-to-save", no_loader),
    IDLE("data-shared-file-system", no_loader),
    IDLE("buffer-size", no_loader),
    IDLE("dataset-batch-size", no_loader),
    IDLE("num-of-sequences", no_loader),
    IDLE("chars-per-token", no_loader),
    IDLE("cache-path", no_loader),
    IDLE("sample-packing-*", "sequences are filled in the order of the rows"),
    IDLE("packing-strategy", "sequences are filled in the order of the rows"),
    IDLE("streaming-multipack-buffer-size", no_loader),
    IDLE("pretrain-multipack-buffer-size", no_loader),
    IDLE("multipack-real-batches", packed),
    IDLE("batch-flattening", packed),
    IDLE("padding-free", packed),
    IDLE("neat-packing", packed),
    IDLE("block-diag-attn", packed),
    IDLE("pretraining-sample-concatenation", packed),
    IDLE("eval-packing", "evaluation is packed as training is"),
    IDLE("eval-sample-packing", "evaluation is packed as training is"),
    IDLE("pad-to-multiple-of", padded),
    IDLE("pad-to-sequence-len", padded),
    IDLE("pad-token", padded),
    ONLY("padding-side", "right|none|null|", "rows are padded on the right"),
    ONLY("truncation-mode", "keep-start|keep_start|none|null|", "rows are cut at their end"),
    ONLY("excess-length-strategy", "none|null|", "--no-packing cuts long rows at their end, packing continues them in the next "
         "sequence"),
    IDLE("shuffle-dataset", "sequences are shuffled when they are packed; --no-shuffle is the order of the files"),
    IDLE("shuffle-merged-datasets", "sequences are shuffled when they are packed; --no-shuffle is the order of the files"),
    IDLE("shuffle-before-merging-datasets", "sequences are shuffled when they are packed; --no-shuffle is the order of the files"),
    NONE("curriculum-sampling", "use --no-shuffle for the order of the file"),
    IDLE("keep-linebreaks", "a text file is one document, line breaks included"),
    ONLY("dataset-config", off, use_files),
    ONLY("dataset-config-name", off, use_files),
    ONLY("dataset-train-split", "train|none|null|", use_files),
    ONLY("dataset-test-split", "test|validation|none|null|", no_split),
    NONE("media-dir", no_images),
    ONLY("dataset-text-field", "text|none|null|", "rows of text have the key \"text\" (docs/data.md): rename it"),
    NONE("dataset-kwargs", "rows have one of the forms of docs/data.md"),
    NONE("dataset-mixer", use_files),
    NONE("dataset-shard-*", no_cut),
    NONE("dataset-exact-deduplication", "all rows are used"),
    NONE("push-dataset-to-hub", "nothing is uploaded"),
    NONE("mix-strategy", "all rows of all files are used"),
    NONE("interleave-probs", "all rows of all files are used"),
    NONE("max-samples", no_cut),
    NONE("max-train-samples", no_cut),
    NONE("max-eval-samples", no_cut),
    NONE("min-sample-len", "all rows are used"),
    NONE("max-prompt-len", no_losses),
    NONE("max-packed-sequence-len", "use --seq-length"),
    ONLY("eval-sequence-len", off, "evaluation has the sequences of --seq-length"),
    NONE("validation-split-percentage", no_split),
    NONE("val-size", no_split),
    NONE("val-set-size", no_split),
    NONE("test-split-size", no_split),
    IDLE("eval-on-each-dataset", "--eval-data is one set"),
    NONE("tokenized-path", no_loader),
    NONE("process-reward-model", no_losses),
    NONE("total-num-tokens", "tokens are counted"),
    NONE("total-supervised-tokens", "tokens are counted"),
    ONLY("completion-only-loss", "true|1|none|null|", completions),
    ONLY("assistant-only-loss", "true|1|none|null|", completions),
    NONE("train-on-inputs", completions),
    NONE("train-on-prompt", completions),
    NONE("mask-history", "the loss is over every assistant turn"),
    NONE("role-boundaries", completions),
    IDLE("ignore-pad-token-for-loss", padded),
    ONLY("template", "default|none|null|", no_template),
    ONLY("chat-template", "tokenizer_default|none|null|", no_template),
    NONE("chat-template-*", no_template),
    NONE("default-system*", no_template),
    NONE("prompter", no_template),
    NONE("tool-format", no_template),
    NONE("preserve-thinking", no_template),
    ONLY("enable-thinking", "true|1|none|null|", no_template),
    NONE("eos-token", no_tokens),
    NONE("eot-tokens", no_tokens),
    NONE("special-tokens", no_tokens),
    NONE("tokens", no_tokens),
    NONE("add-tokens", no_tokens),
    NONE("add-special-tokens", no_tokens),
    NONE("added-tokens-overrides", no_tokens),
    NONE("new-special-tokens-config", no_tokens),
    NONE("split-special-tokens", no_tokens),
    IDLE("init-special-tokens", "no tokens are added"),
    NONE("resize-*", "the table has the size of config.json's vocab_size"),
    NONE("shrink-embeddings", "the table has the size of config.json's vocab_size"),
    IDLE("mean-resizing-embeddings", "no tokens are added"),
    NONE("fix-untrained-tokens", "rows of the table are trained where their tokens occur"),
    IDLE("skip-special-tokens", no_inference),
    IDLE("ignore-bias-buffers", no_ranks),
    NONE("use-pose", "positions are those of the tokens"),
    NONE("pose-*", "positions are those of the tokens"),
    IDLE("image-*", no_images),
    IDLE("video-*", no_images),
    IDLE("crop-to-patches", no_images),
    IDLE("use-audio-in-video", no_images),
    IDLE("audio-sampling-rate", no_images),
    IDLE("freeze-vision-tower", no_images),
    IDLE("freeze-multi-modal-projector", no_images),
    IDLE("freeze-mm-modules", no_images),
    IDLE("processor-*", no_images),

    /* ---- adapters and quantized weights ---- */
    NONE("use-peft", no_adapters),
    NONE("peft", no_adapters),
    NONE("peft-*", no_adapters),
    NONE("adapter*", no_adapters),
    NONE("lora-*", no_adapters),
    NONE("loraplus-*", no_adapters),
    NONE("qlora-*", no_adapters),
    NONE("relora*", no_adapters),
    NONE("use-rslora", no_adapters),
    NONE("use-dora", no_adapters),
    NONE("use-llama-pro", no_adapters),
    NONE("pissa-*", no_adapters),
    NONE("oft-*", no_adapters),
    NONE("create-new-adapter", no_adapters),
    NONE("module-dropout", no_adapters),
    NONE("additional-target", no_adapters),
    NONE("merge-lora", no_adapters),
    IDLE("merge-method", no_inference),
    ONLY("finetuning-type", "full|none|null|", no_adapters),
    NONE("freeze-trainable-*", ids_differ),
    NONE("freeze-extra-modules", ids_differ),
    NONE("freeze-language-model", ids_differ),
    NONE("unfrozen-parameters", ids_differ),
    NONE("load-in-8bit", no_quant),
    NONE("load-in-4bit", no_quant),
    NONE("bnb-*", no_quant),
    NONE("use-bnb-nested-quant", no_quant),
    NONE("quantization*", no_quant),
    NONE("model-quantization-*", no_quant),
    NONE("double-quantization", no_quant),
    NONE("gptq", no_quant),
    NONE("qat", no_quant),
    NONE("use-onebitllms", no_quant),
    NONE("fp8", "use bf16"),
    NONE("fp8-config", "use bf16"),
    IDLE("fp8-*", no_torch),

    /* ---- losses, optimizers, schedules ---- */
    ONLY("loss-type", "nll|chunked_nll|none|null|", no_losses),
    ONLY("loss.*", off, no_losses),
    ONLY("stage", "sft|pt|none|null|", no_losses),
    NONE("rl", no_losses),
    NONE("rl-beta", no_losses),
    NONE("trl", no_losses),
    NONE("ebft", no_losses),
    NONE("use-*-loss", no_losses),
    NONE("use-eaft", no_losses),
    NONE("asft-alpha", no_losses),
    NONE("eaft-*", no_losses),
    NONE("pref-*", no_losses),
    NONE("dpo-*", no_losses),
    NONE("kto-*", no_losses),
    NONE("simpo-*", no_losses),
    NONE("ppo-*", no_losses),
    NONE("orpo-*", no_losses),
    NONE("cpo-*", no_losses),
    NONE("rpo-*", no_losses),
    NONE("ld-alpha", no_losses),
    NONE("ref-model*", no_losses),
    NONE("reward-model*", no_losses),
    NONE("precompute-ref-log-probs", no_losses),
    NONE("center-rewards-coefficient", no_losses),
    NONE("use-galore", no_optimizer),
    NONE("galore-*", no_optimizer),
    NONE("qgalore-*", no_optimizer),
    NONE("use-apollo", no_optimizer),
    NONE("apollo-*", no_optimizer),
    NONE("use-badam", no_optimizer),
    NONE("badam-*", no_optimizer),
    NONE("use-adam-mini", no_optimizer),
    NONE("use-muon", no_optimizer),
    NONE("dion-*", no_optimizer),
    NONE("adam-beta3", no_optimizer),
    NONE("adam-epsilon2", no_optimizer),
    NONE("torchdistx-path", no_optimizer),
    NONE("lisa-*", ids_differ),
    NONE("embedding-lr*", "all tensors have one rate"),
    NONE("lr-groups", "all tensors have one rate"),
    NONE("lr-quadratic-warmup", "the warm-up is linear"),
    NONE("lr-div-factor", "use --lr-schedule constant, linear or cosine"),
    NONE("cosine-min-lr-ratio", "use scheduler WarmupCosineLR of a --config file"),
    NONE("cosine-constant-lr-ratio", "use --lr-schedule cosine"),
    NONE("jagged-*", "use --lr-schedule constant, linear or cosine"),
    ONLY("optimizer.-component-", "torch.optim.AdamW", "use --optimizer adamw, adam or sgd"),
    IDLE("optimizer.*", no_torch),
    NONE("noisy-embedding-alpha", "embeddings get no noise"),
    NONE("max-steps-per-epoch", "use --max-steps, or cut the file"),
    IDLE("eval-batch-size", "evaluation runs with the training's --micro-batch"),
    IDLE("per-gpu-eval-batch-size", "evaluation runs with the training's --micro-batch"),
    NONE("evals-per-epoch", "use --eval-every"),
    NONE("saves-per-epoch", "use --save-every"),
    {"checkpointing-steps", "none|null|", "checkpoints are written each --save-every steps", "save-every"},
    NONE("save-first-step", "use --save-every"),
    NONE("dynamic-checkpoint", "a signal saves a checkpoint"),
    NONE("early-stopping-*", "use --epochs or --max-steps"),
    NONE("loss-watchdog-*", "use --max-steps"),
    IDLE("auto-resume-from-checkpoints", "use --resume"),
    NONE("recipe-checkpoint", "use --resume"),
    NONE("checkpointer.recipe-checkpoint", "use --resume"),
    IDLE("checkpointer.*", no_code),

    /* ---- memory: placement changes no result ---- */
    IDLE("disable-gradient-checkpointing", "--recompute decides"),
    IDLE("use-reentrant-gc", no_torch),
    IDLE("gradient-checkpointing-use-reentrant", no_torch),
    IDLE("use-liger", no_torch),
    IDLE("selective-checkpointing", "--recompute decides"),
    IDLE("use-unsloth*", no_torch),
    IDLE("enable-liger-kernel", no_torch),
    IDLE("use-kernels", no_torch),
    IDLE("use-v1-kernels", no_torch),
    IDLE("chunked-cross-entropy*", "the head goes by tiles of logits"),
    IDLE("tiled-mlp*", decides),
    IDLE("layer-offloading", decides),
    IDLE("ple-cpu-offload", decides),
    IDLE("offload-folder", decides),
    IDLE("device-map", decides),
    IDLE("experimental-skip-move-to-device", decides),
    IDLE("max-memory", "--device-memory and --host-memory are the budgets"),
    IDLE("gpu-memory-limit", "--device-memory is the budget"),
    IDLE("gc-steps", no_torch),
    IDLE("gc-collect-steps", no_torch),
    IDLE("compile", no_torch),
    IDLE("torch-compile-options", no_torch),
    IDLE("dynamo-*", no_torch),
    IDLE("deepcompile", no_torch),
    IDLE("custom-sharded-layers", no_ranks),
    ONLY("zero-stage", "0|1|2|3|none|null|", use_zero),
    ONLY("offload-optimizer-*", "none|null|", use_zero),
    ONLY("offload-param-*", "none|null|", use_zero),
    IDLE("zero3-init-flag", "weights are read block by block"),
    IDLE("zero3-save-16bit-model", "a model is saved in the dtype of --dtype"),

    /* ---- logs and trackers ---- */
    IDLE("log-every-n-steps", use_log),
    IDLE("log-peak-memory-stats", use_log),
    IDLE("metric-logger.*", use_log),
    IDLE("include-*-tokens-per-second", use_log),
    IDLE("include-tokens-per-second", use_log),
    IDLE("include-tkps", use_log),
    IDLE("plot-loss", use_log),
    IDLE("print-param-status", "one line says how many parameters are trained"),
    NONE("with-tracking", use_log),
    NONE("use-wandb", use_log),
    IDLE("wandb-*", use_log),
    NONE("use-mlflow", use_log),
    IDLE("mlflow-*", use_log),
    IDLE("hf-mlflow-log-artifacts", use_log),
    NONE("use-comet", use_log),
    IDLE("comet-*", use_log),
    NONE("use-swanlab", use_log),
    IDLE("swanlab-*", use_log),
    NONE("use-trackio", use_log),
    IDLE("trackio-*", use_log),
    NONE("use-tensorboard", use_log),
    NONE("use-otel-metrics", use_log),
    IDLE("otel-*", use_log),
    IDLE("gradio-*", no_inference),
    IDLE("profiler.*", use_trace),
    IDLE("profiler-*", use_trace),
    NONE("enable-torch-profiler", use_trace),
    NONE("profile-modules", use_trace),
    NONE("compute-accuracy", "evaluation gives loss and perplexity"),
    NONE("do-causal-lm-eval", "evaluation gives loss and perplexity"),
    IDLE("eval-causal-lm-metrics", "evaluation gives loss and perplexity"),
    NONE("do-bench-eval", "evaluation gives loss and perplexity"),
    IDLE("bench-*", "evaluation gives loss and perplexity"),
    NONE("eval-table-size", "evaluation gives loss and perplexity"),
    IDLE("eval-max-new-tokens", no_inference),
    IDLE("eval-num-beams", no_inference),
    NONE("generate-samples", no_inference),
    IDLE("num-generation-samples", no_inference),
    IDLE("generation-*", no_inference),
    IDLE("export-*", no_inference),
    IDLE("infer-backend", no_inference),
    IDLE("use-kv-cache", no_inference),
    IDLE("vllm*", no_inference),
    IDLE("sglang-*", no_inference),
    IDLE("do-sample", no_inference),
    IDLE("num-beams", no_inference),
    IDLE("length-penalty", no_inference),
    NONE("use-kt", no_experts),
    IDLE("kt-*", no_experts),
    NONE("strict", "every option is checked"),
    IDLE("debug-text-only", show_rows),
    IDLE("debug-num-examples", show_rows),
    NONE("sweep", "give each run its line"),
    NONE("cloud", "training runs on this machine"),
    NONE("shard", "a model is saved in files of a size that others read"),

    /* ---- launchers ---- */
    ONLY("num-gpus", one, more_ranks),
    ONLY("num-accelerators", one, more_ranks),
    ONLY("num-nodes", one, more_ranks),
    ONLY("num-machines", one, more_ranks),
    ONLY("num-processes", one, more_ranks),
    ONLY("nnodes", one, more_ranks),
    ONLY("nproc-per-node", "1|auto|gpu|cpu", more_ranks),
    ONLY("world-size", one, more_ranks),
    ONLY("n-gpu", one, more_ranks),
    ONLY("dp-*-size", one, more_ranks),
    ONLY("tensor-parallel-size", one, more_ranks),
    ONLY("context-parallel-size", one, more_ranks),
    ONLY("sequence-parallel-degree", one, more_ranks),
    ONLY("ray-num-workers", one, more_ranks),
    ONLY("include", "|localhost:0|localhost:1|localhost:2|localhost:3|localhost:4|localhost:5|localhost:6|localhost:7",
         "this version runs one rank, on the devices it is told by --device"),
    IDLE("exclude", no_ranks),
    IDLE("ring-attn-func", no_ranks),
    IDLE("heads-k-stride", no_ranks),
    IDLE("deepspeed-mpi", no_ranks),
    NONE("deepscale", "use --config FILE"),
    IDLE("deepspeed-*", no_ranks),
    IDLE("fsdp-*", no_ranks),
    IDLE("megatron-lm-*", no_ranks),
    IDLE("parallelism-config-*", no_ranks),
    NONE("use-parallelism-config", no_ranks),
    NONE("use-megatron-lm", no_ranks),
    NONE("use-fsdp", no_ranks),
    NONE("multi-gpu", no_ranks),
    IDLE("use-deepspeed", "--config takes its file"),
    NONE("tpu", no_ranks),
    IDLE("tpu-*", no_ranks),
    IDLE("no-tpu-cluster", no_ranks),
    IDLE("ddp", no_ranks),
    IDLE("master-addr", no_ranks),
    IDLE("master-port", no_ranks),
    IDLE("node-rank", no_ranks),
    IDLE("machine-rank", no_ranks),
    IDLE("main-process-*", no_ranks),
    IDLE("main-training-function", no_ranks),
    IDLE("same-network", no_ranks),
    IDLE("gpu-ids", no_ranks),
    IDLE("hostfile", no_ranks),
    IDLE("mpirun-*", no_ranks),
    IDLE("launcher*", no_ranks),
    IDLE("rdzv-*", no_ranks),
    IDLE("standalone", no_ranks),
    IDLE("max-restarts", no_ranks),
    IDLE("monitor-interval", no_ranks),
    IDLE("start-method", no_ranks),
    IDLE("event-log-handler", no_ranks),
    IDLE("role", no_ranks),
    IDLE("module", no_ranks),
    IDLE("no-python", no_ranks),
    IDLE("run-path", no_ranks),
    IDLE("log-dir", use_log),
    IDLE("redirects", no_ranks),
    IDLE("tee", no_ranks),
    IDLE("log-line-prefix-template", no_ranks),
    IDLE("logs-specs", no_ranks),
    IDLE("local-addr", no_ranks),
    IDLE("local-ranks-filter", no_ranks),
    IDLE("duplicate-*-filters", no_ranks),
    IDLE("numa-binding", no_ranks),
    IDLE("signals-to-handle", no_ranks),
    IDLE("shutdown-timeout", no_ranks),
    IDLE("virtual-local-rank", no_ranks),
    IDLE("print-completion", no_ranks),
    IDLE("enable-cpu-affinity", no_ranks),
    IDLE("no-local-rank", no_ranks),
    IDLE("no-ssh", no_ranks),
    IDLE("no-ssh-check", no_ranks),
    IDLE("ssh-port", no_ranks),
    IDLE("force-multi", no_ranks),
    IDLE("save-pid", no_ranks),
    IDLE("enable-each-rank-log", no_ranks),
    IDLE("bind-core*", no_ranks),
    IDLE("venv-script", no_ranks),
    IDLE("min-elastic-nodes", no_ranks),
    IDLE("max-elastic-nodes", no_ranks),
    IDLE("elastic-training", no_ranks),
    IDLE("autotuning", "outcore plan predicts what a choice needs"),
    IDLE("comment", no_ranks),
    IDLE("account", no_ranks),
    IDLE("vm", no_ranks),
    IDLE("env", no_ranks),
    IDLE("aws-*", no_ranks),
    NONE("use-ray", no_ranks),
    IDLE("ray-*", no_ranks),
    IDLE("resources-per-worker", no_ranks),
    NONE("use-mca", no_ranks),
    NONE("use-hyper-parallel", no_ranks),
    IDLE("hyper-parallel-args", no_ranks),
    IDLE("model.-component-", no_code),
    IDLE("tokenizer.-component-", no_code),
    IDLE("dataset.-component-", "the keys of a row say its form (docs/data.md)"),
};
/* clang-format on */

enum { ROWS = sizeof table / sizeof *table };

size_t oc_tools_count(void) { return ROWS; }
const oc_foreign_arg *oc_tools_at(size_t i) { return &table[i]; }

/* ---- finding ---- */

/* One '*' in the row's name stands for any letters. */
static bool names_it(const char *row, const char *name, size_t n) {
    const char *star = strchr(row, '*');
    size_t m = strlen(row);
    if (!star) return oc_options_same_name(row, m, name, n);
    size_t lead = (size_t)(star - row), tail = m - lead - 1;
    return n >= lead + tail && oc_options_same_name(row, lead, name, lead) &&
           oc_options_same_name(star + 1, tail, name + n - tail, tail);
}

static bool generates(oc_command command) {
    return command == OC_CMD_GENERATE || command == OC_CMD_PLAN_GENERATE;
}

static const oc_foreign_arg *find_among_generators(const char *name, size_t n) {
    for (size_t i = 0; i < oc_generators_count(); i++)
        if (names_it(oc_generators_at(i)->name, name, n)) return oc_generators_at(i);
    return NULL;
}

static bool takes_them(oc_command command) {
    return command == OC_CMD_TRAIN || command == OC_CMD_EVAL || command == OC_CMD_PLAN;
}

/* Rows with a star give way to those without. */
static const oc_foreign_arg *find_among_tools(const char *name, size_t n) {
    const oc_foreign_arg *found = NULL;
    for (size_t i = 0; i < ROWS; i++) {
        if (!names_it(table[i].name, name, n)) continue;
        if (!strchr(table[i].name, '*')) return &table[i];
        if (!found) found = &table[i];
    }
    return found;
}

const oc_foreign_arg *oc_foreign_find(const char *name, size_t n, oc_command command) {
    static const char eval_batch[] = "per-device-eval-batch-size"; /* eval's own micro-batch */
    const char *fixed;
    if (generates(command)) return find_among_generators(name, n);
    if (!takes_them(command)) return NULL;
    for (size_t i = 0; i < oc_trainer_count(); i++) {
        const oc_foreign_arg *a = oc_trainer_at(i);
        if (!names_it(a->name, name, n)) continue;
        return command == OC_CMD_EVAL && strcmp(a->name, eval_batch) == 0 ? NULL : a;
    }
    const oc_foreign_arg *a = find_among_tools(name, n);
    const oc_option *own = a && strchr(a->name, '*') ? oc_options_find(name, n, &fixed) : NULL;
    return own && own->commands != OC_FOR_FILES ? NULL : a;
}

const char *oc_foreign_nearest(const char *word, oc_command command) {
    const char *known[512];
    size_t n = 0;
    for (size_t i = 0; i < oc_trainer_count(); i++)
        known[n++] = oc_trainer_at(i)->name;
    for (size_t i = 0; i < ROWS && n < sizeof known / sizeof *known; i++)
        if (!strchr(table[i].name, '*')) known[n++] = table[i].name;
    return takes_them(command) ? oc_nearest(word, known, n) : NULL;
}

/* ---- values ---- */

/* "0.0" is "0". */
static bool same_value(const char *accepted, size_t n, const char *value) {
    char text[64], *end, *end_value;
    if (n >= sizeof text) return false;
    memcpy(text, accepted, n);
    text[n] = 0;
    if (strcasecmp(text, value) == 0) return true;
    double a = strtod(text, &end), b = strtod(value, &end_value);
    return n > 0 && *value && !*end && !*end_value && !(a < b) && !(a > b);
}

bool oc_foreign_accepts(const oc_foreign_arg *a, const char *value) {
    for (const char *p = a->accepted; p;) {
        size_t n = strcspn(p, "|");
        if (same_value(p, n, value)) return true;
        p = p[n] ? p + n + 1 : NULL;
    }
    return !a->accepted;
}
