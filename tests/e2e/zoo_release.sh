#!/usr/bin/env bash
# The bug zoo: every bug of tests/zoo/zoo.txt is caught, and docs/bugs-caught.md lists them.
set -euo pipefail
# shellcheck source=tests/support/workplace.sh
. "$SRC_DIR/tests/support/workplace.sh"
command -v python3 >/dev/null || exit 77
page=$SRC_DIR/docs/bugs-caught.md
if [ -n "${SL_GOLDEN_UPDATE:-}" ]; then
    python3 "$SRC_DIR/tests/zoo/zoo.py" --page >"$page"
fi
python3 "$SRC_DIR/tests/zoo/zoo.py" --page >"$work/page.md"
diff "$page" "$work/page.md" >"$work/err" || fail "docs/bugs-caught.md is old: run with SL_GOLDEN_UPDATE=1"
status=0
python3 "$SRC_DIR/tests/zoo/zoo.py" "$BUILD_DIR" "$work/zoo" >"$work/out" 2>"$work/err" || status=$?
[ "$status" -ne 77 ] || { cat "$work/out" && exit 77; }
grep -v '^caught' "$work/out" || true
[ "$status" -eq 0 ] || fail "a bug was not caught"
[ "$(grep -c '^caught' "$work/out")" -ge 40 ] || fail "fewer than 40 bugs"
