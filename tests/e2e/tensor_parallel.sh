#!/usr/bin/env bash
# Tensor parallelism from the command line: transports, checkpoints between layouts, refusals.
set -euo pipefail

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
fail() {
    echo "tensor_parallel: $*" >&2
    exit 1
}
train() { "$SLUICE" train gpt-nano --set L=2,T=16,P=16,C=48,H=4 --batch 8 --micro 4 --quiet "$@"; }
same() { "$SLUICE" compare "$1" "$2" >out || fail "$1 and $2: $(cat out)"; }
refused() { # MESSAGE OPTIONS
    local message=$1
    shift
    if train --steps 1 "$@" 2>why >/dev/null; then fail "accepted: $*"; fi
    grep -q -- "$message" why || fail "'$message' is not in: $(cat why)"
}

train --tp 2 --steps 6 --out one
# transports and layouts
train --tp 2 --stages 2 --steps 6 --eval-every 2 --out threads
same one threads
"$SLUICE" launch -n 4 -- train gpt-nano --set L=2,T=16,P=16,C=48,H=4 --batch 8 --micro 4 --quiet --tp 2 --stages 2 --steps 6 --out tcp
same one tcp
"$SLUICE" launch -n 3 -- train gpt-nano --set L=2,T=16,P=16,C=48,H=4 --batch 8 --micro 4 --quiet --tp 2 --stages 2 --steps 6 --out uneven
same one uneven

# a run continues on any layout with its shards
train --tp 2 --stages 2 --schedule zb-h1 --steps 2 --out moved
"$SLUICE" train --resume --out moved --schedule 1f1b --stages 1 --steps 4 --quiet
"$SLUICE" train --resume --out moved --stages 3 --steps 6 --quiet
same one moved
grep -q '^stage s0 .* shards 2 ' moved/plan.plan || fail "plan.plan has no shards"
# initial values do not depend on the shards; weights of any run load with any number of them
for t in 1 2 4; do
    train --tp "$t" --optimizer sgd --lr 0 --steps 1 --out "start$t"
    train --tp "$t" --optimizer sgd --lr 0 --steps 1 --init one --out "load$t"
    [ "$t" = 1 ] || same start1 "start$t"
    [ "$t" = 1 ] || same load1 "load$t"
done
if "$SLUICE" train --resume --out moved --tp 4 --steps 8 --quiet 2>why; then fail "another tp"; fi
grep -q -- '--tp was 2 and is 4' why || fail "another tp: $(cat why)"
"$SLUICE" eval one --quiet >/dev/null || fail "eval"

# a plan with shards runs, and needs no --tp
train --plan moved/plan.plan --steps 6 --out planned
same one planned

refused 'no part of model' --tp 7
refused 'from 1 to 8' --tp 9
refused 'shards exchange fp32 tensors only' --tp 2 --dtype bf16
"$SLUICE" plan gpt-nano --machine laptop --batch 8 --tp 2 --dtype bf16 -o half.plan 2>why >out || fail "plan for another system"
grep -q "sluice train. cannot run this plan" why || fail "plan says nothing: $(cat why)"
refused 'leave out .*audit.* or ' --tp 2 --audit 3
refused 'the stages of the plan have 2 shards' --plan moved/plan.plan --tp 4

# replicas divide the optimizer state: the same bits on every layout with these replicas, and with whole state
train --stages 2 --replicas 2 --steps 6 --out wide
train --stages 2 --replicas 2 --zero1 --steps 2 --out divided
"$SLUICE" train --resume --out divided --stages 2 --replicas 2 --steps 3 --quiet # whole state
grep -q 'zero1' divided/plan.plan && fail "plan.plan still has zero1"
"$SLUICE" launch -n 3 -- train --resume --out divided --zero1 --steps 5 --quiet
grep -q '^stage s0 .* zero1 ' divided/plan.plan || fail "plan.plan has no zero1"
"$SLUICE" train --resume --out divided --steps 6 --quiet
same wide divided
train --plan divided/plan.plan --steps 6 --out divided-plan
same wide divided-plan
train --tp 2 --stages 2 --replicas 2 --steps 6 --optimizer muon --schedule 2bw --out wide2
train --tp 2 --stages 2 --replicas 2 --zero1 --steps 6 --optimizer muon --schedule 2bw --out divided2
same wide2 divided2
"$SLUICE" check gpt-nano --set L=2,T=16,P=16,C=48,H=4 --batch 6 --micro 3 --steps 3 --stages 2 --replicas 3 --zero1 >out ||
    fail "check: $(cat out)"
