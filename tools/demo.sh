#!/usr/bin/env bash
# demo.sh [OUT]: trains a llama-shaped model on real text with a device whose memory is far smaller than
# the model's states, and lets it write. The same every time; under three minutes on two cores.
#
# From the environment: STEPS, DEVICE_MEMORY.
set -euo pipefail
cd "$(dirname "$0")/.."

out=${1:-out/demo}
steps=100
grep -qs avx512f /proc/cpuinfo || steps=60 # narrower vectors take longer
steps=${STEPS:-$steps}
device_memory=${DEVICE_MEMORY:-28MiB}
program=
for p in ./outcore build/outcore; do
    if [ -z "$program" ] && [ -x "$p" ]; then program=$p; fi
done
[ -n "$program" ] || { echo "demo: build the program first: make" >&2; exit 1; }

mkdir -p "$out"
text=$out/text.txt
if [ ! -s "$text" ]; then
    command -v bible >/dev/null || { echo "demo: the text is missing (package bible-kjv): make deps" >&2; exit 1; }
    bible -l0 -f Gen1:1-Rev22:21 2>/dev/null | sed -E 's/^[0-9A-Za-z]+:[0-9]+ //' >"$text.new"
    mv "$text.new" "$text"
fi
head -c 4000000 "$text" >"$out/train.txt"
tail -c 20000 "$text" >"$out/eval.txt"

shape=(--init examples/tiny-llama --dtype bf16 --seq-length 256 --micro-batch 2 --grad-accum 4
    --device-memory "$device_memory")

# Each thread needs workspace on the device: as many as the budget leaves room for, up to four.
threads=$(nproc)
[ "$threads" -le 4 ] || threads=4
while [ "$threads" -gt 1 ] && ! "$program" plan "${shape[@]}" --threads "$threads" --quiet >/dev/null 2>&1; do
    threads=$((threads - 1))
done
shape+=(--threads "$threads")

echo "== what it needs, before anything starts: outcore plan"
"$program" plan "${shape[@]}"
"$program" plan "${shape[@]}" --json --quiet >"$out/plan.json"

# Bytes of one use on the host, where all states are at home.
use() { sed -n '/"host": {/,/}/s/.*"'"$1"'": \([0-9]*\).*/\1/p' "$out/plan.json" | head -n 1; }
device=$(sed -n '/"device": {/,/}/s/.*"bytes": \([0-9]*\).*/\1/p' "$out/plan.json" | head -n 1)
states=$(($(use weights) + $(use gradients) + $(use master) + $(use moments)))
awk -v s="$states" -v d="$device" -v m="$device_memory" 'BEGIN {
    printf "== weights, gradients, master weights and moments: %.1f MiB\n", s / 1048576
    printf "== on a device with %s (%.1f MiB used): %.1f times its memory\n", m, d / 1048576, s / d }'
[ "$states" -ge $((8 * device)) ] || { echo "demo: the states are not 8 times the device's memory" >&2; exit 1; }

echo "== training: outcore train"
"$program" train "${shape[@]}" --data "$out/train.txt" --eval-data "$out/eval.txt" \
    --output "$out/model" --overwrite --max-steps "$steps" --lr 2e-3 --warmup-steps 10 \
    --lr-schedule cosine --weight-decay 0.1 --log "$out/log.jsonl" --trace "$out/trace.json" \
    2>&1 | tee "$out/train.log"

echo "== loss"
sed -nE 's/.*"step": ([0-9]+), "loss": ([0-9.]+).*/\1 \2/p' "$out/log.jsonl" | awk -v n="$steps" '
    $1 == 1 || $1 == n || $1 % 10 == 0 {
        bar = ""
        for (i = 0; i < $2 * 10; i++) bar = bar "#"
        printf "  step %4d  loss %.3f  %s\n", $1, $2, bar
    }
    NR == 1 { first = $2 }
    { last = $2 }
    END { if (!(last < first)) { print "demo: the loss did not fall" > "/dev/stderr"; exit 1 } }'

echo "== the model that was written: outcore eval"
"$program" eval --model "$out/model" --data "$out/eval.txt" --seq-length 256 --micro-batch 2 --quiet

echo "== what it says now: outcore generate"
"$program" generate --model "$out/model" --prompt "And it came to pass" --max-new-tokens 160 --temperature 0.7 --quiet

echo "== bytes"
grep -E 'bytes planned|^process:' "$out/train.log" | sed 's/^/  /'
echo "== the model is in $out/model (config.json, model.safetensors, tokenizer.json),"
echo "   the steps in $out/log.jsonl, the lanes in $out/trace.json (open it at ui.perfetto.dev)"
