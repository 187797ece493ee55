# shellcheck shell=bash
# Sourced by tests/e2e: a folder of their own, $work, that goes with them, as does the process $pid when there is one;
# fail WHAT ends the test with the last that was said on $work/err.
work=$(mktemp -d)
pid=
trap '[ -z "$pid" ] || kill -KILL "$pid" 2>/dev/null || true; rm -rf "$work"' EXIT
fail() {
    echo "FAILED: $*"
    [ ! -f "$work/err" ] || tail -n 5 "$work/err"
    exit 1
}
