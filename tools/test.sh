#!/usr/bin/env bash
# test.sh BUILD [ctest options]: runs the tests of a build folder, as many side by side as there are
# cores (JOBS), and says how many there were.
set -euo pipefail

build=$1
shift
status=0
ctest --test-dir "$build" -j "${JOBS:-$(nproc)}" --output-on-failure --no-tests=error "$@" || status=$?

# cmocka tells each test by name; a program is what ctest counts.
log=$build/Testing/Temporary/LastTest.log
count() { grep -c -F -- "$1" "$log" || true; }
echo "programs: $(count 'Test time ='); tests inside: $(count '[       OK ]') passed," \
    "$(count '[  FAILED  ] ') lines of failure, $(count '[  SKIPPED ]') skipped"
exit "$status"
