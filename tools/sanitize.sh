#!/usr/bin/env bash
# sanitize.sh [asan|tsan]: the suites under the sanitizers, both by default. asan is address and
# undefined behaviour over all tests; tsan is threads over the tests labelled for it.
set -euo pipefail
cd "$(dirname "$0")/.."

jobs=${JOBS:-$(nproc)}
generator=()
command -v ninja >/dev/null && generator=(-G Ninja)

# suite FOLDER SANITIZERS TARGET [ctest options]
suite() {
    local folder=$1 sanitizers=$2 target=$3 fresh=()
    shift 3
    [ -f "$folder/CMakeCache.txt" ] || fresh=("${generator[@]}")
    cmake -S . -B "$folder" "${fresh[@]}" -DCMAKE_BUILD_TYPE=Release "-DOC_SANITIZE=$sanitizers" \
        >/dev/null
    cmake --build "$folder" -j "$jobs" --target "$target"
    tools/test.sh "$folder" "$@"
}

case ${1:-all} in
asan | tsan | all) ;;
*)
    echo "sanitize: '$1' is neither asan nor tsan" >&2
    exit 2
    ;;
esac

# Not detect_stack_use_after_return: gcc 12's stand-in frames are not aligned for AVX-512 spills.
export ASAN_OPTIONS=detect_stack_use_after_return=0:strict_string_checks=1
export UBSAN_OPTIONS=print_stacktrace=1
export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1
# Memory as seen from outside is another under asan, and plans at full length are arithmetic on plain
# arrays, which others test shorter.
elsewhere='^test_(outside_.*|cli_long|build_mutants|build_size)$'
[ "${1:-all}" = tsan ] || suite build-asan 'address;undefined' all -E "$elsewhere"
[ "${1:-all}" = asan ] || suite build-tsan thread tsan_tests -L tsan
