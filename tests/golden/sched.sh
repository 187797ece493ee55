#!/usr/bin/env bash
# Schedules keep their text: a run whose pipeline was full when it was saved goes on only with the same lists of actions.
set -euo pipefail
golden=$SRC_DIR/tests/golden/sched.txt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
asked() {
    local schedule policy
    for schedule in 1f1b gpipe kfkb zb-h1 zb-h2 serial 2bw stash vsync async paci; do
        echo "--chain 4 --schedule $schedule --micro 6 --iters 12"
        echo "--dag a>b>d,a>c>d,a>d --schedule $schedule --micro 3 --iters 9 --slack 1"
        echo "--chain 3 --schedule $schedule --batch 6 --micro 3 --last-batch 5 --iters 5 --costs F=3,I=2,W=2"
    done
    for schedule in graph zb-graph; do
        echo "--dag a>b>d,a>c>d,a>d --schedule $schedule --micro 5 --costs a:F=3,I=2,W=2;b:F=1"
    done
    echo "--chain 8 --ranks 4 --schedule interleaved --micro 8"
    echo "--chain 8 --ranks 2 --schedule interleaved --micro 4"
    echo "--chain 8 --schedule zb-v --micro 8"
    echo "--chain 8 --schedule dualpipe-v --micro 8"
    echo "--chain 4 --schedule chimera --micro 4"
    for schedule in 2bw stash vsync async; do
        echo "--chain 4 --schedule $schedule --micro 3 --iters 10 --global-step"
        echo "--dag a>b>d,a>c>d,a>d --schedule $schedule --micro 2 --iters 8 --global-step"
    done
    for policy in spectrain xpipe pipeoptim pipemare lr-rescale nesterov-async; do
        echo "--chain 4 --schedule async --micro 2 --iters 12 --policy $policy"
    done
    echo "--chain 4 --schedule 2bw --micro 4 --iters 9 --policy 2bw-predict"
    echo "--chain 4 --schedule 2bw --micro 4 --iters 9 --policy error-feedback"
    for plan in tied wide; do
        for schedule in 1f1b gpipe zb-h1 2bw stash async; do
            echo "$SRC_DIR/tests/zoo/$plan.plan --schedule $schedule --micro 4 --iters 7"
        done
        for schedule in 2bw stash async; do
            echo "$SRC_DIR/tests/zoo/$plan.plan --schedule $schedule --micro 4 --iters 7 --global-step"
            echo "$SRC_DIR/tests/zoo/$plan.plan --schedule $schedule --micro 1 --iters 9 --global-step"
        done
    done
    for schedule in interleaved gpipe; do
        echo "$SRC_DIR/tests/zoo/several.plan --schedule $schedule --micro 4 --iters 6"
    done
    for schedule in graph zb-graph gpipe; do
        echo "$SRC_DIR/tests/zoo/sizes.plan --schedule $schedule --batch 24"
    done
}
asked | while read -r line; do
    read -ra words <<<"$line"
    if "$SLUICE" sched "${words[@]}" -o "$work/x.sched" --quiet >/dev/null 2>"$work/err"; then
        sum=$(sha256sum <"$work/x.sched")
        echo "${line#"$SRC_DIR/"} ${sum:0:16}"
    else
        echo "${line#"$SRC_DIR/"} refused: $(head -n 1 "$work/err" | sed "s|$SRC_DIR/||g")"
    fi
done >"$work/now"
if [ -n "${SL_GOLDEN_UPDATE:-}" ]; then
    cp "$work/now" "$golden"
fi
diff "$golden" "$work/now" || { echo "FAILED: schedules have other texts (SL_GOLDEN_UPDATE=1 accepts them)" && exit 1; }
echo "count: $(wc -l <"$golden") schedules have their text"
