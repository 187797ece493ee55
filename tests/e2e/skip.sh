#!/usr/bin/env bash
# A step whose gradient is not finite is skipped, and the log names the op that caused it: the same on one worker
# and in a pipeline, where it also names the stage.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*" && exit 1; }
cat >"$work/m.model" <<'M'
model m
input x : float[B, 4]
input y : float[B, 4]
param a[4, 8] ~ normal(2.6)
param b[8, 8] ~ normal(2.6)
param c[8, 4] ~ normal(2.6)
loss mse(matmul(exp(matmul(relu(matmul(x, a)), b)), c), y)
M
train() { # RUN [OPTIONS]
    "$SLUICE" train "$work/m.model" --steps 40 --batch 6 --micro 3 --lr 1e-3 --out "$work/$1" "${@:2}" 2>"$work/$1.err"
}
bad() { sed -n 's/.*"bad": {\([^}]*\)}.*/\1/p' "$work/$1/log.jsonl"; } # RUN
train one
train two --stages 2 --schedule 1f1b
[ "$(grep -c '"skipped": true' "$work/one/log.jsonl")" -gt 0 ] || fail "nothing overflowed"
[ "$(grep -c '"skipped": false' "$work/one/log.jsonl")" -gt 0 ] || fail "everything overflowed"
[ "$(bad one | wc -l)" -eq "$(grep -c '"skipped": true' "$work/one/log.jsonl")" ] || fail "a skipped step has no reason"
! grep '"skipped": false' "$work/one/log.jsonl" | grep -q '"bad"' || fail "a step that was made has a reason"
# exp(x) overflows for x > 88.7; a finite value may still overflow in a later op.
! bad one | grep -v '"what": "op", "name": "\(exp\|matmul\|mse\)' || fail "an op is named that cannot overflow"
bad one | grep -q '"op": "exp", "pass": "forward"' || fail "exp is never named"
grep -q "skipped, its gradient is not finite: first in exp_" "$work/one.err" || fail "the terminal is not told"
"$SLUICE" compare "$work/one" "$work/two" >/dev/null || fail "the pipeline is not the one worker"
diff <(bad one | sed 's/"stage": [0-9]*, //') <(bad two | sed 's/"stage": [0-9]*, //') || fail "the pipeline names other ops"
bad two | grep -q '"stage": 1' || fail "no stage but the first is ever named"
