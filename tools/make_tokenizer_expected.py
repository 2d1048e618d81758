#!/usr/bin/env python3
"""Write tests/data/tokenizers: small tokenizers, texts, and what the reference library makes of them.

Run: tools/make_tokenizer_expected.py [--unicode]      (needs tokenizers; checked with 0.23)

texts.json          texts of all kinds, shared by all tokenizers
NAME.json           a tokenizer.json
NAME.expected.json  {"before", "after": special ids around every text, "ids": per text,
                     "skipped": decoded without special tokens (null: the text),
                     "kept": with them (null: the same),
                     "starts": per text of the first STARTS the bytes [from, to) of every token, of some
                     tokenizers}
tests/data/fuzz/tokenizer gets small files with every component.
--unicode writes src/tokenizer/tables.c instead, where its tables of characters differ from
utf8proc's (needs unicodedata of the same Unicode version as utf8proc, or newer).
"""
import ctypes
import json
import os
import random
import string
import sys
import unicodedata

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers
from tokenizers import pre_tokenizers, processors, trainers

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
OUT = os.path.join(ROOT, "tests", "data", "tokenizers")
TABLES = os.path.join(ROOT, "src", "tokenizer", "tables.c")
STARTS = 100

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
CL100K = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}"
          r"| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
         r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
         r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}"
         r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
HAN = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"

SENTENCES = """The quick brown fox jumps over the lazy dog.
She sells sea shells by the sea shore, and the shells she sells are surely seashells.
In the beginning the machine was small, and the model did not fit; then the model was streamed.
It's what we'd call a test: don't, won't, I've, they're, you'll, I'm, he'd. IT'S LOUD, DON'T YELL'S.
Numbers: 0 1 22 333 4444 55555 1,234,567.89 3.14159 2^10 = 1024, 1e-5, 0x1F, 50%, \u00bd \u00b2 \u2460 \u2167 \u0663\u0664\u0665
for (int i = 0; i < n; i++) {\n    sum += a[i] * b[i]; // dot product\n}\nreturn sum;
def f(x, y=2, *args, **kwargs):\n\tif x is None:\n\t\treturn {"a": [1, 2, 3]}\n\treturn x ** y
SELECT name, COUNT(*) FROM users WHERE age >= 21 GROUP BY name HAVING COUNT(*) > 1;
https://example.com/path/to/page?query=value&other=%20#fragment user@example.org
<html><body class="main">&amp; &lt;tag&gt;</body></html> <!-- comment -->
La cigale, ayant chant\u00e9 tout l'\u00e9t\u00e9, se trouva fort d\u00e9pourvue quand la bise fut venue.
Stra\u00dfe, \u00dcbermut, \u00e4\u00f6\u00fc; na\u00efve fa\u00e7ade caf\u00e9 cafe\u0301 \u00c5ngstro\u0308m \u212b
El ni\u00f1o comi\u00f3 pi\u00f1a ma\u00f1ana. \u00bfQu\u00e9 pasa? \u00a1Nada!
\u0412\u0441\u0435 \u0441\u0447\u0430\u0441\u0442\u043b\u0438\u0432\u044b\u0435 \u0441\u0435\u043c\u044c\u0438 \u043f\u043e\u0445\u043e\u0436\u0438 \u0434\u0440\u0443\u0433 \u043d\u0430 \u0434\u0440\u0443\u0433\u0430.
\u039f\u03bb\u03cc\u03b3\u03bf\u03c2 \u039f\u0394\u03a5\u03a3\u03a3\u0395\u03a5\u03a3 \u03ac\u03bd\u03b4\u03c1\u03b1 \u03bc\u03bf\u03b9 \u1f14\u03bd\u03bd\u03b5\u03c0\u03b5
\u4eba\u4e4b\u521d\uff0c\u6027\u672c\u5584\u3002\u6027\u76f8\u8fd1\uff0c\u4e60\u76f8\u8fdc\u3002\u4f60\u597d\u4e16\u754c\uff01
\u543e\u8f29\u306f\u732b\u3067\u3042\u308b\u3002\u540d\u524d\u306f\u307e\u3060\u7121\u3044\u3002\u30ab\u30bf\u30ab\u30ca\u3068\u3072\u3089\u304c\u306a
\uc548\ub155\ud558\uc138\uc694 \uc138\uacc4. \ub098\ub294 \uc0ac\uacfc\ub97c \uba39\ub294\ub2e4. \u1112\u1161\u11ab\u1100\u1173\u11af
\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645\u060c \u0643\u064a\u0641 \u062d\u0627\u0644\u0643\u061f \u0627\u0644\u0633\u064e\u0651\u0644\u0627\u0645\u064f
\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd, \u05de\u05d4 \u05e9\u05dc\u05d5\u05de\u05da?
\u0928\u092e\u0938\u094d\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e, \u0906\u092a \u0915\u0948\u0938\u0947 \u0939\u0948\u0902? \u0967\u0968\u0969
\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35\u0e0a\u0e32\u0e27\u0e42\u0e25\u0e01 \u0e44\u0e17\u0e22\u0e44\u0e21\u0e48\u0e21\u0e35\u0e0a\u0e48\u0e2d\u0e07\u0e27\u0e48\u0e32\u0e07
\u0995\u09c7\u09ae\u09a8 \u0986\u099b\u09cb? \u0b95\u0bca \u0b87\u0ba9\u0bbf\u0baf \u0c95\u0cca \u10d2\u10d0\u10db\u10d0\u10e0\u10ef\u10dd\u10d1\u10d0 \u0540\u0561\u0575
Ti\u1ebfng Vi\u1ec7t c\u00f3 d\u1ea5u: \u0111\u01b0\u1eddng, ng\u01b0\u1eddi, qu\u1ed1c ng\u1eef; Tie\u0302\u0301ng Vie\u0323\u0302t
\U0001f600\U0001f602 \U0001f469\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 \U0001f3f3\ufe0f\u200d\U0001f308 \U0001f1eb\U0001f1f7 \U0001f44d\U0001f3fd \u2764\ufe0f
\ufb01ne \ufb02ow \u2167 \u33a5 \uff21\uff22\uff23 \u2460 \u00bd \u017fharp \u0130stanbul \u0131\u0131
x\u00b2 + y\u00b2 = z\u00b2, \u2211 \u222b \u2202 \u221e \u2260 \u2264 \u2192 \u21d2 \u00b1 \u00d7 \u00f7 $100 \u20ac200 \u00a5300
\u201cquotes\u201d \u2018single\u2019 \u2014 dash \u2013 en\u2026 \u00abguillemets\u00bb (paren) [brack] {brace} ~`!@#$%^&*_+-=|\\;:'",.<>/?"""

