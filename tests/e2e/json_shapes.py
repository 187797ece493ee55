"""Holds what --json printed against the shapes of docs/formats-json.md.

usage: json_shapes.py DOCUMENT FOLDER; FOLDER has files NAME.json, NAME.shape
(what the document calls it) and NAME.call (the command).
"""

import json
import pathlib
import re
import sys

TOKEN = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[A-Za-z_]+|\*|[\[\]{}:,|?])')
PLAIN = {"string": str, "integer": int, "boolean": bool, "number": (int, float, type(None))}


class Shape:
    """A parsed shape: check(value, where) raises at the first thing that is wrong."""

    def __init__(self, text):
        self.tokens, at = [], 0
        while text[at:].strip():
            match = TOKEN.match(text, at)
            if not match:
                raise SystemExit(f"FAILED: shape: cannot read {text[at:at + 30]!r}")
            self.tokens.append(match.group(1))
            at = match.end()
        self.at = 0
        self.root = self.either()
        if self.at != len(self.tokens):
            raise SystemExit(f"FAILED: shape: {self.tokens[self.at]!r} is too much")

    def take(self, expected=None):
        token = self.tokens[self.at] if self.at < len(self.tokens) else "the end"
        if expected and token != expected:
            raise SystemExit(f"FAILED: shape: {expected!r} expected, {token!r} found")
        self.at += 1
        return token

    def peek(self, token):
        return self.at < len(self.tokens) and self.tokens[self.at] == token

    def either(self):
        kinds = [self.one()]
        while self.peek("|"):
            self.take()
            kinds.append(self.one())
        return kinds[0] if len(kinds) == 1 else ("either", kinds)

    def one(self):
        token = self.take()
        if token == "[":
            inner = self.either()
            self.take("]")
            return ("list", inner)
        if token == "{":
            return self.members()
        if token not in PLAIN and token != "any":
            raise SystemExit(f"FAILED: shape: {token!r} is no kind")
        return ("plain", token)

    def members(self):
        if self.peek("*"):
            self.take("*"), self.take(":")
            inner = self.either()
            self.take("}")
            return ("map", inner)
        keys = {}
        while not self.peek("}"):
            key = json.loads(self.take())
            optional = self.peek("?")
            if optional:
                self.take()
            self.take(":")
            keys[key] = (optional, self.either())
            if not self.peek("}"):
                self.take(",")
        self.take("}")
        return ("object", keys)


def check(shape, value, where, seen):
    kind, rest = shape
    if kind == "either":
        errors = [error for error in (check(s, value, where, seen) for s in rest) if error]
        return errors[0] if len(errors) == len(rest) else None
    if kind == "plain":
        right = rest == "any" or (isinstance(value, PLAIN[rest]) and (rest == "boolean") == isinstance(value, bool))
        return None if right else f"{where} is {value!r}, not a {rest}"
    if kind == "list":
        if not isinstance(value, list):
            return f"{where} is no list"
        return next(filter(None, (check(rest, v, f"{where}[{i}]", seen) for i, v in enumerate(value))), None)
    if not isinstance(value, dict):
        return f"{where} is no object"
    if kind == "map":
        return next(filter(None, (check(rest, v, f"{where}.{k}", seen) for k, v in value.items())), None)
    for key, (optional, inner) in rest.items():
        if key not in value:
            if not optional:
                return f"{where} has no '{key}'"
            continue
        seen.add((id(shape), key))
        error = check(inner, value[key], f"{where}.{key}", seen)
        if error:
            return error
    extra = [key for key in value if key not in rest]
    return f"{where} has '{extra[0]}', which the document does not name" if extra else None


def keys_of(shape):
    kind, rest = shape
    if kind == "object":
        for key, (_, inner) in rest.items():
            yield (id(shape), key), key
            yield from keys_of(inner)
    elif kind in ("list", "map"):
        yield from keys_of(rest)
    elif kind == "either":
        for inner in rest:
            yield from keys_of(inner)


def main():
    document, folder = pathlib.Path(sys.argv[1]).read_text(), pathlib.Path(sys.argv[2])
    shapes, used, seen = {}, set(), set()
    for block in re.findall(r"```shape\n(.*?)```", document, re.S):
        name, text = block.split(" = ", 1)
        shapes[name.strip()] = Shape(text).root
    count = 0
    for file in sorted(folder.glob("*.json")):
        name, call = (file.with_suffix(end).read_text(errors="replace").strip() for end in (".shape", ".call"))
        if name not in shapes:
            raise SystemExit(f"FAILED: {call}: the document has no shape '{name}'")
        try:
            value = json.loads(file.read_bytes().decode())
        except ValueError as error:
            raise SystemExit(f"FAILED: {call}: no JSON in UTF-8: {error}")
        used.add(name)
        error = check(shapes[name], value, call, seen)
        if error:
            raise SystemExit(f"FAILED: {error}")
        count += 1
    unused = [name for name in shapes if name not in used]
    if unused:
        raise SystemExit(f"FAILED: nothing was printed for '{unused[0]}'")
    never = [f"{name}: {key}" for name, shape in shapes.items() for place, key in keys_of(shape) if place not in seen]
    allowed = set(pathlib.Path(folder, "unseen").read_text().split("\n"))
    for key in never:
        if key not in allowed:
            raise SystemExit(f"FAILED: {key} is named in the document and was never printed")
    print(f"count: {count} outputs held against {len(shapes)} shapes")


main()
