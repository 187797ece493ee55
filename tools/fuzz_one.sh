#!/usr/bin/env bash
# Fuzzes one target for SL_FUZZ_SECONDS (10 when unset). Seeds come from tests/fuzz/corpus/NAME; what is
# found stays in build/fuzz/corpus/NAME and is used again the next time. Mutations begin with SL_FUZZ_SEED
# (1 when unset, so that a finding can be repeated; 0 draws a new one).
# Usage: tools/fuzz_one.sh NAME BINARY [libFuzzer option...]
set -euo pipefail

name=$1
binary=$2
shift 2
src=$(cd "$(dirname "$0")/.." && pwd)
build=${BUILD_DIR:-$src/build/fuzz}
seeds=$src/tests/fuzz/corpus/$name
found=$build/corpus/$name
artifacts=$build/artifacts/$name
mkdir -p "$found" "$artifacts"

options=(-seed="${SL_FUZZ_SEED:-1}" -max_total_time="${SL_FUZZ_SECONDS:-10}" -timeout=10 -rss_limit_mb=2048 -max_len=65536
    -print_final_stats=1 -verbosity=0 -artifact_prefix="$artifacts/")
if [ -f "$src/tests/fuzz/$name.dict" ]; then
    options+=(-dict="$src/tests/fuzz/$name.dict")
fi
dirs=("$found")
if [ -d "$seeds" ]; then
    dirs+=("$seeds")
fi

log=$build/$name.log
seen=$(mktemp)
trap 'rm -f "$seen"' EXIT
rc=0
"$binary" "${options[@]}" "$@" "${dirs[@]}" >"$log" 2>&1 || rc=$?
runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
echo "count: ${runs:-0} executions in ${SL_FUZZ_SECONDS:-10} s"
if [ "$rc" -ne 0 ]; then
    tail -n 60 "$log"
    echo "fuzz $name failed; the input is under $artifacts:"
    find "$artifacts" -type f -newer "$seen"
    echo "copy it to $seeds/ once fixed: it is then a regression test in every preset"
    # libFuzzer leaves with 77, which the tests read as skipped.
    exit 1
fi
