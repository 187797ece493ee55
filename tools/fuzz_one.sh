#!/usr/bin/env bash
# Fuzzes one target.
#   SL_FUZZ_RUNS     number of inputs: mutations of the seeds in tests/fuzz/corpus/NAME only. As far as libFuzzer
#                    allows, they are the same in each run, so that results repeat.
#   SL_FUZZ_SECONDS  if SL_FUZZ_RUNS is empty: duration (10); also starts from inputs found before
#   SL_FUZZ_SEED     random seed of the mutations (1; 0 draws one)
# New inputs are kept in build/fuzz/corpus/NAME.
# Usage: tools/fuzz_one.sh NAME BINARY [libFuzzer option...]
set -euo pipefail

name=$1
binary=$2
shift 2
# libFuzzer mutates inputs with strings that the program compares, also paths: use the same path in every clone.
cd "$(dirname "$0")/.."
build=$(realpath --relative-to=. "${BUILD_DIR:-build/fuzz}")
binary=$(realpath --relative-to=. "$binary")
seeds=tests/fuzz/corpus/$name
found=$build/corpus/$name
artifacts=$build/artifacts/$name
mkdir -p "$found" "$artifacts"
seen=$build/$name.seeds fresh=$build/$name.fresh
trap 'rm -rf "$seen" "$fresh"' EXIT
rm -rf "$fresh" && mkdir "$fresh" && : >"$seen"

options=(-seed="${SL_FUZZ_SEED:-1}" -timeout=60 -malloc_limit_mb=2048 -max_len=65536
    -print_final_stats=1 -verbosity=0 -artifact_prefix="$artifacts/")
if [ -n "${SL_FUZZ_RUNS:-}" ]; then
    # For repeatable runs: libFuzzer rereads a directory every second, in the order of its file system, and its
    # memory watcher thread changes the addresses that the reader compares.
    find "$seeds" -type f | LC_ALL=C sort | paste -sd, >"$seen"
    options+=(-runs="$SL_FUZZ_RUNS" -seed_inputs=@"$seen" -reload=0 -rss_limit_mb=0)
    dirs=("$fresh")
else
    options+=(-max_total_time="${SL_FUZZ_SECONDS:-10}" -rss_limit_mb=2048)
    dirs=("$found" "$seeds")
fi
if [ -f "tests/fuzz/$name.dict" ]; then
    options+=(-dict="tests/fuzz/$name.dict")
fi

log=$build/$name.log
rc=0 fixed=()
if setarch -R true 2>/dev/null; then
    fixed=(env -i PATH="$PATH" setarch -R) # addresses are compared, too
fi
"${fixed[@]}" "$binary" "${options[@]}" "$@" "${dirs[@]}" >"$log" 2>&1 || rc=$?
find "$fresh" -type f -exec cp -t "$found" {} +
runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
echo "count: ${runs:-0} executions"
if [ "$rc" -ne 0 ]; then
    tail -n 60 "$log"
    echo "fuzz $name failed; the input is under $artifacts:"
    find "$artifacts" -type f -newer "$seen"
    echo "copy it to $seeds/ once fixed: it is then a regression test in every preset"
    # libFuzzer exits with 77, which means skipped to ctest.
    exit 1
fi
