#!/usr/bin/env bash
# Training steps on the CPU against PyTorch, eager and compiled: the same model, batch, optimizer and
# clipping; interleaved rounds of a few steps, median over the rounds. Prints RESULT lines:
#
#   sluice, torch, torch_compile   items (tokens, samples) per second, from the median step of each run
#   ratio                          sluice over the better of the two
#   cpu_ratio                      the same by CPU time per step: less affected by other load
#   sluice_bytes, torch_bytes      high-water mark minus that of the empty process (torch: eager)
#   predicted_bytes                the run's prediction before its first step
#   predicted_error_percent        prediction against sluice_bytes; goal: 0 to 3, never below 0
#
# Usage: ./dev bench cpu [--python PATH] [--rounds N] [--steps N] [--threads "1 2"] [--models "..."]
#                        [--no-compile] [--cpus LIST|auto] [--lock FILE]
# Without --python only sluice runs. --cpus pins both sides to the same CPUs; auto: to the least busy
# ones (bench/quiet_cpus.py). With --lock several of these scripts may start and compile in parallel
# and measure one after another.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
sluice=${SLUICE:-$root/build/release/sluice}
python="" rounds=5 steps=4 threads="1 2" compile=1 cpus="" lock=""
models="gpt-50257 gpt-256 bert-small resnet18 mlp lstm"
usage() { sed -n '2,/^set /s/^# \{0,1\}//p' "$0"; }
while [ $# -gt 0 ]; do
    case $1 in
    --python) python=${2:?--python needs a path} && shift ;;
    --rounds) rounds=${2:?--rounds needs a number} && shift ;;
    --steps) steps=${2:?--steps needs a number} && shift ;;
    --threads) threads=${2:?--threads needs numbers} && shift ;;
    --models) models=${2:?--models needs names} && shift ;;
    --no-compile) compile=0 ;;
    --lock) lock=${2:?--lock needs a file} && shift ;;
    --cpus) cpus=${2:?--cpus needs a list or auto} && shift ;;
    -h | --help) usage && exit 0 ;;
    *) echo "bench cpu: unknown option $1" >&2 && exit 2 ;;
    esac
    shift
done
if [ -n "$python" ] && ! "$python" -c 'import torch' 2>/dev/null; then
    echo "bench cpu: $python has no torch" >&2
    exit 1
fi
opponents=""
[ -z "$python" ] || opponents=torch
[ -z "$python" ] || [ "$compile" = 0 ] || opponents="torch compile"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The models of bench/opponent.py, with the same sizes.
sluice_model() { # MODEL
    case $1 in
    gpt-50257) echo gpt2 --set V=50257,L=6,C=384,H=6,T=256,P=256 --batch 8 ;;
    gpt-256) echo gpt2 --set V=256,L=6,C=384,H=6,T=256,P=256 --batch 8 ;;
    bert-small) echo "$root/bench/models/bert-small.model" --batch 8 ;;
    resnet18) echo resnet18 --set cifar=1 --batch 64 ;;
    mlp) echo mlp --set N=942,W=4096,L=4 --batch 64 ;;
    lstm) echo residual-lstm --set V=256,T=64,L=2,C=512,classes=0 --batch 16 ;;
    *) echo "bench cpu: unknown model $1" >&2 && return 1 ;;
    esac
}

sluice_run() { # MODEL THREADS: one run, its JSON on one line
    local args
    read -ra args <<<"$(sluice_model "$1")"
    "${pin[@]}" "$sluice" train "${args[@]}" --models "$root/models" --threads "$2" \
        --steps $((steps + 2)) --optimizer adamw:wd=0.1 --lr 3e-4 --clip 1 --quiet --json |
        tr -d '\n' && echo
}

# The PyTorch process keeps running between rounds: it compiles once per model and number of threads.
serve() { # WHO MODEL THREADS
    local flags=(--cpus "$on")
    [ "$1" = torch ] || flags+=(--compile)
    rm -f "$work/$1.in" "$work/$1.out"
    mkfifo "$work/$1.in" "$work/$1.out"
    "$python" "$root/bench/opponent.py" --model "$2" --threads "$3" --steps "$steps" --serve \
        "${flags[@]}" <"$work/$1.in" >"$work/$1.out" 2>"$work/$1.err" &
    case $1 in
    torch) exec 3>"$work/$1.in" 4<"$work/$1.out" ;;
    compile) exec 5>"$work/$1.in" 6<"$work/$1.out" ;;
    esac
    local said=""
    said=$(answer "$1")
    [ "$said" = ready ] && return
    echo "bench cpu: $1 $2 failed: $(tail -n 2 "$work/$1.err")" >&2
    end_server "$1"
    return 1
}

