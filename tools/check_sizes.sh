#!/usr/bin/env bash
# Size limits: a source or script 500 lines, a header of src/ 200; a function 60 lines (from its opening brace to its
# closing one), 6 parameters, 4 levels of nesting; a component 7000 lines (cli 5000, device any number).
# Usage: tools/check_sizes.sh [ROOT]
set -euo pipefail
tools=$(cd "$(dirname "$0")" && pwd)
cd "${1:-$tools/..}"

dirs=()
for dir in src include examples; do
    [ -d "$dir" ] && dirs+=("$dir")
done
mapfile -t files < <(find "${dirs[@]}" -name '*.[ch]' -o -name '*.cu' | sort)
status=0
for dir in src/*/; do
    component=$(basename "$dir") limit=7000
    case $component in cli) limit=5000 ;; device) continue ;; esac
    lines=$(find "$dir" \( -name '*.[ch]' -o -name '*.cu' \) -exec cat {} + | wc -l)
    if [ "$lines" -gt $limit ]; then
        echo "src/$component:1: $lines lines, a component has at most $limit"
        status=1
    fi
done
while read -r lines file; do
    if [ "$file" != total ] && [ "$lines" -gt 500 ]; then
        echo "$file:1: $lines lines, at most 500"
        status=1
    fi
done < <(find . \( -path ./build -o -path ./.git -o -path ./tests/fixtures \) -prune -o -type f \
    \( -name '*.sh' -o -name '*.py' -o -name '*.awk' -o -name '*.cmake' -o -name '*.js' -o -name '*.cuh' -o \
    -path './tests/*.[ch]' -o -path './bench/*.[ch]' -o -name dev \) -printf '%P\0' | xargs -0 -r wc -l)
[ ${#files[@]} -eq 0 ] || awk -v max_file=500 -v max_header=200 -v max_function=60 -v max_params=6 -v max_nesting=4 \
    -f "$tools/strip_c.awk" -f "$tools/check_sizes.awk" "${files[@]}" || status=1
exit $status
