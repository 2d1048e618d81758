#!/usr/bin/env bash
# lint.sh [--fix]: format, layers, warnings as errors with gcc and clang, clang-tidy. --fix applies the
# format and stops.
set -euo pipefail
cd "$(dirname "$0")/.."

jobs=${JOBS:-$(nproc)}
mapfile -t files < <(find src include tests bench examples -name '*.[ch]' | sort)

case ${1:-} in
--fix)
    clang-format -i "${files[@]}"
    exit 0
    ;;
'') ;;
*)
    echo "lint: '$1' is not known; only --fix" >&2
    exit 2
    ;;
esac

echo "lint: format (${#files[@]} files)"
clang-format --dry-run -Werror "${files[@]}"

echo "lint: layers"
python3 tools/check_layers.py

generator=()
command -v ninja >/dev/null && generator=(-G Ninja)
for compiler in gcc clang; do
    echo "lint: warnings of $compiler"
    folder=build-lint-$compiler
    fresh=()
    [ -f "$folder/CMakeCache.txt" ] || fresh=("${generator[@]}")
    CC=$compiler cmake -S . -B "$folder" "${fresh[@]}" -DOC_WERROR=ON >/dev/null
    cmake --build "$folder" -j "$jobs"
done

echo "lint: clang-tidy"
find src -name '*.c' -print0 | sort -z |
    xargs -0 -n 1 -P "$jobs" clang-tidy -p build-lint-clang --quiet --warnings-as-errors='*' 2>&1 |
    { grep -v 'warnings generated\|warning generated' || true; }
echo "lint: clean"
