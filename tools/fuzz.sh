#!/usr/bin/env bash
# fuzz.sh [TARGET...]: searches for inputs that break a parser, with libFuzzer under asan and ubsan.
# Targets are tests/fuzz/fuzz_TARGET.c, all by default, FUZZ_SECONDS each (3600). What it learns stays in
# build-fuzz/corpus/TARGET, an input that breaks something in build-fuzz/found/. Needs clang.
#
# A crash becomes a test: put the input into the target's corpus under tests/data (or a case into the test
# that it belongs to), see it fail there, then mend the parser.
set -euo pipefail
cd "$(dirname "$0")/.."

declare -A seeds=([safetensors]=tests/data/safetensors [config]=tests/data/models/configs
    [deepspeed]=tests/data/fuzz/deepspeed [jsonl]=tests/data/fuzz/jsonl [template]=tests/data/fuzz/template
    [tokenizer]=tests/data/fuzz/tokenizer)
targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
    for file in tests/fuzz/fuzz_*.c; do
        name=${file##*/fuzz_}
        targets+=("${name%.c}")
    done
fi
for target in "${targets[@]}"; do
    [ -f "tests/fuzz/fuzz_$target.c" ] || {
        echo "fuzz: there is no tests/fuzz/fuzz_$target.c" >&2
        exit 2
    }
done

generator=()
command -v ninja >/dev/null && generator=(-G Ninja)
fresh=()
[ -f build-fuzz/CMakeCache.txt ] || fresh=("${generator[@]}")
CC=clang cmake -S . -B build-fuzz "${fresh[@]}" -DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=OFF \
    -DOC_FUZZ=ON "-DOC_SANITIZE=address;undefined" >/dev/null
cmake --build build-fuzz -j "${JOBS:-$(nproc)}" --target "${targets[@]/#/fuzz_}"

export ASAN_OPTIONS=detect_stack_use_after_return=0
found=0
mkdir -p build-fuzz/found
for target in "${targets[@]}"; do
    mkdir -p "build-fuzz/corpus/$target"
    # the seeds may lie in folders of their own
    mapfile -t from < <(find "${seeds[$target]:-tests/data/fuzz/$target}" -type d 2>/dev/null)
    echo "fuzz: $target for ${FUZZ_SECONDS:-3600} s"
    "build-fuzz/fuzz_$target" -max_total_time="${FUZZ_SECONDS:-3600}" -timeout=20 -rss_limit_mb=4096 \
        -print_final_stats=1 "-artifact_prefix=build-fuzz/found/$target-" \
        "build-fuzz/corpus/$target" "${from[@]}" 2>"build-fuzz/$target.log" || found=1
    grep -E "^stat::number_of_executed_units|ERROR|SUMMARY" "build-fuzz/$target.log" || true
done
if [ "$found" -ne 0 ]; then
    echo "fuzz: something was found, see build-fuzz/found and build-fuzz/*.log" >&2
    exit 1
fi
