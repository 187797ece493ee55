# shellcheck shell=bash
# Small models of every kind, trained for ten steps in several ways whose losses must be near each other.
# Sourced with SLUICE, SRC_DIR, work and fail() set.

loss() { # ARGUMENTS of train: the last loss
    "$SLUICE" train "$@" --models "$SRC_DIR/models" --quiet --json | sed -n 's/^ *"loss": \([^,]*\),$/\1/p'
}
near() { # A B TOLERANCE
    awk -v a="$1" -v b="$2" -v t="$3" 'BEGIN { d = a - b; exit !((d < 0 ? -d : d) <= t * a) }'
}

small_models() { # MODEL SETS OPTIMIZER per line
    cat <<'MODELS'
gpt-tiny V=61,T=17,P=19,L=2,C=24,H=3 adamw
gpt-tiny V=64,T=96,P=96,L=2,C=128,H=2 adamw
bert-base V=53,T=13,P=15,L=2,C=20,H=2,F=36 adamw
dlrm dense_branches=2,sparse_branches=3,L=2,W=17,N=11,rows=31,E=5,bag=4,top=2 adam
residual-lstm V=29,T=11,L=2,C=18,classes=0 sgd
resnet18 cifar=1,S=9,W=3,classes=7 momentum
resnet18 S=33,W=8,classes=5 momentum
MODELS
}

# Each model with `--dtype fp32` on the CPU against OPTIONS with each DTYPE:TOLERANCE.
near_the_cpu() { # "DTYPE:TOLERANCE ..." OPTIONS OF TRAIN...
    local model sets optimizer dtype cpu got
    while read -r model sets optimizer; do
        local args=("$model" --set "$sets" --batch 4 --steps 10 --lr 1e-3 --optimizer "$optimizer")
        cpu=$(loss "${args[@]}")
        for dtype in $1; do
            got=$(loss "${args[@]}" "${@:2}" --dtype "${dtype%:*}")
            near "$cpu" "$got" "${dtype#*:}" || fail "$model, ${dtype%:*}: loss $got, in fp32 on the CPU $cpu"
        done
    done < <(small_models)
}

# The same bytes twice, and those of one stage from synchronous pipelines.
same_bytes() { # DTYPE OPTIONS OF TRAIN...
    local one stages schedule
    one=$(weights one "$@")
    [ "$(weights again "$@")" = "$one" ] || fail "$1: two runs differ"
    while read -r stages schedule; do
        [ "$(weights "$stages-$schedule" "$@" --stages "$stages" --schedule "$schedule")" = "$one" ] ||
            fail "$1: $stages stages, $schedule: not the bytes of one stage"
    done <<'PIPES'
2 1f1b
4 1f1b
2 gpipe
4 zb-h1
PIPES
}

# shellcheck disable=SC2154 # work: of the caller
weights() { # NAME DTYPE OPTIONS: a hash of all weights and optimizer state
    "$SLUICE" train gpt-tiny --models "$SRC_DIR/models" --set V=64,T=64,P=64,L=4,C=128,H=2 --batch 8 \
        --micro 4 --steps 6 --quiet --out "$work/$2-$1" --dtype "${@:2}" >/dev/null
    (cd "$work/$2-$1/ckpt" && find . -name '*.safetensors' | sort | xargs cat | sha256sum)
}
