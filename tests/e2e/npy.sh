#!/usr/bin/env bash
# Arrays that numpy writes: the same weights as from a table, for every type and order that holds the values;
# stages, resume in the middle of an epoch, eval and predict. SL_PYTHON names a Python with numpy.
set -euo pipefail
python=${SL_PYTHON:-python3}
"$python" -c 'import numpy' 2>/dev/null || { echo "no numpy"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"$python" - "$dir" <<'END'
import sys, numpy as np
at = sys.argv[1] + "/"
rng = np.random.default_rng(7)
x = rng.integers(0, 100, (53, 6)).astype("f8")
y = rng.integers(0, 5, 53)
np.savetxt(at + "t.csv", np.c_[x, y], "%g", ",", header=",".join([f"x{i}" for i in range(6)] + ["label"]), comments="")
for name, form in dict(f4=x.astype("f4"), f8=np.asfortranarray(x), big=x.astype(">f2"), u1=np.asfortranarray(x.astype("u1"))).items():
    np.save(at + name + ".npy", form)
np.save(at + "y.npy", y.astype(">i2"))
np.savez(at + "plain.npz", X=x, y=y)
np.savez_compressed(at + "small.npz", x_train=x.astype("i8"), y_train=y.astype("u4"))
END
common=(mlp --set "N=6,W=16,L=2,classes=5" --batch 8 --seed 3 --eval-every 0 --validation 0 --quiet)
"$SLUICE" train "${common[@]}" --data "$dir/t.csv" --steps 11 --out "$dir/csv"
sets=("$dir/plain.npz" "$dir/small.npz")
for form in f4 f8 big u1; do sets+=("x=$dir/$form.npy,label=$dir/y.npy"); done
for i in "${!sets[@]}"; do
    "$SLUICE" train "${common[@]}" --data "${sets[i]}" --steps 11 --out "$dir/$i"
    "$SLUICE" compare --weights "$dir/csv" "$dir/$i" >/dev/null
done
"$SLUICE" train "${common[@]}" --data "${sets[0]}" --steps 11 --stages 3 --micro 2 --out "$dir/three"
"$SLUICE" train "${common[@]}" --data "${sets[0]}" --steps 11 --micro 2 --out "$dir/one"
"$SLUICE" compare "$dir/one" "$dir/three" >/dev/null
"$SLUICE" train "${common[@]}" --data "${sets[0]}" --steps 3 --micro 2 --out "$dir/part"
"$SLUICE" train "${common[@]}" --data "${sets[0]}" --steps 11 --micro 2 --stages 3 --out "$dir/part" --resume --allow-change
"$SLUICE" compare "$dir/one" "$dir/part" >/dev/null
"$SLUICE" predict "$dir/csv" --data "${sets[3]}" --what classes -o "$dir/a.jsonl" --quiet
"$SLUICE" predict "$dir/csv" --data "$dir/t.csv" --what classes -o "$dir/b.jsonl" --quiet
cmp "$dir/a.jsonl" "$dir/b.jsonl"
[ "$(wc -l <"$dir/a.jsonl")" = 53 ]
"$SLUICE" eval "$dir/csv" --data "${sets[1]}" --validation 20 --json | grep -q '"samples": *20'
echo "count: ${#sets[@]} forms of arrays"
