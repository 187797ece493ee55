#!/usr/bin/env bash
# ONNX files in place of models: plan, train in one and three stages with the same bits, import to a
# text that trains the same, resume, refusals.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail() {
    echo "onnx: $*" >&2
    exit 1
}
fixtures=$SRC_DIR/tests/fixtures/onnx
loss=cross_entropy:logits,labels
rc=0
"$SLUICE" import onnx "$fixtures/mlp.onnx" --loss "$loss" >"$dir/summary" 2>"$dir/err" || rc=$?
if grep -q 'no protobuf-c' "$dir/err"; then
    echo "this build reads no ONNX" && exit 77
fi
[ "$rc" = 0 ] || fail "$(cat "$dir/err")"
grep -q 'parameters *70 in 3 tensors' "$dir/summary" || fail "summary: $(cat "$dir/summary")"

steps() { sed -n 's/^step \([0-9]*\)[^ ]* *loss \([^ ]*\) *norm \([^ ]*\).*/\1 \2 \3/p' "$1"; }
train() { # NAME MODEL OPTIONS: trains and keeps the weights
    local name=$1
    shift
    "$SLUICE" train "$@" --data synthetic --steps 5 --batch 6 --micro 2 --out "$dir/$name" \
        >"$dir/$name.log" 2>&1 || fail "train $name: $(cat "$dir/$name.log")"
    "$SLUICE" ckpt convert "$dir/$name" -o "$dir/$name.safetensors" || fail "convert $name"
}
for model in attention external image mlp; do
    "$SLUICE" import onnx "$fixtures/$model.onnx" --loss "$loss" -o "$dir/$model.model" \
        >/dev/null || fail "import $model"
    train "$model-1" "$fixtures/$model.onnx" --loss "$loss"
    train "$model-3" "$fixtures/$model.onnx" --loss "$loss" --stages 3
    train "$model-t" "$dir/$model.model"
    [ -n "$(steps "$dir/$model-1.log")" ] || fail "$model: no steps"
    cmp "$dir/$model-1.safetensors" "$dir/$model-3.safetensors" || fail "$model: three stages differ"
    cmp "$dir/$model-1.safetensors" "$dir/$model-t.safetensors" || fail "$model: the text differs"
done
"$SLUICE" train --resume --out "$dir/mlp-1" --steps 8 >"$dir/resume" 2>&1 || fail "$(cat "$dir/resume")"
"$SLUICE" train --resume --out "$dir/mlp-t" --steps 8 >"$dir/resume" 2>&1 || fail "$(cat "$dir/resume")"
"$SLUICE" model "$fixtures/image.onnx" --loss "$loss" --print >"$dir/print" || fail "model"
grep -q 'conv2d(x, conv.weight, conv.bias' "$dir/print" || fail "names: $(cat "$dir/print")"
"$SLUICE" model "$fixtures/copies.onnx" --loss "$loss" --print >"$dir/print" || fail "copies"
[ "$(grep -c '^param .*fc.weight' "$dir/print")" = 2 ] || fail "copies: $(cat "$dir/print")"
[ "$(grep -c 'matmul.*block.0.fc.weight' "$dir/print")" = 2 ] || fail "shared: $(cat "$dir/print")"
"$SLUICE" model "$fixtures/folded.onnx" --loss "$loss" --print >"$dir/print" 2>"$dir/err" || fail "folded"
grep -q 'folded.onnx: not trained, taken as constants: cos (1 in all)' "$dir/err" || fail "note: $(cat "$dir/err")"
[ "$(grep -c '^param ' "$dir/print")" = 6 ] || fail "folded: $(cat "$dir/print")"

expect() { # STATUS TEXT COMMAND
    local status=$1 text=$2 rc=0
    shift 2
    "$SLUICE" "$@" >"$dir/out" 2>&1 || rc=$?
    [ "$rc" = "$status" ] || fail "$* exits $rc: $(cat "$dir/out")"
    grep -qF -- "$text" "$dir/out" || fail "'$text' is not in: $(cat "$dir/out")"
}
expect 1 "'head/softmin' (Softmin)" import onnx "$fixtures/unsupported.onnx" --loss mse:y,t
expect 3 "there is no loss" train "$fixtures/mlp.onnx"
expect 2 "write the loss there" train mlp --loss mse:y,t
head -c 300 "$fixtures/mlp.onnx" >"$dir/cut.onnx"
expect 3 "cut short" model "$dir/cut.onnx"
rm "$dir/mlp.safetensors"
expect 3 "mlp.safetensors" train "$dir/mlp.model"
echo "count: 4 models, 12 runs"
