#!/usr/bin/env bash
# --resume takes MODEL and all options from the run; differences are listed, and refused if the run would not
# continue with the same bits. --config and --print-config.
set -euo pipefail
# shellcheck source=tests/support/workplace.sh
. "$SRC_DIR/tests/support/workplace.sh"
cd "$work"
sizes=(--set "V=37,T=13,P=17,L=1,C=18,H=3,drop=0.1")
train() { "$SLUICE" train "$@" 2>"$work/err"; }
refuse() { # STATUS PATTERN ARGUMENTS...
    local rc=0
    train "${@:3}" >/dev/null || rc=$?
    [ $rc -eq "$1" ] || fail "${*:3}: exit $rc, not $1"
    grep -q -e "$2" "$work/err" || fail "${*:3}: the message is not '$2'"
}
same() { # RUN RUN
    "$SLUICE" compare "$1" "$2" >"$work/compare" || fail "$2 is not $1: $(cat "$work/compare")"
}
has() { grep -q -e "$1" "$work/err" || fail "no line '$1'"; }
lacks() { ! grep -q -e "$1" "$work/err" || fail "there is a line '$1'"; }

# All options are taken from the run. The total of the learning-rate schedule stays when --steps changes.
job=(gpt-nano "${sizes[@]}" --batch 6 --micro 2 --lr 3e-3 --lr-schedule "cosine:warmup=2,min=0.1"
    --optimizer adamw:wd=0.2 --clip 0.3 --seed 7 --eval-every 4 --threads 2)
train "${job[@]}" --steps 12 --out whole
"$SLUICE" train "${job[@]}" --steps 100000000 --out part --checkpoint-every 1 2>"$work/err" &
pid=$!
until [ -s part/log.jsonl ] && [ "$(wc -l <part/log.jsonl)" -ge 3 ]; do kill -0 $pid || fail "ended"; done
kill -TERM $pid
wait $pid || fail "SIGTERM"
pid=
steps=$(($(tail -n 1 part/log.jsonl | sed 's/.*"step": \([0-9]*\).*/\1/') + 5))
cp -r part again
train --resume --out part --steps $steps || fail "--resume needs more than --out"
has "changed: steps is $steps, the run had 100000000"
lacks "changed: lr"
grep -q '"lr": 0.003,' part/config.json || fail "config.json has another lr"
grep -q "\"steps\": $steps," part/config.json || fail "config.json does not follow"
total=("${job[@]/%min=0.1/min=0.1,total=100000000}")
train "${total[@]}" --steps $steps --out long
same long part
# The same options again are no difference.
train "${total[@]}" --steps $steps --resume --out again
lacks "changed: [^s]"
same long again

# A change that breaks exactness is refused; nothing is touched.
cp -r part before
more=$((steps + 4))
refuse 1 "lr was 0.003 and is 0.0001" --resume --out part --steps $more --lr 1e-4
refuse 1 "batch was 6 and is 4" --resume --out part --steps $more --batch 4
refuse 1 "optimizer was \"adamw:wd=0.2\" and is \"sgd\"" --resume --out part --steps $more --optimizer sgd
refuse 1 "replicas was 0 and is 2" --resume --out part --steps $more --stages 2 --replicas 2
refuse 1 "schedule was \"\" and is \"stash\"" --resume --out part --steps $more --stages 2 --schedule stash
refuse 1 "allow-change" --resume --out part --steps $more --seed 8
diff -r before part >/dev/null || fail "a refused run was touched"
train --resume --out part --steps $more --lr 1e-4 --batch 4 --allow-change || fail "--allow-change"
has "changed: lr is 0.0001, the run had 0.003 (other results"
grep -q '"lr": 0.0001,' part/config.json || fail "config.json has the old lr"
grep -q '"batch": 4,' part/config.json || fail "config.json has the old batch"
# Another layout of a synchronous schedule keeps the bits.
train --resume --out again --steps $more --stages 2 --schedule gpipe || fail "a pipeline continues the run"
train --resume --out long --steps $more
same long again
train --resume --out again --steps $((more + 1)) --stages 2 --schedule 1f1b || fail "another schedule"

