#!/usr/bin/env bash
# The site of ./dev docs: every reference of every page leads to a file or heading; the search index has every
# page; a broken link is found. The settings that docs/coming-from.md names are accepted.
set -euo pipefail
fail() { echo "FAILED: $*" && exit 1; }
command -v python3 >/dev/null || { echo "SKIPPED: no python3" && exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 "$SRC_DIR/tools/site.py" "$work/site" || fail "site.py"
python3 - "$work/site" "$SRC_DIR/docs" <<'PY'
import html.parser, json, pathlib, sys
site, docs = map(pathlib.Path, sys.argv[1:])
pages = {}
class Reader(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.links, self.ids = [], set()
    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.links += [given[k] for k in ("href", "src") if k in given]
        self.ids.add(given.get("id"))
for path in site.glob("**/*.html"):
    if "results" in path.parts and path.name == "convergence.html":
        continue  # a page that the program wrote
    reader = Reader()
    reader.feed(path.read_text())
    pages[path] = reader
count = 0
for path, reader in pages.items():
    for link in reader.links:
        if link.startswith(("http:", "https:", "mailto:")):
            continue
        name, _, fragment = link.partition("#")
        there = (path.parent / name).resolve() if name else path
        assert there.is_file(), f"{path}: {link}"
        assert not fragment or there not in pages or fragment in pages[there].ids, f"{path}: {link}"
        count += 1
index = json.loads((site / "index.js").read_text()[len("const INDEX="):])
assert {e["url"] for e in index} == {p.relative_to(docs).with_suffix(".html").as_posix() for p in docs.glob("**/*.md")}
assert any("sl_trainer_open" in e["text"] for e in index)
assert not any(word in p.read_text() for p in pages for word in ("https://cdn", "fonts.googleapis"))
print(f"count: {len(pages)} pages, {count} links")
PY
mkdir "$work/copy"
cp -r "$SRC_DIR/docs" "$SRC_DIR/tools" "$SRC_DIR"/README.md "$SRC_DIR"/examples "$work/copy/"
printf '\n[broken](nosuch.md)\n' >>"$work/copy/docs/training.md"
if python3 "$work/copy/tools/site.py" "$work/broken" >"$work/said" 2>&1; then fail "a broken link goes unseen"; fi
grep -q 'docs/training.md: no file nosuch.md' "$work/said" || fail "$(cat "$work/said")"

cd "$work"
for options in "--stages 8 --workers 4 --schedule interleaved --batch 64 --micro 16" "--recompute --clip 1" \
    "--lr-schedule cosine:warmup=1,min=0.1" "--stages 2 --schedule dualpipe-v --workers 1 --micro 4" "--stages 4 --workers 2 --schedule zb-v --micro 4"; do
    # shellcheck disable=SC2086
    "$SLUICE" train gpt-nano --set "L=8,C=16,H=2,T=8" --steps 1 --quiet $options || fail "docs/coming-from.md: $options"
done
