"""Log-likelihoods of completions by every model in tests/data/models, as transformers computes them.

usage: make_scores_expected.py        writes tests/data/scores.json

Prompts are those of tests/data/generate.json (make_generate_expected.py): behind each its own greedy answer,
as far as no token of it is a close call, and random tokens. fp32, eager attention, one row at a time; the sum
of log_softmax in fp64 over the completion's tokens, and whether each was the likeliest.
"""
import json
import os

import torch
from transformers import AutoModelForCausalLM

HERE = os.path.join(os.path.dirname(__file__), "..", "tests", "data")
GREEDY, RANDOM = 24, 9
CLEAR = 1e-3


def score(model, prompt, completion):
    logits = model(torch.tensor([prompt + completion]), use_cache=False).logits[0].double()
    logits = logits[len(prompt) - 1:-1]
    wanted = torch.tensor(completion)
    chosen = torch.log_softmax(logits, -1)[torch.arange(len(completion)), wanted]
    greedy = bool((logits.argmax(-1) == wanted).all())
    return {"prompt": prompt, "completion": completion, "log_likelihood": float(f"{float(chosen.sum()):.10g}"),
            "greedy": greedy}


def clear(row):
    n = 0
    while n < min(GREEDY, len(row["answer"])) and row["gaps"][n] > CLEAR:
        n += 1
    return row["answer"][:n]


def run(name, generated):
    path = os.path.join(HERE, "models", name)
    model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, attn_implementation="eager").eval()
    rows = []
    for i, row in enumerate(generated["rows"]):
        room = generated["longest"] - len(row["prompt"])
        g = torch.Generator().manual_seed(31 + i)
        random = torch.randint(3, model.config.vocab_size, (min(RANDOM, room),), generator=g).tolist()
        rows += [score(model, row["prompt"], x) for x in (clear(row)[:room], random) if x]
    return {"longest": generated["longest"], "rows": rows}


def main():
    torch.set_num_threads(1)
    with open(os.path.join(HERE, "generate.json"), encoding="utf-8") as f:
        generated = json.load(f)
    with torch.no_grad():
        all = {name: run(name, generated[name]) for name in generated}
    print(sum(len(m["rows"]) for m in all.values()), "rows,",
          sum(r["greedy"] for m in all.values() for r in m["rows"]), "greedy")
    with open(os.path.join(HERE, "scores.json"), "w", encoding="utf-8") as f:
        json.dump(all, f, separators=(",", ":"))
        f.write("\n")


if __name__ == "__main__":
    main()
