/* A snapshot from an untrusted source, and the report made with it. */
#include "fuzz.h"

#include "analysis/bundle/snapshot_json.h"
#include "support/told.h"

/* A fault that uses everything in a snapshot. */
static void diagnose(const struct fault_memory *memory, const struct rerun_result *rerun)
{
    static const uint64_t parameters[] = {0x7e0000001000, 0x7e0000200000, 7};
    for (int is_known = 0; is_known < 2; is_known++) {
        struct evidence_lane lane = {
            .thread = {3}, .address = 0x7e0000200000, .certainty = is_known ? CERTAIN_EXACT : CERTAIN_NOT};
        struct evidence_stop stop = {.exception = exception_of(14, NULL),
                                     .is_warp_alive = is_known,
                                     .kernel = "k",
                                     .symbol = "k",
                                     .access = ACCESS_WRITE,
                                     .access_bytes = 4,
                                     .has_grid = 1,
                                     .grid = {1, 1, 1},
                                     .block = {32, 1, 1},
                                     .parameters = is_known ? (const uint8_t *)parameters : NULL,
                                     .parameter_bytes = is_known ? sizeof parameters : 0,
                                     .lanes = &lane,
                                     .lane_count = 1};
        const struct evidence evidence = {.stops = &stop, .stop_count = 1};
        const struct finding_source origin = {.pid = 1, .rank = -1};
        struct diagnosis diagnosis;
        fault_diagnose_rerun(&evidence, rerun, memory, &diagnosis);
        free(told_rerun(finding_text, &diagnosis, rerun, &origin));
        free(told_rerun(finding_json, &diagnosis, rerun, &origin));
    }
}

FUZZ(snapshot)
{
    struct snapshot *snapshot = NULL;
    struct problem problem;
    cufence_status status = snapshot_read((const char *)data, size, &snapshot, &problem);
    require((status == CUFENCE_OK) == (snapshot != NULL));
    if (!snapshot)
        return 0;
    diagnose(&snapshot->memory, &snapshot->rerun);
    char *again = snapshot_write(&snapshot->memory, &snapshot->origin, &snapshot->rerun);
    struct snapshot *second = NULL;
    require(!again || snapshot_read(again, strlen(again), &second, &problem) == CUFENCE_OK);
    snapshot_free(second);
    free(again);
    snapshot_free(snapshot);
    return 0;
}
