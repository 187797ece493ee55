#!/usr/bin/env bash
# Predicted bytes against the peak memory of the process, minus that of the empty process: never lower, and
# at most 3 % higher.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
number() { sed -n "s/.*\"$1\": *\\([0-9.e+]*\\).*/\\1/p" "$work/out" | head -n 1; }
bad=0 steps=3
hold() { # ARGUMENTS OF TRAIN...
    "$SLUICE" train "$@" --steps "$steps" --quiet --json >"$work/out"
    [ "$(number peak_bytes)" != 0 ] || exit 77 # no /proc
    if ! awk -v p="$(number bytes)" -v m="$(number peak_bytes)" -v what="$*" 'BEGIN {
        error = 100 * (p - m) / m
        printf "predicted %d, measured %d, %+.2f %%: %s\n", p, m, error, what
        exit !(error >= 0 && error <= 3) }'; then
        bad=1
    fi
}
hold gpt-tiny --set L=4 --batch 16
hold gpt-tiny --set L=4 --batch 17 --micro 2 --threads 2 --eval-every 2 --eval-samples 9 --out "$work/run"
hold gpt-tiny --set L=4 --batch 17 --micro 2 --threads 2 --eval-every 2 --eval-samples 9 --recompute
hold resnet18 --set cifar=1 --batch 6 --optimizer momentum --eval-every 3 --eval-samples 6
hold residual-lstm --set V=256,T=64,L=2,C=512,classes=0 --batch 16 --optimizer sgd
# Includes memory of data and checkpoints.
seq 1 200000 >"$work/text.txt"
hold gpt-tiny --set L=4 --data "$work/text.txt" --batch 8 --threads 3 --init "$work/run" --eval-every 1 --eval-samples 8
steps=5
hold gpt-tiny --set L=4 --batch 17 --micro 2 --threads 2 --out "$work/run" --resume
[ $bad = 0 ] || { echo "FAILED: a prediction is under, or more than 3 % over" && exit 1; }
echo "count: 7 predictions of memory within 3 %, none under"
