/*
 * What the tests of `cufence replay` share: making a bundle with the stories of second_launch.h, and replaying it. Include it
 * once.
 */
#ifndef CUFENCE_TESTS_REPLAYED_H
#define CUFENCE_TESTS_REPLAYED_H

#include "second_launch.h"

#include <dirent.h>

static char folder[64], bundle[128]; /* of this test, and in it */

static inline int find_bundle(void)
{
    DIR *open = opendir(folder);
    int count = 0;
    for (struct dirent *entry; open && (entry = readdir(open)) != NULL;)
        if (!strncmp(entry->d_name, "fault-", 6)) {
            snprintf(bundle, sizeof bundle, "%s/%.40s", folder, entry->d_name);
            count++;
        }
    if (open)
        closedir(open);
    return count;
}

/* Makes a bundle in a new folder. The caller frees what the program said. */
static inline char *make_bundle(void (*story)(void))
{
    snprintf(folder, sizeof folder, "/tmp/cufence-replay-XXXXXX");
    assert_non_null(mkdtemp(folder));
    struct outcome outcome = run_child(story);
    int status = outcome.status, count = find_bundle();
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 86 || count != 1)
        fprintf(stderr, "status 0x%x, %d bundles:\n%s\n", (unsigned)status, count, outcome.err);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 86);
    return outcome.err;
}

static inline void run_shell(const char *format, ...) __attribute__((format(printf, 1, 2)));
static inline void run_shell(const char *format, ...)
{
    char command[1024];
    va_list list;
    va_start(list, format);
    vsnprintf(command, sizeof command, format, list);
    va_end(list);
    assert_int_equal(system(command), 0);
}

static inline void clean(void)
{
    run_shell("rm -rf '%s'", folder);
}

static char said[65536]; /* by the last replay, on both outputs */

/* Returns the exit status. */
static inline int replay(const char *arguments)
{
    char command[1024];
    snprintf(command, sizeof command, "%s replay %s %s 2>&1", CUFENCE_CLI, arguments, bundle);
    FILE *out = popen(command, "r");
    assert_non_null(out);
    said[fread(said, 1, sizeof said - 1, out)] = '\0';
    int status = pclose(out);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static inline void expect_replay(const char *arguments, int status, const char *pattern)
{
    int got = replay(arguments);
    if (got != status || !has(said, pattern))
        fprintf(stderr, "replay %s: status %d, not %d, or not found: %s\n%s\n", arguments, got, status, pattern, said);
    assert_int_equal(got, status);
    assert_true(has(said, pattern));
}

static inline void write_array(const char *name, const char *type, int elements, int bytes, int first)
{
    char header[128];
    int length = snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (%d,), }", type, elements);
    FILE *file = fopen(name, "we");
    assert_non_null(file);
    fwrite("\x93NUMPY\1\0\x76\0", 1, 10, file);
    fprintf(file, "%-117s\n", header);
    assert_true(length < 117);
    for (int i = 0; i < bytes; i++)
        fputc(i < 4 ? first >> 8 * i & 255 : 0, file);
    fclose(file);
}

#endif
