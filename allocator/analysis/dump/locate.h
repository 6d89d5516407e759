/*
 * Maps a PC in a core dump to kernel, source line and decoded instruction. Caches the results, because the warps of a faulting
 * kernel share a few PCs.
 *
 * Ownership: strings and nodes are in the given memory. A locator may be used by one thread only.
 */
#pragma once

#include "coredump.h"
#include "analysis/sass/sass.h"
#include "json/json_memory.h"

/* Maximum number of PCs per dump. A fault has one to a few; the limit bounds the work on a damaged dump. */
#define LOCATE_LIMIT 64

/* What an address is computed from: the base's two halves; the pair of uniform registers. */
enum { KEPT_LOW = 1, KEPT_HIGH = 2, KEPT_UNIFORM = 4 };

/* What is left at a later PC of what an access's address was computed from. */
struct location_kept {
    /* Of an address computed from the registers: EXACT if no instruction executed in between can have changed them, DERIVED if
     * one may have, NOT if one certainly has. A faulting load has written its target, so `LDG R2, [R2]` gives NOT. */
    enum certainty certainty;
    int is_joined; /* it would be EXACT, but the lane may have come to its PC without the access, or gone round a loop since */
    int are_predicates_sure; /* they are certainly unchanged */
    unsigned parts; /* which registers certainly still have their values: KEPT_LOW and so on; 0 if execution may have taken
                       another path than straight on from the access */
};

/* What locate_kept() has found: for the last PC, and for all that are behind a branch. */
struct location_memo {
    int has_last, has_lost;
    uint64_t last_pc;
    struct location_kept last, lost;
};

struct location {
    struct location *next;
    uint64_t pc, module; /* as asked for */
    const char *kernel;  /* demangled; NULL if no function contains the PC */
    const char *symbol;
    uint64_t kernel_offset; /* of the instruction in the compiler's code */
    uint64_t kernel_start;
    int is_kernel;           /* not a function that was compiled separately */
    struct span kernel_code; /* from kernel_start on */
    const char *file;        /* NULL if unknown */
    int line;
    uint64_t joined_at;  /* the first PC behind the access that a branch leads to */
    uint64_t held_until; /* behind an access that was moved to be held: a lane that made it is in front of this PC; else 0 */
    struct span code;    /* of the innermost function, from code_start on; empty if unknown */
    uint64_t code_start;
    int has_access; /* `access` is decoded */
    struct sass_access access;
    int has_bulk; /* `bulk` is decoded */
    struct sass_bulk bulk;
    struct address_source source; /* of the access's address */
    struct sass_instruction instruction;
    const char *text; /* of the instruction; NULL if not decoded */
    enum access_kind kind;
    struct location_memo *memo;
};

struct locator {
    const struct coredump *dump;
    struct json_memory *memory;
    struct location *found;
    unsigned count;
};

/* Returns what is at `pc` on a device. `module`: handle of the module to search first, 0 for none; `sm`: compute capability.
 * Returns NULL if out of host memory; an empty location if nothing is known or the limit is reached. */
const struct location *locate(struct locator *locator, uint64_t pc, struct coredump_ref device, uint64_t module, unsigned sm);

/* lane_pc: of a lane that has made the access. */
struct location_kept locate_kept(const struct location *location, uint64_t lane_pc);
