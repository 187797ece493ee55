/* Pictures in folders of classes. Private to data/. */
#ifndef SL_DATA_FOLDER_H
#define SL_DATA_FOLDER_H

#include "data/source.h"

struct sl_data_picture {
    const char *path; /* below the root */
    int32_t label;    /* index of its class */
};

struct sl_folder {
    const char *root, **name; /* classes, sorted by bytes */
    int64_t classes, count;
    struct sl_data_picture *picture; /* by class, folder and name */
};

/* Lists ROOT/CLASS/.../X.jpg, .jpeg, .png; in the arena of the set. */
SL_MUST_CHECK sl_err sl_data_folder_list(struct sl_data *data, const char *root,
                                         struct sl_folder *out);

#endif
