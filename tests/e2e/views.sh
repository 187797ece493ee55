#!/usr/bin/env bash
# Views of parameters and of sums: a stage that reads a view of another stage's parameter gives the
# bits of one worker; a norm of a reshaped sum has the rows of the reshaped tensor.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail() {
    echo "views: $*" >&2
    exit 1
}
cat >"$dir/param.model" <<'END'
model param "a reshaped parameter"
input x : float[B,3,8,8]
input labels : float[B,3,8,8]
param w[4] ~ normal(0.5)
param v[4] ~ normal(0.5)
param c.w[3,8,1,1] ~ normal(0.5)
param d.w[8,3,1,1] ~ normal(0.5)
y = conv2d(x, d.w)
r = reshape(y, shape = [B,4,128])
w1 = reshape(w, shape = [4,1])
m = mul(r, w1)
v1 = reshape(v, shape = [4,1])
a = add(m, v1)
w2 = reshape(w, shape = [4,1])
p = mul(a, w2)
z = reshape(p, shape = [B,8,8,8])
o = conv2d(z, c.w)
l = mse(o, labels)
loss loss = l
END
cat >"$dir/sum.model" <<'END'
model sum "a norm of a reshaped sum"
input x : float[B,3,8,8]
param d.w[16,3,2,2] ~ normal(0.5)
param e.w[16,3,2,2] ~ normal(0.5)
param h[256] ~ normal(1)
param g[128] ~ ones
y = conv2d(x, d.w, stride = [2,2])
k = conv2d(x, e.w, stride = [2,2])
z = add(y, k)
r = reshape(z, shape = [B,2,128])
n = layernorm(r, g)
f = reshape(n, shape = [B,256])
s = mul(f, h)
q = mul(s, s)
l = reduce_mean(q)
loss loss = l
END
losses() {
    "$SLUICE" train "$dir/$1.model" --data synthetic --batch 4 --micro 2 --steps 3 --clip 0 \
        --optimizer sgd --lr 0.01 --device "$2" 2>&1 |
        sed -n 's/^step \([0-9]*\)[^ ]* *loss \([^ ]*\) *norm \([^ ]*\).*/\1 \2 \3/p'
}
for model in param sum; do
    [ -n "$(losses "$model" cpu)" ] || fail "$model does not train"
    [ "$(losses "$model" cpu)" = "$(losses "$model" reference)" ] || fail "$model: cpu is wrong"
    for stages in 2 3; do
        "$SLUICE" check "$dir/$model.model" --stages "$stages" --batch 4 --micro 2 >"$dir/out" 2>&1 ||
            fail "$model in $stages stages: $(cat "$dir/out")"
    done
done
