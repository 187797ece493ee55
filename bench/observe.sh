#!/usr/bin/env bash
# What observing an asynchronous run costs: 2bw with an evaluation every 50 steps and a checkpoint every 20 against
# the undisturbed run, without the passes of the evaluations themselves.
#
#   ./dev bench observe [--rounds N] [--steps N] [ARGUMENTS OF TRAIN...]
#
# Both kinds interleaved; the median of the ratios of neighbours. Times are of whole processes, so the goal, 0.97,
# includes pausing, filling the pipeline again, copying and writing. Exit status 1 below it.
set -euo pipefail
rounds=9 steps=200
while [ $# -gt 0 ]; do
    case $1 in
    --rounds) rounds=${2:?} && shift 2 ;;
    --steps) steps=${2:?} && shift 2 ;;
    *) break ;;
    esac
done
[ $# -gt 0 ] || set -- gpt-tiny --set L=4,C=128,H=4,T=64,P=64 --stages 2 --batch 16 --micro 8
work=$(mktemp -d -p "${SL_BENCH_DIR:-.}" observe.XXXXXX)
trap 'rm -rf "$work"' EXIT

# timed ARGUMENTS...: seconds of a run, and those of its evaluations
timed() {
    local begin end
    rm -rf "$work/run"
    begin=$EPOCHREALTIME
    "$SLUICE" train "$@" --schedule 2bw --steps "$steps" --out "$work/run" --quiet
    end=$EPOCHREALTIME
    awk -v a="$begin" -v b="$end" '/"eval_loss"/ { sub(/.*"ms": /, ""); ms += $0 + 0 } END { print b - a, ms / 1000 }' \
        "$work/run/log.jsonl"
}
middle() { sort -g | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }

for ((round = 0; round < rounds; round++)); do
    plain=$(timed "$@" --checkpoint-every 0)
    seen=$(timed "$@" --eval-every 50 --eval-samples 16 --checkpoint-every 20)
    echo "$plain $seen" | awk '{ print $1 / ($3 - $4), $1, $3, $4 }' >>"$work/rounds"
done
ratio=$(cut -d' ' -f1 "$work/rounds" | middle)
awk -v r="$ratio" -v n="$rounds" -v steps="$steps" -v p="$(cut -d' ' -f2 "$work/rounds" | middle)" \
    -v s="$(cut -d' ' -f3 "$work/rounds" | middle)" -v e="$(cut -d' ' -f4 "$work/rounds" | middle)" 'BEGIN {
    printf "RESULT bench=observe rounds=%d steps=%d plain_s=%.2f observed_s=%.2f evaluations_s=%.2f throughput=%.3f goal=0.97\n",
        n, steps, p, s, e, r
    exit !(r >= 0.97) }'
