/*
 * Runs values_story.c under `cufence run` in a folder of its own, on the simulated device.
 */
#ifndef VALUES_WORLD_H
#define VALUES_WORLD_H

#include "support/folder.h"
#include "child.h"

static char text[1 << 16];

static inline void read_file(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "r");
    text[0] = '\0';
    if (file) {
        text[fread(text, 1, sizeof text - 1, file)] = '\0';
        fclose(file);
    }
}

/* Runs stories of a program under `cufence run ARGUMENTS`; `text` gets what it prints. Returns the exit status. */
static inline int run_program(const char *program, const char *arguments, const char *stories)
{
    char command[2048];
    setenv("LD_LIBRARY_PATH", CUFENCE_RUN_DRIVER, 1); /* libcuda.so.1 is the simulated device there */
    snprintf(command, sizeof command, "cd %s && %s run %s -- %s %s >out 2>&1", folder, CUFENCE_CLI, arguments, program,
             stories);
    int status = system(command);
    read_file("out");
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static inline int run(const char *arguments, const char *stories)
{
    return run_program(CUFENCE_VALUES_STORY, arguments, stories);
}

static inline size_t count_in(const char *word)
{
    size_t count = 0;
    for (const char *at = text; (at = strstr(at, word)); at += strlen(word))
        count++;
    return count;
}

#define SAYS(word)                                                                                                             \
    do {                                                                                                                       \
        if (!strstr(text, word))                                                                                               \
            fail_msg("no '%s' in:\n%s", word, text);                                                                           \
    } while (0)
#define DOES_NOT_SAY(word)                                                                                                     \
    do {                                                                                                                       \
        if (strstr(text, word))                                                                                                \
            fail_msg("'%s' in:\n%s", word, text);                                                                              \
    } while (0)

#endif
