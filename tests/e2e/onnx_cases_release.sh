#!/usr/bin/env bash
# Node cases of ONNX's own suite for a choice of operators: each computes what it must, with the reference
# kernels and on the CPU. ./dev bench onnx runs all. Needs a Python with the package onnx (SL_PYTHON).
set -euo pipefail
python=${SL_PYTHON:-python3}
[ -x "$BUILD_DIR/bench/onnx_case" ] || { echo "SKIPPED: no bench/onnx_case" && exit 77; }
"$python" -c 'import numpy, onnx' 2>/dev/null || { echo "SKIPPED: $python has no onnx" && exit 77; }
"$SLUICE" doctor | grep -q 'onnx.*no protobuf' && { echo "SKIPPED: no protobuf-c" && exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail() {
    echo "onnx_cases: $*" >&2
    exit 1
}
chosen='^test_(argmax|argmin|layer_normalization_|lstm_batchwise|onehot_|resize_(up|down)sample_scales_'
chosen+='nearest|scatter_elements_with_axis|scatter_elements_without|scatter_elements_with_negative|'
chosen+='simple_rnn|softmax|split_|topk|where)'
"$python" -W ignore "$SRC_DIR/bench/onnx_cases.py" "$dir" "$chosen" >"$dir/log" || fail "$(cat "$dir/log")"
find "$dir" -mindepth 1 -maxdepth 1 -type d -print0 | sort -z |
    xargs -0 "$BUILD_DIR/bench/onnx_case" >"$dir/result" || fail "$(grep -E 'wrong|crashed' "$dir/result")"
refused=$(grep -c ' refused ' "$dir/result" || true)
passed=$(grep -c ' passed' "$dir/result" || true)
[ "$passed" -ge 100 ] || fail "$passed passed: $(tail -1 "$dir/result")"
[ "$refused" -le 8 ] || fail "refused: $(grep ' refused ' "$dir/result")"
echo "count: $passed cases"
