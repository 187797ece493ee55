#!/usr/bin/env bash
# The Python package gguf reads exported files: hyperparameters, tokenizer and values. SL_PYTHON names a
# Python with gguf and safetensors; skipped without them.
set -euo pipefail
python=${SL_PYTHON:-python3}
"$python" -c 'import gguf, numpy, safetensors.torch' 2>/dev/null ||
    { echo "SKIPPED: $python has no gguf and safetensors" && exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"$python" "$SRC_DIR/tests/e2e/gguf_read.py" "$SLUICE" "$SRC_DIR/tests/fixtures/hf" "$dir"
