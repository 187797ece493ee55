#!/usr/bin/env bash
# A C program under mpirun gives the library its own communicator: two groups of ranks train two pipelines at
# once, each with the weights of one process.
set -euo pipefail
fail() { echo "FAILED: $*" && exit 1; }
# shellcheck source=tests/support/mpi.sh
. "$SRC_DIR/tests/support/mpi.sh"
command -v mpicc >/dev/null || { echo "SKIPPED: no mpicc" && exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/main.c" <<'C'
#include <mpi.h>
#include <sluice.h>

#include <stdio.h>
#include <string.h>

static const char model[] = "model m\ninput x : float[B, 4]\ninput y : float[B, 1]\n"
                            "param w0[8, 4] ~ normal(0.5)\nparam w1[1, 8] ~ normal(0.3)\n"
                            "loss mse(matmul(tanh(matmul(x, w0, tb = 1)), w1, tb = 1), y)\n";

static sl_err train(const char *seed, const MPI_Comm *comm, float w[32]) {
    struct sl_net *net = NULL;
    struct sl_trainer *t = NULL;
    const char *const set[] = {"stages", "2", "steps", "5", "batch", "8", "micro", "4", "seed", seed};
    sl_err err = sl_net_read_text("m", model, strlen(model), NULL, &net);
    if (err == SL_OK)
        err = sl_trainer_new(&t);
    for (int i = 0; i < 10 && err == SL_OK; i += 2)
        err = sl_trainer_set(t, set[i], set[i + 1]);
    if (err == SL_OK && (err = sl_trainer_use_net(t, net)) == SL_OK &&
        (err = comm ? sl_trainer_use_mpi(t, comm) : SL_OK) == SL_OK &&
        (err = sl_trainer_open(t)) == SL_OK && (err = sl_trainer_run(t, 2)) == SL_OK &&
        (err = sl_trainer_run(t, 0)) == SL_OK)
        err = sl_trainer_get_tensor(t, "w0", w, 32);
    sl_trainer_close(t);
    sl_net_close(net);
    return err;
}

int main(int argc, char **argv) {
    int rank, level;
    float alone[32], ours[32];
    MPI_Comm half;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, &half);
    const char *seed = rank / 2 ? "5" : "9";
    sl_err err = train(seed, NULL, alone);
    if (err == SL_OK)
        err = train(seed, &half, ours);
    if (err != SL_OK)
        fprintf(stderr, "rank %d: %s\n", rank, sl_err_message());
    else if (memcmp(alone, ours, sizeof ours) == 0)
        printf("rank %d of group %d: the same weights\n", rank, rank / 2);
    MPI_Comm_free(&half);
    MPI_Finalize();
    return (int)err;
}
C
cmake --install "$BUILD_DIR" --prefix "$work/prefix" >/dev/null
lib=$(dirname "$(find "$work/prefix" -name libsluice.so)")
# shellcheck disable=SC2046
mpicc -std=c11 "$work/main.c" -o "$work/main" $(PKG_CONFIG_PATH=$lib/pkgconfig pkg-config --cflags --libs sluice)
cd "$work"
SL_TEST_PATIENCE=120 run_ranks 4 ./main >out 2>err || { cat out err && fail "status $?"; }
[ "$(grep -c 'the same weights' "$work/out")" = 4 ] || { cat "$work/out" "$work/err" && fail "other weights"; }
echo "count: 2 communicators of 2 ranks"
