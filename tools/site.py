#!/usr/bin/env python3
"""Writes the documentation as a site that works without a network: site.py FOLDER

    docs/**/*.md -> FOLDER/**/*.html, a navigation, a search over all pages
    links to files of the repository -> copies below FOLDER/files

Every relative link must lead to a file, and every fragment to a heading; else exit 1. The subset of
Markdown is that of docs/: headings, paragraphs, lists, tables, code, links, pictures, emphasis.
"""
import html
import json
import os
import pathlib
import re
import shutil
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
SECTIONS = [("Start", ["README.md", "tutorials/*", "choosing.md", "coming-from.md"]),
            ("Use", ["training.md", "python.md", "c-api.md", "ops.md", "onnx.md", "reliability.md", "*.md"]),
            ("Formats", ["formats.md", "formats-*.md"]), ("C reference", ["api/*"]),
            ("Extend", ["adding/*"]), ("Results", ["results/README.md", "results/*", "reproduce.md"]),
            ("Design", ["ARCHITECTURE.md", "design/README.md", "design/*"])]

STYLE = """
:root{--ink:#1c2430;--soft:#5a6675;--line:#dde3ea;--back:#fff;--code:#f4f6f8;--link:#0b5cad}
@media(prefers-color-scheme:dark){:root{--ink:#dfe5ec;--soft:#98a4b3;--line:#303946;--back:#151a21;--code:#1e252f;--link:#6bb0f5}}
*{box-sizing:border-box}body{margin:0;font:16px/1.55 system-ui,sans-serif;color:var(--ink);background:var(--back)}
a{color:var(--link);text-decoration:none}a:hover{text-decoration:underline}
#frame{display:flex;max-width:1240px;margin:auto}
nav{width:270px;flex:none;padding:20px;border-right:1px solid var(--line);height:100vh;overflow:auto;position:sticky;top:0;font-size:14px}
nav h4{margin:16px 0 4px;color:var(--soft);font-size:12px;text-transform:uppercase}nav a{display:block;padding:1px 0}nav a.here{font-weight:700}
main{flex:1;min-width:0;padding:20px 36px 80px}
h1,h2,h3,h4{line-height:1.25;margin:1.4em 0 .5em}h1{margin-top:0}
pre{background:var(--code);padding:12px;overflow:auto;border-radius:6px;font-size:13.5px;line-height:1.45}
code{background:var(--code);padding:1px 4px;border-radius:4px;font-size:.9em}pre code{padding:0}
.wide{overflow:auto}table{border-collapse:collapse;font-size:14.5px}td,th{border:1px solid var(--line);padding:4px 9px;text-align:left;vertical-align:top}
img{max-width:100%}#search{width:100%;padding:7px;border:1px solid var(--line);border-radius:6px;background:var(--back);color:var(--ink)}
#found a{padding:4px 0;border-bottom:1px solid var(--line)}#found small{color:var(--soft);display:block}
@media(max-width:800px){#frame{display:block}nav{width:auto;height:auto;position:static;border:0}main{padding:16px}}
"""

SCRIPT = """
const box=document.getElementById('search'),out=document.getElementById('found'),menu=document.getElementById('menu');
box.addEventListener('input',()=>{const words=box.value.toLowerCase().split(/\\s+/).filter(w=>w);
menu.hidden=words.length>0;out.textContent='';if(!words.length)return;
const hits=INDEX.map(p=>{const t=p.title.toLowerCase(),b=p.text.toLowerCase();let score=0;
for(const w of words){const n=b.split(w).length-1;if(!n&&!t.includes(w))return null;score+=n+(t.includes(w)?50:0)}
return{p,score}}).filter(h=>h).sort((a,b)=>b.score-a.score).slice(0,30);
for(const{p}of hits){const a=document.createElement('a');a.href=UP+p.url;a.textContent=p.title;
const at=p.text.toLowerCase().indexOf(words[0]),s=document.createElement('small');
s.textContent=at<0?'':'\u2026'+p.text.slice(Math.max(0,at-40),at+80)+'\u2026';a.append(s);out.append(a)}
if(!hits.length)out.textContent='nothing found'});
"""


def slug(text):
    text = re.sub(r"[`*]|\[([^]]*)\]\([^)]*\)", lambda m: m.group(1) or "", text)
    return re.sub(r"[^\w\- ]", "", text.lower()).strip().replace(" ", "-")


