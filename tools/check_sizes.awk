# Sizes of files, functions, parameter lists and nesting; see check_sizes.sh. Needs strip_c.awk.
function fail(line, text) {
    printf "%s:%d: %s\n", file, line, text
    bad = 1
}

# Counts the parameters in the last parenthesised group of a function's head.
function count_params(head,    i, c, depth, start, count) {
    i = length(head)
    depth = 0
    for (; i > 0; i--) {
        c = substr(head, i, 1)
        if (c == ")")
            depth++
        else if (c == "(" && --depth == 0)
            break
    }
    start = substr(head, i + 1)
    sub(/\)[^)]*$/, "", start)
    if (start ~ /^[ \t]*(void)?[ \t]*$/)
        return 0
    count = 1
    depth = 0
    for (i = 1; i <= length(start); i++) {
        c = substr(start, i, 1)
        if (c == "(" || c == "[")
            depth++
        else if (c == ")" || c == "]")
            depth--
        else if (c == "," && depth == 0)
            count++
    }
    return count
}

# The name in front of the last parenthesised group.
function head_name(head,    i, c, depth) {
    depth = 0
    for (i = length(head); i > 0; i--) {
        c = substr(head, i, 1)
        if (c == ")")
            depth++
        else if (c == "(" && --depth == 0)
            break
    }
    head = substr(head, 1, i - 1)
    sub(/[ \t]+$/, "", head)
    sub(/^.*[^A-Za-z0-9_]/, "", head)
    return head
}

function is_function(head,    flat) {
    if (head !~ /\)[ \t]*$/)
        return 0
    flat = head
    while (gsub(/\([^()]*\)/, "", flat))
        ;
    return flat !~ /=/
}

function open_brace(line) {
    if (depth++ > 0 || !is_function(head))
        return
    in_function = 1
    open_line = line
    name = head_name(head)
    params = count_params(head)
    if (params > max_params)
        fail(line, name ": " params " parameters, at most " max_params)
}

function close_brace(line) {
    if (depth > 0)
        depth--
    if (depth > 0)
        return
    if (in_function && line - open_line + 1 > max_function)
        fail(open_line, name ": " (line - open_line + 1) " lines, at most " max_function)
    in_function = 0
    head = ""
}

function check_nesting(raw,    level) {
    if (match(raw, /^ +(\} else )?(if|for|while|switch|do)[ ({]/) == 0)
        return
    match(raw, /^ +/)
    level = int(RLENGTH / 4)
    if (level > max_nesting)
        fail(FNR, name ": nesting of " level ", at most " max_nesting)
}

function end_file(    limit) {
    if (file == "")
        return
    limit = file ~ /\.h$/ ? max_header : max_file
    if (last > limit)
        fail(last, last " lines, at most " limit)
}

FNR == 1 {
    end_file()
    file = FILENAME
    strip_reset()
    depth = 0
    in_function = 0
    head = ""
    directive = 0
}

{
    last = FNR
    code = strip($0)
    if (directive || code ~ /^[ \t]*#/) {
        directive = code ~ /\\$/
        next
    }
    if (in_function)
        check_nesting(code)
    while (match(code, /[{};]/)) {
        before = substr(code, 1, RSTART - 1)
        c = substr(code, RSTART, 1)
        code = substr(code, RSTART + 1)
        if (depth == 0)
            head = head " " before
        if (c == "{") {
            open_brace(FNR)
        } else if (c == "}") {
            close_brace(FNR)
        } else if (depth == 0) {
            head = ""
        }
    }
    if (depth == 0)
        head = head " " code
}

END {
    end_file()
    exit bad
}
