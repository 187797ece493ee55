#!/usr/bin/env python3
"""The public interface of libsluice as text, and its comparison with a release.

    abi.py dump HEADER...              one line per function, struct field, constant and type
    abi.py compare OLD NEW             exit 1 if a program built for OLD may fail with NEW

A struct that begins with `size_t size` may get fields at its end; functions, types and constants may be
added. All other differences break programs.
"""
import re
import sys


def strip(text):
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    text = re.sub(r"^\s*#.*?(?<!\\)$", " ", text, flags=re.S | re.M)
    return text.replace("\\\n", " ")


def squeeze(text):
    text = re.sub(r"\s+", " ", text).strip()
    return re.sub(r"\s*([*,()\[\]])\s*", r"\1", text).replace(",", ", ").replace("*", " *").replace("( ", "(")


def enum_lines(name, body):
    value = -1
    for part in filter(None, (squeeze(p) for p in body.split(","))):
        key, _, given = part.partition("=")
        value = int(given, 0) if re.fullmatch(r"\s*-?\w+\s*", given) else value + 1
        yield f"constant {key.strip()} = {value}"
    if name:
        yield f"enum {name}"


def struct_lines(name, body):
    number = 0
    for part in filter(None, (squeeze(p) for p in body.split(";"))):
        first = re.match(r"((?:const |unsigned |struct |enum )*\w+ )(.*)", part)
        if "(" in part or not first:
            yield f"field {name} {number} {part}"
            number += 1
            continue
        for item in first.group(2).split(","):
            yield f"field {name} {number} {squeeze(first.group(1) + item)}"
            number += 1


def dump(paths):
    lines = set()
    for path in paths:
        with open(path, encoding="utf-8") as file:
            text = strip(file.read())
        text = re.sub(r'extern "C" \{|^\s*\}\s*$', " ", text, flags=re.M)
        for match in re.finditer(r"enum\s*(\w*)\s*\{(.*?)\}\s*;", text, re.S):
            lines.update(enum_lines(match.group(1), match.group(2)))
        for match in re.finditer(r"struct\s+(\w+)\s*\{(.*?)\}\s*;", text, re.S):
            lines.update(struct_lines(match.group(1), match.group(2)))
        for match in re.finditer(r"SL_API\s+([^;{]*?\b(sl_\w+)\(.*?\))\s*;", text, re.S):
            lines.add("function " + squeeze(match.group(1)))
        for match in re.finditer(r"typedef\s+([^;{]*?);", text, re.S):
            lines.add("type " + squeeze(match.group(1)))
    return sorted(lines)


def name_of(line):
    kind = line.split()[0]
    if kind == "function":
        return "function", re.search(r"(\w+)\(", line).group(1)
    if kind == "field":
        return "field", tuple(line.split()[1:3])
    return kind, line


def compare(old, new):
    """Reasons why a program built for `old` may fail with `new`."""
    now = {name_of(line): line for line in new}
    was = {name_of(line): line for line in old}
    grows = {line.split()[1] for line in old if re.fullmatch(r"field \w+ 0 size_t size", line)}
    structs = {name[1][0] for name in was if name[0] == "field"}
    for name, line in sorted(was.items(), key=lambda item: item[1]):
        if name not in now:
            yield f"gone: {line}"
        elif now[name] != line:
            yield f"changed: {line} -> {now[name]}"
    for name, line in sorted(now.items(), key=lambda item: item[1]):
        if name not in was and name[0] == "field" and name[1][0] in structs - grows:
            yield f"a struct without a size grew: {line}"


def main():
    if len(sys.argv) > 2 and sys.argv[1] == "dump":
        print("\n".join(dump(sys.argv[2:])))
        return 0
    if len(sys.argv) == 4 and sys.argv[1] == "compare":
        texts = [open(path, encoding="utf-8").read().splitlines() for path in sys.argv[2:]]
        reasons = list(compare(*texts))
        print("\n".join(reasons) if reasons else "compatible")
        return 1 if reasons else 0
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
