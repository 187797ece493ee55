#!/usr/bin/env bash
# The wheel in a fresh venv without a compiler and without a network: import, train gpt-nano, models inside.
# The same build gives the same bytes. 'pip install .' builds the same wheel.
set -euo pipefail
fail() { echo "FAILED: $*" && exit 1; }
[ -f "$BUILD_DIR/libsluice.so" ] || { echo "SKIPPED: no libsluice.so" && exit 77; }
python=$(command -v python3) || { echo "SKIPPED: no python3" && exit 77; }
"$python" -c 'import venv, ensurepip' 2>/dev/null || { echo "SKIPPED: no venv (Debian package python3-venv)" && exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export SLUICE_BUILD=$BUILD_DIR PYTHONDONTWRITEBYTECODE=1
wheel=$("$python" "$SRC_DIR/python/backend.py" "$work/one")
again=$("$python" "$SRC_DIR/python/backend.py" "$work/two")
cmp "$wheel" "$again" || fail "the same build gives another wheel"

"$python" -m venv "$work/venv"
mkdir "$work/empty"
bare() { env -i PATH="$work/empty" HOME="$work" PYTHONDONTWRITEBYTECODE=1 "$@"; }
bare "$work/venv/bin/python" -m pip install -q --no-index --disable-pip-version-check "$wheel" || fail "pip install WHEEL"
cd "$work/empty"
bare "$work/venv/bin/python" - <<'PY' || fail "gpt-nano from the wheel"
import sluice, sys
assert sluice.__file__.startswith(sys.prefix) and sluice.models().startswith(sys.prefix)
losses = sluice.train("gpt-nano", steps=3, batch=4, stages=2).losses
assert len(losses) == 3 and all(2 < loss < 10 for loss in losses), losses
maps = open("/proc/self/maps").read()
for name in ("libsluice.so", "libhwloc.so", "libxxhash.so"):
    for line in maps.splitlines():
        assert name not in line or sys.prefix in line, line  # nothing of the system but libc
PY
bare "$work/venv/bin/python" -m pip uninstall -q -y sluice
bare "$work/venv/bin/python" -m pip install -q --no-index --disable-pip-version-check --no-build-isolation "$wheel" ||
    fail "a second time"
# pip with the source tree calls the same backend.
env SLUICE_BUILD="$BUILD_DIR" "$work/venv/bin/python" -m pip wheel -q --no-index --no-deps --disable-pip-version-check \
    -w "$work/pip" "$SRC_DIR" || fail "pip wheel ."
cmp "$wheel" "$work"/pip/*.whl || fail "pip builds another wheel"
echo "count: $("$python" -m zipfile -l "$wheel" | wc -l) files in the wheel, $(stat -c %s "$wheel") bytes"
