#!/usr/bin/env bash
# generate.sh [MODEL]: a file of requests, then a conversation, on a device that holds a part of the
# weights. MODEL: what `make demo` has trained, out/demo/model. It has read one book and knows no
# questions: it goes on with what is said.
set -euo pipefail
cd "$(dirname "$0")/.."
model=${1:-out/demo/model}
[ -f "$model/config.json" ] || { echo "generate: $model is missing: make demo" >&2; exit 1; }
program=${OC_PROGRAM:-./outcore}
answers=${TMPDIR:-/tmp}/outcore-answers.jsonl

# A conversation needs a template, and bytes have none.
[ -f "$model/chat_template.jinja" ] || cp examples/chat_template.jinja "$model/"

echo "== what each batch costs and gives: outcore plan generate"
"$program" plan generate --model "$model" --device-memory 24MiB --prompt-tokens 32 --max-new-tokens 60

echo "== a file of requests"
"$program" generate --model "$model" --input examples/data/requests.jsonl --output "$answers" --overwrite \
    --device-memory 24MiB
cat "$answers"

echo "== a conversation; by itself: $program generate --model $model --chat"
printf '%s\n' "And Moses said" "/reset" "And Jesus answered" |
    "$program" generate --model "$model" --chat --max-new-tokens 60 --temperature 0.7 --device-memory 24MiB --quiet
