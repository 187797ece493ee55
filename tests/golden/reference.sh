#!/usr/bin/env bash
# docs/api is what tools/reference.py writes from the headers, and names every public function.
# SL_GOLDEN_UPDATE=1 rewrites it.
set -euo pipefail
command -v python3 >/dev/null || { echo "SKIPPED: no python3" && exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
headers=("$SRC_DIR"/include/sluice/*.h)
python3 "$SRC_DIR/tools/reference.py" "$work/api" "${headers[@]}"
[ "${SL_GOLDEN_UPDATE:-0}" = 0 ] || { rm -rf "$SRC_DIR/docs/api" && cp -r "$work/api" "$SRC_DIR/docs/api"; }
diff -r "$SRC_DIR/docs/api" "$work/api" || { echo "FAILED: < docs/api, > the headers; SL_GOLDEN_UPDATE=1 rewrites it" && exit 1; }
while read -r name; do
    grep -q "^## $name\$" "$work"/api/*.md || { echo "FAILED: no $name" && exit 1; }
done <"$SRC_DIR/tests/golden/symbols.txt"
echo "count: $(wc -l <"$SRC_DIR/tests/golden/symbols.txt") functions documented"
