#!/usr/bin/env python3
"""References in documents and comments lead somewhere.

Usage: tools/check_refs.py [ROOT]

Read are all *.md files, the comments of C sources and of scripts, and the help texts of the program.
Checked are
    links        [text](file#anchor)
    paths        src/a/b.c, tests/..., docs/...; component/file.h; names of files: file.c, x.sh
    tests        unit.component.x, table.x, golden.x, e2e.x, fuzz.x, tools.x
    commands     ./dev COMMAND, ./dev bench NAME, 'sluice COMMAND', and the --options of a command
    design notes design/NNNN
    names        sl_... that no source contains
    papers.md    is not in the repository: cite paper and section
CHANGELOG.md tells of the past: only its links are checked. tools/refs_foreign.txt lists files and
options of other programs, with the program.
"""

import fnmatch
import pathlib
import re
import sys

import c_source

FOLDERS = "src|tests|docs|tools|bench|include|cmake|examples|models|python|shared"
PATH = re.compile(rf"(?<![\w./$}}~*-])((?:{FOLDERS})/[\w./*<>{{}},-]*[\w*}}])")
LINK = re.compile(r"\]\(([^)\s]+)\)")
FILE = re.compile(r"(?<![\w./$}*<>-])([A-Za-z0-9_][\w-]*\.(?:c|h|cu|cuh|sh|py|awk|cmake|md))(?![\w./(-])")
TEST = re.compile(r"(?<![\w./-])(unit\.\w+\.\w+|(?:table|golden|e2e|fuzz|tools)\.[a-z_0-9]+)(?![\w.(/*-])")
DEV = re.compile(r"(?:(?<=')|(?<=`)|(?<=^    )|(?<=^))\./dev ([a-z]+)(?: ([a-z][\w-]*))?", re.M)
SLUICE = re.compile(r"(?:(?<=')|(?<=`)|(?<=\$ )|(?<=^    ))sluice ([a-z]+)\b([^'`\n]*)", re.M)
OPTION = re.compile(r"(?<![\w-])(--[a-z][a-z0-9-]*)")
NAME = re.compile(r"\b(sl_[a-z0-9_]+[a-z0-9])\b(?!\*|_)")
PLACEHOLDER = re.compile(r"^(foo|bar|x|y|a|b|my|name|file|main|your)\b|^[A-Z]+\.|^[a-z]\.")


def slug(title):
    title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title.strip().lower())
    title = re.sub(r"[^\w\- ]", "", title.replace("`", ""))
    return title.replace(" ", "-")


def anchors(text):
    found = {}
    fenced = False
    out = set()
    for line in text.splitlines():
        if line.startswith("```"):
            fenced = not fenced
        match = re.match(r"#+\s+(.*)", line)
        if match and not fenced:
            key = slug(match.group(1))
            count = found.get(key, 0)
            found[key] = count + 1
            out.add(key if not count else f"{key}-{count}")
    return out


def script_comments(text):
    """[(line, comment)] of shell, Python, awk and CMake."""
    rows = []
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r"\s*#(?!!)(.*)|.*?\s#\s(.*)", line)
        if match:
            rows.append((number, match.group(1) or match.group(2) or ""))
    for match in re.finditer(r'"""(.*?)"""', text, re.S):  # Python
        first = text.count("\n", 0, match.start()) + 1
        rows += [(first + i, row) for i, row in enumerate(match.group(1).splitlines())]
    return rows


