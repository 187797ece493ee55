#!/usr/bin/env bash
# The seeds of the model reader's fuzz target reach at least 80 % of its lines.
exec "$SRC_DIR/tools/fuzz_coverage.sh" model 'base graph op' 'src/graph/model*.c' 80
