#!/usr/bin/env bash
# From a profile to a plan to a run: `sim`, `verify` and `train` read the files of `plan`.
set -euo pipefail

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail() {
    echo "plan: $*" >&2
    exit 1
}

"$SLUICE" machine show laptop -o "$dir/l.machine" --quiet >/dev/null
"$SLUICE" machine check "$dir/l.machine" | grep -q "4 devices" || fail "machine check"
printf 'sluice-machine 1\nmachine x "y"\n' >"$dir/bad.machine"
"$SLUICE" machine check "$dir/bad.machine" 2>/dev/null && fail "a machine without devices passes"

# measured with two layers, planned with four: equal blocks share their rows
"$SLUICE" profile gpt-nano --set L=2 --micro-batch 1,2 --rounds 2 -o "$dir/x.cost" --quiet >/dev/null
for planner in even 2bw graph-dp graphpipe pipedream-dp piper-dp hetpipe sluice; do
    "$SLUICE" plan gpt-nano --set L=4 --cost "$dir/x.cost" --machine "$dir/l.machine" --batch 8 \
        --schedule 1f1b --planner "$planner" --straight --json -o "$dir/$planner.plan" --quiet \
        >"$dir/$planner.json" || fail "$planner"
    grep -q '"estimated": false' "$dir/$planner.json" || fail "$planner does not say it was measured"
    step=$(sed -n 's/^  "step_ns": \([0-9]*\),/\1/p' "$dir/$planner.json")
    echo "$step $planner" >>"$dir/steps"
done
best=$(sort -n "$dir/steps" | head -1 | cut -d' ' -f1)
grep -q "^$best sluice$" "$dir/steps" || fail "sluice lost: $(sort -n "$dir/steps" | tr '\n' ' ')"

"$SLUICE" sched "$dir/sluice.plan" -o "$dir/x.sched" --quiet >/dev/null || fail "sched"
"$SLUICE" verify "$dir/x.sched" --quiet >/dev/null || fail "verify"
"$SLUICE" train gpt-nano --set L=4 --plan "$dir/sluice.plan" --steps 2 --quiet || fail "train"

# an estimate is marked
"$SLUICE" plan gpt-nano --machine laptop --batch 8 --quiet | grep -q "ESTIMATED: roofline" ||
    fail "an estimate is not marked"

# kFkB: the plan carries k, a run takes it, and the weights are those of 1F1B
for group in "" "--group 3"; do
    # shellcheck disable=SC2086 # no or two words
    "$SLUICE" train gpt-nano --set L=2 --stages 2 --batch 8 --micro 8 --steps 2 --schedule kfkb $group \
        --out "$dir/run$group" --quiet >/dev/null || fail "train kfkb $group"
done
grep -q "group 3" "$dir/run--group 3/plan.plan" || fail "the plan of the run has no group"
grep -q "group" "$dir/run/plan.plan" && fail "a group nobody asked for"
for group in "" "--group 3"; do
    "$SLUICE" ckpt convert "$dir/run$group" -o "$dir/w$group.safetensors" --quiet >/dev/null || fail "convert"
done
cmp "$dir/w.safetensors" "$dir/w--group 3.safetensors" || fail "k changes the weights"
"$SLUICE" train gpt-nano --stages 2 --schedule 1f1b --group 2 --steps 1 2>"$dir/why" && fail "1f1b takes a group"
grep -q -- "--group: 1f1b runs no groups" "$dir/why" || fail "$(cat "$dir/why")"

# half of a machine of four kinds has two of them
"$SLUICE" plan lenet --machine hetpipe --devices 8 --batch 16 --schedule 1f1b --planner hetpipe --quiet >/dev/null ||
    fail "hetpipe on a part of its machine"
# sluice finds what another planner finds, also where its own first choice does not fit
for planner in 2bw sluice; do
    "$SLUICE" plan bert-base --machine summit --devices 4 --batch 64 --memory 1G --schedule gpipe --planner $planner --json --quiet |
        sed -n 's/^  "step_ns": \([0-9]*\),/\1/p' >"$dir/fits.$planner" || fail "$planner on a tight machine"
