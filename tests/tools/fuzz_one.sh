#!/usr/bin/env bash
# Sabotage: a fuzz target that crashes (libFuzzer exits with 77) fails; it is not skipped.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export BUILD_DIR=$work SL_FUZZ_SECONDS=1 SL_FUZZ_RUNS

target() { # EXIT-STATUS
    printf '#!/bin/sh\necho "stat::number_of_executed_units: 31"\nexit %s\n' "$1" >"$work/target"
    chmod +x "$work/target"
}
for SL_FUZZ_RUNS in "" 31; do
    target 0
    out=$("$root/tools/fuzz_one.sh" plan "$work/target")
    [ "$out" = "count: 31 executions" ] || { echo "FAILED: $out" && exit 1; }
    for status in 1 77; do
        target "$status"
        rc=0
        "$root/tools/fuzz_one.sh" plan "$work/target" >/dev/null || rc=$?
        [ "$rc" -eq 1 ] || { echo "FAILED: status $status became $rc" && exit 1; }
    done
done