PIECES = ["<|begin|>", "<|end|>", "<|endoftext|>", "<s>", "</s>", "<unk>", "<pad>", "<mask>", "<|beg",
          "<|end|", "<||>", "<<|end|>>", "<0x41>", "<0x0A>", "<x>", "<X>", "[Single]", "word", "Word",
          "keyword", "left", " left ", "right", "both", "BOTH", "\u00c9t\u00e9", "\u00e9t\u00e9", "\u2581", "\u2581\u2581",
          "\u0120", "\u010a", " ", "  ", "   ", "\t", "\n", "\r\n", "\n\n", "\u00a0", "\u3000", "\u2003",
          "\u200b", "\u200d", "\u180e", "\u0085", "\u2028", "\0", "\x01", "\x1b", "\x7f", "\ufeff",
          "\ufffd", "\u0301", "\u0323", "\u0308", "\u0344", "'s", "'S", "'\u017f", "'ll", "'LL", "'", "\u2019s",
          "a", "b", "ab", "the", "The", "THE", "ing", "0", "1", "42", "1234567", "\u0663", "\u2167",
          ".", ",", "!", "?", "...", "---", "_", "__", "$", "\u20ac", "\u3002", "\uff0c",
          "\u4e2d", "\u6587", "\u3042", "\u30ab", "\uac00", "\u1100\u1161", "\u1112\u1161\u11ab", "\u00e9", "e\u0301", "\u0130",
          "\ufb01", "\U0001f600", "\U0001f469\u200d\U0001f467", "\U0001f1eb\U0001f1f7", "\U00010400", "\u0e01", "\u0e33", "\u0915\u094d\u0937"]


