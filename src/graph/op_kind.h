/* Kinds of ops that other components distinguish; they are facts in an op's row. */
#ifndef SL_GRAPH_OP_KIND_H
#define SL_GRAPH_OP_KIND_H

/* Kinds of layers. An op and those of its gradients have the same kind. */
enum sl_layer_kind {
    SL_LAYER_NONE, /* cheap: elementwise, norms, shapes, losses */
    SL_LAYER_ATTENTION,
    SL_LAYER_CONV,
    SL_LAYER_LSTM,
    SL_LAYER_PRODUCT, /* a matrix product */
    SL_LAYER_EMBED,   /* a lookup of rows in a table */
    SL_LAYER_KINDS,
};

/* How an op can be sharded over tensor-parallel workers (shard/rules.c). "By an axis" means that
 * each shard has an equal part of this axis of an operand. */
enum sl_divide {
    SL_DIVIDE_NONE,      /* cannot be divided: every shard computes all of it */
    SL_DIVIDE_EACH,      /* elementwise with broadcasting: by any axis */
    SL_DIVIDE_ROWS,      /* by any axis of input 0 except the last */
    SL_DIVIDE_HEADS,     /* by axis 2 of [B,T,H,D] operands */
    SL_DIVIDE_PRODUCT,   /* by output column; or by input row, followed by a sum over shards */
    SL_DIVIDE_RESHAPE,   /* by an axis that the new shape also has, or merges or splits */
    SL_DIVIDE_TRANSPOSE, /* by any axis */
    SL_DIVIDE_SPLIT,     /* each output by the axis of the split, or by any other */
    SL_DIVIDE_TABLE,     /* by rows of the table, followed by a sum over shards */
    SL_DIVIDE_CLASSES,   /* a loss over classes: by class, followed by a sum over shards */
    SL_DIVIDE_RULES,
};

/* How an op joins branches of the model. */
enum sl_join { SL_JOIN_NONE, SL_JOIN_ADD, SL_JOIN_CONCAT };

#endif
