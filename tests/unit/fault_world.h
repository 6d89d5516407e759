/*
 * A small device memory for the tests of the diagnosis and the report:
 *
 *   ARENA | guard 64 MiB | A | guard | B | guard | slot of F | guard | slot of C | guard | ... nothing ...
 *
 * Every slot is one page of 2 MiB; buffers end flush with it, but for C, which has 15 bytes of slack behind its end.
 */
#pragma once

#include "analysis/verdict/diagnosis.h"

#define PAGE (UINT64_C(2) << 20)
#define GUARD (UINT64_C(64) << 20)
#define ARENA UINT64_C(0x7e0000000000)
#define ARENA_END (ARENA + (UINT64_C(1) << 40))

/* Slot n's mapping is [SLOT(n), SLOT(n) + PAGE), with guards on both sides. */
#define SLOT(n) (ARENA + GUARD + (uint64_t)(n) * (PAGE + GUARD))
#define SLOT_END(n) (SLOT(n) + PAGE)

#define BUFFER(id_, slot, start, bytes)                                                                                        \
    .id = (id_), .address = (start), .size = (bytes), .mapping_start = SLOT(slot), .mapping_end = SLOT_END(slot),              \
    .guard_start = SLOT(slot) - GUARD, .guard_end = SLOT_END(slot) + GUARD, .stream = 0x5581c0, .allocated_ns = 1000,          \
    .allocated_tid = 4242
#define LIVE(id_, slot, bytes)                                                                                                 \
    {                                                                                                                          \
        BUFFER(id_, slot, SLOT_END(slot) - (bytes), bytes), .is_mapped = 1                                                     \
    }
#define FREED(id_, slot, bytes, time_ns, mapped)                                                                               \
    {                                                                                                                          \
        BUFFER(id_, slot, SLOT_END(slot) - (bytes), bytes), .freed_ns = (time_ns), .freed_tid = 4243, .free_stream = 0x5581c8, \
                                                            .is_mapped = (mapped)                                              \
    }

/* One that is mapped anywhere. */
#define MAPPED(id_, start, bytes, from, to)                                                                                    \
    {                                                                                                                          \
        .id = (id_), .address = (start), .size = (bytes), .mapping_start = (from), .mapping_end = (to),                        \
        .guard_start = (from)-GUARD, .guard_end = (to) + GUARD, .is_mapped = 1                                                 \
    }

enum { A, B, F, NEWER_F, REUSED_F, IDLE_A, C, ALL };

#define A_END SLOT_END(0)
#define A_START (A_END - 4000)
#define B_END SLOT_END(1)
#define B_START (B_END - 8000)
#define F_START (SLOT_END(2) - 1600)
#define C_END (SLOT_END(3) - 15)

static const cufence_buffer world[ALL] = {
    [A] = LIVE(1, 0, 4000),
    [B] = LIVE(2, 1, 8000),
    [F] = FREED(3, 2, 1600, 50000000, 0),
    [NEWER_F] = FREED(4, 2, 800, 60000000, 0),
    [REUSED_F] = LIVE(5, 2, 3200),
    [IDLE_A] = FREED(6, 0, 6000, 50000000, 1),
    [C] = {BUFFER(7, 3, SLOT_END(3) - 4016, 4001), .is_mapped = 1},
};

#define BIT(buffer) (1u << (buffer))
#define BOTH (BIT(A) | BIT(B))

/* Fills `room`, which has space for ALL buffers, with the buffers in `set` (bits of the enum above) as fault_memory.near. */
static inline struct fault_memory memory_of(unsigned set, cufence_buffer *room)
{
    struct fault_memory memory = {.near = room, .arena_start = ARENA, .arena_end = ARENA_END, .now_ns = 73000000};
    for (unsigned i = 0; i < ALL; i++)
        if (set & BIT(i))
            room[memory.near_count++] = world[i];
    return memory;
}

