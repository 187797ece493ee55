#!/usr/bin/env bash
# Memory of a process with all workers: the plan's prediction against the measured peak, at most 1 % lower and 3 %
# higher.
set -euo pipefail
command -v python3 >/dev/null || exit 77
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
count=0
hold() { # MICRO-BATCHES SCHEDULE RECOMPUTE MODEL...
    local micro=$1 schedule=$2 recompute=$3
    shift 3
    "$SLUICE" plan "$@" --machine laptop --devices 2 --straight --planner even --schedule "$schedule" \
        --recompute "$recompute" --batch 16 --micro "$micro" -o "$work/x.plan" --json --quiet >"$work/plan.json"
    "$SLUICE" train "$@" --plan "$work/x.plan" --schedule "$schedule" --batch 16 --micro "$micro" --threads 1 \
        --steps 2 --json --quiet >"$work/run.json"
    python3 - "$work/plan.json" "$work/run.json" "$schedule $micro $recompute $*" <<'END'
import json, sys
told, peak = json.load(open(sys.argv[1]))["process_bytes"], json.load(open(sys.argv[2]))["peak_bytes"]
if not peak:
    sys.exit(77)  # no /proc
error = 100 * (told / peak - 1)
print("predicted %d, measured %d, %+.2f %%: %s" % (told, peak, error, sys.argv[3]))
sys.exit(not -1 <= error <= 3)
END
    count=$((count + 1))
}
gpt=(gpt-tiny --set "L=4,C=512,H=8,T=32,P=32")
hold 4 1f1b none "${gpt[@]}"
hold 4 2bw none "${gpt[@]}"
hold 2 zb-h1 none mlp --set "W=2048,L=4"
echo "count: $count plans' memory predicted within 3 %, none more than 1 % under"
