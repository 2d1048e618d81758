#!/usr/bin/env bash
# bench.sh [--fresh] [PART...]: builds, then measures; the parts are those of bench/compare.py. Results: out/bench.
# A run that was stopped goes on where it was, unless the programs have changed since or --fresh is given.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${OC_BUILD:-build}
[ -f "$build/CMakeCache.txt" ] || cmake -S . -B "$build" > /dev/null
cmake -S . -B "$build" -DOC_BENCH=ON > /dev/null
cmake --build "$build" -j "$(nproc)" --target outcore bench_adamw bench_gemm bench_step_gemm bench_attention bench_tokenizer bench_plan bench_few bench_paged
OC_BUILD=$build exec python3 bench/compare.py "$@"
