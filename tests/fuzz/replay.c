/*
 * replay TARGET PATH...: feeds files, and those of folders, to a fuzz target, so that a corpus is a test in every build. A path
 * without an input is an error, so that an emptied corpus doesn't pass unnoticed.
 */
#include <fts.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef int target_function(const uint8_t *data, size_t size);

#define TARGET(name) target_function fuzz_##name;
#include "targets.def"
#undef TARGET

static const struct {
    const char *name;
    target_function *feed;
} targets[] = {
#define TARGET(name) {#name, fuzz_##name},
#include "targets.def"
#undef TARGET
};

/* In a block of exactly the input's size, so that the sanitizers detect reads past its end. Returns 0 if it cannot be read. */
static int feed(target_function *target, const char *path, size_t size)
{
    FILE *file = fopen(path, "rb");
    uint8_t *exact = malloc(size ? size : 1);
    int is_read = file && exact && fread(exact, 1, size, file) == size;
    if (is_read)
        target(exact, size);
    else
        perror(path);
    if (file)
        fclose(file);
    free(exact);
    return is_read;
}

int main(int argc, char **argv)
{
    int total = 0;
    for (size_t i = 0; argc > 2 && i < sizeof targets / sizeof *targets; i++) {
        if (strcmp(targets[i].name, argv[1]) != 0)
            continue;
        for (int k = 2; k < argc; k++) {
            int before = total;
            FTS *files = fts_open((char *[]){argv[k], NULL}, FTS_LOGICAL | FTS_NOCHDIR, NULL);
            for (FTSENT *entry; files && (entry = fts_read(files)) != NULL;)
                total += entry->fts_info == FTS_F && feed(targets[i].feed, entry->fts_path, (size_t)entry->fts_statp->st_size);
            fts_close(files);
            if (total == before) {
                fprintf(stderr, "replay: %s: no input\n", argv[k]);
                return 1;
            }
        }
        printf("replay: %d inputs\n", total);
        return 0;
    }
    fprintf(stderr, "usage: replay TARGET PATH...\n");
    return 2;
}
