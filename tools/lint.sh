#!/usr/bin/env bash
# lint.sh [--fix|--all|--quick]: format, layers, warnings as errors with gcc and clang, clang-tidy. Only what
# changed since it was last found clean is looked at again (--all: everything; --quick: no clang-tidy).
# --fix applies the format and stops.
set -euo pipefail
cd "$(dirname "$0")/.."

jobs=${JOBS:-$(nproc)}
clean=out/lint # one empty file for each source that is clean, by what it and its headers hold
mapfile -t files < <(find src include tests bench examples -name '*.[ch]' | sort)

case ${1:-} in
--fix)
    clang-format -i "${files[@]}"
    exit 0
    ;;
--all) rm -rf "$clean" ;;
--quick | '') ;;
*)
    echo "lint: '$1' is not known; only --fix, --all and --quick" >&2
    exit 2
    ;;
esac

echo "lint: format (${#files[@]} files)"
clang-format --dry-run -Werror "${files[@]}"

echo "lint: layers"
python3 tools/check_layers.py

# A folder in which warnings of this compiler are errors already, and all is built.
built_by() {
    local folder
    for folder in build build-asan-clang; do
        grep -qs "^CMAKE_C_COMPILER:.*/$1\$" "$folder/CMakeCache.txt" &&
            grep -q '^OC_WERROR:BOOL=ON$' "$folder/CMakeCache.txt" && echo "$folder" && return
    done
    echo "build-lint-$1"
}

generator=()
command -v ninja >/dev/null && generator=(-G Ninja)
for compiler in gcc clang; do
    folder=$(built_by "$compiler")
    echo "lint: warnings of $compiler ($folder)"
    fresh=()
    [ -f "$folder/CMakeCache.txt" ] || fresh=("${generator[@]}")
    [ "$folder" != "build-lint-$compiler" ] ||
        CC=$compiler cmake -S . -B "$folder" "${fresh[@]}" -DOC_WERROR=ON >/dev/null
    cmake --build "$folder" -j "$jobs"
done

# What clang-tidy's answer for a source depends on.
key_of() {
    { cat .clang-tidy; clang -MM -D_GNU_SOURCE -mavx2 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma \
        -Isrc -Iinclude "$1" 2>/dev/null | tr -d '\\\n' | cut -d: -f2 | xargs cat; } | sha256sum | cut -c1-32
}
tidy() { # one source at a time: the analyzer mistakes va_lists when it is given several
    local key
    key=$(key_of "$2")
    [ ! -e "$clean/$key" ] || return 0
    clang-tidy -p "$1" --quiet --warnings-as-errors='*' "$2" 2>&1 |
        { grep -v 'warnings generated\|warning generated' || true; }
    [ "${PIPESTATUS[0]}" -eq 0 ] || return 1
    : >"$clean/$key"
}
export clean
export -f key_of tidy

if [ "${1:-}" = --quick ]; then
    echo "lint: clean, but for clang-tidy"
    exit 0
fi
mkdir -p "$clean"
echo "lint: clang-tidy"
find src -name '*.c' -print0 | sort -z |
    xargs -0 -I{} -P "$jobs" bash -c 'set -uo pipefail; tidy "$1" "$2"' _ "$folder" {}
echo "lint: clean"