def make_texts():
    rng = random.Random(20)
    texts = ["", " ", "  ", "\n", "\n\n\n", "\t", "\0", " a", "a ", "  a  ", "a" * 70, "ab" * 40, " " * 40,
             "\n" * 20, "a\u0301" * 10, "e" + "\u0301\u0323" * 20, "\u1100" * 5, "\u1161" * 5,
             "\U0001f469\u200d" * 6, "<" * 30, "<|" * 12, "<|end|><|end|> <|end|>\n<|end|>", "<|begin|>a",
             "\u4e2d" * 30, "0" * 13, "." * 17, "'" * 5, "\r\n\r\n", "\u2581", "\u2581a \u2581b"]
    lines = SENTENCES.split("\n")
    texts += [line.encode().decode() for line in lines]
    texts += [line.upper() for line in lines[:12]] + [line[len(line) // 2:] for line in lines]
    for _ in range(200):
        texts.append("".join(rng.choice(PIECES) for _ in range(rng.randrange(1, 12))))
    for _ in range(60):
        words = " ".join(lines).split(" ")
        texts.append(rng.choice([" ", "", "  "]).join(rng.choice(words) for _ in range(rng.randrange(1, 7))))
    blocks = [(0x20, 0x7f), (0, 0x20), (0x80, 0x250), (0x250, 0x530), (0x300, 0x370), (0x590, 0x700),
              (0x900, 0xe00), (0x1100, 0x1200), (0x1e00, 0x2000), (0x2000, 0x2070), (0x2100, 0x2c00),
              (0x3000, 0x3100), (0x4e00, 0x4f00), (0xa640, 0xa6a0), (0xac00, 0xad00), (0xf900, 0xfb50),
              (0xfb50, 0x10000), (0x10000, 0x10600), (0x11000, 0x11200), (0x1d100, 0x1d200),
              (0x1f100, 0x1f700), (0x2f800, 0x2fa00), (0xe0000, 0xe0200), (0x10fff0, 0x110000)]
    for _ in range(140):
        low, high = rng.choice(blocks)
        n = rng.randrange(1, 14)
        texts.append("".join(chr(rng.choice([rng.randrange(low, high), rng.randrange(0x61, 0x7b), 0x20]))
                             for _ in range(n)))
    for _ in range(70):
        texts.append("".join(chr(rng.choice([rng.randrange(0x20, 0x7f), rng.randrange(0xd800),
                                             rng.randrange(0xe000, 0x110000), rng.randrange(0x300, 0x370)]))
                             for _ in range(rng.randrange(1, 10))))
    seen = dict.fromkeys(texts)
    return list(seen)


def corpus():
    return SENTENCES.split("\n") * 3


def train(tok, vocab, alphabet=None, special=(), **more):
    trainer = trainers.BpeTrainer(vocab_size=vocab, min_frequency=2, show_progress=False,
                                  special_tokens=list(special), initial_alphabet=alphabet or [], **more)
    tok.train_from_iterator(corpus(), trainer)
    return tok


def byte_level(vocab=560, pre=None, normalizer=None, **more):
    tok = Tokenizer(models.BPE(**more))
    tok.normalizer = normalizer
    tok.pre_tokenizer = pre
    tok.decoder = decoders.ByteLevel()
    return train(tok, vocab, pre_tokenizers.ByteLevel.alphabet())


def split_then_bytes(regex):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(regex), "isolated"),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def special(*texts):
    return [AddedToken(t, special=True, normalized=False) for t in texts]


def around(tok, single):
    names = [w for w in single.split() if w != "$A"]
    return processors.TemplateProcessing(single=single, pair=single + " $B:1",
                                         special_tokens=[(w, tok.token_to_id(w)) for w in set(names)])


def llama3():
    tok = byte_level(pre=split_then_bytes(LLAMA3), ignore_merges=True)
    tok.add_special_tokens(special("<|begin|>", "<|end|>", "<|endoftext|>"))
    tok.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False),
                                              around(tok, "<|begin|> $A")])
    return tok


def gpt2():
    tok = byte_level(pre=pre_tokenizers.ByteLevel(add_prefix_space=False))
    tok.add_special_tokens(special("<|endoftext|>"))
    tok.post_processor = processors.ByteLevel(trim_offsets=False)
    return tok


def roberta():
    tok = byte_level(pre=pre_tokenizers.ByteLevel(add_prefix_space=True))
    tok.add_special_tokens(special("<s>", "</s>", "<pad>"))
    tok.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True, normalized=False)])
    tok.post_processor = processors.RobertaProcessing(("</s>", tok.token_to_id("</s>")),
                                                      ("<s>", tok.token_to_id("<s>")))
    return tok


def qwen():
    tok = byte_level(pre=split_then_bytes(QWEN), normalizer=normalizers.NFC())
    tok.add_special_tokens(special("<|endoftext|>"))
    tok.add_tokens([AddedToken("<x>", normalized=False), AddedToken("\u00e9t\u00e9", normalized=True)])
    return tok


