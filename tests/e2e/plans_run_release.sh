#!/usr/bin/env bash
# Every plan that 'plan' prints for a model that can be trained here runs: models x planners x schedules, and one
# step of each plan. A plan may be refused, but not printed and then refused. With SL_TEST_FULL all of them.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
fail() {
    echo "FAILED: $*"
    exit 1
}
models=(
    "gpt-tiny V=11,T=5,P=5,L=4,C=8,H=2,drop=0.1" "bert-base V=11,T=5,P=7,L=4,C=8,H=2" "lenet" "mlp"
    "mmt branches=4,T=4,L=2,C=8,H=2,F=8,classes=3" "clip G=2,S=8,patch=4,VC=8,VL=2,VH=2,V=11,T=5,TC=8,TL=2,TH=2,E=5"
    "gpt-nano L=2,C=16,H=2,T=8,tied=0"
)
mapfile -t planners < <("$SLUICE" list planners | awk '{print $1}')
mapfile -t schedules < <("$SLUICE" list schedules | awk '{print $1}')
if [ ${#planners[@]} -lt 8 ] || [ ${#schedules[@]} -lt 12 ]; then
    fail "the lists are short: ${planners[*]}; ${schedules[*]}"
fi
every=11 number=0 planned=0 asynchronous=0 wide=0
[ "${SL_TEST_FULL:-0}" != 1 ] || every=1
for model in "${models[@]}"; do
    read -r name sizes <<<"$model"
    options=("$name")
    [ -z "$sizes" ] || options+=(--set "$sizes")
    for planner in "${planners[@]}"; do
        for schedule in "${schedules[@]}"; do
            number=$((number + 1))
            if [ $((number % every)) != 0 ] || [ "$schedule" = forward ]; then continue; fi
            rc=0
            timeout 60 "$SLUICE" plan "${options[@]}" --machine laptop --batch 8 --schedule "$schedule" --planner "$planner" \
                --time-limit 1 -o p.plan >out 2>err || rc=$?
            [ $rc -lt 3 ] || fail "plan $model, $planner, $schedule: exit $rc: $(cat err)"
            [ $rc = 0 ] || continue
            timeout 60 "$SLUICE" train "${options[@]}" --plan p.plan --steps 1 --quiet >out 2>err ||
                fail "train $model, planned by $planner for $schedule: $(cat err)"
            planned=$((planned + 1))
            case $schedule in 2bw | stash | vsync | async | paci)
                asynchronous=$((asynchronous + 1))
                ! grep -qE '^stage .* width ([2-9]|1[0-9])' p.plan || wide=$((wide + 1))
                ;;
            esac
        done
    done
done
[ $planned -ge 20 ] || fail "only $planned plans"
[ $wide -ge 1 ] || fail "no asynchronous plan has replicas"
echo "count: plans that were printed and trained a step $planned ($asynchronous asynchronous, $wide of these with replicas) of $((number / every)) requests"
