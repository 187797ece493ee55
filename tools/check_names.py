#!/usr/bin/env python3
"""Names with external linkage, struct tags, and the exports of the library.

Usage: tools/check_names.py [ROOT]

1. A function or object that is not static is called sl_COMPONENT_..., after src/COMPONENT (src/ROOMS).
   In src/COMPONENT/PART/ it may be called sl_PART_... . Base is the vocabulary of all components:
   its names are sl_NOUN..., and do not begin with another component's name. Names that include/
   declares are free. CUDA C++ (.cu) is left out: its names are mangled and stay in the module.
   A CPU kernel's header may map a short name: #define NAME SL_ISA_NAME(NAME) (device/cpu/isa.h).
2. A struct, union or enum tag that begins with sl_ is defined once, and does not begin with the name
   of a component that is not its own. A tag in a header that several files include begins with sl_.
3. Every function that include/ declares carries SL_API and is defined in src/. The list
   tests/golden/symbols.txt equals these names.
"""

import pathlib
import re
import sys

import c_source

# Graph owns the interface of ops; the component op implements it.
INTERFACES = {("graph", "op")}
MAPPED = re.compile(r"^#define (\w+) SL_ISA_NAME\(\1\)$", re.M)
TAG = re.compile(r"\b(struct|union|enum)\s+(?:__attribute__\s*\(\(.*?\)\)\s*)?(\w+)\s*\{")


def components(root):
    rows = (line.split("|")[0].strip() for line in c_source.read(root / "src/ROOMS").splitlines()
            if line.strip() and not line.lstrip().startswith("#"))
    return list(rows)


def defined_name(head, body):
    """The external name that a declaration at file scope defines, or None."""
    head = re.sub(r"^(?:[A-Z_]+\([A-Z_]+\)\s*)+", "", head)  # ROWS(DECLARE)
    head = re.sub(r"__attribute__\s*\(\(.*?\)\)", " ", head)
    words = re.findall(r"\w+", head)
    if not words or words[0] == "_Static_assert" or {"typedef", "static"} & set(words):
        return None
    if c_source.is_function(head):
        if body is None or "extern" in words:
            return None
        match = re.match(r"[^(]*?(\w+)\s*\(", head)
        return match.group(1) if match else None
    left = head.split("=")[0]
    if "(" in left:  # a pointer to a function or to an array; or a prototype
        match = re.search(r"\(\s*\*\s*(?:const\s+)?(\w+)", left)
        return match.group(1) if match and "=" in head else None
    if "=" not in head and ("extern" in words or words[0] in ("struct", "union", "enum") and len(words) < 3):
        return None
    names = re.findall(r"\w+", left.split("[")[0])
    return names[-1] if len(names) > 1 else None


def public_names(root):
    """{name: (file, line, has SL_API)} of the functions that include/ declares."""
    found = {}
    for path in sorted((root / "include").rglob("*.h")):
        for line, head, body in c_source.top_level(c_source.blank(c_source.read(path))):
            match = re.match(r"(?!typedef)[^()]*?\b(sl_\w+)\s*\(", head)
            if body is None and match:
                found[match.group(1)] = (path, line, "SL_API" in head)
    return found


class Names:
    def __init__(self, root):
        self.root = root
        self.components = components(root)
        self.public = public_names(root)
        self.defined = {}  # name: [(path, line)]
        self.tags = {}
        self.mapped = set()  # names that SL_ISA_NAME gives their prefix
        self.bad = []

    def fail(self, path, line, text):
        self.bad.append(f"{path.relative_to(self.root)}:{line}: {text}")

    def owner(self, name):
        """The component whose name a name begins with."""
        rest = name[3:]
        return next((c for c in self.components if rest == c or rest.startswith(c + "_")), None)

    def check_name(self, path, line, name):
        parts = path.relative_to(self.root / "src").parts
        component = parts[0]
        if name in self.public or name == "main" or name in self.mapped and "cpu" in parts:
            return
        allowed = [component] + ([parts[1]] if len(parts) > 2 else [])
        if component == "base":
            other = self.owner(name)
            if not name.startswith("sl_"):
                self.fail(path, line, f"{name}: an external name of base begins with sl_")
            elif other and other != "base":
                self.fail(path, line, f"{name}: a name of base begins with {other}, another component")
        elif not any(name.startswith(f"sl_{a}_") or name == f"sl_{a}" for a in allowed):
            self.fail(path, line, f"{name}: an external name of {component} begins with "
                      + " or ".join(f"sl_{a}_" for a in allowed))

    def check_tags(self, path, code):
        in_src = path.is_relative_to(self.root / "src")
        component = path.relative_to(self.root / "src").parts[0] if in_src else None
        for match in TAG.finditer(code):
            kind, tag = match.groups()
            line = code.count("\n", 0, match.start()) + 1
            if not tag.startswith("sl_"):
                continue
            place = f"{path.relative_to(self.root)}:{line}"
            if (kind, tag) in self.tags:
                self.fail(path, line, f"{kind} {tag} is defined in {self.tags[kind, tag]} already")
            self.tags.setdefault((kind, tag), place)
            other = self.owner(tag)
            if component and other not in (None, component) and (component, other) not in INTERFACES:
                self.fail(path, line, f"{kind} {tag} is defined in {component} and named after {other}")

    def check_file(self, path):
        code = c_source.blank(c_source.read(path))
        self.mapped.update(MAPPED.findall(code))
        self.check_tags(path, code)
        if not path.is_relative_to(self.root / "src") or path.suffix != ".c":
            return
        for line, head, body in c_source.top_level(code):
            name = defined_name(head, body)
            if name:
                self.defined.setdefault(name, []).append((path, line))

    def check_defined(self):
        for name, places in self.defined.items():
            in_base = any(p.is_relative_to(self.root / "src/base") for p, _ in places)
            for path, line in places:
                # A module defines functions of base again, which forward to the program.
                if not in_base or path.is_relative_to(self.root / "src/base"):
                    self.check_name(path, line, name)

    def check_exports(self):
        for name, (path, line, marked) in sorted(self.public.items()):
            if not marked:
                self.fail(path, line, f"{name} is declared without SL_API: the library does not export it")
            if name not in self.defined:
                self.fail(path, line, f"{name} is declared in include/ and defined nowhere")
        golden = self.root / "tests/golden/symbols.txt"
        if golden.exists():
            listed = c_source.read(golden).split()
            for name in sorted(set(listed) ^ set(self.public)):
                self.fail(golden, 1, f"{name} is in one of symbols.txt and include/ only")


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "..").resolve()
    names = Names(root)
    for folder in ("include", "src"):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".c", ".h", ".cu"):
                names.check_file(path)
    names.check_defined()
    names.check_exports()
    print("\n".join(names.bad), end="\n" if names.bad else "")
    return 1 if names.bad else 0


if __name__ == "__main__":
    sys.exit(main())