class Page:
    """One Markdown file: its HTML, headings and links."""

    def __init__(self, path):
        self.path = path
        self.lines = path.read_text(encoding="utf-8").split("\n")
        self.anchors, self.links, self.text = set(), [], []
        first = next((l for l in self.lines if l.startswith("# ")), "# " + path.stem)
        self.title = re.sub(r"[`*]", "", first[2:]).strip()
        self.html = self.blocks(self.lines)

    def inline(self, text):
        held = []

        def hold(value):
            held.append(value)
            return f"\0{len(held) - 1}\0"
        text = re.sub(r"(`+)(.+?)\1", lambda m: hold(f"<code>{html.escape(m.group(2).strip())}</code>"), text)
        text = re.sub(r"<!--.*?-->", "", text)

        def link(match):
            mark, label, target = match.group(1), match.group(2), match.group(3)
            self.links.append(target)
            if mark:
                return hold(f'<img src="{html.escape(self.target(target))}" alt="{html.escape(label)}">')
            return hold(f'<a href="{html.escape(self.target(target))}">') + label + hold("</a>")
        text = re.sub(r"(!?)\[([^]]*)\]\(([^)\s]+)\)", link, text)
        text = html.escape(text, quote=False)
        text = re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", text)
        text = re.sub(r"(?<![\w*])\*([^*\s][^*]*)\*(?!\w)", r"<i>\1</i>", text)
        while "\0" in text:
            text = re.sub(r"\0(\d+)\0", lambda m: held[int(m.group(1))], text)
        return text

    def target(self, link):
        """The address in the site of a link of the source."""
        if re.match(r"[a-z]+:", link) or link.startswith("#"):
            return link
        path, _, fragment = link.partition("#")
        fragment = "#" + fragment if fragment else ""
        there = (self.path.parent / path).resolve()
        if DOCS in there.parents or there == DOCS:
            if there.is_dir():
                path = path.rstrip("/") + "/README.html"
            return re.sub(r"\.md$", ".html", path) + fragment
        up = os.path.relpath(DOCS, self.path.parent)
        inside = os.path.relpath(there, ROOT)
        return f"{up}/files/{inside}" + (".txt" if there.suffix not in (".html", ".svg", ".png") else "")

    def blocks(self, lines):
        out, at = [], 0
        while at < len(lines):
            line = lines[at]
            fence = re.match(r"(`{3,})\s*(\w*)", line)
            if not line.strip() or line.startswith("<!--"):
                at += 1
            elif fence:
                end = next((i for i in range(at + 1, len(lines)) if lines[i].startswith(fence.group(1))), len(lines))
                out.append(self.code(lines[at + 1:end]))
                at = end + 1
            elif line.startswith("    "):
                end = at
                while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
                    end += 1
                out.append(self.code([l[4:] for l in lines[at:end]]))
                at = end
            elif re.match(r"#{1,6} ", line):
                at = self.heading(line, out, at)
            elif line.startswith("|"):
                at = self.table(lines, at, out)
            elif re.match(r"\s*([-*]|\d+\.) ", line):
                at = self.list(lines, at, out)
            elif line.startswith(">"):
                end = at
                while end < len(lines) and lines[end].startswith(">"):
                    end += 1
                out.append("<blockquote>" + self.blocks([l[1:].lstrip() for l in lines[at:end]]) + "</blockquote>")
                at = end
            else:
                at = self.paragraph(lines, at, out)
        return "\n".join(out)

    def code(self, lines):
        text = "\n".join(lines).strip("\n")
        self.text.append(text)
        return f"<pre><code>{html.escape(text)}</code></pre>"

    def heading(self, line, out, at):
        level, text = len(line) - len(line.lstrip("#")), line.lstrip("#").strip()
        anchor = slug(text)
        self.anchors.add(anchor)
        self.text.append(text)
        out.append(f'<h{level} id="{anchor}">{self.inline(text)}</h{level}>')
        return at + 1

    def table(self, lines, at, out):
        rows = []
        while at < len(lines) and lines[at].startswith("|"):
            cells = re.split(r"(?<!\\)\|", re.sub(r"`[^`]*`", lambda m: m.group(0).replace("|", "\1"), lines[at].strip().strip("|")))
            rows.append([c.strip().replace("\\|", "|").replace("\1", "|") for c in cells])
            at += 1
        head = len(rows) > 1 and all(re.fullmatch(r":?-+:?", c) for c in rows[1])
        body = rows[2:] if head else rows
        html_rows = ["<tr>" + "".join(f"<th>{self.inline(c)}</th>" for c in rows[0]) + "</tr>"] if head else []
        html_rows += ["<tr>" + "".join(f"<td>{self.inline(c)}</td>" for c in row) + "</tr>" for row in body]
        self.text += [" ".join(row) for row in rows]
        out.append('<div class="wide"><table>' + "\n".join(html_rows) + "</table></div>")
        return at

    def list(self, lines, at, out):
        first = re.match(r"(\s*)([-*]|\d+\.) ", lines[at])
        indent, ordered = len(first.group(1)), first.group(2)[0].isdigit()
        items = []
        while at < len(lines):
            item = re.match(r"(\s*)([-*]|\d+\.) (.*)", lines[at])
            if item and len(item.group(1)) == indent:
                items.append([item.group(3)])
            elif lines[at].startswith(" " * (indent + 2)) and lines[at].strip():
                items[-1].append(lines[at][indent + 2:])
            elif not lines[at].strip() and at + 1 < len(lines) and (
                    lines[at + 1].startswith(" " * (indent + 2)) or re.match(rf"\s{{{indent}}}([-*]|\d+\.) ", lines[at + 1])):
                items[-1].append("")
            else:
                break
            at += 1
        tag = "ol" if ordered else "ul"
        made = []
        for item in items:
            inner = self.blocks(item)
            made.append("<li>" + re.sub(r"^<p>(.*?)</p>", r"\1", inner, count=1, flags=re.S) + "</li>")
        out.append(f"<{tag}>" + "\n".join(made) + f"</{tag}>")
        return at

    def paragraph(self, lines, at, out):
        text = []
        while at < len(lines) and lines[at].strip() and not re.match(r"(#{1,6} |\||```|>|\s*[-*] |\s*\d+\. )", lines[at]):
            text.append(lines[at].strip())
            at += 1
        if not text:
            text, at = [lines[at].strip()], at + 1
        self.text.append(" ".join(text))
        out.append("<p>" + self.inline(" ".join(text)) + "</p>")
        return at


