#!/usr/bin/env bash
# Folders of pictures: the same bits on 1 and 3 stages, with other workers, resumed in the middle of an epoch, with
# random changes; the classes of the run; evaluation and prediction; a damaged picture.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fixtures=$SRC_DIR/tests/fixtures/images
for class in cat ant dog; do
    mkdir -p "$dir/set/$class/more"
    for i in 1 2 3 4; do
        cp "$fixtures/turn$i.jpg" "$dir/set/$class/$i.jpg"
        cp "$fixtures/palette.png" "$dir/set/$class/more/$i.png"
    done
    cp "$fixtures/base.jpg" "$dir/set/$class/"
done
cat >"$dir/small.model" <<'END'
model small "two convolutions"
size S = 12
size classes = 3
use layers
input image : float[B, 3, S, S]
input label : int[B] < classes
h = relu(conv(image, 6, 3, pad=1) as c1)
h = relu(conv(h, 8, 3, stride=2, pad=1) as c2)
h = reshape(h, [B, 8 * S * S / 4])
h = relu(dense(h, 16) as d1)
logits = dense(h, classes) as out
output logits = logits
loss cross_entropy(logits, label)
END
common=("$dir/small.model" --data "$dir/set" --images "resize=14,crop=random,flip=1" --batch 8 --micro 4 --seed 3 --eval-every 3 --quiet)
"$SLUICE" train "${common[@]}" --steps 7 --out "$dir/one" 2>"$dir/err" || {
    grep -q 'built without' "$dir/err" && exit 77
    cat "$dir/err"
    exit 1
}
"$SLUICE" train "${common[@]}" --steps 7 --stages 3 --out "$dir/three"
"$SLUICE" train "${common[@]}" --steps 7 --stages 2 --replicas 2 --out "$dir/four"
"$SLUICE" train "${common[@]}" --steps 4 --out "$dir/part"
"$SLUICE" train --resume --out "$dir/part" --steps 7 --stages 3 --quiet
for other in three part; do "$SLUICE" compare "$dir/one" "$dir/$other" >/dev/null; done
grep -q '"classes": \["ant", "cat", "dog"\]' "$dir/one/categories.json"
cmp "$dir/one/categories.json" "$dir/part/categories.json"
grep -q '"data_ms"' "$dir/one/log.jsonl"
# Another folder with some of the classes: the numbers are those of the run.
mkdir -p "$dir/test/dog"
cp "$fixtures"/turn[1-3].jpg "$dir/test/dog"
"$SLUICE" predict "$dir/one" --data "$dir/test" --what classes -o "$dir/p.jsonl" --quiet
[ "$(wc -l <"$dir/p.jsonl")" = 3 ]
"$SLUICE" eval "$dir/one" --data "$dir/test" --validation 2 --json | grep -q '"samples": *2'
mkdir "$dir/test/eel"
cp "$fixtures/turn1.jpg" "$dir/test/eel"
code=0
"$SLUICE" eval "$dir/one" --data "$dir/test" --validation 2 2>"$dir/err" || code=$?
[ "$code" = 3 ]
grep -q "'eel' is not one of the 3 categories" "$dir/err"
# A damaged picture is named.
head -c 300 "$fixtures/base.jpg" >"$dir/set/dog/base.jpg"
code=0
"$SLUICE" train "${common[@]}" --steps 9 2>"$dir/err" || code=$?
[ "$code" = 3 ]
grep -q 'dog/base.jpg: damaged JPEG' "$dir/err"
echo "count: 4 layouts"
