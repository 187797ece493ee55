#!/usr/bin/env bash
# JSON lines: training on text and on answers, the same bits on stages, resume in the middle of an epoch.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
for i in $(seq 40); do
    printf '{"text": "line %d of the file, %d times water"}\n' "$i" $((i * i)) >>"$dir/a.jsonl"
    printf '{"messages": [{"role": "user", "content": "%d?"}, {"role": "assistant", "content": "%d!"}]}\n' "$i" "$i" >>"$dir/b.jsonl"
done
common=(gpt-nano --set "V=330,T=96,P=96,L=2,C=24,H=2" --batch 8 --micro 2 --tokenizer "$SRC_DIR/tests/fixtures/tokenizers/qwen2.json" --seed 3 --eval-every 0)
for name in a b; do
    data=(--data "$dir/$name.jsonl" --chat-template chatml)
    "$SLUICE" train "${common[@]}" "${data[@]}" --steps 8 --out "$dir/$name.one" --quiet
    "$SLUICE" train "${common[@]}" "${data[@]}" --steps 8 --stages 2 --out "$dir/$name.two" --quiet
    "$SLUICE" train "${common[@]}" "${data[@]}" --steps 3 --out "$dir/$name.part" --quiet
    "$SLUICE" train "${common[@]}" "${data[@]}" --steps 8 --out "$dir/$name.part" --resume --quiet
    "$SLUICE" compare "$dir/$name.one" "$dir/$name.two" >/dev/null
    "$SLUICE" compare "$dir/$name.one" "$dir/$name.part" >/dev/null
done
# Both files, with weights.
data=(--data "packed:$dir/a.jsonl:0.7,$dir/b.jsonl:0.3" --chat-template chatml)
"$SLUICE" train "${common[@]}" "${data[@]}" --steps 8 --out "$dir/mix.one" --quiet
"$SLUICE" train "${common[@]}" "${data[@]}" --steps 3 --out "$dir/mix.part" --quiet
"$SLUICE" train "${common[@]}" --steps 8 --stages 2 --out "$dir/mix.part" --resume --quiet
"$SLUICE" compare "$dir/mix.one" "$dir/mix.part" >/dev/null
"$SLUICE" train "${common[@]}" --data "packed:$dir/a.jsonl" --steps 2 --quiet
code=0
"$SLUICE" train "${common[@]}" --data "$dir/b.jsonl" --steps 2 --quiet 2>"$dir/err" || code=$?
[ "$code" = 3 ]
grep -q 'choose one with .*chat.template.*chatml' "$dir/err"
code=0
"$SLUICE" train "${common[@]}" --data "text:$dir/a.jsonl" --steps 2 --quiet 2>"$dir/err" || code=$?
[ "$code" = 3 ]
grep -q 'not plain text' "$dir/err"
echo "count: 2 files on 3 layouts"
