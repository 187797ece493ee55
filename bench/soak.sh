#!/usr/bin/env bash
# A job that is killed every few seconds and restarts: its result must have the bytes of an undisturbed run. Prints the
# share of time spent in steps that were kept.
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

# A checkpoint about every 0.3 s, from the measured step time.
"$SLUICE" launch -n $ranks -- train "${gpt[@]}" --steps 400 --out "$work/probe" 2>"$work/err"
ms=$(sed 's/.*"ms": \([0-9.]*\).*/\1/' "$work/probe/log.jsonl" | sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }')
every=$(awk -v ms="$ms" 'BEGIN { n = int(300 / ms); print n < 1 ? 1 : n }')
train=(train "${gpt[@]}" --checkpoint-every "$every" --keep 3)

begin=$(date +%s)
"$SLUICE" launch -n $ranks --restarts 1000000 -- "${train[@]}" --steps 100000000 --out "$work/soak" 2>"$work/err" &
job=$!
kills=0 pace=3
RANDOM=1
while kill -0 $job 2>/dev/null; do
    sleep "$((pace - 1 + RANDOM % 4)).$((RANDOM % 9))" # every 2 to 5 s
    [ $(($(date +%s) - begin)) -lt "$seconds" ] || break
    mapfile -t victims < <(pgrep -P $job || true)
    [ ${#victims[@]} -gt 0 ] || continue
    if kill -KILL "${victims[RANDOM % ${#victims[@]}]}" 2>/dev/null; then kills=$((kills + 1)); fi
done
# Time is over: after the next restart, request a save and a stop.
lines() { wc -l <"$work/soak/log.jsonl"; }
for ((now = $(lines), i = 0; $(lines) < now + 3 && i < 600; i++)); do sleep 0.1; done
wall=$(($(date +%s) - begin))
kill -TERM $job
status=0
wait $job || status=$?
restarts=$(grep -c '^restart ' "$work/err" || true)
last=$(cut -d ' ' -f 1 "$work/soak/ckpt/latest")
steps=$((10#${last#step-}))
"$SLUICE" "${train[@]}" --steps $steps --out "$work/whole" 2>"$work/err2"
same=1
for file in "$work/whole/ckpt/$last"/*.safetensors; do
    cmp -s "$file" "$work/soak/ckpt/$last/$(basename "$file")" || same=0
done
# The log has each step once; discarded steps are removed.
useful=$(sed 's/.*"ms": \([0-9.]*\).*/\1/' "$work/soak/log.jsonl" | awk '{ s += $1 } END { print s / 1000 }')
verdict=fail
if [ $status = 0 ] && [ $same = 1 ] && [ "$restarts" -gt 0 ]; then verdict=pass; fi
echo "RESULT bench=soak seconds=$wall steps=$steps checkpoint_every=$every kills=$kills restarts=$restarts status=$status identical=$same effective=$(awk -v u="$useful" -v w="$wall" 'BEGIN { printf "%.3f", u / w }') verdict=$verdict"
[ $verdict = pass ]
