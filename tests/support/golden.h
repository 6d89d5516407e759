/*
 * Texts beside the files in tests/golden that have them byte for byte. Include test.h first, with TEST_OWN_MAIN.
 * `bin/unit_NAME --update` writes the files anew: read the difference before you commit it.
 */
#ifndef CUFENCE_TESTS_GOLDEN_H
#define CUFENCE_TESTS_GOLDEN_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GOLDEN CUFENCE_FIXTURES "/../golden/"

static int golden_is_update;

/* Returns the whole file, which the caller frees; NULL if there is none. */
static inline char *golden_read(const char *path)
{
    FILE *file = fopen(path, "re");
    char *text = NULL;
    size_t size = 0;
    if (!file)
        return NULL;
    if (getdelim(&text, &size, '\0', file) < 0)
        *text = '\0';
    fclose(file);
    return text;
}

static inline void golden_check(const char *path, const char *text)
{
    char *known = golden_read(path);
    if (golden_is_update && (!known || strcmp(known, text) != 0)) {
        FILE *file = fopen(path, "we");
        assert_non_null(file);
        fputs(text, file);
        assert_int_equal(fclose(file), 0);
        printf("written: %s\n", path);
    } else if (!known) {
        fail_msg("there is no %s: --update", path);
    } else if (strcmp(known, text) != 0) {
        size_t same = 0;
        while (known[same] == text[same])
            same++;
        fail_msg("%s has\n...%.300s\ninstead of\n...%.300s", path, known + same, text + same);
    }
    free(known);
}

int main(int argc, char **argv)
{
    golden_is_update = argc > 1 && strcmp(argv[1], "--update") == 0;
    return test_run(golden_is_update ? 1 : argc, argv);
}

#endif
