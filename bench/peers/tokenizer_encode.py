"""The tokenizers library on one thread: seconds to open a tokenizer.json, and to encode a text in documents
of about 4 KB. --make first trains a byte-level BPE of --vocab entries on the text and saves it to DIR."""
import argparse
import os
import statistics
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
from common import emit  # noqa: E402
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("--dir", required=True)
parser.add_argument("--text", required=True)
parser.add_argument("--vocab", type=int, default=32000)
parser.add_argument("--steps", type=int, default=3)
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--make", action="store_true")
args = parser.parse_args()
path = os.path.join(args.dir, "tokenizer.json")
with open(args.text, encoding="utf-8", errors="replace", newline="") as file:
    text = file.read()

if args.make:
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.train_from_iterator([text], trainers.BpeTrainer(
        vocab_size=args.vocab, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<|end|>"], show_progress=False))
    os.makedirs(args.dir, exist_ok=True)
    made.save(path)

opened = []
for _ in range(args.steps):
    start = time.perf_counter()
    tokenizer = Tokenizer.from_file(path)
    opened.append(time.perf_counter() - start)

documents, at = [], 0
while at < len(text):
    end = text.find("\n", at + 4096)
    end = len(text) if end < 0 else end + 1
    documents.append(text[at:end])
    at = end
took, ids = [], 0
for step in range(args.steps + 1):
    start = time.perf_counter()
    ids = sum(len(tokenizer.encode(d, add_special_tokens=False).ids) for d in documents)
    if step:
        took.append(time.perf_counter() - start)
emit(seconds=took, open_seconds=statistics.median(opened), ids=ids, bytes=len(text.encode()))