done
[ "$(cat "$dir/fits.sluice")" -le "$(cat "$dir/fits.2bw")" ] || fail "2bw beats sluice on a tight machine"

# the baselines: replicas of the whole model, and layers spread without a pipeline; their plans train
for planner in dp model-parallel; do
    "$SLUICE" plan gpt-nano --set L=2 --machine laptop --batch 8 --planner $planner --json -o "$dir/$planner.plan" --quiet \
        >"$dir/$planner.json" || fail "$planner"
    "$SLUICE" train gpt-nano --set L=2 --plan "$dir/$planner.plan" --steps 1 --quiet || fail "train the plan of $planner"
done
[ "$(grep -c '"overlapped": ' "$dir/dp.json")" = 4 ] || fail "dp does not list four ways to sum up"
grep -q '"schedule": "serial"' "$dir/model-parallel.json" || fail "model-parallel runs a pipeline"
"$SLUICE" plan gpt-nano --machine laptop --batch 8 --planner dp --schedule 2bw --quiet 2>/dev/null && fail "dp takes 2bw"

# GraphPipe composes stages along branches; a chain through four branches has depth 3 or more
for planner in pipedream-dp graphpipe; do
    "$SLUICE" plan candle-uno --set branches=4 --machine summit --devices 4 --batch 1024 --schedule 1f1b \
        --planner $planner --json --quiet >"$dir/$planner.json" || fail "$planner on candle-uno"
    sed -n 's/^  "step_ns": \([0-9]*\),/\1/p' "$dir/$planner.json" >>"$dir/branches"
done
grep -q '"depth": 2,' "$dir/graphpipe.json" || fail "graphpipe does not follow the branches"
[ "$(sed -n 2p "$dir/branches")" -lt "$(sed -n 1p "$dir/branches")" ] || fail "graphpipe is not faster than the chain"
# its plan with a size and a k per stage trains
"$SLUICE" plan candle-uno --set "branches=3,W=16,L=2" --machine laptop --batch 16 --schedule graph --planner graphpipe \
    -o "$dir/branches.plan" --quiet >/dev/null || fail "graphpipe on small branches"
"$SLUICE" train candle-uno --set "branches=3,W=16,L=2" --plan "$dir/branches.plan" --steps 2 --quiet ||
    fail "train the plan of graphpipe"
# skip connections and two towers are series-parallel as an order
for model in u-net clip; do
    "$SLUICE" plan $model --machine laptop --batch 8 --micro 8 --schedule 1f1b --planner graphpipe --memory 64G --quiet \
        >/dev/null || fail "graphpipe on $model"
done

# a plan that does not fit: the message names stage and bytes
rc=0
"$SLUICE" plan gpt-nano --machine laptop --batch 8 --memory 1MiB 2>"$dir/why" || rc=$?
[ $rc -eq 1 ] || fail "exit $rc for a plan that does not fit"
grep -qE "lacks|needs .* more than" "$dir/why" || fail "$(cat "$dir/why")"
# the suggested memory is enough
more=$(sed -n 's/.*--memory \([0-9]*\)).*/\1/p' "$dir/why")
[ -n "$more" ] || fail "no advice: $(cat "$dir/why")"
"$SLUICE" plan gpt-nano --machine laptop --batch 8 --memory "$more" --quiet >/dev/null || fail "$more bytes do not fit"
# no candidate at all: the message says so, and names no unit
rc=0
"$SLUICE" plan gpt-nano --machine laptop --batch 8 --schedule forward 2>"$dir/why" || rc=$?
[ $rc -eq 1 ] || fail "exit $rc for a schedule without candidates"
grep -q "makes no stages for --schedule forward" "$dir/why" || fail "$(cat "$dir/why")"
# nothing fits and no unit is to blame: the planner says so, and says once how it rewrote the graph
rc=0
"$SLUICE" plan moe --set "V=64,T=8,L=2,C=64,H=4,K=2,F=128,E=4,A=2" --machine laptop --batch 32 --memory 300KiB \
    --schedule 1f1b --planner graphpipe 2>"$dir/why" >/dev/null || rc=$?
