#!/usr/bin/env bash
# A run directory can be opened with any numbers in its config.json.
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

# Weights load only into tensors of the same shape, even if the sizes in bytes agree.
cat >"$work/t.model" <<'M'
model t
size N = 4, M = 6
input x : float[B, N]
input y : float[B, 1]
param a[N, M] ~ normal(0.1)
param b[M, 1] ~ normal(0.1)
loss mse(matmul(matmul(x, a), b), y)
M
refuse() { # PATTERN ARGUMENTS OF TRAIN...
    local rc=0
    "$SLUICE" train "${@:2}" --steps 5 --quiet 2>"$work/err" || rc=$?
    [ $rc -eq 3 ] || fail "${*:2}: exit $rc, not 3"
    grep -q -- "$1" "$work/err" || fail "${*:2}: '$(cat "$work/err")' does not say '$1'"
}
"$SLUICE" train "$work/t.model" --steps 2 --out "$work/t" --quiet
refuse 'a is F32 \[4,6\] instead of \[6,4\]' "$work/t.model" --set N=6,M=4 --init "$work/t"
# A resumed run uses all fields of its config.json.
"$SLUICE" train gpt-nano --set V=37,T=13,P=17,L=2,C=18,H=3 --steps 2 --out "$work/two" --quiet
refuse "resume with the model" gpt-nano --set V=37,T=13,P=17,L=1,C=18,H=3 --out "$work/two" --resume
refuse "saved by another optimizer or policy" gpt-nano --set V=37,T=13,P=17,L=2,C=18,H=3 --optimizer sgd --out "$work/two" --resume \
    --allow-change

# The log has the share of the peak flops if a device can be measured.
grep -q '"peak_percent": [0-9.]*}' "$work/run/log.jsonl" || fail "no share of the peak in log.jsonl"
# A dtype that the device lacks is refused before anything is written.
for case in "cpu tf32" "reference tf32" "reference bf16"; do
    read -r device dtype <<<"$case"
    rc=0
    "$SLUICE" train gpt-nano --device "$device" --dtype "$dtype" --steps 1 --out "$work/$dtype" 2>"$work/err" || rc=$?
    [ $rc -eq 1 ] || fail "--dtype $dtype on $device: exit $rc, not 1"
    grep -q "device '$device' does not compute in $dtype; set --dtype to fp32" "$work/err" ||
        fail "--dtype $dtype on $device: $(cat "$work/err")"
    [ ! -e "$work/$dtype" ] || fail "a refused run left its folder"
done
# Workers on two kinds of device: close to one kind alone.
pair() { # DEVICES: the last loss
    "$SLUICE" train mmt --set branches=2,T=4,L=1,C=8,H=2,F=8,classes=3 --device "$1" --batch 8 --micro 4 --steps 4 \
        --stages 2 --quiet --json | sed -n 's/^ *"loss": \([^,]*\),$/\1/p'
}
one=$(pair cpu) both=$(pair cpu,reference)
awk -v a="$one" -v b="$both" 'BEGIN { d = a - b; exit !(a > 0 && (d < 0 ? -d : d) <= 1e-4 * a) }' ||
    fail "cpu,reference ends at '$both', cpu at '$one'"
rc=0
"$SLUICE" train gpt-nano --device cpu,reference --steps 1 2>"$work/err" || rc=$?
[ $rc -eq 2 ] || fail "two devices, one worker: exit $rc"
grep -q "several devices need a pipeline" "$work/err" || fail "two devices, one worker: $(cat "$work/err")"
rc=0
"$SLUICE" train gpt-nano --dtype int3 --steps 1 2>"$work/err" || rc=$?
[ $rc -eq 2 ] || fail "--dtype int3: exit $rc, not 2"
"$SLUICE" train gpt-nano --set V=37,T=13,P=17,L=1,C=18,H=3 --dtype fp32 --steps 1 --quiet
