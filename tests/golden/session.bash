# Runs a session: a text of commands and what they print, compared as a whole.
#
#   $ sluice model nosuch
#   sluice: no model 'nosuch'; 'sluice list models' names them, a path works too
#   [exit 3]
#
# Lines that start with "> " continue a command (a here-document). Standard output comes first, then
# standard error. Commands run in an empty directory with `sluice` on the PATH; the source tree is
# printed as SRC. SL_GOLDEN_UPDATE=1 writes the file anew: look at the difference before you commit.
# shellcheck shell=bash

run_command() { # COMMAND
    local rc=0
    (cd "$work/dir" && PATH=$work/bin:$PATH SRC=$SRC_DIR bash -c "$1" </dev/null >"$work/out" 2>"$work/err") || rc=$?
    cat "$work/out" "$work/err"
    [ "$rc" -eq 0 ] || echo "[exit $rc]"
}

play() { # SESSION: prints what it should be
    local line command=""
    while IFS= read -r line || [ -n "$line" ]; do
        if [ -n "$command" ]; then
            if [[ $line == "> "* || $line == ">" ]]; then
                echo "$line"
                line=${line#>}
                command+=$'\n'${line# }
                continue
            fi
            run_command "$command"
            command=""
        fi
        case $line in
        "\$ "*)
            command=${line#"\$ "}
            echo "$line"
            ;;
        "#"*) echo "$line" ;;
        esac
    done <"$1"
    [ -z "$command" ] || run_command "$command"
}

session() { # FILE
    work=$(mktemp -d)
    # shellcheck disable=SC2064
    trap "rm -rf '$work'" EXIT
    mkdir "$work/bin" "$work/dir"
    ln -s "$SLUICE" "$work/bin/sluice"
    play "$1" | sed "s|$SRC_DIR|SRC|g" >"$work/now"
    if [ "${SL_GOLDEN_UPDATE:-0}" = 1 ]; then
        cp "$work/now" "$1"
    elif ! diff -u "$1" "$work/now"; then
        echo "FAILED: ${1##*/} differs; SL_GOLDEN_UPDATE=1 rewrites it once the new output is right"
        return 1
    fi
    echo "count: $(grep -c '^\$ ' "$1") commands"
}
