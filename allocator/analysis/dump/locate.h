/*
 * From a PC of a core dump to what runs there: kernel, source line and decoded instruction. Answers are kept, because the
 * warps of a faulting kernel share a few PCs.
 *
 * Ownership: strings and nodes live in the scratch memory that is given. One locator belongs to one thread.
 */
#ifndef CUFENCE_ANALYSIS_DUMP_LOCATE_H
#define CUFENCE_ANALYSIS_DUMP_LOCATE_H

#include "coredump.h"
#include "analysis/sass/sass.h"
#include "scratch.h"

/* PCs that are looked up in one dump. A fault has one to a few; the limit bounds the work on a damaged dump. */
#define LOCATE_LIMIT 64

struct location {
    struct location *next;
    uint64_t pc;
    const char *kernel; /* demangled; NULL if no function holds the PC */
    const char *symbol;
    uint64_t kernel_offset;
    uint64_t kernel_start;
    int is_kernel;           /* and not a function that was compiled on its own */
    struct span kernel_code; /* from kernel_start on */
    const char *file;        /* NULL if not known */
    int line;
    struct span code; /* of the innermost function, from code_start on; empty if not known */
    uint64_t code_start;
    int has_access; /* `access` is decoded */
    struct sass_access access;
    struct address_source source; /* of its address */
    struct sass_instruction instruction;
    const char *text; /* of the instruction; NULL if it was not decoded */
    enum access_kind kind;
};

struct locator {
    const struct coredump *dump;
    struct scratch *scratch;
    struct location *found;
    unsigned count;
};

/* What is at `pc` on a device. `module` is the handle of the module to look in first, 0 for none; `sm` the compute capability.
 * NULL when the host is out of memory; an empty location if nothing is known or the limit is reached. */
const struct location *locate(struct locator *locator, uint64_t pc, struct coredump_place device, uint64_t module, unsigned sm);

/*
 * How sure an address is that is computed from registers at `lane_pc` for an access at the location: EXACT if nothing that
 * ran between the two can have changed them, DERIVED if something may have, NOT if an instruction there writes them: then the
 * registers hold something else. A load that faults has written its target, so `LDG R2, [R2]` gives NOT.
 * *are_predicates_sure says whether predicates are still the same.
 */
enum certainty locate_certainty(const struct location *location, uint64_t lane_pc, int *are_predicates_sure);

/* Which of the registers that the access computes its address from surely hold at `lane_pc` what they held then: SASS_LOW and
 * so on. 0 where execution may have gone another way than straight on from the access. */
unsigned locate_kept(const struct location *location, uint64_t lane_pc);

#endif
