#!/usr/bin/env bash
# A run directory opens again with what its config.json says, whatever the numbers are.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*" && exit 1; }
# Round numbers (shortest as 5e+01) and a seed that no double holds.
"$SLUICE" train gpt-nano --set V=37,T=13,P=17,L=1,C=18,H=3 --batch 50 --steps 3 --seed 9007199254740993 \
    --eval-every 3 --eval-samples 50 --out "$work/run" --quiet --json >"$work/train.json"
"$SLUICE" eval "$work/run" --samples 50 --json >"$work/eval.json" || fail "eval of a run with --batch 50"
loss() { sed -n "s/.*\"$1\": *\\([0-9.e+-]*\\).*/\\1/p" "$2" | head -n 1; }
[ "$(loss eval_loss "$work/train.json")" = "$(loss loss "$work/eval.json")" ] ||
    fail "eval says $(loss loss "$work/eval.json"), train said $(loss eval_loss "$work/train.json")"
