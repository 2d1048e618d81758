#!/usr/bin/env python3
"""Write tests/data/config_keys.tsv: which keys of config.json change what transformers computes, a family at a time.

Run: tools/make_config_keys.py tests/data/config_keys.tsv (torch and transformers importable; half a minute).

Every key that a family's configuration class knows (its fields, the base class's, the other names it maps), every attribute
that is read while a tiny model is built and run, and every key of `carried`, which files on the hub hold, is given other
values. What a key does is what then happens to the same weights' logits:

  changes   another result, other shapes, or no model at all
  training  another result in training alone (dropout, and what is added to the loss)
  same      nothing
  strange   the class takes no other value than the one it has

Columns: model_type, key, "class", "read" or "carried", what it does.
"""
import inspect
import sys
from pathlib import Path

import torch
import transformers

transformers.logging.set_verbosity_error()

SIZES = dict(vocab_size=96, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             intermediate_size=48, max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=2)
FAMILIES = {
    "llama": SIZES, "mistral": SIZES, "qwen2": SIZES, "qwen3": dict(SIZES, head_dim=8), "phi3": SIZES,
    "gemma2": dict(SIZES, head_dim=8, query_pre_attn_scalar=8, sliding_window=4),
    "gemma3_text": dict(SIZES, head_dim=8, query_pre_attn_scalar=8, sliding_window=4),
    "gpt2": dict(vocab_size=96, n_embd=32, n_layer=2, n_head=4, n_positions=64, bos_token_id=1, eos_token_id=2),
    "opt": dict(vocab_size=96, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, ffn_dim=48, word_embed_proj_dim=32,
                max_position_embeddings=64, pad_token_id=0),
    "gpt_neox": dict(vocab_size=96, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
                     max_position_embeddings=64),
    "bloom": dict(vocab_size=96, hidden_size=32, n_layer=2, n_head=4),
}
# In files of the hub beside what their class knows: left by older libraries, by other programs, or by who made them.
CARRIED = """max_sequence_length pretraining_tp custom_pipelines learned_embeddings finetuned _flash_attn_2_enabled use_flash_attn
flash_attn rotary_dim rope_interleaved rope_theta rope_scaling partial_rotary_factor sliding_window use_sliding_window layer_types
max_window_layers head_dim mlp_bias attention_bias lm_head_bias logits_soft_cap final_logit_softcapping attn_logit_softcapping
layerdrop use_mrope full_attn_mod interpolate_factor seq_length n_ctx n_embd n_inner embd_pdrop resid_pdrop attn_pdrop
attention_softmax_in_fp32 masked_softmax_fusion bias_dropout_fusion skip_bias_add skip_bias_add_qkv offset_alibi unk_token_id
multi_query architecture model_max_length initializer_factor num_key_value_heads hidden_dropout attention_dropout dropout
summary_type summary_use_proj word_embed_proj_dim activation_dropout is_causal attention_chunk_size tie_encoder_decoder
cross_attention_hidden_size position_embedding_type pruned_heads output_past predict_special_tokens bos_token rms_norm_eps
layer_norm_eps embedding_size auto_map quantization_config qk_layernorm use_qk_norm mup_scale residual_scale logit_scale
embedding_multiplier attention_multiplier residual_multiplier logits_scaling rope_type rope_local_base_freq use_parallel_residual
query_pre_attn_scalar hidden_act hidden_activation use_bidirectional_attention sliding_window_size sliding_window_pattern
gradient_checkpointing original_max_position_embeddings max_length temperature do_sample min_length num_beams top_k top_p""".split()
VALUES = [True, False, 3, 0.5, 7.0, "odd", [1], {"odd": 1}, ["full_attention", "sliding_attention"], {"type": "linear", "factor": 2.0},
          {"rope_type": "linear", "factor": 2.0, "rope_theta": 100.0}, "relu", 16, 8]
