#!/usr/bin/env bash
# `sluice plan FILE --cost-model M --json` on the published planners' inputs: an independent script
# computes the same objective. Skipped without python3 or the inputs.
set -euo pipefail
command -v python3 >/dev/null || exit 77
for inputs in "$SRC_DIR"/../shared/data/planner-inputs "$SRC_DIR"/../../shared/data/planner-inputs; do
    [ ! -d "$inputs" ] || exec python3 "$SRC_DIR/bench/plan_judge.py" "$SLUICE" "$inputs" --quick
done
exit 77
