#!/usr/bin/env python3
"""Check that the reference library loads DIR's byte tokenizer and gives our ids.

Run: tools/check_tokenizer.py DIR   (a directory that holds tokenizer.json, tokenizer_config.json)
"""
import random
import sys

from transformers import AutoTokenizer

PAD, BOS, EOS, FIRST = 0, 1, 2, 3


def main():
    tok = AutoTokenizer.from_pretrained(sys.argv[1])
    assert (tok.pad_token_id, tok.bos_token_id, tok.eos_token_id) == (PAD, BOS, EOS)
    assert len(tok) == tok.vocab_size == 259, (len(tok), tok.vocab_size)
    rng = random.Random(1)
    texts = ["", "a", " a  b ", "h\u00e9llo \u4e2d\u6587 \U0001f600", "\0\x01\x7f\u0080\u00ad\r\n\t",
             "don't <s> </s> <pad> <|x|>", "x" * 5000]
    texts += ["".join(chr(rng.choice([rng.randrange(128), rng.randrange(0xD800),
                                      rng.randrange(0xE000, 0x110000)])) for _ in range(50))
              for _ in range(200)]
    for text in texts:
        want = [FIRST + b for b in text.encode()]
        assert tok.encode(text, add_special_tokens=False) == want, repr(text)
        assert tok.encode(text) == [BOS] + want + [EOS], repr(text)
        assert tok.decode(tok.encode(text), skip_special_tokens=True) == text, repr(text)
    print(f"{len(texts)} texts agree")


if __name__ == "__main__":
    main()
