/*
 * Says how to get from a frame to its caller's, by a module's call frame information: .eh_frame, found through the binary
 * search table in .eh_frame_hdr. x86-64 and AArch64, each on any machine. Pure; damaged tables never cause reads outside the
 * given memory.
 *
 * Supports what gcc, clang, their assemblers and glibc write: versions 1 and 3, augmentations zR, zP, zL, and zB and zG on
 * AArch64, the DWARF instructions with rules for the CFA and for registers, and the expressions of realigned stacks. Anything
 * else, such as a signal's trampoline, ends the walk.
 *
 * Not libunwind (1.6.2): its cached walk is about as fast, but it keeps a pipe in the program to try whether memory can be
 * read. A program that closes all descriptors, as daemons do, and opens files of its own then has a byte read from one of them,
 * and two of them closed.
 *
 * Sources: the System V ABI's supplement for x86-64, section 3.7 (register numbers); DWARF for the Arm 64-bit Architecture
 * (AADWARF64), sections 4.1 and 4.4 to 4.7; the Linux Standard Base, Core, sections 10.5 and 10.6 (.eh_frame, .eh_frame_hdr);
 * DWARF 5, sections 2.5 and 6.4.
 */
#pragma once

#include "base/reader.h"

#include <stddef.h>
#include <stdint.h>

/* Readable bytes, and the address that the tables use for them. */
struct cfi_bytes {
    uint64_t address;
    const uint8_t *bytes;
    size_t size;
};

/* DWARF register numbers. On x86-64 the return address has a column of its own, on AArch64 that of the link register. */
enum { CFI_RBX = 3, CFI_RBP = 6, CFI_RSP = 7, CFI_R12 = 12, CFI_RIP = 16 };
enum { CFI_X19 = 19, CFI_X29 = 29, CFI_X30 = 30, CFI_SP = 31, CFI_REGISTERS };

/* What differs between the processors. */
struct cfi_abi {
    uint8_t sp, fp, return_column; /* which registers they are */
    uint8_t has_link;              /* a call leaves the return address in a register, and the callee saves it where it likes */
};
extern const struct cfi_abi cfi_x86_64, cfi_aarch64;

/* This machine's. */
#if defined(__x86_64__)
#define CFI_HOST cfi_x86_64
enum { CFI_HOST_LINKS = 0 };
#elif defined(__aarch64__)
#define CFI_HOST cfi_aarch64
enum { CFI_HOST_LINKS = 1 };
#else
#error "name this machine's registers"
#endif

/* A return address without its authentication code. User space ends at 2^48, or is asked for what lies above. */
#define CFI_AARCH64_ADDRESS ((UINT64_C(1) << 48) - 1)
static inline uint64_t cfi_host_address(uint64_t address)
{
    return CFI_HOST_LINKS ? address & CFI_AARCH64_ADDRESS : address;
}

#define CFI_SEGMENTS 16

struct cfi_module {
    const struct cfi_abi *abi;
    struct cfi_bytes header; /* .eh_frame_hdr */
    struct cfi_bytes segments[CFI_SEGMENTS];
    size_t segment_count; /* .eh_frame is in one of these */
};

/*
 * How to get from a frame to its caller's with nothing but the stack and the frame pointer: the CFA is where the caller's frame
 * begins. Offsets are in words of 8 bytes.
 */
enum cfi_base {
    CFI_NOWHERE,  /* the outermost frame, or a rule that needs more */
    CFI_NO_ENTRY, /* nothing is known about the code. The other fields are as in code that keeps a frame pointer on x86-64 */
    CFI_FROM_SP,  /* CFA = sp + cfa_words */
    CFI_FROM_FP,  /* CFA = fp + cfa_words */
    CFI_AT_FP     /* CFA = the word at fp + cfa_words: a function that has realigned its stack */
};
enum cfi_fp { /* the caller's frame pointer */
              CFI_FP_SAME,
              CFI_FP_AT_CFA, /* the word at CFA + fp_words */
              CFI_FP_AT_FP,  /* the word at fp + fp_words */
              CFI_FP_LOST
};
struct cfi_rule {
    uint8_t base, fp; /* enum cfi_base, enum cfi_fp */
    int16_t cfa_words, fp_words;
    int16_t return_words; /* the return address is the word at CFA + return_words: -1 on x86-64 */
};

/* The rule for code without call frame information. */
extern const struct cfi_rule cfi_no_entry;

struct cfi_rule cfi_rule_at(const struct cfi_module *module, uint64_t pc);

/* ---- cfi_entry.c: finds the information for an address in the code and decodes its two entries ---- */

/* A function's frame description entry, and the common information entry that it refers to. */
struct cfi_entry {
    uint64_t code_factor;
    int64_t data_factor;
    uint64_t return_register;
    unsigned encoding; /* of pointers */
    int has_augmentation;
    int is_signal;             /* the code is a signal trampoline */
    uint64_t start;            /* of the code */
    struct reader common, own; /* instructions: execute the common entry's first */
};

/* Returns 0 if there is no valid entry for `pc`; *entry is then undefined. */
int cfi_find_entry(const struct cfi_module *module, uint64_t pc, struct cfi_entry *entry);
