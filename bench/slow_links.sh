#!/usr/bin/env bash
# Two hosts (network namespaces) on links of 1 Gbit/s and 100 Mbit/s: the simulator puts 1f1b, 2bw and the planner's
# choice in an order by the measured costs of the model; does the clock agree?
#     ./dev bench slow_links [--steps N]
# 1f1b and 2bw have a stage on each host; the planner is free, also to use one host only. Pairs whose predictions are
# closer than 10 % have no order. Needs namespaces and tc; says so and ends otherwise.
set -euo pipefail
steps=12
[ "${1:-}" != --steps ] || steps=${2:?}
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
make_shaped() {
    make_hosts "$a" "$b" 10.76.0 &&
        ip netns exec "$a" tc qdisc add dev wire root tbf rate 1gbit burst 128kb latency 50ms &&
        ip netns exec "$b" tc qdisc add dev wire root tbf rate 1gbit burst 128kb latency 50ms
}
if ! command -v ip >/dev/null || ! make_shaped 2>"$work/err"; then
    echo "slow_links: no namespaces or no tc here: $(tail -n 1 "$work/err")" >&2
    exit 77
fi
shape() { # RATE
    for host in "$a" "$b"; do
        ip netns exec "$host" tc qdisc change dev wire root tbf rate "$1" burst 128kb latency 50ms
    done
}
# Wide activations between thin layers, so that the links matter.
model=(gpt-nano --set "V=256,T=128,P=128,L=4,C=128,H=4")
batch=32 micro=8
"$SLUICE" profile "${model[@]}" --micro-batch $((batch / micro)) --busy 2 --quiet -o "$work/x.cost"

# plan NAME RATE ARGUMENTS...: a plan, and its simulated step in ms.
plan() {
    local name=$1 rate=$2
    shift 2
    "$SLUICE" plan "${model[@]}" --machine "2x1:mem=8G,intra=10GB/s,inter=$rate" --cost "$work/x.cost" --batch $batch \
        --micro $micro --straight --quiet --json "$@" -o "$work/$name.plan" >"$work/$name.json"
    sed -n 's/^  "step_ns": \([0-9]*\),$/\1/p' "$work/$name.json" | awk '{ printf "%.3f", $1 / 1e6 }'
}
field() { sed -n "s/^  \"$2\": \"\\{0,1\\}\\([^\",]*\\)\"\\{0,1\\},\$/\\1/p" "$work/$1.json"; }
# measure NAME: the median step in ms, over the link where it has two workers.
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
    sed 's/.*"ms": \([0-9.]*\).*/\1/' "$work/run/log.jsonl" | tail -n +4 | sort -n |
        awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}
disagree=0
for link in 1gbit:1Gb/s 100mbit:100Mb/s; do
    shape "${link%:*}"
    : >"$work/table"
    for name in 1f1b 2bw choice; do
        case $name in
        choice) predicted=$(plan $name "${link#*:}") ;;
        *) predicted=$(plan $name "${link#*:}" --planner even --schedule $name --devices 2) ;;
        esac
        measured=$(measure $name)
        echo "$name $predicted $measured" >>"$work/table"
        echo "RESULT bench=slow_links link=${link%:*} plan=$name schedule=$(field $name schedule) devices=$(field $name devices) predicted_ms=$predicted measured_ms=$measured"
    done
    awk -v link="${link%:*}" '{ name[NR] = $1; p[NR] = $2; m[NR] = $3 }
        END { for (i = 1; i <= NR; i++) for (j = i + 1; j <= NR; j++) {
                  if (p[i] < 1.1 * p[j] && p[j] < 1.1 * p[i]) continue
                  pairs++; if ((p[i] < p[j]) == (m[i] < m[j])) same++
                  else printf "%s: %s and %s come the other way round\n", link, name[i], name[j] >"/dev/stderr" }
              printf "RESULT bench=slow_links link=%s pairs=%d same_order=%d\n", link, pairs, same
              exit pairs != same }' "$work/table" || disagree=1
done
exit $disagree
