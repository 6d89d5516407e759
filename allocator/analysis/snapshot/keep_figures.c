#include "keep_figures.h"

#include <stdlib.h>
#include <string.h>

/* A type's figures are an array in this order: minimum, maximum, mean, fit; finite values, zeros, NaN, infinities. */
#define REALS 4
#define NUMBERS 8

static json_t *put_type(const struct type_figures *figures)
{
    const double reals[REALS] = {figures->min, figures->max, figures->mean, figures->fit};
    const uint64_t counts[NUMBERS - REALS] = {figures->finite, figures->zeros, figures->nans, figures->infinities};
    json_t *array = json_array();
    for (size_t i = 0; i < REALS; i++)
        json_array_append_new(array, json_real(reals[i]));
    for (size_t i = 0; i < NUMBERS - REALS; i++)
        json_array_append_new(array, json_integer((json_int_t)counts[i]));
    return array;
}

static json_t *put_range(const struct figures *figures)
{
    char address[32], first[2 * sizeof figures->first + 1];
    json_t *object = json_object(), *types = json_object();
    snprintf(address, sizeof address, "0x%llx", (unsigned long long)figures->address);
    for (size_t i = 0; i < sizeof figures->first; i++)
        snprintf(first + 2 * i, 3, "%02x", figures->first[i]);
    json_object_set_new(object, "address", json_string(address));
    json_object_set_new(object, "bytes", json_integer((json_int_t)figures->bytes));
    json_object_set_new(object, "seen", json_integer((json_int_t)figures->seen));
    json_object_set_new(object, "first", json_string(first));
    for (enum value_type type = 0; type < VALUE_GUESSED; type++)
        json_object_set_new(types, value_name(type), put_type(&figures->types[type]));
    json_object_set_new(object, "types", types);
    return object;
}

json_t *figures_put(const struct rerun_result *rerun)
{
    json_t *array = json_array();
    for (size_t i = 0; i < rerun->figure_count; i++)
        json_array_append_new(array, put_range(&rerun->figures[i]));
    return array;
}

/* ---- reading ---- */

static uint64_t count_at(const json_t *array, size_t index)
{
    return (uint64_t)json_integer_value(json_array_get(array, index));
}

static struct type_figures take_type(const json_t *array)
{
    return (struct type_figures){.min = json_real_value(json_array_get(array, 0)),
                                 .max = json_real_value(json_array_get(array, 1)),
                                 .mean = json_real_value(json_array_get(array, 2)),
                                 .fit = json_real_value(json_array_get(array, 3)),
                                 .finite = count_at(array, 4),
                                 .zeros = count_at(array, 5),
                                 .nans = count_at(array, 6),
                                 .infinities = count_at(array, 7)};
}

static void take_first(const char *text, uint8_t first[], size_t size)
{
    for (size_t i = 0; i < size && text[2 * i] && text[2 * i + 1]; i++) {
        const char byte[] = {text[2 * i], text[2 * i + 1], '\0'};
        first[i] = (uint8_t)strtoul(byte, NULL, 16);
    }
}

static void take_range(const json_t *object, struct figures *figures)
{
    const char *address = json_string_value(json_object_get(object, "address"));
    const char *first = json_string_value(json_object_get(object, "first"));
    *figures = (struct figures){.address = address ? strtoull(address, NULL, 16) : 0,
                                .bytes = (uint64_t)json_integer_value(json_object_get(object, "bytes")),
                                .seen = (uint64_t)json_integer_value(json_object_get(object, "seen"))};
    take_first(first ? first : "", figures->first, sizeof figures->first);
    for (enum value_type type = 0; type < VALUE_GUESSED; type++)
        figures->types[type] = take_type(json_object_get(json_object_get(object, "types"), value_name(type)));
}

void figures_read(const json_t *array, struct rerun_result *rerun)
{
    size_t most = sizeof rerun->figures / sizeof *rerun->figures;
    for (size_t i = 0; i < json_array_size(array) && i < most; i++)
        take_range(json_array_get(array, i), &rerun->figures[rerun->figure_count++]);
}
