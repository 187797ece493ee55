#!/usr/bin/env bash
# Planners: inputs of the published planners, claims of GraphPipe and PipeDream-2BW in simulation, and scale.
#
#   ./dev bench plan [--write] [peers|judge|graphpipe|published|2bw|scale]...    default: all of them
#   ./dev bench plan --write --results FILE                              run nothing; use printed RESULT lines
#   --write: update docs/results/planners.md; sections without results do not change
#   judge: plans for the published inputs, re-evaluated by plan_judge.py
#   published: the published programs in PUBLISHED=DIR (see plan_published.py); skipped without it
#
# Times of models are roofline estimates for the machines that `sluice machine show` describes; every
# plan is simulated and fits into memory. cpu_s is user time of the whole command.
# gap is step over lower bound. Times of planner 2bw and of scale are medians of REPEATS (default 5), on one thread and
# on all cores; REPEATS=1 for a quick run.
set -euo pipefail
REPEATS=${REPEATS:-5}

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# get FIELD: a number of the last plan, 0 if there was none.
get() {
    sed -n "s/^  \"$1\": \\(-\\?[0-9.e+-]*\\),\\?\$/\\1/p" "$out/plan.json" | head -1 | grep . || echo 0
}

# widths: "1x3 4" means three stages of width 1, one of width 4.
widths() {
    sed -n 's/^ *"width": \([0-9]*\),$/\1/p' "$out/plan.json" | uniq -c |
        awk '{printf "%s%s", sep, $2; if ($1 > 1) printf "x%d", $1; sep = ","} END {print ""}'
}

# plan ARGS...: runs sluice plan --json; sets cpu.
plan() {
    local TIMEFORMAT=%U
    { time "$SLUICE" plan "$@" --json --quiet >"$out/plan.json" 2>"$out/error"; } 2>"$out/time" || {
        echo >"$out/plan.json"
    }
    cpu=$(tail -1 "$out/time")
}

median() { printf '%s\n' "$@" | sort -g | sed -n "$((($# + 1) / 2))p"; }

# timed THREADS then options of plan; sets wall (ms of the search) and cpu (s of the command), medians of REPEATS
timed() {
    local threads=$1 walls=() cpus=() i
    shift
    for ((i = 0; i < REPEATS; i++)); do
        plan "$@" --threads "$threads"
        walls+=("$(get search_ms)") cpus+=("$cpu")
    done
    wall=$(median "${walls[@]}") cpu=$(median "${cpus[@]}")
}

per() { awk -v a="$1" -v b="$2" 'BEGIN {if (b > 0) printf "%.3f", a / b; else printf "0"}'; }

# ---- GraphPipe: Summit nodes, synchronous 1F1B, batch grows with the devices ----
graphpipe_row() { # MODEL DEVICES BATCH [--set ...]
    local model=$1 devices=$2 batch=$3 planner best=0 label=${4:+$5}${7:+,micro-batches=$7}
    shift 3
    for planner in pipedream-dp piper-dp graphpipe sluice; do
        plan "$model" "$@" --machine summit --devices "$devices" --batch "$batch" --schedule 1f1b \
            --planner "$planner"
        local speed
        speed=$(get samples_per_s)
        case $planner in
        pipedream-dp | piper-dp) best=$(awk -v a="$best" -v b="$speed" 'BEGIN {print (a > b) ? a : b}') ;;
        esac
        echo "RESULT bench=plan claim=graphpipe model=$model ${label:+set=$label }devices=$devices" \
            "batch=$batch planner=$planner samples_per_s=$speed depth=$(get depth) widths=$(widths)" \
            "micro=$(get micro_size) over_sequential=$(per "$speed" "$best") cpu_s=$cpu" \
            "$([ -s "$out/error" ] && echo "note=$(tr ' ' _ <"$out/error" | head -1)")"
    done
}

graphpipe() {
    local k
    for k in 4 8 16 32; do
        graphpipe_row mmt "$k" $((16 * k))
        graphpipe_row dlrm "$k" $((128 * k))
        graphpipe_row candle-uno "$k" $((256 * k))
    done
    for k in 4 8 16; do # as many branches as devices
        graphpipe_row candle-uno "$k" $((256 * k)) --set "branches=$k"
        graphpipe_row candle-uno "$k" $((256 * k)) --set "branches=$k" --micro 16 # few and large
    done
}

