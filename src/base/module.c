/* Modules: finds them, loads them and checks that they belong to this build. */
#include "base/module.h"

#include "base/text.h"

#include <dlfcn.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

/* Directories to search, relative to the program: of a build tree, its tests and an installed
 * tree. */
static const char *const places[] = {"", "../", "../lib/sluice/", "../lib64/sluice/",
                                     "../lib/x86_64-linux-gnu/sluice/"};

static void *open_beside(const char *directory, const char *file, struct sl_text *why) {
    for (int i = 0; i < SL_COUNT(places); i++) {
        struct sl_text path = {0};
        sl_text_printf(&path, "%s/%s%s", directory, places[i], file);
        bool there = access(path.at, R_OK) == 0;
        void *handle = there ? dlopen(path.at, RTLD_NOW | RTLD_GLOBAL) : NULL;
        if (there && !handle) {
            sl_text_free(why);
            *why = (struct sl_text){0};
            sl_text_put(why, dlerror());
        }
        sl_text_free(&path);
        if (handle)
            return handle;
    }
    return NULL;
}

/* Refuses a module of another build, because its structs may have another layout. */
static sl_err check_build(void *handle, const char *file, const void *symbol, const char *build) {
    const char *found = dlsym(handle, SL_MODULE_BUILD_SYMBOL);
    Dl_info info = {0};
    if (!build || (found && strcmp(found, build) == 0))
        return SL_OK;
    if (dladdr(symbol, &info) && info.dli_fname)
        file = info.dli_fname;
    return sl_fail(SL_ERR_SYSTEM,
                   "the module %s is of another build than this program; build or install both "
                   "together, and remove older copies",
                   file);
}

sl_err sl_module_load(const char *file, const char *symbol, const char *build, const void **out) {
    char self[PATH_MAX];
    struct sl_text why = {0};
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    void *handle = NULL;
    sl_err err = SL_OK;
    if (length > 0) {
        self[length] = 0;
        *strrchr(self, '/') = 0;
        handle = open_beside(self, file, &why);
    }
    if (!handle && !(handle = dlopen(file, RTLD_NOW | RTLD_GLOBAL)) && access(file, R_OK) == 0) {
        sl_text_free(&why);
        why = (struct sl_text){0};
        sl_text_put(&why, dlerror());
    }
    *out = handle ? dlsym(handle, symbol) : NULL;
    if (handle && !*out)
        err = sl_fail(SL_ERR_SYSTEM, "the module %s has no %s", file, symbol);
    else if (!*out)
        err = sl_fail(SL_ERR_SYSTEM, "cannot load the module %s: %s", file,
                      why.length ? why.at : "it was not built or not installed");
    else
        err = check_build(handle, file, *out, build);
    sl_text_free(&why);
    return err;
}
