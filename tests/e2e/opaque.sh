#!/usr/bin/env bash
# The op opaque: a model of which only the cost is known is planned, simulated and exported, and its
# stated time counts; training it is refused by name, on every device.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*" >&2 && exit 1; }
model() { # MS: writes box.model
    cat >"$work/box.model" <<MODEL
model box "layers of which only the cost is known"
input x : float[B, 64]
input t : float[B, 64]
repeat i in 0..4 as layer {
    param w[64, 64] ~ normal(0.1)
    x = opaque(x, w, shape = [B, 64], flops = 2e9, bytes = 4e6, ms = $1)
}
loss mse(x, t)
MODEL
}
step() { # MS: the planned time of a step
    model "$1"
    "$SLUICE" plan "$work/box.model" --machine laptop --batch 8 --micro 4 --straight -o "$work/box-$1.plan" --quiet --json |
        sed -n 's/^ *"\(step_ms\|ms\|step_ns\)": \([0-9.e+]*\),*$/\2/p' | head -n 1
}
slow=$(step 15)
fast=$(step 1.5)
awk -v a="$fast" -v b="$slow" 'BEGIN { exit !(a > 0 && b > 5 * a && b < 15 * a) }' ||
    fail "a layer of 15 ms plans as $slow, one of 1.5 ms as $fast"
"$SLUICE" sim "$work/box-1.5.plan" -o "$work/box.trace.json" --quiet >/dev/null || fail "the plan is not simulated"
"$SLUICE" export "$work/box-1.5.plan" --to dot -o "$work/box.dot" || fail "the plan is not exported"
for device in cpu reference; do
    rc=0
    "$SLUICE" train "$work/box.model" --steps 1 --device $device --quiet 2>"$work/err" || rc=$?
    [ "$rc" != 0 ] || fail "training on $device is not refused"
    grep -q "'opaque'.*can be planned" "$work/err" || fail "the refusal on $device: $(cat "$work/err")"
done
echo "ok"
