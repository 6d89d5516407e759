/* A folder for the files of a file's cases: TEST_GROUP(make_folder, remove_folder). */
#pragma once

#include "support/test.h"

static char folder[] = "/tmp/cufence-test-XXXXXX";

static inline int make_folder(void **state)
{
    return mkdtemp(folder) ? 0 : -1;
}

static inline int remove_folder(void **state)
{
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

/* The path of a name in it, which is good until the fourth one after it. */
static inline const char *in_folder(const char *name)
{
    static char paths[4][128];
    static unsigned turn;
    char *path = paths[turn++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static inline const char *put_file(const char *name, const void *bytes, size_t size)
{
    const char *path = in_folder(name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
    return path;
}

static inline const char *put_text(const char *name, const char *text)
{
    return put_file(name, text, strlen(text));
}
