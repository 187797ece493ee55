#!/usr/bin/env bash
# Random schedules from files on 4 ranks over TCP: the bits of one worker, or of a plain loop in their order
# (tests/unit/pipe/test_own_mt.c, which runs on threads too).
set -euo pipefail
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export SL_TEST_TRANSPORT=tcp
timeout "${SL_TEST_PATIENCE:-600}" "$SLUICE" launch -n 4 --program "$BUILD_DIR/tests/unit.pipe.own_mt" -- tcp >"$log" 2>&1 || {
    tail -n 30 "$log"
    echo "FAILED: random schedules on 4 ranks"
    exit 1
}
grep -o 'count: .*' "$log" | sort -u # every rank says it
