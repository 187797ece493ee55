#!/usr/bin/env bash
# The Python package with the build's library: train on arrays, buffers, data sets and streams; the bits of
# the command line and of the C example; errors, callbacks, threads, copies. NumPy and torch if they are there.
set -euo pipefail
[ -f "$BUILD_DIR/libsluice.so" ] || { echo "SKIPPED: no libsluice.so" && exit 77; }
python=${SL_PYTHON:-$(command -v python3)} || { echo "SKIPPED: no python3" && exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export SLUICE_LIBRARY=$BUILD_DIR/libsluice.so PYTHONPATH=$SRC_DIR/python PYTHONDONTWRITEBYTECODE=1
cd "$work"

# Syntax of Python 3.9.
"$python" - "$SRC_DIR"/python/*.py "$SRC_DIR"/python/sluice/*.py "$SRC_DIR"/examples/*.py <<'PY'
import ast, sys
for name in sys.argv[1:]:
    ast.parse(open(name).read(), name, feature_version=(3, 9))
PY
"$python" "$SRC_DIR/tests/e2e/python_train.py" -q -b 2>&1 || exit 1

# Every example of the page, in order, in one program.
awk '/^```python$/ { on = 1; next } /^```$/ { on = 0 } on' "$SRC_DIR/docs/python.md" >page.py
"$python" page.py >page.out || { cat page.out && echo "FAILED: docs/python.md" && exit 1; }

# The same run from C, from Python and from the command line: the same bytes of weights.
"$BUILD_DIR/examples/train_callback" >c.out
"$python" "$SRC_DIR/examples/train_tensors.py" py-run >py.out
"$python" - <<'PY'
import struct, sluice
rows = [[((n * 37 + i * 11) % 23 - 11) / 11 for i in range(4)] for n in range(256)]
with open("wave.f32", "wb") as out:
    for row in rows:  # products of floats, as in C
        f = [struct.unpack("f", struct.pack("f", v))[0] for v in row]
        out.write(struct.pack("5f", *f, row[0] * row[1] - row[2]))
PY
"$SLUICE" train py-run/model.model --data f32:wave.f32 --stages 3 --schedule 2bw --batch 16 --micro 4 --lr 0.01 \
    --steps 60 --out cli-run --quiet
"$SLUICE" compare py-run cli-run --quiet || { echo "FAILED: Python against the command line" && exit 1; }
grep -q '^step 60' c.out && grep -q '^step 60' py.out
loss() { sed -n 's/.*validation loss \([0-9.]*\).*/\1/p' "$1" | tail -n 1; }
[ "$(loss c.out)" = "$(loss py.out)" ] || { cat c.out py.out && echo "FAILED: C against Python" && exit 1; }
