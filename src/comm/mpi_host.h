/* The functions of the program that the module libsluice_mpi.so calls.
 *
 *     program: sl_comm_transport_find("mpi") loads the module and compares SL_MODULE_BUILD
 *              -> sl_comm_module_connect(&table)
 *     module:  sl_fail(), sl_comm_post_open(), ... forward to the table (mpi_host.c)
 *
 * Neither side exports the functions themselves, because the module must load both into the
 * program and into other programs that link libsluice.so. */
#ifndef SL_COMM_MPI_HOST_H
#define SL_COMM_MPI_HOST_H

#include "comm/life.h"
#include "comm/post.h"

/* Each row: result, name, parameters, arguments. FUNCTION returns a value, ACTION does not. */
#define SL_COMM_HOST_TABLE(FUNCTION, ACTION)                                                       \
    FUNCTION(int64_t, sl_clock_ns, (void), ())                                                     \
    FUNCTION(void *, sl_realloc, (void *old, size_t size_bytes), (old, size_bytes))                \
    FUNCTION(const char *, sl_err_message, (void), ())                                             \
    FUNCTION(sl_err, sl_err_pass, (sl_err code, const char *file, int line, const char *function), \
             (code, file, line, function))                                                         \
    ACTION(sl_err_set_message, (const char *text), (text))                                         \
    FUNCTION(sl_err, sl_comm_transport_find, (const char *name, const struct sl_transport **out),  \
             (name, out))                                                                          \
    FUNCTION(                                                                                      \
        sl_err, sl_comm_open,                                                                      \
        (const struct sl_transport *row, const struct sl_comm_job *job, struct sl_comm **out),     \
        (row, job, out))                                                                           \
    ACTION(sl_comm_close, (struct sl_comm * comm), (comm))                                         \
    ACTION(sl_comm_init, (struct sl_comm * comm), (comm))                                          \
    ACTION(sl_comm_done, (struct sl_comm * comm), (comm))                                          \
    FUNCTION(bool, sl_comm_is_lost, (struct sl_comm * comm, int rank), (comm, rank))               \
    FUNCTION(sl_err, sl_comm_gate_error, (struct sl_gate * gate), (gate))                          \
    ACTION(sl_comm_gate_fail, (struct sl_gate * gate, sl_err err), (gate, err))                    \
    ACTION(sl_comm_gate_set_outer, (struct sl_gate * gate, struct sl_gate * outer), (gate, outer)) \
    ACTION(sl_comm_post_open, (struct sl_post * post), (post))                                     \
    ACTION(sl_comm_post_close, (struct sl_post * post), (post))                                    \
    FUNCTION(sl_err, sl_comm_post_merge,                                                           \
             (struct sl_post * post, const struct sl_ranks *ranks, void *bytes, void *scratch,     \
              int64_t size_bytes),                                                                 \
             (post, ranks, bytes, scratch, size_bytes))                                            \
    FUNCTION(sl_err, sl_comm_post_merge_all,                                                       \
             (struct sl_comm * comm, void *bytes, int64_t size_bytes), (comm, bytes, size_bytes))  \
    FUNCTION(sl_err, sl_comm_post_channel_open,                                                    \
             (struct sl_comm * comm, const struct sl_channel_spec *spec, struct sl_channel **out), \
             (comm, spec, out))                                                                    \
    ACTION(sl_comm_post_channel_close, (struct sl_channel * channel), (channel))                   \
    FUNCTION(sl_err, sl_comm_post_channel_reserve,                                                 \
             (struct sl_channel * channel, int64_t n, char **out), (channel, n, out))              \
    FUNCTION(sl_err, sl_comm_post_channel_send,                                                    \
             (struct sl_channel * channel, int64_t n, int64_t size_bytes),                         \
             (channel, n, size_bytes))                                                             \
    FUNCTION(sl_err, sl_comm_post_channel_receive,                                                 \
             (struct sl_channel * channel, int64_t n, struct sl_message * out), (channel, n, out)) \
    FUNCTION(sl_err, sl_comm_post_channel_release, (struct sl_channel * channel, int64_t n),       \
             (channel, n))                                                                         \
    FUNCTION(sl_err, sl_comm_post_group_open,                                                      \
             (struct sl_comm * comm, const struct sl_group_spec *spec, struct sl_group **out),     \
             (comm, spec, out))                                                                    \
    ACTION(sl_comm_post_group_close, (struct sl_group * group), (group))                           \
    FUNCTION(sl_err, sl_comm_post_group_merge,                                                     \
             (struct sl_group * group, int member, double *table, int64_t count),                  \
             (group, member, table, count))                                                        \
    FUNCTION(sl_err, sl_comm_post_sum_begin,                                                       \
             (struct sl_group * group, int member, const float *const *terms, int64_t count,       \
              float *out),                                                                         \
             (group, member, terms, count, out))                                                   \
    FUNCTION(sl_err, sl_comm_post_sum_poke, (struct sl_group * group, int member),                 \
             (group, member))                                                                      \
    FUNCTION(sl_err, sl_comm_post_sum_end, (struct sl_group * group, int member), (group, member))

/* NOLINTBEGIN(bugprone-macro-parentheses): names and parameter lists of declarations */
#define SL_COMM_HOST_FUNCTION(result, name, params, args) result(*name) params;
#define SL_COMM_HOST_ACTION(name, params, args) void(*name) params;
/* NOLINTEND(bugprone-macro-parentheses) */
struct sl_comm_host {
    SL_COMM_HOST_TABLE(SL_COMM_HOST_FUNCTION, SL_COMM_HOST_ACTION)
    void (*note)(const char *fmt, ...) SL_PRINTF(1, 2);
};

/* Gives the table to the module, which keeps it. Called after each load, with the same table. */
typedef void sl_comm_module_connect_fn(const struct sl_comm_host *host);
#define SL_COMM_MODULE_CONNECT "sl_comm_module_connect"

#endif
