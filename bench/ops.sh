#!/usr/bin/env bash
# Time of operators against PyTorch on one CPU thread (bench/ops.py). PYTHON: a Python with torch.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
python=${PYTHON:-python3}
"$python" -c 'import torch' 2>/dev/null || { echo "bench ops: $python has no torch; set PYTHON" >&2 && exit 2; }
exec "$python" "$here/bench/ops.py" "$here/build/release/bench/ops_rows" "$@"
