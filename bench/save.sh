#!/usr/bin/env bash
# Asynchronous checkpoints: how long one stops training, compared with a synchronous save, and the cost of the
# default interval.
#
#   ./dev bench save [--rounds N] [--seconds S]      default: 5 rounds; 120 s for the cost, 0: omit it
#
# stall: both kinds interleaved, median of the rounds; the wait at the end of a step plus the wait of the next
# optimizer step for the copy. cost: runs with the default interval and without checkpoints, the same number of
# steps, interleaved, medians; share_pct is the sum of the stalls in the log of the last run.
set -euo pipefail
rounds=5 seconds=120
while [ $# -gt 0 ]; do
    case $1 in
    --rounds) rounds=${2:?} && shift ;;
    --seconds) seconds=${2:?} && shift ;;
    *) echo "usage: ./dev bench save [--rounds N] [--seconds S]" >&2 && exit 2 ;;
    esac
    shift
done
work=$(mktemp -d -p "${SL_BENCH_DIR:-.}" save.XXXXXX)
trap 'rm -rf "$work"' EXIT

number() { sed -n "s/.*\"$1\": *\\([0-9.e+]*\\).*/\\1/p" "$work/out" | head -n 1; }
middle() { sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
# train ARGUMENTS...: writes the result to $work/out
train() {
    rm -rf "$work/run"
    "$SLUICE" train "${model[@]}" "$@" --quiet --json >"$work/out"
}

stall() { # NAME ARGUMENTS OF TRAIN...
    local name=$1 round how
    shift
    model=("$@")
    : >"$work/sync" && : >"$work/async"
    for ((round = 0; round < rounds; round++)); do
        for how in sync async; do
            # A save, a step that may wait for the copy, and the last save, which is always synchronous.
            train --steps 3 --checkpoint-every 2 --save $how --out "$work/run"
            case $how in
            sync) awk -v ns="$(number save_stall_ns)" -v n="$(number saves)" 'BEGIN { print ns / n }' >>"$work/sync" ;;
            async) number save_beside_stall_ns >>"$work/async" ;;
            esac
            bytes=$(du -sb "$work/run/ckpt/step-00000002" | cut -f1)
        done
    done
    awk -v name="$name" -v bytes="$bytes" -v s="$(middle <"$work/sync")" -v a="$(middle <"$work/async")" 'BEGIN {
        printf "RESULT bench=save what=stall model=%s bytes=%d sync_ms=%.2f async_ms=%.2f ratio_pct=%.2f\n",
            name, bytes, s / 1e6, a / 1e6, 100 * a / s }'
}
stall gpt-tiny gpt-tiny --batch 1
stall gpt-tiny-2-stages gpt-tiny --batch 2 --micro 2 --stages 2
stall mlp-2048 mlp --set W=2048 --batch 1
stall mlp-4096 mlp --set W=4096 --batch 1

# timed FILE ARGUMENTS...: appends the seconds of a run to FILE
timed() {
    local begin=$EPOCHREALTIME
    train "${@:2}" --out "$work/run"
    awk -v a="$begin" -v b="$EPOCHREALTIME" 'BEGIN { print b - a }' >>"$work/$1"
}

cost() {
    local steps each stalled cpu saves every
    model=(gpt-tiny --batch 16)
    train --steps 20
    each=$(number step_s)
    steps=$(awk -v s="$seconds" -v e="$each" -v r="$rounds" 'BEGIN { print int(s / e / r) + 1 }')
    for _ in $(seq "$rounds"); do
        timed without --steps "$steps" --checkpoint-every 0
        timed with --steps "$steps"
        stalled=$(number save_stall_ns) cpu=$(number save_cpu_ns) saves=$(number saves) every=$(number save_every)
    done
    awk -v steps="$steps" -v w="$(middle <"$work/with")" -v o="$(middle <"$work/without")" -v st="$stalled" -v c="$cpu" \
        -v n="$saves" -v e="$every" 'BEGIN {
        printf "RESULT bench=save what=cost model=gpt-tiny steps=%d saves=%d every=%d with_s=%.1f without_s=%.1f over_pct=%.2f share_pct=%.2f\n",
            steps, n, e, w, o, 100 * (w - o) / o, 100 * (st + c) / 1e9 / w }'
}
[ "$seconds" = 0 ] || cost
