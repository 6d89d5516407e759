/*
 * A core dump is whatever a driver, or somebody, wrote. Everything that evidence holds is read, so that the sanitizers see a
 * pointer that leads astray.
 */
#include "fault/evidence.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t text_size(const char *text)
{
    return text ? strlen(text) : 0;
}

static uint64_t read_site(const struct evidence_site *site)
{
    uint64_t sum = text_size(site->kernel) + text_size(site->symbol) + text_size(site->file) + text_size(site->instruction);
    sum += strlen(site->exception_name);
    for (size_t i = 0; i < site->parameter_bytes; i++)
        sum += site->parameters[i];
    for (size_t i = 0; i < site->lane_count; i++)
        sum += site->lanes[i].address + site->lanes[i].thread[0];
    if (site->is_warp_alive && site->lane_count == 0)
        abort(); /* the contract: an alive warp has a lane */
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct evidence *evidence = NULL;
    uint64_t sum = 0;
    cufence_status status = evidence_from_coredump(data, size, &evidence);
    if ((status == CUFENCE_OK) != (evidence != NULL))
        abort();
    for (size_t i = 0; evidence && i < evidence->site_count; i++)
        sum += read_site(&evidence->sites[i]);
    evidence_free(evidence);
    __asm__ volatile("" : : "r"(sum)); /* what was read counts as used */
    return 0;
}
