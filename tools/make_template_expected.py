#!/usr/bin/env python3
"""Expected renderings of chat templates, by the reference library's own environment.

    tools/make_template_expected.py     writes tests/data/templates/{families,snippets}.json
                                        and tests/data/fuzz/template/*

Needs jinja2 and transformers. The templates themselves, tests/data/templates/*.jinja, are ours. The
time is fixed at 2024-07-26 12:34:56.
"""

import datetime
import hashlib
import json
import os
import sys

import jinja2
import transformers.utils.chat_template_utils as reference

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.join(HERE, "..", "tests", "data")
NOW = datetime.datetime(2024, 7, 26, 12, 34, 56)


class FixedTime(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return NOW


reference.datetime = FixedTime


def outcome(source, variables):
    """The text, or {"error": message of raise_exception or ""}. Addresses in a text are refused."""
    try:
        text = reference._compile_jinja_template(source).render(**variables)
        return {"error": ""} if " at 0x" in text else text
    except jinja2.exceptions.TemplateSyntaxError:
        return {"error": ""}
    except jinja2.exceptions.TemplateError as e:
        raised = type(e) is jinja2.exceptions.TemplateError
        return {"error": str(e) if raised else ""}
    except Exception:
        return {"error": ""}


def generation_spans(source, variables):
    """What the library's tracker says was generated, in bytes of UTF-8."""
    try:
        template = reference._compile_jinja_template(source)
        text, spans = reference._render_with_assistant_indices(
            template, **{"tools": None, "documents": None, **variables})
    except Exception:
        return None
    return [[len(text[:a].encode()), len(text[:b].encode())] for a, b in spans]


# --- Conversations

def user(text):
    return {"role": "user", "content": text}


def assistant(text, **more):
    return {"role": "assistant", "content": text, **more}


def system(text):
    return {"role": "system", "content": text}


def call(name, arguments, **more):
    return {"type": "function", "function": {"name": name, "arguments": arguments}, **more}


WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "The weather of a place",
    "parameters": {"type": "object", "properties": {
        "place": {"type": "string", "description": "Town, as \"Zürich, CH\""},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
        "days": {"type": "integer", "default": 3},
        "where": {"type": "object", "properties": {
            "lat": {"type": "number"}, "lon": {"type": "number", "nullable": True}},
            "required": ["lat"]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "grid": {"type": "array", "items": {"type": ["integer", "null"]}},
    }, "required": ["place"]}}}
CLOCK = {"type": "function", "function": {
    "name": "now", "description": "The time", "parameters": {"type": "object", "properties": {}}}}

CONVERSATIONS = {
    "single": [user("Hello")],
    "turns": [system("You are brief."), user("What is 2+2?"), assistant("4"), user("And 3+3?")],
    "answered": [user("Hi"), assistant("Hello!"), user("Bye"), assistant("Goodbye.")],
    "long": [user("1"), assistant("one"), user("2"), assistant("two"), user("3"), assistant("three")],
    "unicode": [system("Réponds en français."), user("你好，世界 👩‍👩‍👧 e\u0301 שלום \u2028 end"),
                assistant("“Ça va” — ñ ß İ 𝔘")],
    "empty": [user(""), assistant("")],
    "spaces": [system("  lead and trail \n"), user(" \n\t two\n\nlines \u00a0"),
               assistant("\n  code:\n    x = 1\n\n")],
    "braces": [user("{{ x }} {% if y %} {# z #} <|im_end|>"), assistant("{%- raw %}'\"\\n")],
    "tool": [system("Use tools."), user("Weather in Zürich?"),
             assistant("", tool_calls=[call("get_weather", {"place": "Zürich", "days": 2, "f": 0.5,
                                                            "deep": {"a": [1, None, True]}},
                                            id="abcdefghi")]),
             {"role": "tool", "name": "get_weather", "tool_call_id": "abcdefghi",
              "content": "{\"t\": 21.5}"},
             assistant("21.5 °C")],
    "tools": [user("Time and weather?"),
              assistant("Let me see.", tool_calls=[call("now", {}, id="000000001"),
                                                   call("get_weather", {"place": "Oslo"},
                                                        id="000000002")]),
              {"role": "tool", "content": "noon", "tool_call_id": "000000001"},
              {"role": "tool", "content": "rain", "tool_call_id": "000000002"}],
    "think": [user("Q"), assistant("<think>\nlong\nthought\n</think>\n\nA"), user("Q2"),
              assistant("A2", reasoning_content="\nmore thought\n")],
    "parts": [system("S"), {"role": "user", "content": [
        {"type": "text", "text": "What is "}, {"type": "image"}, {"type": "text", "text": " this? "}]}],
    "order": [assistant("I begin"), user("no")],
    "late_system": [user("a"), system("b"), assistant("c")],
}

