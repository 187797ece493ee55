#!/usr/bin/env bash
# sluice tokenizer train: the command, and its results next to those of the package `tokenizers`, which SL_PYTHON
# has; that part is skipped without it.
set -euo pipefail
# shellcheck source=tests/support/workplace.sh
. "$SRC_DIR/tests/support/workplace.sh"
cd "$work"
refuse() { # PATTERN ARGUMENTS...
    ! "$SLUICE" tokenizer "${@:2}" >out 2>err || fail "${*:2}: not refused"
    grep -q -e "$1" err || fail "${*:2}: the message is not '$1': $(cat err)"
}
cat "$SRC_DIR"/docs/*.md >docs.txt
"$SLUICE" tokenizer train docs.txt --vocab-size 1000 --special '<|endoftext|>' -o t.json >out 2>err
grep -q "t.json: 1000 tokens, 743 merges" out || fail "$(cat out)"
"$SLUICE" tokenizer train docs.txt --vocab-size 1000 --special '<|endoftext|>' -o j.json --json >out
grep -q '"vocab": 1000' out || fail "$(cat out)"
cmp t.json j.json
# It trains on its tokens.
"$SLUICE" train gpt-nano --set V=1000,T=16,P=16,L=1,C=12,H=2 --data docs.txt --tokenizer t.json --steps 2 2>err || fail "training"
# Or on their file, with the same bits.
"$SLUICE" tokenizer encode docs.txt --tokenizer t.json -o docs.bin >out
[ "$(grep -o '[0-9]* tokens' out)" = "$(($(stat -c %s docs.bin) / 2)) tokens" ] || fail "$(cat out)"
for data in "docs.txt --tokenizer t.json" u16:docs.bin; do
    # shellcheck disable=SC2086
    "$SLUICE" train gpt-nano --set V=1000,T=16,P=16,L=1,C=12,H=2 --data $data --steps 2 --json 2>err | grep '"loss"' >>losses
done
[ "$(sort -u losses | wc -l)" -eq $(($(wc -l <losses) / 2)) ] || fail "other losses: $(cat losses)"
refuse "tokenizer PATH is missing" encode docs.txt -o x.json
refuse "No such file" encode none.txt --tokenizer t.json -o y.bin
"$SLUICE" tokenizer train docs.txt --vocab-size 10 -o small.json >out 2>err
grep -q "the vocabulary has 256 tokens, not 10" err || fail "a small vocabulary"
refuse "vocab-size N is missing" train docs.txt -o x.json
refuse "o FILE is missing" train docs.txt --vocab-size 300
refuse "at least one file" train --vocab-size 300 -o x.json
refuse "unknown verb 'learn'" learn docs.txt --vocab-size 300 -o x.json
refuse "No such file" train none.txt --vocab-size 300 -o x.json
refuse "given twice" train docs.txt --vocab-size 300 --special a --special a -o x.json
printf 'a\nb\377\n' >latin.txt
refuse "latin.txt: line 2 is not UTF-8" train latin.txt --vocab-size 300 -o x.json
[ ! -e x.json ] || fail "a refused training wrote a file"

python=${SL_PYTHON:-python3}
"$python" -c 'import tokenizers' 2>/dev/null || { echo "SKIPPED: $python has no tokenizers" && exit 77; }
count=20
[ "${SL_TEST_FULL:-}" != 1 ] || count=1000
cat "$SRC_DIR"/src/sched/*.c >code.txt
"$python" "$SRC_DIR/tests/e2e/tokenizer_train.py" "$SLUICE" $count docs.txt code.txt
