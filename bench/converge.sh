#!/usr/bin/env bash
# How well asynchronous training learns: every mode against the synchronous one, paired by seed, with equal
# tokens. See bench/converge.py --help. Usage: ./dev bench converge [--quick] [--seeds N] [--jobs J] [--out DIR]
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
exec python3 "$root/bench/converge.py" --root "$root" "$@"