VARIANTS = [
    ("", {}, None),
    ("prompt", {"add_generation_prompt": True}, None),
    ("tools", {"add_generation_prompt": True, "tools": [WEATHER, CLOCK]},
     {"single", "turns", "tool", "tools"}),
    ("quick", {"add_generation_prompt": True, "enable_thinking": False}, {"turns", "think"}),
    ("documents", {"documents": [{"title": "Ö", "text": "eins"}, {"title": "2", "text": "zwei"}],
                   "controls": {"length": "long", "citations": 1}}, {"single", "turns"}),
]

# Templates whose text of a message depends on no later one: what a message wrote is the difference
# of two renderings.
INCREMENTAL = {"chatml": 0, "gemma": 0, "phi4": 0, "llama2": 1}


def runs_of(source, variables, name):
    """[[begin, end, message]] in bytes, or None."""
    if name not in INCREMENTAL:
        return None
    messages = variables["messages"]
    head = INCREMENTAL[name] if messages[0]["role"] == "system" else 0
    ends = []
    for n in range(head, len(messages) + 1):
        text = outcome(source, {**variables, "messages": messages[:n],
                                "add_generation_prompt": n == len(messages)})
        if n == head and head == 0:
            text = variables["bos_token"] if name == "gemma" else ""
        elif n == head:
            text = ""
        if not isinstance(text, str):
            return None
        ends.append(text)
    if name == "phi4" or variables.get("add_generation_prompt"):
        return None
    runs = []
    for i in range(1, len(ends)):
        if not ends[i].startswith(ends[i - 1]) and i < len(ends) - 1:
            return None
        text = ends[i]
        if i == len(ends) - 1:
            text = outcome(source, variables)
        a, b = len(ends[i - 1].encode()), len(text.encode())
        if b > a:
            runs.append([a, b, head + i - 1])
    return runs


def families():
    folder = os.path.join(DATA, "templates")
    out = {"now": int(NOW.replace(tzinfo=datetime.timezone.utc).timestamp()),
           "conversations": CONVERSATIONS, "variants": {v: k for v, k, _ in VARIANTS}, "cases": []}
    for file in sorted(os.listdir(folder)):
        if not file.endswith(".jinja"):
            continue
        with open(os.path.join(folder, file), encoding="utf-8") as f:
            source = f.read()
        name = file[:-6]
        for key, messages in CONVERSATIONS.items():
            for variant, more, only in VARIANTS:
                if only is not None and key not in only:
                    continue
                variables = {"messages": messages, "bos_token": "<s>", "eos_token": "</s>",
                             "add_generation_prompt": False, **more}
                text = outcome(source, variables)
                if variant and text == outcome(source, {**variables, **{k: None for k in more}}):
                    continue
                case = {"t": name, "c": key, "v": variant, "r": text}
                runs = runs_of(source, variables, name)
                if runs and isinstance(text, str):
                    case["runs"] = runs
                if "{% generation" in source and isinstance(text, str):
                    case["generated"] = generation_spans(source, variables)
                out["cases"].append(case)
    return out


def snippets():
    """The file with what is expected brought up to date; add a snippet as [source, null]."""
    with open(os.path.join(DATA, "templates", "snippets.json"), encoding="utf-8") as f:
        out = json.load(f)
    for case in out["cases"]:
        case[1] = outcome(case[0], json.loads(json.dumps(out["variables"])))
    return out


def dump(path, value):
    lines = []
    for key, member in value.items():
        text = json.dumps(member, ensure_ascii=False)
        if key == "cases":
            text = "[\n" + ",\n".join(json.dumps(c, ensure_ascii=False) for c in member) + "\n]"
        lines.append(json.dumps(key) + ": " + text)
    data = ("{\n" + ",\n".join(lines) + "\n}\n").encode("utf-8")
    with open(path, "wb") as f:
        f.write(data)


def corpus(cases):
    snippets = [case[0] for case in cases]
    folder = os.path.join(DATA, "fuzz", "template")
    os.makedirs(folder, exist_ok=True)
    for old in os.listdir(folder):
        if len(old) == 16:
            os.remove(os.path.join(folder, old))
    texts = ["\n".join(snippets[i:i + 6]) for i in range(0, len(snippets), 6)] + snippets[::11]
    for text in texts:
        data = text.encode("utf-8")
        with open(os.path.join(folder, hashlib.sha1(data).hexdigest()[:16]), "wb") as f:
            f.write(data)


if __name__ == "__main__":
    dump(os.path.join(DATA, "templates", "families.json"), families())
    table = snippets()
    dump(os.path.join(DATA, "templates", "snippets.json"), table)
    corpus(table["cases"])
    sys.exit(0)
