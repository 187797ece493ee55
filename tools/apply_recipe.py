#!/usr/bin/env python3
"""Apply the recipe of a page of docs/adding to a source tree.

Usage: tools/apply_recipe.py PAGE.md TREE

A page has "Write `FILE`:" and a C block, which becomes that file, and "Add its line to `FILE`" and a
C block of one line ROW(name ...) \\, which goes into the table ROWS of that file, in alphabetical order.
"""

import pathlib
import re
import sys

BLOCK = r"\n\n```c\n(.*?)```\n"


def main():
    page, tree = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    text = page.read_text()
    files = re.findall(r"^Write `([^`]+)`:" + BLOCK, text, re.M | re.S)
    lines = re.findall(r"^Add its line to `([^`]+)`[^\n]*:" + BLOCK, text, re.M | re.S)
    if len(files) != 1 or len(lines) != 1 or lines[0][1].count("\n") != 1:
        sys.exit(f"{page}: one file and one line expected, found {len(files)} and {len(lines)}")
    target = tree / files[0][0]
    if target.exists():
        sys.exit(f"{page}: {files[0][0]} exists already")
    target.write_text(files[0][1])
    registry = tree / lines[0][0]
    new = re.search(r"ROW\((\w+)", lines[0][1]).group(1)
    rows = registry.read_text().split("\n")
    at = [i for i, row in enumerate(rows) if re.match(r"    ROW\(\w+", row)]
    after = [i for i in at if re.search(r"\((\w+)", rows[i]).group(1) > new]
    if after:
        rows.insert(after[0], lines[0][1].rstrip("\n"))
    else:  # the last line of a macro has no backslash
        rows[at[-1]] += " \\"
        rows.insert(at[-1] + 1, lines[0][1].rstrip("\n").rstrip("\\").rstrip())
    registry.write_text("\n".join(rows))
    print(f"{files[0][0]} {new}")


if __name__ == "__main__":
    main()
