#!/usr/bin/env bash
# Size limits: a .c file 600 lines, a header 200; a function 60 lines (from its opening brace to its
# closing one), 6 parameters, 4 levels of nesting. Usage: tools/check_sizes.sh [ROOT]
set -euo pipefail
tools=$(cd "$(dirname "$0")" && pwd)
cd "${1:-$tools/..}"

dirs=()
for dir in src include examples; do
    [ -d "$dir" ] && dirs+=("$dir")
done
mapfile -t files < <(find "${dirs[@]}" -name '*.[ch]' -o -name '*.cu' | sort)
[ ${#files[@]} -gt 0 ] || exit 0
exec awk -v max_file=600 -v max_header=200 -v max_function=60 -v max_params=6 -v max_nesting=4 \
    -f "$tools/strip_c.awk" -f "$tools/check_sizes.awk" "${files[@]}"
