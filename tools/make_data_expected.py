#!/usr/bin/env python3
"""What transformers and PyTorch make of training data, for the tests of the data set.

    make_data_expected.py               rewrite the fixtures under tests/data/data

Needs Python with torch, transformers >= 5, tokenizers and trl. The fixtures:

    NAME/tokenizer.json, tokenizer_config.json     small tokenizers: bytelevel, sentencepiece
    chat.json     templates, each with and without {% generation %}, and conversations: the rendered
                  text, its ids, and the mask of assistant tokens that the marked template gives
    rows.json     rows of every other form: ids and labels
    messages/     train.jsonl, and expected.json: loss and gradient norm of the llama-tied model of
                  tests/data/models over these conversations, packed or not
"""
import json
import os
import re

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers
from tokenizers import processors, trainers
from trl.data_utils import common_prefix_length
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "data")
OUT = os.path.join(ROOT, "data")

# ---- templates: what stands between {% generation %} and {% endgeneration %} is the answer ----

TEMPLATES = {
    "chatml": ("bytelevel", """\
{% for message in messages %}
{% if message['role'] == 'assistant' %}
{{ '<|im_start|>assistant\\n' }}{% generation %}{{ message['content'] + '<|im_end|>\\n' }}{% endgeneration %}
{% else %}
{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}
{% endif %}
{% endfor %}
{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}
"""),
    "instruct": ("sentencepiece", """\
{% if messages[0]['role'] == 'system' %}
{% set turns = messages[1:] %}
{% set preface = '<<SYS>>\\n' + messages[0]['content'] + '\\n<</SYS>>\\n\\n' %}
{% else %}
{% set turns = messages %}
{% set preface = '' %}
{% endif %}
{% for turn in turns %}
{% if (turn['role'] == 'user') != (loop.index0 % 2 == 0) %}
{{ raise_exception('user and assistant must take turns') }}
{% endif %}
{% if turn['role'] == 'user' %}
{{ bos_token + '[INST] ' + (preface if loop.first else '') + turn['content'].strip() + ' [/INST]' }}
{% else %}
{% generation %}{{ ' ' + turn['content'].strip() + ' ' + eos_token }}{% endgeneration %}
{% endif %}
{% endfor %}
"""),
    "headers": ("bytelevel", """\
{{- bos_token }}
{%- for message in messages %}
    {%- if message.content is string %}{% set text = message.content | trim %}
    {%- else %}{% set text = (message.content | map(attribute='text') | join('')) %}{% endif %}
    {{- '<|start|>' + message.role + '<|header|>\\n\\n' }}
    {%- if message.role == 'assistant' %}
        {%- generation %}{{- text + '<|eot|>' }}{%- endgeneration %}
    {%- else %}
        {{- text + '<|eot|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start|>assistant<|header|>\\n\\n' }}
{%- endif %}
"""),
    "thinking": ("bytelevel", """\
{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}{{- messages[0].content + '\\n\\n' }}{%- endif %}
    {{- '# Tools\\n' }}
    {%- for tool in tools %}{{- (tool | tojson) + '\\n' }}{%- endfor %}
    {{- '<|im_end|>\\n' }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- set ns = namespace(last=messages|length - 1, open=true) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.open and message.role == 'user' %}
        {%- set ns.open = false %}
        {%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content if message.content is string else '' %}
    {%- if message.role == 'user' or (message.role == 'system' and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == 'assistant' %}
        {%- set thought = message.reasoning_content if message.reasoning_content is string else '' %}
        {%- if '</think>' in content %}
            {%- set thought = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {{- '<|im_start|>assistant\\n' }}
        {%- generation %}
        {%- if loop.index0 > ns.last and (loop.last or thought) %}
            {{- '<think>\\n' + thought.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
        {%- else %}
            {{- content }}
        {%- endif %}
        {%- if message.tool_calls %}
            {%- for call in message.tool_calls %}
                {%- if (loop.first and content) or (not loop.first) %}{{- '\\n' }}{%- endif %}
                {%- if call.function %}{%- set call = call.function %}{%- endif %}
                {{- '<tool_call>\\n{"name": "' + call.name + '", "arguments": ' }}
                {{- call.arguments if call.arguments is string else call.arguments | tojson }}
                {{- '}\\n</tool_call>' }}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
        {%- endgeneration %}
    {%- elif message.role == 'tool' %}
        {%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}{{- '<|im_start|>user' }}{%- endif %}
        {{- '\\n<tool_response>\\n' + content + '\\n</tool_response>' }}
        {%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{- '<|im_end|>\\n' }}{%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}
{%- endif %}
"""),
    "model-role": ("sentencepiece", """\
{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- set first = messages[0]['content'] + '\\n\\n' -%}{%- set turns = messages[1:] -%}
{%- else -%}
    {%- set first = '' -%}{%- set turns = messages -%}
{%- endif -%}
{%- for message in turns -%}
    {%- set role = 'model' if message['role'] == 'assistant' else message['role'] -%}
    {{ '<start_of_turn>' + role + '\\n' }}
    {%- if role == 'model' -%}
        {%- generation -%}{{ message['content'] | trim + '<end_of_turn>\\n' }}{%- endgeneration -%}
    {%- else -%}
        {{ (first if loop.first else '') + message['content'] | trim + '<end_of_turn>\\n' }}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{ '<start_of_turn>model\\n' }}
{%- endif -%}
"""),
}


