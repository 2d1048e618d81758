#!/usr/bin/env bash
# The demo: train a llama-shaped model on real text with a device far smaller than the model's states.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-out/demo}
program=$(ls build/outcore outcore 2>/dev/null | head -n 1)
mkdir -p "$out"
text=$out/bible.txt
[ -s "$text" ] || bible -l0 -f Gen1:1-Rev22:21 2>/dev/null | sed -E 's/^[0-9A-Za-z]+:[0-9]+ //' > "$text"
head -c 4000000 "$text" > "$out/train.txt"
tail -c 60000 "$text" > "$out/eval.txt"
device_memory=${DEVICE_MEMORY:-20MiB}
steps=${STEPS:-120}

echo "== what it needs, before anything starts"
"$program" plan --init examples/tiny-llama --dtype fp32 --seq-length 256 --micro-batch 4 --grad-accum 2 \
    --device-memory "$device_memory"

echo "== training"
"$program" train --init examples/tiny-llama --tokenizer bytes --data "$out/train.txt" \
    --eval-data "$out/eval.txt" --output "$out/model" --overwrite --dtype fp32 --seq-length 256 \
    --micro-batch 4 --grad-accum 2 --max-steps "$steps" --lr 2e-3 --warmup-steps 20 \
    --lr-schedule cosine --weight-decay 0.1 --device-memory "$device_memory" \
    --log "$out/log.jsonl" --trace "$out/trace.json"

echo "== loss, first and last steps"
sed -nE 's/.*"step": ([0-9]+), "loss": ([0-9.]+).*/  step \1  loss \2/p' "$out/log.jsonl" |
    awk 'NR == 1 || NR % 20 == 0'
echo "== evaluation of the model that was written"
"$program" eval --model "$out/model" --data "$out/eval.txt" --seq-length 256 --micro-batch 4 --quiet
echo "the model is in $out/model, the trace (open it at ui.perfetto.dev) in $out/trace.json"
