# Shared by the checkers: strip(line) returns a line of C without comments and with the contents of
# string and character literals removed, so that what is left can be matched as code. State that
# spans lines is reset by strip_reset() at the start of each file.
function strip_reset() {
    strip_comment = 0
}

function strip(line,    out, pos, quote, c) {
    out = ""
    while (line != "") {
        if (strip_comment) {
            pos = index(line, "*/")
            if (pos == 0)
                return out
            line = substr(line, pos + 2)
            strip_comment = 0
            out = out " "
            continue
        }
        if (!match(line, /\/\*|\/\/|["']/))
            return out line
        out = out substr(line, 1, RSTART - 1)
        c = substr(line, RSTART, 1)
        pos = substr(line, RSTART, 2)
        line = substr(line, RSTART + RLENGTH)
        if (pos == "//")
            return out
        if (pos == "/*") {
            strip_comment = 1
            continue
        }
        quote = c
        out = out quote
        while (line != "") {
            c = substr(line, 1, 1)
            if (c == "\\") {
                line = substr(line, 3)
                continue
            }
            line = substr(line, 2)
            if (c == quote)
                break
        }
        out = out quote
    }
    return out
}