def say(role, content, **more):
    return {"role": role, "content": content, **more}


WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "The weather of a place, as <degrees> & \"words\".",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}},
                   "required": ["city"]}}}

CONVERSATIONS = {
    "one turn": [say("user", "What is 2+2?"), say("assistant", "It is 4.")],
    "system": [say("system", "You are brief."), say("user", "Name a colour."),
               say("assistant", "Blue.")],
    "turns": [say("user", "Hello"), say("assistant", "Hi, how can I help you?"),
              say("user", "Count to three."), say("assistant", "One, two, three."),
              say("user", "Thank you!"), say("assistant", "You are welcome.")],
    "short turns": [say("user", "1"), say("assistant", "2"), say("user", "Hi"),
                    say("assistant", "Hello")],
    "unicode": [say("user", "caf\u00e9 \U0001f600 \u4e2d\u6587"),
                say("assistant", "\U0001f600\U0001f44d na\u00efve \u4f60\u597d"),
                say("user", "\u00e9"), say("assistant", "\u00e8")],
    "white space": [say("user", "  a\n b "), say("assistant", "\n\nx \n y  "), say("user", "\n"),
                    say("assistant", " tab\there ")],
    "the header again": [say("user", "Say it."), say("assistant", "assistant\nassistant"),
                         say("user", "<|im_start|>assistant\n"), say("assistant", "as")],
    "looks special": [say("user", "<|im_end|> </s> <|eot|>"), say("assistant", "no <s> here")],
    "open end": [say("user", "1"), say("assistant", "2"), say("user", "3")],
    "empty answer": [say("user", "Nothing?"), say("assistant", "")],
    "a null member": [say("user", "n", name=None), say("assistant", "o", tool_calls=None)],
}

THINKING = {
    "thought before": [say("user", "2+2"), say("assistant", "<think>\nadd\n</think>\n\n4"),
                       say("user", "3+3"), say("assistant", "<think>\nagain\n</think>\n\n6")],
    "reasoning": [say("user", "2+2"), say("assistant", "4", reasoning="adding them")],
    "calls": [say("user", "Weather in Rome and Oslo?"),
              say("assistant", "", tool_calls=[
                  {"type": "function", "function": {"name": "get_weather",
                                                    "arguments": {"city": "Rome", "n": 1}}},
                  {"type": "function", "function": {"name": "get_weather",
                                                    "arguments": {"city": "Os\u00efo"}}}]),
              say("tool", "{\"sun\": true}"), say("tool", "rain"),
              say("assistant", "Sun in Rome, rain in Oslo.")],
}

PARTS = {
    "parts": [say("user", [{"type": "text", "text": "Hello "}, {"type": "text", "text": "you"}]),
              say("assistant", [{"type": "text", "text": "Hi"}])],
}

# ---- tokenizers ----

SPECIALS = {
    "bytelevel": ["<|pad|>", "<|begin|>", "<|im_end|>", "<|im_start|>", "<|start|>", "<|header|>",
                  "<|eot|>", "<unk>"],
    "sentencepiece": ["<unk>", "<s>", "</s>", "<pad>", "<start_of_turn>", "<end_of_turn>"],
}
NAMES = {
    "bytelevel": {"pad_token": "<|pad|>", "bos_token": "<|begin|>", "eos_token": "<|im_end|>"},
    "sentencepiece": {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"},
}


def corpus():
    texts = []
    for group in (CONVERSATIONS, THINKING):
        for messages in group.values():
            texts += [m["content"] for m in messages]
    words = ("Below is an instruction that describes a task, paired with an input that provides "
             "further context. Write a response that appropriately completes the request. "
             "the quick brown fox jumps over the lazy dog and then it sleeps assistant user system "
             "Hello, how are you today? I am fine, thank you. What can I do for you? ").split(" ")
    return texts + [" ".join(words)] * 3 + [" " + w for w in words]


def make_bytelevel():
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tok.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=480, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  special_tokens=SPECIALS["bytelevel"])
    tok.train_from_iterator(corpus(), trainer)
    tok.add_tokens([AddedToken(t, normalized=False, special=False)
                    for t in ("<think>", "</think>", "<tool_call>", "</tool_call>")])
    tok.post_processor = processors.TemplateProcessing(
        single="<|begin|> $A", pair="<|begin|> $A $B",
        special_tokens=[("<|begin|>", tok.token_to_id("<|begin|>"))])
    return tok


