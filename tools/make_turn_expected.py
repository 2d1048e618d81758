#!/usr/bin/env python3
"""What axolotl trains where a message asks for it with `training`, whoever wrote it.

    PYTHONPATH=DIR tools/make_turn_expected.py     writes tests/data/templates/axolotl_turns.json

DIR: axolotl's wheel, unpacked; needs jinja2 and transformers besides. axolotl's own chat_template strategy labels the
tokens; of what it imports, only what reads no row is stood in for. Answers are not trained in these conversations, for
the end of an answer is cut as TRL cuts it, not as axolotl.
"""
import json
import logging
import os
import sys
import types

import make_mask_expected as expected
import check_masks as masks

DATA = os.path.join(expected.HERE, "..", "tests", "data", "templates")
NAMES = ("chatml", "gemma", "phi3", "phi4", "zephyr", "vicuna", "llama2", "granite")
USER = {"role": "user", "content": "What is 2+2?", "train": True}
ANSWER = {"role": "assistant", "content": "It is 4.", "train": False}
CONVERSATIONS = {
    "a user": [USER, ANSWER],
    "spaces": [{**USER, "content": "  a\n b "}, ANSWER],
    "the second": [{**USER, "train": False}, ANSWER, {**USER, "content": "And 3+3?"}, {**ANSWER, "content": "6."}],
    "both": [USER, ANSWER, {**USER, "content": "And 3+3?"}, {**ANSWER, "content": "6."}],
    "the last": [{**USER, "train": False}, ANSWER, {**USER, "content": "Thanks."}],
    "system": [{"role": "system", "content": "Be brief.", "train": True}, {**USER, "train": False}, ANSWER],
    "like what stands in for it": [{**USER, "content": "[[dummy]]"}, ANSWER],
    "none": [{**USER, "train": False}, ANSWER],
}


def stand_in(name, **members):
    module = types.ModuleType(name)
    module.__path__ = []
    vars(module).update(members)
    sys.modules[name] = module


def strategy_module():
    class Base:
        def __init__(self, prompter, tokenizer, train_on_inputs=False, sequence_len=2048):
            self.prompter, self.tokenizer = prompter, tokenizer
            self.train_on_inputs, self.sequence_len = train_on_inputs, sequence_len

    import importlib.util
    folder = list(importlib.util.find_spec("axolotl").submodule_search_locations)[0]
    for name in ("axolotl.prompt_strategies", "axolotl.utils"):
        stand_in(name)
        sys.modules[name].__path__ = [os.path.join(folder, name.split(".")[1])]
    stand_in("addict", Dict=dict)
    stand_in("axolotl.prompt_tokenizers", PromptTokenizingStrategy=Base)
    stand_in("axolotl.prompters", IGNORE_TOKEN_ID=-100, Prompter=object)
    stand_in("axolotl.utils.chat_templates", get_chat_template_from_config=None)
    stand_in("axolotl.utils.logging", get_logger=logging.getLogger)
    stand_in("axolotl.utils.schemas")
    stand_in("axolotl.utils.schemas.datasets", DatasetConfig=object)
    import axolotl.prompt_strategies.chat_template as module
    return module


def labelled(module, t, template, messages):
    prompter = module.ChatTemplatePrompter(t, template, message_field_training="train")
    strategy = module.ChatTemplateStrategy(prompter, t, False, 2048, ["assistant"], "turn")
    try:
        row = strategy.tokenize_prompt({"messages": messages})
    except Exception:  # a template's own complaints
        return None
    return row["input_ids"], [label != -100 for label in row["labels"]]


def main():
    masks.SPECIAL = {"bos_token": "<s>", "eos_token": "<|im_end|>", "pad_token": "<pad>"}
    t, module, out = masks.tokenizer(), strategy_module(), []
    for name in NAMES:
        with open(os.path.join(DATA, name + ".jinja"), encoding="utf-8") as f:
            template = f.read()
        cases = {}
        for where, messages in CONVERSATIONS.items():
            got = labelled(module, t, template, messages)
            if got:
                n, trained = expected.spans(t, *got)
                cases[where] = {"bytes": n, "trained": trained}
        out.append({"name": name, "template": template, "cases": cases})
    file = {"source": "axolotl's chat_template strategy, roles_to_train assistant, train_on_eos turn",
            "tokenizer": json.loads(t.backend_tokenizer.to_str()), "names": masks.SPECIAL, "templates": out,
            "conversations": {k: {"messages": m, "tools": None} for k, m in CONVERSATIONS.items()}}
    with open(os.path.join(DATA, "axolotl_turns.json"), "w", encoding="utf-8") as f:
        json.dump(file, f, separators=(",", ":"), ensure_ascii=False)
        f.write("\n")
    print({x["name"]: {k: v["trained"] for k, v in x["cases"].items()} for x in out})


if __name__ == "__main__":
    main()