def cl100k():
    tok = byte_level(pre=split_then_bytes(CL100K))
    tok.add_special_tokens(special("<|endoftext|>"))
    return tok


def o200k():
    return byte_level(pre=split_then_bytes(O200K))


def deepseek():
    pre = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(r"\p{N}{1,3}"), "isolated"),
        pre_tokenizers.Split(Regex(HAN), "isolated"),
        pre_tokenizers.Split(Regex(r"[!-/:-~]?[A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
                                   r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    return byte_level(pre=pre)


def bytes_first():
    pre = pre_tokenizers.Sequence([pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=False),
                                   pre_tokenizers.Split("\u0120", "merged_with_next"),
                                   pre_tokenizers.Digits(individual_digits=True)])
    tok = Tokenizer(models.BPE(unk_token="<unk>"))
    tok.pre_tokenizer = pre
    tok.decoder = decoders.ByteLevel()
    return train(tok, 500, pre_tokenizers.ByteLevel.alphabet(), special("<unk>"))


BYTES = [f"<0x{b:02X}>" for b in range(256)]


def sentencepiece(fallback, pre, normalizer, decoder, vocab=700, bytes_known=256, fuse=True, unk="<unk>"):
    tok = Tokenizer(models.BPE(unk_token=unk, fuse_unk=fuse, byte_fallback=fallback))
    tok.normalizer = normalizer
    tok.pre_tokenizer = pre
    tok.decoder = decoder
    extra = BYTES[:bytes_known] if fallback else []
    # Trained on some of the sentences only, so that some characters stay unknown.
    trainer = trainers.BpeTrainer(vocab_size=vocab, min_frequency=2, show_progress=False,
                                  special_tokens=["<unk>", "<s>", "</s>"] + extra)
    tok.train_from_iterator((SENTENCES.split("\n")[:15] + [SENTENCES.split("\n")[23]]) * 3, trainer)
    d = json.loads(tok.to_str())
    d["added_tokens"] = [a for a in d["added_tokens"] if not a["content"].startswith("<0x")]
    return Tokenizer.from_str(json.dumps(d))


def llama2():
    norm = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    dec = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(),
                             decoders.Strip(" ", 1, 0)])
    tok = sentencepiece(True, None, norm, dec)
    tok.post_processor = around(tok, "<s> $A </s>")
    return tok


def gemma():
    dec = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    tok = sentencepiece(True, pre_tokenizers.Split(" ", "merged_with_previous"),
                        normalizers.Replace(" ", "\u2581"), dec)
    tok.add_tokens([AddedToken(t, normalized=False) for t in ["\n\n", "\n\n\n", "\u2581\u2581", "\t"]])
    tok.post_processor = around(tok, "<s> $A")
    return tok


def metaspace(scheme, split, **more):
    def make():
        pre = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=split)
        return sentencepiece(pre=pre, normalizer=more.pop("normalizer", None),
                             decoder=decoders.Metaspace(prepend_scheme=scheme), **more)
    return make


def flags():
    tok = Tokenizer(models.BPE(unk_token="<unk>"))
    tok.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.Lowercase()])
    tok.pre_tokenizer = pre_tokenizers.Whitespace()
    train(tok, 300, special=["<unk>"])
    texts = ["word", "left", "right", "both", "Key", "\u00c9t\u00e9", "<x>", "<X>", "[Single]", "[L]", "[R]",
             "<|end|>", "<|end", "<|end|", "The", "in", "ing", "  ", "\u4e2d", "1", "--"]
    for i, t in enumerate(texts):
        tok.add_tokens([AddedToken(t, single_word=i % 3 == 0, lstrip=i % 4 in (1, 3), rstrip=i % 4 in (2, 3),
                                   normalized=i % 5 in (0, 2), special=i % 7 == 2)])
    return tok


def all_flags():
    tok = Tokenizer(models.BPE(unk_token="<unk>"))
    tok.normalizer = normalizers.Lowercase()
    train(tok, 200, special=["<unk>"])
    names = ["word", "Word", "left", "right", "both", "the", "The", "ing", "<x>", "<Y>", "<|end|>", "<mask>",
             "a", "0", "42", "...", "__", "'s", "\u3042", "\u00e9", "e\u0301", "\U0001f600", "\n", "<s>", "</s>",
             "<pad>", "[Single]", "key", "BOTH", "<|beg", "\u0130", "\uac00"]
    for i, t in enumerate(names):
        tok.add_tokens([AddedToken(t, single_word=bool(i & 1), lstrip=bool(i & 2), rstrip=bool(i & 4),
                                   normalized=bool(i & 8), special=bool(i & 16))])
    return tok


