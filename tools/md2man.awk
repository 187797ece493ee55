# Converts a document of docs/ to a manual page: awk -v name=sluice-plan -v version=0.2.0 -f md2man.awk X.md
# Supports: headings, paragraphs, lists, tables, code, `code`, **bold**, links.
function roff(text) {
    gsub(/\\/, "\\e", text)
    gsub(/-/, "\\-", text)
    if (text ~ /^[.']/) text = "\\&" text
    return text
}
function inline(text,    out, piece) {
    while (match(text, /\[[^][]*\]\([^)]*\)/)) {
        piece = substr(text, RSTART + 1, RLENGTH - 1)
        sub(/\]\(.*/, "", piece)
        text = substr(text, 1, RSTART - 1) piece substr(text, RSTART + RLENGTH)
    }
    text = roff(text)
    out = ""
    while (match(text, /`[^`]*`|\*\*[^*]*\*\*|\*[a-z][^*`]*\*/)) {
        piece = substr(text, RSTART, RLENGTH)
        gsub(/^(`|\*\*?)|(`|\*\*?)$/, "", piece)
        out = out substr(text, 1, RSTART - 1) "\\fB" piece "\\fR"
        text = substr(text, RSTART + RLENGTH)
    }
    out = out text
    return out ~ /^[.']/ ? "\\&" out : out
}
function shown(on) { if (on != example) print on ? ".PP\n.EX" : ".EE"; example = on }
BEGIN { title = toupper(name); gsub(/-/, "\\-", title) }
/^```/ { fenced = !fenced; shown(fenced); next }
fenced { print roff($0); next }
/^# / {
    printf ".TH \"%s\" 5 \"\" \"sluice %s\" \"Sluice\"\n.SH NAME\n", title, version
    brief = substr($0, 3)
    print roff(name) " \\- " inline(tolower(substr(brief, 1, 1)) substr(brief, 2)) "\n.SH DESCRIPTION"
    next
}
/^    / { shown(1); printf "%s", held; held = ""; print roff(substr($0, 5)); next }
/^$/ { if (example) held = held "\n"; else blank = 1; next }
{ shown(0); held = "" }
/^## / { print ".SH " inline(substr($0, 4)); blank = 0; next }
/^### / { print ".SS " inline(substr($0, 5)); blank = 0; next }
/^\|[-| :]*\|$/ { next }
/^\|/ {
    gsub(/^\| *| *\|$/, "")
    cells = split($0, cell, / *\| */)
    printf ".TP\n%s\n", inline(cell[1])
    line = ""
    for (i = 2; i <= cells; i++) line = line (i > 2 ? "; " : "") cell[i]
    print line == "" ? "\\&" : inline(line)
    blank = 0
    next
}
/^ *(-|[0-9]+\.) / { sub(/^ *(-|[0-9]+\.) /, ""); print ".IP \\(bu 2"; blank = 0 }
{ sub(/^ +/, ""); if (blank) print ".PP"; blank = 0; print inline($0) }
END { shown(0); print ".SH SEE ALSO\n.BR sluice (1)" }
