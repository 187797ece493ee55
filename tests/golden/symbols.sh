#!/usr/bin/env bash
# libsluice.so exports exactly the functions that include/ declares with SL_API (tests/golden/symbols.txt),
# and no object of it ends the process of its caller, but for two that abort.
set -euo pipefail
[ -f "$BUILD_DIR/libsluice.so" ] || { echo "SKIPPED: no libsluice.so" && exit 77; }
command -v nm >/dev/null || { echo "SKIPPED: no nm" && exit 77; }
fail() { echo "FAILED: $*" && exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LC_ALL=C

golden=$SRC_DIR/tests/golden/symbols.txt
nm -D --defined-only "$BUILD_DIR/libsluice.so" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort >"$work/exported"
grep -h '^SL_API' "$SRC_DIR"/include/sluice.h "$SRC_DIR"/include/sluice/*.h | sed 's/(.*//; s/.*[ *]//' | sort >"$work/declared"
[ "${SL_GOLDEN_UPDATE:-0}" = 0 ] || cp "$work/declared" "$golden"
diff "$work/declared" "$work/exported" || fail "< declared in include/, > exported by libsluice.so"
diff "$golden" "$work/exported" || fail "< tests/golden/symbols.txt, > exported; SL_GOLDEN_UPDATE=1 rewrites the list"

# The library returns errors. Two objects abort: err.c when an assertion fails (a bug of ours), arena.c
# when malloc fails and the program has set no handler (the call cannot return). spawn.c ends a child that
# could not start its command, between fork and exec. The generated reader of ONNX asserts the types of its
# own calls.
nm -A --undefined-only "$BUILD_DIR/libsluice_internal.a" 2>/dev/null |
    awk '$NF ~ /^(exit|_exit|_Exit|quick_exit|at_quick_exit|atexit|on_exit|abort|raise|__assert_fail|longjmp|siglongjmp|pthread_exit)$/ {
        split($1, at, ":"); print at[2], $NF }' | sort -u >"$work/ends"
sed -i '/^onnx\.pb-c\.c\.o __assert_fail$/d' "$work/ends"
printf '%s\n' 'arena.c.o abort' 'err.c.o abort' 'spawn.c.o _exit' >"$work/allowed"
diff "$work/allowed" "$work/ends" || fail "< allowed, > calls that end the process"
echo "count: $(wc -l <"$work/exported") exported functions"
