#!/usr/bin/env bash
# See sim.session.
set -euo pipefail
# shellcheck source=tests/golden/session.bash
. "$SRC_DIR/tests/golden/session.bash"
session "$SRC_DIR/tests/golden/sim.session"
