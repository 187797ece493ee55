#!/usr/bin/env bash
# A table with text: the run keeps the categories; other files of the run get its numbers; stages and resume.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
{
    echo "size,colour,kind"
    for i in $(seq 40); do
        case $((i % 3)) in 0) echo "$i,red,owl" ;; 1) echo "$((i * 2)),blue,ant" ;; 2) echo "0.$i,green,\"big cat\"" ;; esac
    done
} >"$dir/t.csv"
cat >"$dir/m.model" <<'END'
model m "a table with categories"
size colours = 3
use layers
input size : float[B, 1]
input colour : int[B] < colours
input label : int[B] < 3
param table[colours, 4] ~ normal(0, 1)
h = embed(table, colour) + (dense(size, 4) as d0)
logits = dense(relu(h), 3) as out
output logits = logits
loss cross_entropy(logits, label)
END
common=("$dir/m.model" --batch 8 --micro 2 --seed 3 --eval-every 0 --quiet)
"$SLUICE" train "${common[@]}" --data "$dir/t.csv" --steps 9 --out "$dir/one"
"$SLUICE" train "${common[@]}" --data "$dir/t.csv" --steps 9 --stages 3 --out "$dir/three"
"$SLUICE" train "${common[@]}" --data "$dir/t.csv" --steps 3 --out "$dir/part"
"$SLUICE" train --resume --out "$dir/part" --steps 9 --stages 3 --quiet
for other in three part; do "$SLUICE" compare "$dir/one" "$dir/$other" >/dev/null; done
grep -q '"colour": \["blue", "green", "red"\]' "$dir/part/categories.json"
grep -q '"kind": \["ant", "big cat", "owl"\]' "$dir/part/categories.json"
# Alone, "red" and "owl" would be number 0.
printf 'size,colour,kind\n3,red,owl\n6,red,owl\n' >"$dir/u.csv"
sed -n '1p;4p;7p' "$dir/t.csv" >"$dir/v.csv"
"$SLUICE" predict "$dir/one" --data "$dir/u.csv" -o "$dir/u.jsonl" --quiet
"$SLUICE" predict "$dir/one" --data "$dir/v.csv" -o "$dir/v.jsonl" --quiet
cmp "$dir/u.jsonl" "$dir/v.jsonl"
printf 'size,colour,kind\n3,pink,owl\n' >"$dir/w.csv"
code=0
"$SLUICE" predict "$dir/one" --data "$dir/w.csv" -o "$dir/w.jsonl" --quiet 2>"$dir/err" || code=$?
[ "$code" = 3 ]
grep -q "'pink' is not one of the 3 categories of the run: blue, green, red" "$dir/err"
echo "count: 3 layouts"
