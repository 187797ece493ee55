#!/usr/bin/env bash
# Exports read by the systems they are for: torchtitan's command line and splitter, Megatron-core's
# layout, Automodel's splitter. SL_PYTHON names a Python that has the packages (default python3); SL_MEGATRON a
# checkout of Megatron-LM, whose options are then looked up. Skipped where all packages are absent.
set -euo pipefail

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail() {
    echo "export_peers: $*" >&2
    exit 1
}
python=${SL_PYTHON:-python3}
command -v "$python" >/dev/null || { echo "SKIPPED: no $python" && exit 77; }
export SLUICE_MODELS="$SRC_DIR/models" PYTHONWARNINGS=ignore
# Schedule, micro-batches, recomputation. 1f1b with fewer micro-batches than stages and zb-h1 come as CSV.
number=0
torchtitan=() automodel=() megatron=()
for case in "1f1b 8 all" "1f1b 2 none" "interleaved 8 none" "gpipe 8 none" "zb-v 8 none" "zb-h1 8 none" "dualpipe-v 16 none"; do
    read -r schedule micros recompute <<<"$case"
    x=$dir/$((number += 1))
    mkdir "$x"
    # The sizes of torchtitan's debug model: six layers.
    "$SLUICE" plan llama --set V=2048,T=32,L=6,C=256,H=16,K=16,F=768 --machine '1x4:mem=8G,intra=5GB/s' --batch 16 --micro "$micros" \
        --schedule "$schedule" --recompute "$recompute" --whole-layers --straight -o "$x/x.plan" >/dev/null || fail "plan $schedule"
    "$SLUICE" export "$x/x.plan" --to csv -o "$x/x.csv" || fail "csv, $schedule"
    "$SLUICE" export "$x/x.plan" --to torchtitan -o "$x/titan.options" || fail "torchtitan, $schedule"
    torchtitan+=("$x")
    if [ "$schedule" != dualpipe-v ]; then
        "$SLUICE" export "$x/x.plan" --to automodel -o "$x/automodel.yaml" || fail "automodel, $schedule"
        automodel+=("$x")
    fi
    if [[ $schedule != *-v ]]; then # Megatron has no V
        "$SLUICE" export "$x/x.plan" --to megatron -o "$x/megatron.options" 2>"$x/note" || fail "megatron, $schedule"
        megatron+=("$x")
    fi
    [ "$schedule" != gpipe ] || grep -q 'cannot request gpipe: it will run 1f1b' "$x/note" || fail "no note: $(cat "$x/note")"
done
# Megatron's terms for 70 and 405 billion parameters: one number of replicas, shards and one kind of recomputation.
cat >"$dir/h100.machine" <<'EOF'
sluice-machine 1
machine h100-x256 "256 hosts with eight H100"
kind h100 memory 85899345920 stream 3350e9 fp32 67e12 fp16 989e12 bf16 989e12 efficiency 0.55 overhead 4000
link nvswitch bandwidth 450e9 latency 5000 sharing port
link infiniband bandwidth 400e9 latency 12000 sharing port
host dgx count 256 inside nvswitch devices h100 8
level cluster hosts 256 over infiniband
EOF
for case in "64 256 L=80,C=8192,H=64,K=8,F=28672" "2048 2048 L=126,C=16384,H=128,K=8,F=53248"; do
    read -r devices batch sizes <<<"$case"
    x=$dir/$((number += 1))
    mkdir "$x"
    "$SLUICE" plan llama --set "V=128256,T=8192,$sizes" --machine "$dir/h100.machine" --devices "$devices" --dtype bf16 --batch "$batch" \
        --schedule interleaved --uniform --whole-layers --time-limit 10 -o "$x/x.plan" >/dev/null || fail "plan of $devices devices"
    "$SLUICE" export "$x/x.plan" --to megatron -o "$x/megatron.options" || fail "megatron, $devices devices"
    grep -q -- '--tensor-model-parallel-size' "$x/megatron.options" || fail "$devices devices: $(cat "$x/megatron.options")"
    megatron+=("$x")
done
ran=0
for target in torchtitan automodel megatron; do
    declare -n folders=$target
    rc=0
    "$python" "$SRC_DIR/tests/e2e/export_peers.py" "$target" "${folders[@]}" >"$dir/out" 2>"$dir/err" || rc=$?
    [ $rc = 0 ] || [ $rc = 77 ] || { cat "$dir/out" "$dir/err" && fail "$target"; }
    [ $rc = 77 ] || ran=$((ran + 1))
    grep '^count\|^SKIPPED' "$dir/out" || true
done
[ $ran -gt 0 ] || exit 77
