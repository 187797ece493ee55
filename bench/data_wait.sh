#!/usr/bin/env bash
# Share of a step that workers spend on reading data, after the first step: resnet18 on JPEG pictures of 500 x 375 with random
# crops of 224, gpt-nano on JSON lines. SL_PYTHON names a Python with numpy and Pillow, which make the pictures.
# Usage: ./dev bench data_wait [STEPS]
set -euo pipefail
steps=${1:-8}
python=${SL_PYTHON:-python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$python" - "$work/set" <<'END'
import os, sys
import numpy as np
from PIL import Image
rng = np.random.default_rng(1)
for i in range(64):
    folder = f"{sys.argv[1]}/class{i % 4}"
    os.makedirs(folder, exist_ok=True)
    small = Image.fromarray(rng.integers(0, 256, (24, 32, 3), dtype="u1"))
    small.resize((500, 375), Image.BICUBIC).save(f"{folder}/{i}.jpg", quality=90)
END
for i in $(seq 20000); do
    printf '{"text": "line %d of the file tells that %d gates open at %d o clock, and then some water comes"}\n' "$i" $((i * 7)) $((i % 24))
done >"$work/text.jsonl"
share() {
    name=$1
    shift
    "$SLUICE" train "$@" --eval-every 0 --validation 0 --out "$work/$name" --quiet
    sed -n 's/.*"ms": *\([0-9.e+-]*\), *"data_ms": *\([0-9.e+-]*\).*/\1 \2/p' "$work/$name/log.jsonl" |
        awk -v name="$name" 'NR > 1 { ms += $1; data += $2 }
            END { printf "RESULT bench=data_wait case=%s steps=%d step_ms=%.1f data_ms=%.3f percent=%.3f goal_percent=2\n",
                  name, NR - 1, ms / (NR - 1), data / (NR - 1), 100 * data / ms }'
}
share resnet18 resnet18 --set classes=4 --data "$work/set" --images crop=scaled,flip=1 --batch 8 --steps "$steps" --threads 2
share gpt-nano gpt-nano --data "$work/text.jsonl" --batch 16 --steps $((steps * 10))