# Other data: refused, unless allowed; another path of the same data is fine.
for name in a b; do for ((i = 0; i < 300; i++)); do echo -n "$name $i "; done >$name.txt; done
train gpt-nano --set T=8,P=8,L=1,C=12,H=2 --data a.txt --steps 3 --out data
mv a.txt c.txt
refuse 1 "trained on other data" --resume --out data --steps 4 --data b.txt
train --resume --out data --steps 4 --data c.txt || fail "moved data"
has 'changed: data is "c.txt", the run had "a.txt"'
train --resume --out data --steps 5 --data b.txt --allow-change || fail "--allow-change of data"

# Another graph is refused, also with --allow-change.
printf 'model m\ninput x : float[B,4]\ninput y : float[B,1]\nparam w[4,4] ~ normal(0.3)\nparam v[4,1] ~ normal(0.3)\nloss mse(matmul(relu(matmul(x, w)), v), y)\n' >m.model
train m.model --steps 2 --out graph
sed 's/relu/tanh/' m.model >tanh.model
for allow in "" --allow-change; do
    refuse 3 "trained with another model: line [0-9]* of model.model is '.*relu.*', not '.*tanh" tanh.model --resume \
        --out graph --steps 4 $allow
done
mv tanh.model m.model # bare --resume continues with the model of the run
train --resume --out graph --steps 4 || fail "the run's own model"
grep -q relu graph/model.model || fail "model.model has changed"
refuse 2 "name its model" --resume --out none
rm graph/config.json
refuse 3 "has checkpoints but no config.json" --resume --out graph

# A pipeline with a plan: the plan of the run.
"$SLUICE" plan gpt-nano "${sizes[@]}" --devices 2 --batch 8 -o x.plan >/dev/null 2>"$work/err" || fail "plan"
train gpt-nano "${sizes[@]}" --plan x.plan --batch 8 --micro 2 --steps 2 --out planned
rm x.plan
train --resume --out planned --steps 4 || fail "a run with a plan"

# A run of 0.1.0: config.json has only the fields that change results, plan.plan no hash of the graph.
stale=(gpt-nano "${sizes[@]/L=1/L=2}" --stages 2 --schedule stash --batch 6 --micro 3)
train "${stale[@]}" --eval-every 2 --checkpoint-every 2 --steps 4 --keep 0 --out stale
rm -r stale/ckpt/step-00000004
sed -i -E '/"(stages|workers|bind|lend|emulate|eval_every|eval_samples|checkpoint_every|save|keep|trace|log_staleness|audit|stall_timeout)":/d;
    s/"slack": .*/"slack": 0/; s/clip_scope/verdict/; s/"global"/"all"/' stale/config.json
sed -i 's/ graph "[0-9a-f]*"//' stale/plan.plan
cp -r stale other
train "${stale[@]}" --eval-every 2 --steps 4 --resume --out stale || fail "a run of 0.1.0"
refuse 1 "plan was that of the run and is another" "${stale[@]}" --workers 1 --eval-every 2 --steps 4 --resume --out other
cp -r other bare
train --resume --out bare --steps 4 || fail "a run of 0.1.0 without options"

# --print-config and --config are inverse; options replace the fields of the file.
train "${job[@]}" --steps 12 --print-config >job.toml
train --config job.toml --print-config >again.toml
diff job.toml again.toml || fail "TOML does not read back"
train --config job.toml --print-config --json >job.json
train --config job.json --print-config | diff job.toml - || fail "JSON is another job"
train --config job.toml --out conf
same whole conf
train --config job.toml --batch 4 --print-config | grep -q "^batch = 4 " || fail "an option does not replace the file's"
printf 'model = "gpt-nano"\nbatsh = 4\n' >bad.toml
refuse 3 "bad.toml:2:1: unknown field 'batsh'; did you mean 'batch'" --config bad.toml
