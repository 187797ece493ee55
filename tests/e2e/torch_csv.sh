#!/usr/bin/env bash
# PyTorch's parser accepts our CSVs in both dialects, in the same order, and torch's simulation of the messages
# does not hang. SL_PYTHON names a Python that has torch (default python3).
set -euo pipefail
python=${SL_PYTHON:-python3}
if ! "$python" -c 'import torch.distributed.pipelining' 2>/dev/null; then
    echo "SKIPPED: $python has no torch"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
make() { # NAME STAGES RANKS MICROS
    local stem=$work/$1_p$3_v$(($2 / $3))_m$4
    "$SLUICE" sched --chain "$2" --ranks "$3" --schedule "$1" --micro "$4" -o "$stem.csv" >/dev/null
    "$SLUICE" sched --chain "$2" --ranks "$3" --schedule "$1" --micro "$4" --comms \
        -o "${stem}_comms.csv" >/dev/null
}
for p in 2 4 8; do
    make gpipe $p $p 5
    make 1f1b $p $p $((2 * p + 1))
    make interleaved $((2 * p)) $p $((2 * p))
    make interleaved $((3 * p)) $p $((2 * p))
    make zb-h1 $p $p $((2 * p))
    make zb-h2 $p $p $((3 * p))
    make zb-v $((2 * p)) $p $((2 * p))
    make dualpipe-v $((2 * p)) $p $((2 * p + 1))
done
"$python" "$SRC_DIR/tests/e2e/torch_csv.py" "$work"
