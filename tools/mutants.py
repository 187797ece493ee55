"""Semantic mutants of C sources: changed operators and constants, dropped checks, calls and assignments.

    find(path, text)     all mutants of a file, as (function, operator, Mutant)
    sample(found, n, rng)  n of them, spread over operators and functions
"""

import re

import c_source
from schemata import Mutant

RELATIONS = {" < ": " <= ", " <= ": " < ", " > ": " >= ", " >= ": " > ", " == ": " != ", " != ": " == "}
LOGIC = {" && ": " || ", " || ": " && "}
SUMS = {" + ": " - ", " - ": " + ", " * ": " + ", " % ": " / "}
FAMILIES = (("relation", RELATIONS), ("logic", LOGIC), ("arithmetic", SUMS))

# Leaks, messages and times: other means find them (sanitizers, golden tests), or nothing observable changes.
SKIPPED = re.compile(
    r"\b(free|\w*_free|\w*_close|\w*_destroy|SL_\w*FREE|SL_ASSERT\w*|assert|fprintf|sl_(v?fail|err_\w+|warn|note|"
    r"text_\w+|json_\w+|realloc|arena_\w+)|SL_NEW\w*|calloc|malloc|alloc\w*|memset|va_\w+|madvise|posix_fadvise|sched_yield|nanosleep|setpriority)\s*\(")
# What such a function does may not be changed on a machine that others use.
DANGEROUS = re.compile(r"\b(unlink|unlinkat|rmdir|remove|rename|nftw|mount|reboot|system)\s*\(")
DECLARATION = re.compile(r"^\s*(static|const|struct|enum|union|typedef|extern|unsigned|signed|register)\b"
                         r"|^\s*[A-Za-z_]\w*\s+\**[A-Za-z_]\w*\s*(=|;|\[|,)")


def matching(code, at):
    """Offset behind the bracket that closes the one at `at`."""
    pairs, depth = {"(": ")", "{": "}", "[": "]"}, 0
    for i in range(at, len(code)):
        if code[i] in "([{":
            depth += 1
        elif code[i] in ")]}":
            depth -= 1
            if depth == 0:
                return i + 1
    raise ValueError(pairs[code[at]])


def functions(code):
    """(name, start, end) of the body of each function; `code` has no comments and no literals."""
    for match in re.finditer(r"^[A-Za-z_][^;{}=]*?\b(\w+)\([^;{}]*\)\s*\{", code, re.M):
        start = match.end() - 1
        yield match.group(1), start, matching(code, start)


def edits(code, text, start, end):
    """(operator, new text) for each change of an expression."""
    part = code[start:end]
    for family, table in FAMILIES:
        for match in re.finditer(r"(?<=\S)( [<>]=? | [=!]= | && | \|\| | [-+*%] )(?=\S)", part):
            if match.group(1) == " - " and not part[match.end()].isdigit():
                continue  # perhaps pointers
            if match.group(1) in table:
                a, b = start + match.start(), start + match.end()
                yield family, text[start:a] + table[match.group(1)] + text[b:end]
    for match in re.finditer(r"(?<![\w.\"'])(\d{1,6})(?![\w.\"'])", part):
        if re.search(r"(<<|>>|%) $|\[$", part[:match.start()]):
            continue
        a, b = start + match.start(), start + match.end()
        yield "constant", text[start:a] + str(int(match.group(1)) + 1) + text[b:end]
    for match in re.finditer(r"!(?=[\w(])", part):
        a = start + match.start()
        yield "negation", text[start:a] + text[a + 1:end]


def statements(code, start, end):
    """(start, end) of the simple statements of a body, without the semicolon."""
    parens, depth = [], 0
    for c in code[start:end]:
        depth += c == "("
        depth -= c == ")"
        parens.append(depth)
    for match in re.finditer(r"(?:(?<=[;{}])|(?<=else)|(?<=\)))\s*(?=[A-Za-z_*(+-])", code[start:end]):
        first = start + match.end()
        if parens[match.end()] - (code[first] == "("):
            continue  # in the head of a for
        stop, depth = first, 0
        while stop < end:
            c = code[stop]
            depth += c in "([{"
            depth -= c in ")]}"
            if depth < 0 or (depth == 0 and c == ";"):
                break
            stop += 1
        if stop < end and code[stop] == ";":
            before = code[start:first].rstrip()
            if before.endswith(")") and not after_control(code, start, before):
                continue
            yield first, stop


