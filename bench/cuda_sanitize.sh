#!/usr/bin/env bash
# The kernels of the GPU under NVIDIA's compute-sanitizer: the tables device_kernels, device_fused and device_optim with
# memcheck (bad addresses) and racecheck (shared memory). initcheck is left out: libraries read what they
# padded. Prints RESULT lines; exit 1 when something was found, 77 without a GPU or the tool.
#
#   RESULT bench=cuda_sanitize tool=memcheck test=device_kernels errors=0 seconds=
#
# Usage: ./dev bench cuda_sanitize [--tools "memcheck racecheck"] [--limit SECONDS]
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
tests=${SL_TEST_BIN:-$root/build/release/tests} tools="memcheck racecheck" limit=600
while [ $# -gt 0 ]; do
    case $1 in
    --tools) tools=${2:?--tools needs names} && shift ;;
    --limit) limit=${2:?--limit needs seconds} && shift ;;
    -h | --help) sed -n '2,/^set /s/^# \{0,1\}//p' "$0" | sed '$d' && exit 0 ;;
    *) echo "bench cuda_sanitize: unknown option $1" >&2 && exit 2 ;;
    esac
    shift
done
command -v compute-sanitizer >/dev/null || { echo "compute-sanitizer is not here" && exit 77; }
[ -e /dev/nvidia0 ] || [ -e /dev/nvidiactl ] || { echo "no GPU here" && exit 77; }

log=$(mktemp)
trap 'rm -f "$log"' EXIT
found=0
for tool in $tools; do
    for test in device_optim device_kernels device_fused; do
        begin=$SECONDS rc=0
        timeout "$limit" compute-sanitizer --tool "$tool" --error-exitcode 9 "$tests/table.$test" >"$log" 2>&1 || rc=$?
        errors=$(sed -n 's/.*ERROR SUMMARY: \([0-9]*\) error.*/\1/p; s/.*RACECHECK SUMMARY: \([0-9]*\) hazard.*/\1/p' "$log" | tail -1)
        echo "RESULT bench=cuda_sanitize tool=$tool test=$test errors=${errors:-unknown} status=$rc seconds=$((SECONDS - begin))"
        [ $rc = 0 ] && [ "${errors:-1}" = 0 ] && continue
        found=1
        grep -A6 '^========= \(Invalid\|Error\|Warning\|Race\|Program\)' "$log" | head -20 || true
        tail -2 "$log"
    done
done
exit $found