class Refs:
    def __init__(self, root):
        self.root = root
        self.bad = []
        skip = {".git", "build"}
        self.files = [p.relative_to(root) for p in sorted(root.rglob("*"))
                      if p.is_file() and not skip & set(p.relative_to(root).parts)]
        self.paths = {str(p) for p in self.files} | {str(d) for p in self.files for d in p.parents}
        self.names = {p.name for p in self.files}
        self.foreign = self.read_foreign()
        self.sources = {p: c_source.read(root / p) for p in self.files
                        if p.suffix in (".c", ".h", ".cu", ".py", ".sh", ".awk", ".cmake", ".txt", ".bash", ".map")
                        or p.name in ("dev", "ROOMS", "run") and p.suffix == ""}
        self.identifiers = self.read_identifiers()
        self.commands = self.read_commands()
        self.options = self.read_options()
        self.dev = self.read_dev()

    # ---- what exists ----
    def read_foreign(self):
        """Lines of tools/refs_foreign.txt: WORD # which program."""
        path = self.root / "tools/refs_foreign.txt"
        rows = c_source.read(path).splitlines() if path.exists() else []
        return {row.split("#")[0].strip() for row in rows if row.split("#")[0].strip()}

    def read_identifiers(self):
        """Words of code: C with its comments taken out, and strings, which name symbols at run time."""
        words = set()
        for path, text in self.sources.items():
            code = text
            if path.suffix in (".c", ".h", ".cu"):
                code = c_source.TOKEN.sub(lambda m: m.group() if m.group()[0] == '"' else " ", text)
            words.update(re.findall(r"\bsl_\w+", code))
        for word in list(words):  # names that macros put together: sl_op_ ## name
            words.update(re.findall(r"sl_\w+_", word))
        return words

    def read_commands(self):
        """{command: {option}} of the program."""
        found = {}
        for path, text in self.sources.items():
            if not re.match(r"src/cli/cmd_\w+\.c$", str(path)):
                continue
            for name in re.findall(r'\.name\s*=\s*"([a-z-]+)"', text):
                found[name] = True
        return found

    def read_options(self):
        known = set()
        for path, text in self.sources.items():
            if str(path).startswith(("src/", "bench/", "tools/", "tests/")) or str(path) == "dev":
                if path.suffix in (".c", ".h"):
                    known.update(re.findall(r'"(--[a-z][a-z0-9-]*)', text))
                else:
                    known.update(OPTION.findall(text))
        return known

    def read_dev(self):
        text = self.sources.get(pathlib.Path("dev"), "")
        usage = text[text.find("Usage:"):text.find("\nTEXT")]
        return set(re.findall(r"^  ([a-z]+)\b", usage, re.M)) | {"help"}

    # ---- checks ----
    def fail(self, path, line, text):
        self.bad.append(f"{path}:{line}: {text}")

    def exists(self, path):
        path = path.rstrip("/.")
        if "{" in path:
            head, rest = path.split("{", 1)
            inner, _, tail = rest.partition("}")
            return all(self.exists(head + part + tail) for part in inner.split(","))
        # Placeholders: <component>, NAME, x, foo.
        path = re.sub(r"<\w+>|\bNNNN[\w-]*|(?<=[/_])(?:[A-Z]{3,}|[xX]|foo)\b", "*", path)
        if "*" in path:
            return any(fnmatch.fnmatch(p, path) or fnmatch.fnmatch(p, path + "/*") for p in self.paths)
        return path in self.paths or any(p.startswith(path + ".") or p.startswith(path + "-") for p in self.paths)

    def is_component_path(self, word):
        return any(f"src/{word}" == p or p.endswith("/" + word) for p in self.paths)

    def check_links(self, path, text):
        for number, line in enumerate(text.splitlines(), 1):
            for target in LINK.findall(line):
                if re.match(r"[a-z]+:", target):
                    continue
                file, _, anchor = target.partition("#")
                to = (self.root / path.parent / file).resolve() if file else self.root / path
                if not to.exists():
                    self.fail(path, number, f"the link {target} leads nowhere")
                elif anchor and to.suffix == ".md" and anchor not in anchors(c_source.read(to)):
                    self.fail(path, number, f"{file or path} has no section #{anchor}")

    def check_text(self, path, number, text, markdown):
        if "papers.md" in text:
            self.fail(path, number, "papers.md is not in the repository; cite paper and section")
        plain = LINK.sub("]", re.sub(r"https?://\S+", " ", text))
        for word in PATH.findall(plain):
            if word.startswith("shared/"):
                continue
            if not self.exists(word) and word not in self.foreign:
                self.fail(path, number, f"there is no {word}")
        for word in re.findall(r"(?<![\w./<-])([a-z]+(?:/[a-z_0-9]+)+\.(?:c|h|cu))\b", plain):
            if not re.match(rf"({FOLDERS})/", word) and not self.is_component_path(word) \
                    and word not in self.foreign and not re.match(r"sys/|.*/(x|foo)\.", word):
                self.fail(path, number, f"there is no {word} in src/")
        for word in FILE.findall(PATH.sub(" ", re.sub(r"<[\w./]+>", " ", plain))):
            if word not in self.names and word not in self.foreign and not PLACEHOLDER.match(word):
                self.fail(path, number, f"there is no file {word}")
        for word in re.findall(r"\bdesign/(\d{4})", plain):
            if not any(re.match(rf"docs/design/{word}", p) for p in self.paths):
                self.fail(path, number, f"there is no design note {word}")
        self.check_tests(path, number, plain)
        self.check_commands(path, number, plain, markdown)
        for word in NAME.findall(plain):
            if word not in self.identifiers and word not in self.foreign and not any(
                    w.startswith(word + "_") for w in self.identifiers):
                self.fail(path, number, f"{word} is in no source")

    def check_tests(self, path, number, text):
        for word in TEST.findall(text):
            kind, rest = word.split(".", 1)
            if rest in ("x", "c", "h", "sh", "py", "md", "txt", "json", "a", "so"):
                continue
            if kind == "unit":
                component, name = rest.split(".")
                there = f"tests/unit/{component}/test_{name}.c" in self.paths
                there = there or any(p.startswith(f"tests/unit/{component}/test_{name}") for p in self.paths)
            elif kind == "table":
                there = any(p.startswith(f"tests/table/test_{rest}") for p in self.paths)
            elif kind == "fuzz":
                there = any(p.startswith(f"tests/fuzz/fuzz_{rest}") for p in self.paths)
            else:
                there = any(p.startswith(f"tests/{kind}/{rest}") for p in self.paths)
            if not there:
                self.fail(path, number, f"there is no test {word}")

    def check_commands(self, path, number, text, markdown):
        for command, first in DEV.findall(text):
            if command not in self.dev:
                self.fail(path, number, f"./dev has no command {command}")
            elif command == "bench" and first not in ("", "x") and not any(
                    re.match(rf"bench/{re.escape(first)}(\.\w+)?$", p) for p in self.paths):
                self.fail(path, number, f"there is no bench {first}")
        if not self.commands:
            return
        for command, rest in SLUICE.findall(text):
            if command not in self.commands:
                if markdown or command not in ("is", "has", "and", "or", "the", "was", "of", "as", "does"):
                    self.fail(path, number, f"sluice has no command {command}")
                continue
            for option in OPTION.findall(rest):
                if option not in self.options and option not in self.foreign:
                    self.fail(path, number, f"there is no option {option}")
        if markdown:
            for span in re.findall(r"`(--[^`]*)`", text):
                for option in OPTION.findall(span):
                    if option not in self.options and option not in self.foreign:
                        self.fail(path, number, f"there is no option {option}")

    def check_markdown(self, path):
        text = c_source.read(self.root / path)
        self.check_links(path, text)
        if path.name == "CHANGELOG.md":
            return
        fence = ""
        for number, line in enumerate(text.splitlines(), 1):
            if line.startswith("```"):
                fence = "" if fence else line[3:].strip() or "text"
            # A C block is code to come, and a page of docs/adding says "Write `FILE`:".
            if fence != "c" and not line.startswith("Write `"):
                self.check_text(path, number, line, not fence)

    def run(self):
        for path in self.files:
            if path.suffix == ".md":
                self.check_markdown(path)
            elif path not in self.sources or "corpus" in path.parts:
                continue
            elif path.suffix in (".c", ".h", ".cu"):
                for line, text in c_source.comments(self.sources[path]):
                    for offset, row in enumerate(text.splitlines()):
                        self.check_text(path, line + offset, row, False)
            elif path.suffix in (".sh", ".py", ".awk", ".cmake", ".bash") or path.name == "dev":
                if path.name.startswith("check_") or path.parts[:2] == ("tests", "tools"):
                    continue  # these show what they reject
                for line, text in script_comments(self.sources[path]):
                    self.check_text(path, line, text, False)
        return self.bad


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "..").resolve()
    bad = Refs(root).run()
    print("\n".join(bad), end="\n" if bad else "")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