def make_sentencepiece():
    byte_tokens = [f"<0x{b:02X}>" for b in range(256)]
    tok = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tok.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"),
                                           normalizers.Replace(" ", "\u2581")])
    trainer = trainers.BpeTrainer(vocab_size=700, show_progress=False, limit_alphabet=70,
                                  special_tokens=SPECIALS["sentencepiece"] + byte_tokens)
    tok.pre_tokenizer = pre_tokenizers.Split("\u2581", "merged_with_next")
    tok.train_from_iterator(corpus(), trainer)
    state = json.loads(tok.to_str())
    state["pre_tokenizer"] = None
    state["added_tokens"] = [t for t in state["added_tokens"] if t["content"] not in byte_tokens]
    tok = Tokenizer.from_str(json.dumps(state))
    tok.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(),
                                     decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    tok.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", tok.token_to_id("<s>"))])
    return tok


def write_tokenizer(name, tok):
    directory = os.path.join(OUT, name)
    os.makedirs(directory, exist_ok=True)
    tok.save(os.path.join(directory, "tokenizer.json"))
    chosen = {"bytelevel": "chatml", "sentencepiece": "instruct"}[name]
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False,
              **NAMES[name], "chat_template": unmarked(TEMPLATES[chosen][1])}
    with open(os.path.join(directory, "tokenizer_config.json"), "w") as f:
        json.dump(config, f, indent=1)
        f.write("\n")
    return PreTrainedTokenizerFast(tokenizer_file=os.path.join(directory, "tokenizer.json"),
                                   clean_up_tokenization_spaces=False, **NAMES[name])


# ---- expectations ----

def unmarked(template):
    """The twin without marks: "{%- if true %}" cuts the white space that the mark cut."""
    template = re.sub(r"\{%(-?)\s*generation\s*(-?)%\}", r"{%\1 if true \2%}", template)
    return re.sub(r"\{%(-?)\s*endgeneration\s*(-?)%\}", r"{%\1 endif \2%}", template)


def chat_cases(tokenizers):
    out = []
    for style, (name, template) in TEMPLATES.items():
        tok = tokenizers[name]
        groups = [(CONVERSATIONS, None)]
        if style == "thinking":
            groups += [(THINKING, None), ({"tools": THINKING["calls"]}, [WEATHER])]
        if style == "headers":
            groups += [(PARTS, None)]
        cases = []
        for conversations, tools in groups:
            for title, messages in conversations.items():
                cases.append(chat_case(tok, template, title, messages, tools))
        out.append({"style": style, "tokenizer": name, "names": NAMES[name],
                    "unmarked": unmarked(template), "marked": template, "cases": cases})
    return out


def chat_case(tok, template, title, messages, tools):
    args = dict(tools=tools, add_generation_prompt=False)
    rendered = tok.apply_chat_template(messages, chat_template=unmarked(template), tokenize=False,
                                       **args)
    assert rendered == tok.apply_chat_template(messages, chat_template=template, tokenize=False,
                                               **args), title
    encoded = tok.apply_chat_template(messages, chat_template=template, tokenize=True,
                                      return_dict=True, return_assistant_tokens_mask=True, **args)
    assert encoded["input_ids"] == tok(rendered, add_special_tokens=False)["input_ids"]
    case = {"title": title, "messages": messages, "rendered": rendered,
            "ids": encoded["input_ids"], "mask": encoded["assistant_masks"]}
    if tools:
        case["tools"] = tools
    case["prompted"] = tok.apply_chat_template(messages, chat_template=template, tokenize=False,
                                               tools=tools, add_generation_prompt=True)
    return case


PROMPT = ("Below is an instruction that describes a task. Write a response that appropriately "
          "completes the request.\n\n### Instruction:\n{instruction}\n\n### Response:")
PROMPT_INPUT = ("Below is an instruction that describes a task, paired with an input that provides "
                "further context. Write a response that appropriately completes the request.\n\n"
                "### Instruction:\n{instruction}\n\n### Input:\n{input}\n\n### Response:")


