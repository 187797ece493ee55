#!/usr/bin/env bash
# transformers loads exported runs of every architecture and computes the logits of `sluice predict`.
# SL_PYTHON names a Python with torch and transformers; skipped without them.
set -euo pipefail
python=${SL_PYTHON:-python3}
"$python" -c 'import torch, transformers, safetensors' 2>/dev/null ||
    { echo "SKIPPED: $python has no torch and transformers" && exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"$python" "$SRC_DIR/tests/e2e/hf_transformers.py" "$SLUICE" "$SRC_DIR/tests/fixtures/hf" "$dir"
