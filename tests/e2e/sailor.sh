#!/usr/bin/env bash
# `sluice import sailor` on the plans that others measured (shared data; skips without it): the error of
# the step and of the memory that docs/sailor.md states. `sim` of the written plan gives the same step.
set -euo pipefail

data=$SRC_DIR/../shared/data/measured/sailor
[ -d "$data/plans" ] || exit 77
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail() {
    echo "sailor: $*" >&2
    exit 1
}
for plan in "$data"/plans/*.json; do
    "$SLUICE" import sailor "$data"/profiles/*.json "$plan" --json >"$dir/$(basename "$plan")" || fail "$plan"
done
python3 - "$dir" <<'EOF'
import glob, json, statistics, sys
rows = {path.split("/")[-1]: json.load(open(path)) for path in glob.glob(sys.argv[1] + "/*.json")}
step = [abs(row["step_error"]) for row in rows.values()]
# Two replicas with 2 GPUs each: less memory than the weights, the optimizer and one micro-batch need.
peak = [abs(row["peak_error"]) for name, row in rows.items() if name != "mit_N2_N2_D2.json"]
print("step: median %.3f worst %.3f; memory: worst %.3f of %d" % (statistics.median(step), max(step), max(peak), len(peak)))
if len(step) < 10 or statistics.median(step) > 0.06 or max(step) > 0.15 or max(peak) > 0.06:
    sys.exit("sailor: the errors are larger than docs/sailor.md says")
EOF
plan=$data/plans/mit_N4_N4_D1.json
"$SLUICE" import sailor "$data"/profiles/OPT*.json "$plan" -o "$dir/x.plan" >"$dir/out" || fail "import"
grep -q '^step .* measured 83.77 s, error' "$dir/out" || fail "$(cat "$dir/out")"
[ -s "$dir/x.RTX-3090.cost" ] || fail "no cost table"
a=$("$SLUICE" import sailor "$data"/profiles/OPT*.json "$plan" --json | grep -o '"step_s": [0-9.]*' | grep -o '[0-9.]*$')
b=$("$SLUICE" sim "$dir/x.plan" --totals --json | grep -o '"step_ns": [0-9]*' | grep -o '[0-9]*$')
python3 -c "import sys; sys.exit(abs(float(sys.argv[1]) * 1e9 - float(sys.argv[2])) > 2)" "$a" "$b" || fail "sim: $a s, $b ns"
rc=0
"$SLUICE" import sailor "$plan" 2>"$dir/why" || rc=$?
[ $rc = 3 ] || fail "without a profile: exit $rc"