def words():
    tok = Tokenizer(models.BPE(unk_token="[UNK]"))
    tok.normalizer = normalizers.Sequence([normalizers.Strip(), normalizers.NFKD(), normalizers.StripAccents(),
                                           normalizers.Lowercase(),
                                           normalizers.Replace(Regex(r"[\x{80}-\x{9f}]|\p{Zs}{2,}"), " ")])
    tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(),
                                                 pre_tokenizers.Punctuation("contiguous"),
                                                 pre_tokenizers.Digits(individual_digits=False)])
    train(tok, 400, special=["[UNK]", "[CLS]", "[SEP]"])
    tok.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    return tok


def behaviors():
    split = pre_tokenizers.Split
    tok = Tokenizer(models.BPE(unk_token="?", fuse_unk=True))
    tok.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Strip(left=False, right=True)])
    tok.pre_tokenizer = pre_tokenizers.Sequence([
        split(Regex(r"\s"), "merged_with_previous"), split(Regex("[aeiou]"), "merged_with_next"),
        split(Regex(r"\p{N}"), "contiguous"), split(Regex("[t-z]+"), "removed"),
        split("the", "isolated", invert=True), split(Regex(r"\p{Lu}"), "contiguous", invert=True),
        split(Regex(r"\b"), "isolated"), split(Regex("(?<=l)|(?=q)"), "merged_with_previous"),
        split(Regex("^[a-c]|[d-f]$"), "isolated"), split(Regex(r"\p{Han}{1,2}+"), "isolated")])
    tok.decoder = decoders.Fuse()
    return train(tok, 400, special=["?"])


def spaces():
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()])
    return train(tok, 300)


TOKENIZERS = {
    "llama3": llama3, "gpt2": gpt2, "roberta": roberta, "qwen": qwen, "cl100k": cl100k, "o200k": o200k,
    "deepseek": deepseek, "bytes_first": bytes_first, "llama2": llama2, "gemma": gemma,
    "meta_always": metaspace("always", True, fallback=False),
    "meta_first": metaspace("first", True, fallback=True),
    "meta_first_whole": metaspace("first", False, fallback=False, fuse=False,
                                  normalizer=normalizers.Strip()),
    "meta_never": metaspace("never", True, fallback=False, unk=None),
    "half_bytes": metaspace("always", False, fallback=True, bytes_known=200),
    "half_bytes_unfused": metaspace("always", True, fallback=True, bytes_known=200, fuse=False),
    "flags": flags, "all_flags": all_flags, "words": words, "behaviors": behaviors, "spaces": spaces,
}
STRINGS = {"gpt2", "llama2"}  # merges as "a b"
WITH_STARTS = {"qwen", "roberta", "llama2", "gemma", "meta_first", "words"}


def byte_starts(text, encoding):
    at = [0]
    for c in text:
        at.append(at[-1] + len(c.encode()))
    return [[at[a], at[b]] for a, b in encoding.offsets]


def expected(name, tok, texts):
    out = {"before": None, "after": None, "ids": [], "skipped": [], "kept": []}
    for text in texts:
        ids = tok.encode(text, add_special_tokens=False).ids
        full = tok.encode(text).ids
        if out["before"] is None:
            cut = tok.encode("").ids
            k = next(k for k in range(len(cut) + 1) if full == cut[:k] + ids + cut[k:])
            one = tok.encode("a").ids
            k = next(k for k in range(len(cut) + 1)
                     if one == cut[:k] + tok.encode("a", add_special_tokens=False).ids + cut[k:])
            out["before"], out["after"] = cut[:k], cut[k:]
        assert full == out["before"] + ids + out["after"], (name, text)
        out["ids"].append(ids)
        skipped = tok.decode(full, skip_special_tokens=True)
        kept = tok.decode(full, skip_special_tokens=False)
        out["skipped"].append(None if skipped == text else skipped)
        out["kept"].append(None if kept == skipped else kept)
    if name in WITH_STARTS:
        raw = json.loads(tok.to_str())
        raw["post_processor"] = None
        bare = Tokenizer.from_str(json.dumps(raw))
        out["starts"] = [byte_starts(t, bare.encode(t, add_special_tokens=False)) for t in texts[:STARTS]]
    return out


