#!/usr/bin/env bash
# Rejects every #include that src/ROOMS does not allow, and features outside their components: MPI, CUDA,
# threads and atomics, the environment, ending the process, printing. The table of docs/ARCHITECTURE.md, if
# there is one, has the rows of src/ROOMS. Usage: tools/check_rooms.sh [ROOT]
set -euo pipefail
tools=$(cd "$(dirname "$0")" && pwd)
cd "${1:-$tools/..}"

page=docs/ARCHITECTURE.md
if [ -f "$page" ]; then
    while IFS= read -r row; do
        grep -qxF -- "$row" "$page" || { echo "$page: no row \"$row\", as in src/ROOMS" && exit 1; }
    done < <(awk -F ' *[|] *' '!/^#/ && NF == 3 { print "| " $1 " | " ($2 == "*" ? "all" : $2) " | " $3 " |" }' src/ROOMS)
fi
mapfile -t files < <(find src -mindepth 2 -name '*.[ch]' -o -mindepth 2 -name '*.cu' | sort)
exec awk -v rooms_file=src/ROOMS -f "$tools/strip_c.awk" -f "$tools/check_rooms.awk" \
    src/ROOMS "${files[@]}"
