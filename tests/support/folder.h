/* A folder for the files of a file's cases: TEST_GROUP(make_folder, remove_folder). */
#ifndef CUFENCE_TESTS_FOLDER_H
#define CUFENCE_TESTS_FOLDER_H

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

#endif