PROPERTIES = ["L", "Lu", "Ll", "Lt", "Lm", "Lo", "M", "Mn", "Mc", "Me", "N", "Nd", "Nl", "No", "P", "Pc", "Pd",
              "Ps", "Pe", "Pi", "Pf", "Po", "S", "Sm", "Sc", "Sk", "So", "Z", "Zs", "Zl", "Zp", "Cc", "Cf",
              "Alphabetic", "Uppercase", "Lowercase", "Han", "Hiragana", "Katakana", "Hangul", "Latin",
              "Cyrillic", "Greek", "Arabic", "Hebrew", "Thai", "Devanagari"]
POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def chunks(step=4096):
    for i in range(0, len(POINTS), step):
        yield "".join(map(chr, POINTS[i:i + step]))


def reference_set(pattern):
    """Code points that match by themselves."""
    pre, out = pre_tokenizers.Split(Regex(pattern), "removed", invert=True), set()
    for s in chunks():
        for _, (a, b) in pre.pre_tokenize_str(s):
            out.update(map(ord, s[a:b]))
    return out


def pcre2_set(pattern):
    lib = ctypes.CDLL("libpcre2-8.so.0")
    for f in ("pcre2_compile_8", "pcre2_match_data_create_8", "pcre2_get_ovector_pointer_8"):
        getattr(lib, f).restype = ctypes.c_void_p
    lib.pcre2_get_ovector_pointer_8.restype = ctypes.POINTER(ctypes.c_size_t)
    code, at = ctypes.c_int(), ctypes.c_size_t()
    utf_ucp = 0x00080000 | 0x00020000
    pattern = pattern.encode()
    re = lib.pcre2_compile_8(pattern, ctypes.c_size_t(len(pattern)), utf_ucp, ctypes.byref(code),
                             ctypes.byref(at), None)
    assert re, pattern
    data = ctypes.c_void_p(lib.pcre2_match_data_create_8(1, None))
    lib.pcre2_jit_compile_8(ctypes.c_void_p(re), 1)
    out = set()
    for s in chunks():
        b, i = s.encode(), 0
        while lib.pcre2_match_8(ctypes.c_void_p(re), b, ctypes.c_size_t(len(b)), ctypes.c_size_t(i),
                                0x40000000, data, None) > 0:
            v = lib.pcre2_get_ovector_pointer_8(data)
            out.update(map(ord, b[v[0]:v[1]].decode()))
            i = v[1]
    return out


def isolated(pre):
    """Code points that a pre-tokenizer cuts out of letters."""
    out = set()
    for s in chunks():
        s = "a" + "a".join(s) + "a"
        out.update(ord(s[a]) for _, (a, b) in pre.pre_tokenize_str(s) if b - a == 1 and s[a] != "a")
    return out


def word_neighbours():
    """Code points after which a single_word token is not taken."""
    tok = Tokenizer(models.BPE(vocab={"a": 0}, merges=[]))
    tok.add_tokens([AddedToken("<x>", single_word=True, normalized=False)])
    return {c for c in POINTS if tok.encode(chr(c) + "<x>").ids != [1]}


def ranges(points):
    out = []
    for c in sorted(points):
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def utf8proc():
    lib = ctypes.CDLL("libutf8proc.so.2")
    buffer, last = (ctypes.c_int32 * 18)(), ctypes.c_int()

    def decompose(c, compat):
        n = lib.utf8proc_decompose_char(c, buffer, 18, 2 | 16 | (4 if compat else 0), ctypes.byref(last))
        return "".join(map(chr, buffer[:n]))
    lib.utf8proc_get_property.restype = ctypes.POINTER(ctypes.c_int16)
    return lib, decompose


def young():
    """What the reference library neither decomposes nor orders nor takes for a mark, but others may."""
    lib, decompose = utf8proc()
    nfd, nfkd, strip = normalizers.NFD(), normalizers.NFKD(), normalizers.StripAccents()
    marks = reference_set(r"\p{M}")  # its regular expressions are newer than its normalizers
    newest = reference_set(r"\P{Cn}")
    out = set()
    for c in POINTS:
        ch = chr(c)
        inert = nfd.normalize_str(ch) == nfkd.normalize_str(ch) == ch
        if not inert or strip.normalize_str("a" + ch) == "a":
            continue
        if nfd.normalize_str("a\u0345" + ch) != "a\u0345" + ch or nfd.normalize_str(ch + "\u0334") != ch + "\u0334":
            continue
        known = unicodedata.category(ch) != "Cn"
        moves = decompose(c, True) != ch or unicodedata.normalize("NFKD", ch) != ch
        moves = moves or unicodedata.combining(ch) or lib.utf8proc_get_property(c)[1] != 0
        if moves or c in marks or lib.utf8proc_category(c) in (6, 7, 8) or (c in newest and not known):
            out.add(c)
    # In a composition, the parts must be young as well.
    for a, b in [(0x11935, 0x11930)]:
        if nfc_is_apart(a, b):
            out.add(b)
    return out


