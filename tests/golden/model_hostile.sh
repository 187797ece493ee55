#!/usr/bin/env bash
# Hostile model texts: each gives one error line and exit 3, soon and in little memory.
set -euo pipefail
fail() { echo "FAILED: $*" && exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
seconds=2
[ "$SL_PRESET" = release ] || seconds=20
count=0

refuse() { # NAME: the file x.model must be refused
    local rc=0
    (
        # Sanitizers reserve terabytes; the limit is for the release build.
        [ "$SL_PRESET" != release ] || ulimit -v 1500000
        ulimit -t "$seconds" # of the processor: what else the machine does is not our fault
        timeout 100 "$SLUICE" model x.model >out 2>err
    ) || rc=$?
    [ "$rc" = 3 ] || fail "$1: exit $rc $(head -c 300 err)"
    [ "$(wc -l <err)" = 1 ] || fail "$1: not one line: $(head -c 300 err)"
    grep -q '^sluice: x.model' err || fail "$1: no place: $(head -c 300 err)"
    count=$((count + 1))
}
again() { # N TEXT: TEXT N times, without newlines
    awk -v n="$1" -v text="$2" 'BEGIN { for (i = 0; i < n; i++) printf "%s", text }'
}

{ printf 'size N = ' && again 100000 '(' && printf 1 && again 100000 ')'; } >x.model
refuse "parentheses"
{ printf 'size N = ' && again 100000 '[' && printf 1; } >x.model
refuse "brackets"
{ printf 'size N = 1' && again 2000000 '+1'; } >x.model
refuse "a long sum"
{ printf 'size N = ' && again 1000000 '-' && printf 1; } >x.model
refuse "signs"
{ printf 'size N = ' && again 1000000 'not ' && printf 1; } >x.model
refuse "not not"
{ printf 'size N = x' && again 100000 '[0]'; } >x.model
refuse "indices"
{ printf 'size N = ' && again 60 'min(1, ' && printf nope && again 60 ')'; } >x.model
refuse "nested min"
again 100000 'if 1 { ' >x.model
refuse "blocks"
{ again 100000 'if 0 { } else ' && printf '{ }'; } >x.model
refuse "else if"
{ printf 'x = [' && again 4000000 '1,' && printf ']'; } >x.model
refuse "a long list"
{ printf 'x = [1]\nrepeat i in 0..100 {\n x = x + x\n}\n'; } >x.model
refuse "a list that doubles"
{ printf 'x = [1]\nrepeat i in 0..60000 {\n x = x + [1]\n}\n'; } >x.model
refuse "a list that grows"
printf 'fn f(n) { return [f(n), f(n)] }\nx = f(1)\n' >x.model
refuse "recursion"
{
    printf 'fn f0(x) { return 1 }\n'
    for i in $(seq 60); do echo "fn f$i(x) { return f$((i - 1))(f$((i - 1))(x)) }"; done
    echo 'x = f60(1)'
} >x.model
refuse "calls that double"
printf 'input x : float[B,3]\nrepeat i in 0..900000 {\n x = relu(x)\n}\nloss reduce_sum(x)\n' >x.model
refuse "too many nodes"
printf 'repeat a in 0..99999 { repeat b in 0..99999 { repeat c in 0..99999 { } } }\n' >x.model
refuse "nested repeats"
{ printf 'input ' && again 1000000 x && printf ' : float[B]\n'; } >x.model
refuse "a long name"
{ printf 'fn f(x) { return g(x) as ' && again 60 n && printf ' }\nfn g(x) { return f(x) as ' && again 60 m && printf ' }\nx = f(1)\n'; } >x.model
refuse "long scopes"
{ printf 'input x : float[B]\n' && awk 'BEGIN { for (i = 0; i < 200000; i++) printf "output o%d = x\n", i }'; } >x.model
refuse "many outputs"
{ printf 'model ' && again 1000000 m && printf ' "b"\n'; } >x.model
refuse "a long model name"
{ printf 'use ' && again 1000 m && printf '\n'; } >x.model
refuse "a long use"
head -c 300000 /dev/urandom >x.model
refuse "noise"
head -c 16000000 /dev/zero >x.model
refuse "zeros"
head -c 17000000 /dev/zero | tr '\0' '#' >x.model
refuse "too large a file"
again 8000000 '1;' >x.model
refuse "eight million statements"
printf '\xef\xbb\xbfmodel m\n' >x.model
refuse "a byte order mark"
# Every strict prefix of a model that ends inside something, and every byte of it turned over.
sed -n '1,60p' "$SRC_DIR/models/mlp.model" | grep -v '^ *#' >whole
size=$(wc -c <whole)
step=7
[ "$SL_PRESET" = release ] || step=53
for ((at = 0; at < size - 45; at += step)); do
    head -c "$at" whole >x.model
    refuse "the first $at bytes"
done
echo "count: $count hostile texts refused"
