#include "metrics.h"

#include "base/options.h"
#include "base/version.h"
#include "heap/heap.h"
#include "heap/passed.h"
#include "launch/launch.h"
#include "witness/delivery.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct metric {
    const char *name, *type, *help;
    size_t offset; /* of the field */
};

static const struct metric of_devices[] = {
    {"cufence_live_buffers", "gauge", "Guarded buffers that are allocated.", offsetof(cufence_stats, live_buffers)},
    {"cufence_live_bytes", "gauge", "Bytes that they ask for.", offsetof(cufence_stats, live_bytes)},
    {"cufence_peak_live_bytes", "gauge", "The most of cufence_live_bytes so far.", offsetof(cufence_stats, peak_live_bytes)},
    {"cufence_mapped_bytes", "gauge", "Device memory in mappings: live, idle or waiting for a stream.",
     offsetof(cufence_stats, mapped_bytes)},
    {"cufence_idle_bytes", "gauge", "Part of cufence_mapped_bytes: freed, kept for reuse.",
     offsetof(cufence_stats, idle_bytes)},
    {"cufence_cached_bytes", "gauge", "Device memory kept without a mapping.", offsetof(cufence_stats, cached_bytes)},
    {"cufence_captured_bytes", "gauge", "Part of cufence_mapped_bytes that CUDA graphs hold.",
     offsetof(cufence_stats, captured_bytes)},
    {"cufence_allocations_total", "counter", "Guarded allocations.", offsetof(cufence_stats, allocations)},
    {"cufence_frees_total", "counter", "Frees of guarded buffers.", offsetof(cufence_stats, frees)},
    {"cufence_fresh_mappings_total", "counter", "Allocations that needed a new mapping.",
     offsetof(cufence_stats, fresh_mappings)},
    {"cufence_packed_buffers", "gauge", "Live buffers that share pages.", offsetof(cufence_stats, packed_buffers)},
    {"cufence_packed_bytes", "gauge", "Bytes that they ask for.", offsetof(cufence_stats, packed_bytes)},
    {"cufence_packed_mapped_bytes", "gauge", "Memory in the pages that buffers share.",
     offsetof(cufence_stats, packed_mapped_bytes)},
    {"cufence_packed_allocations_total", "counter", "Allocations that shared a page.",
     offsetof(cufence_stats, packed_allocations)},
    {"cufence_retired_mappings_total", "counter", "Mappings that were taken away.", offsetof(cufence_stats, retired_mappings)},
};

static const struct metric of_streams[] = {
    {"cufence_stream_live_buffers", "gauge", "Guarded buffers allocated on the stream.",
     offsetof(cufence_stream_stats, live_buffers)},
    {"cufence_stream_live_bytes", "gauge", "Bytes that they ask for.", offsetof(cufence_stream_stats, live_bytes)},
    {"cufence_stream_mapped_bytes", "gauge", "Device memory that they map.", offsetof(cufence_stream_stats, mapped_bytes)},
    {"cufence_stream_idle_bytes", "gauge", "Device memory freed on the stream, kept for reuse on it.",
     offsetof(cufence_stream_stats, idle_bytes)},
};

static void begin(FILE *out, const char *name, const char *type, const char *help)
{
    fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* A label's value: the format escapes these three letters. */
static void put_value(FILE *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '\n')
            fputs("\\n", out);
        else if (*text == '"' || *text == '\\')
            fprintf(out, "\\%c", *text);
        else
            fputc(*text, out);
    }
}

static uint64_t field_of(const void *figures, size_t offset)
{
    return *(const uint64_t *)((const char *)figures + offset);
}

static void put_devices(FILE *out)
{
    cufence_stats stats[64];
    int devices = 0;
    driver->cuDeviceGetCount(&devices);
    devices = devices < 64 ? devices : 64;
    for (int device = 0; device < devices; device++)
        if (heap_stats(device, &stats[device]) != CUFENCE_OK)
            return;
    for (size_t i = 0; i < sizeof of_devices / sizeof *of_devices; i++) {
        begin(out, of_devices[i].name, of_devices[i].type, of_devices[i].help);
        for (int device = 0; device < devices; device++)
            fprintf(out, "%s{device=\"%d\"} %" PRIu64 "\n", of_devices[i].name, device,
                    field_of(&stats[device], of_devices[i].offset));
    }
}

static void put_streams(FILE *out)
{
    cufence_stream_stats *streams;
    size_t count = heap_streams(-1, &streams);
    for (size_t i = 0; count && i < sizeof of_streams / sizeof *of_streams; i++) {
        begin(out, of_streams[i].name, of_streams[i].type, of_streams[i].help);
        for (size_t k = 0; k < count; k++)
            fprintf(out, "%s{device=\"%d\",stream=\"0x%" PRIx64 "\"} %" PRIu64 "\n", of_streams[i].name, (int)streams[k].device,
                    streams[k].stream, field_of(&streams[k], of_streams[i].offset));
    }
    free(streams);
}

static const struct metric of_passed[] = {
    {"cufence_unguarded_allocations_total", "counter", "Allocations left to the driver, by reason.",
     offsetof(struct passed_figures, count)},
    {"cufence_unguarded_bytes_total", "counter", "Bytes that they ask for.", offsetof(struct passed_figures, bytes)},
    {"cufence_unguarded_live_buffers", "gauge", "Those that are not freed yet.", offsetof(struct passed_figures, live_count)},
    {"cufence_unguarded_live_bytes", "gauge", "Bytes that they ask for.", offsetof(struct passed_figures, live_bytes)},
};

static void put_passed(FILE *out)
{
    for (size_t i = 0; i < sizeof of_passed / sizeof *of_passed; i++) {
        begin(out, of_passed[i].name, of_passed[i].type, of_passed[i].help);
        for (int why = PASSED_NOT + 1; why < PASSED_REASONS; why++) {
            struct passed_figures figures = passed_figures((enum passed_reason)why);
            fprintf(out, "%s{reason=\"", of_passed[i].name);
            put_value(out, passed_word((enum passed_reason)why));
            fprintf(out, "\"} %" PRIu64 "\n", field_of(&figures, of_passed[i].offset));
        }
    }
}

static void put_process(FILE *out)
{
    char host[256] = "";
    if (gethostname(host, sizeof host - 1) != 0)
        host[0] = '\0';
    begin(out, "cufence_info", "gauge", "The process: always 1.");
    fprintf(out, "cufence_info{version=\"%s\",pid=\"%d\",host=\"", VERSION_TEXT, (int)getpid());
    put_value(out, host);
    fputs("\"", out);
    if (options_rank() >= 0)
        fprintf(out, ",rank=\"%d\"", options_rank());
    fputs("} 1\n", out);
    begin(out, "cufence_findings_total", "counter", "Reports of this process, repetitions included.");
    fprintf(out, "cufence_findings_total %" PRIu64 "\n", delivery_count());
    begin(out, "cufence_launches_total", "counter", "Kernel launches seen.");
    fprintf(out, "cufence_launches_total %" PRIu64 "\n", launch_total());
}

char *metrics_text(void)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return NULL;
    put_process(out);
    put_devices(out);
    put_streams(out);
    put_passed(out);
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}
