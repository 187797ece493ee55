/* Runs a fuzz target over files and directories of inputs, without libFuzzer: each corpus file is a
 * regression test. Usage: fuzz_x FILE|DIR... (a missing directory is empty). Exits with 77, skipped, if it
 * finds no file. */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path) {
    FILE *file = fopen(path, "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return -1;
    }
    long size = ftell(file);
    rewind(file);
    /* Exactly the size of the input, so that a sanitizer detects a read past its end. */
    uint8_t *data = size > 0 ? malloc((size_t)size) : NULL;
    if (size < 0 || (size > 0 && (data == NULL || fread(data, (size_t)size, 1, file) != 1))) {
        fprintf(stderr, "%s: cannot be read\n", path);
        free(data);
        fclose(file);
        return -1;
    }
    fclose(file);
    fprintf(stderr, "replay %s\n", path);
    (void)LLVMFuzzerTestOneInput(data, (size_t)size);
    free(data);
    return 1;
}

/* Returns the number of files replayed, -1 on an error. */
static int replay(const char *path) {
    struct stat st;
    if (stat(path, &st) != 0) {
        return errno == ENOENT ? 0 : -1;
    }
    if (!S_ISDIR(st.st_mode)) {
        return replay_file(path);
    }
    struct dirent **entries = NULL;
    int count = scandir(path, &entries, NULL, alphasort);
    int done = 0;
    for (int i = 0; i < count; i++) {
        char child[4096];
        int length = snprintf(child, sizeof child, "%s/%s", path, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.' && done >= 0) {
            int result = length < (int)sizeof child ? replay(child) : -1;
            done = result < 0 ? -1 : done + result;
        }
        free(entries[i]);
    }
    free(entries);
    return count < 0 ? -1 : done;
}

int main(int argc, char **argv) {
    int total = 0;
    (void)LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
    for (int i = 1; i < argc; i++) {
        int done = replay(argv[i]);
        if (done < 0) {
            return 1;
        }
        total += done;
    }
    printf("count: %d corpus files replayed\n", total);
    return argc > 1 && total == 0 ? 77 : 0; /* skipped: no corpus */
}
