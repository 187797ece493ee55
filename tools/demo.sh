#!/usr/bin/env bash
# ./dev demo: plans, trains and reports on this machine; less than a minute on two idle cores after the build.
#
#   ./dev demo [--data FILE] [--steps N] [--out DIR]
#
# --data names a text to train on; default: the sources and documents of the project.
set -euo pipefail

sluice=${SLUICE:-build/release/sluice}
data=
steps=240
out=demo-run
while [ $# -gt 0 ]; do
    case $1 in
    --data) data=$2 && shift 2 ;;
    --steps) steps=$2 && shift 2 ;;
    --out) out=$2 && shift 2 ;;
    *) echo "demo: unknown option '$1' (--data FILE, --steps N, --out DIR)" >&2 && exit 2 ;;
    esac
done

say() { printf '\n\033[1m%s\033[0m\n' "$*" | if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then cat; else sed 's/\x1b\[[0-9;]*m//g'; fi; }
run() { # shown as it can be typed
    local word
    printf '$ sluice'
    for word in "$@"; do
        case $word in
        *[!A-Za-z0-9_./=,:-]*) printf " '%s'" "$word" ;;
        *) printf ' %s' "$word" ;;
        esac
    done
    printf '\n'
    "$sluice" "$@"
}

rm -rf "$out"
mkdir -p "$out"
if [ -z "$data" ]; then
    data=$out/sources.txt
    find src include docs models -type f \( -name '*.c' -o -name '*.h' -o -name '*.md' -o -name '*.model' \) |
        LC_ALL=C sort | xargs cat >"$data"
fi
# A branching model that fits a laptop: four towers that join.
towers=(mmt --set 'branches=4,T=16,L=2,C=64,H=4,F=128,classes=10')

say "1. This machine"
run doctor --quick
run machine discover -o "$out/here.machine"

say "2. Two models: a small language model, and one with branches"
run model gpt-nano
run profile gpt-nano --micro-batch 4 -o "$out/nano.cost"
run profile "${towers[@]}" --micro-batch 4 -o "$out/towers.cost"

say "3. Plans, and why they were chosen (for four cores; how many are here does not matter)"
# Planners replicate models this small on every core; --straight forbids replicas.
four=(--machine '1x4:mem=2G,intra=5GB/s' --batch 16 --micro 4 --straight --time-limit 5)
run plan gpt-nano --cost "$out/nano.cost" "${four[@]}" --schedule 1f1b -o "$out/nano.plan"
run plan "${towers[@]}" --cost "$out/towers.cost" "${four[@]}" --planner graphpipe -o "$out/towers.plan"

say "4. A schedule is data: generated, lowered, proved, written, and proved again from the file"
run sched "$out/nano.plan" --schedule 1f1b --batch 16 -o "$out/nano.sched"
run verify "$out/nano.sched"
run sim --chain 4 --schedule 1f1b --micro 8 --costs 'F=1,I=1,W=1'

say "5. Training on one worker, on the text of $data"
common=(gpt-nano --data "$data" --batch 16 --micro 4 --lr 2e-3)
run train "${common[@]}" --steps "$steps" --eval-every $((steps / 3 > 0 ? steps / 3 : 1)) --dashboard --out "$out/one"

# As many workers as there are cores: more would share a core, and their waiting would say nothing
# about the schedule.
cores=$(nproc 2>/dev/null || echo 2)
workers=$((cores < 2 ? 2 : cores > 4 ? 4 : cores))
say "6. The same as a pipeline of $workers stages: the same bits"
run train "${common[@]}" --steps 20 --out "$out/one-20" --quiet
run train "${common[@]}" --steps 20 --out "$out/1f1b" --stages "$workers" --schedule 1f1b --cost "$out/nano.cost" --trace --dashboard
run compare "$out/one-20" "$out/1f1b"

say "7. Without flushes: PipeDream-2BW, two weight versions on every stage; and a graph of stages"
run train "${common[@]}" --steps 20 --stages "$workers" --schedule 2bw --trace --out "$out/2bw"
run train "${towers[@]}" --plan "$out/towers.plan" --batch 16 --micro 4 --steps 10 --cost "$out/towers.cost" --trace --out "$out/towers"

say "8. What it learned"
run eval "$out/one"
run sample "$out/one" --prompt "static " --tokens 200

say "9. Pages to look at, with any browser, without a network"
run report "$out/1f1b" --ops -o "$out/demo.html"
if [ "$cores" -ge "$workers" ]; then
    run report "$out/1f1b/timeline.trace.json" "$out/2bw/timeline.trace.json" -o "$out/compare.html"
else # the simulation has a core for every worker
    run report "$out/nano.plan" --schedule 1f1b --against 2bw --iters 8 -o "$out/compare.html"
fi
run report "$out/towers" -o "$out/towers.html"

say "Written:"
for file in "$out"/*; do
    if [ -d "$file" ]; then
        echo "  $file/: $(cd "$file" && find . -type f | sed 's|^\./||' | LC_ALL=C sort | paste -sd ' ')"
    else
        echo "  $file"
    fi
done
