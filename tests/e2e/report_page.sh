#!/usr/bin/env bash
# The report page in a real browser (chromium through its driver): no console errors, the expected
# bars in the DOM, hover, click, zoom, filter, stepping, comparison, themes; a large one on a canvas
# that stays responsive. Skipped without chromium. SL_SHOTS=DIR keeps screenshots.
set -euo pipefail
fail() { echo "FAILED: $*" && exit 1; }
for tool in chromium chromedriver python3; do
    if ! command -v "$tool" >/dev/null; then
        echo "SKIPPED: $tool is missing (apt-get install chromium chromium-driver python3)"
        exit 77
    fi
done
work=$(mktemp -d)
driver=
cleanup() {
    [ -z "$driver" ] || kill "$driver" 2>/dev/null || true
    rm -rf "$work"
}
trap cleanup EXIT

"$SLUICE" report --chain 4 --schedule 1f1b --micro 8 --costs 'F=3us,I=2us,W=2us' -o "$work/one.html"
"$SLUICE" report --chain 4 --schedule 1f1b --micro 8 --against zb-h1 \
    --links 'latency=1ns' -o "$work/two.html"
# The same schedule, one step and three of them.
for iters in 1 3; do
    "$SLUICE" sim --chain 4 --schedule gpipe --micro 8 --iters "$iters" --costs 'F=1us,I=1us,W=1us' --quiet \
        -o "$work/steps-$iters.trace.json" >/dev/null
done
"$SLUICE" report "$work/steps-1.trace.json" "$work/steps-3.trace.json" -o "$work/steps.html"
# 1,000 stages; 100,000 actions in the release build. Sanitizer builds use fewer: printing and reading 100 MB
# of numbers would take most of their time.
micros=50
[ "$SL_PRESET" = release ] || micros=5
"$SLUICE" report --chain 1000 --schedule 1f1b --micro "$micros" -o "$work/big.html"
if grep -oE '(src|href)="[^"]*"|url\([^)]*\)' "$work/one.html" | grep -v '"data:,"'; then
    fail "the page refers to something outside of itself"
fi
# Names in files are escaped.
"$SLUICE" sim --chain 2 --schedule gpipe --micro 2 --quiet -o "$work/evil.trace.json" >/dev/null
sed -i 's/"title": *"gpipe"/"title": "<\/script><script>bad()<\/script>"/' "$work/evil.trace.json"
"$SLUICE" report "$work/evil.trace.json" -o "$work/evil.html"
[ "$(grep -c 'bad()</script>' "$work/evil.html")" = 0 ] || fail "a title became markup"

# A run with logged staleness, and a study.
"$SLUICE" train gpt-nano --set T=8,C=16,H=2,L=4 --models "$SRC_DIR/models" --stages 4 --schedule async \
    --policy spectrain --batch 4 --micro 4 --steps 30 --eval-every 10 --log-staleness --quiet --out "$work/run"
"$SLUICE" report "$work/run" -o "$work/run.html"
# A traced run, and a run directory with many stages and actions.
tiny=(gpt-nano --set "T=8,C=16,H=2,L=4" --models "$SRC_DIR/models")
"$SLUICE" profile "${tiny[@]}" --micro-batch 2 --rounds 2 -o "$work/x.cost" --quiet >/dev/null
"$SLUICE" train "${tiny[@]}" --stages 3 --batch 8 --micro 4 --cost "$work/x.cost" \
    --steps 16 --trace --quiet --out "$work/traced-run"
"$SLUICE" report "$work/traced-run" --ops -o "$work/traced.html"
"$SLUICE" sched "$work/traced-run/plan.plan" --schedule 1f1b --batch 8 --iters 16 >"$work/traced.txt"
mkdir "$work/thousand-run"
cp "$work/traced-run/log.jsonl" "$work/traced-run/model.model" "$work/thousand-run"
echo '{"model": "<b>thousand", "schedule": "1f1b", "batch": '"$micros"', "policy": "none"}' >"$work/thousand-run/config.json"
"$SLUICE" sched --chain 1000 --schedule 1f1b --micro "$micros" -o "$work/thousand.sched" >/dev/null
(echo 'sluice-plan 1' && sed -n '2,/^program/p' "$work/thousand.sched" | grep -v ^program) >"$work/thousand-run/plan.plan"
"$SLUICE" sim --chain 1000 --schedule 1f1b --micro "$micros" --costs 'F=1us,I=1us,W=1us' --quiet \
    -o "$work/thousand-run/timeline.trace.json" >/dev/null
"$SLUICE" report "$work/thousand-run" -o "$work/thousand.html"
cat >"$work/x.study" <<'END'
sluice-study 1
study pages "a study <b>for a test"
train "--data synthetic --eval-samples 8 --models {models}"
seeds 1 2
mode "1f1b" "--schedule 1f1b"
mode "2bw" "--schedule 2bw" against "1f1b"
task mlp "mlp" stages 2 steps 20 batch 4 micro 2 evals 10 rates 0.01
END
"$SLUICE" study "$work/x.study" --set "models=$SRC_DIR/models" --out "$work/study" --quiet >/dev/null
cp "$work/study/study.html" "$work/study.html"

: >"$work/driver.log" # it is there before anybody looks into it
chromedriver --port=0 >>"$work/driver.log" 2>&1 &
driver=$!
for _ in $(seq 1200); do
    port=$(sed -n 's/.*started successfully on port \([0-9]*\).*/\1/p' "$work/driver.log")
    [ -z "$port" ] || break
    sleep 0.1
done
[ -n "$port" ] || { cat "$work/driver.log" && fail "chromedriver does not start"; }
python3 "$SRC_DIR/tests/e2e/report_page.py" "$port" "$work" "$micros" "${SL_SHOTS:-}"
