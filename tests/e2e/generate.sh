#!/usr/bin/env bash
# sluice sample: the same text alone, together with others, in chunks, with threads and in stages; stop
# strings; texts longer than the context; folders of Hugging Face; models that cannot use caches.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
fail() {
    echo "generate: $*" >&2
    exit 1
}
# shellcheck source=tests/support/commands.sh
. "$SRC_DIR/tests/support/commands.sh"
cat "$SRC_DIR"/docs/*.md >text.txt
"$SLUICE" train gpt2 --set V=257,T=40,P=40,L=3,C=32,H=2 --data text.txt --steps 40 --batch 8 --lr 0.01 \
    --quiet --out run
one() { # OPTIONS: text of the first prompt
    "$SLUICE" sample run --quiet --prompt "The model" --tokens 25 "$@"
}
one >alone
[ "$(wc -c <alone)" -gt 25 ] || fail "too short: $(cat alone)"
for way in "--chunk 1" "--chunk 3" "--threads 3" "--stages 2" "--stages 3 --chunk 5"; do
    read -ra options <<<"$way"
    one "${options[@]}" >other
    cmp alone other || fail "$way gives another text"
done
for way in "--together 3" "--together 2" "--stages 2 --chunk 7"; do
    read -ra options <<<"$way"
    one --prompt "A" --prompt "sluice sample writes a text" "${options[@]}" >all
    sed -n '/^---- 1/,/^---- 2/p' all | sed '1d;$d' >first
    cmp alone first || fail "$way: the first of three texts differs"
    sed '1,/^---- 2/d' all >"rest${#options[@]}"
done
cmp rest2 rest4 || fail "the other texts differ"
printf 'The model\n"A"\nsluice sample writes a text\n' >prompts
"$SLUICE" sample run --quiet --prompts prompts --tokens 25 >from-file
"$SLUICE" sample run --quiet --prompt "The model" --prompt A --prompt "sluice sample writes a text" --tokens 25 >given
cmp from-file given || fail "prompts of a file"

# ---- stop strings: the text before them, also when they span tokens ----
"$SLUICE" sample run --quiet --prompt "The model" --tokens 200 --temperature 0 >long
[ "$(wc -c <long)" -gt 200 ] || fail "a text does not go on behind the context"
stop=$(tail -c +20 long | head -c 3)
"$SLUICE" sample run --quiet --prompt "The model" --tokens 200 --temperature 0 --stop "$stop" >stopped
begin=$(cat stopped)
[ "${#begin}" -lt 25 ] || fail "it did not stop at '$stop': $begin"
case $(cat long) in "$begin$stop"*) ;; *) fail "'$begin' is not the begin" ;; esac
"$SLUICE" sample run --quiet --tokens 5 --top-p 0.0001 --prompt "The model" >greedy
"$SLUICE" sample run --quiet --tokens 5 --temperature 0 --prompt "The model" >most
cmp greedy most || fail "--top-p near 0 is not greedy"

# ---- a folder of Hugging Face needs a tokenizer; other models ----
refused 2 "--stop" sample run --stop ""
refused 3 "No such file" sample run --prompts none
refused 1 "cannot write text" sample "$SRC_DIR/tests/fixtures/hf/gpt2" --prompt a
refused 1 "stages" sample run --stages 9
"$SLUICE" train residual-lstm --set V=257,T=12,C=16,L=2,classes=0 --data text.txt --steps 1 --batch 2 --quiet --out lstm
"$SLUICE" sample lstm --tokens 4 >out 2>err || fail "$(cat err)"
grep -q "without cached keys" err || fail "$(cat err)"
echo "count: 8 layouts, 3 texts, 4 refusals"
