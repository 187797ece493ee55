#!/usr/bin/env bash
# The conformance suite of transports over MPI: six workers on 2 and 3 ranks (full: 1, 2, 3, 6).
set -euo pipefail
# shellcheck source=tests/support/mpi.sh
. "$SRC_DIR/tests/support/mpi.sh"
export SL_TEST_TRANSPORT=mpi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
counts=(2 3)
[ "${SL_TEST_FULL:-0}" != 1 ] || counts=(1 2 3 6)
for ranks in "${counts[@]}"; do
    run_ranks "$ranks" "$BUILD_DIR/tests/unit.comm.conformance_mt" >"$work/$ranks.log" 2>&1 || {
        cat "$work/$ranks.log"
        exit 1
    }
    grep -m1 '^count:' "$work/$ranks.log" | sed "s/\$/ on $ranks ranks/"
done
