#!/usr/bin/env bash
# Every command: --help is tests/golden/help/COMMAND.txt (SL_GOLDEN_UPDATE=1 writes them), fits 100
# columns and starts with its name; an unknown option exits 2 and names the command.
set -euo pipefail
fail() { echo "FAILED: $*" && exit 1; }
now=$(mktemp)
trap 'rm -f "$now"' EXIT
golden=$SRC_DIR/tests/golden/help
commands=$("$SLUICE" --help | sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p')
[ -n "$commands" ] || fail "sluice --help lists no commands"
[ "$commands" = "$(sort <<<"$commands")" ] || fail "commands are not in alphabetical order"
for command in $commands; do
    "$SLUICE" "$command" --help >"$now" || fail "$command --help exits $?"
    grep -q "^sluice $command: " "$now" || fail "$command --help does not start with its name"
    if awk 'length > 100 { print; bad = 1 } END { exit !bad }' "$now"; then
        fail "$command --help is wider than 100 columns"
    fi
    if [ "${SL_GOLDEN_UPDATE:-0}" = 1 ]; then
        cp "$now" "$golden/$command.txt"
    fi
    diff -u "$golden/$command.txt" "$now" ||
        fail "$command --help differs; SL_GOLDEN_UPDATE=1 rewrites it once it is right"
    rc=0
    "$SLUICE" "$command" --no-such-option >"$now" 2>&1 || rc=$?
    [ "$rc" = 2 ] || fail "$command --no-such-option exits $rc, not 2"
    grep -q "^sluice: $command: unknown option '--no-such-option'" "$now" || fail "$(cat "$now")"
done
for gone in "$golden"/*.txt; do
    [[ " ${commands//$'\n'/ } " == *" $(basename "$gone" .txt) "* ]] || fail "$gone has no command"
done
echo "count: $(wc -w <<<"$commands") commands"