# ---- 2BW: p3.16xlarge, mixed precision; the published code does not tie weights without a flush ----
twobw_row() { # MODEL MACHINE BATCH PLANNER
    local schedule all
    for schedule in 2bw 1f1b gpipe; do
        local ask=("$1" --set tied=0 --machine "$2" --batch "$3" --dtype fp16 --planner "$4" --schedule "$schedule")
        timed "$(nproc)" "${ask[@]}"
        all=$wall
        timed 1 "${ask[@]}"
        echo "RESULT bench=plan claim=2bw model=$1 machine=$2 batch=$3 planner=$4 schedule=$schedule" \
            "samples_per_s=$(get samples_per_s) widths=$(widths) micro=$(get micro_size)" \
            "peak_bytes=$(get peak_bytes) search_ms=$wall search_ms_all_cores=$all cpu_s=$cpu"
        [ "$schedule $4" = "1f1b 2bw" ] || continue
        # the same stages, one micro-batch in the pipeline at a time
        awk -v batch="$3" -v size="$(get micro_size)" -v model="$1" -v machine="$2" '
            /"width":/ {gsub(/[^0-9]/, ""); width = $0}
            /"(f|b)_ns":/ {split($0, part, ":"); gsub(/[^0-9]/, "", part[2]); sum += part[2]}
            /"recompute": true/ {again = 1}
            /"f_ns":/ {if (again) {split($0, part, ":"); gsub(/[^0-9]/, "", part[2]); sum += part[2]}; again = 0}
            END {if (sum) printf "RESULT bench=plan claim=2bw model=%s machine=%s batch=%d planner=2bw schedule=none samples_per_s=%.3f\n",
                model, machine, batch, 1e9 * size * width / sum}' "$out/plan.json"
    done
}

# As published: one pipeline of this depth, recomputation on, each schedule with the largest
# micro-batch that fits and leaves as many micro-batches as stages, which 2BW needs. Several parallel pipelines share
# the batch.
twobw_paper() { # MODEL MACHINE DEPTH BATCH-OF-ONE-PIPELINE
    local schedule size flush=0
    for schedule in 1f1b 2bw gpipe; do
        for size in 64 32 16 8 4 2 1; do
            if [ $(($4 % size)) != 0 ] || [ $(($4 / size)) -lt "$3" ]; then continue; fi
            plan "$1" --set tied=0 --machine "$2" --devices "$3" --straight --recompute all --batch "$4" \
                --micro $(($4 / size)) --dtype fp16 --planner 2bw --schedule "$schedule"
            [ "$(get depth)" != 0 ] && break
        done
        [ "$schedule" = 1f1b ] && flush=$(get samples_per_s)
        echo "RESULT bench=plan claim=2bw rule=largest-micro-batch model=$1 machine=$2 depth=$(get depth) batch=$4" \
            "schedule=$schedule micro=$(get micro_size) samples_per_s=$(get samples_per_s)" \
            "over_flush=$(per "$(get samples_per_s)" "$flush") peak_bytes=$(get peak_bytes) search_ms=$(get search_ms)"
    done
}

twobw() {
    twobw_paper gpt-2.2b p3.16xlarge 8 64
    twobw_paper gpt-2.2b p3.16xlarge 8 256
    twobw_paper gpt-3.8b p3-x8 16 128
    twobw_paper gpt-3.8b p3-x8 16 512
    local planner
    for planner in 2bw sluice; do
        [ $planner = 2bw ] || local REPEATS=1 # seconds each
        twobw_row gpt-2.2b p3.16xlarge 64 $planner
        twobw_row gpt-2.2b p3.16xlarge 256 $planner
        twobw_row gpt-3.8b p3-x8 512 $planner
        twobw_row gpt-3.8b p3-x8 2048 $planner
    done
}

