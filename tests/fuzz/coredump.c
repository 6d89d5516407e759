/*
 * A core dump may contain anything. Reads all of the evidence, so that the sanitizers detect invalid pointers, makes a
 * diagnosis and a report with buffers that the kernel's arguments point to, and makes the kernels ready to be launched again.
 */
#include "fuzz.h"

#include "finding/report.h"
#include "analysis/dump/kernel_module.h"
#include "analysis/sass/fence.h"
#include "analysis/verdict/diagnosis.h"
#include "support/told.h"

static size_t text_size(const char *text)
{
    return text ? strlen(text) : 0;
}

static uint64_t read_stop(const struct evidence_stop *stop)
{
    uint64_t sum = text_size(stop->kernel) + text_size(stop->symbol) + text_size(stop->file) + text_size(stop->instruction);
    sum += strlen(stop->exception.name);
    for (size_t i = 0; i < stop->parameter_bytes; i++)
        sum += stop->parameters[i];
    for (size_t i = 0; i < stop->lane_count; i++)
        sum += stop->lanes[i].address + stop->lanes[i].thread[0];
    require(!stop->is_warp_alive || stop->lane_count); /* the contract: an alive warp has a lane */
    return sum;
}

/* Makes buffers at the addresses in the first parameter words; every other one is freed. */
static size_t make_buffers(const struct evidence *evidence, cufence_buffer *buffers, size_t limit)
{
    const uint64_t page = 2 << 20, last = (uint64_t)1 << 47;
    size_t count = 0;
    for (size_t i = 0; i < evidence->stop_count && count < limit; i++) {
        const struct evidence_stop *stop = &evidence->stops[i];
        for (size_t at = 0; at + 8 <= stop->parameter_bytes && count < limit; at += 8) {
            uint64_t word;
            memcpy(&word, stop->parameters + at, sizeof(word));
            uint64_t start = word / page * page;
            if (start < 64 * page || start >= last)
                continue;
            buffers[count] = (cufence_buffer){.id = count + 1,
                                              .address = word,
                                              .size = 1 + word % page,
                                              .mapping_start = start,
                                              .mapping_end = start + 2 * page,
                                              .guard_start = start - 32 * page,
                                              .guard_end = start + (count % 3 ? 64 : 4096) * page,
                                              .freed_ns = count % 2,
                                              .is_mapped = count % 4 != 1};
            count++;
        }
    }
    return count;
}

/* Makes a launch of the first stop's kernel, with the stop's parameters. The function has six arguments, some with odd
 * sizes. */
static size_t make_launch(const struct evidence *evidence, struct launch_function *function, struct launch_entry *entry)
{
    static const struct launch_argument arguments[] = {{0, 8}, {8, 4}, {12, 1}, {14, 2}, {16, 24}, {40, 300}};
    const struct evidence_stop *stop = evidence->stops;
    if (!evidence->stop_count || !stop->symbol)
        return 0;
    *function = (struct launch_function){.name = stop->symbol, .has_layout = 1};
    for (size_t i = 0; i < sizeof arguments / sizeof *arguments; i++) {
        size_t end = arguments[i].offset + arguments[i].size;
        if (stop->parameters && end > stop->parameter_bytes)
            break;
        function->arguments[function->argument_count++] = arguments[i];
        function->argument_bytes = (uint32_t)end;
    }
    *entry = (struct launch_entry){.sequence = 1, .function = function, .argument_bytes = function->argument_bytes};
    entry->kept_bytes = entry->argument_bytes < LAUNCH_KEPT_BYTES ? entry->argument_bytes : LAUNCH_KEPT_BYTES;
    if (stop->parameters)
        memcpy(entry->bytes, stop->parameters, entry->kept_bytes);
    memcpy(entry->grid, stop->grid, sizeof entry->grid);
    memcpy(entry->block, stop->block, sizeof entry->block);
    return 1;
}

