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
ran=0
# Schedule, micro-batches, recomputation. 1f1b with fewer micro-batches than stages and zb-h1 come as CSV.
for case in "1f1b 8 all" "1f1b 2 none" "interleaved 8 none" "gpipe 8 none" "zb-v 8 none" "zb-h1 8 none" "dualpipe-v 16 none"; do
    read -r schedule micros recompute <<<"$case"
    # The sizes of torchtitan's debug model: six layers.
    "$SLUICE" plan llama --set V=2048,T=32,L=6,C=256,H=16,K=16,F=768 --machine '1x4:mem=8G,intra=5GB/s' --batch 16 --micro "$micros" \
        --schedule "$schedule" --recompute "$recompute" --whole-layers --straight -o "$dir/x.plan" >/dev/null || fail "plan $schedule"
    "$SLUICE" export "$dir/x.plan" --to torchtitan -o "$dir/titan.options" || fail "torchtitan, $schedule"
    "$SLUICE" export "$dir/x.plan" --to csv -o "$dir/x.csv" || fail "csv, $schedule"
    targets=torchtitan
    if [ "$schedule" != dualpipe-v ]; then
        "$SLUICE" export "$dir/x.plan" --to automodel -o "$dir/automodel.yaml" || fail "automodel, $schedule"
        targets="$targets automodel"
    fi
    if [[ $schedule != *-v ]]; then # Megatron has no V
        "$SLUICE" export "$dir/x.plan" --to megatron -o "$dir/megatron.options" 2>"$dir/note" || fail "megatron, $schedule"
        targets="$targets megatron"
    fi
    [ "$schedule" != gpipe ] || grep -q 'cannot request gpipe: it will run 1f1b' "$dir/note" || fail "no note: $(cat "$dir/note")"
    for target in $targets; do
        rc=0
        "$python" "$SRC_DIR/tests/e2e/export_peers.py" "$target" "$dir" >"$dir/out" 2>"$dir/err" || rc=$?
        [ $rc = 0 ] || [ $rc = 77 ] || { cat "$dir/out" "$dir/err" && fail "$target, $schedule"; }
        [ $rc = 77 ] || ran=$((ran + 1))
        grep '^count\|^SKIPPED' "$dir/out" || true
    done
done
[ $ran -gt 0 ] || exit 77
