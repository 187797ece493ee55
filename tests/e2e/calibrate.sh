#!/usr/bin/env bash
# `sluice calibrate` finds the constants of a machine from steps that `sluice sim` made with it, `--check`
# and `sim` agree on every row, and the constants in docs/calibrate.md predict vTrain's tables (shared
# data, if there) with the errors stated there.
set -euo pipefail

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail() {
    echo "calibrate: $*" >&2
    exit 1
}
cat >"$dir/true.machine" <<'EOF'
sluice-machine 1
machine true "constants to find"
kind gpu memory 40000000000 stream 1e12 fp32 1e13 fp16 2e14 efficiency 0.6 overhead 0 half 3e9 score 12 launch 30000 meet 9000 message 200000
link wire bandwidth 1e11 latency 5000 sharing port sum 1e11 latency 30000
link net bandwidth 2e10 latency 9000 sharing port sum 1e10 latency 70000
host box count 2 inside wire devices gpu 4
level all hosts 2 over net
EOF
sed 's/stream 1e12/stream 1.2e12/; s/efficiency.*/efficiency 0.5 overhead 5000/; s/sum 1e10 latency 70000//' "$dir/true.machine" >"$dir/start.machine"
echo '# GPUs,global batch,micro batch,hidden size,attention heads,# layers,sequence length,tensor parallelism,data parallelism,pipeline parallelism,iteration time (ms)' >"$dir/steps.csv"
step() { # GPUs batch micro C H L T tp dp pp
    "$SLUICE" sim gpt2 --set "C=$4,H=$5,L=$6,T=$7,P=$7,V=51200" --machine "$dir/true.machine" --dtype fp16 --tp "$8" --dp "$9" --pp "${10}" \
        --micro-batch "$3" --batch "$2" --schedule 1f1b --json | sed -n 's/^ *"step_s": \([0-9.]*\),/\1/p'
}
for row in '4 8 1 512 8 4 256 1 4 1' '4 8 4 512 8 4 512 2 1 2' '4 16 4 1024 16 4 512 1 2 2' '4 32 8 1024 8 4 1024 1 4 1' \
    '2 8 2 256 4 4 128 2 1 1' '4 8 2 1024 16 4 256 4 1 1' '2 8 8 2048 16 4 512 1 1 2' '4 4 1 256 4 4 256 1 1 4' '1 8 8 512 16 4 1024 1 1 1' \
    '8 16 2 512 8 4 256 1 8 1' '8 8 2 1024 16 4 256 2 4 1' '8 32 4 256 4 4 256 1 4 2' '8 32 4 2048 4 4 256 4 2 1'; do
    read -r -a v <<<"$row"
    seconds=$(step "${v[@]}")
    echo "${row// /,},$(python3 -c "print(1e3 * $seconds)")" >>"$dir/steps.csv"
done
"$SLUICE" calibrate --measured "$dir/steps.csv" --machine "$dir/true.machine" --recompute auto --check --json >"$dir/check.json" || fail "check"
python3 - "$dir/check.json" <<'EOF'
import json, sys
d = json.load(open(sys.argv[1]))
worst = max(d["device"]["checked"]["worst"], d["network"]["checked"]["worst"])
if d["device"]["checked"]["rows"] != 9 or d["network"]["checked"]["rows"] != 4 or worst > 1e-6:
    sys.exit("calibrate: --check differs from sim: %s" % d)
EOF
"$SLUICE" calibrate --measured "$dir/steps.csv" --machine "$dir/start.machine" --recompute auto --folds 2 -o "$dir/found.machine" --json >"$dir/fit.json" || fail "fit"
python3 - "$dir/fit.json" <<'EOF'
import json, sys
d = json.load(open(sys.argv[1]))
if d["device"]["fitted"]["worst"] > 0.03 or d["network"]["fitted"]["worst"] > 0.03 or "held_out" not in d["device"]:
    sys.exit("calibrate: the fit misses its own machine: %s" % d)
EOF
"$SLUICE" machine check "$dir/found.machine" >/dev/null || fail "found.machine"
printf 'size(B),time(ns)\n1000000,40000\n100000000,1530000\n' >"$dir/sums-4.txt" # 25 us + 1.5 x bytes / 1e11
"$SLUICE" calibrate --measured "$dir/steps.csv" --all-reduce "$dir/sums-4.txt" --machine "$dir/true.machine" --folds 2 >"$dir/out" 2>&1 || fail "$(cat "$dir/out")"
grep -q 'link wire .* sum .* latency 2[45]' "$dir/out" || fail "$(grep wire "$dir/out")"
rc=0
"$SLUICE" calibrate --measured "$dir/steps.csv" --machine summit-none 2>/dev/null || rc=$?
[ $rc = 2 ] || fail "an unknown machine: exit $rc"

data=$SRC_DIR/../shared/data/measured/vtrain
[ -d "$data" ] || { echo "count: 0 tables of vTrain: they are not here" && exit 0; }
kind='kind a100-80 memory 85899345920 stream 2.039e12 fp32 1.95e13 fp16 3.12e14 efficiency 0.921876 overhead 0 half 4.53445e10 score 37.1753 launch 66004 meet 64514 message 1002509'
cat >"$dir/a100.machine" <<EOF
sluice-machine 1
machine a100 "fitted to vTrain's tables"
$kind
link nvswitch bandwidth 3e11 latency 5000 sharing port sum 2.13848e11 latency 58104
link infiniband bandwidth 2e11 latency 12000 sharing port sum 1.36401e11 latency 84438
host dgx count 128 inside nvswitch devices a100-80 8
level cluster hosts 128 over infiniband
EOF
"$SLUICE" calibrate --measured "$data/a100-one-node.csv" --measured "$data/a100-many-nodes.csv" --machine "$dir/a100.machine" --check --json >"$dir/vtrain.json" || fail "vTrain"
python3 - "$dir/vtrain.json" <<'EOF'
import json, sys
d = json.load(open(sys.argv[1]))
one, many = d["device"]["checked"]["mean"], d["network"]["checked"]["mean"]
print("vTrain: one host %.3f, several %.3f" % (one, many))
if one > 0.08 or many > 0.147:
    sys.exit("calibrate: larger errors than docs/calibrate.md says")
EOF