def nfc_is_apart(a, b):
    s = chr(a) + chr(b)
    return normalizers.NFC().normalize_str(s) == s


def c_ranges(name, points):
    rows = ["{%#x, %#x}" % (a, b) for a, b in ranges(points)] or ["{0x110000, 0x110000}"]
    return (f"const oc_tk_range oc_tk_{name}[] = {{{', '.join(rows)}}};\n"
            f"const size_t oc_tk_{name}_count = {len(rows)};\n")


def write_tables():
    lib, _ = utf8proc()
    category = {c: lib.utf8proc_category(c) for c in POINTS}
    punctuation = isolated(pre_tokenizers.Punctuation("isolated"))
    ours = {c for c in POINTS if 12 <= category[c] <= 18 or (c < 0x80 and chr(c) in string.punctuation)}
    numeric = isolated(pre_tokenizers.Digits(individual_digits=True))
    lower = normalizers.Lowercase()
    pairs = [(c, lower.normalize_str(chr(c))) for c in POINTS if c > 0x7f and c != 0x130]
    pairs = [(c, ord(s)) for c, s in pairs if ord(s) != lib.utf8proc_tolower(c)]
    extras = []
    for name in PROPERTIES:
        script = len(name) > 2 and name not in ("Alphabetic", "Uppercase", "Lowercase")
        more = reference_set(r"\p{%s}" % name) - pcre2_set(r"\p{%s%s}" % ("sc:" if script else "", name))
        text = "".join("\\\\x{%x}" % a + ("-\\\\x{%x}" % b if b > a else "") for a, b in ranges(more))
        if text:
            extras.append('{"%s", "%s"}' % (name.lower(), text))
    with open(TABLES, "w") as f:
        f.write("/* Written by tools/make_tokenizer_expected.py --unicode. */\n"
                '#include "tokenizer/unicode.h"\n\n')
        f.write(c_ranges("young", young()))
        f.write(c_ranges("more_numeric", numeric - {c for c in POINTS if 9 <= category[c] <= 11}))
        word = {c for c in POINTS if 1 <= category[c] <= 10 or category[c] == 12}
        f.write(c_ranges("more_word", word_neighbours() - word))
        f.write(c_ranges("more_punctuation", punctuation - ours))
        f.write(c_ranges("fewer_punctuation", ours - punctuation))
        f.write("const oc_tk_range oc_tk_lower_pairs[] = {%s};\n" % ", ".join("{%#x, %#x}" % p for p in pairs))
        f.write(f"const size_t oc_tk_lower_pairs_count = {len(pairs)};\n")
        f.write("const oc_tk_extra oc_tk_extras[] = {%s};\n" % ",\n".join(extras))
        f.write(f"const size_t oc_tk_extras_count = {len(extras)};\n")


