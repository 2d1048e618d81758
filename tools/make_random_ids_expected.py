#!/usr/bin/env python3
"""Write tests/data/random_ids.json: what the reference library decodes random ids to.

usage: make_random_ids_expected.py OUTPUT.json [FOLDER]      (needs tokenizers; checked with 0.23)

{"tokenizers": {NAME of tests/data/tokenizers or of FOLDER, where large ones lie packed by xz:
                [{"ids", "skipped": without special tokens, "kept": with them (null: the same)}]},
 "odd": {"tokenizer": a tokenizer.json, "decoders": [{"decoder", "rows": as above}]}}
Ids are drawn from all of the vocabulary, from tokens of few bytes, and from added ones: characters that end
in the middle, runs of bytes, special tokens between them.
"""
import json
import lzma
import os
import random
import sys

from tokenizers import AddedToken, Tokenizer, models

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "data", "tokenizers")
RNG = random.Random(8)
ROWS, LENGTH = 14, 24

ODD = ["\u2581", "a", "b", "ab", "\u2581a", "a\u2581", "\u2581\u2581", " ", "  ", "x ", "<0xE2>", "<0x96>", "<0x81>",
       "<0x41>", "<0xFF>", "<0xC3>", "<0xA9>", "<0xF0>", "<0x9F>", "<0x0A>", "\u00e9", "\u0120", "\u0120\u00c3", "\u00a9",
       "\u00e2\u0138", "\u0123", "x", "y", "xy", "yx", "xyx", "\n", "\u4e2d", "<0x4", "1>"]
SEQUENCES = [
    ["replace", "bytes", "fuse", "strip1"], ["bytes", "fuse", "strip22"], ["strip11"], ["strip03", "fuse"],
    ["fuse", "strip32", "replace"], ["fuse", "longer"], ["fuse", "regex"], ["longer", "fuse", "longer"],
    ["fuse", "metaspace"], ["metaspace", "fuse", "strip11"], ["bytes", "metaspace"], ["bytelevel"],
    ["bytelevel", "strip22"], ["fuse", "bytelevel"], ["bytelevel", "replace", "bytes"], ["bytelevel", "longer", "regex"],
    ["never", "bytes"], ["regex", "bytes", "fuse"], ["bytes", "bytes"], ["bytelevel", "bytelevel"],
]
PARTS = {
    "replace": {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
    "longer": {"type": "Replace", "pattern": {"String": "xyx"}, "content": "<X>"},
    "regex": {"type": "Replace", "pattern": {"Regex": "a+b|[xy]{2,}"}, "content": "_"},
    "bytes": {"type": "ByteFallback"}, "fuse": {"type": "Fuse"},
    "strip1": {"type": "Strip", "content": " ", "start": 1, "stop": 0},
    "strip11": {"type": "Strip", "content": "a", "start": 1, "stop": 1},
    "strip03": {"type": "Strip", "content": "\u2581", "start": 0, "stop": 3},
    "strip22": {"type": "Strip", "content": " ", "start": 2, "stop": 2},
    "strip32": {"type": "Strip", "content": "\u2581", "start": 3, "stop": 2},
    "metaspace": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True},
    "never": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "never", "split": True},
    "bytelevel": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
}


def pools(tok):
    vocab = tok.get_vocab(with_added_tokens=True)
    short = [i for t, i in vocab.items() if len(t) <= 2 or (t.startswith("<0x") and len(t) == 6)]
    added = list(tok.get_added_tokens_decoder()) or short
    return sorted(vocab.values()), sorted(short), sorted(added)


def draw(tok, n):
    every, short, added = pools(tok)
    weights = RNG.choice([(1, 0, 0), (0, 1, 0), (1, 4, 1), (4, 4, 1)])
    return [RNG.choice(RNG.choices([every, short, added], weights)[0]) for _ in range(n)]


def rows(tok, count=ROWS):
    out = []
    while len(out) < count:
        ids = draw(tok, RNG.randrange(1, LENGTH))
        try:
            skipped, kept = (tok.decode(ids, skip_special_tokens=skip) for skip in (True, False))
        except BaseException as e:  # a Strip at both ends of a text of one blank panics
            if type(e).__name__ != "PanicException":
                raise
            continue
        out.append({"ids": ids, "skipped": skipped, "kept": None if kept == skipped else kept})
    return out


def read(path):
    with (lzma.open(path, "rt", encoding="utf-8") if path.endswith(".xz") else open(path, encoding="utf-8")) as f:
        return Tokenizer.from_str(f.read())


def odd():
    tok = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(ODD)}, merges=[]))
    tok.add_special_tokens([AddedToken("<end>", special=True, normalized=False)])
    tok.add_tokens(["\u2581word"])
    base, out = json.loads(tok.to_str()), []
    for names in SEQUENCES:
        decoder = {"type": "Sequence", "decoders": [PARTS[x] for x in names]}
        out.append({"decoder": decoder, "rows": rows(Tokenizer.from_str(json.dumps(base | {"decoder": decoder})), 30)})
    return {"tokenizer": base, "decoders": out}


def main():
    found = {n[:-5]: os.path.join(ROOT, n) for n in os.listdir(ROOT) if n.count(".") == 1 and n != "texts.json"}
    for folder in sys.argv[2:]:
        found |= {n: os.path.join(folder, n, "tokenizer.json.xz") for n in os.listdir(folder)}
    named = {n: rows(read(found[n])) for n in sorted(found)}
    special = odd()
    with open(sys.argv[1], "w", encoding="utf-8") as f:
        f.write('{"tokenizers": {\n')
        f.write(",\n".join(f'"{n}": [\n' + ",\n".join(map(json.dumps, r)) + "]" for n, r in named.items()))
        f.write('},\n"odd": {"tokenizer": ' + json.dumps(special["tokenizer"]) + ', "decoders": [\n')
        f.write(",\n".join(f'{{"decoder": {json.dumps(d["decoder"])}, "rows": [\n' + ",\n".join(map(json.dumps, d["rows"]))
                           + "]}" for d in special["decoders"]) + "]}}\n")


if __name__ == "__main__":
    main()
