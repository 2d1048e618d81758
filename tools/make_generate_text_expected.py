"""What two small models with tokenizers answer in conversations, and what completions they expect.

usage: make_generate_text_expected.py      writes tests/data/generate/

A directory each: model.safetensors (random, bf16), config.json, and a tokenizer of tests/data/data with its chat
template; expected.json has
    chats   messages; ids of the conversation rendered with a generation prompt; `answer`: 48 greedy tokens, ends
            ignored, with the gap of each between the two largest logits; `text` and `finish`: what is read up to
            the first end token, specials left out
    scores  prompt, completion; ids of both as one text, of which the first n_prompt are the prompt's (they begin
            to differ from those of the prompt alone there); the log-probability of each token of the
            completion, their sum, whether each was the most probable one, and `end`, that of eos after them
All in fp32 with eager attention, a sequence alone.
"""
import json
import os
import shutil

import torch
from transformers import AutoTokenizer

from expected_fixtures import decoder
from expected_models import load_model, write_model
from make_generate_expected import HERE, go_on

OUT = os.path.join(HERE, "generate")
NEW = 48
# The seeds make answers of many different tokens, of which one ends by itself (search() found them).
MODELS = {
    "llama": ("llama", "bytelevel", decoder(
        484, 32, 48, 2, 4, 2, max_position_embeddings=256, tie_word_embeddings=True), 8),
    "mistral": ("mistral", "sentencepiece", decoder(
        661, 32, 48, 2, 4, 2, max_position_embeddings=256, sliding_window=24), 2),
}
CHATS = [
    [{"role": "user", "content": "What is a tide?"},
     {"role": "assistant", "content": "The sea, going up and down."},
     {"role": "user", "content": "Why? Say it in one line."}],
    [{"role": "system", "content": "Answer briefly."},
     {"role": "user", "content": "Hello, world"},
     {"role": "assistant", "content": "caf\u00e9 \U0001f600"},
     {"role": "user", "content": "2+2?"}],
    [{"role": "user", "content": "dog"}],
]
SCORES = [("What is 2+2? ", "It is 4."), ("What is 2+2?", " It is 4."), ("", "all of it"), ("Name", "d"),
          ("the lazy ", "dog"), ("\U0001f600 caf", "\u00e9 x"),
          ("A prompt that is longer than the window of the layers, with more words in it than that", " and more")]


def chat(model, tok, messages):
    ids = tok.apply_chat_template(messages, add_generation_prompt=True, tokenize=True, return_dict=False)
    answer, gaps, _ = go_on(model, torch.tensor([ids]), NEW)
    end = answer.index(tok.eos_token_id) if tok.eos_token_id in answer else NEW
    return {"messages": messages, "ids": ids, "answer": answer, "gaps": gaps,
            "text": tok.decode(answer[:end], skip_special_tokens=True),
            "finish": "stop" if end < NEW else "length"}


def score(model, tok, prompt, completion):
    ids, alone = tok(prompt + completion)["input_ids"], tok(prompt)["input_ids"]
    n = next((i for i, (a, b) in enumerate(zip(ids, alone)) if a != b), min(len(ids), len(alone)))
    logits = model(torch.tensor([ids]), use_cache=False).logits[0]
    logp = torch.log_softmax(logits, -1)
    each = [float(logp[i - 1, ids[i]]) for i in range(n, len(ids))]
    return {"prompt": prompt, "completion": completion, "ids": ids, "n_prompt": n,
            "logprobs": [float(f"{x:.7g}") for x in each], "sum": float(f"{sum(each):.7g}"),
            "greedy": all(int(logits[i - 1].argmax()) == ids[i] for i in range(n, len(ids))),
            "end": float(f"{float(logp[-1, tok.eos_token_id]):.7g}")}


def most_probable(model, tok):
    """A prompt and the token after it, where that is whole text and both together are the same ids."""
    for prompt in ("A tide", "dog", "Hello", "Name", "the lazy", "sea", "What is", "all of", "2+2", "x y"):
        ids = tok(prompt)["input_ids"]
        best = int(model(torch.tensor([ids]), use_cache=False).logits[0, -1].argmax())
        text = tok.decode(ids + [best], skip_special_tokens=True)
        if text.startswith(prompt) and tok(text)["input_ids"] == ids + [best]:
            return prompt, text[len(prompt):]
    raise SystemExit("no prompt has such a token")


def write(name, seed):
    family, tokenizer, settings, _ = MODELS[name]
    path = os.path.join(OUT, name)
    write_model(path, family, settings, {"dtype": "bfloat16"}, seed)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(os.path.join(HERE, "data", tokenizer, file), path)
    return path


def run(path):
    model, tok = load_model(path), AutoTokenizer.from_pretrained(path)
    return {"chats": [chat(model, tok, m) for m in CHATS],
            "scores": [score(model, tok, *row) for row in [*SCORES, most_probable(model, tok)]]}


def search(name, most=200):
    """The first seed whose answers are varied and clear, and of which one ends early and others do not."""
    for seed in range(most):
        got = run(write(name, seed))["chats"]
        ends = [c["finish"] == "stop" for c in got]
        varied = min(len(set(c["answer"])) for c in got) >= 10
        if any(ends) and not all(ends) and varied and min(min(c["gaps"]) for c in got) > 1e-3 and all(
                len(c["text"]) > 8 for c in got):
            return seed
    return None


def main():
    torch.set_num_threads(1)
    with torch.no_grad():
        for name, (_, _, _, seed) in MODELS.items():
            path = write(name, seed)
            expected = run(path)
            with open(os.path.join(path, "expected.json"), "w", encoding="utf-8") as f:
                json.dump(expected, f, separators=(",", ":"))
                f.write("\n")
            print(name, [(len(c["ids"]), len(set(c["answer"])), min(c["gaps"]), c["finish"])
                         for c in expected["chats"]])
            print(name, [(s["n_prompt"], len(s["ids"]), s["sum"], s["greedy"]) for s in expected["scores"]])


if __name__ == "__main__":
    main()
