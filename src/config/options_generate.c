/* options_generate.c - what lines of other programs that generate ask for beside our options:
 * transformers (run_generation, generate's arguments), vLLM, llama.cpp, ZeRO-Inference. Arguments
 * that are options here are aliases in options.c. */
#include "config/options.h"

static const char off[] = "false|0|none|null|no|";
static const char one[] = "1|none|null";
static const char decides[] = "the plan decides what lies where, results are the same";
static const char no_ranks[] = "this version runs one rank";
static const char no_torch[] = "it arranges work of PyTorch";
static const char no_code[] =
    "config.json selects one of the built-in families, no other code is run";
static const char no_quant[] =
    "quantized weights are not there; --device-memory streams what does not fit, in bf16";
static const char no_beams[] = "answers are drawn or greedy, one a prompt";
static const char no_adapters[] = "adapters are not there; merge it into the model first";
static const char no_draft[] = "each token is computed by the model itself";
static const char shared[] = "prompts with a common beginning share it";

#define IDLE(name, why)                                                                            \
    { name, NULL, why, NULL }
#define ONLY(name, accepted, why)                                                                  \
    { name, accepted, why, NULL }
#define NONE(name, why)                                                                            \
    { name, off, why, NULL }

/* clang-format off */
static const oc_foreign_arg table[] = {
    /* transformers */
    ONLY("num-beams", one, no_beams),
    ONLY("num-beam-groups", one, no_beams),
    ONLY("num-return-sequences", one, no_beams),
    ONLY("n", one, no_beams),
    ONLY("best-of", one, no_beams),
    ONLY("length-penalty", "1|0", no_beams),
    NONE("penalty-alpha", no_beams),
    NONE("early-stopping", no_beams),
    ONLY("typical-p", "1", "use --top-p or --min-p"),
    NONE("epsilon-cutoff", "use --min-p"),
    NONE("eta-cutoff", "use --min-p"),
    NONE("top-h", "use --top-p or --min-p"),
    NONE("no-repeat-ngram-size", "use --repetition-penalty or --frequency-penalty"),
    ONLY("encoder-repetition-penalty", "1", "use --repetition-penalty"),
    NONE("bad-words-ids", "no token is forbidden"),
    NONE("assistant-model", no_draft),
    NONE("prompt-lookup-num-tokens", no_draft),
    ONLY("use-cache", "true|1", "keys and values are always kept"),
    IDLE("cache-implementation", "keys and values lie in pages"),
    IDLE("padding-text", "it is for models that need a longer prompt"),
    IDLE("model-type", "config.json selects the family"),
    IDLE("attn-implementation", "attention is computed by one kernel, exactly"),
    IDLE("device-map", decides),
    IDLE("max-memory", "--device-memory and --host-memory are the budgets"),
    IDLE("offload-folder", decides),
    IDLE("low-cpu-mem-usage", decides),
    IDLE("trust-remote-code", no_code),
    NONE("load-in-4bit", no_quant),
    NONE("load-in-8bit", no_quant),
    IDLE("torch-compile", no_torch),
    IDLE("jit", no_torch),

    /* vLLM */
    ONLY("tensor-parallel-size", one, no_ranks),
    ONLY("pipeline-parallel-size", one, no_ranks),
    ONLY("data-parallel-size", one, no_ranks),
    IDLE("gpu-memory-utilization", "--device-memory is the budget"),
    IDLE("cpu-offload-gb", decides),
    IDLE("swap-space", decides),
    IDLE("enforce-eager", no_torch),
    ONLY("enable-prefix-caching", "true|1", shared),
    ONLY("enable-chunked-prefill", "true|1", "prompts always go in chunks beside answers"),
    IDLE("disable-log-stats", "--quiet leaves out progress"),
    IDLE("disable-log-requests", "requests are not logged"),
    ONLY("kv-cache-dtype", "auto", "keys and values are of --dtype"),
    ONLY("quantization", "none|null|auto", no_quant),
    NONE("enable-lora", no_adapters),
    IDLE("load-format", "weights are read from safetensors"),
    NONE("speculative-config", no_draft),
    IDLE("generation-config", "the model's generation_config.json is followed"),
    ONLY("block-size", "none|null", "--page-tokens N, a multiple of 16, is meant"),

    /* llama.cpp */
    IDLE("gpu-layers", "--resident-blocks N keeps blocks on the device"),
    IDLE("n-gpu-layers", "--resident-blocks N keeps blocks on the device"),
    IDLE("flash-attn", "attention is computed by one kernel, exactly"),
    IDLE("mlock", decides),
    IDLE("no-mmap", decides),
    NONE("lora", no_adapters),

    /* ZeRO-Inference */
    IDLE("cpu-offload", "weights that do not fit stream; --weights-home host asks for it"),
    NONE("disk-offload", "states at home on disk are not there"),
    ONLY("quant-bits", "16|none", no_quant),
    IDLE("pin-memory", no_torch),
    IDLE("local-rank", no_ranks),
    ONLY("num-gpus", one, no_ranks),
};
/* clang-format on */

enum { ROWS = sizeof table / sizeof *table };

size_t oc_generators_count(void) { return ROWS; }
const oc_foreign_arg *oc_generators_at(size_t i) { return &table[i]; }
