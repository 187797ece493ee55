#!/usr/bin/env bash
# A libsluice_mpi.so of another build, or without build information, is refused by name with status 4.
set -euo pipefail
if [ ! -e "$BUILD_DIR/libsluice_mpi.so" ]; then
    echo "skipped: this build has no MPI module"
    exit 77
fi
# shellcheck source=tests/support/workplace.sh
. "$SRC_DIR/tests/support/workplace.sh"
cp "$SLUICE" "$work/sluice"
build=$(sed -n 's/.*SL_MODULE_BUILD "\(.*\)".*/\1/p' "$BUILD_DIR/gen/comm/module_build.h")
[ ${#build} = 32 ] || fail "no identity: '$build'"
train=("$work/sluice" train gpt-nano --set "V=37,T=13,P=17,L=2,C=18,H=3" --batch 2 --micro 2 --steps 1 --stages 2
    --transport mpi --quiet)
refused() { # WHAT FROM TO: the module with one text in it replaced by another
    local status=0
    LC_ALL=C sed "s/$2/$3/g" "$BUILD_DIR/libsluice_mpi.so" >"$work/libsluice_mpi.so"
    cmp -s "$BUILD_DIR/libsluice_mpi.so" "$work/libsluice_mpi.so" && fail "$1: nothing was changed"
    "${train[@]}" >"$work/out" 2>"$work/err" || status=$?
    [ $status = 4 ] || fail "$1: status $status"
    grep -q "libsluice_mpi.so is of another build than this program" "$work/err" || fail "$1: not said"
    grep -q "$work" "$work/err" || fail "$1: the file is not named"
}
refused "another identity" "$build" "$(tr '0-9a-f' '1-9a-f0' <<<"$build")"
refused "an older module" sl_comm_module_build sl_comm_module_xuild
"$work/sluice" doctor --quick >"$work/out" 2>"$work/err" || true
grep -q "another build" "$work/out" || fail "doctor does not say why there is no MPI"
