#!/usr/bin/env bash
# The kernels of the GPU under NVIDIA's compute-sanitizer: the tables device_kernels (in parts), device_fused and
# device_optim with memcheck (bad addresses) and racecheck (shared memory), side by side. initcheck is left out:
# libraries read what they padded. Prints RESULT lines; exit 1 when something was found, 77 without a GPU or the tool.
#
#   RESULT bench=cuda_sanitize tool=memcheck test=device_kernels part=0/6 errors=0 library=0 status=0 seconds=
#
# Of races, `library` are those that racecheck reports between two places of one kernel that cuDNN generated (attention for
# Hopper, whose results are held to the references and are the same twice); their kernels are named below the line. They
# are counted, not skipped: any race in a kernel of ours, or in another library's, is an error.
#
# Usage: ./dev bench cuda_sanitize [--tools "memcheck racecheck"] [--tests "device_optim ..."] [--parts 6] [--jobs 8]
#                                  [--limit SECONDS]
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
bin=${SL_TEST_BIN:-$root/build/release/tests} tools="memcheck racecheck" parts=6 jobs=8 limit=600
tests="device_kernels device_fused device_optim"
while [ $# -gt 0 ]; do
    case $1 in
    --tools) tools=${2:?--tools needs names} && shift ;;
    --tests) tests=${2:?--tests needs names} && shift ;;
    --parts) parts=${2:?--parts needs a number} && shift ;;
    --jobs) jobs=${2:?--jobs needs a number} && shift ;;
    --limit) limit=${2:?--limit needs seconds} && shift ;;
    -h | --help) sed -n '2,/^set /s/^# \{0,1\}//p' "$0" | sed '$d' && exit 0 ;;
    *) echo "bench cuda_sanitize: unknown option $1" >&2 && exit 2 ;;
    esac
    shift
done
command -v compute-sanitizer >/dev/null || { echo "compute-sanitizer is not here" && exit 77; }
[ -e /dev/nvidia0 ] || [ -e /dev/nvidiactl ] || { echo "no GPU here" && exit 77; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
one() { # TOOL TEST PART: a RESULT line, and what was found below it
    local log=$work/$1-$2-${3%/*}.log out=$work/$1-$2-${3%/*}.out begin=$SECONDS rc=0 errors library
    SL_TEST_DEVICE=cuda SL_TEST_PART=$3 timeout "$limit" compute-sanitizer --tool "$1" --error-exitcode 9 \
        "$bin/table.$2" >"$log" 2>&1 || rc=$?
    errors=$(sed -n 's/.*ERROR SUMMARY: \([0-9]*\) error.*/\1/p; s/.*RACECHECK SUMMARY: \([0-9]*\) hazard.*/\1/p' "$log" | tail -1)
    sed -n 's/^========= Error: Race reported between [A-Za-z]* access at \(cudnn_generated_[^+ ]*\).*/\1/p' "$log" >"$log.library"
    library=$(wc -l <"$log.library")
    [ -z "$errors" ] || errors=$((errors - library))
    # the tool's own status stands for what it reported; the test's is in what it said
    [ $rc != 9 ] || [ "$errors" != 0 ] || { grep -q '^\[  PASSED  \]' "$log" && ! grep -q '^\[  FAILED  \]' "$log" && rc=0; } || true
    echo "RESULT bench=cuda_sanitize tool=$1 test=$2 part=$3 errors=${errors:-unknown} library=$library status=$rc seconds=$((SECONDS - begin))" >"$out"
    sort "$log.library" | uniq -c >>"$out"
    if [ $rc != 0 ] || [ "${errors:-1}" != 0 ]; then
        grep -A6 '^========= \(Invalid\|Error\|Warning\|Race\|Program\)' "$log" | grep -v cudnn_generated_ | head -20 >>"$out" || true
        tail -2 "$log" >>"$out"
    fi
    cat "$out"
}
for tool in $tools; do
    for test in $tests; do
        count=1
        [ "$test" != device_kernels ] || count=$parts
        for ((i = 0; i < count; i++)); do
            while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do sleep 0.2; done
            one "$tool" "$test" "$i/$count" &
        done
    done
done
wait
! grep '^RESULT' "$work"/*.out | grep -vq 'errors=0 library=[0-9]* status=0'