/* Returns an illegal write by `lane_count` lanes, or by an exited warp if lane_count is 0. */
static inline struct evidence_stop stop_at(struct evidence_lane *lanes, size_t lane_count, uint32_t bytes)
{
    return (struct evidence_stop){.exception = exception_of(14, NULL),
                                  .error_pc = 0x1400,
                                  .is_warp_alive = lane_count > 0,
                                  .kernel = "k_oob",
                                  .symbol = "k_oob",
                                  .kernel_offset = 0x400,
                                  .access = ACCESS_WRITE,
                                  .access_bytes = bytes,
                                  .lanes = lanes,
                                  .lane_count = lane_count};
}

/* The result is valid until the next one. */
static inline struct diagnosis diagnosed(const struct evidence_stop *stops, size_t count, const struct fault_memory *memory)
{
    static struct evidence evidence;
    struct diagnosis diagnosis;
    evidence = (struct evidence){.stops = (struct evidence_stop *)(uintptr_t)stops, .stop_count = count};
    fault_diagnose(&evidence, memory, &diagnosis);
    return diagnosis;
}

static inline uint64_t id_of(const cufence_buffer *buffer)
{
    return buffer ? buffer->id : 0;
}

/* The memory with the buffers in `set`, which is valid until the next one. */
static inline struct fault_memory *memory_with(unsigned set)
{
    static cufence_buffer room[ALL];
    static struct fault_memory memory;
    memory = memory_of(set, room);
    return &memory;
}

static inline void give(struct evidence_stop *stop, const uint64_t *words, size_t bytes)
{
    stop->parameters = (const uint8_t *)words;
    stop->parameter_bytes = bytes;
}

/* What a diagnosis says, in one line: "overrun of #1 exact at 16 by word 0, beside #1 #2; address exact, lane 5, 4 threads, 2
 * others; 2 of 9 from arguments, candidate: #98 by 1, #99 by 3". Valid until the next one. */
static inline const char *said_of(const struct diagnosis *of)
{
    static const char *const sure[] = {"unknown", "candidate", "derived", "re-run", "exact"};
    static const char *const sources[] = {"live", "arguments", "launches", "running"};
    static char text[512];
    FILE *out = fmemopen(text, sizeof text, "w");
    fprintf(out, "%s", fault_kind_names[of->verdict.kind]);
    if (of->verdict.owner)
        fprintf(out, " of #%d %s at %lld", (int)of->verdict.owner->id, sure[of->verdict.certainty],
                (long long)of->verdict.distance);
    if (of->verdict.parameter >= 0)
        fprintf(out, " by word %d", of->verdict.parameter);
    const struct fault_neighbours beside = fault_neighbours(of);
    if (beside.previous || beside.next)
        fprintf(out, ", beside #%d #%d", (int)id_of(beside.previous), (int)id_of(beside.next));
    fprintf(out, "; address %s", sure[of->access.certainty]);
    if (of->access.lane)
        fprintf(out, ", lane %u", of->access.lane->lane);
    fprintf(out, ", %zu threads, %zu others%s", of->access.threads, of->access.other_stops,
            of->is_bystander ? ", bystander" : "");
    if (of->candidates.total)
        fprintf(out, "; %zu of %zu from %s, %s:", of->candidates.count, of->candidates.total, sources[of->candidates.source],
                sure[of->candidates.certainty]);
    for (size_t i = 0; i < of->candidates.count; i++) {
        fprintf(out, " #%d", (int)of->candidates.list[i]->id);
        if (of->candidates.parameter[i] >= 0)
            fprintf(out, " by %d", of->candidates.parameter[i]);
    }
    fclose(out);
    return text;
}

static inline void expect_said(const struct diagnosis *diagnosis, const char *wanted)
{
    if (strcmp(said_of(diagnosis), wanted) != 0)
        fail_msg("\"%s\" instead of\n\"%s\"", said_of(diagnosis), wanted);
}
