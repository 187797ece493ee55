#!/usr/bin/env bash
# Kills asynchronous training with SIGKILL, in every mode, and resumes it: the pipeline is drained before each
# checkpoint, so the last one is that of the undisturbed run with the same checkpoints, bit for bit. What a
# policy keeps is part of it.
set -euo pipefail
kills=1
[ "${SL_TEST_FULL:-0}" = 1 ] && kills=10
work=$(mktemp -d)
pid=
trap '[ -z "$pid" ] || kill -KILL "$pid" 2>/dev/null || true; rm -rf "$work"' EXIT
fail() {
    echo "FAILED: $*"
    [ ! -f "$work/err" ] || tail -n 5 "$work/err"
    exit 1
}
model=(gpt-nano --set "V=37,T=13,P=17,L=2,C=18,H=3,drop=0.1" --batch 6 --micro 3 --steps 24 --checkpoint-every 3
    --stages 3 --clip 0.5 --quiet)
count=0
while read -r schedule policy optimizer; do
    options=("${model[@]}" --schedule "$schedule" --policy "$policy" --optimizer "$optimizer")
    rm -rf "$work/whole" "$work/killed"
    "$SLUICE" train "${options[@]}" --out "$work/whole" 2>"$work/err" || fail "$schedule $policy"
    for ((i = 0; i < kills; i++)); do
        "$SLUICE" train "${options[@]}" --out "$work/killed" --resume 2>"$work/err" &
        pid=$!
        # when a checkpoint more than before is there, or it has ended
        before=$(cat "$work/killed/ckpt/latest" 2>/dev/null || true)
        while kill -0 "$pid" 2>/dev/null && [ "$(cat "$work/killed/ckpt/latest" 2>/dev/null || true)" = "$before" ]; do
            :
        done
        kill -KILL "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
        pid=
    done
    "$SLUICE" train "${options[@]}" --out "$work/killed" --resume 2>"$work/err" || fail "$schedule $policy: resume"
    "$SLUICE" compare "$work/whole" "$work/killed" >"$work/out" || fail "$schedule $policy: $(cat "$work/out")"
    dir=$(cut -d ' ' -f 1 "$work/whole/ckpt/latest")
    diff -r "$work/whole/ckpt/$dir" "$work/killed/ckpt/$dir" >/dev/null || fail "$schedule $policy: other bytes"
    count=$((count + 1))
done <<'MODES'
2bw none adamw
2bw 2bw-predict nadam
2bw error-feedback adamw
stash none adamw
stash nesterov-async nadam
vsync none momentum
paci none adamw
async spectrain adamw
async spectrain muon
async xpipe momentum
async pipemare adamw
MODES
echo "count: $count modes killed and resumed, bit for bit"
