#!/usr/bin/env bash
# Plans with several stages per worker: planned, verified from the file, trained bit for bit; the
# plan file has the sizes of the model, so that no command needs them again.
set -euo pipefail

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
fail() {
    echo "plan_virtual: $*" >&2
    exit 1
}
export SLUICE_MODELS="$SRC_DIR/models"
sizes=V=11,T=5,P=5,L=4,C=8,H=2
machine=2x2:mem=1G,intra=5GB/s,inter=1GB/s
for schedule in interleaved zb-v dualpipe-v chimera; do
    "$SLUICE" plan gpt-tiny --set "$sizes" --machine "$machine" --batch 16 --micro 8 --schedule "$schedule" \
        --time-limit 20 -o "$schedule.plan" >"$schedule.txt" || fail "plan $schedule"
    grep -q '^layout  .* with [2-9] stages each' "$schedule.txt" || fail "$schedule: $(grep ^layout "$schedule.txt")"
    # No worker has fewer than two stages or replicas.
    awk '/^workers/ {n = $2} /^stage/ {for (i = 8; i <= NF && $i ~ /^[0-9]+$/; i++) seats[$i]++}
         END {for (w = 0; w < n; w++) if (seats[w] < 2) exit 1}' "$schedule.plan" || fail "$schedule: one stage on a worker"
    "$SLUICE" verify "$schedule.plan" | grep -q "^$schedule (sync): .* verified$" || fail "verify $schedule.plan"
    "$SLUICE" check gpt-tiny --plan "$schedule.plan" --steps 2 >"$schedule.check" || fail "$schedule: $(cat "$schedule.check")"
    grep -q 'bit for bit' "$schedule.check" || fail "$schedule: $(cat "$schedule.check")"
done
# The sizes are those of the plan; a size on the command line replaces one of them.
grep -q "^sizes \"V=11,T=5,P=5,L=4,C=8,H=2" interleaved.plan || fail "sizes: $(grep ^sizes interleaved.plan)"
"$SLUICE" train --plan interleaved.plan --steps 2 --out run --quiet >/dev/null || fail "train with the plan alone"
"$SLUICE" train gpt-tiny --plan interleaved.plan --steps 2 --out named --quiet >/dev/null || fail "train with the model"
"$SLUICE" compare run named >/dev/null || fail "the same run twice"
"$SLUICE" export interleaved.plan --to csv -o x.csv 2>why || grep -q replica why || fail "csv: $(cat why)"
rc=0
"$SLUICE" train gpt-tiny --plan interleaved.plan --set L=5 --steps 2 --quiet >out 2>&1 || rc=$?
{ [ $rc != 0 ] && grep -q 'nodes' out; } || fail "another number of layers: exit $rc, $(cat out)"
# A plan without a batch names what is missing.
grep -v '^batch' interleaved.plan >no-batch.plan
rc=0
"$SLUICE" verify no-batch.plan 2>why || rc=$?
{ [ $rc = 2 ] && grep -q 'names no batch' why; } || fail "no batch: exit $rc, $(cat why)"
# What cannot be planned is refused with the reason.
rc=0
"$SLUICE" plan gpt-tiny --machine "$machine" --batch 8 --schedule interleaved --planner even 2>why || rc=$?
{ [ $rc = 1 ] && grep -q 'one stage on a worker' why; } || fail "planner even: exit $rc, $(cat why)"
rc=0
"$SLUICE" plan mmt --set L=2 --machine "$machine" --batch 8 --schedule interleaved 2>why || rc=$?
{ [ $rc = 1 ] && grep -q 'needs a chain' why; } || fail "branches: exit $rc, $(cat why)"

# A 70B llama on 64 GPUs. More freedom is not worse: cuts between whole layers are among all cuts.
[ "${SL_PRESET:-release}" = release ] || { echo "count: 0 plans of 70B: only in the release build" && exit 0; }
sizes=V=128256,T=8192,L=80,C=8192,H=64,K=8,F=28672
llama=(plan llama --set "$sizes" --machine h100-x32 --devices 64 --dtype bf16
    --batch 256 --schedule interleaved)
"$SLUICE" "${llama[@]}" -o 70b.plan >70b.txt || fail "70B"
read -r ranks each <<<"$(sed -n 's/^layout  *\([0-9]*\) ranks with \([2-9]\) stages each.*/\1 \2/p' 70b.txt)"
[ -n "$each" ] || fail "70B: $(grep ^layout 70b.txt)"
[ "$(grep -c '^stage' 70b.plan)" = $((ranks * each)) ] || fail "70B: not $ranks x $each stages"
grep -q "^sizes \"$sizes,base=500000," 70b.plan || fail "70B: $(grep ^sizes 70b.plan)"
"$SLUICE" "${llama[@]}" --whole-layers >layers.txt || fail "70B, whole layers"
step() { awk '/^step/ {print $2 * ($3 == "ms" ? 1 : 1000)}' "$1"; }
awk -v all="$(step 70b.txt)" -v layers="$(step layers.txt)" 'BEGIN {exit !(all <= 1.01 * layers)}' ||
    fail "70B: $(step 70b.txt) ms, between whole layers $(step layers.txt) ms"