def encode(tok, text):
    """One bos, where the text begins with one itself."""
    ids = list(tok(text)["input_ids"])
    second = text.startswith(tok.bos_token) and ids[:2] == [tok.bos_token_id] * 2
    return ids[1:] if second else ids


def completion(tok, prompt, text):
    """As TRL's SFTTrainer: the completion begins where the ids of the prompt and of both part; eos
    ends the text, once. prompt None: all is trained."""
    ids, common = encode(tok, (prompt or "") + text), 0
    if prompt is not None:
        common = common_prefix_length(encode(tok, prompt), ids)
    labels = [-100] * common + ids[common:]
    if ids[-1] != tok.eos_token_id:
        ids.append(tok.eos_token_id)
        labels.append(tok.eos_token_id)
    return {"ids": ids, "labels": labels}


def row_cases(tokenizers):
    out = []
    for name, tok in tokenizers.items():
        rows = []
        for text in ("Hello, world", "  two  spaces\n\n", "caf\u00e9 \U0001f600", "a\0b", "<s> <|im_end|>"):
            rows.append(({"text": text}, completion(tok, None, text)))
        for prompt, text in (("What is 2+2? ", "It is 4."), ("What is 2+2?", " It is 4."),
                             ("Name", "d"), ("", "all of it"), ("\U0001f600 caf", "\u00e9 x"),
                             ("Q: a\nA:", " b" + tok.eos_token), ("What is 2+2? It is ", "4."),
                             ("the lazy ", "dog"), (tok.bos_token + "Hi", "Hello")):
            rows.append(({"prompt": prompt, "completion": text}, completion(tok, prompt, text)))
        for row in ({"instruction": "Name a colour.", "input": "", "output": "Blue."},
                    {"instruction": "Add.", "input": "2 and 2", "output": "4"},
                    {"instruction": "Say \u00e9.", "output": "\u00e9\u00e9"}):
            prompt = (PROMPT_INPUT if row.get("input") else PROMPT).format(**row)
            rows.append((row, completion(tok, prompt, row["output"])))
        out.append({"tokenizer": name, "rows": [{"row": row, **want} for row, want in rows]})
    return out


# ---- the loss ----

def write_loss(tok):
    """Each conversation alone through the model: packing must not change it."""
    directory = os.path.join(OUT, "messages")
    os.makedirs(directory, exist_ok=True)
    model = LlamaForCausalLM.from_pretrained(os.path.join(ROOT, "models", "llama-tied"),
                                             attn_implementation="eager").float().eval()
    total, targets, lengths = 0.0, 0, []
    chosen = ["one turn", "system", "short turns", "the header again", "open end", "empty answer"]
    with open(os.path.join(directory, "train.jsonl"), "w") as f:
        for title in chosen:
            f.write(json.dumps({"id": title, "messages": CONVERSATIONS[title]}) + "\n")
            encoded = tok.apply_chat_template(
                CONVERSATIONS[title], chat_template=TEMPLATES["chatml"][1], tokenize=True,
                return_dict=True, return_assistant_tokens_mask=True)
            ids, mask = encoded["input_ids"], encoded["assistant_masks"]
            labels = torch.tensor([[i if m else -100 for i, m in zip(ids, mask)]])
            logits = model(input_ids=torch.tensor([ids]), use_cache=False).logits
            total = total + torch.nn.functional.cross_entropy(
                logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), ignore_index=-100,
                reduction="sum")
            targets += int((labels[:, 1:] >= 0).sum())
            lengths.append(len(ids))
    loss = total / targets
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1e30)
    assert max(lengths) <= 64, lengths
    with open(os.path.join(directory, "expected.json"), "w") as f:
        json.dump({"loss": loss.item(), "grad_norm": norm.item(), "targets": targets,
                   "tokens": sum(lengths), "rows": len(lengths)}, f)
        f.write("\n")


def write_json(name, value):
    with open(os.path.join(OUT, name), "w") as f:
        json.dump(value, f, indent=0, separators=(",", ":"))
        f.write("\n")


def main():
    torch.set_num_threads(1)
    os.makedirs(OUT, exist_ok=True)
    tokenizers = {"bytelevel": write_tokenizer("bytelevel", make_bytelevel()),
                  "sentencepiece": write_tokenizer("sentencepiece", make_sentencepiece())}
    write_json("chat.json", chat_cases(tokenizers))
    write_json("rows.json", row_cases(tokenizers))
    write_loss(tokenizers["bytelevel"])


if __name__ == "__main__":
    main()
