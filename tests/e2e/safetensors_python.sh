#!/usr/bin/env bash
# Python's safetensors loads our files with the right values. Skipped without the package.
set -euo pipefail
python=
for candidate in "${SL_PYTHON:-}" python3; do
    if [ -n "$candidate" ] && "$candidate" -c 'import safetensors.numpy, numpy' 2>/dev/null; then
        python=$candidate
        break
    fi
done
[ -n "$python" ] || { echo "no Python with safetensors and numpy here" && exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
golden=$SRC_DIR/tests/golden/ckpt
"$SLUICE" ckpt convert "$golden/run-c" --state -o "$work/all.safetensors"
"$python" - "$work/all.safetensors" "$golden" <<'PY'
import glob, sys
import numpy, safetensors, safetensors.numpy
shapes = {"emb": (5, 3), "fc.b": (7,), "fc.w": (3, 7), "fc.w:exp_avg": (3, 7)}
def check(tensors, names, step):
    assert sorted(tensors) == sorted(names), sorted(tensors)
    for i, (name, shape) in enumerate(shapes.items()):
        if name in names:
            count = numpy.prod(shape)
            expect = (numpy.arange(1, count + 1) * (i + 1)).astype("f") / numpy.float32(step + 3)
            assert tensors[name].dtype == numpy.float32 and tensors[name].shape == shape
            assert (tensors[name] == expect.reshape(shape)).all(), name
check(safetensors.numpy.load_file(sys.argv[1]), shapes, 2)
with safetensors.safe_open(sys.argv[1], "np") as f:
    assert f.metadata()["sluice_step"] == "2"
weights = [n for n in shapes if ":" not in n]
for run in ("run-a", "run-c"):  # the shards themselves
    tensors = {}
    for file in glob.glob(f"{sys.argv[2]}/{run}/ckpt/step-00000002/weights-*.safetensors"):
        tensors.update(safetensors.numpy.load_file(file))
    check(tensors, weights, 2)
print("count: 3 files and sets of shards loaded by Python's safetensors", safetensors.__version__)
PY
