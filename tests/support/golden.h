/*
 * Texts beside the files in tests/golden that have them byte for byte: of each text a line "#### NAME", the text, a newline, in
 * the order of the names. Include test.h first, with TEST_OWN_MAIN.
 * `bin/unit_NAME --update` writes the files anew: read the difference before you commit it.
 */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GOLDEN CUFENCE_FIXTURES "/../golden/"
#define GOLDEN_MARK "#### "

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

/* Returns where the text of this name starts in a file, with its mark, or would; `*end` is there too if there is none. */
static inline char *golden_find(char *whole, const char *name, char **end)
{
    char *at = whole;
    for (; *at; at = *end) {
        const char *title = at + strlen(GOLDEN_MARK);
        size_t letters = strcspn(title, "\n");
        int order = strncmp(title, name, letters);
        *end = strstr(at, "\n" GOLDEN_MARK);
        *end = *end ? *end + 1 : at + strlen(at);
        if (order == 0 && !name[letters])
            return at;
        if (order > 0)
            break;
    }
    return *end = at;
}

/* Without a name it is the whole file. */
static inline void golden_check(const char *path, const char *name, const char *text)
{
    char *whole = golden_read(path), *marked = NULL, *end;
    assert_non_null(whole);
    assert_true(asprintf(&marked, name ? GOLDEN_MARK "%s\n%s\n" : "%s%s", name ? name : "", text) > 0);
    char *start = name ? golden_find(whole, name, &end) : whole;
    size_t known = name ? (size_t)(end - start) : strlen(whole), same = 0;
    while (same < known && start[same] == marked[same])
        same++;
    if ((same < known || marked[same]) && golden_is_update) {
        FILE *file = fopen(path, "we");
        assert_non_null(file);
        fprintf(file, "%.*s%s%s", (int)(start - whole), whole, marked, start + known);
        assert_int_equal(fclose(file), 0);
        printf("written: %s of %s\n", name ? name : "all", path);
    } else if (!known) {
        fail_msg("there is no %s in %s: --update", name, path);
    } else if (same < known || marked[same]) {
        fail_msg("%s of %s has\n...%.300s\ninstead of\n...%.300s", name ? name : "all", path, start + same, marked + same);
    }
    free(marked);
    free(whole);
}

int main(int argc, char **argv)
{
    golden_is_update = argc > 1 && strcmp(argv[1], "--update") == 0;
    return test_run(golden_is_update ? 1 : argc, argv);
}
