#!/usr/bin/env bash
# Every file reader under libFuzzer with ASan and UBSan: executions, findings, the slowest input, memory
# above twice the file size, and line coverage of the reader.
#
#   ./dev bench fuzz [--execs N] [--targets a,b,...] [--jobs J] [--fresh] [--coverage-only]
#
# Default: 1,000,000 executions of every target, one after another. An interrupted call continues its count
# if the binary is the same (build/fuzz/bench); --fresh starts at zero. New inputs stay in build/fuzz/corpus
# and count for coverage, together with the seeds.
set -euo pipefail
cd "$SRC_DIR"

# target | the reader's own files
readers() {
    cat <<'TABLE'
tokenizer|src/tokenizer/read.c src/tokenizer/vocab.c src/tokenizer/merges.c src/tokenizer/step.c src/tokenizer/dialect.c
ckpt_manifest|src/ckpt/manifest.c
cost|src/cost/cost_text.c
csv|src/data/kind_csv.c
csv_sched|src/interop/torch_csv_read.c
dnnpart|src/interop/dnnpart.c src/interop/draft.c
forecast|src/report/forecast.c
idx|src/data/kind_idx.c
jsonl|src/data/kind_jsonl.c src/tokenizer/chat.c
log|src/report/record.c
machine|src/cost/machine_text.c
megatron|src/data/kind_megatron.c
model|src/graph/model_*.c
pipedream|src/interop/pipedream.c
piper|src/interop/piper.c src/interop/draft.c
plan|src/plan/text.c
safetensors|src/base/safetensors_in.c
sched|src/sched/text.c
study|src/study/text.c
tcp|src/comm/tcp_io.c
tokens|src/data/kind_f32.c src/data/kind_tokens.c
trace|src/report/trace_read.c
TABLE
}

execs=1000000 targets=$(readers | cut -d'|' -f1 | paste -sd,) jobs=1 fresh=0 fuzz=1
while [ $# -gt 0 ]; do
    case $1 in
    --execs) execs=${2:?--execs needs a number} && shift ;;
    --targets) targets=${2:?--targets needs names} && shift ;;
    --jobs) jobs=${2:?--jobs needs a number} && shift ;;
    --fresh) fresh=1 ;;
    --coverage-only) fuzz=0 ;;
    *) echo "usage: ./dev bench fuzz [--execs N] [--targets a,b] [--jobs J] [--fresh] [--coverage-only]" >&2 && exit 2 ;;
    esac
    shift
done

