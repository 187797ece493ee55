#!/usr/bin/env bash
# Degrees of parallelism in `sim` and `plan`: collectives move the bytes of Megatron's formula, layers are
# divided evenly, ZeRO-1 divides the state, and what cannot be is refused.
set -euo pipefail
command -v python3 >/dev/null || { echo "SKIPPED: no python3" && exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
fail() {
    echo "parallel_sim: $*" >&2
    exit 1
}
machine='4x8:mem=80G,intra=300GB/s,inter=200GB/s,flops=312e12,latency=5000'
gpt=(gpt2 --set "C=256,H=16,L=8,T=64,P=64,V=1024")
llama=(llama --set "C=256,H=16,K=8,F=704,L=8,V=1024,T=64")
sim() { "$SLUICE" sim "$@" --machine "$machine" --json --quiet; }
refused() { # MESSAGE ARGUMENTS
    local message=$1
    shift
    if sim "$@" 2>why >/dev/null; then fail "accepted: $*"; fi
    grep -q -- "$message" why || fail "'$message' is not in: $(cat why)"
}

# Per layer and pass two all-reduces of [b,s,h]; the embedding one forward, the head one backward (Narayanan
# et al. 2021, section 3.2). A ring sends 2 (t-1)/t of the bytes.
formula() { # MODEL AND SIZES...
    local t layout
    for t in 2 4 8; do
        for layout in "--pp 1" "--pp 2 --dp 2" "--pp 4 --schedule gpipe --dp 1" "--pp 2 --schedule interleaved --chunks 2 --dp 2"; do
            # shellcheck disable=SC2086
            sim "$@" --tp $t --batch 16 --micro-batch 2 --dtype fp16 $layout >x.json
            python3 - "$t" <<'PY' || fail "$1, t = $t, $layout"
import json, sys
t = int(sys.argv[1])
x = json.load(open("x.json"))
layers, b, s, h, element = 8, 2, 64, 256, 2
one = 2 * (t - 1) * b * s * h * element // t
for key in "f_collectives", "b_collectives":
    sent = sum(stage[key]["sent_bytes"] for stage in x["stages"])
    want = (2 * layers + 1) * one
    assert want <= sent <= want + 64, (key, sent, want)  # and the loss, one number
assert x["devices"] == x["tp"] * x["dp"] * x["pp"] and x["step_s"] > 0
PY
        done
    done
}
formula "${gpt[@]}"
formula "${llama[@]}"

# replicas divide the state; parameters and gradients stay
for d in 1 2 4; do sim "${gpt[@]}" --dp $d --pp 2 --batch 16 --micro-batch 2 --zero1 >zero$d.json; done
sim "${gpt[@]}" --tp 2 --dp 4 --pp 2 --batch 16 --micro-batch 2 --recompute none --dtype fp16 >shared.json
sim "${gpt[@]}" --tp 1 --dp 4 --pp 2 --batch 16 --micro-batch 2 --recompute none --dtype fp16 >whole.json
python3 - <<'PY' || fail "bytes"
import json
def read(name): return json.load(open(name))
one = read("zero1.json")["stages"]
for d in 2, 4:
    for a, b in zip(read(f"zero{d}.json")["stages"], one):
        assert a["state_bytes"] == -(-b["state_bytes"] // d), d
        assert a["params_bytes"] == b["params_bytes"] and a["grads_bytes"] == b["grads_bytes"]
        assert a["reduce_ns"] > b["reduce_ns"]
for a, b in zip(read("shared.json")["stages"], read("whole.json")["stages"]):
    assert b["params_bytes"] / 2 <= a["params_bytes"] < 0.6 * b["params_bytes"]
PY

# A search with the same degrees is at least as fast, and its plan says what runs.
"$SLUICE" plan "${gpt[@]}" --machine "$machine" --tp 2 --dp 2 --pp 4 --batch 16 --schedule 1f1b --micro-batch 2 --json --quiet -o x.plan >plan.json
sim "${gpt[@]}" --tp 2 --dp 2 --pp 4 --batch 16 --schedule 1f1b --micro-batch 2 >sim.json
python3 - <<'PY' || fail "the search is slower than the even cut"
import json
assert json.load(open("plan.json"))["step_ns"] <= json.load(open("sim.json"))["step_ns"]
PY
[ "$(grep -c '^stage s. width 2 .* shards 2 ' x.plan)" = 4 ] || fail "x.plan: $(grep ^stage x.plan)"
"$SLUICE" verify x.plan >/dev/null || fail "x.plan does not verify"

# The search of all degrees is no worse than any of them; without --tp a model that fits on a device is not divided.
for t in auto 1 2 4 8; do
    "$SLUICE" plan "${gpt[@]}" --machine 1x8:mem=24M,intra=300GB/s,flops=10e12 --batch 16 --tp $t --zero1 --json --quiet >"tp-$t.json" || echo '{"step_ns": 1e30}' >"tp-$t.json"
done
"$SLUICE" plan "${gpt[@]}" --machine 1x8:mem=80G,intra=300GB/s,flops=10e12 --batch 16 --json --quiet >alone.json
"$SLUICE" plan "${gpt[@]}" --machine "$machine" --batch 16 --planner tp --json --quiet >host.json
python3 - <<'PY' || fail "searched degrees"
import json
def read(t): return json.load(open(f"{t}.json"))
best = read("tp-auto")
assert all(best["step_ns"] <= read(f"tp-{t}")["step_ns"] for t in (1, 2, 4, 8)), best["tp"]
assert read("alone")["tp"] == 1 and read("host")["tp"] == 8
PY

# Will it fit? All causes add up, the exit status answers, and a change that fits does.
rc=0
"$SLUICE" plan "${gpt[@]}" --machine "$machine" --batch 16 --fits --json --quiet >yes.json
"$SLUICE" plan "${gpt[@]}" --machine "$machine" --memory 48MiB --batch 16 --tp 1 --pp 1 --dp 1 --fits --json --quiet >no.json || rc=$?
[ $rc = 1 ] || fail "--fits: exit $rc"
python3 - <<'PY' || fail "--fits"
import json
yes, no = json.load(open("yes.json")), json.load(open("no.json"))
for x in yes, no:
    assert sum(v for k, v in x["bytes"].items() if k != "all") == x["bytes"]["all"]
    assert x["fits"] == (x["over_bytes"] <= 0) == (x["bytes"]["all"] <= x["memory_bytes"])
    for c in x["changes"]:
        assert c["fits"] == (c["peak_bytes"] <= x["memory_bytes"])
assert yes["fits"] and yes["tp"] == yes["pp"] == 1 and not no["fits"] and len(no["changes"]) >= 3
PY

# options of schedules are obeyed or refused, not ignored
for option in "--iters 3" "--policy spectrain" "--slack 1" "--costs F=1" "--links latency=5us" "--cold F=1us" "--send blocking" \
    --global-step --together "--ranks 2" "--last-batch 3" "--chain 2" "--dag a>b"; do
    # shellcheck disable=SC2086 # words
    refused "${option%% *} is for X.plan" "${gpt[@]}" --pp 2 $option
done
refused 'schedule 1f1b has no groups' "${gpt[@]}" --pp 2 --schedule 1f1b --group 2
for k in 1 2; do sim "${gpt[@]}" --pp 4 --dp 1 --batch 16 --micro-batch 2 --schedule kfkb --group $k >group$k.json; done
! cmp -s group1.json group2.json || fail "--group 2 changes nothing"

refused 'can be divided into 3' "${gpt[@]}" --tp 3
refused '64 devices, and machine given has 32' "${gpt[@]}" --tp 4 --dp 2 --pp 8
refused 'needs whole, equal hosts' "${gpt[@]}" --tp 12
refused '32 replicas of 16 micro' "${gpt[@]}" --dp 32 --batch 16
refused 'no multiple of the micro-batch' "${gpt[@]}" --batch 16 --micro-batch 3
refused 'one of --micro and --micro-batch' "${gpt[@]}" --micro 2 --micro-batch 3
# Crossing pipelines need an even number of stages: one alone would have both replicas on one device.
refused 'chimera needs an even number of stages, not 1' "${gpt[@]}" --schedule chimera --dp 4
"$SLUICE" plan gpt-nano --machine 1x4:mem=1G,intra=5GB/s --batch 24 --schedule chimera --fits >/dev/null || fail "--fits of chimera"
# --no-zero1: nothing divides the optimizer state.
if "$SLUICE" sim gpt-nano --machine 1x2:mem=1G --zero1 --no-zero1 2>why; then fail "--zero1 --no-zero1"; fi
grep -q "one of --zero1 and --no-zero1" why || fail "$(cat why)"
fits=(gpt-nano --machine "1x2:mem=1G,intra=5GB/s" --batch 4 --dp 2 --fits)
"$SLUICE" plan "${fits[@]}" >out || fail "--fits"
grep -q -e --zero1 out || fail "no change to --zero1: $(cat out)"
"$SLUICE" plan "${fits[@]}" --no-zero1 >out || fail "--fits --no-zero1"
! grep -q -e --zero1 out || fail "--no-zero1 tries --zero1: $(cat out)"
