/*
 * replay TARGET FILE...: feeds files to a fuzz target, so that a corpus is a test in every build. A corpus is a tar archive
 * (NAME.tar), each file of which is an input; any other file is one input. An archive without a file is an error, so that an
 * emptied corpus doesn't pass unnoticed.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* A header of the format ustar: the size of the file behind it in octal, and padding up to the next block. */
enum { BLOCK = 512, SIZE_AT = 124, SIZE_DIGITS = 11, KIND_AT = 156, MAGIC_AT = 257 };

static uint8_t *read_file(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    uint8_t *bytes = NULL;
    size_t room = 0;
    *size = 0;
    while (file && *size == room) {
        uint8_t *more = realloc(bytes, room += (size_t)1 << 20);
        if (!more)
            abort();
        bytes = more;
        *size += fread(bytes + *size, 1, room - *size, file);
    }
    if (!file || ferror(file))
        perror(path);
    if (file)
        fclose(file);
    return bytes;
}

/* In a block of exactly the input's size, so that the sanitizers detect reads past its end. */
static void feed(target_function *target, const uint8_t *bytes, size_t size)
{
    uint8_t *exact = malloc(size ? size : 1);
    if (!exact)
        abort();
    if (size)
        memcpy(exact, bytes, size);
    target(exact, size);
    free(exact);
}

/* Returns the number of inputs, 0 if it is no archive or ends too early. */
static int feed_archive(target_function *target, const uint8_t *bytes, size_t size)
{
    int count = 0;
    size_t at = 0;
    while (at + BLOCK <= size && bytes[at] != 0) {
        char digits[SIZE_DIGITS + 1] = {0};
        if (memcmp(bytes + at + MAGIC_AT, "ustar", 5) != 0)
            return 0;
        memcpy(digits, bytes + at + SIZE_AT, SIZE_DIGITS);
        size_t length = strtoul(digits, NULL, 8);
        if (length > size - at - BLOCK)
            return 0;
        if (bytes[at + KIND_AT] == '0') {
            feed(target, bytes + at + BLOCK, length);
            count++;
        }
        at += BLOCK + (length + BLOCK - 1) / BLOCK * BLOCK;
    }
    return at + BLOCK <= size ? count : 0; /* a block of zeros ends it */
}

static int feed_file(target_function *target, const char *path)
{
    size_t size, length = strlen(path);
    uint8_t *bytes = read_file(path, &size);
    int count = 0;
    if (bytes && length > 4 && strcmp(path + length - 4, ".tar") == 0) {
        count = feed_archive(target, bytes, size);
    } else if (bytes) {
        feed(target, bytes, size);
        count = 1;
    }
    free(bytes);
    if (count == 0)
        fprintf(stderr, "replay: %s: no archive with an input, and no other file\n", path);
    return count;
}

int main(int argc, char **argv)
{
    int total = 0;
    for (size_t i = 0; argc > 2 && i < sizeof targets / sizeof *targets; i++) {
        if (strcmp(targets[i].name, argv[1]) != 0)
            continue;
        for (int file = 2; file < argc; file++) {
            int count = feed_file(targets[i].feed, argv[file]);
            if (count == 0)
                return 1;
            total += count;
        }
        printf("replay: %d inputs\n", total);
        return 0;
    }
    fprintf(stderr, "usage: replay TARGET FILE...\n");
    return 2;
}
