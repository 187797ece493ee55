#!/usr/bin/env bash
# Predicted bytes against the process's own high-water mark, less that of the empty process: never
# under, and at most 3 % over. Bytes, not time: the same on a busy machine.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
number() { sed -n "s/.*\"$1\": *\\([0-9.e+]*\\).*/\\1/p" "$work/out" | head -n 1; }
bad=0
hold() { # ARGUMENTS OF TRAIN...
    "$SLUICE" train "$@" --steps 3 --quiet --json >"$work/out"
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
hold residual-lstm --set V=256,T=32,L=2,C=384,classes=0 --batch 8 --optimizer sgd
[ $bad = 0 ] || { echo "FAILED: a prediction is under, or more than 3 % over" && exit 1; }
echo "count: 5 predictions of memory within 3 %, none under"
