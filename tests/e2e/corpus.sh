#!/usr/bin/env bash
# bench/corpus.py on two packages that are built here: archives in archives, repetitions, split, tokens, checksums.
set -euo pipefail
# shellcheck source=tests/support/workplace.sh
. "$SRC_DIR/tests/support/workplace.sh"
for tool in python3 dpkg-deb xz; do
    command -v $tool >/dev/null || { echo "SKIPPED: no $tool" && exit 77; }
done
cd "$work"
licence=$(for i in {1..20}; do echo "This text is free, you may copy it, line $i of the licence."; done)
document() { # NUMBER
    printf '%s\n\n' "$licence"
    for i in {1..40}; do echo "Document $1 says in line $i that water flows through gate $((i * $1))."; done
}
for name in one two; do
    root=$name/usr/share/doc/$name
    mkdir -p "$root" "$name/DEBIAN"
    printf 'Package: %s\nVersion: 1\nArchitecture: all\nMaintainer: nobody <n@example.org>\nDescription: text\n' $name >"$name/DEBIAN/control"
done
for i in {1..30}; do document "$i" >"one/usr/share/doc/one/$i.txt"; done
mkdir source
for i in {25..60}; do document "$i" >"source/$i.c"; done
tar -cJf two/usr/share/doc/two/source.tar.xz source
document 61 | gzip -n >two/usr/share/doc/two/page.1.gz
printf 'caf\351 %s' "$(document 62)" >two/usr/share/doc/two/latin.txt
head -c 2000 /dev/zero >two/usr/share/doc/two/zeros
echo "too short" >two/usr/share/doc/two/short.txt
echo "not an archive" >two/usr/share/doc/two/broken.tar.gz
for name in one two; do dpkg-deb --root-owner-group -b $name $name.deb >/dev/null; done

build() { python3 "$SRC_DIR/bench/corpus.py" "$1" --vocab-size 400 --validation 0.2 --sluice "$SLUICE" "${@:2}"; }
build a --deb one.deb --deb two.deb >out
build b --deb two.deb --deb one.deb >/dev/null
for file in train.txt validation.txt tokenizer.json train.bin validation.bin; do cmp "a/$file" "b/$file" || fail "$file depends on the order"; done
python3 - <<'END' || fail "the manifest: $(cat a/manifest.json)"
import hashlib, json, os
m = json.load(open("a/manifest.json"))
parts = m["parts"]
assert parts["train"]["documents"] + parts["validation"]["documents"] == 61, parts
assert parts["validation"]["documents"] >= 3, parts
assert m["files"]["repeated"] == 6 and m["files"]["paragraphs_dropped"] == 60, m["files"]
assert m["files"]["not_text"] == 3, m["files"]
for part, c in parts.items():
    assert c["sha256"] == hashlib.sha256(open(f"a/{part}.txt", "rb").read()).hexdigest()
    assert os.path.getsize(f"a/{part}.bin") == 2 * c["tokens"]
text = open("a/train.txt").read() + open("a/validation.txt").read()
assert text.count("line 7 of the licence") == 1 and text.count("<|endoftext|>") == 61
assert "Document 61 says" in text and "Document 60 says" in text and "Document 62" not in text
END
(cd a && sha256sum train.txt) | grep -q "$(grep -A6 '"train"' a/manifest.json | grep -o '"sha256": "[0-9a-f]*"' | cut -d'"' -f4)" || fail "checksum"
"$SLUICE" train gpt-nano --set V=400,T=16,P=16,L=1,C=12,H=2 --data u16:a/train.bin --steps 2 2>err || fail "training on the tokens"
! build c >/dev/null 2>err || fail "nothing was named"
