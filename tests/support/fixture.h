/* Files of tests/fixtures. Include test.h first. */
#pragma once

#include "base/reader.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* Reads on to a member of an archive (ustar) and returns its size; 0 if it is not in it. */
static inline size_t fixture_member(gzFile archive, const char *name)
{
    char header[512];
    while (gzread(archive, header, sizeof header) == sizeof header && *header) {
        size_t size = strtoul(header + 124, NULL, 8);
        if (strcmp(header, name) == 0)
            return size;
        gzseek(archive, (long)((size + 511) & ~511ul), SEEK_CUR);
    }
    return 0;
}

/* On the heap and to the byte, so that a sanitizer sees a read behind its end. NAME.core is of dumps.tar, cubins/NAME a member
 * of cubins/cubins.tar.gz. */
__attribute__((format(printf, 1, 2))) static inline struct span fixture_read(const char *format, ...)
{
    enum { ROOM = 8 << 20 };
    char name[128], path[512];
    uint8_t *bytes = malloc(ROOM);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(name, sizeof name, format, arguments);
    va_end(arguments);
    int is_cubin = strncmp(name, "cubins/", 7) == 0;
    snprintf(path, sizeof path, "%s/%s.gz", is_cubin ? CUFENCE_FIXTURES : CUFENCE_DUMPS, is_cubin ? "cubins/cubins.tar" : name);
    gzFile file = gzopen(path, "rb");
    assert_true(file && bytes);
    int size = gzread(file, bytes, is_cubin ? (unsigned)fixture_member(file, name + 7) : ROOM);
    gzclose(file);
    assert_true(size > 0);
    return (struct span){realloc(bytes, (size_t)size), (size_t)size};
}

static inline uint8_t *fixture_bytes(struct span file)
{
    return (uint8_t *)(uintptr_t)file.bytes;
}

static inline void fixture_free(struct span file)
{
    free(fixture_bytes(file));
}

/* The machine code of a kernel in kernels.sass, likewise. */
static inline struct span fixture_code(const char *name)
{
    char line[256], title[64];
    uint64_t *words = NULL;
    size_t count = 0;
    FILE *file = fopen(CUFENCE_FIXTURES "/kernels.sass", "re");
    assert_non_null(file);
    snprintf(title, sizeof title, "[%s]\n", name);
    do
        if (!fgets(line, sizeof line, file))
            fail_msg("no %s in kernels.sass", name);
    while (strcmp(line, title) != 0);
    for (uint64_t low, high; fgets(line, sizeof line, file) && sscanf(line, "%lx %lx", &low, &high) == 2; count += 2) {
        words = realloc(words, (count + 2) * sizeof *words);
        words[count] = low;
        words[count + 1] = high;
    }
    fclose(file);
    return (struct span){(const uint8_t *)words, count * sizeof *words};
}
