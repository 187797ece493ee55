# shellcheck shell=bash
# Commands that must succeed or be refused. Sourced with SLUICE, dir and fail() set.
# shellcheck disable=SC2154 # dir: of the caller

sluice() {
    "$SLUICE" "$@" >"$dir/log" 2>&1 || fail "$*: $(cat "$dir/log")"
}
refused() { # STATUS TEXT COMMAND
    local status=$1 text=$2 rc=0
    shift 2
    "$SLUICE" "$@" >"$dir/out" 2>&1 || rc=$?
    [ "$rc" = "$status" ] || fail "$* exits $rc: $(cat "$dir/out")"
    grep -qF -- "$text" "$dir/out" || fail "'$text' is not in: $(cat "$dir/out")"
}
