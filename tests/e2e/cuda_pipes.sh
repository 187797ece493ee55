#!/usr/bin/env bash
# Pipelines whose workers share one GPU against one worker on it, bit for bit: chains and graphs of
# stages, replicas, ties, clipping, recomputation; 2bw on any number of stages; checkpoints and resuming;
# a CPU in the same pipeline; ranks that share the GPU. Skipped without a GPU.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*" >&2 && exit 1; }
"$SLUICE" list devices | grep '^  cuda ' | grep -vq '(not here' || exit 77
models=$SRC_DIR/models
gpt="gpt-tiny --set V=64,T=64,P=64,L=4,C=128,H=2"
mmt="mmt --set branches=4,T=32,L=2,C=64,H=1,F=128,classes=7"
resnet="resnet18 --set cifar=1,S=9,W=4,classes=7"
eights="resnet18 --set cifar=1,S=16,W=8,classes=7" # channels last
llama="llama --set V=97,T=64,L=4,C=1280,H=10,K=5,F=192" # long rows, grouped heads of 128, gates
inception="inception-v4 --set S=107,W=8,A=1,M=1,C=1,classes=7" # channels last, joined and cut
bert="bert-base --set V=97,T=64,P=64,L=2,C=128,H=2,F=256" # a mask

# 1: `sluice check` is the oracle: weights, statistics, optimizer state and losses after every step.
while read -r line; do
    for dtype in fp32 bf16 fp16; do
        # shellcheck disable=SC2086 # words
        "$SLUICE" check $line --device cuda --dtype $dtype --models "$models" --batch 8 --steps 6 \
            >"$work/out" 2>&1 || fail "$line, $dtype: $(cat "$work/out")"
        echo "same: $line, $dtype"
    done
done <<CASES
$gpt --stages 2 --schedule 1f1b --micro 4
$gpt --stages 4 --schedule 1f1b --micro 4 --clip 0.1
$gpt --stages 4 --schedule zb-h1 --micro 4
$gpt --stages 4 --schedule gpipe --micro 8
$gpt,drop=0.1 --stages 2 --schedule 1f1b --micro 3
$gpt --stages 2 --schedule 1f1b --micro 4 --recompute
$gpt --stages 2 --replicas 2 --schedule 1f1b --micro 4
$mmt --cut branches --schedule 1f1b --micro 4
$mmt --cut branches --schedule zb-graph --micro 4
$resnet --stages 2 --replicas 2 --schedule 1f1b --micro 4 --optimizer momentum
$eights --stages 2 --schedule 1f1b --micro 4 --optimizer momentum
$eights --stages 2 --schedule 1f1b --micro 4 --optimizer momentum --recompute
$eights --stages 2 --schedule zb-h1 --micro 4 --optimizer momentum
$eights --stages 7 --schedule 1f1b --micro 4 --optimizer momentum
$bert --stages 2 --schedule 1f1b --micro 4
$inception --stages 3 --schedule 1f1b --micro 2
$llama --stages 2 --schedule 1f1b --micro 4
$llama --stages 4 --schedule zb-h1 --micro 4
$llama --stages 2 --schedule 1f1b --micro 4 --recompute
CASES

run() { # NAME OPTIONS OF TRAIN...
    # shellcheck disable=SC2086 # words
    "$SLUICE" train $gpt --models "$models" --device cuda --batch 8 --micro 4 --quiet --out "$work/$1" "${@:2}" \
        >"$work/out" 2>&1 || fail "train ${*:2}: $(cat "$work/out")"
}
same() { # RUN RUN
    "$SLUICE" compare "$work/$1" "$work/$2" >"$work/out" 2>&1 || fail "$2 is not $1: $(cat "$work/out")"
    echo "same: $1 and $2"
}

# 2: 2bw does not depend on the number of stages, and differs from the synchronous run.
for dtype in fp32 bf16 fp16; do
    for stages in 1 2 4; do
        run "2bw-$dtype-$stages" --dtype $dtype --steps 8 --stages $stages --schedule 2bw
        [ $stages = 1 ] || same "2bw-$dtype-1" "2bw-$dtype-$stages"
    done
    run "sync-$dtype" --dtype $dtype --steps 8 --stages 1
    ! "$SLUICE" compare "$work/sync-$dtype" "$work/2bw-$dtype-1" >/dev/null || fail "2bw, $dtype: nothing is stale"
done

# 3: two runs are bit-identical; stop and resume, also with another number of stages.
for dtype in bf16 fp16; do
    run "whole-$dtype" --dtype $dtype --steps 8
    run "again-$dtype" --dtype $dtype --steps 8
    same "whole-$dtype" "again-$dtype"
    run "half-$dtype" --dtype $dtype --steps 4 --stages 2
    run "half-$dtype" --dtype $dtype --steps 8 --stages 4 --resume
    same "whole-$dtype" "half-$dtype"
done

# 4: a CPU and a GPU in one pipeline: close to the GPU alone. The head is not tied.
pair() { # DEVICES: the last loss
    "$SLUICE" train mmt --models "$models" --set branches=2,T=16,L=2,C=64,H=1,F=128,classes=7 --device "$1" --batch 8 \
        --micro 4 --steps 6 --stages 2 --quiet --json | sed -n 's/^ *"loss": \([^,]*\),$/\1/p'
}
gpu=$(pair cuda) both=$(pair cuda,cpu)
awk -v a="$gpu" -v b="$both" 'BEGIN { d = a - b; exit !(a > 0 && (d < 0 ? -d : d) <= 1e-4 * a) }' ||
    fail "cuda,cpu ends at $both, cuda at $gpu"

# 5: ranks that share the GPU through host memory equal threads, also with ties and replicas.
for how in "--stages 2" "--stages 1 --replicas 2"; do
    # shellcheck disable=SC2086 # words
    run "threads${how// /}" --dtype bf16 --steps 6 $how
    # shellcheck disable=SC2086 # words
    "$SLUICE" launch -n 2 -- train $gpt --models "$models" --device cuda --batch 8 --micro 4 --quiet --dtype bf16 --steps 6 \
        $how --out "$work/ranks${how// /}" >"$work/out" 2>&1 || fail "launch $how: $(cat "$work/out")"
    same "threads${how// /}" "ranks${how// /}"
done
echo "ok"