static void diagnose(const struct evidence *evidence)
{
    static union {
        struct launch_function function;
        uint64_t room[32];
    } kernel;
    static struct launch_entry entry;
    const struct fault_launch launch = {.entry = &entry};
    cufence_buffer buffers[24];
    size_t count = make_buffers(evidence, buffers, 24);
    struct fault_memory memory = {.near = buffers,
                                  .near_count = count / 2,
                                  .live = buffers + count / 2,
                                  .live_count = count - count / 2,
                                  .live_total = count,
                                  .arena_start = 1 << 20,
                                  .arena_end = (uint64_t)1 << 46,
                                  .launches = &launch,
                                  .launch_count = make_launch(evidence, &kernel.function, &entry)};
    const struct finding_source origin = {.pid = 1, .rank = -1};
    struct diagnosis diagnosis;
    fault_diagnose(evidence, &memory, &diagnosis);
    char *texts[] = {told_fault(finding_text, &diagnosis, &origin), told_fault(finding_json, &diagnosis, &origin)};
    for (int i = 0; i < 2; i++) {
        require(!texts[i] || (*texts[i] && texts[i][strlen(texts[i]) - 1] == '\n'));
        free(texts[i]);
    }
}

/* Takes the image of the stop's kernel out of the dump, and puts barriers into it. */
static void list_variables(struct span cubin, const char *symbol)
{
    static struct variable found[VARIABLES_MOST];
    size_t count = variables_of(cubin, symbol, found);
    require(count <= VARIABLES_MOST && variables_locate(cubin, found, count) <= count);
    for (size_t i = 0; i < count; i++)
        require(found[i].size && *found[i].name);
    variables_lead_inside(cubin, cubin.bytes, cubin.size < 4096 ? cubin.size : 4096);
}

static void fence_kernel(const struct coredump *dump, const struct evidence_stop *stop)
{
    uint8_t *image = NULL;
    size_t size = 0;
    struct fence fence;
    struct problem problem = {""};
    if (!stop->symbol)
        return;
    cufence_status status = image_of_kernel(dump, stop->symbol, stop->error_pc, &image, &size, &problem);
    list_variables(image_relocated(dump, stop->symbol, stop->error_pc), stop->symbol);
    require((status == CUFENCE_OK) == (image != NULL) && (status == CUFENCE_OK || problem.text[0]));
    if (image && fence_put(&image, &size, stop->symbol, stop->kernel_offset, &fence, &problem) == CUFENCE_OK)
        require(fence.fenced <= size / 16);
    free(image);
}

/* Reads where the threads were, as `cufence explain` does. */
static uint64_t stand(const uint8_t *data, size_t size)
{
    struct coredump dump;
    struct standing *standing = NULL;
    struct evidence *evidence = NULL;
    struct problem problem;
    uint64_t sum = 0;
    if (coredump_open(data, size, &dump, &problem) == CUFENCE_OK && evidence_read(&dump, &evidence, &problem) == CUFENCE_OK &&
        standing_read(&dump, &standing, &problem) == CUFENCE_OK) {
        for (size_t i = 0; i < evidence->stop_count; i++)
            sum += read_stop(&evidence->stops[i]);
        if (evidence->stop_count)
            fence_kernel(&dump, evidence->stops);
        free(standing_text(standing, NULL, 8));
        json_decref(standing_json(standing, NULL, 8));
    }
    standing_free(standing);
    evidence_free(evidence);
    coredump_close(&dump);
    return sum;
}

FUZZ(coredump)
{
    struct evidence *evidence = NULL;
    uint64_t sum = 0;
    struct problem problem;
    cufence_status status = evidence_from_coredump(data, size, &evidence, &problem);
    require((status == CUFENCE_OK) == (evidence != NULL));
    for (size_t i = 0; evidence && i < evidence->stop_count; i++)
        sum += read_stop(&evidence->stops[i]);
    if (evidence)
        diagnose(evidence);
    evidence_free(evidence);
    sum += stand(data, size);
    __asm__ volatile("" : : "r"(sum)); /* makes the compiler keep the reads */
    return 0;
}
