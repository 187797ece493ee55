/* A model from its text, differentiated; a wrong one fails the test. */
#ifndef SL_TEST_MODEL_TEXT_H
#define SL_TEST_MODEL_TEXT_H

#include "graph/graph.h"

struct sl_graph *model_of_text(const char *text);

#endif