# ---- scale: on one thread and on all cores ----
scale_row() { # THREADS-LIST NAME then options of plan; sets cpu to the median of the last of the list
    local list=$1 name=$2 threads
    shift 2
    for threads in $list; do
        timed "$threads" "$@"
        echo "RESULT bench=plan claim=scale problem=$name threads=$threads" \
            "samples_per_s=$(get samples_per_s) depth=$(get depth) step_ns=$(get step_ns)" \
            "lower_bound_ns=$(get lower_bound_ns) gap=$(per "$(get step_ns)" "$(get lower_bound_ns)")" \
            "search_ms=$wall cpu_s=$cpu" \
            "$([ -s "$out/error" ] && echo "note=$(tr ' ' _ <"$out/error" | head -1)")"
    done
}

# growth OF: lines "size cpu" on stdin; the least-squares slope of log(cpu) over log(size), and the slope between the
# two largest: budgets of simulated passes reduce the slope
growth() {
    awk -v of="$1" '{x = log($1); y = log($2); n++; a += x; b += y; c += x * x; d += x * y; last = (y - y0) / (x - x0); x0 = x; y0 = y}
        END {printf "RESULT bench=plan claim=scale growth_of=%s growth_exponent=%.2f between_largest=%.2f\n", of, (n * d - a * b) / (n * c - a * a), last}'
}

scale() {
    local layers devices points=() all
    all="$(nproc) 1"
    local gpt3=(gpt-1.3b --set "L=96,C=12288,H=96,T=2048,P=2048" --machine a100-x128 --dtype bf16 --batch 1536 --schedule 1f1b)
    scale_row "$all" gpt3-175b-1024 "${gpt3[@]}"
    points+=("1024 $cpu")
    for devices in 512 256 128 64; do
        scale_row 1 "gpt3-175b-$devices" "${gpt3[@]}" --devices "$devices"
        points=("$devices $cpu" "${points[@]}")
    done
    printf '%s\n' "${points[@]}" | growth devices
    points=()
    for layers in 67 133 333 667; do # 15 nodes each: 1,000 to 10,000 operators on 64 devices
        scale_row "$all" "gpt-$((15 * layers))-operators" gpt2 --set "L=$layers" --machine p3-x8 \
            --dtype fp16 --batch 64 --schedule 1f1b
        points+=("$layers $cpu")
    done
    printf '%s\n' "${points[@]}" | growth operators
    scale_row "$all" does-not-fit gpt-3.8b --machine p3.16xlarge --devices 2 --batch 8
}

peers() { "$BUILD_DIR/bench/plan_peers"; }

judge() {
    local inputs
    for inputs in "$SRC_DIR"/../shared/data/planner-inputs "$SRC_DIR"/../../shared/data/planner-inputs; do
        if [ -d "$inputs" ]; then
            python3 "$SRC_DIR/bench/plan_judge.py" "$SLUICE" "$inputs"
            return
        fi
    done
    echo "no planner inputs beside this tree (../shared/data/planner-inputs)" >&2
}

published() {
    if [ -n "${PUBLISHED:-}" ]; then
        python3 "$SRC_DIR/bench/plan_published.py" "$SLUICE" "$PUBLISHED"
    else
        echo "published programs: PUBLISHED=DIR is not set" >&2
    fi
}

every=(peers judge graphpipe published twobw scale)
write=0 results='' parts=()
while [ $# -gt 0 ]; do
    case $1 in
    --write) write=1 ;;
    --results) results=${2:?--results FILE} && shift ;;
    all) parts+=("${every[@]}") ;;
    peers | judge | graphpipe | published | scale) parts+=("$1") ;;
    2bw) parts+=(twobw) ;;
    *) echo "bench plan: peers, judge, graphpipe, published, 2bw or scale" >&2 && exit 2 ;;
    esac
    shift
done
if [ -z "$results" ]; then
    results=$out/results
    [ ${#parts[@]} -gt 0 ] || parts=("${every[@]}")
    for part in "${parts[@]}"; do "$part"; done | tee "$results"
fi
[ $write = 0 ] || python3 "$SRC_DIR/bench/plan_page.py" "$results" "$SRC_DIR/docs/results/planners.md"
