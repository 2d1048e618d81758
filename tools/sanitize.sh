#!/usr/bin/env bash
# sanitize.sh [ci|asan|tsan|gcc|clang|all]: the suites under the sanitizers.
#
#   asan    address and undefined behaviour over all tests, with gcc and with clang
#   tsan    threads over the tests labelled for it, with gcc and with clang
#   gcc, clang   both sanitizers with one compiler
#   all     both with both (what `make sanitize` does)
#   ci      asan with clang, whose undefined-behaviour checks see more, and tsan with gcc; without the
#           long curves, whose memory is arenas that asan cannot look into
set -euo pipefail
cd "$(dirname "$0")/.."

jobs=${JOBS:-$(nproc)}
generator=()
command -v ninja >/dev/null && generator=(-G Ninja)

what=${1:-all}
case $what in
ci | asan | tsan | gcc | clang | all) ;;
*)
    echo "sanitize: '$what' is none of ci, asan, tsan, gcc, clang, all" >&2
    exit 2
    ;;
esac

# suite COMPILER FOLDER SANITIZERS TARGET [ctest options]
suite() {
    local compiler=$1 folder=$2 sanitizers=$3 target=$4 fresh=()
    shift 4
    echo "sanitize: $compiler, $sanitizers"
    [ -f "$folder/CMakeCache.txt" ] || fresh=("${generator[@]}")
    CC=$compiler cmake -S . -B "$folder" "${fresh[@]}" -DCMAKE_BUILD_TYPE=Release \
        "-DOC_SANITIZE=$sanitizers" -DOC_WERROR=ON >/dev/null
    cmake --build "$folder" -j "$jobs" --target "$target"
    tools/test.sh "$folder" "$@"
}

# Not detect_stack_use_after_return: gcc 12's stand-in frames are not aligned for AVX-512 spills.
export ASAN_OPTIONS=detect_stack_use_after_return=0:strict_string_checks=1
export UBSAN_OPTIONS=print_stacktrace=1
export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1
# Memory as seen from outside is another under asan, and plans at full length are arithmetic on plain
# arrays, which others test shorter.
elsewhere='^test_(outside_.*|cli_long|build_mutants|build_size)$'
long='^test_(outside_.*|cli_long|build_mutants|build_size|train_(placement|families|frozen|early|async|recompute|homes))$'

asan() { suite "$1" "build-asan-$1" 'address;undefined' all -E "$elsewhere"; }
tsan() { suite "$1" "build-tsan-$1" thread tsan_tests -L tsan; }

case $what in
ci)
    suite clang build-asan-clang 'address;undefined' all -E "$long"
    tsan gcc
    ;;
asan | tsan) for c in gcc clang; do "$what" $c; done ;;
gcc | clang) for s in asan tsan; do $s "$what"; done ;;
all) for c in gcc clang; do asan $c && tsan $c; done ;;
esac
