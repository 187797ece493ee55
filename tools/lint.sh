#!/usr/bin/env bash
# All static checks; ./dev lint calls it. tidy remembers passed files by the hash of their input, for all
# checkouts of a user, so that the second run takes seconds.
# Usage: tools/lint.sh [rooms|sizes|names|rows|refs|shell|format|cppcheck|tidy ...] | --fix-format
set -euo pipefail
cd "$(dirname "$0")/.."
jobs=${SL_JOBS:-$(nproc 2>/dev/null || echo 2)}
database=build/release/compile_commands.json
cache=build/lint
passed=${XDG_CACHE_HOME:-${HOME:-$PWD/build}/.cache}/sluice/tidy
mkdir -p "$cache/tidy" "$cache/cppcheck" "$passed"

c_files() {
    local dirs=() dir
    for dir in src include tests examples bench tools; do
        [ -d "$dir" ] && dirs+=("$dir")
    done
    find "${dirs[@]}" -type f \( -name '*.c' -o -name '*.h' -o -name '*.cu' \) | sort
}

lint_format() {
    local bad
    bad=$(c_files | xargs -r clang-format --dry-run -Werror --style=file 2>&1 |
        sed -n 's/^\([^ :]*\):\([0-9]*\):.*error: .*/\1:\2: not formatted/p' | sort -u -t: -k1,1) || true
    if [ -n "$bad" ]; then
        echo "$bad"
        echo "('./dev format' rewrites them)"
        return 1
    fi
}

# One line per translation unit of src/: its path, a tab, its compile command. C only: this
# clang-tidy cannot parse CUDA.
units() {
    awk '
        /^  "command": / { command = $0; sub(/^  "command": "/, "", command); sub(/",?$/, "", command)
                           gsub(/\\"/, "\"", command) }
        /^  "file": /    { file = $0; sub(/^  "file": "/, "", file); sub(/",?$/, "", file)
                           at = index(file, "/src/")
                           if (at && file ~ /\.c$/ && !seen[file]++) print substr(file, at + 1) "\t" command }' \
        "$database"
}

# The hash of all that clang-tidy reads for one unit: code with comments and macros, its flags.
# The compile command is "cc FLAGS... -o OBJECT -c SOURCE".
tidy_key() { # COMMAND
    local args flags=() i
    eval "args=($1)"
    for ((i = 1; i < ${#args[@]}; i++)); do
        case ${args[i]} in
        -o) ((++i)) ;;
        -c) ;;
        *) flags+=("${args[i]}") ;;
        esac
    done
    # A file that fails to preprocess has no key and is always checked.
    local text
    text=$(cd build/release && clang -E -C -dD -P -w -Wno-error "${flags[@]}" 2>/dev/null) || return 1
    printf '%s\n' "$tidy_version" "${flags[@]/"$PWD"/}" "$text" | sha256sum | cut -c1-40
}

tidy_one() { # PATH COMMAND
    local key
    key=$(tidy_key "$2") || key=none.$$
    [ -f "$passed/$key" ] && return 0
    local out=$cache/tidy/$key.out
    if clang-tidy --quiet -p build/release "$1" >"$out" 2>"$out.err"; then
        [ "$key" = none.$$ ] || touch "$passed/$key"
        rm -f "$out" "$out.err"
    else
        sed "s|$PWD/||g" "$out"
        grep -E 'error:' "$out.err" || true
        rm -f "$out" "$out.err"
        return 1
    fi
}

lint_tidy() {
    tidy_version=$(clang-tidy --version && cat .clang-tidy)
    export tidy_version cache passed
    export -f tidy_key tidy_one
    # shellcheck disable=SC2016
    units | tr '\t\n' '\0\0' | xargs -0 -r -P "$jobs" -n 2 bash -c 'tidy_one "$1" "$2"' tidy
}

lint_cppcheck() {
    cppcheck --quiet -j "$jobs" --std=c11 --language=c --enable=warning,performance,portability \
        --inline-suppr --suppressions-list=tools/cppcheck.txt --error-exitcode=1 --max-configs=4 \
        --cppcheck-build-dir="$cache/cppcheck" --library=tools/cppcheck.cfg -Isrc -Iinclude -D_GNU_SOURCE \
        -DSL_VERSION_STRING='""' -DSL_MODELS_SRC_DIR='""' \
        --template='{file}:{line}: {severity}: {message} [{id}]' src
}

lint_shell() {
    {
        find . -path ./build -prune -o -path ./.git -prune -o -type f -name '*.sh' -print
        # Scripts without the suffix.
        find dev .ci bench tools -maxdepth 1 -type f ! -name '*.*' -exec grep -lE '^#!.*sh$' {} + 2>/dev/null || true
    } | sort -u | xargs -r -P "$jobs" -n 16 shellcheck -x
}

lint_rooms() { tools/check_rooms.sh; }
lint_sizes() { tools/check_sizes.sh; }
lint_names() { tools/check_names.py; }
lint_rows() { tools/check_rows.py; }
lint_refs() { tools/check_refs.py; }

if [ "${1:-}" = --fix-format ]; then
    c_files | xargs -r clang-format -i --style=file
    exit 0
fi

checks=("$@")
[ $# -gt 0 ] || checks=(rooms sizes names rows refs shell format cppcheck tidy)
failed=()
for check in "${checks[@]}"; do
    declare -F "lint_$check" >/dev/null || {
        echo "lint: unknown check $check (rooms sizes names rows refs shell format cppcheck tidy)" >&2
        exit 2
    }
    start=$SECONDS
    if "lint_$check"; then
        echo "lint: $check ok ($((SECONDS - start)) s)"
    else
        failed+=("$check")
        echo "lint: $check FAILED ($((SECONDS - start)) s)"
    fi
done
if [ ${#failed[@]} -gt 0 ]; then
    echo "lint: failed: ${failed[*]}"
    exit 1
fi
echo "lint: clean"
