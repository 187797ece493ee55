#!/usr/bin/env bash
# Rejects every #include that src/ROOMS does not allow, and features outside their components: MPI, CUDA,
# threads and atomics, the environment, ending the process, printing. Usage: tools/check_rooms.sh [ROOT]
set -euo pipefail
tools=$(cd "$(dirname "$0")" && pwd)
cd "${1:-$tools/..}"

mapfile -t files < <(find src -mindepth 2 -name '*.[ch]' -o -mindepth 2 -name '*.cu' | sort)
exec awk -v rooms_file=src/ROOMS -f "$tools/strip_c.awk" -f "$tools/check_rooms.awk" \
    src/ROOMS "${files[@]}"
