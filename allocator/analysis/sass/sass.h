/*
 * Decodes SASS, the 128-bit instructions of sm_70 and later, as far as a faulting access requires it: its kind, its bytes per
 * lane, and the source of its address.
 * Source of the encodings: code of ptxas 13.0 and of the libraries in docs/how-faults.md for sm_75 to 120, disassembled with
 * nvdisasm 13.5, also after flipping single bits.
 *
 * Pure.
 */
#pragma once

#include "analysis/dump/evidence.h"
#include "base/reader.h"

#include <stddef.h>
#include <stdint.h>

#define SASS_INSTRUCTION_BYTES 16
#define SASS_RZ 255u
#define SASS_SCHEDULE_AT 41 /* in the high word, from here on: when the instruction may start, and what it waits for */

struct sass_instruction {
    uint64_t low, high;
};

/* A memory access outside shared and local memory. */
struct sass_access {
    enum access_kind kind;
    unsigned bytes;     /* per lane; 0 if the encoding of the width is unknown */
    unsigned predicate; /* 7: always */
    int is_negated;     /* the lane performs the access if the predicate is false */
    int has_source; /* of copies to shared memory: a second predicate, without which the lane reads nothing and stores zeros */
    unsigned source;
    int is_source_negated;
    unsigned base;      /* register, SASS_RZ if none */
    int is_base_wide;   /* base is a register pair */
    int uniform;        /* pair of uniform registers to add, -1 if none */
    int is_uniform_low; /* only the first of the pair */
    int64_t immediate;
    char text[64]; /* "STG.E.128 [R2.64+0x10], R4" */
};

/* Reads an instruction; requires 16 bytes at `bytes`. */
struct sass_instruction sass_load(const uint8_t *bytes);

/* Returns 1 if `instruction` is an access of a known form on compute capability `sm` (90 for 9.0). For instructions of which
 * only the class is known (bulk copies, textures), use sass_class(). */
int sass_decode(struct sass_instruction instruction, unsigned sm, struct sass_access *access);

/* Sets *probe to a load from the same address, with the same predicate and schedule, that has no target. Returns 0 if there is
 * none: of stores, of bulk copies, and of accesses that may be to shared memory but aren't loads. */
int sass_probe(struct sass_instruction instruction, unsigned sm, struct sass_instruction *probe);

/* A copy by the unit for bulk copies (TMA): of a box of a tensor map, or of bytes in a row. All registers are uniform ones. */
struct sass_bulk {
    enum access_kind kind;
    unsigned dimensions;  /* of the map; 0: there is none */
    unsigned at;          /* a pair: the address of the map, or in global memory */
    unsigned coordinates; /* the first of as many as dimensions, innermost first; of the box's corner */
    unsigned size;        /* without a map: how many times 16 bytes */
    char text[64];        /* "UTMALDG.2D [UR8], [UR4]" */
};

/* Returns 1 if `instruction` is one, and not only between shared memories. */
int sass_bulk(struct sass_instruction instruction, struct sass_bulk *bulk);

/* Returns name and kind of an access whose address is not in registers (TMA, textures, surfaces); without a kind also the name
 * of an instruction that raises exceptions that are not about an address in global memory: accesses to local and shared memory,
 * traps, and instructions with a lane mask. NULL for any other instruction. */
const char *sass_class(struct sass_instruction instruction, enum access_kind *kind);

/* Computes one lane's address. Returns 1 if all required registers are given (`registers` u32[], `uniforms` u32[]). */
int sass_address(const struct sass_access *access, const uint32_t *registers, size_t register_count, const uint32_t *uniforms,
                 size_t uniform_count, uint64_t *address);

/* What an instruction may change; conservative: return 1 if unsure. */
int sass_writes_register(struct sass_instruction instruction, unsigned first, unsigned count);
int sass_writes_uniform(struct sass_instruction instruction);
int sass_writes_uniform_register(struct sass_instruction instruction, unsigned number, unsigned zero); /* zero: of URZ */
int sass_writes_predicate(struct sass_instruction instruction);
int sass_may_write_predicate(struct sass_instruction instruction, unsigned number); /* 0 to 6 */
int sass_may_write_uniform_predicate(struct sass_instruction instruction, unsigned number);

/* Returns 1 if [14:12], the predicate under which it executes, is a uniform one. */
int sass_has_uniform_guard(struct sass_instruction instruction);

/* Returns 1 if it is known what the instruction writes. */
int sass_is_known(struct sass_instruction instruction);

/* Returns 1 if execution may continue elsewhere than at the next instruction; conservative. */
int sass_branches(struct sass_instruction instruction);
