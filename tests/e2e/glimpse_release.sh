#!/usr/bin/env bash
# An asynchronous pipeline of several ranks shows provisional losses on rank 0 while it is full. They equal those of
# one process; losses of two ranks are added.
set -euo pipefail
# shellcheck source=tests/support/workplace.sh
. "$SRC_DIR/tests/support/workplace.sh"
cat >"$work/two.model" <<'MODEL'
model two
input x : float[B, 6]
input label : int[B] < 4
param s0_w[7, 6] ~ normal(0.4)
param s1_w[4, 7] ~ normal(0.4)
param s2_w[4, 7] ~ normal(0.4)
h = relu(matmul(x, s0_w, tb = 1))
loss cross_entropy(matmul(h, s1_w, tb = 1), label) weight 0.6
loss cross_entropy(matmul(h, s2_w, tb = 1), label) weight 0.4
MODEL
while read -r name ranks stages arguments; do
    # shellcheck disable=SC2206
    model=(${arguments/WORK/$work} --batch 6 --micro 3 --stages "$stages" --schedule 2bw)
    rm -rf "$work/one" && : >"$work/err"
    # Only provisional losses are visible: there is neither an evaluation nor a checkpoint.
    "$SLUICE" launch -n "$ranks" -- train "${model[@]}" --steps 400000 >"$work/out" 2>"$work/err" &
    pid=$!
    until grep -q 'step [0-9]*/400000  loss' "$work/err"; do
        kill -0 "$pid" 2>/dev/null || fail "$name: it ended"
        sleep 0.05
    done
    kill -KILL "$pid" # the launcher, and with it all ranks
    wait "$pid" 2>/dev/null || true
    pid=
    read -r step loss < <(sed -n 's|.*step \([0-9]*\)/400000  loss \([0-9.]*\) .*|\1 \2|p' "$work/err" | head -n 1)
    "$SLUICE" train "${model[@]}" --steps $((step + 40)) --out "$work/one" --quiet 2>"$work/err" || fail "$name in one process"
    want=$(sed -n "s/.*\"step\": $step, \"loss\": \([0-9.e-]*\), \"grad.*/\1/p" "$work/one/log.jsonl")
    awk -v a="$loss" -v b="$want" 'BEGIN { d = a - b; exit !(b != "" && d < 6e-5 && d > -6e-5) }' ||
        fail "$name: step $step has loss $loss, in one process $want"
    echo "count: $name: step $step seen from $ranks ranks"
done <<'CASES'
chain 3 3 gpt-nano --set V=37,T=13,P=17,L=2,C=18,H=3
two-losses 3 3 WORK/two.model
CASES
