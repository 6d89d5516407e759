/*
 * SASS: the 128-bit instructions of sm_70 and later, as far as a faulting access needs them: what it does, how many bytes a
 * lane, and where its address comes from.
 * Source of the encodings: ptxas 13.0's code for sm_75, 80, 86, 90, 100 and 120, read with nvdisasm 13.5, and single bits
 * flipped in it.
 *
 * Thread safety: pure.
 */
#ifndef CUFENCE_ANALYSIS_SASS_SASS_H
#define CUFENCE_ANALYSIS_SASS_SASS_H

#include "analysis/dump/evidence.h"

#include <stddef.h>
#include <stdint.h>

#define SASS_INSTRUCTION_BYTES 16
#define SASS_RZ 255u

struct sass_instruction {
    uint64_t low, high;
};

/* A memory access outside of the shared and local spaces. */
struct sass_access {
    enum access_kind kind;
    unsigned bytes;     /* per lane; 0 if the encoding of the width is unknown */
    unsigned predicate; /* 7: always */
    int is_negated;     /* the lane takes part if the predicate is false */
    unsigned base;      /* register, SASS_RZ for none */
    int is_base_wide;   /* base is a pair of registers */
    int uniform;        /* pair of uniform registers to add, -1 for none */
    int64_t immediate;
    char text[64]; /* "STG.E.128 [R2.64+0x10], R4" */
};

/* Reads an instruction; the caller has 16 bytes at `bytes`. */
struct sass_instruction sass_load(const uint8_t *bytes);

/* 1 if `instruction` is an access of a known form on compute capability `sm` (90 for 9.0). Class-only knowledge (bulk copies,
 * textures) is sass_access_kind()'s. */
int sass_decode(struct sass_instruction instruction, unsigned sm, struct sass_access *access);

/* Name and kind of an access whose address cannot be had from registers (TMA, textures, surfaces); NULL for anything else. */
const char *sass_class(struct sass_instruction instruction, enum access_kind *kind);

/* Name of an instruction that raises exceptions which are not about an address: traps, and what takes a mask of lanes; NULL for
 * anything else. */
const char *sass_thrower(struct sass_instruction instruction);

/* The address for one lane. 1 if all registers it needs are among those given (`registers` u32[], `uniforms` u32[]). */
int sass_address(const struct sass_access *access, const uint32_t *registers, size_t register_count, const uint32_t *uniforms,
                 size_t uniform_count, uint64_t *address);

/* What an address is computed from, as far as it has kept its value. */
enum { SASS_LOW = 1, SASS_HIGH = 2, SASS_UNIFORM = 4 }; /* the base's two halves; the pair of uniform registers */

/* The halves of the address that follow from what is in `kept`: a mask of the bits of *address that are known. What is added
 * to a low half that is not known may carry, so then the high one is known only if nothing is. */
uint64_t sass_address_halves(const struct sass_access *access, unsigned kept, const uint32_t *registers, size_t register_count,
                             const uint32_t *uniforms, size_t uniform_count, uint64_t *address);

/* What an instruction may change; conservative: 1 when unsure. */
int sass_writes_register(struct sass_instruction instruction, unsigned first, unsigned count);
int sass_writes_uniform(struct sass_instruction instruction);
int sass_writes_uniform_predicate(struct sass_instruction instruction);
int sass_writes_predicate(struct sass_instruction instruction);

/* 1 if what the instruction writes is known, and not only feared. */
int sass_is_known(struct sass_instruction instruction);

/* 1 if execution may go on elsewhere than at the next instruction; conservative. */
int sass_branches(struct sass_instruction instruction);

#endif
