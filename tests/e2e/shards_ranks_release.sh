#!/usr/bin/env bash
# Random layouts (t, d, p, zero1) on 3 ranks over TCP: the bits of one worker with the same t
# (tests/unit/pipe/test_shards_mt.c, which runs on threads too).
set -euo pipefail
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export SL_TEST_TRANSPORT=tcp
timeout "${SL_TEST_PATIENCE:-600}" "$SLUICE" launch -n 3 --program "$BUILD_DIR/tests/unit.pipe.shards_mt" -- tcp >"$log" 2>&1 || {
    tail -n 30 "$log"
    echo "FAILED: random layouts on 3 ranks"
    exit 1
}
grep -o 'count: .*' "$log" | sort -u # every rank says it
