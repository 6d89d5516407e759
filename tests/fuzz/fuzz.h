/* How a target is defined, and how it complains. */
#pragma once

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* A target, whose corpus is corpus/NAME.tar. */
#define FUZZ(name)                                                                                                             \
    int fuzz_##name(const uint8_t *data, size_t size);                                                                         \
    int fuzz_##name(const uint8_t *data, size_t size)

static inline void require(int condition)
{
    if (!condition)
        abort();
}

/* The input as a string, which the target frees. */
static inline char *text_of(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    require(text != NULL);
    if (size)
        memcpy(text, data, size);
    text[size] = '\0';
    return text;
}
