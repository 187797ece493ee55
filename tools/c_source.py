"""C sources for the checkers: comments, string literals and code.

    blank(text)      the code; comments and the insides of literals become spaces, lines stay
    comments(text)   [(line, text)] of each comment
    top_level(code)  [(line, head, opens)] of each declaration and definition at file scope
    strings(text)    [(offset, value)] of each string literal in code
"""

import pathlib
import re

TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def read(path):
    return pathlib.Path(path).read_text(encoding="utf-8", errors="replace")


def _spaces(text):
    return re.sub(r"[^\n]", " ", text)


def blank(text):
    def hide(match):
        token = match.group()
        if token[0] == "/":
            return _spaces(token)
        return token[0] + _spaces(token[1:-1]) + token[0]

    return TOKEN.sub(hide, text)


def comments(text):
    found = []
    for match in TOKEN.finditer(text):
        if match.group()[0] == "/":
            found.append((text.count("\n", 0, match.start()) + 1, match.group()))
    return found


def strings(text):
    return [(m.start(), m.group()[1:-1]) for m in TOKEN.finditer(text) if m.group()[0] == '"']


def _without_directives(code):
    return re.sub(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", lambda m: _spaces(m.group()), code, flags=re.M)


def top_level(code):
    """(line, head, body) of each declaration; body is the text in its last braces, or None."""
    code = _without_directives(code)
    code = re.sub(r'extern\s+"\s*C?\s*"\s*\{', _keep_lines, code)
    rows, depth, head, start, open_at, body = [], 0, "", 0, 0, None
    for at, c in enumerate(code):
        if c == "{":
            if depth == 0:
                open_at = at
            depth += 1
        elif c == "}":
            depth -= 1
            if depth == 0:
                body = code[open_at + 1:at]
            if depth <= 0 and is_function(head):
                rows.append((_line(code, start), " ".join(head.split()), body))
                head, start, body = "", at + 1, None
            depth = max(0, depth)
        elif c == ";" and depth == 0:
            if head.strip():
                rows.append((_line(code, start), " ".join(head.split()), body))
            head, start, body = "", at + 1, None
        elif depth == 0:
            head += c
    return rows


def is_function(head):
    return head.rstrip().endswith(")") and "=" not in head


def _keep_lines(match):
    return _spaces(match.group())


def _line(code, start):
    while start < len(code) and code[start].isspace():
        start += 1
    return code.count("\n", 0, start) + 1
