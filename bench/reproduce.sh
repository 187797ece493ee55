#!/usr/bin/env bash
# Claims, tables and figures of PipeDream-2BW, SpecTrain and GraphPipe: runs their commands and writes docs/reproduce.md.
#
#   ./dev bench reproduce [--write] [ROW]...    default: all rows, written to docs/reproduce.md
#   With rows only, prints their commands and results; --write also updates the page.
set -euo pipefail
exec python3 "$SRC_DIR/bench/reproduce.py" "$SLUICE" "$SRC_DIR" "$@"
