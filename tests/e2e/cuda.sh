#!/usr/bin/env bash
# Training on a GPU against training on the CPU: ten steps of small models, fp32 within 1e-4 and bf16
# within 2 % of the loss; the same bytes twice; synchronous pipelines with the bytes of one stage.
# Skipped without a GPU.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*" >&2 && exit 1; }
"$SLUICE" list devices | grep -q '^  cuda .*GPU$' || exit 77

loss() { # ARGUMENTS of train: the last loss
    "$SLUICE" train "$@" --models "$SRC_DIR/models" --quiet --json | sed -n 's/^ *"loss": \([^,]*\),$/\1/p'
}
near() { # A B TOLERANCE
    awk -v a="$1" -v b="$2" -v t="$3" 'BEGIN { d = a - b; exit !((d < 0 ? -d : d) <= t * a) }'
}

while read -r model sets optimizer; do
    args=("$model" --set "$sets" --batch 4 --steps 10 --lr 1e-3 --optimizer "$optimizer")
    cpu=$(loss "${args[@]}")
    for dtype in fp32:1e-4 tf32:2e-3 bf16:2e-2; do
        gpu=$(loss "${args[@]}" --device cuda --dtype "${dtype%:*}")
        near "$cpu" "$gpu" "${dtype#*:}" || fail "$model, ${dtype%:*}: loss $gpu on the GPU, $cpu on the CPU"
    done
done <<'MODELS'
gpt-tiny V=61,T=17,P=19,L=2,C=24,H=3 adamw
gpt-tiny V=64,T=96,P=96,L=2,C=128,H=2 adamw
bert-base V=53,T=13,P=15,L=2,C=20,H=2,F=36 adamw
dlrm dense_branches=2,sparse_branches=3,L=2,W=17,N=11,rows=31,E=5,bag=4,top=2 adam
residual-lstm V=29,T=11,L=2,C=18,classes=0 sgd
resnet18 cifar=1,S=9,W=3,classes=7 momentum
MODELS

run() { # NAME ARGUMENTS: a hash of all weights and optimizer state
    "$SLUICE" train gpt-tiny --models "$SRC_DIR/models" --set V=64,T=64,P=64,L=4,C=128,H=2 --batch 8 \
        --micro 4 --steps 6 --device cuda --quiet --out "$work/$1" "${@:2}" >/dev/null
    (cd "$work/$1/ckpt" && find . -name '*.safetensors' | sort | xargs cat | sha256sum)
}
for dtype in fp32 bf16; do
    one=$(run "one-$dtype" --dtype $dtype)
    [ "$(run "again-$dtype" --dtype $dtype)" = "$one" ] || fail "$dtype: two runs differ"
    for pipe in "2 1f1b" "4 1f1b" "2 gpipe" "4 zb-h1"; do
        read -r stages schedule <<<"$pipe"
        got=$(run "$stages-$schedule-$dtype" --dtype $dtype --stages "$stages" --schedule "$schedule")
        [ "$got" = "$one" ] || fail "$dtype: $stages stages, $schedule: not the bytes of one stage"
    done
done
echo "ok"
