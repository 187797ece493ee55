#!/usr/bin/env bash
# ./dev bench onnx_models [REGEX]: models that torch exports (bench/onnx_zoo.py) against PyTorch: loss,
# gradients, ten steps, three stages. Needs a Python with torch, torchvision, timm, transformers, onnx,
# onnxscript and safetensors ($SL_PYTHON, else python3). Exported files stay in build/onnx-models.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${SL_PYTHON:-python3}
[ -x build/release/sluice ] || { echo "onnx_models: ./dev build first" >&2 && exit 2; }
"$python" -c 'import onnx, onnxscript, safetensors, timm, torchvision, transformers' 2>/dev/null ||
    { echo "onnx_models: $python lacks packages; set SL_PYTHON" >&2 && exit 2; }
exec "$python" -W ignore bench/onnx_models.py build/release/sluice build/onnx-models "${1:-.}"
