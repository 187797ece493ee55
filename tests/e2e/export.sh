#!/usr/bin/env bash
# Plans for other systems: every target; readers accept the files.
set -euo pipefail

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail() {
    echo "export: $*" >&2
    exit 1
}
sizes=V=256,T=32,L=6,C=64,H=4,K=2,F=96
"$SLUICE" plan llama --set "$sizes" --machine laptop --batch 16 --micro 4 --schedule 1f1b --planner pipedream-dp \
    --straight --whole-layers -o "$dir/x.plan" --quiet >/dev/null || fail "plan"

# megatron: six layers, E first, L last
"$SLUICE" export "$dir/x.plan" --to megatron -o "$dir/megatron" || fail "megatron"
layout=$(sed -n "s/^--pipeline-model-parallel-layout '\(.*\)'$/\1/p" "$dir/megatron")
[[ $layout == E*L ]] || fail "layout '$layout'"
layers=$(tr '|' '\n' <<<"$layout" | sed -n 's/^E\{0,1\}t\*\{0,1\}\([0-9]*\)L\{0,1\}$/\1/p' |
    awk '{sum += $1 == "" ? 1 : $1} END {print sum}')
[ "$layers" = 6 ] || fail "$layers layers in '$layout'"
stages=$(grep -c '^stage ' "$dir/x.plan")
[ "$(tr -cd '|' <<<"$layout" | wc -c)" = $((stages - 1)) ] || fail "$stages stages in '$layout'"
grep -qx -- "--pipeline-model-parallel-size $stages" "$dir/megatron" || fail "size"

# torchtitan: TOML with a list per stage
"$SLUICE" export "$dir/x.plan" --to torchtitan -o "$dir/titan.toml" || fail "torchtitan"
grep -q '^pipeline_parallel_schedule = "1F1B"$' "$dir/titan.toml" || fail "torchtitan's schedule"
if python3 -c 'import tomllib' 2>/dev/null; then
    python3 - "$dir/titan.toml" "$stages" <<'PY' || fail "torchtitan's lists"
import sys, tomllib
table = tomllib.load(open(sys.argv[1], "rb"))["parallelism"]
parts = table["module_fqns_per_model_part"]
flat = [name for part in parts for name in part]
assert len(parts) == int(sys.argv[2]) == table["pipeline_parallel_degree"]
assert sorted(flat) == sorted(["tok_embeddings", "norm", "output"] + ["layers.%d" % i for i in range(6)])
PY
fi

# csv: sluice verify accepts it
"$SLUICE" export "$dir/x.plan" --to csv --comms -o "$dir/x.csv" || fail "csv"
"$SLUICE" verify "$dir/x.csv" --quiet >/dev/null || fail "the schedule does not verify"
# dot: Graphviz, if installed
"$SLUICE" export "$dir/x.plan" --to dot -o "$dir/x.dot" || fail "dot"
if command -v dot >/dev/null; then
    dot -Tsvg "$dir/x.dot" -o "$dir/x.svg" || fail "Graphviz does not read it"
fi
[ "$(grep -c ' -> ' "$dir/x.dot")" = $((stages - 1)) ] || fail "edges of the picture"
# json
"$SLUICE" export "$dir/x.plan" --to json -o "$dir/x.json" || fail "json"
if command -v python3 >/dev/null; then
    python3 -c 'import json, sys; assert len(json.load(open(sys.argv[1]))["stages"]) == int(sys.argv[2])' \
        "$dir/x.json" "$stages" || fail "json"
fi

# refusals with their reasons
refused() { # REASON ARGS...
    local rc=0 reason=$1
    shift
    "$SLUICE" export "$@" >/dev/null 2>"$dir/why" || rc=$?
    [ $rc = 1 ] || fail "$*: exit $rc"
    grep -q "$reason" "$dir/why" || fail "$*: $(cat "$dir/why")"
}
refused "nodes" "$dir/x.plan" --set L=5 --to megatron # another size of the model
"$SLUICE" plan mmt --machine laptop --batch 8 --schedule 1f1b --straight --planner graphpipe -o "$dir/mmt.plan" --quiet \
    >/dev/null || fail "plan of mmt"
refused "in a row only" "$dir/mmt.plan" --to megatron
rc=0
"$SLUICE" export "$dir/x.plan" --to megatrom 2>"$dir/why" || rc=$?
{ [ $rc = 2 ] && grep -q megatron "$dir/why"; } || fail "an unknown target: exit $rc"
