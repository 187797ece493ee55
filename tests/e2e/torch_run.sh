#!/usr/bin/env bash
# torch's schedule runtime runs our CSVs in both dialects on gloo, a process per rank: the losses of every step are
# those of one process. SL_PYTHON names a Python that has torch (default python3).
set -euo pipefail
python=${SL_PYTHON:-python3}
if ! "$python" -c 'import torch.distributed.pipelining' 2>/dev/null; then
    echo "SKIPPED: $python has no torch"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
make() { # NAME STAGES RANKS MICROS [FILE]
    local stem=$work/$1_p$3_v$(($2 / $3))_m$4 from=(--chain "$2" --ranks "$3" --schedule "$1" --micro "$4")
    [ -z "${5:-}" ] || from=(--schedule "$5")
    "$SLUICE" sched "${from[@]}" -o "$stem.csv" >/dev/null
    "$SLUICE" sched "${from[@]}" --comms -o "${stem}_comms.csv" >/dev/null
}
ranks=(2)
[ "${SL_TEST_FULL:-0}" != 1 ] || ranks=(2 4)
for p in "${ranks[@]}"; do
    make gpipe "$p" "$p" 3
    make 1f1b "$p" "$p" $((2 * p + 1))
    make interleaved $((2 * p)) "$p" $((2 * p))
    make zb-h1 "$p" "$p" $((2 * p))
    make zb-h2 "$p" "$p" $((3 * p))
    make zb-v $((2 * p)) "$p" $((2 * p))
    make dualpipe-v $((2 * p)) "$p" $((2 * p + 1))
done
# A file of our own, whose order of sums is restored, and one by torch.
mkdir "$work/own"
printf '0F0,0F1,0F2,0F3,0B3,0B2,0B1,0B0\n1F0,1F1,1F2,1F3,1I3,1B2,1B1,1W3,1B0\n' >"$work/own/lifo.csv"
make lifo 2 2 4 "$work/own/lifo.csv"
make looped-bfs 4 2 3 "$SRC_DIR/tests/fixtures/torch_csv/looped-bfs_p2_v2_m3.csv"
timeout 1200 "$python" "$SRC_DIR/tests/e2e/torch_run.py" "$work"
