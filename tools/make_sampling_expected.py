#!/usr/bin/env python3
"""Write tests/data/sampling.json: what transformers' logits processors leave of rows of logits.

usage: make_sampling_expected.py OUTPUT.json     (needs torch and transformers; checked with 5.24; no GPU)

{"logits": {NAME: [a number, or null for -infinity]},
 "top": [{"logits": NAME, "ids", "logprobs"}]: the most probable, by log_softmax in fp64
 "cases": [{"logits": NAME, what is asked for, "prompt", "answer": ids before,
            "greedy": the id that do_sample=False takes,
            "kept": how many keep a probability, "kept_ids": the sum of their ids,
            "ids", "p": some of them, or all ("whole") with "limit": chi-squared over DRAWS draws, where
            tokens expected fewer than 5 times count as one, is above it once in a million times}]}

The processors are those that generate() makes, in its order; presence and frequency penalties are
OpenAI's formula, put where generate() puts processors of the caller. Probabilities are softmax in fp64
of the scores that are left. Which of equal logits top-p drops is left open by the sort that it calls; here
it is the stable one: the smallest ids go first.
"""
import functools
import json
import math
import random
import sys

import torch
import transformers
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, LogitsProcessor, LogitsProcessorList

DRAWS = 100000
random.seed(3)
torch.manual_seed(3)
torch.set_num_threads(1)
DEFAULTS = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "repetition_penalty": 1.0,
            "presence_penalty": 0.0, "frequency_penalty": 0.0}


stable = functools.partial(torch.sort, stable=True)


class Presence(LogitsProcessor):
    """mu[j] - c[j] * frequency - (c[j] > 0) * presence, c: counts in what was generated."""

    def __init__(self, presence, frequency, start):
        self.presence, self.frequency, self.start = presence, frequency, start

    def __call__(self, input_ids, scores):
        counts = torch.bincount(input_ids[0, self.start:], minlength=scores.shape[-1]).double()
        return (scores.double() - (counts * self.frequency + (counts > 0) * self.presence)).float()


def vectors():
    ninf = float("-inf")
    holes = torch.randn(64) * 3
    holes[torch.rand(64) < 0.5] = ninf
    few = torch.full((300,), ninf)
    few[[7, 256, 299]] = torch.tensor([1.0, 2.0, 2.0])
    return {
        "normal": torch.round(torch.randn(257) * 3, decimals=4),
        "peaked": torch.round(torch.randn(300) * 6, decimals=3),
        "ties": torch.round(torch.randn(300) * 4) / 2,
        "equal": torch.zeros(64),
        "holes": torch.round(holes, decimals=3),
        "few": few,
        "bf16": (torch.randn(280) * 4 + 10).bfloat16().float(),
        "long": torch.round(torch.randn(1500) * 128) / 64,
        "zeros": torch.tensor([0.0, -0.0, 0.0, -0.0, -1.0, 0.0, 1e-30, -1e-30]),
        "two": torch.tensor([0.5, -0.25]),
        "one": torch.tensor([3.0]),
    }


def asked():
    some = [dict(), dict(temperature=0.7), dict(temperature=1e-4), dict(temperature=1e4), dict(temperature=1.5),
            dict(top_k=1), dict(top_k=5), dict(top_k=50), dict(top_k=1200), dict(top_k=5000),
            dict(top_p=0.0), dict(top_p=0.1), dict(top_p=0.5), dict(top_p=0.9), dict(top_p=0.95), dict(top_p=0.999),
            dict(min_p=0.01), dict(min_p=0.1), dict(min_p=0.5), dict(min_p=1.0),
            dict(temperature=0.6, top_k=20, top_p=0.95), dict(temperature=0.8, top_k=40, top_p=0.9, min_p=0.05),
            dict(temperature=2.0, top_p=0.7, min_p=0.2), dict(temperature=0.3, top_k=1100, top_p=0.97),
            dict(repetition_penalty=1.3), dict(repetition_penalty=0.5, temperature=0.9),
            dict(presence_penalty=1.5), dict(frequency_penalty=0.7), dict(presence_penalty=-2.0, frequency_penalty=2.0),
            dict(repetition_penalty=1.2, presence_penalty=0.4, frequency_penalty=0.3, temperature=0.8, top_k=30,
                 top_p=0.9, min_p=0.02)]
    return [DEFAULTS | x for x in some]


