#!/usr/bin/env bash
# See model_print.session.
set -euo pipefail
# shellcheck source=tests/golden/session.bash
. "$SRC_DIR/tests/golden/session.bash"
session "$SRC_DIR/tests/golden/model_print.session"
