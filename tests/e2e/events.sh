#!/usr/bin/env bash
# TensorBoard events: readable, with valid checksums and the numbers of log.jsonl.
set -euo pipefail
command -v python3 >/dev/null || exit 77
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$SLUICE" train lenet --batch 8 --steps 5 --eval-every 2 --eval-samples 8 --out "$work/run" --quiet
python3 "$SRC_DIR/tests/e2e/events.py" "$work/run"
# A resumed run writes a new file.
"$SLUICE" train lenet --batch 8 --steps 9 --eval-every 3 --eval-samples 8 --out "$work/run" --resume --quiet
python3 "$SRC_DIR/tests/e2e/events.py" "$work/run"
# Sabotage: the reader detects a flipped bit.
file=$(find "$work/run" -name "events.out.tfevents.*" | sort | head -n 1)
printf '\x7f' | dd of="$file" bs=1 seek=60 conv=notrunc 2>/dev/null
! python3 "$SRC_DIR/tests/e2e/events.py" "$work/run" 2>/dev/null || { echo "FAILED: damage goes unseen" && exit 1; }
