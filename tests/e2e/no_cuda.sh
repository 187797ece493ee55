#!/usr/bin/env bash
# CUDA is a separate module: the program needs none of its libraries, and a build without the module has no such
# device.
set -euo pipefail
fail() { echo "FAILED: $*" && exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
libraries='libcud|libcublas|libnccl|libnv'
command -v readelf >/dev/null || { echo "no readelf here" && exit 77; }

for file in "$SLUICE" "$BUILD_DIR"/libsluice.so "$BUILD_DIR"/libsluice_mpi.so; do
    [ -e "$file" ] || continue
    needs=$(readelf -d "$file" | grep NEEDED)
    if grep -E "$libraries" <<<"$needs"; then fail "$file needs libraries of CUDA"; fi
done
if [ -e "$BUILD_DIR/libsluice_cuda.so" ]; then
    readelf -d "$BUILD_DIR/libsluice_cuda.so" | grep NEEDED | grep -Eq "$libraries" || fail "the module's libraries have other names"
    "$SLUICE" list devices | grep -q '^  cuda ' || fail "the module is there and its device is not listed"
    echo ok && exit 0
fi
if "$SLUICE" list devices | grep -i cuda; then fail "a device that was not compiled is listed"; fi
rc=0
"$SLUICE" train mlp --device cuda --steps 1 --out "$work/run" >"$work/said" 2>&1 || rc=$?
[ $rc = 2 ] || fail "exit code $rc: $(cat "$work/said")"
grep -q "unknown device 'cuda'" "$work/said" || fail "$(cat "$work/said")"
[ ! -e "$work/run" ] || fail "a refused run left its folder"
echo ok
