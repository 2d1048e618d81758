#!/usr/bin/env bash
# coverage.sh: lines of each parser that the fuzz corpora reach, run as the suite runs them; 85 % of each is
# asked for. Needs gcc and gcov.
set -euo pipefail
cd "$(dirname "$0")/.."

least=85
# parser, the test that runs its corpus, the sources
parsers=(
    "safetensors test_tensor_corpus src/tensor/safetensors_header.c src/tensor/safetensors_index.c"
    "config.json test_model_corpus src/model/family_config.c src/model/family_rope.c src/model/family_layers.c src/model/model.c"
    "ds_config.json test_config_corpus src/config/deepspeed.c src/config/deepspeed_keys.c"
    "data test_data_corpus src/data/lines.c src/data/stream.c src/data/rows.c src/data/forms.c src/data/convert.c src/data/encode.c src/data/chat.c"
    "template test_template_corpus src/template/lex.c src/template/parse.c src/template/expr.c src/template/scope.c"
    "tokenizer test_tokenizer_corpus src/tokenizer/json.c src/tokenizer/reader.c src/tokenizer/component.c src/tokenizer/model.c src/tokenizer/config.c src/tokenizer/dialect.c"
)

generator=()
command -v ninja >/dev/null && generator=(-G Ninja)
fresh=()
[ -f build-coverage/CMakeCache.txt ] || fresh=("${generator[@]}")
CC=gcc cmake -S . -B build-coverage "${fresh[@]}" -DCMAKE_BUILD_TYPE=Debug \
    "-DCMAKE_C_FLAGS=-O0 --coverage" >/dev/null
tests=()
for line in "${parsers[@]}"; do
    read -r _ test _ <<<"$line"
    tests+=("$test")
done
cmake --build build-coverage -j "${JOBS:-$(nproc)}" --target "${tests[@]}"
find build-coverage -name '*.gcda' -delete

low=0
for line in "${parsers[@]}"; do
    read -r name test sources <<<"$line"
    "build-coverage/$test" >"build-coverage/$test.log" 2>&1 || {
        echo "coverage: $test fails, see build-coverage/$test.log" >&2
        exit 1
    }
    lines=0 hit=0
    for source in $sources; do
        room=$(basename "$(dirname "$source")")
        note=build-coverage/CMakeFiles/oc_$room.dir/$source.gcda
        # "Lines executed:93.10% of 203" of the file itself comes first
        read -r percent of < <(gcov -n "$note" 2>/dev/null | grep -A1 "File '.*${source}'" |
            sed -n 's/^Lines executed:\([0-9.]*\)% of \([0-9]*\)$/\1 \2/p')
        printf '  %-36s %6s %% of %s\n' "$source" "$percent" "$of"
        lines=$((lines + of))
        hit=$(awk -v h="$hit" -v p="$percent" -v n="$of" 'BEGIN { print h + p * n / 100 }')
    done
    share=$(awk -v h="$hit" -v n="$lines" 'BEGIN { printf "%.1f", 100 * h / n }')
    echo "coverage: $name $share % of $lines lines"
    awk -v s="$share" -v l="$least" 'BEGIN { exit !(s < l) }' && low=1
done
if [ "$low" -ne 0 ]; then
    echo "coverage: a parser's corpus reaches less than $least %" >&2
    exit 1
fi
