#include "json_figures.h"

#include "figures.h"

#define EXACT_LIMIT 0x1p53 /* a double has all integers up to this */

static json_t *number_to_json(enum value_type type, double value)
{
    if (!value_is_float(type) && value < EXACT_LIMIT && value > -EXACT_LIMIT)
        return json_integer((json_int_t)value);
    return real_to_json(value);
}

void json_put_figures(struct members to, const struct value_fact *value)
{
    if (!value->figures)
        return;
    const struct type_figures *figures = &value->figures->types[value->type];
    struct members made = put_object(to, "figures");
    put_text(made, "type", value_name(value->type));
    put_true(made, "is_guess", value->is_guess);
    put_number(made, "count", value->figures->bytes / value_width(value->type));
    put_number(made, "of_bytes", value->figures->seen);
    if (figures->finite) {
        put(made, "min", number_to_json(value->type, figures->min));
        put(made, "max", number_to_json(value->type, figures->max));
        put(made, "mean", real_to_json(figures->mean));
    }
    put_number(made, "zeros", figures->zeros);
    if (value_is_float(value->type)) {
        put_number(made, "nan", figures->nans);
        put_number(made, "inf", figures->infinities);
    }
    json_t *first = json_array();
    for (size_t i = 0; i < figures_first_count(value); i++)
        append(first, number_to_json(value->type, value_of_bits(value->type, figures_bits(value, i))), to.has_failed);
    put(made, "first", first);
}
