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

# torchtitan: options with the modules of every stage
"$SLUICE" export "$dir/x.plan" --to torchtitan -o "$dir/titan" || fail "torchtitan"
grep -qx -- '--parallelism.pipeline_parallel_schedule 1F1B' "$dir/titan" || fail "torchtitan's schedule"
grep -qx -- "--parallelism.pipeline_parallel_degree $stages" "$dir/titan" || fail "torchtitan's degree"
modules=$(sed -n 's/^--parallelism.module_fqns_per_model_part //p' "$dir/titan")
[ "$(wc -w <<<"$modules")" = "$stages" ] || fail "stages of '$modules'"
[ "$(tr , ' ' <<<"$modules" | xargs -n1 | sort | paste -sd ' ')" = "layers.0 layers.1 layers.2 layers.3 layers.4 layers.5 lm_head norm tok_embeddings" ] ||
    fail "modules '$modules'"
# automodel: the same modules under their own names, in a recipe
"$SLUICE" export "$dir/x.plan" --to automodel -o "$dir/recipe" || fail "automodel"
grep -qx "  pp_size: $stages" "$dir/recipe" || fail "automodel: $(cat "$dir/recipe")"
grep -qx "    pp_schedule: 1F1B" "$dir/recipe" || fail "automodel: $(cat "$dir/recipe")"
[ "$(grep -c '^      - \[.*, model.rotary_emb\]$' "$dir/recipe")" = "$stages" ] || fail "automodel's stages: $(cat "$dir/recipe")"
[ "$(sed -n 's/^      - \[\(.*\), model.rotary_emb\]$/\1/p' "$dir/recipe" | tr -d ',' | xargs -n1 | sed 's/^model.//' | sort | paste -sd ' ')" = \
    "embed_tokens layers.0 layers.1 layers.2 layers.3 layers.4 layers.5 lm_head norm" ] || fail "automodel's modules: $(cat "$dir/recipe")"
for schedule in dualpipe-v chimera 2bw; do
    sed "s/^schedule .*/schedule \"$schedule\"/" "$dir/x.plan" >"$dir/other.plan"
    rc=0
    "$SLUICE" export "$dir/other.plan" --to automodel 2>"$dir/why" >/dev/null || rc=$?
    { [ $rc = 1 ] && grep -q '^sluice: automodel ' "$dir/why"; } || fail "$schedule: exit $rc, $(cat "$dir/why")"
done
# Megatron: the head is not tied here, and gpipe is not one of its schedules
grep -qx -- --untie-embeddings-and-output-weights "$dir/megatron" || fail "untied"
sed 's/^schedule .*/schedule "gpipe"/' "$dir/x.plan" >"$dir/gpipe.plan"
"$SLUICE" export "$dir/gpipe.plan" --to megatron 2>"$dir/why" >/dev/null || fail "gpipe"
grep -q 'cannot request gpipe: it will run 1f1b, .* a step instead of' "$dir/why" || fail "gpipe: $(cat "$dir/why")"
"$SLUICE" export "$dir/x.plan" --to megatron 2>"$dir/why" >/dev/null || fail "1f1b: $(cat "$dir/why")"
[ ! -s "$dir/why" ] || fail "1f1b: $(cat "$dir/why")"

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
# tensor parallelism and the distributed optimizer
sed 's/^\(stage .* micro [0-9]*\)/\1 shards 2 zero1/' "$dir/x.plan" >"$dir/tp.plan"
"$SLUICE" export "$dir/tp.plan" --to megatron -o "$dir/megatron" || fail "shards"
grep -qx -- '--tensor-model-parallel-size 2' "$dir/megatron" || fail "Megatron's tensor-parallel size"
grep -qx -- '--use-distributed-optimizer' "$dir/megatron" || fail "Megatron's optimizer"
if "$SLUICE" export "$dir/tp.plan" --to torchtitan -o "$dir/titan" 2>"$dir/why"; then fail "zero1"; fi
grep -q 'plan with --no-zero1' "$dir/why" || fail "zero1: $(cat "$dir/why")"
sed 's/ zero1 / /' "$dir/tp.plan" >"$dir/tp2.plan"
"$SLUICE" export "$dir/tp2.plan" --to torchtitan -o "$dir/titan" || fail "torchtitan's shards"
grep -qx -- '--parallelism.tensor_parallel_degree 2' "$dir/titan" || fail "torchtitan's tensor-parallel degree"
# Recomputation goes where the target has it.
sed 's/^\(stage .*\) input$/\1 recompute input/; t; s/^\(stage .*\)$/\1 recompute/' "$dir/x.plan" >"$dir/again.plan"
"$SLUICE" export "$dir/x.plan" --to torchtitan | tail -n 1 | grep -qx 'activation-checkpoint:none' || fail "torchtitan keeps"
"$SLUICE" export "$dir/again.plan" --to torchtitan | tail -n 1 | grep -qx 'activation-checkpoint:full' || fail "torchtitan recomputes"
"$SLUICE" export "$dir/again.plan" --to automodel | grep -qx '  activation_checkpointing: full' || fail "automodel recomputes"
"$SLUICE" export "$dir/again.plan" --to megatron | grep -qx -- '--recompute-granularity full' || fail "Megatron recomputes"
# torch's 1F1B refuses fewer micro-batches than stages: they come as CSV.
sed 's/^batch .*/batch 4/' "$dir/x.plan" >"$dir/few.plan"
"$SLUICE" export "$dir/few.plan" --to torchtitan | grep -q 'schedule_csv X.csv' || fail "few micro-batches"
# A plan for a schedule from a file: its passes as CSV, a note for Megatron, a refusal if it is asynchronous.
"$SLUICE" sched --chain "$stages" --schedule zb-h1 --micro 4 -o "$dir/own.sched" --quiet >/dev/null || fail "own.sched"
"$SLUICE" sched --chain "$stages" --schedule stash --micro 4 --iters 12 --passes -o "$dir/async.sched" --quiet >/dev/null ||
    fail "async.sched"
