#!/usr/bin/env bash
# Line coverage of a reader by the seeds of its fuzz target, without the whole coverage build.
# Usage: tools/fuzz_coverage.sh NAME 'COMPONENT ...' 'src/COMPONENT/PATTERN*.c' LEAST_PERCENT
# Exits with 77 if clang's coverage tools are missing.
set -euo pipefail
name=$1 rooms=$2 pattern=$3 least=$4
src=$(cd "$(dirname "$0")/.." && pwd)
cov=$(compgen -c llvm-cov | sort -V | tail -n 1) || cov=""
profdata=$(compgen -c llvm-profdata | sort -V | tail -n 1) || profdata=""
if ! command -v clang >/dev/null || [ -z "$cov" ] || [ -z "$profdata" ]; then
    echo "needs clang, llvm-cov and llvm-profdata"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$src"
sources=("tests/fuzz/fuzz_$name.c" tests/fuzz/meter.c tests/fuzz/replay_main.c)
for room in $rooms; do
    sources+=("src/$room"/*.c)
done
export work
compile() { # FILE: only the reader itself is counted
    local flags=()
    # shellcheck disable=SC2053
    [[ $1 == $pattern ]] && flags=(-fprofile-instr-generate -fcoverage-mapping)
    clang -w -O0 -std=c11 -D_GNU_SOURCE -DSL_VERSION_STRING='""' -Isrc -Iinclude -Itests "${flags[@]}" \
        -c "$1" -o "$work/$(tr / _ <<<"$1").o"
}
export pattern
export -f compile
printf '%s\n' "${sources[@]}" | xargs -P "${SL_JOBS:-2}" -I{} bash -c 'compile {}'
clang -fprofile-instr-generate "$work"/*.o -lxxhash -lz -lm -lpthread -o "$work/target"
LLVM_PROFILE_FILE=$work/profile "$work/target" "tests/fuzz/corpus/$name" >/dev/null 2>&1
"$profdata" merge -sparse "$work/profile" -o "$work/merged"
"$cov" export -summary-only "$work/target" -instr-profile "$work/merged" 2>/dev/null |
    tr '{' '\n' | sed -n 's/^"count":\([0-9]*\),"covered":\([0-9]*\),"percent":\([0-9.]*\)},"regions":$/\1 \2 \3/p' |
    tail -n 1 >"$work/total"
read -r lines covered percent <"$work/total" || true
echo "count: $covered of $lines lines of $pattern (${percent%%.*} %) by the seeds of fuzz.$name"
awk -v have="$percent" -v least="$least" 'BEGIN { exit !(have >= least) }' || {
    echo "FAILED: less than $least %"
    exit 1
}
