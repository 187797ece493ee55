#!/usr/bin/env bash
# The cost of two weight versions on a GPU: steps of 2bw on one stage against synchronous ones, interleaved.
# Two versions need a copy of the weights per step and a second copy in bf16; switching is free. Prints
#
#   RESULT bench=cuda_versions model= sync_ms= twobw_ms= percent=     medians; percent: how much longer
#
# Usage: ./dev bench cuda_versions [--model gpt2] [--set V=50304] [--batch 64] [--micro 8] [--rounds 3]
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
sluice=${SLUICE:-$root/build/release/sluice} models=${SL_BENCH_MODELS:-$root/models}
model=gpt2 sets=V=50304 batch=64 micro=8 rounds=3
while [ $# -gt 0 ]; do
    case $1 in
    --model | --set | --batch | --micro | --rounds) : "${2:?$1 needs a value}" ;;&
    --model) model=$2 && shift ;;
    --set) sets=$2 && shift ;;
    --batch) batch=$2 && shift ;;
    --micro) micro=$2 && shift ;;
    --rounds) rounds=$2 && shift ;;
    -h | --help) sed -n '2,/^set /s/^# \{0,1\}//p' "$0" | sed '$d' && exit 0 ;;
    *) echo "bench cuda_versions: unknown option $1" >&2 && exit 2 ;;
    esac
    shift
done
"$sluice" list devices | grep '^  cuda ' | grep -vq '(not here' || { echo "no GPU here" && exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

median() { sort -g | awk '{ a[NR] = $1 } END { print a[int((NR + 1) / 2)] }'; }
steps() { # SCHEDULE: milliseconds of each step, the first ones left out
    rm -rf "$work/run"
    "$sluice" train "$model" --models "$models" --set "$sets" --device cuda --dtype bf16 --stages 1 --schedule "$1" \
        --batch "$batch" --micro "$micro" --steps 14 --checkpoint-every 0 --quiet --out "$work/run" >/dev/null
    sed -n 's/.*"ms": \([^,}]*\).*/\1/p' "$work/run/log.jsonl" | tail -n +4
}
for _ in $(seq "$rounds"); do
    steps 1f1b >>"$work/sync"
    steps 2bw >>"$work/twobw"
done
a=$(median <"$work/sync") b=$(median <"$work/twobw")
echo "RESULT bench=cuda_versions model=$model batch=$batch micro=$micro sync_ms=$a twobw_ms=$b" \
    "percent=$(awk "BEGIN { printf \"%.2f\", 100 * ($b / $a - 1) }")"
