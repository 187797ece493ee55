#!/usr/bin/env bash
# Kills asynchronous training with SIGKILL and resumes it, in every mode, on a chain and on a graph of stages,
# with tied weights and with clipping. The last checkpoint equals that of an undisturbed run bit for bit,
# including the state of the policy.
set -euo pipefail
kills=1
[ "${SL_TEST_FULL:-0}" = 1 ] && kills=10
# shellcheck source=tests/support/workplace.sh
. "$SRC_DIR/tests/support/workplace.sh"
chain=(gpt-nano --set "V=37,T=13,P=17,L=2,C=18,H=3,drop=0.1" --stages 3)
graph=("$work/forks.model" --cut branches) # two branches that share a parameter
cat >"$work/forks.model" <<'END'
model forks
input x : float[B, 40]
input label : int[B] < 4
param first[24, 40] ~ normal(0.2)
param shared[24, 24] ~ normal(0.2)
param left[24, 24] ~ normal(0.2)
param right[24, 24] ~ normal(0.2)
param last[4, 48] ~ normal(0.2)
a = relu(matmul(x, first, tb = 1))
b = relu(matmul(relu(matmul(a, shared, tb = 1)), left, tb = 1))
c = relu(matmul(dropout(relu(matmul(a, right, tb = 1)), 0.2), shared, tb = 1))
loss cross_entropy(matmul(concat([b, c], axis = 1), last, tb = 1), label)
END
common=(--batch 6 --micro 3 --steps 24 --checkpoint-every 3 --clip 0.5 --quiet)
count=0 hits=0
while read -r shape schedule policy optimizer; do
    model=("${chain[@]}")
    [ "$shape" = chain ] || model=("${graph[@]}")
    options=("${model[@]}" "${common[@]}" --schedule "$schedule" --policy "$policy" --optimizer "$optimizer")
    rm -rf "$work/whole" "$work/killed"
    "$SLUICE" train "${options[@]}" --out "$work/whole" 2>"$work/err" || fail "$shape $schedule $policy"
    grep -q "^tie " "$work/whole/plan.plan" || fail "$shape: nothing is tied"
    [ "$shape" = chain ] || grep -q "^edge s0 s2" "$work/whole/plan.plan" || fail "the graph is a chain"
    go=("${options[@]}")
    for ((i = 0; i < kills; i++)); do
        "$SLUICE" train "${go[@]}" --out "$work/killed" --resume 2>"$work/err" &
        pid=$!
        # until there is one more checkpoint, or the run has ended
        before=$(cat "$work/killed/ckpt/latest" 2>/dev/null || true)
        while kill -0 "$pid" 2>/dev/null && [ "$(cat "$work/killed/ckpt/latest" 2>/dev/null || true)" = "$before" ]; do
            :
        done
        kill -KILL "$pid" 2>/dev/null || true
        status=0
        wait "$pid" 2>/dev/null || status=$?
        [ $status != 137 ] || hits=$((hits + 1))
        pid=
        go=(--quiet) # the rest is that of the run
    done
    "$SLUICE" train "${go[@]}" --out "$work/killed" --resume 2>"$work/err" || fail "$shape $schedule $policy: resume"
    "$SLUICE" compare "$work/whole" "$work/killed" >"$work/out" || fail "$shape $schedule $policy: $(cat "$work/out")"
    dir=$(cut -d ' ' -f 1 "$work/whole/ckpt/latest")
    diff -r "$work/whole/ckpt/$dir" "$work/killed/ckpt/$dir" >/dev/null || fail "$shape $schedule $policy: other bytes"
    count=$((count + 1))
done <<'MODES'
chain 2bw none adamw
chain 2bw 2bw-predict nadam
chain 2bw error-feedback adamw
chain stash none adamw
chain stash nesterov-async nadam
chain vsync lr-rescale momentum
chain paci none adamw
chain async spectrain adamw
chain async spectrain muon
chain async xpipe momentum
chain async pipemare adamw
chain async pipeoptim nadam
graph 2bw none adamw
graph 2bw 2bw-predict muon
graph stash none adamw
graph vsync none momentum
graph paci none adamw
graph async spectrain muon
MODES
# A checkpoint without the policy's state cannot be resumed with the policy, and vice versa.
refused() { # MESSAGE ARGUMENTS...
    local code=0
    "$SLUICE" train "${chain[@]}" --batch 6 --micro 3 --steps 2 --schedule async --optimizer muon --quiet --out "$work/kept" \
        --resume --allow-change "${@:2}" 2>"$work/err" || code=$?
    [ "$code" = 3 ] || fail "${*:2}: status $code"
    grep -q -- "$1" "$work/err" || fail "${*:2}: no '$1'"
}
"$SLUICE" train "${chain[@]}" --batch 6 --micro 3 --steps 1 --optimizer muon --quiet --out "$work/kept" 2>"$work/err"
refused "which policy 'spectrain' keeps from step to step" --policy spectrain
rm -r "$work/kept"
"$SLUICE" train "${chain[@]}" --batch 6 --micro 3 --steps 1 --schedule async --policy spectrain --optimizer muon --quiet \
    --out "$work/kept" 2>"$work/err"
refused "resume with the --optimizer and --policy of the run" --policy none
echo "count: $count modes, killed $hits times on their way and resumed, bit for bit"
