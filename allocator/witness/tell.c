#include "tell.h"

#include "delivery.h"
#include "driver/driver.h"
#include "finding/identity.h"
#include "finding/json.h"
#include "record.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define DEVICE_NAME 128

static const struct fault_sources *sources; /* constant after tell_open(), as the next */
static int rank;                            /* in a distributed job, or -1 */

cufence_status tell_open(const struct options *options, const struct fault_sources *from)
{
    sources = from;
    rank = options_rank();
    cufence_status status = delivery_open(options);
    return status == CUFENCE_OK ? record_open(options) : status;
}

/* `name` is where the driver's name for the device goes. */
static struct report_origin origin_of(int device, char name[DEVICE_NAME])
{
    CUdevice handle;
    name[0] = '\0';
    if (device >= 0 && driver->cuDeviceGet(&handle, device) == CUDA_SUCCESS)
        driver->cuDeviceGetName(name, DEVICE_NAME, handle);
    return (struct report_origin){(int)getpid(), rank, device, name[0] ? name : NULL};
}

static void call_handler(const struct diagnosis *diagnosis, const char *text, int device)
{
    const struct evidence_site *site = diagnosis->site;
    cufence_fault fault = {.text = text,
                           .kind = fault_kind_name(diagnosis->kind),
                           .kernel = site ? site->kernel : NULL,
                           .file = site ? site->file : NULL,
                           .line = site ? site->line : 0,
                           .is_address_known = diagnosis->address_certainty != CERTAIN_NOT,
                           .address = diagnosis->address,
                           .buffer = diagnosis->owner,
                           .device = device};
    delivery_call_handler(&fault);
}

static void record(const struct dump *dump, const struct fault_memory *memory, int device, const char *device_name)
{
    struct snapshot_origin origin = {.pid = (int)getpid(), .rank = rank, .device = device};
    snprintf(origin.device_name, sizeof origin.device_name, "%s", device_name);
    record_keep(dump->bytes, dump->size, memory, &origin);
}

uint64_t tell_fault(const struct dump *dump, const struct evidence *evidence, int device)
{
    struct surroundings *around = surroundings_of(sources, evidence, device);
    struct diagnosis diagnosis;
    char name[DEVICE_NAME], *text = NULL, *json = NULL;
    if (around) {
        fault_diagnose(evidence, &around->memory, &diagnosis);
        const struct report_origin origin = origin_of(device, name);
        text = fault_report_text(&diagnosis, &origin);
        json = fault_report_json(&diagnosis, &origin);
    }
    uint64_t made_ns = dump_clock();
    int is_printed = delivery_publish(text, json, text ? identity_of_fault(&diagnosis) : 0);
    if (is_printed && text && record_is_wanted())
        record(dump, &around->memory, device, name);
    if (text)
        call_handler(&diagnosis, text, device);
    free(text);
    free(json);
    free(around);
    return made_ns;
}

uint64_t tell_unexplained(size_t size, const char *why)
{
    char reason[640], name[DEVICE_NAME];
    snprintf(reason, sizeof reason, "its core dump (%zu bytes) cannot be read: %s", size, why);
    const struct report_origin origin = origin_of(-1, name);
    char *text = fault_unexplained_text(reason, &origin), *json = fault_unexplained_json(reason, &origin);
    uint64_t made_ns = dump_clock();
    delivery_publish(text, json, 0);
    if (text)
        delivery_call_handler(&(cufence_fault){.text = text, .kind = FAULT_UNEXPLAINED, .device = -1});
    free(text);
    free(json);
    return made_ns;
}

void tell_misuse(const struct misuse *misuse)
{
    const cufence_buffer *buffer = misuse->place->buffer.id ? &misuse->place->buffer : NULL;
    char name[DEVICE_NAME];
    const struct report_origin origin = origin_of(buffer ? buffer->device : -1, name);
    char *text = misuse_text(misuse, &origin);
    char *json = fault_misuse_json(misuse, &origin);
    delivery_publish(text, json, identity_of_misuse(misuse));
    if (text)
        delivery_call_handler(&(cufence_fault){.text = text,
                                               .kind = misuse->kind,
                                               .is_address_known = 1,
                                               .address = misuse->address,
                                               .buffer = buffer,
                                               .device = origin.device});
    free(text);
    free(json);
}