def corpus_documents():
    """Small tokenizer.json files with every component, for the fuzz target."""
    vocab = {t: i for i, t in enumerate(["<unk>", "a", "b", "A", "1", "\u2581", "\u0120", "\u00c3", "ab",
                                         "\u2581a", "\u0120a", "<0x41>", "<0xFF>", "\u00e9", "_"])}

    def document(**parts):
        model = {"type": "BPE", "unk_token": "<unk>", "fuse_unk": True, "byte_fallback": False,
                 "ignore_merges": False, "vocab": vocab,
                 "merges": [["a", "b"], ["\u2581", "a"], ["\u0120", "a"]]}
        model.update(parts.pop("model", {}))
        return {"added_tokens": [], **parts, "model": model}

    def split(pattern, behavior, invert=False):
        return {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}

    def sequence(key, *all):
        return {"type": "Sequence", key: list(all)}

    def added(i, text, **flags):
        return {"id": i, "content": text, "single_word": False, "lstrip": False, "rstrip": False,
                "normalized": False, "special": False, **flags}
    byte_level = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    raw = dict(byte_level, add_prefix_space=False, use_regex=False)
    meta = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": True}
    replace = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
    template = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
                                                        {"Sequence": {"id": "A", "type_id": 0}}],
                "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [0, 1], "tokens": ["<s>", "a"]}}}
    yield document(pre_tokenizer=byte_level, decoder=byte_level, post_processor=byte_level)
    yield document(pre_tokenizer=sequence("pretokenizers", split({"Regex": LLAMA3}, "Isolated"), raw),
                   model={"ignore_merges": True, "unk_token": None}, post_processor=template)
    yield document(pre_tokenizer=sequence("pretokenizers", raw, split({"String": "\u0120"}, "MergedWithNext")))
    yield document(normalizer=sequence("normalizers", {"type": "Prepend", "prepend": "\u2581"}, replace),
                   model={"byte_fallback": True}, post_processor=template,
                   decoder=sequence("decoders", dict(replace, pattern={"String": "\u2581"}, content=" "),
                                    {"type": "ByteFallback"}, {"type": "Fuse"},
                                    {"type": "Strip", "content": " ", "start": 1, "stop": 1}))
    yield document(normalizer=replace, pre_tokenizer=split({"String": " "}, "MergedWithPrevious"))
    for scheme in ("first", "always", "never"):
        yield document(pre_tokenizer=dict(meta, prepend_scheme=scheme), decoder=dict(meta, prepend_scheme=scheme))
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        yield document(normalizer={"type": form}, added_tokens=[added(15, "\u00c9", normalized=True)])
    yield document(normalizer=sequence("normalizers", {"type": "Lowercase"}, {"type": "StripAccents"},
                                       {"type": "Strip", "strip_left": True, "strip_right": False}),
                   pre_tokenizer=sequence("pretokenizers", {"type": "Whitespace"}, {"type": "Punctuation"},
                                          {"type": "Digits", "individual_digits": True}))
    yield document(normalizer={"type": "Replace", "pattern": {"Regex": "a*|b+?"}, "content": "z"},
                   pre_tokenizer=sequence("pretokenizers", {"type": "WhitespaceSplit"},
                                          split({"Regex": r"\b|(?<=a)[^\w\-x]{1,2}+"}, "Contiguous", True),
                                          split({"Regex": "[a-z]"}, "Removed")))
    flags = ["single_word", "lstrip", "rstrip", "normalized", "special"]
    yield document(added_tokens=[added(15 + i, t, **{f: bool(i >> k & 1) for k, f in enumerate(flags)})
                                 for i, t in enumerate(["<s>", "</s>", "<s", "A", "ab", " ", "\n", "1"])],
                   post_processor={"type": "RobertaProcessing", "sep": ["</s>", 16], "cls": ["<s>", 15]})
    yield document(model={"unk_token": None, "merges": ["a b", "#version: 0.2", "\u2581 a"]})
    yield document(model={"byte_fallback": True, "fuse_unk": False}, decoder=sequence("decoders"))


def write_corpus():
    folder = os.path.join(ROOT, "tests", "data", "fuzz", "tokenizer")
    os.makedirs(folder, exist_ok=True)
    texts = ["", "aAb  ab<s>\u00e9\ne\u0301 1", "<s> ab </s>  A\u3000\u2581a\U0001f600"]
    for i, d in enumerate(corpus_documents()):
        with open(os.path.join(folder, f"{i:02}"), "wb") as f:
            f.write(json.dumps(d, separators=(",", ":"), ensure_ascii=i % 2 == 0).encode())
            if i % 3:
                f.write(b"\0" + texts[i % 3].encode() + b"\xff\xe2\x82")


def dump(path, value):
    with open(path, "w", encoding="utf-8") as f:
        json.dump(value, f, separators=(",", ":"), ensure_ascii=False)
        f.write("\n")


def main():
    if "--unicode" in sys.argv[1:]:
        write_tables()
        return
    os.makedirs(OUT, exist_ok=True)
    texts = make_texts()
    assert len(texts) >= 500, len(texts)
    dump(os.path.join(OUT, "texts.json"), texts)
    for name, make in TOKENIZERS.items():
        d = json.loads(make().to_str())
        if name in STRINGS:
            d["model"]["merges"] = [m if isinstance(m, str) else " ".join(m) for m in d["model"]["merges"]]
        dump(os.path.join(OUT, name + ".json"), d)
        tok = Tokenizer.from_str(json.dumps(d))
        dump(os.path.join(OUT, name + ".expected.json"), expected(name, tok, texts))
    write_corpus()
    print(len(texts), "texts,", len(TOKENIZERS), "tokenizers")


if __name__ == "__main__":
    main()
