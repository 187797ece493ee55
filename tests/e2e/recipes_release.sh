#!/usr/bin/env bash
# The recipes of docs/adding run: all of them are applied to one copy of the tree, which is built once. Then the
# table tests run on the new rows, and the program uses each.
set -euo pipefail
for tool in cmake ninja python3 cc; do
    command -v $tool >/dev/null || { echo "skipped: no $tool here" && exit 77; }
done
fail() {
    echo "FAILED: $*"
    [ ! -s "$work/log" ] || tail -n 30 "$work/log"
    exit 1
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/tree
mkdir "$tree"
(cd "$SRC_DIR" && tar cf - --exclude=./build --exclude=./.git .) | tar xf - -C "$tree"

count=0
for page in "$SRC_DIR"/docs/adding/*.md; do
    python3 "$SRC_DIR/tools/apply_recipe.py" "$page" "$tree" >>"$work/applied" || fail "$(basename "$page")"
    file=$(tail -n 1 "$work/applied" | cut -d' ' -f1)
    if command -v clang-format >/dev/null; then
        (cd "$tree" && clang-format --dry-run -Werror --style=file "$file") 2>"$work/log" || fail "$(basename "$page"): format"
    fi
    count=$((count + 1))
done
[ $count = 8 ] || fail "$count recipes"
for check in rooms.sh sizes.sh names.py rows.py; do
    "$tree/tools/check_$check" "$tree" >>"$work/found" || true
done
! cut -d' ' -f1 "$work/applied" | grep -Ff - "$work/found" >"$work/log" || fail "lint of the new files"

# The checkouts of a machine share one ccache: all but the new files come from there.
export CCACHE_BASEDIR=$tree CCACHE_NOHASHDIR=1
(cd "$tree" && cmake --preset release -DSL_WITH_CUDA=OFF -DSL_WITH_MPI=OFF) >"$work/log" 2>&1 || fail "cmake"
tests=(table.op_grad table.op_shape table.sched_rows table.optim table.importers table.device_optim
    unit.planners.oracle unit.pipe.policy_mt unit.data.cursor)
targets=(sluice)
for test in "${tests[@]}"; do targets+=("tests/$test"); done
ninja -C "$tree/build/release" "${targets[@]}" >"$work/log" 2>&1 || fail "the build"
export SRC_DIR=$tree
for test in "${tests[@]}"; do
    SL_TEST_DEVICE=shadow "$tree/build/release/tests/$test" >"$work/log" 2>&1 || fail "$test"
done

sluice=$tree/build/release/sluice
cd "$work"
row() {
    "$sluice" list "$1" >rows || fail "list $1"
    grep -q "^  $2 " rows || fail "list $1 does not show $2"
}
row ops square && row schedules eager && row planners depths && row optimizers signsgd && row policies lr-depth
row devices shadow
gpt=(train gpt-nano --set "V=37,T=13,P=17,L=4,C=18,H=3" --batch 8 --micro 4 --steps 4 --quiet)
try() { "$sluice" "$@" >"$work/log" 2>&1 || fail "sluice $*"; }
printf 'model m\ninput x : float[B, 3]\nparam w[3] ~ normal(1)\nloss reduce_sum(square(x * w))\n' >m.model
try train m.model --batch 4 --steps 2 --device reference --quiet
try "${gpt[@]}" --out one
try "${gpt[@]}" --stages 3 --schedule eager --out eager
try compare one eager # a synchronous schedule has the bits of one worker
try "${gpt[@]}" --optimizer signsgd --stages 2 --schedule 2bw --policy lr-depth
try "${gpt[@]}" --device shadow
head -c 4000 /dev/zero | tr '\0' '\7' >tokens.u8
try "${gpt[@]}" --data tokens.u8
try plan gpt-nano --machine 1x4:mem=4G,intra=10GB/s --batch 16 --planner depths --quiet
printf '# layer chain\na,1.5,3,4096,65536\nb,2,4,4096,8192\nc,1,2.5,256,65536\n' >layers.csv
try plan layers.csv --devices 2 --bandwidth 10GB/s --quiet
echo "count: $count recipes applied, ${#tests[@]} tests of tables"
