#!/usr/bin/env bash
# A program that was built for the last release runs with this library, or the name of the library (SONAME)
# has changed. tests/golden/abi has the interface of each release.
set -euo pipefail
fail() { echo "FAILED: $*" && exit 1; }
command -v python3 >/dev/null || { echo "SKIPPED: no python3" && exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
abi=$SRC_DIR/tools/abi.py
version=$(sed -n 's/^project(sluice VERSION \([0-9]*\.[0-9]*\)\..*/\1/p' "$SRC_DIR/CMakeLists.txt")
python3 "$abi" dump "$SRC_DIR"/include/sluice.h "$SRC_DIR"/include/sluice/*.h >"$work/now"
last=$(printf '%s\n' "$SRC_DIR"/tests/golden/abi/*.txt | sort -V | tail -n 1)
if python3 "$abi" compare "$last" "$work/now" >"$work/reasons"; then
    echo "compatible with $(basename "$last" .txt)"
elif [ "$(basename "$last" .txt)" = "$version" ]; then
    cat "$work/reasons" && fail "this is release $version; a break needs another minor version"
fi
while read -r name; do
    grep -q "function .*\b$name(" "$work/now" || fail "abi.py overlooks $name"
done <"$SRC_DIR/tests/golden/symbols.txt"

# The comparison finds every kind of break, and no addition.
check() { # breaks|keeps SED-EXPRESSION
    sed -E "$2" "$work/now" >"$work/other"
    ! cmp -s "$work/now" "$work/other" || fail "'$2' changes nothing"
    if python3 "$abi" compare "$work/now" "$work/other" >"$work/said"; then said=keeps; else said=breaks; fi
    [ "$said" = "$1" ] || { cat "$work/said" && fail "'$2' $said"; }
}
check breaks '/function .*sl_net_open/d'
check breaks 's/(function .*sl_net_stat.*)int/\1long/; s/(function .*sl_net_stat.*)enum sl_net_stat/\1int/'
check breaks '/field sl_tensor 3 /d'
check breaks 's/(field sl_samples 1 )int64_t/\1int/'
check breaks 's/constant SL_ERR_INPUT = 3/constant SL_ERR_INPUT = 7/'
check breaks 's/^(field sl_sample_array 0 .*)/\1\nfield sl_sample_array 99 int more/'
check keeps 's/^(field sl_samples 0 .*)/\1\nfield sl_samples 99 int more/'
check keeps 's/^(function .*sl_version.*)/\1\nfunction int sl_more(void)/'
check keeps 's/^(constant SL_OK = 0)/\1\nconstant SL_MORE = 99/'
echo "count: $(wc -l <"$work/now") lines of interface, 9 changes judged"
