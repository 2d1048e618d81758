#!/usr/bin/env python3
"""Check tokenizers against the reference library.

Run: tools/check_tokenizer.py DIR             DIR holds the byte tokenizer as outcore writes it:
                                              the library must give its ids
     tools/check_tokenizer.py PROGRAM DIR...  any tokenizer.json: `PROGRAM tokenize` must give the
                                              library's ids and texts, on the texts of
                                              tests/data/tokenizers and random ones
"""
import json
import os
import random
import subprocess
import sys
import tempfile

PAD, BOS, EOS, FIRST = 0, 1, 2, 3
TEXTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "data", "tokenizers",
                     "texts.json")


def random_text(rng, n):
    return "".join(chr(rng.choice([rng.randrange(128), rng.randrange(0xD800),
                                   rng.randrange(0xE000, 0x110000)])) for _ in range(n))


def check_bytes(folder):
    from transformers import AutoTokenizer
    tok = AutoTokenizer.from_pretrained(folder)
    assert (tok.pad_token_id, tok.bos_token_id, tok.eos_token_id) == (PAD, BOS, EOS)
    assert len(tok) == tok.vocab_size == 259, (len(tok), tok.vocab_size)
    rng = random.Random(1)
    texts = ["", "a", " a  b ", "h\u00e9llo \u4e2d\u6587 \U0001f600", "\0\x01\x7f\u0080\u00ad\r\n\t",
             "don't <s> </s> <pad> <|x|>", "x" * 5000]
    texts += [random_text(rng, 50) for _ in range(200)]
    for text in texts:
        want = [FIRST + b for b in text.encode()]
        assert tok.encode(text, add_special_tokens=False) == want, repr(text)
        assert tok.encode(text) == [BOS] + want + [EOS], repr(text)
        assert tok.decode(tok.encode(text), skip_special_tokens=True) == text, repr(text)
    print(f"{len(texts)} texts agree")


def tokenize(program, folder, texts, *options):
    with tempfile.TemporaryDirectory() as scratch:
        path = os.path.join(scratch, "in.jsonl")
        with open(path, "w") as f:
            f.writelines(json.dumps(t) + "\n" for t in texts)
        done = subprocess.run([program, "tokenize", "--model", folder, "--input", path, *options],
                              capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def check_json(program, folder, texts):
    from tokenizers import Tokenizer
    tok = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    bad = 0
    for options, special in ((), True), (("--no-special",), False):
        for text, ours in zip(texts, tokenize(program, folder, texts, *options), strict=True):
            ids = tok.encode(text, add_special_tokens=special).ids
            if ours["ids"] != ids or ours["decoded"] != tok.decode(ids):
                bad += 1
                print(f"{folder}: {ascii(text)}\n ours {ours}\n want {ids}")
    print(f"{folder}: {len(texts)} texts, {bad} differ")
    return bad


def main():
    if len(sys.argv) == 2:
        check_bytes(sys.argv[1])
        return 0
    with open(TEXTS, encoding="utf-8") as f:
        texts = json.load(f)
    rng = random.Random(2)
    texts += [random_text(rng, rng.randrange(1, 40)) for _ in range(500)]
    return sum(check_json(sys.argv[1], folder, texts) for folder in sys.argv[2:]) > 0


if __name__ == "__main__":
    sys.exit(main())