[ $rc -eq 1 ] || fail "exit $rc for moe in too little memory"
[ "$(grep -c 'is not series-parallel' "$dir/why")" = 1 ] || fail "not one note: $(cat "$dir/why")"
grep -q "lacks 0 B" "$dir/why" && fail "a unit that fits is blamed: $(cat "$dir/why")"
# a schedule without a flush is faster, unless it needs more tokens
for price in 1 9; do
    "$SLUICE" plan gpt-nano --machine laptop --batch 8 --straight --staleness-cost "2bw=$price" --json --quiet \
        >"$dir/price$price.json" || fail "staleness $price"
done
grep -q '"schedule": "2bw"' "$dir/price1.json" || fail "free staleness is not taken"
grep -q '"schedule": "2bw"' "$dir/price9.json" && fail "staleness at nine times the tokens is taken"
# weight gradients do not grow with the micro-batch: large ones are planned if they fit
"$SLUICE" plan candle-uno --set branches=8 --machine summit --devices 8 --batch 2048 --micro 16 --schedule 1f1b \
    --planner pipedream-dp --quiet >/dev/null || fail "micro-batches of 128"

"$SLUICE" plan gpt-nano --machine laptop --staleness-cost 1f1b=2 --quiet 2>/dev/null && fail "1f1b is not stale"
# measured passes and a slow link between hosts: the step includes 8 messages each way
"$SLUICE" plan gpt-nano --set L=4 --cost "$dir/x.cost" --machine "2x1:mem=8G,intra=10GB/s,inter=8Mb/s" --batch 8 --micro 8 \
    --planner even --schedule 1f1b --json -o "$dir/slow.plan" --quiet >"$dir/slow.json" || fail "a slow link"
step=$(sed -n 's/^  "step_ns": \([0-9]*\),/\1/p' "$dir/slow.json")
sample=$(sed -n 's/^edge s0 s1 //p' "$dir/slow.plan") # bytes, and so microseconds
[ "$step" -ge $((16 * sample * 1000 / 2)) ] || fail "a step of $step ns over a link that needs $sample us for a message"
# a cost file of another model is refused
rc=0
"$SLUICE" plan lenet --cost "$dir/x.cost" --machine laptop 2>"$dir/why" || rc=$?
[ $rc -eq 1 ] || fail "a foreign cost table: exit $rc"
grep -q "has no row for unit" "$dir/why" || fail "a foreign cost table: $(cat "$dir/why")"

# an imported file: --time-limit returns the best plan so far
{
    for i in 1 2 3 4; do
        echo "node$i -- x -- forward_compute_time=1.0, backward_compute_time=2.0, activation_size=8.0, parameter_size=8.0"
    done
    printf '\tnode%d -- node%d\n' 1 2 1 3 2 4 3 4
} >"$dir/x.graph.txt"
for limit in 0 1e-9; do
    "$SLUICE" plan "$dir/x.graph.txt" --devices 2 --time-limit $limit --json >"$dir/limit$limit.json" || fail "limit $limit"
    grep -q '"objective": 0.006' "$dir/limit$limit.json" || fail "limit $limit: $(cat "$dir/limit$limit.json")"
done
grep -q '"timed_out": false' "$dir/limit0.json" || fail "stopped without a limit"
grep -q '"timed_out": true' "$dir/limit1e-9.json" || fail "not stopped"
rc=0
"$SLUICE" plan "$dir/x.graph.txt" --devices 2 --planner even --memory 1 2>"$dir/why" || rc=$?
[ $rc -eq 1 ] || fail "even stages in a byte: exit $rc"
grep -q "equal stages do not fit" "$dir/why" || fail "even stages in a byte: $(cat "$dir/why")"
