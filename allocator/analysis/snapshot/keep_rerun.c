#include "fields.h"

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))
#define REALS 4 /* of the figures of a type, in front of four counts */

/* ---- writing ---- */

static json_t *put_emulated(const struct rerun_result *rerun)
{
    json_t *lanes = json_array();
    const uint32_t *block = rerun->emulated_block;
    for (size_t i = 0; i < rerun->emulated_count; i++) {
        json_t *lane = record_to_json(&kept_lane, &rerun->emulated[i]);
        json_object_set_new(lane, "address", json_integer((json_int_t)rerun->emulated[i].address));
        json_array_append_new(lanes, lane);
    }
    return json_pack("{s[III]so}", "block", (json_int_t)block[0], (json_int_t)block[1], (json_int_t)block[2], "lanes", lanes);
}

static json_t *put_type(const struct type_figures *of)
{
    return json_pack("[ffffIIII]", of->min, of->max, of->mean, of->fit, (json_int_t)of->finite, (json_int_t)of->zeros,
                     (json_int_t)of->nans, (json_int_t)of->infinities);
}

static json_t *put_figures(const struct rerun_result *rerun)
{
    json_t *array = json_array();
    for (size_t i = 0; i < rerun->figure_count; i++) {
        json_t *object = record_to_json(&kept_figures, &rerun->figures[i]), *types = json_object();
        for (enum value_type type = 0; type < VALUE_GUESSED; type++)
            json_object_set_new(types, value_name(type), put_type(&rerun->figures[i].types[type]));
        json_object_set_new(object, "types", types);
        json_array_append_new(array, object);
    }
    return array;
}

json_t *rerun_result_put(const struct rerun_result *rerun, const struct fault_memory *memory)
{
    struct kept_rerun kept = {.result = *rerun, .write_count = rerun->write_count};
    for (size_t i = 0; i < memory->launch_count; i++) {
        if (rerun->launch != &memory->launches[i])
            continue;
        kept.has_launch = 1;
        kept.launch = i;
    }
    for (size_t i = 0; i < rerun->write_count; i++)
        kept.writes[i] = (struct kept_write){rerun->writes[i].buffer ? rerun->writes[i].buffer->id : 0, rerun->writes[i]};
    json_t *object = record_to_json(&kept_rerun, &kept);
    if (rerun->emulated_count)
        json_object_set_new(object, "emulated", put_emulated(rerun));
    if (rerun->figure_count)
        json_object_set_new(object, "figures", put_figures(rerun));
    return object;
}

/* ---- reading ---- */

static void take_emulated(const json_t *object, struct rerun_result *rerun)
{
    const json_t *lanes = json_object_get(object, "lanes"), *block = json_object_get(object, "block");
    struct record_memory none = {NULL};
    struct problem ignored;
    for (size_t i = 0; i < 3; i++)
        rerun->emulated_block[i] = (uint32_t)json_integer_value(json_array_get(block, i));
    for (size_t i = 0; i < json_array_size(lanes) && i < COUNT_OF(rerun->emulated); i++) {
        const json_t *from = json_array_get(lanes, i);
        struct evidence_lane *lane = &rerun->emulated[rerun->emulated_count++];
        record_from_json(&kept_lane, from, lane, &none, &ignored);
        lane->address = (uint64_t)json_integer_value(json_object_get(from, "address"));
        lane->certainty = CERTAIN_DERIVED;
        lane->is_replayed = 1;
    }
}

static void take_type(const json_t *array, struct type_figures *of)
{
    double *const reals[REALS] = {&of->min, &of->max, &of->mean, &of->fit};
    uint64_t *const counts[] = {&of->finite, &of->zeros, &of->nans, &of->infinities};
    for (size_t i = 0; i < REALS; i++)
        *reals[i] = json_real_value(json_array_get(array, i));
    for (size_t i = 0; i < COUNT_OF(counts); i++)
        *counts[i] = (uint64_t)json_integer_value(json_array_get(array, REALS + i));
}

static void take_figures(const json_t *array, struct rerun_result *rerun)
{
    struct record_memory none = {NULL};
    struct problem ignored;
    for (size_t i = 0; i < json_array_size(array) && i < COUNT_OF(rerun->figures); i++) {
        const json_t *from = json_array_get(array, i), *types = json_object_get(from, "types");
        struct figures *figures = &rerun->figures[rerun->figure_count++];
        record_from_json(&kept_figures, from, figures, &none, &ignored);
        for (enum value_type type = 0; type < VALUE_GUESSED; type++)
            take_type(json_object_get(types, value_name(type)), &figures->types[type]);
    }
}

void rerun_result_take(const json_t *object, const struct fault_memory *memory, struct rerun_result *rerun)
{
    struct record_memory none = {NULL};
    struct problem ignored;
    struct kept_rerun kept;
    record_from_json(&kept_rerun, object, &kept, &none, &ignored);
    *rerun = kept.result;
    if (kept.has_launch && kept.launch < memory->launch_count)
        rerun->launch = &memory->launches[kept.launch];
    rerun->write_count = kept.write_count;
    for (size_t i = 0; i < kept.write_count; i++) {
        rerun->writes[i] = kept.writes[i].write;
        for (size_t k = 0; kept.writes[i].buffer && k < memory->near_count; k++)
            if (memory->near[k].id == kept.writes[i].buffer)
                rerun->writes[i].buffer = &memory->near[k];
    }
    take_emulated(json_object_get(object, "emulated"), rerun);
    take_figures(json_object_get(object, "figures"), rerun);
}