def after_control(code, start, before):
    """Does the bracket that ends `before` belong to if, for or while?"""
    depth, i = 0, start + len(before) - 1
    while i >= start:
        depth += code[i] == ")"
        depth -= code[i] == "("
        if depth == 0:
            break
        i -= 1
    return re.search(r"\b(if|for|while|switch)\s*$", code[start:i]) is not None


def is_plain(code, a, b):
    words = code[a:b]
    return not re.match(r"\s*(if|else|for|while|do|switch|case|default|return|goto|break|continue)\b", words)


def find(path, text):
    code = c_source.blank(text)
    code = re.sub(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", lambda m: re.sub(r"[^\n]", " ", m.group()), code, flags=re.M)
    for name, start, end in functions(code):
        if DANGEROUS.search(code[start:end]):
            continue
        yield from find_conditions(path, text, code, name, start, end)
        yield from find_values(path, text, code, name, start, end)
        yield from find_drops(path, text, code, name, start, end)


def find_conditions(path, text, code, name, start, end):
    for match in re.finditer(r"\b(if|while) \(", code[start:end]):
        a = start + match.end() - 1
        b = matching(code, a)
        a, b = a + 1, b - 1
        if SKIPPED.search(code[a:b]):
            continue
        for operator, new in edits(code, text, a, b):
            yield name, operator, Mutant(path, a, b, new, False)
        rest = code[b + 1:b + 400].lstrip()
        if match.group(1) == "if" and re.match(r"\{?\s*return\b", rest):
            yield name, "dropped check", Mutant(path, a, b, "0", False)
    for match in re.finditer(r"\bfor \(", code[start:end]):
        a = start + match.end() - 1
        b = matching(code, a)
        parts = code[a + 1:b - 1].split(";")
        if len(parts) == 3 and parts[1].strip():
            a += 1 + len(parts[0]) + 1
            b = a + len(parts[1])
            for operator, new in edits(code, text, a, b):
                yield name, operator, Mutant(path, a, b, new, False)


def find_values(path, text, code, name, start, end):
    for match in re.finditer(r"\breturn (?=[^;{}]*;)|(?<=[\w\])]) [-+|&]?= (?=[^;{}]*;)", code[start:end]):
        a = start + match.end()
        line = code.rfind("\n", 0, a) + 1
        b, depth = a, 0
        while code[b] != ";" and not (depth == 0 and code[b] == ","):
            depth += code[b] in "([{"
            depth -= code[b] in ")]}"
            if depth < 0:
                break
            b += 1
        if depth < 0 or code[b] not in ";," or SKIPPED.search(code[a:b]) or "static" in code[line:a]:
            continue
        if code.count("(", line, a) != code.count(")", line, a) or "{" in code[a:b] or '"' in code[a:b]:
            continue
        for operator, new in edits(code, text, a, b):
            yield name, operator, Mutant(path, a, b, new, False)


def find_drops(path, text, code, name, start, end):
    for a, b in statements(code, start, end):
        words = code[a:b]
        if not is_plain(code, a, b) or SKIPPED.search(words) or DECLARATION.match(words):
            continue
        if re.match(r"(\(void\)|SL_NORETURN|abort|exit|_exit)", words):
            continue
        if re.match(r"[\w.\[\]>*()-]+\s[-+|&^]?=\s|[\w.\[\]>-]+(\+\+|--)$|(\+\+|--)", words):
            yield name, "dropped assignment", Mutant(path, a, b + 1, "", True)
        elif re.match(r"[A-Za-z_]\w*\(", words):
            yield name, "dropped call", Mutant(path, a, b + 1, "", True)


def sample(found, count, rng):
    """Round-robin over operators; within one, over functions."""
    by_operator = {}
    for name, operator, mutant in found:
        by_operator.setdefault(operator, {}).setdefault((mutant.file, name), []).append(mutant)
    queues = []
    for operator in sorted(by_operator):
        groups = [sorted(g, key=lambda m: (m.start, m.end, m.new)) for _, g in sorted(by_operator[operator].items())]
        for group in groups:
            rng.shuffle(group)
        rng.shuffle(groups)
        queue = []
        for round_ in range(max(map(len, groups))):
            queue += [g[round_] for g in groups if round_ < len(g)]
        queues.append((operator, queue))
    chosen = []
    while len(chosen) < count and any(queue for _, queue in queues):
        for operator, queue in queues:
            if queue and len(chosen) < count:
                mutant = queue.pop(0)
                mutant.note = operator
                chosen.append(mutant)
    return chosen
