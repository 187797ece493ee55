#!/usr/bin/env bash
# ./dev demo: a small language model learns this project's own sources, on one worker and as a
# pipeline, and then writes some. Takes about a minute on two cores after the build.
#
#   ./dev demo [--data FILE] [--steps N] [--out DIR]
set -euo pipefail

sluice=${SLUICE:-build/release/sluice}
data=
steps=300
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
run() {
    printf '$ sluice'
    printf ' %s' "$@"
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

say "1. The model: what it is and what it costs"
run model gpt-nano

say "2. A schedule is data: generated, lowered, proved, and played in the simulator"
run sched --chain 3 --schedule 1f1b --micro 8
run sim --chain 3 --schedule 1f1b --micro 8 --costs 'F=1,I=1,W=1'

say "3. Training on one worker, on the text of $data"
common=(gpt-nano --data "$data" --batch 16 --micro 4 --lr 2e-3)
run train "${common[@]}" --steps "$steps" --eval-every $((steps / 3)) --out "$out/one"

say "4. The same run as a pipeline of three stages: the same bits"
run train "${common[@]}" --steps 20 --out "$out/one-20" --quiet
run train "${common[@]}" --steps 20 --out "$out/pipe-20" --stages 3 --schedule 1f1b
run compare "$out/one-20" "$out/pipe-20"

say "5. Without flushes: PipeDream-2BW, two weight versions on every stage"
run train "${common[@]}" --steps 40 --stages 3 --schedule 2bw --clip 0 --out "$out/2bw"

say "6. What it learned"
run eval "$out/one"
run sample "$out/one" --prompt "static " --tokens 200

say "Written to $out/: one, one-20, pipe-20, 2bw (each with log.jsonl, config.json, ckpt/)"
