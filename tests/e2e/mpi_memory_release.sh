#!/usr/bin/env bash
# Memory of ranks with one worker each: the prediction (the verifier's bytes of the worker and the rings of its
# channels) against the peak memory of the process, minus that of the empty rank: never lower, at most 3 % higher.
set -euo pipefail
# shellcheck source=tests/support/mpi.sh
. "$SRC_DIR/tests/support/mpi.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0 count=0
# hold NAME RANKS ARGUMENTS OF TRAIN...: writes the largest rank's peak to peak_NAME.
hold() {
    local name=$1 ranks=$2
    shift 2
    run_ranks "$ranks" "$SLUICE" train "$@" --steps 2 --quiet --json >"$work/$name.json" 2>"$work/err" || {
        cat "$work/err" && echo "FAILED: $*" && exit 1
    }
    tr -d '\n' <"$work/$name.json" | grep -o '"rank": *[0-9]*, *"bytes": *[0-9]*, *"peak_bytes": *[0-9]*' |
        tr -dc '0-9,\n' >"$work/$name"
    [ "$(wc -l <"$work/$name")" = "$ranks" ] || { echo "FAILED: $name: no numbers of $ranks ranks" && exit 1; }
    awk -F, -v what="$*" '{
        error = 100 * ($2 - $3) / $3
        printf "rank %d: predicted %d, measured %d, %+.2f %%: %s\n", $1, $2, $3, error, what
        bad += !(error >= 0 && error <= 3) } END { exit bad > 0 }' "$work/$name" || bad=1
    count=$((count + ranks))
}
peak() { sort -t, -k3 -n "$work/$1" | tail -n 1 | cut -d, -f3; }
gpt=(gpt-tiny --set "L=4,C=512,H=8,T=64,P=64" --micro 4)
hold 1f1b 2 "${gpt[@]}" --batch 16 --stages 2
hold recompute 2 "${gpt[@]}" --batch 16 --stages 2 --recompute
hold 2bw 2 "${gpt[@]}" --batch 16 --stages 2 --schedule 2bw
hold messages 2 "${gpt[@]}" --batch 16 --stages 2 --schedule zb-h1 --transport mpi-p2p
hold replicas 2 "${gpt[@]}" --batch 8 --stages 1 --replicas 2
hold graph 4 candle-uno --set "branches=4,L=4,W=1536,shrink=4" --batch 64 --micro 4 --cut branches --workers 4 --schedule graph
[ $bad = 0 ] || { echo "FAILED: a prediction is under, or more than 3 % over" && exit 1; }
[ $((10 * $(peak recompute))) -lt $((9 * $(peak 1f1b))) ] || { echo "FAILED: recomputation saves nothing" && exit 1; }
echo "count: $count ranks' memory predicted within 3 %, none under; recomputation: $(peak recompute) of $(peak 1f1b) bytes"
