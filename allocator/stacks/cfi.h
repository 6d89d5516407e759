/*
 * Unwinds one frame with a module's call frame information: .eh_frame, found through the binary search table in .eh_frame_hdr.
 * x86-64 and AArch64, each on any machine. Pure; damaged tables or stacks never cause reads outside the given memory.
 *
 * Supports what gcc, clang, their assemblers and glibc write: versions 1 and 3, augmentations zR, zP, zL, zS, and zB and zG on
 * AArch64, the DWARF instructions with rules for the CFA and for registers, and the expressions of PLT entries, realigned
 * stacks and signal trampolines. Anything else ends the walk.
 *
 * Sources: the System V ABI's supplement for x86-64, section 3.7 (register numbers); DWARF for the Arm 64-bit Architecture
 * (AADWARF64), sections 4.1 and 4.4 to 4.7; the Linux Standard Base, Core, sections 10.5 and 10.6 (.eh_frame, .eh_frame_hdr);
 * DWARF 5, sections 2.5 and 6.4.
 */
#ifndef CUFENCE_STACKS_CFI_H
#define CUFENCE_STACKS_CFI_H

#include "base/reader.h"

#include <stddef.h>
#include <stdint.h>

/* Readable bytes, and the address that the tables use for them. */
struct cfi_bytes {
    uint64_t address;
    const uint8_t *bytes;
    size_t size;
};

/*
 * DWARF register numbers. A frame has its PC as one more register: on x86-64 that is the column of the return address, on
 * AArch64 a number that the tables do not use, since its return address has the column of the link register.
 */
enum { CFI_RBX = 3, CFI_RBP = 6, CFI_RSP = 7, CFI_R12 = 12, CFI_R15 = 15, CFI_RIP = 16 };
enum { CFI_X19 = 19, CFI_X29 = 29, CFI_X30 = 30, CFI_SP = 31, CFI_PC = 32, CFI_REGISTERS };
#define CFI_BIT(reg) (UINT64_C(1) << (reg))

/* What differs between the processors. */
struct cfi_abi {
    uint8_t registers, sp, fp, pc; /* their number, and which they are */
    uint8_t return_column;         /* of the return address in the tables */
    uint64_t preserved;            /* bit n: a function leaves register n to its caller as it was */
    uint64_t address_bits;         /* of a return address: the others may be its pointer authentication code */
};
extern const struct cfi_abi cfi_x86_64, cfi_aarch64;

/* This machine's. Constants, so that a compiler sees through them. */
#if defined(__x86_64__)
#define CFI_HOST cfi_x86_64
enum { CFI_HOST_LINKS = 0 };
#elif defined(__aarch64__)
#define CFI_HOST cfi_aarch64
enum { CFI_HOST_LINKS = 1 }; /* a call leaves the return address in a register, and the callee saves it where it likes */
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

struct cfi_frame {
    uint64_t registers[CFI_REGISTERS];
    uint64_t known;     /* bit n: registers[n] is known */
    int is_interrupted; /* the PC is the instruction interrupted by a signal, not a return address */
};

enum cfi_result {
    CFI_STEPPED,  /* *frame is now the caller's */
    CFI_NO_ENTRY, /* the module has no entry for the frame's code; *frame is unchanged */
    CFI_ENDED,    /* the outermost frame, a frame whose caller is not on the stack, or invalid tables */
};

/* `stack` holds the words from the innermost frame's stack pointer upwards. Requires the PC of *frame to be known, and the
 * stack pointer, which on AArch64 may be unknown where the code keeps a frame pointer: its register is then a lower bound. */
enum cfi_result cfi_step(const struct cfi_module *module, const struct cfi_bytes *stack, struct cfi_frame *frame);

/*
 * How to get from a frame to its caller's with nothing but the stack and the frame pointer: the CFA is where the caller's frame
 * begins. Offsets are in words of 8 bytes.
 */
enum cfi_base {
    CFI_NOWHERE, /* the outermost frame, or a rule that needs more */
    CFI_FROM_SP, /* CFA = sp + cfa_words */
    CFI_FROM_FP, /* CFA = fp + cfa_words */
    CFI_AT_FP    /* CFA = the word at fp + cfa_words: a function that has realigned its stack */
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

/* The rule for the code at `pc`. CFI_NOWHERE if there is none. */
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

/* Returns a reader for the bytes from `address` on; its position is the address. Broken if `address` is outside the bytes. */
struct reader cfi_read(const struct cfi_bytes *bytes, uint64_t address);

/* Returns 0 if there is no valid entry for `pc`; *entry is then undefined. */
int cfi_find_entry(const struct cfi_module *module, uint64_t pc, struct cfi_entry *entry);

#endif
