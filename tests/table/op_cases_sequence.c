/* Cases of the ops over sequences: attention, rotary positions, lstm. */
#include "op_cases.h"

#define QKV(q_, k_)                                                                                \
    { SL_X(q_), SL_X(k_), SL_X(k_) }
#define QKVM(q_, k_, mask_)                                                                        \
    { SL_X(q_), SL_X(k_), SL_X(k_), SL_I(mask_, 2) }

static const struct sl_op_case cases[] = {
    {"attention", "plain", QKV("B,5,2,3", "B,5,2,3"), NULL, 0},
    {"attention", "causal", QKV("B,5,2,3", "B,5,2,3"), "causal=1", 0},
    {"attention", "cross", QKV("B,3,2,5", "B,7,2,5"), "scale=0.7", 0},
    {"attention", "causal_long", QKV("B,3,2,5", "B,7,2,5"), "causal=1", 0},
    {"attention", "causal_short", QKV("B,7,1,5", "B,3,1,5"), "causal=1 scale=-0.3", 0},
    {"attention", "grouped", QKV("B,5,6,3", "B,5,2,3"), "causal=1", 0},
    {"attention", "one_key_head", QKV("B,3,3,2", "B,5,1,2"), NULL, 0},
    {"attention", "mask", QKVM("B,3,2,5", "B,7,2,5", "B,7"), NULL, 0},
    {"attention", "mask_causal", QKVM("B,5,4,3", "B,7,2,3", "B,7"), "causal=1 scale=0.4", 0},
    /* One key per sample: if it is padding, no query of the sample sees a key. */
    {"attention", "mask_all", QKVM("B*5,2,1,3", "B*5,1,1,3", "B*5,1"), NULL, 0},
    {"lstm", "plain", {SL_X("B,5,3"), SL_W("8,3"), SL_W("8,2")}, NULL, 0},
    {"lstm", "bias", {SL_X("B,3,2"), SL_W("12,2"), SL_W("12,3"), SL_W("12"), SL_W("12")}, NULL, 0},
    {"lstm",
     "state",
     {SL_X("B,3,5"), SL_W("8,5"), SL_W("8,2"), SL_W("8"), SL_W("8"), SL_X("B,2"), SL_X("B,2")},
     NULL,
     0},
    {"lstm",
     "cells",
     {SL_X("B,3,5"), SL_W("8,5"), SL_W("8,2"), SL_ABSENT, SL_ABSENT, SL_X("B,2"), SL_X("B,2")},
     NULL,
     2},
    {"lstm",
     "cell_state",
     {SL_X("B,4,1"), SL_W("4,1"), SL_W("4,1"), SL_ABSENT, SL_W("4"), SL_ABSENT, SL_X("B,1")},
     NULL,
     0},
    {"lstm", "one_step", {SL_X("B,1,3"), SL_W("8,3"), SL_W("8,2"), SL_W("8")}, NULL, 0},
    {"rope", "plain", {SL_X("B,5,3,4")}, NULL, 0},
    {"rope", "interleaved", {SL_X("B,5,3,6")}, "style=interleaved base=50", 0},
    {"rope", "shifted", {SL_X("B,3,2,6")}, "offset=11 scale=0.25", 0},
    {"rope", "inverse", {SL_X("B,3,2,6")}, "inverse=1 base=7 offset=3", 0},
    {"rope",
     "by_frequency",
     {SL_X("B,3,2,10")},
     "base=7 scale=0.25 ramp=frequency low=0.21 high=0.87",
     0},
    {"rope", "by_index", {SL_X("B,3,2,10")}, "base=7 scale=0.25 ramp=index low=3 high=1", 0},
};

static const struct sl_op_error errors[] = {
    {"attention", QKV("B,5,6", "B,5,6"), NULL, {"[B,T,Hq,D]", "[B,5,6]"}},
    {"attention", QKV("B,5,3,4", "B,5,2,4"), NULL, {"[B,5,3,4]", "[B,5,2,4]"}},
    {"attention", QKV("B,5,2,4", "B,5,2,3"), NULL, {"[B,5,2,4]", "[B,5,2,3]"}},
    {"attention", QKV("B,5,2,4", "3,5,2,4"), NULL, {"[B,5,2,4]", "[3,5,2,4]"}},
    {"attention", QKV("5,B,2,4", "5,B,2,4"), NULL, {"[B,T,Hq,D]", "[5,B,2,4]"}},
    {"attention",
     {SL_X("B,5,2,4"), SL_X("B,5,2,4"), SL_X("B,7,2,4")},
     NULL,
     {"[B,5,2,4]", "[B,7,2,4]"}},
    {"attention", QKVM("B,5,2,4", "B,7,2,4", "B,5"), NULL, {"[B,5]", "[B,7,2,4]"}},
    {"lstm", {SL_X("B,5"), SL_W("8,5"), SL_W("8,2")}, NULL, {"[B,T,I]", "[B,5]"}},
    {"lstm", {SL_X("B,5,3"), SL_W("8,2"), SL_W("8,2")}, NULL, {"[8,3]", "[8,2]"}},
    {"lstm", {SL_X("B,5,3"), SL_W("8,3"), SL_W("9,2")}, NULL, {"[8,2]", "[9,2]"}},
    {"lstm", {SL_X("B,5,3"), SL_W("8,3"), SL_W("8,2"), SL_W("2")}, NULL, {"[8]", "[2]"}},
    {"lstm",
     {SL_X("B,5,3"), SL_W("8,3"), SL_W("8,2"), SL_ABSENT, SL_ABSENT, SL_X("3,2")},
     NULL,
     {"[B,2]", "[3,2]"}},
    {"rope", {SL_X("B,5,3,3")}, NULL, {"even", "[B,5,3,3]"}},
    {"rope", {SL_X("B,5,4")}, NULL, {"[B,T,H,D]", "[B,5,4]"}},
    {"rope", {SL_X("B,5,3,4")}, "ramp=index low=1 high=1", {"'low'", "'high'"}},
    {"rope", {SL_X("B,5,3,4")}, "base=0", {"'base'", "positive"}},
    {"rope",
     {SL_X("B,5,3,4")},
     "offset=-9223372036854775807",
     {"'offset'", "-9223372036854775807"}},
};

const struct sl_op_group sl_op_cases_sequence = {
    .name = "sequence",
    .cases = cases,
    .case_count = SL_COUNT(cases),
    .errors = errors,
    .error_count = SL_COUNT(errors),
};
