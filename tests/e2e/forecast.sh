#!/usr/bin/env bash
# A run's forecast: its times equal the planner's simulation of the same plan, to the nanosecond. It is in the
# run directory before the first step, the report simulates it, and the run does not change it.
set -euo pipefail
fail() { echo "FAILED: $*" && exit 1; }
command -v python3 >/dev/null || { echo "SKIPPED: no python3" && exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
model=(gpt-nano --set "T=8,C=16,H=2,L=4" --models "$SRC_DIR/models")
number() { sed -n "s/^ *\"$1\": \([0-9.e+-]*\),*$/\1/p" "$2" | head -n 1; }
"$SLUICE" profile "${model[@]}" --micro-batch 2 --rounds 2 -o x.cost --quiet >/dev/null
sed -i '/^cold/d; /^action/a cold f 40000 b 90000 after 5000' x.cost
cat >m.machine <<'END'
sluice-machine 1
machine three "three cores, no network"
kind core memory 2147483648 stream 1e10 fp32 1e11 efficiency 0.5 overhead 0
link inside bandwidth 5e9 latency 1000 sharing pair
host here count 1 inside inside devices core 3
END
count=0
for schedule in gpipe 1f1b zb-h1 2bw; do
    "$SLUICE" plan "${model[@]}" --cost x.cost --machine m.machine --straight \
        --planner even --recompute none --schedule "$schedule" --batch 8 --micro 4 --json --quiet \
        -o "$schedule.plan" >plan.json
    "$SLUICE" train "${model[@]}" --plan "$schedule.plan" --cost x.cost --batch 8 --micro 4 --steps 3 --trace \
        --out "$schedule" --json --quiet >train.json
    step=$(number step_ns "$schedule/forecast.json")
    python3 - "$schedule/forecast.json" plan.json <<'END' || fail "$schedule: not the times of the planner's judge"
import json, sys
told, judged = (json.load(open(name)) for name in sys.argv[1:])
for part, stage in zip(told["costs"].split(";"), judged["stages"], strict=True):
    times = {k: int(v) for k, v in (item.split("=") for item in part.split(":")[1].split(","))}
    assert {k: v for k, v in times.items() if v} == stage["action_ns"], (times, stage)
END
    awk -v a="$(number forecast_s train.json)" -v b="$step" 'BEGIN { d = a * 1e9 - b; exit !(d * d < 1) }' ||
        fail "$schedule: --json says $(number forecast_s train.json)"
    # 'sluice sim' gives the same times from its costs and links, on the schedule of the run.
    iters=1
    [ "$schedule" != 2bw ] || iters=64
    "$SLUICE" sched "$schedule/plan.plan" --schedule "$schedule" --batch 8 --iters "$iters" --global-step \
        --slack "$(number slack "$schedule/config.json")" -o x.sched --quiet >/dev/null
    text() { sed -n "s/^ *\"$1\": \"\(.*\)\",*$/\1/p" "$schedule/forecast.json"; }
    "$SLUICE" sim x.sched --costs "$(text costs)" --links "$(text links)" --cold "$(text cold)" --json --quiet >sim.json
    # All updates of a synchronous step start together; the step ends with the last one.
    late=0
    [ "$schedule" = 2bw ] || late=$(grep -o 'STEP=[0-9]*' "$schedule/forecast.json" | cut -d= -f2 | sort -n | tail -n 1)
    played=$(number step_ns sim.json)
    if [ "$step" -lt "$played" ] || [ "$step" -gt $((played + late)) ]; then
        fail "$schedule: sim says $played, forecast $step"
    fi
    "$SLUICE" sim x.sched --costs "$(text costs)" --links "$(text links)" --json --quiet >sim.json
    [ "$(number step_ns sim.json)" -lt "$played" ] || fail "$schedule: passes that have waited cost nothing"
    count=$((count + 1))
done
"$SLUICE" report 1f1b -o x.html
grep -q 'The prediction was made before the run began, from x.cost alone' x.html || fail "the page has no forecast"
# The page compares with the forecast of as many steps, including the waits for the global norm; the timeline
# has no such waits.
sed 's/"\(step\|low\|high\)_ns": \([0-9]*\)/"\1_ns": \20/' 1f1b/forecast.json >late.json
cp -r 1f1b late && mv late.json late/forecast.json
"$SLUICE" report late -o late.html
grep -q 'of waiting for the norm of all gradients before the updates' late.html || fail "the page hides a wait"
python3 - late/forecast.json late.html <<'END' || fail "the page compares with something else"
import json, re, sys
told = 3 * json.load(open(sys.argv[1]))["step_ns"]
number, unit = re.search(r"<p>([0-9.]+) (ns|us|ms|s) predicted", open(sys.argv[2]).read()).groups()
shown = float(number) * {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}[unit]
assert abs(shown - told) <= 0.01 * told, (shown, told)
END
# Another run of the same plan gets the same forecast.
"$SLUICE" train "${model[@]}" --plan 1f1b.plan --cost x.cost --batch 8 --micro 4 --steps 1 --out again --quiet
cmp again/forecast.json 1f1b/forecast.json || fail "a forecast depends on the run"
# The page notes that workers shared cores, while the forecast has a core per worker.
core=$(taskset -cp $$ | sed 's/.*: //; s/[,-].*//')
taskset -c "$core" "$SLUICE" train "${model[@]}" --plan 1f1b.plan --cost x.cost --batch 8 --micro 4 --steps 3 2>said
grep -q 'against the forecast of .* (90 %: .* to .*); 3 threads shared 1 core$' said || fail "$(cat said)"
# A resumed run keeps its cost file and so its forecast; an empty --cost drops both. A damaged forecast is named;
# wrong cost files are refused.
"$SLUICE" train "${model[@]}" --plan 1f1b.plan --batch 8 --micro 4 --steps 2 --out again --resume --quiet
cmp again/forecast.json 1f1b/forecast.json || fail "the forecast of a resumed run is another"
"$SLUICE" train --out again --resume --steps 3 --cost "" --quiet
[ ! -e again/forecast.json ] || fail "an old forecast stays"
refuse() { # STATUS TEXT ARGS...
    local rc=0
    "$SLUICE" "${@:3}" >out 2>err || rc=$?
    [ "$rc" = "$1" ] || fail "exit $rc, not $1: $(cat err)"
    grep -q -- "$2" err || fail "$(cat err)"
    count=$((count + 1))
}
sed -i 's/s0:F/s9:F/' 1f1b/forecast.json
refuse 3 '1f1b/forecast.json: .*no stage' report 1f1b -o y.html
[ ! -e y.html ] || fail "a page is left"
refuse 2 '--cost needs a pipeline' train "${model[@]}" --cost x.cost --steps 1
refuse 1 'has no row for unit' train mlp --models "$SRC_DIR/models" --stages 2 --cost x.cost --steps 1
refuse 3 'nowhere.cost' train "${model[@]}" --stages 2 --cost nowhere.cost --steps 1
echo "count: $count forecasts"
