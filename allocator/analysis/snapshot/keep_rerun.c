#include "keep_rerun.h"

#include "keep_figures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const enum rerun_outcome outcomes[] = {RERUN_FAULTED, RERUN_WROTE, RERUN_NO_FAULT, RERUN_FAILED};

static void put_number(json_t *object, const char *name, uint64_t value)
{
    json_object_set_new(object, name, json_integer((json_int_t)value));
}

static json_t *put_write(const struct rerun_write *write)
{
    char text[2 * sizeof write->values + 1] = "", address[32];
    json_t *object = json_object();
    for (size_t i = 0; i < write->value_bytes && i < sizeof write->values; i++)
        snprintf(text + 2 * i, 3, "%02x", write->values[i]);
    snprintf(address, sizeof address, "0x%llx", (unsigned long long)write->address);
    if (write->buffer)
        put_number(object, "buffer", write->buffer->id);
    json_object_set_new(object, "is_before", json_boolean(write->is_before));
    json_object_set_new(object, "is_slack", json_boolean(write->is_slack));
    put_number(object, "distance", write->distance);
    json_object_set_new(object, "address", json_string(address));
    put_number(object, "bytes", write->bytes);
    json_object_set_new(object, "values", json_string(text));
    return object;
}

static json_t *put_triple(const uint32_t triple[3])
{
    return json_pack("[III]", (json_int_t)triple[0], (json_int_t)triple[1], (json_int_t)triple[2]);
}

static json_t *put_emulated(const struct rerun_result *rerun)
{
    json_t *lanes = json_array();
    for (size_t i = 0; i < rerun->emulated_count; i++) {
        const struct evidence_lane *lane = &rerun->emulated[i];
        json_array_append_new(lanes, json_pack("{sIsosI}", "lane", (json_int_t)lane->lane, "thread", put_triple(lane->thread),
                                               "address", (json_int_t)lane->address));
    }
    return json_pack("{soso}", "block", put_triple(rerun->emulated_block), "lanes", lanes);
}

json_t *rerun_result_put(const struct rerun_result *rerun, const struct fault_memory *memory)
{
    const char *outcome = rerun_result_outcome_name(rerun->outcome);
    json_t *object = json_object(), *writes = json_array();
    json_object_set_new(object, "outcome", json_string(outcome ? outcome : ""));
    json_object_set_new(object, "reason", json_string(rerun->reason));
    json_object_set_new(object, "note", json_string(rerun->note));
    for (size_t i = 0; i < memory->launch_count; i++)
        if (rerun->launch == &memory->launches[i])
            put_number(object, "launch", i);
    json_object_set_new(object, "has_variables", json_boolean(rerun->has_variables));
    put_number(object, "launches_tried", rerun->launches_tried);
    put_number(object, "took_ms", rerun->took_ms);
    put_number(object, "written_bytes", rerun->written_bytes);
    for (size_t i = 0; i < rerun->write_count; i++)
        json_array_append_new(writes, put_write(&rerun->writes[i]));
    json_object_set_new(object, "writes", writes);
    if (rerun->emulated_count)
        json_object_set_new(object, "emulated", put_emulated(rerun));
    if (rerun->figure_count)
        json_object_set_new(object, "figures", figures_put(rerun));
    return object;
}

/* ---- reading ---- */

static uint64_t take_number(const json_t *object, const char *name)
{
    return (uint64_t)json_integer_value(json_object_get(object, name));
}

static unsigned digit(char letter)
{
    return letter >= '0' && letter <= '9'   ? (unsigned)(letter - '0')
           : letter >= 'a' && letter <= 'f' ? (unsigned)(letter - 'a') + 10
                                            : 16;
}

static void take_write(const json_t *object, const struct fault_memory *memory, struct rerun_write *write)
{
    const char *text = json_string_value(json_object_get(object, "values"));
    const char *address = json_string_value(json_object_get(object, "address"));
    uint64_t buffer = take_number(object, "buffer");
    *write = (struct rerun_write){.is_before = json_is_true(json_object_get(object, "is_before")),
                                  .is_slack = json_is_true(json_object_get(object, "is_slack")),
                                  .distance = take_number(object, "distance"),
                                  .address = address ? strtoull(address, NULL, 16) : 0,
                                  .bytes = take_number(object, "bytes")};
    for (size_t i = 0; text && i < 2 * sizeof write->values && digit(text[i]) < 16 && digit(text[i + 1]) < 16; i += 2)
        write->values[write->value_bytes++] = (uint8_t)(digit(text[i]) << 4 | digit(text[i + 1]));
    for (size_t i = 0; buffer && i < memory->near_count; i++)
        if (memory->near[i].id == buffer)
            write->buffer = &memory->near[i];
}

static void take_triple(const json_t *array, uint32_t triple[3])
{
    for (size_t i = 0; i < 3; i++)
        triple[i] = (uint32_t)json_integer_value(json_array_get(array, i));
}

static void take_emulated(const json_t *object, struct rerun_result *rerun)
{
    const json_t *lanes = json_object_get(object, "lanes");
    take_triple(json_object_get(object, "block"), rerun->emulated_block);
    for (size_t i = 0; i < json_array_size(lanes) && i < COUNT(rerun->emulated); i++) {
        const json_t *lane = json_array_get(lanes, i);
        struct evidence_lane *made = &rerun->emulated[rerun->emulated_count++];
        *made = (struct evidence_lane){.lane = (uint32_t)take_number(lane, "lane"),
                                       .address = take_number(lane, "address"),
                                       .known_bits = UINT64_MAX,
                                       .certainty = CERTAIN_DERIVED,
                                       .is_replayed = 1};
        take_triple(json_object_get(lane, "thread"), made->thread);
    }
}

void rerun_result_take(const json_t *object, const struct fault_memory *memory, struct rerun_result *rerun)
{
    const char *outcome = json_string_value(json_object_get(object, "outcome"));
    const char *reason = json_string_value(json_object_get(object, "reason"));
    const char *note = json_string_value(json_object_get(object, "note"));
    const json_t *writes = json_object_get(object, "writes"), *launch = json_object_get(object, "launch");
    *rerun = (struct rerun_result){.has_variables = json_is_true(json_object_get(object, "has_variables")),
                                   .launches_tried = (unsigned)take_number(object, "launches_tried"),
                                   .took_ms = take_number(object, "took_ms"),
                                   .written_bytes = take_number(object, "written_bytes")};
    for (size_t i = 0; outcome && i < COUNT(outcomes); i++)
        if (!strcmp(outcome, rerun_result_outcome_name(outcomes[i])))
            rerun->outcome = outcomes[i];
    snprintf(rerun->reason, sizeof rerun->reason, "%s", reason ? reason : "");
    snprintf(rerun->note, sizeof rerun->note, "%s", note ? note : "");
    if (json_is_integer(launch) && (uint64_t)json_integer_value(launch) < memory->launch_count)
        rerun->launch = &memory->launches[json_integer_value(launch)];
    for (size_t i = 0; i < json_array_size(writes) && i < COUNT(rerun->writes); i++)
        take_write(json_array_get(writes, i), memory, &rerun->writes[rerun->write_count++]);
    take_emulated(json_object_get(object, "emulated"), rerun);
    figures_read(json_object_get(object, "figures"), rerun);
}
