#!/usr/bin/env bash
# Wall time of each command's --help: median and maximum of N rounds.
set -euo pipefail
rounds=${1:-50}
for command in $("$SLUICE" --help | sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
    for _ in $(seq "$rounds"); do
        start=$EPOCHREALTIME
        "$SLUICE" "$command" --help >/dev/null
        end=$EPOCHREALTIME
        echo $((${end/./} - ${start/./}))
    done | sort -n | awk -v command="$command" '{ us[NR] = $1 }
        END { printf "RESULT bench=help command=%s median_ms=%.2f slowest_ms=%.2f goal_ms=20\n",
              command, us[int((NR + 1) / 2)] / 1000, us[NR] / 1000 }'
done
