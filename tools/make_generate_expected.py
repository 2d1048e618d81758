"""Greedy text of every model in tests/data/models, as transformers goes on from four prompts.

usage: make_generate_expected.py      writes tests/data/generate.json

Each sequence alone, fp32, eager attention, with a cache of keys and values, end tokens ignored. Per token:
the gap between the two largest logits, so that a test may ask for equality wherever it is larger than
rounding; of the last token also the logits themselves, of the first ids. Sequences go past sliding windows,
and past the trained positions where the model's kind of positions allows that. Random models like to repeat
themselves: of several prompts the one that is answered with the most different tokens, none of them a close
call, is taken.
"""
import glob
import json
import os

import torch
from transformers import AutoConfig, AutoModelForCausalLM

HERE = os.path.join(os.path.dirname(__file__), "..", "tests", "data")
LENGTHS = (1, 5, 17, 40)
NEW, LOGITS = 64, 24
TRIES, CLEAR = 12, 1e-3


def rope_kinds(config):
    kind = getattr(config, "rope_parameters", None) or {}
    kinds = [kind] if "rope_type" in kind else list(kind.values())
    return [k for k in kinds if isinstance(k, dict)]


def lengths_of(config):
    """Prompts' lengths, and how long a sequence may become.

    longrope has other frequencies for short sequences than for long ones, and the library changes them in
    the midst of one: here all are short, or long from the start.
    """
    most = config.max_position_embeddings if config.model_type != "bloom" else LENGTHS[-1] + NEW
    for k in rope_kinds(config):
        short = k.get("original_max_position_embeddings")
        if k.get("rope_type") == "longrope" and short:
            return (LENGTHS, short) if short >= 24 else ([short + n for n in (1, 5, 9)], most)
        if k.get("rope_type") == "dynamic":
            return LENGTHS, most
    return LENGTHS, most if config.model_type in ("gpt2", "opt") else LENGTHS[-1] + NEW


def prompt(vocab, n, seed):
    g = torch.Generator().manual_seed(seed)
    return torch.randint(3, vocab, (1, n), generator=g)


def go_on(model, ids, new):
    out, gaps, cache, step = [], [], None, ids
    for _ in range(new):
        r = model(step, past_key_values=cache, use_cache=True)
        cache, logits = r.past_key_values, r.logits[0, -1]
        top = logits.topk(2).values
        out.append(int(logits.argmax()))
        gaps.append(float(f"{float(top[0] - top[1]):.3g}"))
        step = torch.tensor([[out[-1]]])
    return out, gaps, [float(f"{x:.6g}") for x in logits[:LOGITS].tolist()]


def most_varied(model, vocab, n, new, seed):
    best, score = None, None
    for k in range(TRIES):
        ids = prompt(vocab, n, seed + k)
        out, gaps, logits = go_on(model, ids, new)
        now = (min(gaps) > CLEAR, len(set(out)), min(gaps))
        if best is None or now > score:
            best = {"prompt": ids[0].tolist(), "answer": out, "gaps": gaps, "logits": logits}
            score = now
    return best


def run(path):
    config = AutoConfig.from_pretrained(path)
    model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, attn_implementation="eager").eval()
    lengths, most = lengths_of(config)
    rows = []
    for i, n in enumerate(lengths):
        new = min(NEW, most - n)
        if new < 1:
            continue
        rows.append(most_varied(model, config.vocab_size, n, new, 100 * i + 7))
    return {"longest": most, "rows": rows}


def main():
    torch.set_num_threads(1)
    all = {}
    with torch.no_grad():
        for path in sorted(glob.glob(os.path.join(HERE, "models", "*", "config.json"))):
            path = os.path.dirname(path)
            if not glob.glob(os.path.join(path, "model*.safetensors")):
                continue
            name = os.path.basename(path)
            all[name] = run(path)
            print(name, [len(set(r["answer"])) for r in all[name]["rows"]])
    with open(os.path.join(HERE, "generate.json"), "w", encoding="utf-8") as f:
        json.dump(all, f, separators=(",", ":"))
        f.write("\n")


if __name__ == "__main__":
    main()
