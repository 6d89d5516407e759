/* Snapshots beside tests/golden/snapshots.expect, and what is read back from them. A part of test_golden.c. */
#ifndef GOLDEN_SNAPSHOTS_H
#define GOLDEN_SNAPSHOTS_H

#include "analysis/snapshot/keep.h"

static char *json_of(const struct story *story, const struct rerun_result *rerun, const struct fault_memory *memory,
                     const struct finding_origin *from)
{
    struct diagnosis diagnosis;
    fault_diagnose_rerun(&story->evidence, rerun, memory, &diagnosis);
    return told_rerun(finding_json, &diagnosis, rerun, from);
}

/* What is read back is the same snapshot, and tells the same. */
static void check_read_back(const char *bytes, const struct story *story, const struct finding_origin *from)
{
    struct snapshot *snapshot;
    struct problem problem;
    assert_int_equal(snapshot_read(bytes, strlen(bytes), &snapshot, &problem), CUFENCE_OK);
    char *again = snapshot_write(&snapshot->memory, &snapshot->origin, &snapshot->rerun);
    assert_string_equal(again, bytes);
    free(again);
    snapshot->rerun.evidence = story->rerun.evidence;               /* which is a dump of its own */
    if (!story->memory.recent_count && !story->memory.is_unknown) { /* those are not kept */
        char *before = json_of(story, &story->rerun, &story->memory, from);
        char *after = json_of(story, &snapshot->rerun, &snapshot->memory, from);
        assert_string_equal(after, before);
        free(before);
        free(after);
    }
    snapshot_free(snapshot);
}

static void check_snapshot(const char *name, const struct story *story, const struct finding_origin *of)
{
    const struct snapshot_origin from = {
        4242, -1, 1, "NVIDIA H100 80GB HBM3", "/usr/bin/python3", "uaf=strict", 1795318140155089896};
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    char *bytes = snapshot_write(&story->memory, &from, &story->rerun);
    assert_non_null(bytes);
    check_read_back(bytes, story, of);
    put(out, bytes);
    fclose(out);
    golden_check(GOLDEN "snapshots.expect", name, text);
    free(text);
}

#endif
