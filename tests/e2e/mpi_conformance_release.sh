#!/usr/bin/env bash
# The conformance suite over MPI, with memory shared on a host and by messages only: six workers on 2 and 3 ranks (full: 1, 2, 3, 6).
set -euo pipefail
# shellcheck source=tests/support/mpi.sh
. "$SRC_DIR/tests/support/mpi.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
counts=(2 3)
[ "${SL_TEST_FULL:-0}" != 1 ] || counts=(1 2 3 6)
for transport in mpi mpi-p2p; do for ranks in "${counts[@]}"; do
    export SL_TEST_TRANSPORT=$transport
    run_ranks "$ranks" "$BUILD_DIR/tests/unit.comm.conformance_mt" >"$work/$ranks.log" 2>&1 || {
        cat "$work/$ranks.log"
        exit 1
    }
    grep -m1 '^count:' "$work/$ranks.log" | sed "s/\$/ on $ranks ranks ($transport)/"
done; done
