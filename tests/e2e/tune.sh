#!/usr/bin/env bash
# Fine-tuning: pipelines with --freeze and --lora have the bits of one worker; runs with adapters resume
# exactly and refuse another choice; adapters merge on export and are exported apart; plans give frozen
# stages more layers; wrong lists are refused by name.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export SLUICE_MODELS=$SRC_DIR/models
fail() {
    echo "tune: $*" >&2
    exit 1
}
# shellcheck source=tests/support/commands.sh
. "$SRC_DIR/tests/support/commands.sh"
same() { # FILE FILE
    cmp "$1" "$2" >/dev/null || fail "$1 and $2 differ"
}
weights() { # RUN
    sluice ckpt convert "$1" -o "$1.safetensors"
}
gpt=(gpt-nano --set "L=4,C=32,T=16,P=16,V=64,tied=0" --data synthetic --batch 8)

# ---- pipelines ----
lower=(--freeze "wte,wpe" --freeze "h.0,h.1")
for schedule in 1f1b zb-h1 zb-graph gpipe; do
    for freeze in "wte,wpe,h.0,h.1" "h.1,h.3" "*,!h.2*" "*,!lm_head"; do
        sluice check "${gpt[@]}" --micro 4 --steps 2 --stages 4 --schedule $schedule --freeze "$freeze"
        grep -q "bit for bit" "$dir/log" || fail "$schedule $freeze: $(cat "$dir/log")"
    done
    sluice check "${gpt[@]}" --micro 4 --steps 2 --stages 3 --schedule $schedule --lora rank=2,targets=attn.c_attn
done
sluice check "${gpt[@]}" --micro 4 --steps 2 --stages 2 --replicas 2 "${lower[@]}"
sluice check "${gpt[@]}" --micro 4 --steps 2 --stages 3 --recompute "${lower[@]}"
sluice check "${gpt[@]}" --micro 4 --steps 2 --stages 4 --workers 2 --schedule interleaved "${lower[@]}"

sluice train "${gpt[@]}" --micro 4 --steps 2 --tp 2 "${lower[@]}" --out "$dir/tp"
sluice train "${gpt[@]}" --micro 4 --steps 2 --tp 2 --stages 2 "${lower[@]}" --out "$dir/tps"
weights "$dir/tp"
weights "$dir/tps"
same "$dir/tp.safetensors" "$dir/tps.safetensors"

# ---- the stages say what they do; forward stages have one stash ----
sluice train "${gpt[@]}" --micro 4 --steps 2 --stages 4 --schedule zb-h1 "${lower[@]}" --out "$dir/staged"
grep -q "^stage s0 .* forward$" "$dir/staged/plan.plan" || fail "no forward stage: $(cat "$dir/staged/plan.plan")"
grep -q "fixed [1-9]" "$dir/staged/plan.plan" || fail "no fixed bytes"

# ---- adapters: resume, in a pipeline and in another layout; another choice is refused ----
folder=$SRC_DIR/tests/fixtures/hf/llama
lora=(--lora "rank=2,alpha=6,targets=q_proj,v_proj,down_proj")
tune=("$folder" "${lora[@]}" --data synthetic --set T=7 --batch 4 --micro 2 --lr 0.05)
sluice train "${tune[@]}" --steps 6 --out "$dir/one"
sluice train "${tune[@]}" --steps 3 --stages 3 --out "$dir/parts"
sluice train --resume --out "$dir/parts" --stages 2 --steps 6
weights "$dir/one"
weights "$dir/parts"
same "$dir/one.safetensors" "$dir/parts.safetensors"
sluice train "${tune[@]}" --steps 6 --stages 2 --schedule 2bw --out "$dir/whole"
sluice train "${tune[@]}" --steps 3 --stages 2 --schedule 2bw --out "$dir/half"
sluice train --resume --out "$dir/half" --steps 6
weights "$dir/whole"
weights "$dir/half"
same "$dir/whole.safetensors" "$dir/half.safetensors"
refused 3 "was trained with another model" train --resume --out "$dir/one" --steps 7 --lora rank=4,targets=q_proj
refused 3 "was trained with another model" train --resume --out "$dir/one" --steps 7 --freeze "*.lora_A.weight"

# ---- export: merged weights compute the same, adapters apart have PEFT's names ----
sluice export "$dir/one" --to hf "$dir/merged"
sluice predict "$dir/one" --data synthetic --samples 5 --what logits -o "$dir/one.jsonl"
sluice predict "$dir/merged" --data synthetic --set T=7 --samples 5 --what logits -o "$dir/merged.jsonl"
awk -F'[][,:{} ]+' 'NR == FNR { for (i = 1; i <= NF; i++) want[FNR, i] = $i; next }
    { for (i = 1; i <= NF; i++) { d = $i - want[FNR, i]; if (d < 0) d = -d; if (d > worst) worst = d; n++ } }
    END { if (n < 500 || worst > 1e-5) { print n " numbers, off by " worst; exit 1 } }' \
    "$dir/one.jsonl" "$dir/merged.jsonl" || fail "the merged model computes something else"
if cmp -s "$dir/merged/model.safetensors" "$folder/model.safetensors"; then fail "nothing was merged"; fi
grep -q lora <(head -c 4000 "$dir/merged/model.safetensors") && fail "the merged model has adapters"
sluice export "$dir/one" --to peft "$dir/peft"
grep -q '"r": 2' "$dir/peft/adapter_config.json" || fail "$(cat "$dir/peft/adapter_config.json")"
grep -qa "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight" "$dir/peft/adapter_model.safetensors" ||
    fail "names of adapters"
refused 1 "no run with adapters" export "$dir/staged" --to peft "$dir/none"

# ---- plans: frozen layers cost less, so the stage of the trained ones gets fewer ----
nodes_of_s0() {
    sluice plan gpt-nano --set "L=8,tied=0" --devices 2 --batch 32 --planner sluice --straight --time-limit 5 \
        -o "$dir/x.plan" "$@"
    grep -c "" "$dir/x.plan" >/dev/null
    awk '/^nodes s0 /{ n = 0; for (i = 3; i <= NF; i++) { split($i, r, "[.][.]"); n += (r[2] ? r[2] : r[1]) - r[1] + 1 }; print n }' "$dir/x.plan"
}
even=$(nodes_of_s0)
frozen=$(nodes_of_s0 --freeze "wte,wpe,h.0,h.1,h.2,h.3,h.4")
[ "$frozen" -gt "$even" ] || fail "stage 0 has $frozen nodes, $even without frozen layers"
refused 1 "the plan is for another model" train gpt-nano --set "L=8,tied=0" --data synthetic --plan "$dir/x.plan" --steps 1
sluice train gpt-nano --set "L=8,tied=0" --data synthetic --freeze "wte,wpe,h.0,h.1,h.2,h.3,h.4" --plan "$dir/x.plan" --steps 1

# ---- refusals ----
refused 3 "no parameter of gpt-nano matches 'hed'" train "${gpt[@]}" --freeze hed --steps 1
refused 3 "nothing would train" train "${gpt[@]}" --freeze "*" --steps 1
refused 2 "targets= is missing" train "${gpt[@]}" --lora rank=8 --steps 1
refused 2 "no key 'rnk'" train "${gpt[@]}" --lora rnk=8 --steps 1
refused 3 "is no weight of a matrix product" train "${gpt[@]}" --lora targets=wpe --steps 1
refused 2 "expected a whole number" train "${gpt[@]}" --lora rank=2.5,targets=c_attn --steps 1
echo "count: 23 pipelines of tuned models checked"
