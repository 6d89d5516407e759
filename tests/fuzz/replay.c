/*
 * Feeds each file of the given files and folders to a fuzz target's LLVMFuzzerTestOneInput(), so that a corpus is a test in
 * every build. A missing path, or a folder without files, is an error, so that a moved corpus doesn't pass unnoticed.
 */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int fail(const char *path, const char *why)
{
    fprintf(stderr, "replay: %s: %s\n", path, why);
    return -1;
}

static int feed_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return fail(path, strerror(errno));
    uint8_t *bytes = NULL;
    size_t size = 0, room = 0;
    for (;;) {
        if (size == room) {
            room = room ? room * 2 : (size_t)1 << 16;
            uint8_t *more = realloc(bytes, room);
            if (!more)
                break;
            bytes = more;
        }
        size_t got = fread(bytes + size, 1, room - size, file);
        if (got == 0)
            break;
        size += got;
    }
    int is_good = !ferror(file) && size < room;
    fclose(file);
    /* A block of exactly the input's size, so that the sanitizers detect reads past its end. */
    uint8_t *exact = is_good ? malloc(size ? size : 1) : NULL;
    if (exact) {
        if (size)
            memcpy(exact, bytes, size);
        LLVMFuzzerTestOneInput(exact, size);
    }
    free(exact);
    free(bytes);
    return exact ? 1 : fail(path, "cannot be read");
}

/* Returns the number of files fed, -1 on an error. */
static int feed(const char *path)
{
    struct stat status;
    if (stat(path, &status) != 0)
        return fail(path, strerror(errno));
    if (!S_ISDIR(status.st_mode))
        return feed_file(path);
    DIR *folder = opendir(path);
    if (!folder)
        return fail(path, strerror(errno));
    int count = 0;
    for (struct dirent *entry = readdir(folder); entry && count >= 0; entry = readdir(folder)) {
        char inner[4096];
        if (entry->d_name[0] == '.')
            continue;
        if (snprintf(inner, sizeof(inner), "%s/%s", path, entry->d_name) >= (int)sizeof(inner)) {
            count = fail(path, "its files' names are too long");
            break;
        }
        int fed = feed(inner);
        count = fed < 0 ? -1 : count + fed;
    }
    closedir(folder);
    return count == 0 ? fail(path, "no file in it") : count;
}

int main(int argc, char **argv)
{
    int total = 0;
    if (argc < 2)
        return fail("usage", "replay FILE-OR-FOLDER...") ? 2 : 0;
    for (int i = 1; i < argc; i++) {
        int fed = feed(argv[i]);
        if (fed < 0)
            return 1;
        total += fed;
    }
    printf("replay: %d inputs\n", total);
    return 0;
}
