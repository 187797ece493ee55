#!/usr/bin/env bash
# The MPI module built for MPICH, if it is installed as well as Open MPI: same sources, conformance suite and
# files as threads. An mpirun of another MPI than the module's is refused instead of running jobs of one rank.
set -euo pipefail
fail() {
    echo "FAILED: $*"
    [ ! -f "$work/err" ] || tail -n 20 "$work/err"
    exit 1
}
for tool in mpicc.mpich mpirun.mpich; do
    command -v $tool >/dev/null 2>&1 || { echo "skipped: no $tool here (apt-get install mpich libmpich-dev)" && exit 77; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/build/tests"
mpicc.mpich -std=c11 -O2 -fPIC -shared -fvisibility=hidden -DSL_API= -D_GNU_SOURCE -I"$SRC_DIR/src" -I"$SRC_DIR/include" -I"$BUILD_DIR/gen" \
    "$SRC_DIR"/src/comm/mpi*.c -o "$work/build/libsluice_mpi.so" 2>"$work/err" || fail "the module does not build"
cp "$SLUICE" "$work/build/sluice"
cp "$BUILD_DIR/tests/unit.comm.conformance_mt" "$work/build/tests"
export BUILD_DIR=$work/build SLUICE=$work/build/sluice SL_MPIRUN=mpirun.mpich
"$SLUICE" doctor --quick | grep -q 'built for MPICH' || fail "doctor does not say what the module was built for"
# shellcheck source=tests/support/mpi.sh
. "$SRC_DIR/tests/support/mpi.sh"
if [ "${SL_TEST_FULL:-0}" = 1 ]; then # all that Open MPI is tested with
    bash "$SRC_DIR/tests/e2e/mpi_conformance_release.sh"
    bash "$SRC_DIR/tests/e2e/mpi_train_release.sh"
fi
for transport in mpi mpi-p2p; do
    SL_TEST_TRANSPORT=$transport run_ranks 2 "$BUILD_DIR/tests/unit.comm.conformance_mt" >"$work/err" 2>&1 || fail "$transport"
    grep -m1 '^count:' "$work/err"
done
gpt=(gpt-nano --set "V=37,T=13,P=17,L=4,C=18,H=3,drop=0.1" --batch 8 --micro 4 --steps 4 --stages 3 --quiet)
for schedule in 1f1b 2bw; do
    "$SLUICE" train "${gpt[@]}" --schedule $schedule --out "$work/threads" 2>"$work/err" || fail "$schedule on threads"
    run_ranks 3 "$SLUICE" train "${gpt[@]}" --schedule $schedule --out "$work/ranks" 2>"$work/err" || fail "$schedule on ranks"
    diff -r "$work/threads/ckpt" "$work/ranks/ckpt" || fail "$schedule: ranks wrote another checkpoint"
    rm -r "$work/threads" "$work/ranks"
done

# If mpirun is Open MPI's.
if [[ $(mpirun --version 2>/dev/null) == *"Open MPI"* ]]; then
    mpirun=mpirun status=0
    run_ranks 2 "$SLUICE" train gpt-nano --stages 2 --steps 1 --batch 2 --micro 2 --quiet >"$work/out" 2>"$work/err" || status=$?
    [ $status != 0 ] || fail "ran under the mpirun of another MPI"
    grep -q 'the launcher belongs to another MPI' "$work/err" || fail "another mpirun: status $status"
fi
