/* Cases of indexing, padding and moving, and of ops along one axis. */
#include "op_cases.h"

static const struct sl_op_case cases[] = {
    {"argmax", "last", {SL_C("B,3,7", -2, 2)}, NULL, 0},
    {"argmax", "middle", {SL_C("B,5,4", -2, 2)}, "axis=1 keep=1", 0},
    {"argmax", "long", {SL_C("B,331", -2, 2)}, NULL, 0},
    {"argmin", "middle", {SL_C("B,5,4", -2, 2)}, "axis=-2", 0},
    {"argmin", "keep", {SL_C("B,7", -2, 2)}, "keep=1", 0},
    {"cumsum", "last", {SL_X("B,3,7")}, NULL, 0},
    {"cumsum", "middle", {SL_X("B,3,7")}, "axis=1", 0},
    {"cumsum", "exclusive", {SL_X("B,3,7")}, "axis=1 exclusive=1", 0},
    {"cumsum", "reverse", {SL_X("B,3,7")}, "exclusive=1 reverse=1", 0},
    {"flip", "some", {SL_X("B,3,5")}, "axes=1", 0},
    {"flip", "both", {SL_X("B,3,5")}, "axes=-1,1", 0},
    {"gather", "last", {SL_X("B,3,7"), SL_I("B,3,4", 7)}, "axis=2", 0},
    {"gather", "middle", {SL_X("B,5,3"), SL_I("B,8,3", 5)}, "axis=1", 0},
    {"gather", "param", {SL_W("5,3"), SL_I("2,3", 5)}, NULL, 0},
    {"gather", "negative", {SL_X("B,5"), SL_IM("B,6", 5, -1)}, "axis=-1", 0},
    {"index_select", "rows", {SL_W("7,3"), SL_I("B,5", 7)}, NULL, 0},
    {"index_select", "middle", {SL_X("B,5,3"), SL_I("4,2", 5)}, "axis=1", 0},
    {"index_select", "negative", {SL_X("B,5"), SL_IM("7", 5, -2)}, "axis=-1", 0},
    {"index_select", "scalar", {SL_X("B,5,3"), SL_I("", 5)}, "axis=1", 0},
    {"one_hot", "plain", {SL_IM("B,3", 5, -1)}, "size=5", 0},
    {"pad", "constant", {SL_X("B,3,5")}, "before=0,1,2 after=0,0,3 value=0.7", 0},
    {"pad", "reflect", {SL_X("B,3,5")}, "before=0,2,1 after=0,1,4 mode=reflect", 0},
    {"pad", "edge", {SL_X("B,3,5")}, "before=0,2,0 after=0,0,3 mode=edge", 0},
    {"pad", "first", {SL_W("3,5")}, "before=2,0 after=1,0 mode=reflect", 0},
    {"roll", "one", {SL_X("B,3,5")}, "shift=2 axes=2", 0},
    {"roll", "two", {SL_X("B,3,5,2")}, "shift=-1,8 axes=1,2", 0},
    {"scatter_add", "last", {SL_X("B,3,5"), SL_I("B,3,8", 5), SL_X("B,3,8")}, "axis=2", 0},
    {"scatter_add", "first", {SL_W("5,3"), SL_I("7,3", 5), SL_W("7,3")}, NULL, 0},
    {"topk", "last", {SL_X("B,3,7")}, "k=3", 0},
    {"topk", "smallest", {SL_X("B,7,3")}, "k=2 axis=1 largest=0", 0},
    {"topk", "many", {SL_X("B,83")}, "k=70", 0},
};

static const struct sl_op_error errors[] = {
    {"argmax", {SL_C("B,5", 0, 1)}, "axis=2", {"axis 2", "rank 2"}},
    {"cumsum", {SL_X("B,5")}, "axis=0", {"[B,5]", "micro-batch"}},
    {"flip", {SL_X("B,5")}, "axes=0", {"[B,5]", "micro-batch"}},
    {"gather", {SL_X("B,3,7"), SL_I("B,2,4", 7)}, "axis=2", {"[B,3,7]", "[B,2,4]"}},
    {"gather", {SL_X("B,3"), SL_I("B,3,4", 3)}, "axis=1", {"[B,3]", "[B,3,4]"}},
    {"index_select", {SL_X("B,3"), SL_I("B,4", 3)}, "axis=1", {"[B,3]", "B twice"}},
    {"index_select", {SL_X("B,3,2,2"), SL_I("4,1,1,2", 3)}, "axis=1", {"[B,3,2,2]", "too many"}},
    {"index_select", {SL_X("B,3"), SL_I("4", 3)}, "axis=0", {"[B,3]", "micro-batch"}},
    {"one_hot", {SL_I("B,3", 4)}, "size=0", {"[B,3]", "size 0"}},
    {"pad", {SL_X("B,5")}, "before=1 after=1", {"[B,5]", "1 amounts"}},
    {"pad", {SL_X("B,5")}, "before=0,5 after=0,0 mode=reflect", {"[B,5]", "axis 1"}},
    {"pad", {SL_X("B,5")}, "before=1,0 after=0,0", {"[B,5]", "axis 0"}},
    {"pad", {SL_X("B,5")}, "before=0,-1 after=0,0", {"[B,5]", "-1"}},
    {"roll", {SL_X("B,5")}, "shift=1,2 axes=1", {"2 shifts", "[B,5]"}},
    {"scatter_add", {SL_X("B,5"), SL_I("B,3", 5), SL_X("B,4")}, "axis=1", {"[B,3]", "[B,4]"}},
    {"topk", {SL_X("B,5")}, "k=6", {"k = 6", "[B,5]"}},
    {"topk", {SL_X("B,5")}, "k=1 axis=0", {"[B,5]", "micro-batch"}},
};

extern const struct sl_op_group sl_op_cases_index;
const struct sl_op_group sl_op_cases_index = {
    "index", cases, SL_COUNT(cases), errors, SL_COUNT(errors),
};