sed "s|^schedule .*|schedule \"$dir/own.sched\"|" "$dir/x.plan" >"$dir/own.plan"
sed "s|^schedule .*|schedule \"$dir/async.sched\"|" "$dir/x.plan" >"$dir/async.plan"
"$SLUICE" export "$dir/own.plan" --to csv -o "$dir/own.csv" || fail "csv of a file"
grep -q 'W' "$dir/own.csv" || fail "csv of a file: $(cat "$dir/own.csv")"
"$SLUICE" export "$dir/own.plan" --to megatron 2>"$dir/why" >/dev/null || fail "megatron of a file"
grep -q 'cannot request zb-h1: it will run 1f1b' "$dir/why" || fail "megatron of a file: $(cat "$dir/why")"
refused "flushes its pipeline" "$dir/async.plan" --to megatron
refused "one weight version" "$dir/async.plan" --to csv
# Equal pipelines have one CSV.
"$SLUICE" plan llama --set "$sizes" --machine 1x4:mem=1G,intra=5GB/s --batch 16 --micro 4 --schedule zb-h1 --planner pipedream-dp \
    --straight --whole-layers -o "$dir/four.plan" --quiet >/dev/null || fail "plan of four"
stages=$(grep -c '^stage ' "$dir/four.plan")
awk -v n="$stages" '/^workers/ {$2 *= 2} /^memory/ {print; $2 += n} /^batch/ {$2 *= 2}
    /^stage/ {$4 = 2; for (i = 1; i < NF; i++) if ($i == "on") $(i + 1) = $(i + 1) " " $(i + 1) + n} {print}' "$dir/four.plan" >"$dir/twice.plan"
"$SLUICE" export "$dir/four.plan" --to csv -o "$dir/four.csv" || fail "csv of four"
"$SLUICE" export "$dir/twice.plan" --to csv -o "$dir/twice.csv" 2>"$dir/why" || fail "csv of replicas: $(cat "$dir/why")"
grep -q 'one of 2 equal pipelines' "$dir/why" || fail "csv of replicas: $(cat "$dir/why")"
cmp "$dir/four.csv" "$dir/twice.csv" || fail "one of the equal pipelines is another"

# What a target cannot state is refused by name: branches, no embedding, uneven stages, frozen weights.
cut() { # MODEL SIZES OPTIONS...
    "$SLUICE" plan "$1" --set "$2" --machine 1x3:mem=1G,intra=5GB/s --batch 4 --micro 4 --schedule 1f1b --straight \
        --quiet "${@:3}" -o "$dir/cut.plan" >/dev/null || fail "plan $1"
}
cut mmt branches=2,T=8,L=2,C=8,H=2,F=8,classes=4 --pp 2 --planner balanced --whole-layers
refused "form one row, and modality.1 does not read from modality.0" "$dir/cut.plan" --to megatron
cut mlp "" --pp 2 --planner balanced --whole-layers
refused "begins with an embedding, and mlp has none" "$dir/cut.plan" --to megatron
frozen=(--freeze 'model.embed_tokens.*,model.layers.*')
cut llama "$sizes" --pp 2 --planner balanced --whole-layers "${frozen[@]}"
for target in megatron torchtitan automodel; do
    refused "no options for frozen weights" "$dir/cut.plan" --to $target "${frozen[@]}"
done
refused "train every stage, and s0 is frozen" "$dir/cut.plan" --to csv
if "$SLUICE" train --plan "$dir/cut.plan" --steps 1 2>"$dir/why"; then fail "train without --freeze"; fi
grep -q 'has frozen weights: give its --freeze' "$dir/why" || fail "$(cat "$dir/why")"
# Four stages on three ranks.
"$SLUICE" plan llama --set "$sizes" --machine 1x4:mem=1G,intra=5GB/s --batch 4 --micro 4 --schedule 1f1b --straight --pp 4 \
    --planner balanced --whole-layers --quiet -o "$dir/four.plan" >/dev/null || fail "four stages"
sed -e 's/^workers 4/workers 3/' -e '/^memory 3/d' -e '/^stage/s/on 3/on 0/' "$dir/four.plan" >"$dir/three.plan"
refused "as many stages on every rank, and here 4 stages are on 3 ranks" "$dir/three.plan" --to torchtitan
