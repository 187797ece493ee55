#!/usr/bin/env bash
# Planner 2bw on the paper's clusters: the batch of 2BW is divided so that the pipeline does not stall.
set -euo pipefail

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail() {
    echo "plan_2bw: $*" >&2
    exit 1
}
get() { sed -n "s/^  \"$1\": \\(-\\?[0-9.e+-]*\\),\\?\$/\\1/p" "$2" | head -1; }
ask=(--machine p3-x8 --dtype fp16 --schedule 2bw --quiet --json)

# 64 samples on 64 GPUs: large micro-batches would leave 4 of them for 15 stages
for planner in 2bw sluice; do
    "$SLUICE" plan gpt-3.8b --set tied=0 "${ask[@]}" --planner $planner --batch 64 >"$dir/$planner.json" || fail "$planner"
done
"$SLUICE" plan gpt-3.8b --set tied=0 "${ask[@]}" --planner 2bw --batch 64 --micro 64 >"$dir/one.json" || fail "micro 64"
[ "$(get step_ns "$dir/2bw.json")" -le "$(get step_ns "$dir/one.json")" ] ||
    fail "2bw: $(get step_ns "$dir/2bw.json") ns; with 64 micro-batches $(get step_ns "$dir/one.json")"
[ "$(get step_ns "$dir/sluice.json")" -le "$(get step_ns "$dir/2bw.json")" ] || fail "sluice loses to 2bw"
grep -q '"out_of_budget": true' "$dir/sluice.json" || fail "sluice claims to have seen everything"

# a 25-billion-parameter GPT fits only with small micro-batches
"$SLUICE" plan gpt-3.8b --set L=320,C=2560,H=32,tied=0 --whole-layers --recompute all "${ask[@]}" --planner 2bw \
    --batch 512 >"$dir/large.json" || fail "no plan with 320 layers"
micros=$((512 / $(get micro_size "$dir/large.json")))
[ "$micros" -ge "$(get depth "$dir/large.json")" ] || fail "$micros micro-batches"

# other planners search again with less memory where their first plans do not fit; sluice is not worse than that
for planner in piper-dp sluice; do
    "$SLUICE" plan gpt-2.2b --set tied=0 --machine p3.16xlarge --dtype fp16 --schedule 2bw --quiet --json --planner $planner \
        --batch 64 >"$dir/$planner.json" || fail "gpt-2.2b, $planner"
done
[ "$(get step_ns "$dir/sluice.json")" -le "$(get step_ns "$dir/piper-dp.json")" ] || fail "sluice loses to piper-dp"

# what ran out of budget does not say that it finished
"$SLUICE" plan gpt-2.2b --set tied=0 --machine p3.16xlarge --dtype fp16 --batch 64 --schedule 2bw --quiet >"$dir/text" ||
    fail "gpt-2.2b"
grep -q "^search .*stopped at its budget" "$dir/text" || fail "$(grep ^search "$dir/text")"
