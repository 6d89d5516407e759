/*
 * Reads the tables of a GPU core dump as plain structs. A dump is an ELF64 file, OSABI 0x33, machine 0xBE. Each section is a
 * table of rows; its sh_link names the section of the parent table, and sh_info the parent row. Every row type has grown with
 * newer drivers: sh_entsize is the stride, and a field beyond the stride reads as 0.
 * Source of the numbers: rows in dumps of an H100 (driver 580.159); older and newer sizes from the debugger's public headers.
 *
 * Ownership: struct coredump owns an index of the sections; the results point into the dump. Pure; any thread.
 */
#pragma once

#include "base/image.h"
#include "base/error.h"
#include "base/shape.h"

#include <cufence.h>

#define COREDUMP_MACHINE 0xBE

enum coredump_section_type {
    COREDUMP_MANAGED_MEMORY = 0x80000001u, /* not a table: bytes at address sh_addr, like the next one */
    COREDUMP_GLOBAL_MEMORY = 0x80000002u,
    COREDUMP_REGISTERS = 0x80000005u,
    COREDUMP_CUBIN = 0x80000006u,
    COREDUMP_RELOCATED_CUBIN = 0x80000007u,
    COREDUMP_DEVICES = 0x80000009u,
    COREDUMP_CONTEXTS = 0x8000000au,
    COREDUMP_SMS = 0x8000000bu,
    COREDUMP_GRIDS = 0x8000000cu,
    COREDUMP_CTAS = 0x8000000du,
    COREDUMP_WARPS = 0x8000000eu,
    COREDUMP_LANES = 0x8000000fu,
    COREDUMP_MODULES = 0x80000010u,
    COREDUMP_PREDICATES = 0x80000011u,
    COREDUMP_PARAMETERS = 0x80000012u,
    COREDUMP_UNIFORM_REGISTERS = 0x80000013u,
    COREDUMP_META = 0x80000016u
};

struct coredump_device {
    uint64_t name, sm_type; /* offsets in the dump's string table */
    uint32_t index, pci_bus, pci_device, sm_major, sm_minor;
};

struct coredump_context {
    uint64_t id;
};

struct coredump_module {
    uint64_t handle;
};

struct coredump_grid {
    uint64_t id, context, entry, module, parameters_at;
    SHAPE;
    uint32_t tid;
};

struct coredump_sm {
    uint64_t error_pc;
    uint32_t id, exception, error_pc_valid;
};

struct coredump_cta {
    uint64_t grid_id;
    uint32_t block[3];
    uint32_t cluster_size[3];
};

struct coredump_warp {
    uint64_t error_pc;
    uint32_t id, active_lanes, error_pc_valid;
    uint32_t is_broken; /* it has stopped behind a BPT */
};

struct coredump_lane {
    uint64_t pc; /* virtual, like the error PC */
    uint32_t lane, thread[3], exception;
};

struct coredump_meta {
    uint32_t driver_major, driver_minor;
};

struct coredump {
    struct image image;
    struct coredump_child *children; /* all sections with a parent, sorted by parent, row, type, section */
    size_t child_count;
    struct span strings; /* empty if there are none */
};

/* Refers to a row of a table. Section 0 means none. */
struct coredump_ref {
    uint32_t section;
    uint32_t row;
};

/* Call coredump_close() afterwards, even after an error. Errors: CORRUPT, UNSUPPORTED (rows smaller than in the oldest known
 * version), OUT_OF_MEMORY. */
cufence_status coredump_open(const void *bytes, size_t size, struct coredump *dump, struct problem *problem);
void coredump_close(struct coredump *dump);

/* Returns the next section of `type` after section `after` (0: from the start), 0 if there is none. */
uint32_t coredump_next(const struct coredump *dump, enum coredump_section_type type, uint32_t after);

/* Returns the number of complete rows in a section; 0 if it is not a table of `type`. */
uint32_t coredump_rows(const struct coredump *dump, uint32_t section, enum coredump_section_type type);

/* Reads a row into `row`, the struct for `type` above. Returns 1 if the row exists. */
int coredump_row(const struct coredump *dump, enum coredump_section_type type, struct coredump_ref ref, void *row);

/* Returns the row that a section belongs to; section 0 if that is not a row of a table of `type`. */
struct coredump_ref coredump_parent(const struct coredump *dump, uint32_t section, enum coredump_section_type type);

/* Returns the first section of `type` that belongs to a row, 0 if there is none. */
uint32_t coredump_child(const struct coredump *dump, struct coredump_ref parent, enum coredump_section_type type);

/* Reads the u32[] section of `type` that belongs to a row, such as registers or predicates. Returns the count, at most
 * `max`. */
size_t coredump_words(const struct coredump *dump, struct coredump_ref owner, enum coredump_section_type type, uint32_t *words,
                      size_t max);

/* Returns the bytes of a section; empty if they are outside the dump. */
struct span coredump_content(const struct coredump *dump, uint32_t section);

/* Returns the compute capability of a device, 90 for 9.0; 0 if unknown. */
unsigned coredump_compute(const struct coredump *dump, struct coredump_ref device);

/* Returns a string of the dump's string table, "" if there is none at that offset. */
const char *coredump_string(const struct coredump *dump, uint64_t offset);
