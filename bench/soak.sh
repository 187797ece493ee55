#!/usr/bin/env bash
# A job that somebody kills every few seconds, and that starts again each time: at the end it has the bytes of a
# run that nobody disturbed. Prints how much of the time went into steps that counted.
#     ./dev bench soak [--seconds N | --hours H]      (default 600 s)
set -euo pipefail
seconds=600
while [ $# -gt 0 ]; do
    case $1 in
    --seconds) seconds=${2:?} && shift ;;
    --hours) seconds=$((${2:?} * 3600)) && shift ;;
    *) echo "soak: unknown option $1" >&2 && exit 2 ;;
    esac
    shift
done
: "${SLUICE:?run it as ./dev bench soak}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ranks=3
gpt=(gpt-nano --set "V=37,T=13,P=17,L=4,C=18,H=3,drop=0.1" --batch 8 --micro 4 --quiet --stages "$ranks")

# How long is a step here, and so how many steps fill three quarters of the time?
"$SLUICE" launch -n $ranks -- train "${gpt[@]}" --steps 400 --out "$work/probe" 2>"$work/err"
ms=$(sed 's/.*"ms": \([0-9.]*\).*/\1/' "$work/probe/log.jsonl" | sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }')
steps=$(awk -v s="$seconds" -v ms="$ms" 'BEGIN { n = int(s * 750 / ms); print n < 100 ? 100 : n }')
every=$(awk -v ms="$ms" 'BEGIN { n = int(300 / ms); print n < 1 ? 1 : n }') # a checkpoint about every 0.3 s
train=(train "${gpt[@]}" --steps "$steps" --checkpoint-every "$every")

begin=$(date +%s)
"$SLUICE" launch -n $ranks --restarts 1000000 -- "${train[@]}" --out "$work/soak" 2>"$work/err" &
job=$!
kills=0 pace=3
RANDOM=1
while kill -0 $job 2>/dev/null; do
    # Every 2 to 5 s; when time is up it may finish.
    sleep "$((pace - 1 + RANDOM % 4)).$((RANDOM % 9))"
    [ $(($(date +%s) - begin)) -lt "$seconds" ] || break
    mapfile -t victims < <(pgrep -P $job || true)
    [ ${#victims[@]} -gt 0 ] || continue
    if kill -KILL "${victims[RANDOM % ${#victims[@]}]}" 2>/dev/null; then kills=$((kills + 1)); fi
done
status=0
wait $job || status=$?
wall=$(($(date +%s) - begin))
restarts=$(grep -c '^restart ' "$work/err" || true)
"$SLUICE" "${train[@]}" --out "$work/whole" 2>"$work/err2"
last=ckpt/step-$(printf %08d "$steps")
same=0
! diff -r "$work/whole/$last" "$work/soak/$last" >/dev/null || same=1
# The log holds each step once: those that were thrown away are gone from it.
useful=$(sed 's/.*"ms": \([0-9.]*\).*/\1/' "$work/soak/log.jsonl" | awk '{ s += $1 } END { print s / 1000 }')
echo "RESULT bench=soak seconds=$wall steps=$steps checkpoint_every=$every kills=$kills restarts=$restarts status=$status identical=$same effective=$(awk -v u="$useful" -v w="$wall" 'BEGIN { printf "%.3f", u / w }')"
[ $status = 0 ] && [ $same = 1 ]
