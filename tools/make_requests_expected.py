#!/usr/bin/env python3
"""Ids that rows of a batch file stand for, by transformers' tokenizer(text) and apply_chat_template.

    tools/make_requests_expected.py     writes tests/data/requests.json

Needs transformers. Tokenizers and templates are those of tests/data.
"""

import json
import os

from transformers import PreTrainedTokenizerFast

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "data")
# name of the tokenizer, its template, its special tokens
TOKENIZERS = [
    ("llama3", "chatml.jinja", {"bos_token": "<|begin|>", "eos_token": "<|end|>"}),
    ("llama2", "llama2.jinja", {"bos_token": "<s>", "eos_token": "</s>"}),
    ("gpt2", "chatml.jinja", {}),
]
TEXTS = ["Once upon a time", "", " a\n\n\tb", "café \U0001f600", "nul\u0000inside", "<s>twice"]
TALKS = [
    [{"role": "user", "content": "Hi, who are you?"}],
    [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "One"},
        {"role": "assistant", "content": "Two"},
        {"role": "user", "content": "Three\u0000"},
    ],
]


def read(*path):
    with open(os.path.join(DATA, *path), encoding="utf-8") as f:
        return f.read()


def cases(tokenizer):
    for text in TEXTS:
        yield {"row": {"prompt": text}, "ids": tokenizer(text)["input_ids"]}
    for talk in TALKS:
        text = tokenizer.apply_chat_template(talk, add_generation_prompt=True, tokenize=False)
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        yield {"row": {"messages": talk}, "ids": ids}


def main():
    out = []
    for name, template, special in TOKENIZERS:
        path = os.path.join(DATA, "tokenizers", name + ".json")
        tokenizer = PreTrainedTokenizerFast(tokenizer_file=path, **special)
        tokenizer.chat_template = read("templates", template)
        rows = list(cases(tokenizer))
        out.append({"tokenizer": name, "template": template, "special": special, "rows": rows})
    with open(os.path.join(DATA, "requests.json"), "w", encoding="utf-8") as f:
        json.dump(out, f, ensure_ascii=True, separators=(",", ":"))
        f.write("\n")


if __name__ == "__main__":
    main()
