/* SPDX-License-Identifier: Apache-2.0
 * Gives a fuzzer a main that runs it over every file of one corpus folder, so that any compiler replays what was once found.
 * An empty or missing folder is a failure: a replay that tests nothing must not look green. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    long size;
    if (!file || fseek(file, 0, SEEK_END) != 0 || (size = ftell(file)) < 0) {
        perror(path);
        if (file)
            fclose(file);
        return -1;
    }
    rewind(file);
    /* An allocation of exactly this size, so that a sanitizer sees the first byte read too far. */
    uint8_t *data = malloc(size ? (size_t)size : 1);
    size_t got = data ? fread(data, 1, (size_t)size, file) : 0;
    fclose(file);
    if (got == (size_t)size)
        LLVMFuzzerTestOneInput(data, got);
    free(data);
    return got == (size_t)size ? 0 : -1;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s CORPUS_FOLDER\n", argv[0]);
        return 2;
    }
    DIR *folder = opendir(argv[1]);
    if (!folder) {
        perror(argv[1]);
        return 1;
    }
    int files = 0, failures = 0;
    struct dirent *entry;
    while ((entry = readdir(folder)) != NULL) {
        char path[4096];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof(path), "%s/%s", argv[1], entry->d_name);
        files++;
        failures += replay_file(path) != 0;
    }
    closedir(folder);
    printf("%d inputs replayed, %d unreadable\n", files, failures);
    return files > 0 && failures == 0 ? 0 : 1;
}