refused 'no stage has any; set --replicas' --stages 2 --zero1
refused 'needs a pipeline' --zero1
refused 'exclude each other' --zero1 --plan wide/plan.plan
refused "policy 'spectrain' computes weights from the whole" --stages 2 --replicas 2 --zero1 --schedule async --policy spectrain
refused 'use --clip-scope stage' --stages 2 --replicas 2 --zero1 --schedule stash --clip-scope global
refused 'need equal numbers of micro-batches' --stages 2 --replicas 3 --zero1 --schedule 2bw
sed '0,/ shards 2 /s// shards 4 /' moved/plan.plan >mixed.plan
refused 'has 4 shards and stage' --plan mixed.plan

# A model that no device holds alone: the plan has shards, replicas, several stages on a worker and divided
# optimizer state. It runs as printed, with the bits of one stage, and fits as planned.
cat >small.machine <<'EOF'
sluice-machine 1
machine small "two hosts of four small devices"
kind d memory 18000000 stream 10e9 fp32 1e12 efficiency 0.5 overhead 1000
link nv bandwidth 5e9 latency 2000 sharing pair
link eth bandwidth 1e9 latency 20000 sharing port
host h count 2 inside nv devices d 4
level cluster hosts 2 over eth
EOF
small=(llama --set 'V=128,T=16,L=4,C=256,H=8,K=2,F=512')
"$SLUICE" plan "${small[@]}" --machine small.machine --batch 16 --schedule interleaved -o small.plan --quiet >/dev/null
grep -q '^stage s3 width 2 .* shards 2 zero1 on 2 3' small.plan || fail "plan: $(grep ^stage small.plan)"
micro=$(sed -n 's/^stage s0 width 2 micro \([0-9]*\) .*/\1/p' small.plan)
"$SLUICE" train "${small[@]}" --plan small.plan --steps 2 --out small --quiet
"$SLUICE" train "${small[@]}" --tp 2 --stages 1 --replicas 2 --batch 16 --micro $((16 / micro)) --steps 2 --out whole --quiet
same whole small
if "$SLUICE" check "${small[@]}" --plan small.plan --steps 1 2>why >/dev/null; then fail "check of shards"; fi
grep -q 'the reference of tensor-parallel shards is one worker' why || fail "check of shards: $(cat why)"
"$SLUICE" plan "${small[@]}" --machine small.machine --batch 16 --schedule interleaved --no-zero1 -o undivided.plan --quiet >/dev/null
! grep -q zero1 undivided.plan || fail "--no-zero1 divides the state"
# one stage of it recomputes, which Megatron does not have; --uniform plans what it has
if "$SLUICE" export small.plan --to megatron 2>why >/dev/null; then fail "Megatron recomputes on one stage"; fi
grep -q 'plan with --uniform' why || fail "recomputation on one stage: $(cat why)"
"$SLUICE" plan "${small[@]}" --machine small.machine --batch 16 --schedule interleaved --uniform --whole-layers -o even.plan --quiet >/dev/null
"$SLUICE" export even.plan --to megatron >out || fail "an even plan"
grep -qx -- '--tensor-model-parallel-size 2' out || fail "an even plan: $(cat out)"
"$SLUICE" train "${small[@]}" --plan even.plan --steps 1 --quiet
# check of a plan with shards: the reference is one worker with the same shards
for model in "llama --set V=32,T=8,L=4,C=8,H=2,K=2,F=8" "gpt-nano --set L=2,T=16,P=16,C=48,H=4"; do
    # shellcheck disable=SC2086
    "$SLUICE" plan $model --machine 1x4:mem=1G,intra=5GB/s --batch 8 --micro 4 --tp 2 --pp 2 --dp 1 --planner balanced \
        -o shards.plan --quiet >/dev/null || fail "plan of $model"
    grep -q ' shards 2 ' shards.plan || fail "no shards"
    "$SLUICE" check --plan shards.plan --steps 3 >out || fail "check of shards: $(cat out)"
    grep -q 'are those of one worker, bit for bit' out || fail "check of shards: $(cat out)"
done
