#!/usr/bin/env bash
# Export of runs to ONNX: the file reads back as the same model, whose training goes on with the same
# losses; refusals. With a Python that has onnxruntime (SL_PYTHON): every op case and small models of the
# library compute there what they compute here.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail() {
    echo "onnx_export: $*" >&2
    exit 1
}
# shellcheck source=tests/support/commands.sh
. "$SRC_DIR/tests/support/commands.sh"
train=(--data synthetic --steps 3 --batch 6 --micro 3)
losses() { sed -n 's/.*\("loss": *[^,]*\).*/\1/p' "$1/log.jsonl"; }

sluice train mlp --set N=7,W=5,classes=3 "${train[@]}" --out "$dir/mlp"
sluice export "$dir/mlp" --to onnx "$dir/mlp.onnx"
grep -q 'operator set 20, 6 nodes, 352 B in 6 tensors' "$dir/log" || fail "$(cat "$dir/log")"
refused 1 'written in fp32' export "$dir/mlp" --to onnx "$dir/x.onnx" --dtype bf16
refused 3 'model.model' export "$dir" --to onnx "$dir/x.onnx"
refused 2 'where to?' export "$dir/mlp" --to onnx
[ ! -e "$dir/x.onnx" ] || fail "a refused export left a file"
"$SLUICE" model "$dir/mlp.onnx" --loss mse:logits,label >"$dir/model" 2>"$dir/err" || true
if grep -q 'no protobuf-c' "$dir/err"; then
    echo "count: 1 model, written but not read: no protobuf-c" && exit 0
fi

models=0
again() { # MODEL SIZES TARGETS
    sluice train "$1" --set "$2" "${train[@]}" --out "$dir/$1"
    sluice export "$dir/$1" --to onnx -o "$dir/$1.onnx"
    sluice train "$dir/$1.onnx" --loss "cross_entropy:logits,$3" "${train[@]}" --out "$dir/$1-file"
    sluice train "$1" --set "$2" --init "$dir/$1" "${train[@]}" --out "$dir/$1-own"
    losses "$dir/$1-own" >"$dir/own"
    losses "$dir/$1-file" >"$dir/file"
    [ "$(wc -l <"$dir/own")" -ge 3 ] || fail "$1: no losses"
    cmp "$dir/own" "$dir/file" || fail "$1: $(paste "$dir/own" "$dir/file")"
    models=$((models + 1))
}
rm -r "$dir/mlp"
again mlp N=7,W=5,classes=3 label
again gpt-nano V=11,T=5,P=5,L=1,C=6,H=3 targets
again llama V=11,T=5,L=2,C=12,H=3,K=1,F=7 targets
again residual-lstm V=11,T=5,L=2,C=4,classes=0 targets
"$SLUICE" model "$dir/llama.onnx" --loss cross_entropy:logits,targets --print >"$dir/print"
[ "$(grep -c 'attention(.*causal = 1' "$dir/print")" = 2 ] || fail "attention: $(cat "$dir/print")"
[ "$(grep -c 'rope(.*base = 5e+05' "$dir/print")" = 4 ] || fail "rope: $(cat "$dir/print")"

python=${SL_PYTHON:-python3}
if ! "$python" -c 'import onnx, onnxruntime' 2>/dev/null || [ ! -f "$BUILD_DIR/libsluice.so" ]; then
    echo "count: $models models (without onnxruntime)" && exit 0
fi
mkdir "$dir/cases"
"$BUILD_DIR/tests/table.onnx_export" "$dir/cases" >"$dir/log" 2>&1 || fail "$(cat "$dir/log")"
"$python" "$SRC_DIR/tests/e2e/onnx_export.py" cases "$dir/cases" >"$dir/log" || fail "$(cat "$dir/log")"
tail -1 "$dir/log"
export SLUICE_LIBRARY=$BUILD_DIR/libsluice.so PYTHONPATH=$SRC_DIR/python PYTHONDONTWRITEBYTECODE=1
runs=()
small() { # MODEL SIZES
    sluice train "$1" --set "$2" "${train[@]}" --out "$dir/small-$1"
    sluice export "$dir/small-$1" --to onnx "$dir/small-$1.onnx"
    runs+=("$dir/small-$1" "$dir/small-$1.onnx")
    models=$((models + 1))
}
small bert-base V=11,T=5,P=7,L=2,C=6,H=3
small deepseek-moe V=11,T=5,L=2,C=8,H=2,K=2,F=3,E=5,A=3,S=4,dense=1,D=6
small dlrm dense_branches=2,sparse_branches=2,L=2,W=5,N=3,rows=7,E=3,bag=4,top=2
small moe V=11,T=5,L=2,C=12,H=3,K=1,F=7,E=4,A=2
small resnet18 cifar=1,S=9,W=2,N1=1,N2=1,N3=0,N4=0,classes=3
small u-net S=16,W=2,classes=3
small vlm S=8,patch=4,VC=6,VL=1,VH=2,V=11,T=5,L=1,C=12,H=3,K=1,F=7
"$python" "$SRC_DIR/tests/e2e/onnx_export.py" run "${runs[@]}" >"$dir/log" 2>&1 ||
    fail "$(cat "$dir/log")"
echo "count: $models models"
