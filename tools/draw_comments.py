#!/usr/bin/env python3
"""Draws comments of the sources at random, for a reviewer who rates how easy they are to understand.

Usage: tools/draw_comments.py SEED [N] [PATH...]

The same SEED draws the same comments of the same sources; N is 60 by default. PATH: only files below it. Each
comment is printed with its file, its line and the line of code that follows. --all instead of SEED: every
comment, in order.
"""

import pathlib
import random
import re
import subprocess
import sys

import c_source

C_ENDINGS = {".c", ".h", ".cu", ".cuh"}
SCRIPT_ENDINGS = {".sh", ".py", ".awk", ".cmake"}


def script_comments(text):
    """[(line, text)] of blocks of lines that begin with #."""
    found, lines = [], text.splitlines()
    for at, line in enumerate(lines):
        if not re.match(r"\s*#(?!!)", line):
            continue
        if at and found and found[-1][0] + found[-1][1].count("\n") == at:
            found[-1] = (found[-1][0], found[-1][1] + "\n" + line)
        else:
            found.append((at + 1, line))
    return found


def comments_of(root, name):
    path = root / name
    if path.suffix in C_ENDINGS:
        return c_source.comments(c_source.read(path))
    if path.suffix in SCRIPT_ENDINGS:
        return script_comments(c_source.read(path))
    return []


def is_prose(comment):
    """No separators such as /* ---- */, no marks for tools."""
    words = re.findall(r"[A-Za-z]{2,}", comment)
    return len(words) >= 3 and not re.match(r"/\* ----|\W*(clang-format|shellcheck)\b", comment)


def put(root, name, line, comment):
    lines = c_source.read(root / name).splitlines()
    after = line - 1 + comment.count("\n") + 1
    code = next((text for text in lines[after:after + 3] if text.strip()), "")
    same = lines[line - 1].split(comment.split("\n")[0])[0].strip()
    print(f"{name}:{line}")
    if same:
        print(f"    {same}")
    for text in comment.split("\n"):
        print(f"    {text.strip()}")
    if not same:
        print(f"    {code.strip()}")
    print()


def main():
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__)
    root = pathlib.Path(__file__).resolve().parent.parent
    paths = sys.argv[3:] if len(sys.argv) > 3 else sys.argv[2:] if sys.argv[1] == "--all" else []
    tracked = subprocess.run(["git", "-C", str(root), "ls-files", "--", *paths], check=True, capture_output=True,
                             text=True).stdout.splitlines()
    found = [(name, line, text) for name in sorted(tracked) for line, text in comments_of(root, name) if is_prose(text)]
    if sys.argv[1] != "--all":
        count = int(sys.argv[2]) if len(sys.argv) > 2 else 60
        found = random.Random(sys.argv[1]).sample(found, min(count, len(found)))
    for row in found:
        put(root, *row)


if __name__ == "__main__":
    main()
