/* Checkup of transports, launchers and GPUs: two ranks train one step. */
#include "base/spawn.h"
#include "comm/comm.h"
#include "profile/checkup.h"
#include "profile/devices.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TIMEOUT_S = 120 };

/* The command with which two ranks train one step of a small pipeline. */
#define TRIAL                                                                                      \
    "train", "mlp", "--stages", "2", "--steps", "1", "--batch", "2", "--micro", "2", "--quiet"

#define TRIAL_TEXT "train mlp --stages 2 --steps 1 --batch 2 --micro 2"

/* Returns the last line before `end` that is not empty. */
static const char *last_line(struct sl_arena *arena, const char *text, size_t end) {
    size_t start;
    while (end > 0 && strchr(" -\n", text[end - 1]))
        end--;
    for (start = end; start > 0 && text[start - 1] != '\n'; start--)
        ;
    return sl_arena_dup(arena, text + start, end - start);
}

static const char *first_line(struct sl_arena *arena, const struct sl_text *text) {
    return sl_arena_dup(arena, text->length ? text->at : "",
                        strcspn(text->length ? text->at : "", "\n"));
}

/* Error messages of launchers, and the command that helps. */
static const struct {
    const char *message, *fix;
} refusals[] = {
    {"as root", "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"},
    {"not enough slots", "mpirun --oversubscribe ..."},
};

/* Sets what the finding says: the line that states the reason, or the last line if the reason is
 * unknown. */
static void explain(struct sl_checkup *c, const struct sl_text *output, struct sl_finding *f) {
    f->what = last_line(c->arena, output->at ? output->at : "", output->length);
    for (int i = 0; i < SL_COUNT(refusals); i++) {
        const char *at = output->length ? strstr(output->at, refusals[i].message) : NULL;
        if (!at)
            continue;
        size_t end = (size_t)(at - output->at) + strcspn(at, "\n");
        f->what = last_line(c->arena, output->at, end);
        f->fix = refusals[i].fix;
        return;
    }
}

static void try_ranks(struct sl_checkup *c, const char *name, const char *const *argv,
                      const char *tried) {
    struct sl_text output = {0};
    struct sl_finding f = {.name = name, .health = SL_HEALTH_FAILS, .fix = tried};
    int status = sl_capture(argv, TIMEOUT_S, &output);
    if (status == 0) {
        sl_profile_checkup_ok(c, name, "two ranks trained one step");
    } else {
        explain(c, &output, &f);
        if (status == SL_CAPTURE_TIMEOUT)
            f.what = "two ranks did not train one step within two minutes";
        sl_profile_checkup_bad(c, f);
    }
    sl_text_free(&output);
}

static void check_module(struct sl_checkup *c) {
    const struct sl_transport *row;
    if (sl_comm_transport_find("mpi", &row) == SL_OK)
        sl_profile_checkup_ok(c, "MPI module", "libsluice_mpi.so, built for %s", row->made_for);
    else
        sl_profile_checkup_bad(c,
                               (struct sl_finding){.name = "MPI module",
                                                   .health = SL_HEALTH_MISSING,
                                                   .what = sl_arena_dup(c->arena, sl_err_message(),
                                                                        strlen(sl_err_message())),
                                                   .fix = "./dev setup --with-mpi && ./dev build"});
}

static void check_mpirun(struct sl_checkup *c, const char *self) {
    const char *version[] = {"mpirun", "--version", NULL};
    const char *trial[] = {"mpirun", "-n", "2", self, TRIAL, NULL};
    struct sl_text output = {0};
    if (!sl_capture_finds("mpirun", c->path)) {
        sl_profile_checkup_bad(
            c, (struct sl_finding){.name = "mpirun",
                                   .health = SL_HEALTH_MISSING,
                                   .what = "not found; 'sluice launch' does without",
                                   .fix = "apt-get install openmpi-bin"});
        return;
    }
    if (sl_capture(version, TIMEOUT_S, &output) == 0)
        sl_profile_checkup_ok(c, "MPI flavour", "%s", first_line(c->arena, &output));
    sl_text_free(&output);
    try_ranks(c, "mpirun", trial, "mpirun -n 2 sluice " TRIAL_TEXT);
}

static void check_srun(struct sl_checkup *c) {
    const char *version[] = {"srun", "--version", NULL};
    struct sl_text output = {0};
    if (sl_capture(version, TIMEOUT_S, &output) == 0)
        sl_profile_checkup_ok(c, "Slurm", "%s", first_line(c->arena, &output));
    else
        sl_profile_checkup_bad(c, (struct sl_finding){.name = "Slurm",
                                                      .health = SL_HEALTH_MISSING,
                                                      .what = "no srun here",
                                                      .fix = "apt-get install slurm-client"});
    sl_text_free(&output);
}

static const char *self_path(struct sl_checkup *c) {
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path);
    return length > 0 ? sl_arena_dup(c->arena, path, (size_t)length) : "sluice";
}

void sl_profile_checkup_ranks(struct sl_checkup *c) {
    const char *self = self_path(c);
    check_module(c);
    if (c->quick)
        return;
    try_ranks(c, "launch", (const char *[]){self, "launch", "-n", "2", "--", TRIAL, NULL},
              "sluice launch -n 2 -- " TRIAL_TEXT);
    check_mpirun(c, self);
    check_srun(c);
}

/* Trains with two processes on the GPUs; reports how their messages travel. */
static void try_gpus(struct sl_checkup *c) {
    const char *trial[] = {self_path(c), "launch",   "-n", "2",        "--",   "train",
                           "mlp",        "--stages", "2",  "--steps",  "1",    "--batch",
                           "2",          "--micro",  "2",  "--device", "cuda", NULL};
    struct sl_text output = {0};
    int status = sl_capture(trial, TIMEOUT_S, &output);
    const char *text = output.length ? output.at : "",
               *host = strstr(text, "go through the host: ");
    struct sl_finding f = {.name = "CUDA IPC",
                           .health = status == 0 ? SL_HEALTH_MISSING : SL_HEALTH_FAILS,
                           .fix = "nvidia-smi topo -p2p r; docker run --ipc=host --pid=host ..."};
    f.what = host ? sl_arena_dup(c->arena, host, strcspn(host, "\n"))
                  : last_line(c->arena, text, output.length);
    if (status == 0 && strstr(text, "go by CUDA IPC"))
        sl_profile_checkup_ok(c, f.name, "processes use each other's device memory");
    else
        sl_profile_checkup_bad(c, f);
    sl_text_free(&output);
}

void sl_profile_checkup_gpus(struct sl_checkup *c) {
    bool found = sl_file_exists("/dev/nvidia0");
    const struct sl_device_row *row = sl_device_find("cuda");
    const char *why = row ? row->missing() : "this build has no CUDA module";
    const char *devices = why ? NULL : sl_profile_devices_text(c->arena, row);
    if (!why) {
        sl_profile_checkup_ok(c, "CUDA", "%s", devices ? devices : row->brief);
        if (!c->quick)
            try_gpus(c);
    } else if (found)
        sl_profile_checkup_bad(
            c, (struct sl_finding){.name = "CUDA",
                                   .health = SL_HEALTH_FAILS,
                                   .what = sl_arena_printf(c->arena, "a GPU is here, but %s", why),
                                   .fix = "nvcc --version && rm -rf build/release && ./dev build"});
    else
        sl_profile_checkup_bad(
            c, (struct sl_finding){.name = "CUDA",
                                   .health = SL_HEALTH_MISSING,
                                   .what = "no GPU is found; the CPU does everything",
                                   .fix = "nvidia-smi"});
}
