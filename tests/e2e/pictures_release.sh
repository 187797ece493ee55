#!/usr/bin/env bash
# docs/pictures are up to date: the timeline byte for byte, the report by its page, the dashboard line by line
# without numbers. tools/pictures.py draws them.
set -euo pipefail
command -v python3 >/dev/null || { echo "SKIPPED: no python3" && exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PYTHONDONTWRITEBYTECODE=1
python3 - "$SRC_DIR/tools" "$work" <<'END'
import pathlib, re, sys
import xml.etree.ElementTree as xml
sys.path.insert(0, sys.argv[1])
import pictures as p

def fail(text):
    raise SystemExit(f"FAILED: {text}; draw it anew with tools/pictures.py")

p.sluice("report", "--chain", "4", "--schedule", "zb-h1", "--micro", "8", "--costs", "F=1us,I=1us,W=1us", "-o", f"{sys.argv[2]}/x.svg")
if pathlib.Path(sys.argv[2], "x.svg").read_bytes() != (p.PICTURES / "zb-h1.svg").read_bytes():
    fail("docs/pictures/zb-h1.svg is not what report draws")

png = (p.PICTURES / "report.png").read_bytes()
page = p.page(sys.argv[2])
if p.note_of(png) != p.digest(page):
    fail("docs/pictures/report.png shows another page than report writes")
for kind, data in p.chunks(png):  # it is a whole picture of some size
    if kind == b"IHDR" and (int.from_bytes(data[:4], "big") != p.WIDTH or int.from_bytes(data[4:8], "big") < 1500):
        fail("docs/pictures/report.png has another size")
spoiled = pathlib.Path(sys.argv[2], "other.html")
spoiled.write_bytes(page.read_bytes().replace(b"Why it takes", b"Why does it take"))
if p.note_of(png) == p.digest(spoiled):
    fail("a page that differs is not noticed")

def shape(line):
    """A line of the dashboard without what differs from run to run."""
    if re.match(r" *[0-9.]* +\|", line) and not re.match(r"[0-9] \|", line):
        return "curve"
    if re.match(r"[0-9] \|", line):
        return line[:3]
    line = re.sub(r"[0-9][0-9.e+-]*", "0", re.sub(r"\s+", " ", line).strip())
    return re.sub(r"0[kMG]?( (ns|us|ms|s|KiB|MiB|GiB))?(?= |$|/|,)", "0", line)

drawn = {}
for text in xml.parse(p.PICTURES / "dashboard.svg").getroot().iter("{http://www.w3.org/2000/svg}text"):
    row = drawn.setdefault(int(text.get("y")), {})
    for i, char in enumerate(text.text):
        row[(int(text.get("x")) - 8) // 8 + i] = char
old = ["".join(row.get(x, " ") for x in range(max(row) + 1)) for _, row in sorted(drawn.items())]
new = p.draw_dashboard(sys.argv[2])
first = next(i for i, line in enumerate(new) if line.startswith("gpt-nano, 1f1b on"))
want, got = [[shape(line) for line in lines if line.strip()] for lines in (old, new[first:])]
want, got = want[:len(got)], [line for line in got if not line.startswith("run directory")][:len(want)]
if want != got:
    fail(f"docs/pictures/dashboard.svg is another dashboard:\n{want}\n{got}")
if want.count("curve") != 8 or sum(bool(re.match(r"[0-9] \|$", line)) for line in want) != 3:
    fail(f"no curve or no lanes in {want}")
print(f"count: 3 pictures, {len(want)} lines of the dashboard")
END
