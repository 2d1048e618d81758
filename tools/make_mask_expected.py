#!/usr/bin/env python3
"""What is trained in conversations, by TRL's training templates under transformers' assistant masks.

    tools/make_mask_expected.py     writes tests/data/templates/trl_masks.json

Needs trl and transformers. Templates of models under terms of their own are left to check_masks.py. Each other copy that TRL has of a shipped template, with {% generation %} blocks around what it
trains, goes into the file as it is (TRL: Apache License 2.0), with its length and the bytes that are trained for each
conversation of check_masks.py. A shipped template of the same texts follows it, unless its answers are not trained
from the end of its generation prompt on: TRL's copies draw that border by family (docs/data.md), and check_masks.py
prints them. Conversations of which a template does not write all are refused here, and left out.
"""
import glob
import json
import os

import trl

import check_masks as masks

HERE = os.path.dirname(os.path.abspath(__file__))
APART = {
    "diffusion_gemma.jinja": "an answer goes on behind a tool's response without a header when asked, with one in a text",
    "glm4moe.jinja": "its copy trains the next turn's header, at which these models stop",
}
ELSEWHERE = ("cohere", "diffusion_gemma", "gemma", "lfm2", "llama", "nemotron")  # terms of their own
THOUGHTS = ("<think>", "<think>\n", "<think></think>", "<think>\n\n</think>\n\n")
OUT = os.path.join(HERE, "..", "tests", "data", "templates", "trl_masks.json")


def spans(t, ids, mask):
    """The bytes of the text and [begin, end) of what is trained; every id but the special ones is a byte."""
    at, out = 0, []
    for i, on in zip(ids, mask):
        end = at + (len(t.convert_ids_to_tokens(i)) if i in t.all_special_ids else 1)
        if on and out and out[-1][1] == at:
            out[-1][1] = end
        elif on:
            out.append([at, end])
        at = end
    return at, out


def cases(t, template, other):
    """Of `template`, what `other`, the same with marks, trains."""
    out = {}
    for where, (messages, tools) in masks.CONVERSATIONS.items():
        want, own = masks.reference(t, other, messages, tools), masks.reference(t, template, messages, tools)
        if want and own and want[1] is not None and any(want[1]) and list(want[0]) == list(own[0]) \
                and not masks.is_lost(t, template, messages, tools):
            n, trained = spans(t, *want)
            out[where] = {"bytes": n, "trained": trained}
    return out


def alike(t, name, template, wanted):
    """Whether what is trained begins behind the generation prompt of the messages before, and before a thought there."""
    if name in APART:
        return False
    for where, case in wanted.items():
        messages, tools = masks.CONVERSATIONS[where]
        first = next(i for i, m in enumerate(messages) if m["role"] == "assistant")
        text = t.apply_chat_template(messages[:first], tools=tools, chat_template=template, tokenize=False,
                                     add_generation_prompt=True)
        for thought in THOUGHTS:
            text = text.removesuffix(thought)
        if len(text.encode()) != case["trained"][0][0]:
            return False
    return True


def main():
    t, out = masks.tokenizer(), []
    for path in sorted(glob.glob(os.path.join(masks.TEMPLATES, "*_training.jinja"))):
        shipped = path.replace("_training.jinja", ".jinja")
        for name in (path, shipped):
            if not os.path.exists(name) or os.path.basename(name).startswith(ELSEWHERE):
                continue
            template, marked = open(name, encoding="utf-8").read(), open(path, encoding="utf-8").read()
            found = cases(t, template, marked)
            if found and (name == path or alike(t, os.path.basename(name), template, found)):
                out.append({"name": os.path.basename(name), "template": template, "cases": found})
    file = {"source": f"TRL {trl.__version__}, Apache License 2.0, Copyright The HuggingFace Team",
            "tokenizer": json.loads(t.backend_tokenizer.to_str()), "names": masks.SPECIAL, "templates": out,
            "conversations": {k: {"messages": m, "tools": tools} for k, (m, tools) in masks.CONVERSATIONS.items()}}
    with open(OUT, "w", encoding="utf-8") as f:
        json.dump(file, f, separators=(",", ":"), ensure_ascii=False)
        f.write("\n")
    print(f"{len(out)} templates, {sum(len(x['cases']) for x in out)} cases")


if __name__ == "__main__":
    main()