def processors(model, how, start, sample):
    mine = LogitsProcessorList([Presence(how["presence_penalty"], how["frequency_penalty"], start)])
    config = GenerationConfig(do_sample=sample, num_beams=1, **({} if not sample else {
        "temperature": how["temperature"], "top_k": how["top_k"], "top_p": how["top_p"], "min_p": how["min_p"]}),
        repetition_penalty=how["repetition_penalty"])
    config._eos_token_tensor = None
    return model._get_logits_processor(config, input_ids_seq_length=start, logits_processor=mine)


def limit(p):
    """The value that chi-squared of these bins is above once in a million times."""
    often = int((p * DRAWS >= 5).sum())
    df = often + int((p * DRAWS < 5).any()) - 1
    if df == 0:
        return 1.0
    low, high = 0.0, 1e6
    for _ in range(200):
        x = (low + high) / 2
        tail = torch.special.gammaincc(torch.tensor(df / 2, dtype=torch.float64), torch.tensor(x / 2, dtype=torch.float64))
        low, high = (x, high) if tail > 1e-6 else (low, x)
    return high


def some_of(p, whole):
    kept = torch.nonzero(p).flatten()
    if whole or len(kept) <= 16:
        return kept
    order = kept[torch.argsort(p[kept])]
    pick = torch.cat([order[:5], order[-6:], kept[torch.randperm(len(kept))[:5]]])
    return torch.unique(pick)


def case(model, name, logits, how, whole):
    prompt, answer = ([random.randrange(len(logits)) for _ in range(n)] for n in (12, 9))
    answer += answer[:4]
    ids = torch.tensor([prompt + answer])
    scores = processors(model, how, len(prompt), True)(ids, logits[None].clone())[0]
    p = torch.softmax(scores.double(), dim=-1)
    greedy = processors(model, how, len(prompt), False)(ids, logits[None].clone())[0]
    kept, some = torch.nonzero(p).flatten(), some_of(p, whole)
    row = {"logits": name} | {k: v for k, v in how.items() if v != DEFAULTS[k]}
    row |= {"prompt": prompt, "answer": answer, "greedy": int(torch.argmax(greedy)),
            "kept": len(kept), "kept_ids": int(kept.sum()), "ids": some.tolist(), "p": [float(f"{x:.12g}") for x in p[some].tolist()]}
    return row | ({"whole": True, "limit": limit(p[kept])} if whole else {})


def top(name, logits):
    values = torch.log_softmax(logits.double(), dim=-1)
    order = stable(logits, descending=True).indices[:min(20, len(logits))]
    return {"logits": name, "ids": order.tolist(),
            "logprobs": [x if math.isfinite(x) else None for x in values[order].tolist()]}


def main():
    assert transformers.__version__.startswith("5."), transformers.__version__
    model = LlamaForCausalLM(LlamaConfig(hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1,
                                         vocab_size=8))
    rows = vectors()
    torch.sort = stable
    cases = [case(model, name, v, how, False) for name, v in rows.items() for how in asked()]
    for name, how in [("normal", dict(top_p=0.9)), ("peaked", dict(temperature=1.5, top_k=40)), ("ties", dict(min_p=0.1)),
                      ("bf16", dict()), ("long", dict(top_p=0.8, repetition_penalty=1.2))]:
        cases.append(case(model, name, rows[name], DEFAULTS | how, True))
    out = {"logits": {k: [float(f"{x:.9g}") if math.isfinite(x) else None for x in v.tolist()] for k, v in rows.items()},
           "top": [top(k, v) for k, v in rows.items()], "cases": cases}
    assert all(torch.equal(torch.tensor([float("-inf") if x is None else x for x in out["logits"][k]]), v)
               for k, v in rows.items())
    with open(sys.argv[1], "w", encoding="utf-8") as f:
        f.write('{"logits": {\n' + ",\n".join(f'"{k}": {json.dumps(v)}' for k, v in out["logits"].items()))
        f.write('},\n"top": [\n' + ",\n".join(map(json.dumps, out["top"])))
        f.write('],\n"cases": [\n' + ",\n".join(map(json.dumps, cases)) + "]}\n")


if __name__ == "__main__":
    main()
