/* Finds out how this process was started: as a rank of 'sluice launch' (or of another program
 * that sets SLUICE_RANK and its companions), or as a task of a Slurm step.
 *
 * srun without an MPI plugin tells each task its number, the number of tasks and the hosts of
 * the step. Rank 0 is task 0, which Slurm puts on the first host. The port is computed from the
 * numbers of job and step, so that all tasks get the same one. These numbers are public: the key
 * is a secret that rank 0 draws (key.h). */
#include "comm/comm.h"

#include "base/map.h"
#include "base/text.h"
#include "comm/key.h"
#include "comm/tcp_state.h"

#include <stdio.h>
#include <string.h>

enum { FIRST_PORT = 20000, PORTS = 10000 }; /* ports below the range of ephemeral ports */

static sl_err read_number(const char *text, const char *name, int64_t low, int64_t high,
                          int64_t *out) {
    if (!text)
        return SL_OK;
    SL_TRY(sl_parse_int(text, name, out));
    if (*out < low || *out > high)
        return sl_fail(SL_ERR_USAGE, "%s: %lld is not between %lld and %lld", name, (long long)*out,
                       (long long)low, (long long)high);
    return SL_OK;
}

/* Returns the first host of a list such as n[03-05,9]-ib,other: n03-ib, with the first number of
 * every bracket. False: the text is not a list of hosts. */
static bool first_host(const char *list, char *out, size_t size) {
    size_t length = 0;
    bool inside = false, taken = false;
    for (const char *at = list; *at && (inside || *at != ','); at++) {
        if (*at == '[' && !inside) {
            inside = true;
            taken = false;
        } else if (*at == ']' && inside) {
            inside = false;
        } else if (inside && (*at == '-' || *at == ',')) {
            taken = true;
        } else if (!inside || !taken) {
            if (length + 1 >= size)
                return false;
            out[length++] = *at;
        }
    }
    out[length] = 0;
    return length > 0 && !inside;
}

bool sl_comm_job_is_step(char *(*lookup)(const char *name)) {
    const char *tasks = lookup("SLURM_STEP_NUM_TASKS");
    return tasks && strcmp(tasks, "1") != 0 && lookup("SLURM_PROCID");
}

/* Writes "slurm-4711.0", which is a part of a file name. */
static sl_err put_step(struct sl_comm_job *job, const char *number, const char *step) {
    number = number ? number : "0";
    step = step ? step : "0";
    if (strspn(number, "0123456789_") != strlen(number) ||
        strspn(step, "0123456789") != strlen(step) ||
        strlen(number) + strlen(step) > sizeof job->step - 16)
        return sl_fail(SL_ERR_USAGE, "SLURM_JOB_ID, SLURM_STEP_ID: '%s' and '%s' are no numbers",
                       number, step);
    snprintf(job->step, sizeof job->step, "slurm-%s.%s", number, step);
    return SL_OK;
}

static sl_err read_step(char *(*lookup)(const char *name), struct sl_comm_job *job) {
    const char *number = lookup("SLURM_JOB_ID"), *step = lookup("SLURM_STEP_ID");
    const char *hosts = lookup("SLURM_STEP_NODELIST"), *nodes = lookup("SLURM_STEP_NUM_NODES");
    int64_t rank = 0, ranks = 1;
    char host[256];
    SL_TRY(read_number(lookup("SLURM_STEP_NUM_TASKS"), "SLURM_STEP_NUM_TASKS", 1, TCP_RANKS_MAX,
                       &ranks));
    SL_TRY(read_number(lookup("SLURM_PROCID"), "SLURM_PROCID", 0, ranks - 1, &rank));
    if (!hosts || !first_host(hosts, host, sizeof host))
        return sl_fail(SL_ERR_USAGE,
                       "SLURM_STEP_NODELIST: '%s' names no host; set SLUICE_RANK, SLUICE_RANKS and "
                       "SLUICE_MEET=HOST:PORT instead",
                       hosts ? hosts : "");
    SL_TRY(put_step(job, number, step));
    job->rank = (int)rank;
    job->ranks = (int)ranks;
    job->many_hosts = !nodes || strcmp(nodes, "1") != 0;
    snprintf(job->meet, sizeof job->meet, "%s:%d", host,
             FIRST_PORT + (int)(sl_hash(job->step, strlen(job->step)) % PORTS));
    return SL_OK;
}

static sl_err read_launch(char *(*lookup)(const char *name), struct sl_comm_job *job) {
    int64_t rank = 0, ranks = 1, fd = -1;
    SL_TRY(read_number(lookup("SLUICE_RANKS"), "SLUICE_RANKS", 1, TCP_RANKS_MAX, &ranks));
    SL_TRY(read_number(lookup("SLUICE_RANK"), "SLUICE_RANK", 0, ranks - 1, &rank));
    SL_TRY(read_number(lookup("SLUICE_MEET_FD"), "SLUICE_MEET_FD", 0, 1 << 20, &fd));
    job->rank = (int)rank;
    job->ranks = (int)ranks;
    job->meet_fd = rank == 0 ? (int)fd : -1;
    if (ranks > 1 && !lookup("SLUICE_MEET"))
        return sl_fail(SL_ERR_USAGE,
                       "SLUICE_RANKS is %lld, but SLUICE_MEET=HOST:PORT of rank 0 is "
                       "not set; 'sluice launch' does it",
                       (long long)ranks);
    return SL_OK;
}

sl_err sl_comm_job_read(char *(*lookup)(const char *name), struct sl_comm_job *job) {
    const char *key = lookup("SLUICE_KEY"), *file = lookup("SLUICE_KEY_FILE");
    const char *meet = lookup("SLUICE_MEET");
    int64_t timeout_s = 60;
    *job = (struct sl_comm_job){.meet_fd = -1};
    SL_TRY(read_number(lookup("SLUICE_PATIENCE"), "SLUICE_PATIENCE", 1, 86400, &timeout_s));
    job->timeout_ns = timeout_s * 1000000000;
    if (!lookup("SLUICE_RANK") && sl_comm_job_is_step(lookup))
        SL_TRY(read_step(lookup, job));
    else
        SL_TRY(read_launch(lookup, job));
    if (key)
        SL_TRY(sl_comm_key_set(job, key, strlen(key), "SLUICE_KEY"));
    else if (file)
        SL_TRY(sl_comm_key_read(job, file));
    if (meet && snprintf(job->meet, sizeof job->meet, "%s", meet) >= (int)sizeof job->meet)
        return sl_fail(SL_ERR_USAGE, "SLUICE_MEET: more than %d characters",
                       (int)sizeof job->meet - 1);
    return SL_OK;
}
