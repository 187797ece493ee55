#!/usr/bin/env bash
# Sabotage: tools/check_sizes.sh accepts trees at the limits and rejects one more of each.
set -euo pipefail
shopt -s lastpipe
here=$(cd "$(dirname "$0")" && pwd)
checker=$here/../../tools/check_sizes.sh
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree/src/base"
count=0

lines() { # N TEXT
    local i
    for ((i = 0; i < $1; i++)); do echo "$2"; done
}

expect() { # ok|bad WHAT FILE; the content on stdin
    rm -f "$tree"/src/base/*
    cat >"$tree/src/base/$3"
    count=$((count + 1))
    local got=ok
    "$checker" "$tree" >"$tree/out" || got=bad
    if [ "$got" != "$1" ]; then
        echo "FAILED: $2: expected $1"
        cat "$tree/out"
        exit 1
    fi
    [ "$got" = ok ] || grep -q "^src/base/$3:[0-9]*: " "$tree/out"
}

function_of() { # LINES, from { to }
    echo 'static int f(int a) {'
    lines $(($1 - 2)) '    a++;'
    echo '}'
}

lines 500 'int x;' | expect ok "500 lines" a.c
lines 501 'int x;' | expect bad "501 lines" a.c
lines 200 'int x;' | expect ok "a header of 200 lines" a.h
lines 201 'int x;' | expect bad "a header of 201 lines" a.h
lines 501 'true' | expect bad "a script of 501 lines" a.sh
function_of 60 | expect ok "a function of 60 lines" a.c
function_of 61 | expect bad "a function of 61 lines" a.c
{ function_of 30 && function_of 61; } | expect bad "the second function" a.c
{ echo 'static const int t[] = {' && lines 80 '    1,' && echo '};'; } | expect ok "a long table" a.c
{ echo 'struct s {' && lines 80 '    int x;' && echo '};'; } | expect ok "a long struct" a.c
{ echo 'struct s { int x; };' && function_of 61; } | expect bad "after a struct" a.c
{ printf 'const char *s = "{";\nint c = %s;\n' "'{'" && function_of 61; } | expect bad "after braces in literals" a.c
{ printf '/* {\n { */\n// {\n#define A {\n#define B \\\n    {\n' && function_of 61; } | expect bad "after braces in comments and macros" a.c
{ printf 'static int\nlong_name(int a,\n          int b)\n{\n' && lines 60 '    a++;' && echo '}'; } | expect bad "a brace on its own line" a.c
echo 'int f(int a, int b, int c, int d, int e, int g) { return a; }' | expect ok "6 parameters" a.c
echo 'int f(int a, int b, int c, int d, int e, int g, int h) { return a; }' | expect bad "7 parameters" a.c
echo 'int f(int (*a)(int, int, int), int b[3], int c, int d, int e, int g) { return b; }' | expect ok "a callback is one parameter" a.c
printf 'int f(int a, int b,\n      int c, int d, int e,\n      int g, int h) {\n    return a;\n}\n' | expect bad "7 parameters on three lines" a.c
echo 'int f(int a, int b, int c, int d, int e, int g, int h);' | expect ok "a declaration is not counted" a.c
echo 'static SL_PRINTF(2, 3) int f(void) { return 0; }' | expect ok "an attribute is not a parameter list" a.c
nest() { # LEVELS braces|plain
    echo 'int f(int a) {'
    local i pad='    ' close=''
    for ((i = 0; i < $1; i++)); do
        if [ "$2" = braces ]; then
            echo "${pad}if (a) {"
            close="$pad}"$'\n'"$close"
        else
            echo "${pad}for (;;)"
        fi
        pad="$pad    "
    done
    echo "${pad}a++;"
    printf '%s}\n' "$close"
}
nest 4 braces | expect ok "4 levels" a.c
nest 5 braces | expect bad "5 levels" a.c
nest 4 plain | expect ok "4 levels without braces" a.c
nest 5 plain | expect bad "5 levels without braces" a.c

component() { # NAME FILES: of 500 lines
    local i
    rm -rf "$tree"/src/*
    mkdir "$tree/src/$1"
    for ((i = 0; i < $2; i++)); do lines 500 'int x;' >"$tree/src/$1/f$i.c"; done
    count=$((count + 1))
    "$checker" "$tree" >"$tree/out"
}
component base 14 || { echo "FAILED: a component of 7000 lines is refused" && exit 1; }
if component base 15; then echo "FAILED: a component of 7500 lines" && exit 1; fi
component cli 10 || { echo "FAILED: cli of 5000 lines is refused" && exit 1; }
if component cli 11; then echo "FAILED: cli of 5500 lines" && exit 1; fi
component device 20 || { echo "FAILED: a large device is refused" && exit 1; }
echo "count: $count trees judged"