# read by every model, and no matter of what it computes: how tensors lie in memory, what a call returns
QUIET = {"return_dict", "output_attentions", "output_hidden_states", "output_scores", "use_cache", "gradient_checkpointing"}

torch.manual_seed(0)
IDS = torch.randint(3, 96, (2, 24))


def other_values(config, key):
    return [v for v in VALUES if v != getattr(config, key, None)]


def make(model_type, **keys):
    config = transformers.AutoConfig.for_model(model_type, **keys)
    config._attn_implementation = "eager"
    return transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").float()


def run(model, training):
    torch.manual_seed(1)
    model.train(training)
    with torch.no_grad():
        out = model(IDS, labels=IDS, use_cache=False, return_dict=True)
    return out.logits, out.loss


def fill(model):
    torch.manual_seed(2)
    with torch.no_grad():
        for name, p in sorted(model.named_parameters()):
            p.copy_(torch.randn(p.shape) * 0.3)


def same(a, b):
    return all(x.shape == y.shape and torch.equal(x, y) for x, y in zip(a, b))


def verdict(model_type, sizes, key, shapes, plain, plain_training):
    tried, kinds = 0, set()
    for value in other_values(transformers.AutoConfig.for_model(model_type, **sizes), key):
        keys = dict(sizes)
        keys[key] = value
        try:
            transformers.AutoConfig.for_model(model_type, **keys)
        except Exception:  # noqa: BLE001 - no value of this key
            continue
        tried += 1
        try:
            model = make(model_type, **keys)
            fill(model)
            if {n: p.shape for n, p in model.named_parameters()} != shapes or not same(run(model, False), plain):
                kinds.add("changes")
            elif not same(run(model, True), plain_training):
                kinds.add("training")
        except Exception:  # noqa: BLE001 - the model is not built, or does not run
            kinds.add("changes")
    return "strange" if not tried else "changes" if "changes" in kinds else "training" if kinds else "same"


def reads(model_type, sizes):
    """Names of attributes that models read of their configuration."""
    names, base = set(), type(transformers.AutoConfig.for_model(model_type, **sizes))
    original = base.__getattribute__

    def noted(self, name):
        if "configuration" not in inspect.currentframe().f_back.f_code.co_filename:
            names.add(name)
        return original(self, name)

    base.__getattribute__ = noted
    try:
        run(make(model_type, **sizes), True)
    finally:
        del base.__getattribute__
    config = transformers.AutoConfig.for_model(model_type, **sizes)
    return {n for n in names if not callable(getattr(config, n, None)) and not n.startswith("__") and not hasattr(type(config), n)}


def keys_of(model_type, sizes):
    config = transformers.AutoConfig.for_model(model_type, **sizes)
    found = {k: "carried" for k in CARRIED}
    found.update({k: "read" for k in reads(model_type, sizes)})
    known = set(config.to_dict()) | set(config.attribute_map) | set(config.attribute_map.values())
    known |= set(inspect.signature(type(config).__init__).parameters) - {"self", "kwargs", "args"}
    found.update({k: "class" for k in known})
    hidden = {"model_type", "architectures", "transformers_version", "dtype", "torch_dtype", "base_config_key"} | QUIET
    return {k: v for k, v in found.items() if k not in hidden and (not k.startswith("_") or k == "_remove_final_layer_norm")}


def main():
    lines = [f"# transformers {transformers.__version__}: model_type, key, known how, what it does; written by tools/make_config_keys.py"]
    for model_type, sizes in FAMILIES.items():
        model = make(model_type, **sizes)
        fill(model)
        shapes = {n: p.shape for n, p in model.named_parameters()}
        plain, plain_training = run(model, False), run(model, True)
        for key, how in sorted(keys_of(model_type, sizes).items()):
            lines.append("\t".join((model_type, key, how, verdict(model_type, sizes, key, shapes, plain, plain_training))))
        print(model_type, len(lines), file=sys.stderr)
    Path(sys.argv[1]).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
