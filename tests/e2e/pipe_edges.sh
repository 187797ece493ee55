#!/usr/bin/env bash
# Edge cases of pipelines: bit-identical to one worker or refused with a reason, never a hang.
set -euo pipefail
fail() { echo "FAILED: $*" && exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
count=0
patience=300

right() { # ARGUMENTS of check
    local rc=0
    timeout "$patience" "$SLUICE" check "$@" >out 2>err || rc=$?
    [ "$rc" = 0 ] || fail "check $*: exit $rc: $(cat out err)"
    grep -q 'bit for bit$' out || fail "check $*: $(cat out err)"
    count=$((count + 1))
}

refused() { # EXIT MESSAGE COMMAND...
    local want=$1 message=$2 rc=0
    shift 2
    timeout "$patience" "$SLUICE" "$@" >out 2>err || rc=$?
    [ "$rc" = "$want" ] || fail "$*: exit $rc, not $want: $(cat out err)"
    grep -q -- "$message" err || fail "$*: no '$message' in: $(cat err)"
    count=$((count + 1))
}

# Fewer micro-batches than stages; one micro-batch.
tiny=(gpt-nano --set 'L=2,C=16,H=2,T=8')
for schedule in gpipe 1f1b kfkb graph zb-h1 zb-h2 zb-graph; do
    right "${tiny[@]}" --stages 4 --batch 6 --micro 2 --steps 3 --schedule $schedule
    right "${tiny[@]}" --stages 4 --batch 3 --micro 1 --steps 3 --schedule $schedule
done

# The last micro-batch is shorter than the others.
right "${tiny[@]}" --stages 3 --batch 7 --micro 4 --steps 3
right "${tiny[@]}" --stages 3 --batch 11 --micro 3 --steps 3 --schedule zb-h1
refused 1 'cannot be cut into 4 micro-batches' check "${tiny[@]}" --stages 2 --batch 2 --micro 4

# Batches that wrap around the end of the data, more than once.
printf 'the quick brown fox jumps over the lazy dog %d\n' $(seq 20) >text.txt
right "${tiny[@]}" --data text.txt --stages 3 --batch 29 --micro 4 --steps 12

# More stages than places to cut.
refused 1 'it has only [0-9]* places to cut' check "${tiny[@]}" --stages 100
refused 1 'it has only [0-9]* places to cut' train "${tiny[@]}" --stages 100 --steps 1

# Stages without parameters: in the middle, at the end, at the start (no gradient goes there).
cat >bare.model <<'M'
model bare
input x : float[B, 4]
input label : int[B] < 4
param w[4, 4] ~ normal(0.3)
loss cross_entropy(relu(softmax(gelu(relu(matmul(relu(gelu(x)), w, tb = 1))))), label)
M
for schedule in gpipe 1f1b zb-h1 zb-graph; do
    right bare.model --stages 7 --batch 4 --micro 4 --steps 3 --schedule $schedule
done
right bare.model --stages 3 --replicas 2 --batch 4 --micro 4 --steps 3
for schedule in 2bw stash vsync async paci; do
    timeout "$patience" "$SLUICE" train bare.model --stages 7 --batch 4 --micro 4 --steps 3 --clip 0 \
        --schedule $schedule --quiet >out 2>err || fail "no parameters, $schedule: $(cat out err)"
    count=$((count + 1))
done

# Two losses, on different stages.
cat >two.model <<'M'
model two
input x : float[B, 8]
input label : int[B] < 4
fn linear(x, n) {
    param w[n, dim(x, -1)] ~ normal(0.4)
    param b[n] ~ zeros
    return matmul(x, w, b, tb = 1)
}
a = relu(linear(x, 9) as l1)
b = relu(linear(a, 7) as l2)
loss cross_entropy(linear(a, 4) as early, label) weight 0.25
c = relu(linear(b, 6) as l3)
loss cross_entropy(linear(c, 4) as late, label) weight 0.75
M
for stages in 2 3 4; do
    right two.model --stages $stages --batch 10 --micro 5 --steps 5
    right two.model --stages $stages --batch 10 --micro 3 --steps 5 --schedule graph
done

# A graph of stages along the branches; several of them on a worker.
mmt=(mmt --set 'branches=4,T=4,L=2,C=8,H=2,F=8,classes=3')
right "${mmt[@]}" --cut branches --batch 8 --micro 4 --steps 3 --schedule graph
right "${mmt[@]}" --cut branches --workers 4 --batch 8 --micro 4 --steps 3 --schedule zb-graph
right "${mmt[@]}" --cut branches --stages 8 --workers 3 --batch 8 --micro 4 --steps 3
refused 1 'has 5 stages along its branches' check "${mmt[@]}" --cut branches --stages 3
refused 1 'no parallel branches' check mlp --cut branches
refused 2 'expected even or branches' check "${tiny[@]}" --cut sideways --stages 2

# Replicas, also of a stage with running statistics, and more of them than micro-batches; Chimera.
right "${tiny[@]}" --stages 2 --replicas 2 --batch 8 --micro 4 --steps 3
right "${tiny[@]}" --stages 2 --replicas 3 --batch 4 --micro 2 --steps 3 --schedule gpipe
right "${tiny[@]}" --stages 4 --batch 16 --micro 8 --steps 3 --schedule chimera
right resnet18 --set 'cifar=1,S=9,W=2,N1=1,N2=1,N3=1,N4=0,classes=3' --stages 3 --replicas 2 --batch 8 --micro 4 --steps 3
refused 1 'two replicas of every stage' check "${tiny[@]}" --stages 4 --schedule chimera --replicas 3
refused 1 'an even number of stages, not 3' check "${tiny[@]}" --stages 3 --schedule chimera
refused 1 'two stages per worker, not 1 stages on 1' check "${tiny[@]}" --stages 1 --schedule zb-v
refused 1 'needs a worker for every stage' check "${tiny[@]}" --stages 4 --workers 2 --replicas 2

# 64 worker threads on any number of cores.
deep=(gpt-nano --set 'L=32,C=8,H=2,T=4')
right "${deep[@]}" --stages 64 --batch 8 --micro 8 --steps 2
right "${deep[@]}" --stages 64 --batch 2 --micro 2 --steps 2 --schedule gpipe
for schedule in 2bw stash vsync async paci; do
    timeout "$patience" "$SLUICE" train "${deep[@]}" --stages 64 --batch 8 --micro 8 --steps 2 --clip 0 \
        --schedule $schedule --quiet >out 2>err || fail "64 stages, $schedule: $(cat out err)"
    count=$((count + 1))
done

# More workers than cores: --bind none lets them share, --bind cores prints a note.
core=$(taskset -cp $$ | sed 's/.*: //; s/[,-].*//')
crowd=(train "${tiny[@]}" --stages 2 --batch 4 --micro 2 --steps 1 --quiet)
taskset -c "$core" "$SLUICE" "${crowd[@]}" --bind none 2>err || fail "--bind none: $(cat err)"
rc=0
taskset -c "$core" "$SLUICE" "${crowd[@]}" --bind cores 2>err || rc=$?
[ $rc = 1 ] || fail "--bind cores: exit $rc: $(cat err)"
grep -q 'workers of 1 threads need 2 cores, and rank 0 may use' err || fail "--bind cores: $(cat err)"
refused 2 'expected auto, cores or none' train "${tiny[@]}" --stages 2 --steps 1 --bind sideways

# A measured timeline can be read, for both kinds of schedules; tracing does not change the run.
for schedule in zb-h1 2bw; do
    for trace in "" --trace; do
        # shellcheck disable=SC2086
        timeout "$patience" "$SLUICE" train "${tiny[@]}" --stages 3 --batch 8 --micro 4 --steps 20 \
            --clip 0 --schedule $schedule --out "run$trace-$schedule" $trace 2>err || fail "$(cat err)"
    done
    [ "$(grep -c '^worker [0-2]: bubble [0-9.]* %$' err)" = 3 ] || fail "no bubbles: $(cat err)"
    "$SLUICE" report "run--trace-$schedule/timeline.trace.json" -o picture.svg || fail "$schedule: trace"
    "$SLUICE" compare "run-$schedule" "run--trace-$schedule" >out || fail "$schedule: $(cat out)"
    count=$((count + 1))
done
refused 2 'needs a pipeline' train "${tiny[@]}" --trace --out none --steps 1

# RECOMPUTE is an action of the schedule: before the gradient arrives.
"$SLUICE" train "${tiny[@]}" --stages 2 --schedule gpipe --batch 8 --micro 4 --steps 2 --recompute --trace --out again 2>err || fail "$(cat err)"
spans=$(grep -c '"cat": "RECOMPUTE"' again/timeline.trace.json) || true
[ "$spans" = 16 ] || fail "$spans passes were computed again, not 2 stages x 4 micro-batches x 2 steps"
! grep '"cat": "RECOMPUTE"' again/timeline.trace.json | grep -q '"dur": 0[,.]0*,' || fail "a pass was computed again in no time"

# Evaluation in the pipeline: the log has the numbers of one worker.
for where in "" "--stages 3" "--stages 2 --replicas 2"; do
    # shellcheck disable=SC2086
    "$SLUICE" train "${tiny[@]}" $where --batch 8 --micro 4 --steps 4 --eval-every 2 --lr 0 --out "eval$where" --quiet
    sed -n 's/.*"eval_loss": \([^,}]*\).*/\1/p' "eval$where/log.jsonl" >"losses$where"
done
[ "$(wc -l <losses)" -ge 2 ] || fail "no evaluation in the log: $(cat eval/log.jsonl)"
cmp "losses" "losses--stages 3" || fail "evaluation in a pipeline differs"
cmp "losses" "losses--stages 2 --replicas 2" || fail "evaluation with replicas differs"
refused 1 'forward makes no steps' train "${tiny[@]}" --stages 2 --schedule forward --steps 2
right "${tiny[@]}" --stages 3 --slack 2 --batch 8 --micro 8 --steps 3
right "${tiny[@]}" --stages 3 --lend --threads 2 --batch 8 --micro 8 --steps 3

# Asynchronous schedules with replicas: clipping, skipping and tied weights work with both clip scopes.
trained() { # ARGUMENTS of train
    timeout "$patience" "$SLUICE" train "$@" >out 2>err || fail "train $*: $(cat err)"
    count=$((count + 1))
}
for schedule in 2bw stash vsync async paci; do
    for scope in global stage; do
        trained "${tiny[@]}" --stages 2 --replicas 2 --schedule $schedule --clip-scope $scope --batch 8 --micro 4 --steps 4
    done
    trained "${tiny[@]}" --stages 2 --replicas 2 --schedule $schedule --clip-scope global --loss-scale dynamic --batch 8 --micro 4 --steps 4
done
"$SLUICE" plan gpt-nano --machine laptop --batch 32 --schedule 2bw --planner 2bw -o p.plan >out 2>err || fail "plan: $(cat err)"
trained gpt-nano --plan p.plan --steps 2

# A bare name is the published rule: 2bw clips by the global norm, which adds no delay, other schedules
# stage by stage. With a global norm the run shows the delay that it adds.
scope() { # LINE ARGUMENTS of train
    trained "${tiny[@]}" --stages 4 --batch 8 --steps 2 "${@:2}"
    grep -qF -- "$1" err || fail "${*:2}: no line '$1': $(cat err)"
}
scope 'clip scope global: the global norm at most 1, all stages skip a step together'
scope 'clip scope global: the global norm at most 0.5, all stages skip a step together' --schedule 2bw --micro 8 --clip 0.5
scope "clip scope stage: each stage's norm at most 1, each stage skips its own steps" --schedule async --policy spectrain
scope 'clip scope stage: no clipping, each stage skips its own steps' --schedule stash --clip 0
scope 'delay in steps, by stage: 4 4 3 3, published: 3 2 1 0' --schedule async --policy spectrain --clip-scope global
! grep -q 'published' <("$SLUICE" train "${tiny[@]}" --stages 4 --batch 8 --micro 8 --steps 2 --schedule 2bw --clip-scope global 2>&1) ||
    fail "2bw has the published delay with a global norm"
# If both passes of a micro-batch read one version, recomputing changes no bit.
while read -r name schedule policy; do
    for recompute in "" --recompute; do
        # shellcheck disable=SC2086
        timeout "$patience" "$SLUICE" train "${tiny[@]}" --stages 3 --batch 8 --micro 4 --steps 6 --schedule "$schedule" \
            --policy "$policy" --quiet --out "$name$recompute" $recompute 2>err || fail "$name $recompute: $(cat err)"
    done
    "$SLUICE" compare "$name" "$name--recompute" >out || fail "$name: recomputing changed it: $(cat out)"
    count=$((count + 1))
done <<'MODES'
once-2bw 2bw none
once-predict 2bw 2bw-predict
once-stash stash none
once-vsync vsync none
MODES
refused 1 'no weights are stale' train "${tiny[@]}" --stages 2 --batch 4 --micro 2 --steps 1 --log-staleness --out fresh
right "${tiny[@]}" --stages 2 --schedule 2bw
refused 2 '--workers and --plan exclude each other' check "${tiny[@]}" --plan x.plan --workers 2
refused 2 'check needs a pipeline' check "${tiny[@]}"
for steps in 0 9223372036854775807; do
    refused 2 'at least one step, at most' check "${tiny[@]}" --stages 2 --steps $steps
done
refused 1 'forward makes no steps' check "${tiny[@]}" --stages 2 --schedule forward
"$SLUICE" check "${tiny[@]}" --stages 2 --steps 2 --json | grep -q '"same": true' || fail "--json"
echo "count: $count edges"
