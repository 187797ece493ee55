#!/usr/bin/env bash
# Files that would block, fill the memory or be read in two ways are refused at once; large models and graphs are set
# up in near-linear time, and a time limit holds.
set -euo pipefail
# shellcheck source=tests/support/workplace.sh
. "$SRC_DIR/tests/support/workplace.sh"
cd "$work"
refuse() { # PATTERN ARGUMENTS...
    local rc=0
    timeout 60 "$SLUICE" "${@:2}" >"$work/out" 2>"$work/err" || rc=$?
    [ $rc -eq 3 ] || fail "${*:2}: exit $rc, not 3"
    grep -q -e "$1" "$work/err" || fail "${*:2}: no line '$1'"
}
works() { timeout 100 "$SLUICE" "$@" >"$work/out" 2>"$work/err" || fail "$*: exit $?"; }

# 1. Regular files only; a pipe is read as standard input, as long as it is text.
mkfifo fifo
for file in fifo /dev/zero; do
    refuse "$file: is a pipe or a device, expected a regular file" sched "$file"
    refuse "$file: is a pipe or a device, expected a regular file" train gpt-nano --data "$file" --steps 1
done
refuse "standard input: byte 0 is zero; expected text" sched - </dev/zero

# 2. A few MB of gzip that hold much more than data ever does.
head -c 400000000 /dev/zero | tr '\0' a | gzip -1 >bomb.txt.gz
refuse "bomb.txt.gz: [0-9]* bytes of gzip hold more than [0-9]* bytes" train gpt-nano --data bomb.txt.gz --steps 1

# 3. One key, one value: JSON (also with escapes) and CSV.
works plan gpt-nano --machine laptop --batch 8 -o a.plan
printf '{"model": "gpt-nano", "steps": 1, "\\u0073teps": 2}\n' >job.json
refuse 'job.json:1:[0-9]*: the key "steps" appears twice in this object' train --config job.json
printf 'a,b,a\n1,2,3\n4,5,6\n' >table.csv
refuse "table.csv:1: two columns are called 'a'" train mlp --data table.csv --steps 1

# 4. 40,000 sums in a chain: each gradient is a view of the next.
cat >sums.model <<'TEXT'
model sums "a long chain"
use layers
input x : float[B, 8]
input label : int[B] < 8
h = dense(x, 8) as first
repeat i in 0..40000 as layer { h = h + x }
h = dense(h, 8) as last
output logits = h
loss cross_entropy(h, label)
TEXT
works train sums.model --steps 1 --batch 4 --data synthetic
works plan sums.model --machine laptop --time-limit 1

# 5. 300 chains of 10 layers have more cuts than anyone can list: the limit ends the search with a plan.
awk 'BEGIN {
    text = " -- Conv2d(3, 64) -- forward_compute_time=1.0, backward_compute_time=2.0, activation_size=1e3, parameter_size=5e3"
    print "node0" text
    for (c = 0; c < 300; c++)
        for (k = 0; k < 10; k++) {
            n = 1 + 10 * c + k
            print "node" n text
            edges = edges "\tnode" (k ? n - 1 : 0) " -- node" n "\n"
        }
    print "node3001" text
    for (c = 0; c < 300; c++) edges = edges "\tnode" (10 + 10 * c) " -- node3001\n"
    printf "%s", edges
}' >chains.graph.txt
for levels in "16 --bandwidth 30GB/s" "8,2 --bandwidth 30GB/s,3GB/s"; do
    # shellcheck disable=SC2086
    works plan chains.graph.txt --levels $levels --time-limit 1
    grep -q "stopped by the time limit: this is the best plan so far" out || fail "no note about the limit"
done
