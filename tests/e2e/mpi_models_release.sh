#!/usr/bin/env bash
# The oracles of pipelines over MPI: nine models on several cuts and numbers of workers against one worker,
# replicas and own micro-batch sizes against the same stages in one thread, asynchronous schedules against
# the plain loop; on as many ranks as workers and on fewer. Short: a share of each.
set -euo pipefail
# shellcheck source=tests/support/mpi.sh
. "$SRC_DIR/tests/support/mpi.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
try() { # TEST TRANSPORT RANKS...
    local test=$1 ranks
    export SL_TEST_TRANSPORT=$2
    for ranks in "${@:3}"; do
        run_ranks "$ranks" "$BUILD_DIR/tests/$test" >"$work/log" 2>&1 || {
            cat "$work/log"
            echo "FAILED: $test on $ranks ranks ($SL_TEST_TRANSPORT)"
            exit 1
        }
        grep '^count:' "$work/log" | sort -u # every rank says it
    done
}
if [ "${SL_TEST_FULL:-0}" != 1 ]; then
    try table.pipe_models mpi 3
    try unit.pipe.wide_mt mpi-p2p 2
    try unit.pipe.shards_mt mpi 2
    try unit.pipe.async_mt mpi-p2p 2
    try unit.pipe.wide_async_mt mpi-p2p 2
    exit 0
fi
SL_TEST_PATIENCE=7200
try table.pipe_models mpi 1 2 3 4 8
try table.pipe_models mpi-p2p 2 3
try unit.pipe.wide_mt mpi 2 3
try unit.pipe.shards_mt mpi 2 3
try unit.pipe.wide_mt mpi-p2p 2
try unit.pipe.async_mt mpi 2 3 4
try unit.pipe.async_mt mpi-p2p 3
try unit.pipe.wide_async_mt mpi 2 3
