#!/usr/bin/env bash
# ./dev bench onnx [REGEX]: the node cases of the ONNX backend suite that match, with the reference
# kernels and on the CPU. Prints how many passed, are refused by name, are wrong (must be 0) and
# crashed (must be 0). Needs a Python with onnx and numpy ($SL_PYTHON, else python3); cases are
# written once to build/onnx-cases.
set -euo pipefail
cd "$(dirname "$0")/.."
cases=build/onnx-cases
python=${SL_PYTHON:-python3}
[ -x build/release/bench/onnx_case ] || { echo "onnx: ./dev build first" >&2 && exit 2; }
if [ ! -e "$cases/complete" ]; then
    "$python" -c 'import numpy, onnx' || { echo "onnx: $python has no onnx; set SL_PYTHON" >&2 && exit 2; }
    "$python" -W ignore bench/onnx_cases.py "$cases"
    touch "$cases/complete"
fi
mapfile -t chosen < <(find "$cases" -mindepth 1 -maxdepth 1 -type d | grep -E -- "${1:-.}" | sort)
[ ${#chosen[@]} -gt 0 ] || { echo "onnx: no case matches '$1'" >&2 && exit 2; }
build/release/bench/onnx_case "${chosen[@]}" >build/onnx-cases.txt && rc=0 || rc=$?
grep -E '^[^ ]+ (wrong|crashed) ' build/onnx-cases.txt || true
tail -1 build/onnx-cases.txt
exit "$rc"
