"""What is trained in conversations, beside TRL's: its package has chat templates as models ship them, and of many a
copy with {% generation %} blocks around what it trains.

usage: check_masks.py [PROGRAM]     needs trl and transformers; PROGRAM: default build/outcore

Each conversation is rendered by the shipped template and by the copy. Where both texts are the same, the characters
that transformers' mask marks in the copy must be those that `outcore tokenize --show-labels` trains with the shipped
template, and with the copy. Conversations of which a template does not write all are left out. Prints what differs, by template;
exit code 1 then.
"""
import copy
import glob
import json
import os
import subprocess
import sys
import tempfile

import trl
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

TEMPLATES = os.path.join(os.path.dirname(trl.__file__), "chat_templates")
CALL = {"type": "function", "function": {"name": "get_weather", "arguments": {"city": "Oslo"}}}
TOOL = {"type": "function", "function": {
    "name": "get_weather", "description": "The weather.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}
USER, ANSWER = {"role": "user", "content": "What is 2+2?"}, {"role": "assistant", "content": "It is 4."}
CONVERSATIONS = {
    "one turn": ([USER, ANSWER], None),
    "system": ([{"role": "system", "content": "Be brief."}, USER, ANSWER], None),
    "two turns": ([USER, ANSWER, {"role": "user", "content": "And 3+3?"}, {"role": "assistant", "content": "6, of course."}], None),
    "spaces": ([{"role": "user", "content": " a "}, {"role": "assistant", "content": "\n b\n\n"}], None),
    "same words": ([{"role": "user", "content": "4"}, {"role": "assistant", "content": "4"}], None),
    "call": ([USER, {"role": "assistant", "content": "", "tool_calls": [CALL]}], [TOOL]),
    "call and response": ([USER, {"role": "assistant", "content": "", "tool_calls": [CALL]},
                           {"role": "tool", "name": "get_weather", "content": "rain"},
                           {"role": "assistant", "content": "Rain in Oslo."}], [TOOL]),
    "two calls": ([USER, {"role": "assistant", "content": "Both.", "tool_calls": [CALL, CALL]},
                   {"role": "tool", "name": "get_weather", "content": "rain"},
                   {"role": "tool", "name": "get_weather", "content": "sun"},
                   {"role": "assistant", "content": "Rain, then sun."}, {"role": "user", "content": "Thanks."}], [TOOL]),
    "ends with user": ([USER, ANSWER, {"role": "user", "content": "And 3+3?"}], None),
    "thoughts": ([{"role": "system", "content": "Be brief."}, USER,
                  {"role": "assistant", "reasoning_content": "Two and two.", "content": "It is 4."},
                  {"role": "user", "content": "And 3+3?"},
                  {"role": "assistant", "reasoning_content": "Three and three.", "content": "6."}], None),
    "thought": ([USER, {"role": "assistant", "reasoning_content": "Two and two.", "content": "It is 4."}], None),
}
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}


def tokenizer():
    """Every byte a token, so that what is trained is told to the byte."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    t = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    t.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=t, **SPECIAL)


def reference(t, template, messages, tools):
    """The text and whether each of its tokens is trained; None where the template refuses."""
    try:
        out = t.apply_chat_template(messages, tools=tools, chat_template=template, tokenize=True, return_dict=True,
                                    return_assistant_tokens_mask="{% generation" in template or "{%- generation" in template)
        return out["input_ids"], out.get("assistant_masks")
    except Exception:  # a template's own complaints come as any error
        return None


def changes(messages):
    """The conversation with one text or one call's name changed, for each of them."""
    for i, m in enumerate(messages):
        for k in range(-1 if m["content"] else 0, len(m.get("tool_calls", []))):
            changed = copy.deepcopy(messages)
            if k < 0:
                changed[i]["content"] += "0zq"
            else:
                changed[i]["tool_calls"][k]["function"]["name"] += "0zq"
            yield changed


def is_lost(t, template, messages, tools):
    """Whether the template writes nothing of some text or call."""
    before = list(reference(t, template, messages, tools)[0])
    others = (reference(t, template, changed, tools) for changed in changes(messages))
    return any(after and list(after[0]) == before for after in others)


def ours(program, folder, template, messages, tools):
    with open(os.path.join(folder, "chat_template.jinja"), "w", encoding="utf-8") as f:
        f.write(template)
    data = os.path.join(folder, "rows.jsonl")
    with open(data, "w", encoding="utf-8") as f:
        f.write(json.dumps({"messages": messages, **({"tools": tools} if tools else {})}) + "\n")
    done = subprocess.run([program, "tokenize", "--model", folder, "--data", data, "--show-labels", "--json",
                           "--lost-messages", "drop"], capture_output=True, text=True, check=False)
    if done.returncode:
        return done.stderr.strip().split("\n")[-1]
    row = json.loads(done.stdout.strip().split("\n")[0])
    return row["input_ids"] if "input_ids" in row else row["ids"], row["labels"]


def marked(t, ids, mask):
    """The text with what is trained in brackets."""
    out, on = "", False
    for i, m in zip(ids, mask):
        out += ("⟦" if m and not on else "⟧" if on and not m else "") + t.decode([i], skip_special_tokens=False)
        on = bool(m)
    return out + ("⟧" if on else "")


def check(program, t, folder, name, template, of, messages, tools, where):
    got = ours(program, folder, template, messages, tools)
    if isinstance(got, str):
        print(f"{name}, {where}: {got}")
        return 1
    ids, mask = of
    trained = [label >= 0 for label in got[1]]
    if list(got[0]) == list(ids) and trained == [bool(m) for m in mask]:
        return 0
    print(f"{name}, {where}:\n  trl     {marked(t, ids, mask)!r}\n  outcore {marked(t, got[0], trained)!r}")
    return 1


def main():
    program = sys.argv[1] if len(sys.argv) > 1 else "build/outcore"
    t, compared, failed, apart = tokenizer(), 0, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        t.save_pretrained(folder)
        for path in sorted(glob.glob(os.path.join(TEMPLATES, "*_training.jinja"))):
            shipped = path.replace("_training.jinja", ".jinja")
            name = os.path.basename(shipped)
            with open(path, encoding="utf-8") as f:
                marked_copy = f.read()
            original = open(shipped, encoding="utf-8").read() if os.path.exists(shipped) else None
            for where, (messages, tools) in CONVERSATIONS.items():
                want = reference(t, marked_copy, messages, tools)
                if want is None or want[1] is None or not any(want[1]):
                    continue
                if is_lost(t, marked_copy, messages, tools):
                    continue
                compared += 1
                failed += check(program, t, folder, os.path.basename(path), marked_copy, want, messages, tools, where)
                same = original and reference(t, original, messages, tools)
                if not same or list(same[0]) != list(want[0]):
                    apart += 1
                    continue
                compared += 1
                failed += check(program, t, folder, name, original, want, messages, tools, where)
    print(f"{compared} compared, {failed} differ; {apart} texts of the copy are not those of the template")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
