#!/usr/bin/env bash
# Two hosts (network namespaces) with links of 1 Gbit/s and 100 Mbit/s: compares the simulated order of 1f1b, 2bw and
# the planner's choice with the measured order.
#     ./dev bench slow_links [--rounds R] [--steps N] [--write]      (--write: the table of docs/results/failures.md)
# 1f1b and 2bw have a stage on each host; the planner is free, also to use one host only. Rounds are interleaved: each
# measures the passes, then every plan on every link; medians over the rounds are compared. Pairs whose predictions are
# closer than 10 % have no order. Exit status 1 if a pair is measured in the opposite order; 77 without namespaces or tc.
set -euo pipefail
steps=20 rounds=3 write=0
while [ $# -gt 0 ]; do
    case $1 in
    --steps) steps=${2:?} && shift ;;
    --rounds) rounds=${2:?} && shift ;;
    --write) write=1 ;;
    *)
        echo "slow_links: unknown option $1" >&2
        exit 2
        ;;
    esac
    shift
done
: "${SLUICE:?run it as ./dev bench slow_links}"
# shellcheck source=tests/support/two_hosts.sh
. "$(dirname "$0")/../tests/support/two_hosts.sh"
work=$(mktemp -d)
a=sl-a-$$ b=sl-b-$$
# shellcheck disable=SC2317 # called by the trap
clean() {
    drop_hosts "$a" "$b"
    rm -rf "$work"
}
trap clean EXIT
# A small token bucket: its burst after a pause must be small compared with a message (256 KiB).
shape() { # add|change RATE
    local burst=32kb
    [ "$2" = 1gbit ] || burst=16kb
    ip netns exec "$a" tc qdisc "$1" dev wire root tbf rate "$2" burst $burst latency 50ms &&
        ip netns exec "$b" tc qdisc "$1" dev wire root tbf rate "$2" burst $burst latency 50ms
}
if ! command -v ip >/dev/null || ! { make_hosts "$a" "$b" 10.76.0 && shape add 1gbit; } 2>"$work/err"; then
    echo "slow_links: no namespaces or no tc here: $(tail -n 1 "$work/err")" >&2
    exit 77
fi
# Wide activations between thin layers, so that the links matter.
model=(gpt-nano --set "V=256,T=128,P=128,L=4,C=128,H=4")
batch=32 micro=8

# plan NAME RATE ARGUMENTS...: a plan, and its simulated step in ms.
plan() {
    local name=$1 rate=$2
    shift 2
    "$SLUICE" plan "${model[@]}" --machine "2x1:mem=8G,intra=10GB/s,inter=$rate" --cost "$work/x.cost" --batch $batch \
        --micro $micro --straight --quiet --json "$@" -o "$work/$name.plan" >"$work/$name.json"
    sed -n 's/^  "step_ns": \([0-9]*\),$/\1/p' "$work/$name.json" | awk '{ printf "%.3f", $1 / 1e6 }'
}
field() { sed -n "s/^  \"$2\": \"\\{0,1\\}\\([^\",]*\\)\"\\{0,1\\},\$/\\1/p" "$work/$1.json"; }
# measure NAME: the mean step in ms without the first ones; uses the link if the plan has two workers.
measure() {
    local devices
    devices=$(field "$1" devices)
    rm -rf "$work/run"
    local train=(train "${model[@]}" --plan "$work/$1.plan" --batch "$batch" --micro "$micro" --clip 0 --steps "$steps" --quiet --out "$work/run")
    if [ "$devices" -gt 1 ]; then
        "$SLUICE" launch -n 2 --hosts "$a=10.76.0.1,$b=10.76.0.2" --agent "ip netns exec" -- "${train[@]}" >&2
    else
        "$SLUICE" "${train[@]}" >&2
    fi
    sed 's/.*"ms": \([0-9.]*\).*/\1/' "$work/run/log.jsonl" | tail -n +5 | awk '{ sum += $1 } END { printf "%.3f", sum / NR }'
}
for round in $(seq "$rounds"); do
    "$SLUICE" profile "${model[@]}" --micro-batch $((batch / micro)) --busy 2 --quiet -o "$work/x.cost" >&2
    for link in 1gbit:1Gb/s 100mbit:100Mb/s; do
        shape change "${link%:*}"
        for name in 1f1b 2bw choice; do
            case $name in
            choice) predicted=$(plan $name "${link#*:}") ;;
            *) predicted=$(plan $name "${link#*:}" --planner even --schedule $name --devices 2) ;;
            esac
            measured=$(measure $name)
            echo "${link%:*} $name $predicted $measured $(field $name schedule) $(field $name devices)" >>"$work/table"
            echo "RESULT bench=slow_links link=${link%:*} round=$round plan=$name schedule=$(field $name schedule) devices=$(field $name devices) predicted_ms=$predicted measured_ms=$measured"
        done
    done
done
median() { # LINK NAME COLUMN
    awk -v link="$1" -v name="$2" -v column="$3" '$1 == link && $2 == name { print $column }' "$work/table" | sort -n |
        awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}
verdict=pass
for link in 1gbit 100mbit; do
    for name in 1f1b 2bw choice; do
        echo "$name $(median $link $name 3) $(median $link $name 4)"
    done >"$work/medians"
    awk -v link="$link" '{ name[NR] = $1; p[NR] = $2; m[NR] = $3
            printf "RESULT bench=slow_links link=%s plan=%s predicted_ms=%.1f measured_ms=%.1f measured_over_predicted=%.3f\n", link, $1, $2, $3, $3 / $2 }
        END { for (i = 1; i <= NR; i++) for (j = i + 1; j <= NR; j++) {
                  if (p[i] < 1.1 * p[j] && p[j] < 1.1 * p[i]) continue
                  pairs++; if ((p[i] < p[j]) == (m[i] < m[j])) same++
                  else printf "%s: %s and %s come the other way round\n", link, name[i], name[j] >"/dev/stderr" }
              printf "RESULT bench=slow_links link=%s pairs=%d same_order=%d\n", link, pairs, same
              exit pairs != same }' "$work/medians" || verdict=fail
done
row() { # LINK WORDS
    local choice
    choice=$(awk -v link="$1" '$1 == link && $2 == "choice" { print $5 ($6 == 1 ? " on one host" : "") }' "$work/table" | sort | uniq -c | sort -n | awk 'END { $1 = ""; print substr($0, 2) }')
    printf '| %s | %.0f and %.0f ms | %.0f and %.0f ms | %s: %.0f and %.0f ms |\n' "$2" "$(median "$1" 1f1b 3)" "$(median "$1" 1f1b 4)" \
        "$(median "$1" 2bw 3)" "$(median "$1" 2bw 4)" "$choice" "$(median "$1" choice 3)" "$(median "$1" choice 4)"
}
{
    echo "| link | 1f1b, simulated and measured | 2bw | the planner's choice |"
    echo "|---|---|---|---|"
    row 1gbit "1 Gbit/s"
    row 100mbit "100 Mbit/s"
} | tee "$work/rows"
page=$(dirname "$0")/../docs/results/failures.md
if [ $write = 1 ]; then
    awk -v rows="$work/rows" '/^<!-- end of slow links -->$/ { skip = 0 } !skip
        /^<!-- slow links -->$/ { while ((getline line <rows) > 0) print line; skip = 1 }' "$page" >"$work/page"
    cp "$work/page" "$page"
fi
echo "RESULT bench=slow_links rounds=$rounds steps=$steps verdict=$verdict"
[ $verdict = pass ]
