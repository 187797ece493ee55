#!/usr/bin/env python3
"""Facts about an entry of a registry belong to its row: no other code compares entry names.

Usage: tools/check_rows.py [ROOT]

The entry names are those of `const struct TYPE x = {.name = "..."}` for the row types below. A file
other than the registry (the file that holds the table) and the files that define rows of this type
must not compare a text with an entry's name, or with the beginning of several names ("zb-"):
strcmp, strncmp, strcasecmp, memcmp, strstr, sl_str_is, sl_str_starts and macros like them. The same
holds for tables that map names of schedules, policies or planners to something else. (A device's
tables of kernels, src/device/, name the ops and optimizers that they implement.)
A word that is no entry at this place is marked /* not an entry: REASON */ on its line.
"""

import pathlib
import re
import sys

import c_source

TYPES = {"sl_schedule": "schedule", "sl_policy": "policy", "sl_planner": "planner",
         "sl_search_planner": "planner", "sl_peers_cost_model": "cost model", "sl_optimizer": "optimizer",
         "sl_device_row": "device", "sl_op": "op", "sl_transport": "transport",
         "sl_importer": "importer", "sl_exporter": "exporter", "sl_data_kind": "data kind"}
COMPARE = re.compile(r"\b(str(?:n?case)?n?cmp|strn?casecmp|memcmp|strstr|sl_str_is|sl_str_eq|sl_str_starts|"
                     r"sl_text_is|starts_with|ends_with|starts|ends|is_named)\s*\(")
MAPPED = {"schedule", "policy", "planner"}
ROW = re.compile(r"\bstruct\s+(\w+)\s+(\w+)\s*=\s*\{")


def braces(code, at):
    """The offset behind the brace that closes the one at `at`."""
    depth = 0
    for i in range(at, len(code)):
        depth += (code[i] == "{") - (code[i] == "}")
        if depth == 0:
            return i + 1
    return len(code)


def arguments(text, code, at):
    """String literals among the arguments of a call; at: its '('."""
    depth, end = 0, at
    for end in range(at, len(code)):
        depth += (code[end] == "(") - (code[end] == ")")
        if depth == 0:
            break
    return [value for _, value in c_source.strings(text[at:end])]


class Rows:
    def __init__(self, root):
        self.root = root
        self.names = {}   # kind: {name}
        self.owners = {}  # kind: {path}
        self.bad = []
        files = (p for p in sorted((root / "src").rglob("*")) if p.suffix in (".c", ".h", ".cu"))
        self.files = {p: c_source.read(p) for p in files}
        self.codes = {p: c_source.blank(t) for p, t in self.files.items()}

    def collect(self):
        for path, text in self.files.items():
            code = self.codes[path]
            for match in ROW.finditer(code):
                kind = TYPES.get(match.group(1))
                body = text[match.end() - 1:braces(code, match.end() - 1)]
                name = re.search(r'\.name\s*=\s*"([^"]+)"', body)
                if kind and name:
                    self.names.setdefault(kind, set()).add(name.group(1))
                    self.owners.setdefault(kind, set()).add(path)
            self.collect_made(path, text)
            for kind_type, kind in TYPES.items():
                if re.search(rf"\bstruct\s+{kind_type}\s*\*\s*const\s+\w+\s*\[", code):
                    self.owners.setdefault(kind, set()).add(path)

    def collect_made(self, path, text):
        """Rows that a macro makes: ROW(2bw, "2bw", ...) of the file, SL_OP_ROW(add, ...) of op/common.h."""
        for name in re.findall(r"^SL_OP_ROW\((\w+),", text, re.M):
            self.names.setdefault("op", set()).add(name)
            self.owners.setdefault("op", set()).add(path)
        for macro in re.finditer(r"#define (\w+)\((?:\\\n|[^\n])*", text):
            row = re.search(r"const struct (\w+) \w*##", macro.group())
            kind = TYPES.get(row.group(1)) if row else None
            for name in re.findall(rf'^{macro.group(1)}\(\w+,\s*"([^"]+)"', text, re.M) if kind else ():
                self.names.setdefault(kind, set()).add(name)
                self.owners.setdefault(kind, set()).add(path)

    def kinds_of(self, value, path):
        """Kinds of entries that a literal names, for a file that owns none of them."""
        found = []
        for kind, names in self.names.items():
            if path in self.owners[kind]:
                continue
            several = value and len(value) > 2 and sum(n.startswith(value) for n in names) > 1
            if value in names or (several and not value.isalpha()):
                found.append(kind)
        return found

    def marked(self, text, line):
        return "not an entry:" in text.splitlines()[line - 1]

    def report(self, path, offset, value, kinds, what):
        text = self.files[path]
        line = text.count("\n", 0, offset) + 1
        if not self.marked(text, line):
            self.bad.append(f"{path.relative_to(self.root)}:{line}: {what} \"{value}\", the name of "
                            f"{' or '.join('an ' + k if k[0] in 'aeio' else 'a ' + k for k in kinds)}; "
                            "ask a field of its row")

    def check(self, path):
        text, code = self.files[path], self.codes[path]
        for match in COMPARE.finditer(code):
            for value in arguments(text, code, match.end() - 1):
                kinds = self.kinds_of(value, path)
                if kinds:
                    self.report(path, match.start(), value, kinds, "compares with")
        for match in re.finditer(r"\{\s*\"", code):  # {"name", ...}: a row of a table of names
            at = match.end() - 1
            value = re.match(r'"((?:\\.|[^"\\])*)"\s*,', text[at:])
            if not value:
                continue
            kinds = [k for k in self.kinds_of(value.group(1), path) if k in MAPPED]
            if kinds:
                self.report(path, at, value.group(1), kinds, "maps")


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "..").resolve()
    rows = Rows(root)
    rows.collect()
    for path in rows.files:
        rows.check(path)
    print("\n".join(rows.bad), end="\n" if rows.bad else "")
    return 1 if rows.bad else 0


if __name__ == "__main__":
    sys.exit(main())
