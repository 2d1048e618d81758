#!/usr/bin/env bash
# sanitize.sh [asan|tsan]: the suites under the sanitizers, both by default. asan is address and
# undefined behaviour over all tests; tsan is threads over the tests labelled for it.
set -euo pipefail
cd "$(dirname "$0")/.."

jobs=${JOBS:-$(nproc)}
generator=()
command -v ninja >/dev/null && generator=(-G Ninja)

# suite FOLDER SANITIZERS [ctest options]
suite() {
    local folder=$1 sanitizers=$2
    shift 2
    [ -f "$folder/CMakeCache.txt" ] || local fresh=("${generator[@]}")
    cmake -S . -B "$folder" "${fresh[@]}" -DCMAKE_BUILD_TYPE=Release "-DOC_SANITIZE=$sanitizers" \
        >/dev/null
    cmake --build "$folder" -j "$jobs"
    tools/test.sh "$folder" -j "$jobs" "$@"
}

case ${1:-all} in
asan | tsan | all) ;;
*)
    echo "sanitize: '$1' is neither asan nor tsan" >&2
    exit 2
    ;;
esac

export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1
export UBSAN_OPTIONS=print_stacktrace=1
export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1
[ "${1:-all}" = tsan ] || suite build-asan 'address;undefined'
[ "${1:-all}" = asan ] || suite build-tsan thread -L tsan