# Fail if a target has no row.
for file in tests/fuzz/fuzz_*.c; do
    name=${file#tests/fuzz/fuzz_}
    readers | grep -q "^${name%.c}|" || { echo "bench/fuzz.sh has no row for $file" >&2 && exit 1; }
done

fuzz_dir=$SRC_DIR/build/fuzz
mkdir -p "$fuzz_dir/bench"

stat_of() { # NAME LOG: the last value of a "stat::" line
    sed -n "s/^stat::$1: *//p" "$2" | tail -n 1
}

most() { awk -v a="${1:-0}" -v b="${2:-0}" 'BEGIN { print (a + 0 > b + 0 ? a + 0 : b + 0) }'; }

# Rounds of at most 100,000 executions, so that an interruption loses little. The file of a target has:
# checksum of its binary, executions, seconds of the slowest input, bytes above twice the file size
# and their limit, findings.
fuzz_one() {
    local name=$1 binary=$fuzz_dir/tests/fuzz_$1 log=$fuzz_dir/bench/$1.log tally=$fuzz_dir/bench/$1.tally
    local seeds=$SRC_DIR/tests/fuzz/corpus/$1 found=$fuzz_dir/corpus/$1 artifacts=$fuzz_dir/artifacts/$1
    local sum old="" done_=0 slowest=0 over=0 limit=0 findings=0 left rc options
    sum=$(cksum <"$binary" | tr ' ' -)
    if [ "$fresh" = 0 ] && [ -f "$tally" ]; then
        read -r old done_ slowest over limit findings <"$tally"
        [ "$old" = "$sum" ] || done_=0 slowest=0 over=0 findings=0
    fi
    mkdir -p "$found" "$artifacts" "$seeds"
    # The timeout is wall time; slowest_s shows slow inputs.
    options=(-timeout=100 -rss_limit_mb=2048 -max_len=16384 -verbosity=0 -print_final_stats=1
        -artifact_prefix="$artifacts/")
    [ -f "$SRC_DIR/tests/fuzz/$name.dict" ] && options+=(-dict="$SRC_DIR/tests/fuzz/$name.dict")
    while [ "$done_" -lt "$execs" ] && [ "$findings" = 0 ]; do
        left=$((execs - done_ < 100000 ? execs - done_ : 100000)) rc=0
        ASAN_OPTIONS=allocator_may_return_null=1:malloc_context_size=4:quarantine_size_mb=32 \
            "$binary" "${options[@]}" -runs="$left" "$found" "$seeds" >"$log" 2>&1 || rc=$?
        done_=$((done_ + $(stat_of number_of_executed_units "$log" | grep . || echo 0)))
        slowest=$(most "$slowest" "$(stat_of slowest_unit_time_sec "$log")")
        over=$(most "$over" "$(stat_of most_over_twice_bytes "$log")")
        limit=$(stat_of limit_over_twice_bytes "$log")
        if [ "$rc" -ne 0 ]; then
            findings=1
            tail -n 40 "$log" >&2
        fi
        echo "$sum $done_ $slowest $over ${limit:-0} $findings" >"$tally"
    done
}

if ! cov=$(compgen -c llvm-cov | sort -V | tail -n 1) ||
    ! profdata=$(compgen -c llvm-profdata | sort -V | tail -n 1); then
    echo "fuzz: needs llvm-cov and llvm-profdata (Debian package llvm)" >&2 && exit 1
fi

# Line coverage of a reader's files by seeds and new inputs: "lines covered".
cover_one() { # NAME PATTERNS
    local name=$1 work file
    work=$(mktemp -d)
    LLVM_PROFILE_FILE=$work/raw "build/coverage/tests/fuzz_$name" "tests/fuzz/corpus/$name" \
        "$fuzz_dir/corpus/$name" >/dev/null 2>&1 || true
    "$profdata" merge -sparse "$work/raw" -o "$work/merged"
    "$cov" export -format=lcov "build/coverage/tests/fuzz_$name" -instr-profile "$work/merged" \
        >"$work/lcov" 2>/dev/null
    for file in $2; do
        # the path may be absolute or start at the build tree
        awk -F: -v end="/$file" '/^SF:/ { own = substr($2, length($2) - length(end) + 1) == end }
            /^LF:/ && own { lines += $2 } /^LH:/ && own { hit += $2 } END { print lines + 0, hit + 0 }' "$work/lcov"
    done | awk '{ lines += $1; hit += $2 } END { print lines, hit }'
    rm -rf "$work"
}

wanted=()
for name in ${targets//,/ }; do
    readers | grep -q "^$name|" || { echo "there is no target '$name'" >&2 && exit 2; }
    wanted+=("$name")
done
./dev build fuzz
running=0
for name in "${wanted[@]}"; do
    [ "$fuzz" = 1 ] || break
    [ "$running" -lt "$jobs" ] || wait -n
    running=$((running < jobs ? running + 1 : running))
    fuzz_one "$name" &
done
wait

[ -f build/coverage/build.ninja ] || cmake --preset coverage >&2
cmake --build build/coverage --target "${wanted[@]/#/fuzz_}" >&2
bad=0
for name in "${wanted[@]}"; do
    files=$(readers | sed -n "s/^$name|//p")
    read -r lines hit < <(cover_one "$name" "$files")
    done_=0 slowest=0 over=0 limit=0 findings=0
    [ ! -f "$fuzz_dir/bench/$name.tally" ] ||
        read -r _ done_ slowest over limit findings <"$fuzz_dir/bench/$name.tally"
    percent=$(awk -v a="$hit" -v b="$lines" 'BEGIN { printf "%.1f", b ? 100 * a / b : 0 }')
    echo "RESULT bench=fuzz target=$name execs=$done_ findings=$findings slowest_s=$slowest" \
        "reader_lines=$lines covered_pct=$percent over_2x_bytes=$over limit_bytes=$limit"
    awk -v f="$findings" -v n="$done_" -v e="$execs" -v p="$percent" -v o="$over" -v l="$limit" \
        'BEGIN { exit !(f > 0 || n < e || p < 80 || o > l) }' && bad=1
done
echo "RESULT bench=fuzz targets=${#wanted[@]} verdict=$([ "$bad" = 0 ] && echo pass || echo fail)"
exit "$bad"
