#!/usr/bin/env bash
# An asynchronous run writes its log while the pipeline is full; the first Ctrl-C pauses it after a step, saves
# and exits with 0. The resumed run equals one that was never stopped, bit for bit.
set -euo pipefail
# shellcheck source=tests/support/workplace.sh
. "$SRC_DIR/tests/support/workplace.sh"
model=(gpt-nano --set "V=37,T=13,P=17,L=2,C=18,H=3,drop=0.1" --batch 6 --micro 3 --stages 3 --clip 0.5 --quiet)
steps_in() { grep -c '"grad_norm"' "$1/log.jsonl" || true; }
while read -r schedule policy; do
    options=("${model[@]}" --schedule "$schedule" --policy "$policy")
    rm -rf "$work/asked" "$work/planned"
    "$SLUICE" train "${options[@]}" --steps 3000000 --out "$work/asked" 2>"$work/err" &
    pid=$!
    while kill -0 "$pid" 2>/dev/null && [ ! -s "$work/asked/log.jsonl" ]; do sleep 0.05; done # it has no other end
    [ ! -e "$work/asked/ckpt/latest" ] || fail "$schedule: saved before it was asked"
    # its reports are not kept for all its steps: 3,000,000 of them would be 1.2 GB
    peak=$(sed -n 's/^VmHWM:[^0-9]*\([0-9]*\) kB/\1/p' "/proc/$pid/status")
    [ "$peak" -lt 600000 ] || fail "$schedule: $peak KiB"
    kill -INT "$pid"
    code=0
    wait "$pid" || code=$?
    pid=
    [ "$code" = 0 ] || fail "$schedule: status $code"
    steps=$(sed 's/.*-0*//; s/ .*//' "$work/asked/ckpt/latest")
    [ "$(steps_in "$work/asked")" = "$steps" ] || fail "$schedule: $(steps_in "$work/asked") steps logged of $steps"
    "$SLUICE" train "${options[@]}" --steps $((steps + 7)) --out "$work/planned" 2>"$work/err" ||
        fail "$schedule: $((steps + 7)) steps"
    "$SLUICE" train --steps $((steps + 7)) --out "$work/asked" --resume --quiet 2>"$work/err" ||
        fail "$schedule: does not resume"
    for run in asked planned; do
        [ "$(steps_in "$work/$run")" = $((steps + 7)) ] || fail "$schedule: the log of $run"
    done
    dir=$(cut -d ' ' -f 1 "$work/asked/ckpt/latest")
    diff -r "$work/asked/ckpt/$dir" "$work/planned/ckpt/$dir" >/dev/null || fail "$schedule: other bytes"
done <<'MODES'
2bw none
async spectrain
MODES
echo "count: 2 modes stopped while they were full, bit for bit"