ask() { # WHO
    case $1 in
    torch) echo >&3 ;;
    compile) echo >&5 ;;
    esac
}

answer() { # WHO
    local line=""
    case $1 in
    torch) read -r line <&4 || true ;;
    compile) read -r line <&6 || true ;;
    esac
    echo "$line"
}

end_server() { # WHO
    case $1 in
    torch) exec 3>&- 4<&- ;;
    compile) exec 5>&- 6<&- ;;
    esac
}

# The median of one number over the lines of a file; "none" if there is none.
median() { # FILE KEY
    { [ ! -f "$1" ] || sed -n "s/.*\"$2\": *\\([0-9.e+-]*\\).*/\\1/p" "$1"; } | sort -g |
        awk '{ x[NR] = $1 } END { if (NR) printf "%.15g\n", (x[int((NR + 1) / 2)] + x[int(NR / 2) + 1]) / 2; else print "none" }'
}

# min(B...) / A, over the arguments that are numbers
over() { # A B...
    awk 'BEGIN { best = ""
        for (i = 2; i < ARGC; i++) if (ARGV[i] != "none" && (best == "" || ARGV[i] + 0 < best)) best = ARGV[i] + 0
        if (best == "" || ARGV[1] == "none") print "none"; else printf "%.3f\n", best / ARGV[1] }' "$@"
}

error() { # PREDICTED MEASURED
    awk -v p="$1" -v m="$2" 'BEGIN { printf "%+.2f\n", 100 * (p - m) / m }'
}

rate() { # ITEMS SECONDS
    awk -v n="$1" -v s="$2" 'BEGIN { if (s == "none") print s; else printf "%.1f\n", n / s }'
}

bench() { # MODEL THREADS
    local who round found=$work/$1-$2 on=$cpus pin=()
    [ "$on" != auto ] || on=$(python3 "$root/bench/quiet_cpus.py" "$2")
    [ -z "$on" ] || pin=(taskset -c "$on")
    local up=()
    for who in $opponents; do
        ! serve "$who" "$1" "$2" || up+=("$who")
    done
    [ -z "$lock" ] || { exec 9>"$lock" && flock 9; }
    for ((round = 1; round <= rounds; round++)); do
        sluice_run "$1" "$2" >>"$found.sluice"
        for who in "${up[@]}"; do
            ask "$who"
            answer "$who" >>"$found.$who"
        done
    done
    for who in "${up[@]}"; do
        end_server "$who"
    done
    [ -z "$lock" ] || exec 9>&-
    wait
    local items s t c
    items=$(median "$found.sluice" step_items)
    s=$(median "$found.sluice" step_s) t=$(median "$found.torch" step_s) c=$(median "$found.compile" step_s)
    echo "RESULT bench=cpu model=$1 threads=$2 sluice=$(rate "$items" "$s")" \
        "torch=$(rate "$items" "$t") torch_compile=$(rate "$items" "$c") ratio=$(over "$s" "$t" "$c")" \
        "cpu_ratio=$(over "$(median "$found.sluice" step_cpu_s)" "$(median "$found.torch" step_cpu_s)" \
            "$(median "$found.compile" step_cpu_s)")" \
        "sluice_bytes=$(median "$found.sluice" peak_bytes) torch_bytes=$(median "$found.torch" peak_bytes)" \
        "predicted_bytes=$(median "$found.sluice" bytes)" \
        "predicted_error_percent=$(error "$(median "$found.sluice" bytes)" "$(median "$found.sluice" peak_bytes)")" \
        "rounds=$rounds cpus=${on:-any}"
}

for model in $models; do
    sluice_model "$model" >/dev/null
done
for model in $models; do
    for count in $threads; do
        bench "$model" "$count"
    done
done
