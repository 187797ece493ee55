/* A picture: a timeline as bars on lanes, messages between them, and the critical path.
 *
 *     timeline or trace file -> sl_picture -> grid, SVG, HTML, trace file
 *
 *     lane 0  [F0][F1]        [B0 ]        bars of a lane do not overlap and are sorted by time
 *                \ message   /
 *     lane 1      [F0][B0 ]
 */
#ifndef SL_REPORT_PICTURE_H
#define SL_REPORT_PICTURE_H

#include "base/json.h"
#include "sched/timeline.h"

struct sl_bar {
    int64_t start_ns, end_ns, bytes;
    int64_t since_ns; /* REDUCE: start of its communication; 0: it starts at start_ns */
    int32_t micro, version;
    uint16_t stage; /* index into stages */
    uint8_t kind;   /* enum sl_kind, except SEND and RECV */
    bool critical;
};

struct sl_arrow {
    int64_t start_ns, left_ns, end_ns; /* on the wire until left_ns, arrives at end_ns */
    int32_t from, to, micro;           /* from, to: lanes; micro: micro-batch of the sender */
    uint16_t from_stage, to_stage;
    bool grad, critical;
};

struct sl_picture {
    const char *title;         /* "1f1b" */
    const char *detail;        /* one line, or "" */
    const char *const *stages; /* names of the stages */
    int stage_count;
    int lane_count;
    const struct sl_bar *bars;
    const int64_t *lane_at; /* [lane_count + 1] first bar of each lane */
    const struct sl_arrow *arrows;
    int64_t arrow_count;
    int64_t end_ns;
    bool measured;
    /* without bytes: the plan has no sizes (sl_plan_is_sketch), or the picture is imported */
    bool sketch;
    /* parts of the critical path; all 0: unknown */
    int64_t pass_ns, weight_ns, transfer_ns, gap_ns;
};

void sl_report_picture_build(struct sl_arena *arena, const struct sl_timeline *timeline,
                             const char *title, const char *detail, struct sl_picture *out);

int64_t sl_report_picture_busy(const struct sl_picture *picture, int lane);
int64_t sl_report_picture_peak(const struct sl_picture *picture, int lane);

/* Draws a text grid. One column is 1/columns of the time, or one unit if all times are multiples of
 * a unit and the grid fits. */
struct sl_grid_opts {
    int columns;   /* most columns, with labels; 0: 100 */
    int max_lanes; /* most lanes; 0: all */
    bool colour;
    bool critical; /* mark the critical path */
};
void sl_report_grid(const struct sl_picture *picture, const struct sl_grid_opts *opts,
                    struct sl_text *out);

/* Writes a standalone SVG that is `width` pixels wide. */
void sl_report_svg(const struct sl_picture *picture, int width, struct sl_text *out);

/* Writes a self-contained page; two pictures share one time scale. */
enum { SL_REPORT_MAX = 2 };
void sl_report_html(const struct sl_picture *pictures, int count, struct sl_text *out);

/* Writes Chrome's trace format with flow arrows, for Perfetto and chrome://tracing. */
void sl_report_trace(const struct sl_picture *picture, struct sl_text *out);
/* Reads a text that sl_report_trace wrote, or the trace of a run. */
SL_MUST_CHECK sl_err sl_report_trace_read(struct sl_arena *arena, const char *file,
                                          const char *text, size_t length, struct sl_picture *out);

/* Reads X.trace.json. */
SL_MUST_CHECK sl_err sl_report_trace_file(struct sl_arena *arena, const char *path,
                                          struct sl_picture *out);
/* Writes pictures to a file by its ending: .html (one or two pictures), .svg, .json (Chrome trace),
 * .txt (grid). */
SL_MUST_CHECK sl_err sl_report_draw(const char *path, const struct sl_picture *pictures, int count);

/* The colours of a kind: "#rrggbb", and the 256-colour number for terminals. */
const char *sl_report_colour(enum sl_kind kind);
int sl_report_ansi(enum sl_kind kind);

#endif
