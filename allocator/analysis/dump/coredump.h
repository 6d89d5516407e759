/*
 * The tables of a GPU core dump as plain structs. The format is an ELF64 file, OSABI 0x33, machine 0xBE, whose sections are
 * tables of rows; sh_link of a section names the section of the parent's table and sh_info the row in it. Every row type has
 * grown with the drivers: sh_entsize is the stride, and a field that a stride does not cover reads as 0.
 * Source of the numbers: rows read from an H100's dumps (driver 580.159); older and newer sizes from the debugger's public
 * headers.
 *
 * Ownership: struct coredump owns an index of its sections; what it hands out points into the dump. Pure; any thread.
 */
#ifndef CUFENCE_ANALYSIS_DUMP_COREDUMP_H
#define CUFENCE_ANALYSIS_DUMP_COREDUMP_H

#include "base/image.h"
#include "base/problem.h"

#include <cufence.h>

#define COREDUMP_MACHINE 0xBE

enum coredump_section_type {
    COREDUMP_MANAGED_MEMORY = 0x80000001u, /* no table: bytes at sh_addr, as the next */
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
    uint64_t name, type, sm_type; /* offsets in the dump's string table */
    uint32_t index, pci_bus, pci_device, sm_major, sm_minor;
};

struct coredump_context {
    uint64_t id;
    uint32_t device, tid;
};

struct coredump_module {
    uint64_t handle;
};

struct coredump_grid {
    uint64_t id, context, entry, module, parameters_at;
    uint32_t grid[3], block[3], cluster[3], tid;
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
    uint32_t id, valid_lanes, active_lanes, error_pc_valid;
};

struct coredump_lane {
    uint64_t pc; /* virtual, as the error PC is */
    uint32_t lane, thread[3], exception;
};

struct coredump_meta {
    uint32_t driver_major, driver_minor;
};

struct coredump {
    struct image image;
    struct coredump_child *children; /* every section with a parent, sorted by parent, row, type, section */
    size_t child_count;
    struct span strings; /* empty if there are none */
    /* Set by coredump_open_part() only. */
    uint64_t claimed;     /* size of the dump according to its headers */
    int are_headers_lost; /* tables were recognised by their content: see remains.h */
    Elf64_Shdr *found;    /* headers of those tables; NULL if the file's own are used */
};

/* A place in a table. Section 0 means: none. */
struct coredump_place {
    uint32_t section;
    uint32_t row;
};

/* Errors: CORRUPT, UNSUPPORTED (a table whose rows are smaller than the first known version's), OUT_OF_MEMORY.
 * coredump_close() afterwards, also on an error. */
cufence_status coredump_open(const void *bytes, size_t size, struct coredump *dump, struct problem *problem);
void coredump_close(struct coredump *dump);

/* The same for a dump that may be truncated: it opens with the tables that are complete and can be found. A missing table
 * proves nothing. Returns CORRUPT also if not even a device is left. */
cufence_status coredump_open_part(const void *bytes, size_t size, struct coredump *dump, struct problem *problem);
int coredump_is_truncated(const struct coredump *dump);

/* The next section of `type` after section `after` (0: from the start), 0 if there is none. */
uint32_t coredump_next(const struct coredump *dump, enum coredump_section_type type, uint32_t after);

/* How many whole rows section `section` has; 0 if it is no table of `type`. */
uint32_t coredump_rows(const struct coredump *dump, uint32_t section, enum coredump_section_type type);

/* Reads a row into `row`, the struct of `type` above; 1 if there is such a row. */
int coredump_row(const struct coredump *dump, enum coredump_section_type type, struct coredump_place place, void *row);

/* The row that a section belongs to; section 0 unless that is a row of a table of `type`. */
struct coredump_place coredump_parent(const struct coredump *dump, uint32_t section, enum coredump_section_type type);

/* The (first) section of `type` that belongs to a row, 0 if there is none. */
uint32_t coredump_child(const struct coredump *dump, struct coredump_place parent, enum coredump_section_type type);

/* Reads the first numbers of the u32[] section of `type` that belongs to a row: registers, predicates. Returns how many, at
 * most `max`. */
size_t coredump_words(const struct coredump *dump, struct coredump_place owner, enum coredump_section_type type,
                      uint32_t *words, size_t max);

/* The bytes of a section; empty if it lies outside of the dump. */
struct span coredump_content(const struct coredump *dump, uint32_t section);

/* The compute capability of a device, 90 for 9.0; 0 if it is not known. */
unsigned coredump_compute(const struct coredump *dump, struct coredump_place device);

/* A string of the dump's table, "" if there is none at that offset. */
const char *coredump_string(const struct coredump *dump, uint64_t offset);

#endif
