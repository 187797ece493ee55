/* Cases of the elementwise, normalising, shaping, embedding and loss ops. */
#include "op_cases.h"

static const struct sl_op_case cases[] = {
    {"add", "same", {SL_X("B,3,5"), SL_X("B,3,5")}, NULL, 0},
    {"add", "row", {SL_X("B,3,5"), SL_W("5")}, NULL, 0},
    {"add", "both", {SL_X("B,1,5"), SL_W("3,1")}, NULL, 0},
    {"broadcast_to", "new", {SL_W("3,1")}, "shape=B,3,5", 0},
    {"layernorm", "plain", {SL_X("B,3,7"), SL_W("7"), SL_W("7")}, NULL, 0},
    {"layernorm", "eps", {SL_X("B,3,7"), SL_W("7")}, "eps=0.13", 0},
    {"matmul", "bias", {SL_X("B,3,5"), SL_W("5,7"), SL_W("7")}, NULL, 0},
    {"matmul", "tb", {SL_X("B,3,5"), SL_W("7,5")}, "tb=1", 0},
    {"matmul", "ta", {SL_X("5,3"), SL_W("5,7")}, "ta=1", 0},
    {"matmul", "ta_tb", {SL_X("5,3"), SL_W("7,5")}, "ta=1 tb=1", 0},
    {"matmul", "batched", {SL_X("B,2,3,5"), SL_X("B,2,5,7")}, NULL, 0},
    {"matmul", "batched_ta", {SL_X("B,5,3"), SL_X("B,5,7")}, "ta=1", 0},
    {"matmul", "batched_tb", {SL_X("B,3,5"), SL_X("B,7,5"), SL_W("7")}, "tb=1", 0},
    {"matmul", "batched_ta_tb", {SL_X("B,5,3"), SL_X("B,7,5")}, "ta=1 tb=1", 0},
    {"mul", "same", {SL_X("B,3,5"), SL_X("B,3,5")}, NULL, 0},
    {"mul", "row", {SL_X("B,3,5"), SL_W("5")}, NULL, 0},
    {"mul", "both", {SL_X("B,1,5"), SL_W("3,1")}, NULL, 0},
    {"reduce_mean", "all", {SL_X("B,3,5")}, NULL, 0},
    {"reduce_mean", "some", {SL_X("B,3,5,2")}, "axes=-1,0", 0},
    {"reduce_mean", "keep", {SL_X("B,3,5,2")}, "axes=1,3 keep=1", 0},
    {"reduce_sum", "all", {SL_X("B,3,5")}, NULL, 0},
    {"reduce_sum", "some", {SL_X("B,3,5,2")}, "axes=-1,0", 0},
    {"reduce_sum", "keep", {SL_X("B,3,5,2")}, "axes=1,3 keep=1", 0},
    {"reshape", "rows", {SL_X("B,3,5")}, "shape=B*3,5", 0},
    {"scale", "by", {SL_X("B,3,5")}, "by=-1.7", 0},
    {"sub", "same", {SL_X("B,3,5"), SL_X("B,3,5")}, NULL, 0},
    {"sub", "row", {SL_X("B,3,5"), SL_W("5")}, NULL, 0},
    {"sub", "left", {SL_W("5"), SL_X("B,3,5")}, NULL, 0},
    {"sum_to", "rows", {SL_X("B,3,5")}, "shape=3,1", 0},
};

static const struct sl_op_error errors[] = {
    {"add", {SL_X("B,3,5"), SL_X("B,3,7")}, NULL, {"[B,3,5]", "[B,3,7]"}},
    {"broadcast_to", {SL_X("B,3,5")}, "shape=B,3,7", {"[B,3,5]", "[B,3,7]"}},
    {"layernorm", {SL_X("B,5"), SL_W("7")}, NULL, {"[5]", "[7]"}},
    {"matmul", {SL_X("B,3,5"), SL_W("7,5")}, NULL, {"[B,3,5]", "[7,5]"}},
    {"matmul", {SL_X("B,3,5"), SL_W("5,7")}, "ta=1", {"[B,3,5]", "[5,7]"}},
    {"mul", {SL_X("B,3,5"), SL_X("3,3,5")}, NULL, {"[B,3,5]", "[3,3,5]"}},
    {"reduce_mean", {SL_X("B,3,5")}, "axes=3", {"axis 3", "rank 3"}},
    {"reduce_sum", {SL_X("B,3,5")}, "axes=1,-2", {"twice", "[B,3,5]"}},
    {"reshape", {SL_X("B,3,5")}, "shape=B,14", {"[B,3,5]", "[B,14]"}},
    {"sub", {SL_X("B,3"), SL_X("B,5")}, NULL, {"[B,3]", "[B,5]"}},
    {"sum_to", {SL_X("B,3,5")}, "shape=3,7", {"[B,3,5]", "[3,7]"}},
};

const struct sl_op_group sl_op_cases_basic = {
    .name = "basic",
    .cases = cases,
    .case_count = SL_COUNT(cases),
    .errors = errors,
    .error_count = SL_COUNT(errors),
};
