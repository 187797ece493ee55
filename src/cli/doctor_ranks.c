/* doctor: transports and launchers, tried with two ranks that train one step; GPUs. */
#include "cli/capture.h"
#include "cli/doctor.h"
#include "comm/comm.h"
#include "profile/devices.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATIENCE_S = 120 };

/* Two ranks that train one step of a small pipeline. */
#define TRIAL                                                                                      \
    "train", "mlp", "--stages", "2", "--steps", "1", "--batch", "2", "--micro", "2", "--quiet"

#define TRIAL_TEXT "train mlp --stages 2 --steps 1 --batch 2 --micro 2"

/* What a program said last, for people: its last line that is not empty. */
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

/* What launchers say when they refuse, and what helps. */
static const struct {
    const char *said, *cure;
} refusals[] = {
    {"as root", "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"},
    {"not enough slots", "mpirun --oversubscribe ..."},
};

/* The line that says why, and the command that helps; else the last line and what was tried. */
static void explain(struct sl_doctor *d, const struct sl_text *said, struct sl_finding *f) {
    f->what = last_line(d->arena, said->at ? said->at : "", said->length);
    for (int i = 0; i < SL_COUNT(refusals); i++) {
        const char *at = said->length ? strstr(said->at, refusals[i].said) : NULL;
        if (!at)
            continue;
        size_t end = (size_t)(at - said->at) + strcspn(at, "\n");
        f->what = last_line(d->arena, said->at, end);
        f->fix = refusals[i].cure;
        return;
    }
}

static void try_ranks(struct sl_doctor *d, const char *name, const char *const *argv,
                      const char *tried) {
    struct sl_text said = {0};
    struct sl_finding f = {.name = name, .health = SL_HEALTH_FAILS, .fix = tried};
    int status = sl_cli_capture(argv, PATIENCE_S, &said);
    if (status == 0) {
        sl_cli_doctor_ok(d, name, "two ranks trained one step");
    } else {
        explain(d, &said, &f);
        if (status == SL_CAPTURE_LATE)
            f.what = "two ranks did not train one step within two minutes";
        sl_cli_doctor_bad(d, f);
    }
    sl_text_free(&said);
}

static void look_module(struct sl_doctor *d) {
    const struct sl_transport *row;
    if (sl_comm_transport_find("mpi", &row) == SL_OK)
        sl_cli_doctor_ok(d, "MPI module", "libsluice_mpi.so, built for %s", row->made_for);
    else
        sl_cli_doctor_bad(d, (struct sl_finding){.name = "MPI module",
                                                 .health = SL_HEALTH_MISSING,
                                                 .what = sl_arena_dup(d->arena, sl_err_message(),
                                                                      strlen(sl_err_message())),
                                                 .fix = "./dev setup --with-mpi && ./dev build"});
}

static void look_mpirun(struct sl_doctor *d, const char *self) {
    const char *version[] = {"mpirun", "--version", NULL};
    const char *trial[] = {"mpirun", "-n", "2", self, TRIAL, NULL};
    struct sl_text said = {0};
    if (!sl_cli_capture_finds("mpirun")) {
        sl_cli_doctor_bad(d, (struct sl_finding){.name = "mpirun",
                                                 .health = SL_HEALTH_MISSING,
                                                 .what = "not found; 'sluice launch' does without",
                                                 .fix = "apt-get install openmpi-bin"});
        return;
    }
    if (sl_cli_capture(version, PATIENCE_S, &said) == 0)
        sl_cli_doctor_ok(d, "MPI flavour", "%s", first_line(d->arena, &said));
    sl_text_free(&said);
    try_ranks(d, "mpirun", trial, "mpirun -n 2 sluice " TRIAL_TEXT);
}

static void look_srun(struct sl_doctor *d) {
    const char *version[] = {"srun", "--version", NULL};
    struct sl_text said = {0};
    if (sl_cli_capture(version, PATIENCE_S, &said) == 0)
        sl_cli_doctor_ok(d, "Slurm", "%s", first_line(d->arena, &said));
    else
        sl_cli_doctor_bad(d, (struct sl_finding){.name = "Slurm",
                                                 .health = SL_HEALTH_MISSING,
                                                 .what = "no srun here",
                                                 .fix = "apt-get install slurm-client"});
    sl_text_free(&said);
}

static const char *self_path(struct sl_doctor *d) {
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path);
    return length > 0 ? sl_arena_dup(d->arena, path, (size_t)length) : "sluice";
}

void sl_cli_doctor_ranks(struct sl_doctor *d) {
    const char *self = self_path(d);
    bool quick = sl_args_has(d->args, "--quick");
    look_module(d);
    if (quick)
        return;
    try_ranks(d, "launch", (const char *[]){self, "launch", "-n", "2", "--", TRIAL, NULL},
              "sluice launch -n 2 -- " TRIAL_TEXT);
    look_mpirun(d, self);
    look_srun(d);
}

/* Two processes on the GPUs, and what their messages go by. */
static void try_gpus(struct sl_doctor *d) {
    const char *trial[] = {self_path(d), "launch",   "-n", "2",        "--",   "train",
                           "mlp",        "--stages", "2",  "--steps",  "1",    "--batch",
                           "2",          "--micro",  "2",  "--device", "cuda", NULL};
    struct sl_text said = {0};
    int status = sl_cli_capture(trial, PATIENCE_S, &said);
    const char *text = said.length ? said.at : "", *host = strstr(text, "go through the host: ");
    struct sl_finding f = {.name = "CUDA IPC",
                           .health = status == 0 ? SL_HEALTH_MISSING : SL_HEALTH_FAILS,
                           .fix = "nvidia-smi topo -p2p r; docker run --ipc=host --pid=host ..."};
    f.what = host ? sl_arena_dup(d->arena, host, strcspn(host, "\n"))
                  : last_line(d->arena, text, said.length);
    if (status == 0 && strstr(text, "go by CUDA IPC"))
        sl_cli_doctor_ok(d, f.name, "processes use each other's device memory");
    else
        sl_cli_doctor_bad(d, f);
    sl_text_free(&said);
}

void sl_cli_doctor_gpus(struct sl_doctor *d) {
    bool there = sl_file_exists("/dev/nvidia0");
    const struct sl_device_row *row = sl_device_find("cuda");
    const char *why = row ? row->missing() : "this build has no CUDA module";
    const char *here = why ? NULL : sl_profile_devices_text(d->arena, row);
    if (!why) {
        sl_cli_doctor_ok(d, "CUDA", "%s", here ? here : row->brief);
        if (!sl_args_has(d->args, "--quick"))
            try_gpus(d);
    } else if (there)
        sl_cli_doctor_bad(
            d, (struct sl_finding){.name = "CUDA",
                                   .health = SL_HEALTH_FAILS,
                                   .what = sl_arena_printf(d->arena, "a GPU is here, but %s", why),
                                   .fix = "nvcc --version && rm -rf build/release && ./dev build"});
    else
        sl_cli_doctor_bad(d, (struct sl_finding){.name = "CUDA",
                                                 .health = SL_HEALTH_MISSING,
                                                 .what = "no GPU is found; the CPU does everything",
                                                 .fix = "nvidia-smi"});
}