def order(pages):
    """(section, pages) in the order of SECTIONS; each page once."""
    left = dict(pages)
    named = {p for _, patterns in SECTIONS for p in patterns if "*" not in p}
    for section, patterns in SECTIONS:
        found = []
        for pattern in patterns:
            for path in sorted(DOCS.glob(pattern)):
                if path in left and (path.relative_to(DOCS).as_posix() == pattern or
                                     path.relative_to(DOCS).as_posix() not in named) and not (
                        pattern == "*.md" and path.name.startswith("formats-")):
                    found.append(left.pop(path))
        yield section, found
    assert not left, f"no section for {list(left)}"


def check_links(pages):
    """Links that lead nowhere."""
    for path, page in sorted(pages.items()):
        for link in page.links:
            if re.match(r"[a-z]+:", link):
                continue
            name, _, fragment = link.partition("#")
            there = (path.parent / name).resolve() if name else path
            if there.is_dir() and (there / "README.md").is_file():
                there = there / "README.md"
            if not there.exists():
                yield f"{path.relative_to(ROOT)}: no file {link}"
            elif fragment and there in pages and fragment not in pages[there].anchors:
                yield f"{path.relative_to(ROOT)}: no heading {link}"


def copy_files(pages, folder):
    for path, page in pages.items():
        for link in page.links:
            name = link.partition("#")[0]
            there = (path.parent / name).resolve()
            if re.match(r"[a-z]+:", link) or not name or there.suffix == ".md" and DOCS in there.parents:
                continue
            if there.is_dir():
                if ROOT in there.parents and DOCS not in there.parents:
                    target = folder / "files" / (os.path.relpath(there, ROOT) + ".txt")
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_text("\n".join(sorted(p.name for p in there.iterdir())) + "\n")
                continue
            inside = os.path.relpath(there, DOCS) if DOCS in there.parents else "files/" + os.path.relpath(there, ROOT) + (
                ".txt" if there.suffix not in (".html", ".svg", ".png") else "")
            target = folder / inside
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(there, target)


def write(pages, folder):
    menu = list(order(pages))
    index = []
    for path, page in sorted(pages.items()):
        here = path.relative_to(DOCS).with_suffix(".html")
        up = os.path.relpath(".", here.parent) + "/"
        links = "".join(
            f"<h4>{section}</h4>" + "".join(
                f'<a {"class=here " if p is page else ""}href="{up}{p.path.relative_to(DOCS).with_suffix(".html").as_posix()}">'
                f"{html.escape(p.title)}</a>" for p in found) for section, found in menu if found)
        target = folder / here
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(
            f'<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
            f"<title>{html.escape(page.title)} - Sluice</title><link rel=stylesheet href=\"{up}site.css\"></head><body>"
            f'<div id="frame"><nav><a href="{up}README.html"><b>Sluice</b></a><p><input id="search" type="search" '
            f'placeholder="Search" aria-label="Search"></p><div id="found"></div><div id="menu">{links}</div></nav>'
            f'<main>{page.html}</main></div><script>const UP="{up}"</script><script src="{up}index.js"></script>'
            f'<script src="{up}search.js"></script></body></html>\n', encoding="utf-8")
        index.append({"url": here.as_posix(), "title": page.title, "text": re.sub(r"\s+", " ", " ".join(page.text))})
    (folder / "index.js").write_text("const INDEX=" + json.dumps(index, ensure_ascii=False) + "\n", encoding="utf-8")
    (folder / "search.js").write_text(SCRIPT)
    (folder / "site.css").write_text(STYLE)
    shutil.copyfile(folder / "README.html", folder / "index.html")


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/site").resolve()
    if folder.exists():
        shutil.rmtree(folder)
    pages = {path: Page(path) for path in sorted(DOCS.glob("**/*.md"))}
    wrong = list(check_links(pages))
    if wrong:
        print("\n".join(wrong), file=sys.stderr)
        return 1
    folder.mkdir(parents=True)
    write(pages, folder)
    copy_files(pages, folder)
    print(f"{folder}/index.html: {len(pages)} pages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
